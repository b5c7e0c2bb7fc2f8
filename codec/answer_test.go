package codec

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/go-cmp/cmp"

	"github.com/udfgate/udfgate"
)

const answerMax = 1 << 26 // of tests that are not about the limit

var answerLimits = upTo(answerMax)

func upTo(bytesMax int64) AnswerLimits {
	return AnswerLimits{BytesMax: bytesMax, BytesName: "--max-message-bytes"}
}

// checkAnswer compares an answer with the values it should hold, by this
// package's own reading and by arrow-go's.
func checkAnswer(t *testing.T, f udfgate.Field, a *Answer, want testColumn) {
	t.Helper()
	defer a.Release()
	if diff := cmp.Diff(want, answerColumn(t, f.Type.Kind, a)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := arrowRead(t, f, a); !array.Equal(got, arrowArray(f.Type.Kind, want)) {
		t.Errorf("arrow-go reads %.200v", got)
	}
}

// arrowAnswer is a column as a worker that speaks Arrow answers it.
func arrowAnswer(f udfgate.Field, col testColumn, o bodyOptions) (rc *ResultColumn, region []byte) {
	m, body := buildBody([]udfgate.Field{f}, []testColumn{col}, o)
	_, nulls := buildValidity(col, o)
	return &ResultColumn{Form: FormArrow, Nulls: int64(nulls), Buffers: m.Buffers}, body
}

func TestTakeArrow(t *testing.T) {
	r := testRand(t)
	for _, k := range kinds {
		for _, o := range []bodyOptions{{}, {firstOffset: 5, rubbish: true}, {allValid: true, align: 64}} {
			for _, rows := range []int{0, 1, 8, 9, 200} {
				for _, nulls := range []int{0, 20, 100} {
					t.Run(fmt.Sprintf("%s/%+v/rows=%d/nulls=%d%%", k, o, rows, nulls), func(t *testing.T) {
						f, col := field("c", k), randomColumn(r, k, rows, nulls)
						rc, region := arrowAnswer(f, col, o)
						a, err := TakeAnswer(f, int64(rows), BlockRowsMax, rc, region, answerLimits)
						if err != nil {
							t.Fatal(err)
						}
						checkAnswer(t, f, a, col)
					})
				}
			}
		}
	}
}

// What lies under a null of an arrow answer may be anything, and is not passed on.
func TestTakeArrowDropsBytesUnderNulls(t *testing.T) {
	f, col := field("s", udfgate.Utf8), testColumn{"ä", nil, "b", nil, nil, "€"}
	rc, region := arrowAnswer(f, col, bodyOptions{rubbish: true})
	a, err := TakeAnswer(f, 6, 64, rc, region, answerLimits)
	if err != nil {
		t.Fatal(err)
	}
	if data := a.Buffers[2]; data.Length != 6 {
		t.Errorf("%d bytes of data, wanted 6", data.Length)
	}
	checkAnswer(t, f, a, col)
}

// flatAnswer is a fixed-width column in form 3.
func flatAnswer(k udfgate.Kind, col testColumn, sendValid bool) (rc *ResultColumn, region []byte) {
	rc = &ResultColumn{Form: FormFlat}
	valid, values := make([]byte, len(col)), []byte(nil)
	for i, v := range col {
		if v != nil {
			valid[i] = 1
		} else {
			rc.Nulls++
		}
		switch {
		case k != udfgate.Bool:
			values = append(values, fixedBytes(k, v)...)
		case v == true:
			values = append(values, 1)
		default:
			values = append(values, 0)
		}
	}
	if rc.Nulls == 0 && !sendValid {
		valid = nil
	}
	at := int(roundUp(int64(len(valid)), 8))
	region = make([]byte, at+len(values))
	copy(region, valid)
	copy(region[at:], values)
	rc.Buffers = []Buffer{{0, int64(len(valid))}, {int64(at), int64(len(values))}}
	return rc, region
}

func TestTakeFlat(t *testing.T) {
	r := testRand(t)
	for _, k := range kinds {
		if k.Variable() {
			continue
		}
		for _, rows := range []int{0, 1, 7, 8, 9, 64, 333} {
			for _, nulls := range []int{0, 20, 100} {
				for _, sendValid := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/rows=%d/nulls=%d%%/valid=%v", k, rows, nulls, sendValid), func(t *testing.T) {
						f, col := field("c", k), randomColumn(r, k, rows, nulls)
						rc, region := flatAnswer(k, col, sendValid)
						a, err := TakeAnswer(f, int64(rows), BlockRowsMax, rc, region, answerLimits)
						if err != nil {
							t.Fatal(err)
						}
						checkAnswer(t, f, a, col)
					})
				}
			}
		}
	}
}

