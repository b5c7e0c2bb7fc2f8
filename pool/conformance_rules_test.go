package pool

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// forms are the forms in which text can be sent to the worker.
func (d *drive) forms() map[string]bool {
	forms := map[string]bool{"arrow": false}
	if d.hello.marshal() {
		forms["marshal"] = true
	}
	return forms
}

func (d *drive) ruleValues() {
	wide := []any{int64(1), nil, int64(-1 << 62), int64(0)}
	d.equal("add", d.run("add", false, 4096, piece{columns: []any{wide, []int64{1, 2, 3, 4}}})[0],
		[]any{int64(2), nil, int64(-1<<62 + 3), int64(4)})
	d.equal("even", d.run("even", false, 4096, piece{columns: []any{[]any{int64(1), nil, int64(4)}}})[0], []any{false, nil, true})
	for name, marshal := range d.forms() {
		long := strings.Repeat("long ", 100)
		in := []any{"a", nil, "", "grüße", long}
		want := []any{"A!", nil, "!", strings.ToUpper("grüß") + "E!", strings.ToUpper(long) + "!"}
		if d.hello.Runtime == "python" { // whose upper case of ß has two letters
			want[3] = "GRÜSSE!"
		}
		d.equal("shout as "+name, d.run("shout", marshal, 8, piece{columns: []any{in}})[0], want)
	}
}

// many is a column of n texts, every seventh null, and what shout makes of it.
func many(n int) (in, want []any) {
	in, want = []any{"first"}, []any{"FIRST!"}
	for i := 1; i < n; i++ {
		if i%7 == 0 {
			in, want = append(in, nil), append(want, nil)
			continue
		}
		s := fmt.Sprintf("text %d", i)
		in, want = append(in, s), append(want, strings.ToUpper(s)+"!")
	}
	return in, want
}

func (d *drive) ruleRowRanges() {
	in, want := many(1000)
	ints, sums := make([]any, 1000), make([]any, 1000)
	for i := range ints {
		ints[i], sums[i] = int64(i), int64(2*i)
		if i%5 == 4 {
			ints[i], sums[i] = nil, nil
		}
	}
	for _, r := range []struct{ lo, hi int64 }{{0, 1000}, {8, 9}, {8, 1000}, {64, 200}, {992, 1000}, {0, 1}} {
		for name, marshal := range d.forms() {
			d.equal(fmt.Sprintf("shout %v as %s", r, name),
				d.run("shout", marshal, 64, piece{[]any{in}, r.lo, r.hi})[0], want[r.lo:r.hi])
		}
		d.equal(fmt.Sprintf("add %v", r), d.run("add", false, 64, piece{[]any{ints, ints}, r.lo, r.hi})[0], sums[r.lo:r.hi])
	}
}

func (d *drive) ruleSegments() {
	in, want := many(300)
	for name, marshal := range d.forms() {
		got := d.run("shout", marshal, 64, piece{columns: []any{in}}, piece{[]any{in}, 8, 80}, piece{columns: []any{[]string{"x"}}})
		d.equal("segment 0 as "+name, got[0], want)
		d.equal("segment 1 as "+name, got[1], want[8:80])
		d.equal("segment 2 as "+name, got[2], []any{"X!"})
	}
}

func (d *drive) ruleNoColumns() {
	d.equal("seven", d.run("seven", false, 4096, piece{columns: []any{rows(3)}})[0], []any{int64(7), int64(7), int64(7)})
}

// ruleQueuedCalls: calls that arrive while the worker is busy wait in the
// socket, and are answered in order, each where it was told to.
func (d *drive) ruleQueuedCalls() {
	half := d.out.Size() / 2
	first := d.chunk("add", false, 64, piece{columns: []any{[]int64{1, 2}, []int64{3, 4}}})
	defer first.free()
	second := d.chunk("shout", d.hello.marshal(), 64, piece{columns: []any{[]string{"a", "b"}}})
	defer second.free()
	id1, call1 := d.callBytes(first, 0, half)
	id2, call2 := d.callBytes(second, half, half)
	_, err := d.link.write(append(call1, call2...))
	d.ok(err)
	r1 := d.result(id1, first, 0)
	d.equal("first", d.values(first, r1, 0), []any{int64(4), int64(6)})
	r2 := d.result(id2, second, half)
	d.equal("second", d.values(second, r2, 0), []any{"A!", "B!"})
}

