package codec

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/go-cmp/cmp"

	"github.com/udfgate/udfgate"
)

// twoColumns puts two answered columns into one region.
func twoColumns(a, b *ResultColumn, regionA, regionB []byte) []byte {
	region := append(slices.Clone(regionA), make([]byte, roundUp(int64(len(regionA)), 8)-int64(len(regionA)))...)
	at := int64(len(region))
	for i := range b.Buffers {
		b.Buffers[i].Offset += at
	}
	return append(region, regionB...)
}

// answerIn is a column as a worker answers it in a form.
func answerIn(form int, k udfgate.Kind, col testColumn) (*ResultColumn, []byte) {
	switch form {
	case FormMarshal:
		return marshalAnswer(naiveMarshal(col, k == udfgate.Utf8))
	case FormFlat:
		return flatAnswer(k, col, false)
	default:
		return arrowAnswer(field("c", k), col, bodyOptions{rubbish: true})
	}
}

func formsOf(k udfgate.Kind) []int {
	if k.Variable() {
		return []int{FormArrow, FormMarshal}
	}
	return []int{FormArrow, FormFlat}
}

// checkJoined reads a joined answer as a client does.
func checkJoined(t *testing.T, f udfgate.Field, a *Answer, values, texts testColumn) {
	t.Helper()
	defer a.Release()
	batch := arrowBatch(t, a, f, errorField)
	for i, want := range []testColumn{values, texts} {
		k := []udfgate.Kind{f.Type.Kind, udfgate.Utf8}[i]
		if got := batch.Column(i); !array.Equal(got, arrowArray(k, want)) {
			t.Errorf("column %d: arrow-go reads %.200v, wanted %.200v", i, got, want)
		}
		if v, ok := batch.Column(i).(interface{ ValidateFull() error }); ok {
			if err := v.ValidateFull(); err != nil {
				t.Error(err)
			}
		}
	}
	for _, b := range a.Buffers {
		if b.Length > 0 && b.Offset%answerAlign != 0 {
			t.Errorf("buffer at %d is not aligned to %d", b.Offset, answerAlign)
		}
	}
}

func TestTakeFailing(t *testing.T) {
	r := testRand(t)
	for _, k := range kinds {
		for _, form := range formsOf(k) {
			for _, errorForm := range []int{FormArrow, FormMarshal} {
				for _, rows := range []int{1, 8, 9, 200} {
					t.Run(fmt.Sprintf("%s/form=%d,%d/rows=%d", k, form, errorForm, rows), func(t *testing.T) {
						strict := field("c", k)
						strict.Nullable = r.IntN(2) == 0
						nulls := 0
						if strict.Nullable {
							nulls = 20
						}
						col, texts, failed := randomColumn(r, k, rows, nulls), make(testColumn, rows), int64(0)
						for i := range col {
							if r.IntN(3) == 0 || i == rows-1 {
								col[i], texts[i] = nil, fmt.Sprintf("ValueError: größe %d", i)
								failed++
							}
						}
						values, valuesRegion := answerIn(form, k, col)
						errs, errsRegion := answerIn(errorForm, udfgate.Utf8, texts)
						region := twoColumns(values, errs, valuesRegion, errsRegion)
						a, err := TakeFailing(strict, int64(rows), BlockRowsMax, values, errs, region, answerLimits)
						if err != nil {
							t.Fatal(err)
						}
						if a.Failed() != failed {
							t.Errorf("%d rows failed, wanted %d", a.Failed(), failed)
						}
						if diff := cmp.Diff(texts, answerColumn(t, udfgate.Utf8, a.Errors)); diff != "" {
							t.Errorf("(-want +got):\n%s", diff)
						}
						if err := a.JoinErrors(answerLimits); err != nil {
							t.Fatal(err)
						}
						strict.Nullable = true
						checkJoined(t, strict, a, col, texts)
					})
				}
			}
		}
	}
}