// A worker that breaks the protocol is told apart from one whose values need
// another encoding: these errors are of neither named type.
func TestTakeRefusesFixedAndArrow(t *testing.T) {
	i8, b, s := field("i", udfgate.Int8), field("b", udfgate.Bool), field("s", udfgate.Utf8)
	strict := i8
	strict.Nullable = false
	ints, bools := testColumn{int8(1), nil, int8(3)}, testColumn{true, false, nil}
	flat := func(k udfgate.Kind, col testColumn, spoil func(*ResultColumn, []byte)) func() (*ResultColumn, []byte) {
		return func() (*ResultColumn, []byte) {
			rc, region := flatAnswer(k, col, false)
			spoil(rc, region)
			return rc, region
		}
	}
	text := func(spoil func(rc *ResultColumn, region, offsets []byte)) func() (*ResultColumn, []byte) {
		return func() (*ResultColumn, []byte) {
			rc, region := arrowAnswer(s, testColumn{"ab", "cd"}, bodyOptions{})
			spoil(rc, region, region[rc.Buffers[1].Offset:])
			return rc, region
		}
	}
	for _, c := range []struct {
		want  string
		field udfgate.Field
		make  func() (*ResultColumn, []byte)
	}{
		{"value form 9 does not carry int8", i8, flat(udfgate.Int8, ints, func(rc *ResultColumn, _ []byte) { rc.Form = 9 })},
		{"value form 2 does not carry int8", i8, flat(udfgate.Int8, ints, func(rc *ResultColumn, _ []byte) { rc.Form = FormMarshal })},
		{"value form 3 does not carry utf8", s, flat(udfgate.Int8, ints, func(*ResultColumn, []byte) {})},
		{"wanted 2 buffers in form 3 of int8, got 1", i8, flat(udfgate.Int8, ints, func(rc *ResultColumn, _ []byte) { rc.Buffers = rc.Buffers[:1] })},
		{"1 nulls in a result that is not nullable", strict, flat(udfgate.Int8, ints, func(*ResultColumn, []byte) {})},
		{"answer says 2 nulls, its values have 1", i8, flat(udfgate.Int8, ints, func(rc *ResultColumn, _ []byte) { rc.Nulls = 2 })},
		{"row 2: valid byte is neither 0 nor 1", i8, flat(udfgate.Int8, ints, func(_ *ResultColumn, region []byte) { region[2] = 2 })},
		{"row 1: bool byte is neither 0 nor 1", b, flat(udfgate.Bool, bools, func(_ *ResultColumn, region []byte) { region[9] = 0x80 })},
		{"wanted at least 3 bytes of values for 3 rows of int8, got 2", i8, flat(udfgate.Int8, ints, func(rc *ResultColumn, _ []byte) { rc.Buffers[1].Length = 2 })},
		{"wanted values at a multiple of 8 within an answer of 11 bytes, got 3 bytes at 16", i8, flat(udfgate.Int8, ints, func(rc *ResultColumn, _ []byte) { rc.Buffers[1].Offset = 16 })},
		{"wanted values at a multiple of 8 within an answer of 11 bytes, got -1 bytes at 8", i8, flat(udfgate.Int8, ints, func(rc *ResultColumn, _ []byte) { rc.Buffers[1].Length = -1 })},
		{"wanted 3 buffers in form 1 of utf8, got 2", s, text(func(rc *ResultColumn, _, _ []byte) { rc.Buffers = rc.Buffers[:2] })},
		{"offsets go from 0 to 5 in data of 4 bytes", s, text(func(_ *ResultColumn, _, o []byte) { o[8] = 5 })},
		{"offsets go from -1 to 4 in data of 4 bytes", s, text(func(_ *ResultColumn, _, o []byte) { copy(o, "\xff\xff\xff\xff") })},
		{"end offset 4 of row 1 is less than its start 5", s, text(func(_ *ResultColumn, _, o []byte) { o[4] = 5 })},
		{"row 1: text is not UTF-8", s, text(func(rc *ResultColumn, region, _ []byte) { region[rc.Buffers[2].Offset+3] = 0xe4 })},
	} {
		t.Run(c.want, func(t *testing.T) {
			rc, region := c.make()
			rows := int64(3)
			if rc.Form == FormArrow {
				rows = 2
			}
			_, err := TakeAnswer(c.field, rows, 64, rc, region, answerLimits)
			if err == nil || err.Error() != c.want {
				t.Errorf("got    %v\nwanted %s", err, c.want)
			}
			if brokenProtocol(err) != nil {
				t.Errorf("%T is not plain", err)
			}
		})
	}
}

// brokenProtocol returns err if it is one of the errors that are not the
// worker's breach of the protocol.
func brokenProtocol(err error) error {
	if e, ok := errors.AsType[*TagError](err); ok {
		return e
	}
	if e, ok := errors.AsType[*udfgate.Error](err); ok {
		return e
	}
	return nil
}

func TestTakeLimit(t *testing.T) {
	f := field("i", udfgate.Int64)
	rc, region := flatAnswer(udfgate.Int64, make(testColumn, 1000), false)
	_, err := TakeAnswer(f, 1000, 64, rc, region, upTo(5000))
	e, ok := errors.AsType[*udfgate.Error](err)
	if !ok || e.Reason != udfgate.Invalid || e.Shape != udfgate.ShapeTooLarge ||
		!strings.Contains(e.Message, "--max-message-bytes 5000") {
		t.Errorf("got %v, wanted the limit and its name", err)
	}
}

func TestEmptyAnswer(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.String(), func(t *testing.T) {
			f := field("c", k)
			checkAnswer(t, f, EmptyAnswer(f), testColumn{})
		})
	}
}
