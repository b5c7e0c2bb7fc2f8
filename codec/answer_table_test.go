package codec

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/udfgate/udfgate"
)

// tableOf puts the columns of a part into one region.
func tableOf(form int, k udfgate.Kind, col, index, texts testColumn) (TableColumns, []byte) {
	values, region := answerIn(form, k, col)
	if len(col) == 0 {
		values.Blocks = 0
	}
	rows, indexRegion := arrowAnswer(udfgate.RowField(), index, bodyOptions{})
	region = twoColumns(values, rows, region, indexRegion)
	columns := TableColumns{Values: values, Rows: rows}
	if texts != nil {
		errs, errsRegion := answerIn(FormArrow, udfgate.Utf8, texts)
		region = twoColumns(values, errs, region, errsRegion)
		columns.Errors = errs
	}
	return columns, region
}

// indices are the numbers of so many input rows, some of them more than once.
func indices(numbers ...int32) testColumn {
	col := testColumn{}
	for _, n := range numbers {
		col = append(col, n)
	}
	return col
}

// Parts of every common type, with and without failed rows, are read as a
// client reads them.
func TestTakeTable(t *testing.T) {
	r := testRand(t)
	for _, k := range kinds {
		for _, form := range formsOf(k) {
			for _, rows := range []int{0, 1, 9, udfgate.TableRowsMax} {
				t.Run(fmt.Sprintf("%s/form=%d/rows=%d", k, form, rows), func(t *testing.T) {
					col, index := randomColumn(r, k, rows, 20), testColumn{}
					at := int32(5)
					for range rows {
						at += int32(r.IntN(3))
						index = append(index, at)
					}
					var texts testColumn
					if rows > 0 && r.IntN(2) == 0 {
						texts = make(testColumn, rows)
						col[rows-1], texts[rows-1] = nil, "ValueError: größe"
					}
					columns, region := tableOf(form, k, col, index, texts)
					f := field("c", k)
					a, last, err := TakeTable(f, int64(rows), BlockRowsMax, columns, RowRange{5, int64(at) + 1}, region, answerLimits)
					if err != nil {
						t.Fatal(err)
					}
					if last != int64(at) || a.Rows != int64(rows) || (a.Errors != nil) != (texts != nil) {
						t.Errorf("last row %d of %d, wanted %d of %d; errors %v", last, a.Rows, at, rows, a.Errors)
					}
					checkTable(t, f, a, index, col)
					if err := a.JoinErrors(answerLimits); err != nil {
						t.Fatal(err)
					}
					if texts == nil {
						texts = make(testColumn, rows)
					}
					batch := arrowBatch(t, a, udfgate.RowField(), f, errorField)
					if got := batch.Column(2); !array.Equal(got, arrowArray(udfgate.Utf8, texts)) {
						t.Errorf("errors: arrow-go reads %.200v", got)
					}
					checkTable(t, f, a, index, col, errorField)
					a.Release()
				})
			}
		}
	}
}

// checkTable reads the first two columns of an answer as a client does.
func checkTable(t *testing.T, f udfgate.Field, a *Answer, index, values testColumn, more ...udfgate.Field) {
	t.Helper()
	batch := arrowBatch(t, a, slices.Concat([]udfgate.Field{udfgate.RowField(), f}, more)...)
	for i, want := range []testColumn{index, values} {
		k := []udfgate.Kind{udfgate.Int32, f.Type.Kind}[i]
		if got := batch.Column(i); !array.Equal(got, arrowArray(k, want)) {
			t.Errorf("column %d: arrow-go reads %.200v, wanted %.200v", i, got, want)
		}
	}
	end := int64(0) // readers that walk the body find the buffers in order
	for _, b := range a.Buffers {
		if b.Length > 0 && (b.Offset%answerAlign != 0 || b.Offset < end) {
			t.Errorf("buffer at %d after one that ends at %d", b.Offset, end)
		}
		end = max(end, b.Offset+b.Length)
	}
}

