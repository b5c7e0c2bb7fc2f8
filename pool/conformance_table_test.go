package pool

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/udfgate/udfgate/codec"
)

// conformanceTables is the part of conformancePython with table functions, and
// those that ask who calls and count.
const conformanceTables = `
@udtf
def series(n: Optional[int]) -> Iterator[Optional[int]]:
    for i in range(n or 0):
        udfgate.counter("steps").add(1)
        yield i

@udtf
def endless(a: Optional[int]) -> Iterator[Optional[int]]:
    i = 0
    try:
        while True:
            udfgate.counter("steps").add(1)
            yield i
            i += 1
    finally:
        udfgate.counter("closed").add(1)

@udtf
def words(n: Optional[int]) -> Iterator[Optional[str]]:
    return ("é" + "x" * i for i in range(n))

@udtf
def parse(v: Optional[int]) -> Iterator[Optional[int]]:
    yield v
    if v == 8:
        yield "x"
    yield fail(v) + 1

@udtf
def wide(n: Optional[int]) -> Iterator[Optional[str]]:
    for _ in range(3):
        yield "x" * n

@udf
def who(key: Optional[str]) -> Optional[str]:
    c = udfgate.context()
    text = f"{c.call_id}/{c.batch} {c.principal} cancelled={str(c.cancelled()).lower()} cut=false"
    return text + "".join(" " + v for v in c.headers.get_all(key))

@udf
def tally(a: Optional[int]) -> Optional[int]:
    udfgate.counter(f"n_{a}").add(1)
    udfgate.counter("all").add(a)
    return fail(a)
`

// tabling is a table function that runs.
type tabling struct {
	*drive
	c      *chunk
	id     uint64
	counts map[string]int64 // with the last part
	steps  int64            // counted so far
	rows   int64            // answered so far
	status uint8            // of the last part
	failed []rowError       // what it ended with

	refuses bool // every NEED
}

// begin calls a table function over the columns.
func (d *drive) begin(name string, keeping bool, columns ...any) *tabling {
	d.t.Helper()
	c := d.chunk(name, d.hello.marshal(), 64, piece{columns: columns})
	c.keepsGoing = keeping
	id, call := d.callBytes(c, 0, d.out.Size())
	_, err := d.link.write(call)
	d.ok(err)
	return &tabling{drive: d, c: c, id: id}
}

// next sends NEXT.
func (x *tabling) next(flags uint32) {
	x.t.Helper()
	payload := le.AppendUint32(le.AppendUint32(le.AppendUint64(nil, uint64(time.Minute)), flags), 0)
	x.ok(x.link.send(frameNext, x.id, payload))
}

// counted reads the COUNTS that may precede a RESULT, whose frame it returns.
func (d *drive) counted(id uint64, refuses bool) (f frame, counts map[string]int64) {
	d.t.Helper()
	kinds := []frameType{frameResult, frameCounts}
	if refuses {
		kinds = append(kinds, frameNeed)
	}
	for {
		f = d.wantAny(id, kinds...)
		switch f.kind {
		case frameResult:
			return f, counts
		case frameNeed:
			d.ok(d.link.send(frameRefuse, id, le.AppendUint64(nil, uint64(d.out.Size()))))
			continue
		}
		if counts != nil {
			d.t.Error("COUNTS twice before a RESULT")
		}
		d.ok(json.Unmarshal(f.payload, &counts))
	}
}

// part reads the next part.
func (x *tabling) part() (p partOf) {
	x.t.Helper()
	f, counts := x.counted(x.id, x.refuses)
	r := &result{}
	x.ok(r.decodeFrom(f.payload))
	x.counts, x.steps = counts, x.steps+counts["steps"]
	s := &r.segments[0]
	if len(r.segments) != 1 || r.outArena != x.out.ID() || r.outBase != 0 || r.more && s.status != statusDone {
		x.t.Fatalf("got %+v", r)
	}
	p.last, x.status = !r.more, s.status
	for _, e := range s.errors {
		x.failed = append(x.failed, rowError{e.row, e.kind, []byte(string(e.class)), []byte(string(e.text)), nil})
	}
	if s.status != statusDone {
		return p
	}
	columns := codec.TableColumns{Values: &s.column, Rows: &s.second}
	if s.columns == 3 && x.c.keepsGoing {
		columns.Errors = &s.third
	} else if s.columns != 2 {
		x.t.Fatalf("want 2 columns, got %d", s.columns)
	}
	field, region := x.c.function.Result, x.out.Bytes()[r.outBase:r.outBase+r.outUsed]
	a, _, err := codec.TakeTable(field, s.rows, x.c.blockRows, columns, codec.RowRange{To: x.c.segments[0].hi}, region, codec.AnswerLimits{BytesMax: 1 << 30})
	x.ok(err)
	defer a.Release()
	last := p.last
	p = readPart(x.t, field.Type.Kind, a)
	p.last = last
	for i, e := range p.errors {
		if s, ok := e.(string); ok {
			p.errors[i] = lineText(s)
		}
	}
	x.rows += s.rows
	return p
}