func (d *drive) rulePieces() {
	c := d.chunk("add", false, 64, piece{columns: []any{[]int64{1}, []int64{3}}})
	defer c.free()
	id, call := d.callBytes(c, 0, d.out.Size())
	for _, b := range call {
		_, err := d.link.write([]byte{b})
		d.ok(err)
	}
	d.equal("add", d.values(c, d.result(id, c, 0), 0), []any{int64(4)})
}

func (d *drive) ruleUnknownFrames() {
	for _, size := range []int{0, 5, 200_000} {
		_, err := d.link.write(goFrameBytes(999, flagSkippable, 0, make([]byte, size)))
		d.ok(err)
		d.alive()
	}
}

func (d *drive) ruleErrors() {
	column := make([]int64, 100)
	column[50] = 7
	d.fails(column, rowError{row: 50, kind: errorRaised, class: []byte("ValueError"), text: []byte("bad literal:\n7")})
}

func (d *drive) ruleMisfits() {
	column := make([]int64, 100)
	column[90], column[95] = 8, 7
	d.fails(column, rowError{row: 90, kind: errorMisfit, class: []byte("TypeError"), text: []byte("result: wanted int64, got str 'x'")})
}

// fails runs fail over rows 40 on: rows of errors are those of the batch.
func (d *drive) fails(column []int64, want rowError) {
	d.t.Helper()
	c := d.chunk("fail", false, 16, piece{[]any{column}, 40, 100})
	defer c.free()
	id, call := d.callBytes(c, 0, d.out.Size())
	_, err := d.link.write(call)
	d.ok(err)
	s := d.result(id, c, 0).segments[0]
	if s.status != statusFailed || len(s.errors) == 0 {
		d.t.Fatalf("want a failed segment, got %+v", s)
	}
	got := s.errors[0]
	if got.row != want.row || got.kind != want.kind || string(got.class) != string(want.class) || string(got.text) != string(want.text) {
		d.t.Errorf("want row %d, kind %d, %s: %s; got row %d, kind %d, %s: %s", want.row, want.kind, want.class, want.text, got.row, got.kind, got.class, got.text)
	}
	d.alive()
}

// needing calls big with more than the output arena holds; the NEED is read.
func (d *drive) needing(n int64) (*chunk, uint64, int64) {
	d.t.Helper()
	c := d.chunk("big", false, 8, piece{columns: []any{[]int64{3, n, 0}}})
	id, call := d.callBytes(c, 0, d.out.Size())
	_, err := d.link.write(call)
	d.ok(err)
	want := int64(le.Uint64(d.want(frameNeed, id).payload))
	if want <= d.out.Size() || want > 2*n+outBytes {
		d.t.Fatalf("NEED for a text of %d bytes: got %d", n, want)
	}
	return c, id, want
}

func (d *drive) ruleNeed() {
	const n = outBytes + 1000
	c, id, want := d.needing(n)
	defer c.free()
	d.giveOut(id, want)
	d.equal("big", d.values(c, d.result(id, c, 0), 0), []any{"xxx", strings.Repeat("x", n), ""})
	d.alive()
}

func (d *drive) ruleRefuse() {
	c, id, _ := d.needing(outBytes + 1000)
	defer c.free()
	d.ok(d.link.send(frameRefuse, id, le.AppendUint64(nil, outBytes)))
	if got := d.result(id, c, 0).segments[0].status; got != statusTooLarge {
		d.t.Errorf("want status %d, got %d", statusTooLarge, got)
	}
	d.alive()
}