func TestTakeTableRefuses(t *testing.T) {
	three := testColumn{int64(1), int64(2), int64(3)}
	for _, c := range []struct {
		name   string
		index  testColumn
		texts  testColumn
		change func(c *TableColumns)
		want   string
	}{
		{"falls", indices(1, 3, 2), nil, nil, "value 2 came of row 2, after one of row 3"},
		{"before the last part", indices(0, 1, 2), nil, nil, "value 0 came of row 0, after one of row 1"},
		{"beyond the batch", indices(1, 2, 4), nil, nil, "value 2 came of row 4, the rows run are below 4"},
		{"negative", indices(-1, 2, 3), nil, nil, "value 0 came of row -1, the rows run are below 4"},
		{"null", testColumn{int32(1), nil, int32(2)}, nil, nil, "row indices: 1 nulls in a result that is not nullable"},
		{"form", indices(1, 2, 3), nil, func(c *TableColumns) { c.Rows.Form = FormFlat }, "row indices in value form 3, wanted 1"},
		{"short", indices(1, 2), nil, nil, "row indices: wanted at least 12 bytes of values for 3 rows of int32, got 8"},
		{"buffers", indices(1, 2, 3), nil, func(c *TableColumns) { c.Rows.Buffers = c.Rows.Buffers[:1] }, "row indices: wanted 2 buffers in form 1 of int32, got 1"},
		{"value of a failed row", indices(1, 2, 3), testColumn{nil, "E", nil}, nil, "row 1 failed, and has a value"},
		{"values", indices(1, 2, 3), nil, func(c *TableColumns) { c.Values.Form = FormMarshal }, "value form 2 does not carry int64"},
	} {
		t.Run(c.name, func(t *testing.T) {
			columns, region := tableOf(FormArrow, udfgate.Int64, three, c.index, c.texts)
			if c.change != nil {
				c.change(&columns)
			}
			_, _, err := TakeTable(field("c", udfgate.Int64), 3, 8, columns, RowRange{1, 4}, region, answerLimits)
			if err == nil || err.Error() != c.want {
				t.Errorf("got %v, wanted %s", err, c.want)
			}
			if _, ours := errors.AsType[*udfgate.Error](err); ours {
				t.Error("wanted the worker to be at fault")
			}
		})
	}
	columns, region := tableOf(FormArrow, udfgate.Int64, three, indices(1, 2, 3), nil)
	_, _, err := TakeTable(field("c", udfgate.Int64), 1025, 8, columns, RowRange{1, 4}, region, answerLimits)
	if err == nil || err.Error() != "part of 1025 rows, the most is 1024" {
		t.Errorf("got %v", err)
	}
	// Within the limit by itself, over it with the row.
	_, _, err = TakeTable(field("c", udfgate.Int64), 3, 8, columns, RowRange{1, 4}, region, AnswerLimits{BytesMax: 80, BytesName: "--most"})
	if e := udfgate.AsError(err); e.Shape != udfgate.ShapeTooLarge || e.Message != "result of 88 bytes is over --most 80; send smaller batches" {
		t.Errorf("got %v", err)
	}
}

// The empty part of every type is one that clients read.
func TestEmptyTable(t *testing.T) {
	item := []udfgate.Field{{Name: "item", Type: udfgate.Type{Kind: udfgate.LargeUtf8}, Nullable: true}}
	for _, typ := range []udfgate.Type{
		{Kind: udfgate.Null},
		{Kind: udfgate.Int64},
		{Kind: udfgate.Utf8},
		{Kind: udfgate.Decimal128, Precision: 9, Scale: 2},
		{Kind: udfgate.List, Children: item},
		{Kind: udfgate.Struct, Children: item},
		{Kind: udfgate.Struct},
	} {
		f := udfgate.Field{Name: "c", Type: typ, Nullable: true}
		a := EmptyTable(f)
		batch := arrowBatch(t, a, udfgate.RowField(), f)
		if batch.NumRows() != 0 || batch.NumCols() != 2 || a.Rows != 0 {
			t.Errorf("%s: got %v", typ, batch)
		}
		if err := a.JoinErrors(answerLimits); err != nil {
			t.Errorf("%s: %v", typ, err)
		} else if batch := arrowBatch(t, a, udfgate.RowField(), f, errorField); batch.NumCols() != 3 {
			t.Errorf("%s with errors: got %v", typ, batch)
		}
		a.Release()
	}
}