func TestTakeFailingRefuses(t *testing.T) {
	long := strings.Repeat("x", ErrorTextBytesMax)
	for _, c := range []struct {
		name       string
		nullable   bool
		form       int
		col, texts testColumn
		want       string
	}{
		{"value of a failed row", true, FormMarshal, testColumn{"a", "b"}, testColumn{nil, "E"}, "row 1 failed, and has a value"},
		{"ninth row", true, FormArrow, slices.Repeat(testColumn{"a"}, 9), append(make(testColumn, 8), "E"), "row 8 failed, and has a value"},
		{"null of a good row", false, FormMarshal, testColumn{nil, nil, "c"}, testColumn{"E", nil, nil}, `row 1: marshal tag 'N' is not one of the result's type`},
		{"the same in arrow", false, FormArrow, testColumn{nil, nil, "c"}, testColumn{"E", nil, nil}, "row 1 is null, did not fail, and the result is not nullable"},
		{"long text", true, FormMarshal, testColumn{nil, nil}, testColumn{long, long + "x"}, "error column: row 1: text of 4097 bytes, the most is 4096"},
		{"surrogate", true, FormMarshal, testColumn{nil}, testColumn{"\xed\xa0\x80"}, "error column: row 0: text is not UTF-8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			values, valuesRegion := answerIn(c.form, udfgate.Utf8, c.col)
			errs, errsRegion := answerIn(FormMarshal, udfgate.Utf8, c.texts)
			region := twoColumns(values, errs, valuesRegion, errsRegion)
			strict := field("c", udfgate.Utf8)
			strict.Nullable = c.nullable
			_, err := TakeFailing(strict, int64(len(c.col)), BlockRowsMax, values, errs, region, answerLimits)
			if err == nil || err.Error() != c.want {
				t.Fatalf("got %v, wanted %s", err, c.want)
			}
			if _, recode := errors.AsType[*TagError](err); recode != strings.Contains(c.want, "marshal tag") {
				t.Errorf("got %T", err)
			}
		})
	}
}

// An error column that names no row is as good as none.
func TestTakeFailingWithoutFailures(t *testing.T) {
	values, valuesRegion := answerIn(FormFlat, udfgate.Int64, testColumn{int64(1)})
	errs, errsRegion := answerIn(FormMarshal, udfgate.Utf8, testColumn{nil})
	a, err := TakeFailing(field("c", udfgate.Int64), 1, 8, values, errs, twoColumns(values, errs, valuesRegion, errsRegion), answerLimits)
	if err != nil || a.Errors != nil || a.Failed() != 0 {
		t.Fatalf("got %+v %v", a, err)
	}
	a.Release()
}

// Types with other buffers than one of values have as many as ever, and none
// holds a value.
func TestAllFailedOfEveryType(t *testing.T) {
	item := []udfgate.Field{{Name: "item", Type: udfgate.Type{Kind: udfgate.LargeUtf8}}}
	for _, typ := range []udfgate.Type{
		{Kind: udfgate.Null},
		{Kind: udfgate.LargeUtf8},
		{Kind: udfgate.LargeBinary},
		{Kind: udfgate.FixedSizeBinary, Size: 5},
		{Kind: udfgate.Decimal128, Precision: 9, Scale: 2},
		{Kind: udfgate.Decimal256, Precision: 50},
		{Kind: udfgate.MonthDayNanoInterval},
		{Kind: udfgate.List, Children: item},
		{Kind: udfgate.LargeList, Children: item},
		{Kind: udfgate.FixedSizeList, Size: 2, Children: item},
		{Kind: udfgate.Struct, Children: item},
		{Kind: udfgate.Struct},
	} {
		f := udfgate.Field{Name: "c", Type: typ}
		a, err := AllFailed(f, 9, "ValueError: x", answerLimits)
		if err != nil {
			t.Fatalf("%s: %v", typ, err)
		}
		empty := EmptyAnswer(f)
		if len(a.Nodes) != len(empty.Nodes) || len(a.Buffers) != len(empty.Buffers) || a.Nodes[0].Nulls != 9 || a.Failed() != 9 {
			t.Errorf("%s: got %d columns, %d buffers, %d nulls, %d failed", typ, len(a.Nodes), len(a.Buffers), a.Nodes[0].Nulls, a.Failed())
		}
		if err := a.checkFailed(false, false); err != nil {
			t.Errorf("%s: %v", typ, err)
		}
		a.Release()
		empty.Release()
	}
}