// all reads part after part.
func (x *tabling) all() partOf {
	x.t.Helper()
	var parts []partOf
	for {
		parts = append(parts, x.part())
		if parts[len(parts)-1].last {
			return whole(parts)
		}
		x.next(0)
	}
}

func (d *drive) ruleTables() {
	for _, c := range []struct {
		name   string
		column any
		want   string
	}{
		{"series", []int64{2, 0, 3}, "[0 0 2 2 2] [0 1 0 1 2] []"},
		{"series", []int64{0, 0}, "[] [] []"},
		{"series", []any{int64(1), nil, int64(1)}, "[0 2] [0 0] []"},
		{"words", []int64{1, 2}, "[0 1 1] [é é éx] []"},
		{"words", []int64{0, 0}, "[] [] []"},
		{"parse", []int64{1, 2}, "[0 0 1 1] [1 2 2 3] []"},
	} {
		for _, keeping := range []bool{false, true} {
			x := d.begin(c.name, keeping, c.column)
			got := x.all()
			if s := fmt.Sprint(got.rows, got.values, got.errors); s != c.want {
				d.t.Errorf("%s%v: want %s, got %s, %+v", c.name, c.column, c.want, s, x.failed)
			}
			x.c.free()
		}
	}
	const n = 2500
	x := d.begin("series", false, []int64{n, 3})
	defer x.c.free()
	got := x.all()
	if len(got.values) != n+3 || x.steps != n+3 {
		d.t.Fatalf("want %d values, got %d; %d steps counted", n+3, len(got.values), x.steps)
	}
	for i, v := range got.values[:n] {
		if v != int64(i) || got.rows[i] != 0 {
			d.t.Fatalf("value %d: got %v of row %d", i, v, got.rows[i])
		}
	}
	d.alive()
}

// ruleTablePauses: the body goes no further than the part that it was asked
// for, and is closed when no other is wanted.
func (d *drive) ruleTablePauses() {
	for parts := 1; parts < 4; parts++ {
		x := d.begin("endless", false, []int64{1})
		for n := range parts {
			if n > 0 {
				x.next(0)
			}
			if p := x.part(); p.last || len(p.rows) == 0 || x.steps > x.rows+1 {
				d.t.Fatalf("part %d: %d rows, last %v, %d steps for %d rows in all", n, len(p.rows), p.last, x.steps, x.rows)
			}
		}
		rows := x.rows
		x.next(nextEnd)
		if p := x.part(); !p.last || x.rows != rows || x.status != statusDone || x.steps > rows+1 || x.counts["closed"] != 1 {
			d.t.Errorf("the end after %d parts: got %+v, status %d, %d steps for %d rows, counts %v", parts, p, x.status, x.steps, rows, x.counts)
		}
		x.c.free()
		d.alive()
	}
}

func (d *drive) ruleTableErrors() {
	x := d.begin("parse", true, []int64{1, 7, 8, 3})
	got := x.all()
	want := fmt.Sprint([]int{0, 0, 1, 1, 2, 2, 3, 3}, []any{1, 2, 7, nil, 8, nil, 3, 4}, []any{nil, nil, nil, badText, nil, xForInt, nil, nil})
	if s := fmt.Sprint(got.rows, got.values, got.errors); s != want {
		d.t.Errorf("keep going: want %s, got %s", want, s)
	}
	x.c.free()
	for v, class := range map[int64]string{7: "ValueError: bad literal:\n7", 8: "TypeError: result: wanted int64, got str 'x'"} {
		x := d.begin("parse", false, []int64{1, v, 3})
		x.all()
		if x.status != statusFailed || len(x.failed) == 0 || x.failed[0].row != 1 || string(x.failed[0].class)+": "+string(x.failed[0].text) != class {
			d.t.Errorf("%d: got status %d, %+v", v, x.status, x.failed)
		}
		x.c.free()
	}
	d.alive()
}

