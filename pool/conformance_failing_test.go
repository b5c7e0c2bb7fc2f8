package pool

import (
	"errors"
	"fmt"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/codec"
)

// conformanceFailing is the part of conformancePython with functions whose rows
// fail, and those of mode list.
const conformanceFailing = `
@udf
def whole(a: Optional[int]) -> int:
    return fail(a) if a == 7 else a

@udf
def label(a: Optional[int]) -> str:
    if a is None or a == 8:
        return a
    return "é" + "x" * fail(a)

@udf(mode="list")
def list_add(a: Optional[int], b: Optional[int]) -> Optional[int]:
    return [add(x, y) for x, y in zip(a, b)]

@udf(mode="list")
def list_fail(a: Optional[int]) -> Optional[int]:
    return [fail(x) for x in a if x != 9]

@udf(mode="list", elementwise=True)
def list_parse(a: Optional[int]) -> Optional[int]:
    return [fail(x) for x in a]
`

// kept calls a function that is to keep going, and returns the values of each
// segment and the error texts of its rows, nil where the segment has none.
func (d *drive) kept(name string, blockRows int, pieces ...piece) (values, failed [][]any) {
	d.t.Helper()
	c := d.chunk(name, false, blockRows, pieces...)
	defer c.free()
	c.keepsGoing = true
	id, call := d.callBytes(c, 0, d.out.Size())
	_, err := d.link.write(call)
	d.ok(err)
	for recoded := false; ; recoded = true {
		values, failed, err = d.keptSegments(c, d.result(id, c, 0))
		_, tag := errors.AsType[*codec.TagError](err)
		if !tag || recoded || !d.hello.marshal() {
			d.ok(err)
			return values, failed
		}
		d.ok(d.link.send(frameRecode, id, nil))
	}
}

func (d *drive) keptSegments(c *chunk, r *result) (values, failed [][]any, err error) {
	d.t.Helper()
	region := d.out.Bytes()[r.outBase : r.outBase+r.outUsed]
	limits := codec.AnswerLimits{BytesMax: 1 << 30}
	field := c.function.Result
	for i := range r.segments {
		s, rows := &r.segments[i], c.segments[i].hi-c.segments[i].lo
		if s.status != statusDone || s.rows != rows {
			d.t.Fatalf("segment %d: want status 0 and %d rows, got %d and %d: %+v", i, rows, s.status, s.rows, s.errors)
		}
		var answer *codec.Answer
		if s.columns == 1 {
			answer, err = codec.TakeAnswer(field, rows, c.blockRows, &s.column, region, limits)
		} else {
			answer, err = codec.TakeFailing(field, rows, c.blockRows, &s.column, &s.second, region, limits)
		}
		if err != nil {
			return nil, nil, err
		}
		values = append(values, valuesOf(field.Type.Kind, answer))
		texts := []any(nil)
		if answer.Errors != nil {
			for _, v := range valuesOf(udfgate.Utf8, answer.Errors) {
				if s, ok := v.(string); ok {
					v = lineText(s)
				}
				texts = append(texts, v)
			}
		}
		failed = append(failed, texts)
		answer.Release()
	}
	return values, failed, nil
}

func (d *drive) ruleKeepGoing() {
	const wrongText = "TypeError: result: wanted utf8, got "
	for _, c := range []struct {
		name                   string
		column, values, failed []any
	}{
		{"fail", []any{int64(1), int64(7), nil, int64(8), int64(5)}, []any{int64(1), nil, nil, nil, int64(5)}, []any{nil, badText, nil, xForInt, nil}},
		{"fail", []any{int64(1), nil}, []any{int64(1), nil}, nil},
		{"fail", []any{int64(7)}, []any{nil}, []any{badText}},
		{"whole", []any{int64(1), nil, int64(7)}, []any{int64(1), nil, nil}, []any{nil, nullInt, badText}},
		{"whole", []any{int64(1), int64(7)}, []any{int64(1), nil}, []any{nil, badText}},
		{"label", []any{int64(1), int64(7), int64(2)}, []any{"éx", nil, "éxx"}, []any{nil, badText, nil}},
		{"label", []any{int64(1), nil, int64(7), int64(8), int64(0)}, []any{"éx", nil, nil, nil, "é"}, []any{nil, wrongText + "None", badText, wrongText + "int 8", nil}},
	} {
		values, failed := d.kept(c.name, 8, piece{columns: []any{c.column}})
		what := fmt.Sprintf("%s%v", c.name, c.column)
		d.equal(what, values[0], c.values)
		d.equal(what+": errors", failed[0], c.failed)
	}
	d.alive()
}