func TestAllFailed(t *testing.T) {
	for _, k := range kinds {
		for _, rows := range []int{1, 9, 500} {
			a, err := AllFailed(field("c", k), int64(rows), "ValueError: é", answerLimits)
			if err != nil {
				t.Fatal(err)
			}
			if a.Failed() != int64(rows) {
				t.Errorf("%s: %d rows failed", k, a.Failed())
			}
			if err := a.JoinErrors(answerLimits); err != nil {
				t.Fatal(err)
			}
			checkJoined(t, field("c", k), a, make(testColumn, rows), slices.Repeat(testColumn{"ValueError: é"}, rows))
			if a, err = AllFailed(field("c", k), int64(rows), "", answerLimits); err != nil || a.Errors != nil {
				t.Fatalf("got %+v %v", a, err)
			}
			checkAnswer(t, field("c", k), a, make(testColumn, rows))
		}
	}
	for rows, want := range map[int64]string{1 << 20: "is over --max-message-bytes", 1 << 24: "the most that one column of a batch can hold"} {
		_, err := AllFailed(field("c", udfgate.Bool), rows, strings.Repeat("x", 200), answerLimits)
		if e, ok := errors.AsType[*udfgate.Error](err); !ok || e.Shape != udfgate.ShapeTooLarge || !strings.Contains(e.Message, want) {
			t.Errorf("%d rows: got %v", rows, err)
		}
	}
}

// Answers without failed rows get a column of nulls, also of no rows.
func TestJoinErrorsOfGoodRows(t *testing.T) {
	r := testRand(t)
	for _, k := range kinds {
		for _, rows := range []int{0, 1, 65} {
			f, col := field("c", k), randomColumn(r, k, rows, 10)
			var a *Answer
			var err error
			if rows == 0 {
				a = EmptyAnswer(f)
			} else {
				rc, region := arrowAnswer(f, col, bodyOptions{})
				a, err = TakeAnswer(f, int64(rows), BlockRowsMax, rc, region, answerLimits)
			}
			if err == nil {
				err = a.JoinErrors(answerLimits)
			}
			if err != nil {
				t.Fatal(err)
			}
			checkJoined(t, f, a, col, make(testColumn, rows))
		}
	}
}

func TestJoinErrorsOverTheLimit(t *testing.T) {
	a, err := AllFailed(field("c", udfgate.Int64), 100, "ValueError: x", answerLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Release()
	err = a.JoinErrors(upTo(2500))
	if e, ok := errors.AsType[*udfgate.Error](err); !ok || e.Shape != udfgate.ShapeTooLarge || a.Errors != nil {
		t.Errorf("got %v", err)
	}
}

func TestEditErrors(t *testing.T) {
	texts := testColumn{nil, "a\nb", nil, "plain", "c\nd", nil, nil, nil, nil, "\n"}
	values, valuesRegion := answerIn(FormFlat, udfgate.Int64, make(testColumn, len(texts)))
	errs, errsRegion := answerIn(FormArrow, udfgate.Utf8, texts)
	a, err := TakeFailing(field("c", udfgate.Int64), int64(len(texts)), 16, values, errs, twoColumns(values, errs, valuesRegion, errsRegion), answerLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Release()
	plain := func(b []byte) bool { return !bytes.Contains(b, []byte("\n")) }
	edit := func(s string) string { return strings.ReplaceAll(s, "\n", " and ") }
	for range 2 { // the second time there is nothing to do
		if err := a.EditErrors(plain, edit, answerLimits); err != nil {
			t.Fatal(err)
		}
		want := testColumn{nil, "a and b", nil, "plain", "c and d", nil, nil, nil, nil, " and "}
		if diff := cmp.Diff(want, answerColumn(t, udfgate.Utf8, a.Errors)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		edit = func(string) string { t.Error("called"); return "" }
	}
}