// ruleTableNeed: a part may need a larger arena, and be refused it.
func (d *drive) ruleTableNeed() {
	const n = outBytes + 1000
	x := d.begin("wide", false, []int64{n})
	want := int64(le.Uint64(d.want(frameNeed, x.id).payload))
	d.giveOut(x.id, max(want, 4*n)) // of all three, if they come in one part
	if got := x.all(); len(got.values) != 3 || got.values[2] != strings.Repeat("x", n) {
		d.t.Errorf("got %d values", len(got.values))
	}
	x.c.free()
	big := 2 * d.out.Size()
	x = d.begin("wide", false, []int64{big})
	defer x.c.free()
	d.want(frameNeed, x.id)
	x.refuses = true // once more for a part of fewer rows, if the worker likes
	d.ok(d.link.send(frameRefuse, x.id, le.AppendUint64(nil, uint64(d.out.Size()))))
	if p := x.part(); !p.last || x.status != statusTooLarge {
		d.t.Errorf("want status %d, got %d", statusTooLarge, x.status)
	}
	d.alive()
}

// ruleContext: who asks gets an answer, and nothing that a later call could see.
func (d *drive) ruleContext() {
	for _, name := range []string{"a", "b"} {
		c := d.chunk("who", d.hello.marshal(), 64, piece{columns: []any{[]string{"x-tenant"}}})
		id, call := d.callBytes(c, 0, d.out.Size())
		_, err := d.link.write(call)
		d.ok(err)
		f := d.answerContext(id, name)
		r := &result{}
		d.ok(r.decodeFrom(f.payload))
		d.equal("who", d.values(c, r, 0), []any{"17/3 " + name + " cancelled=true cut=false one " + name})
		c.free()
	}
	d.alive()
}

// answerContext answers every CONTEXT until the RESULT comes.
func (d *drive) answerContext(id uint64, name string) frame {
	d.t.Helper()
	for {
		f := d.wantAny(id, frameResult, frameContext)
		if f.kind == frameResult {
			return f
		}
		answer := fmt.Sprintf(`{"stream":17,"batch":3,"principal":%q,"headers":[["x-tenant","one"],["x-other",""],["x-tenant",%q]],"cancelled":true}`, name, name)
		if le.Uint32(f.payload) == contextCancelled {
			answer = `{"cancelled":true}`
		}
		d.ok(d.link.send(frameContext, id, []byte(answer)))
	}
}

func (d *drive) ruleCounts() {
	for _, c := range []struct {
		column []int64
		want   string
	}{
		{[]int64{1, 2, 2}, "map[all:5 n_1:1 n_2:2]"},
		{[]int64{3}, "map[all:3 n_3:1]"},
	} {
		chunk := d.chunk("tally", false, 64, piece{columns: []any{c.column}})
		id, call := d.callBytes(chunk, 0, d.out.Size())
		_, err := d.link.write(call)
		d.ok(err)
		if _, counts := d.counted(id, false); fmt.Sprint(counts) != c.want {
			d.t.Errorf("%v: want %s, got %v", c.column, c.want, counts)
		}
		chunk.free()
	}
	// What a failed call counted is not what the next one counted.
	d.failsWith("tally", []int64{7}, false, rowError{kind: errorRaised, class: []byte("ValueError"), text: []byte("bad literal:\n7")})
	d.alive()
}

// wantAny reads the next frame of the call, which must be of one of the kinds.
func (d *drive) wantAny(call uint64, kinds ...frameType) frame {
	d.t.Helper()
	for {
		f, err := d.link.read()
		if err == nil && f.call != call && f.kind != frameLog {
			err = errors.New("not the call's")
		}
		if err != nil {
			d.t.Fatalf("waiting for %v of call %d: %v, %v", kinds, call, f.kind, err)
		}
		for _, kind := range kinds {
			if f.kind == kind {
				return f
			}
		}
		switch {
		case f.kind == frameLog || f.kind == frameAST:
		case f.kind == frameData && d.private:
			d.ok(receiveData(f.payload, d.out.Bytes(), outRange{arena: d.out.ID(), limit: d.out.Size()}))
		default:
			d.t.Fatalf("want %v of call %d, got %v", kinds, call, f.kind)
		}
	}
}