// ruleKeepGoingOver: many blocks, a range of rows, and segments with and
// without failed rows.
func (d *drive) ruleKeepGoingOver() {
	column, values, failed := make([]any, 500), make([]any, 500), make([]any, 500)
	for i := range column {
		column[i], values[i] = int64(100+i), int64(100+i)
		switch {
		case i%11 == 3:
			column[i], values[i], failed[i] = int64(7), nil, badText
		case i%50 == 20:
			column[i], values[i], failed[i] = int64(8), nil, xForInt
		}
	}
	gotValues, gotFailed := d.kept("fail", 64, piece{columns: []any{column}}, piece{columns: []any{[]int64{1, 2}}}, piece{[]any{column}, 40, 301})
	d.equal("segment 0", gotValues[0], values)
	d.equal("segment 0: errors", gotFailed[0], failed)
	d.equal("segment 1", gotValues[1], []any{int64(1), int64(2)})
	d.equal("segment 1: errors", gotFailed[1], nil)
	d.equal("segment 2", gotValues[2], values[40:301])
	d.equal("segment 2: errors", gotFailed[2], failed[40:301])
	d.alive()
}

func (d *drive) ruleList() {
	column := []any{int64(1), nil, int64(3)}
	got := d.run("list_add", false, 8, piece{columns: []any{column, []int64{4, 5, 6}}}, piece{[]any{make([]int64, 40), make([]int64, 40)}, 8, 33})
	d.equal("list_add", got[0], []any{int64(5), nil, int64(9)})
	d.equal("list_add over a range", got[1], d.run("add", false, 8, piece{[]any{make([]int64, 40), make([]int64, 40)}, 8, 33})[0])
	for _, c := range []struct {
		name    string
		column  []int64
		keeping bool
		want    rowError
	}{
		{"list_fail", []int64{1, 7, 3}, false, rowError{kind: errorNoRow, class: []byte("ValueError"), text: []byte("bad literal:\n7")}},
		{"list_fail", []int64{1, 7, 3}, true, rowError{kind: errorNoRow, class: []byte("ValueError"), text: []byte("bad literal:\n7")}},
		{"list_fail", []int64{1, 9, 3}, false, rowError{kind: errorNoRow, text: []byte("wanted 3 results, got 2")}},
		{"list_fail", []int64{1, 9, 3}, true, rowError{kind: errorNoRow, text: []byte("wanted 3 results, got 2")}},
		{"list_fail", []int64{1, 8, 3}, false, rowError{kind: errorMisfit, row: 1, class: []byte("TypeError"), text: []byte("result: wanted int64, got str 'x'")}},
		{"list_parse", []int64{1, 2, 3, 4, 7, 6}, false, rowError{kind: errorRaised, row: 4, class: []byte("ValueError"), text: []byte("bad literal:\n7")}},
	} {
		d.failsWith(c.name, c.column, c.keeping, c.want)
	}
	values, failed := d.kept("list_fail", 8, piece{columns: []any{[]int64{1, 8, 3}}})
	d.equal("list_fail keeps going", values[0], []any{int64(1), nil, int64(3)})
	d.equal("list_fail keeps going: errors", failed[0], []any{nil, xForInt, nil})
	values, failed = d.kept("list_parse", 8, piece{columns: []any{[]any{int64(1), int64(7), int64(8), nil, int64(7)}}})
	d.equal("list_parse keeps going", values[0], []any{int64(1), nil, nil, nil, nil})
	d.equal("list_parse keeps going: errors", failed[0], []any{nil, badText, xForInt, nil, badText})
	d.alive()
}

// failsWith calls a function whose one segment ends with an error.
func (d *drive) failsWith(name string, column []int64, keeping bool, want rowError) {
	d.t.Helper()
	c := d.chunk(name, false, 16, piece{columns: []any{column}})
	defer c.free()
	c.keepsGoing = keeping
	id, call := d.callBytes(c, 0, d.out.Size())
	_, err := d.link.write(call)
	d.ok(err)
	s := d.result(id, c, 0).segments[0]
	if s.status != statusFailed || len(s.errors) == 0 {
		d.t.Fatalf("%s%v: want a failed segment, got %+v", name, column, s)
	}
	got := s.errors[0]
	if got.kind == errorNoRow {
		got.row = 0
	}
	if got.row != want.row || got.kind != want.kind || string(got.class) != string(want.class) || string(got.text) != string(want.text) {
		d.t.Errorf("%s%v: want row %d, kind %d, %q: %q; got row %d, kind %d, %q: %q", name, column,
			want.row, want.kind, want.class, want.text, got.row, got.kind, got.class, got.text)
	}
}