// ruleArenas: arenas come and go between calls.
func (d *drive) ruleArenas() {
	d.alive()
	fill, err := d.slots.Get(4<<20 - 64) // all of the first arena
	d.ok(err)
	defer fill.Release()
	d.alive() // its columns lie in a second arena
	if len(d.sent) < 2 {
		d.t.Fatalf("want a second arena, got %v", d.sent)
	}
	for range 2 {
		d.slots.Trim(0)
		last := d.sent[len(d.sent)-1]
		d.ok(d.link.sendDrop(last))
		d.alive()
		if d.sent[len(d.sent)-1] == last {
			d.t.Fatalf("want a new arena, got %v", d.sent)
		}
	}
}

// ruleRecode: asked to, the worker encodes the same answer once more.
func (d *drive) ruleRecode() {
	if !d.hello.marshal() {
		return // only a worker that offers marshal receives RECODE
	}
	in, want := many(200)
	c := d.chunk("shout", true, 64, piece{columns: []any{in}})
	defer c.free()
	id, call := d.callBytes(c, 0, d.out.Size())
	_, err := d.link.write(call)
	d.ok(err)
	d.equal("before", d.values(c, d.result(id, c, 0), 0), want)
	d.ok(d.link.send(frameRecode, id, nil))
	d.equal("after", d.values(c, d.result(id, c, 0), 0), want)
	d.alive()
}

func (d *drive) ruleStats() {
	d.alive()
	d.ok(d.link.send(frameStats, 9, nil))
	var stats struct {
		Peak  *int64 `json:"peak_bytes"`
		Calls *int64 `json:"calls"`
		Rows  *int64 `json:"rows"`
	}
	d.ok(json.Unmarshal(d.want(frameStats, 9).payload, &stats))
	if stats.Peak == nil || stats.Calls == nil || stats.Rows == nil || *stats.Calls != 1 {
		d.t.Errorf("want peak_bytes, calls 1 and rows, got %+v", stats)
	}
}

// ruleOutput: what a body prints is no part of the protocol.
func (d *drive) ruleOutput() {
	d.equal("spam", d.run("spam", false, 64, piece{columns: []any{[]int64{5}}})[0], []any{int64(5)})
}

// ruleStacks: SIGUSR1 makes the worker write its stacks, and changes nothing.
func (d *drive) ruleStacks() {
	c := d.chunk("sleep", false, 64, piece{columns: []any{[]int64{200}}})
	defer c.free()
	id, call := d.callBytes(c, 0, d.out.Size())
	_, err := d.link.write(call)
	d.ok(err)
	eventually(d.t, "the body runs", func() bool { return strings.Contains(d.stderr.tail(ringBytes), "asleep") })
	mark := d.stderr.mark()
	d.ok(d.process.Interrupt())
	d.equal("sleep", d.values(c, d.result(id, c, 0), 0), []any{int64(200)})
	if len(d.stderr.since(mark)) == 0 {
		d.t.Log("the worker writes no stacks: timeouts will not say where it was")
	}
}

func (d *drive) ruleUnknownEnds() {
	_, _ = d.link.write(goFrameBytes(999, 0, 0, nil))
	d.ended()
}

func (d *drive) ruleLongEnds() {
	b := goFrameBytes(uint16(frameCall), 0, 1, nil)
	le.PutUint32(b, frameBytesMax+1)
	_, _ = d.link.write(b)
	d.ended()
}

func (d *drive) ruleUnexpectedEnds() {
	_, _ = d.link.write(goFrameBytes(uint16(frameHello), 0, 0, []byte("{}")))
	d.ended()
}

func (d *drive) ruleEndOfFile() {
	d.alive()
	d.ok(d.link.conn.CloseWrite())
	from := time.Now()
	d.ended()
	if took := time.Since(from); took > soon/2 {
		d.t.Errorf("want it ended at once, took %v", took)
	}
}
