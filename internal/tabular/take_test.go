package tabular

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/udfgate/udfgate/internal/seed"
)

// strange are columns of types that files have and arguments have not.
func strange(t *testing.T, r *rand.Rand, rows int) []arrow.Array {
	t.Helper()
	runs := func(ends arrow.DataType) arrow.Array {
		b := array.NewRunEndEncodedBuilder(memory.DefaultAllocator, ends, text)
		defer b.Release()
		for i := range rows {
			switch {
			case i == 0 || r.IntN(3) == 0:
				if err := b.AppendValueFromString(strings.Repeat("x", i%7)); err != nil {
					t.Fatal(err)
				}
			default:
				b.ContinueRun(1)
			}
		}
		return b.NewArray()
	}
	out := []arrow.Array{runs(i16), runs(i32), runs(i64)}
	for _, typ := range []arrow.DataType{
		arrow.BinaryTypes.StringView, arrow.BinaryTypes.BinaryView, arrow.ListViewOf(text), arrow.LargeListViewOf(i64),
		&arrow.DictionaryType{IndexType: i8, ValueType: text}, arrow.ListOf(&arrow.DictionaryType{IndexType: i32, ValueType: i64}),
		arrow.StructOf(arrow.Field{Name: "v", Type: arrow.BinaryTypes.StringView, Nullable: true}),
	} {
		var values []string
		for i := range rows {
			value := map[arrow.Type]string{
				arrow.STRING_VIEW: `"` + strings.Repeat("é", i%20) + `"`, arrow.BINARY_VIEW: `"` + strings.Repeat("YWJj", i%20) + `"`,
				arrow.LIST_VIEW: `["a",null,"` + strings.Repeat("b", i%5) + `"]`, arrow.LARGE_LIST_VIEW: `[1,null,3]`,
				arrow.DICTIONARY: `"` + strings.Repeat("d", i%4) + `"`, arrow.LIST: `[7,null,8]`, arrow.STRUCT: `{"v":"` + strings.Repeat("w", i%30) + `"}`,
			}[typ.ID()]
			if r.IntN(5) == 0 {
				value = "null"
			}
			values = append(values, value)
		}
		a, _, err := array.FromJSON(memory.DefaultAllocator, typ, strings.NewReader("["+strings.Join(values, ",")+"]"))
		if err != nil {
			t.Fatal(typ, err)
		}
		out = append(out, a)
	}
	return append(out, unions(r, rows)...)
}

func unions(r *rand.Rand, rows int) []arrow.Array {
	kinds, places := make([]arrow.UnionTypeCode, rows), make([]int32, rows)
	numbers, texts := randomColumn(r, arrow.Field{Type: i64}, rows), randomColumn(r, arrow.Field{Type: text}, rows)
	for i := range kinds {
		kinds[i], places[i] = arrow.UnionTypeCode(r.IntN(2)), int32(r.IntN(rows))
	}
	ids := memory.NewBufferBytes(arrow.Int8Traits.CastToBytes(kinds))
	members := []arrow.Field{{Name: "n", Type: i64, Nullable: true}, {Name: "s", Type: text, Nullable: true}}
	children := []arrow.ArrayData{numbers.Data(), texts.Data()}
	codes := []arrow.UnionTypeCode{0, 1}
	sparse := array.NewData(arrow.SparseUnionOf(members, codes), rows, []*memory.Buffer{nil, ids}, children, 0, 0)
	dense := array.NewData(arrow.DenseUnionOf(members, codes), rows, []*memory.Buffer{nil, ids, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(places))}, children, 0, 0)
	return []arrow.Array{array.MakeFromData(sparse), array.MakeFromData(dense)}
}

// Rows are taken as they are, of every type, in the midst of a column too.
func TestTake(t *testing.T) {
	r := seed.Rand(t)
	const rows = 100
	columns := strange(t, r, rows)
	for _, f := range everyField(t) {
		columns = append(columns, randomColumn(r, f, rows))
	}
	for _, whole := range columns {
		a := array.NewSlice(whole, 7, rows-5)
		var at []int
		for len(at) < 300 {
			at = append(at, r.IntN(a.Len()))
		}
		slices.Sort(at)
		data, err := take(a.Data(), at)
		if err != nil {
			t.Errorf("%s: %v", a.DataType(), err)
			continue
		}
		got := array.MakeFromData(data)
		if got.Len() != len(at) || !arrow.TypeEqual(got.DataType(), a.DataType()) {
			t.Errorf("wanted %d of %s, got %d of %s", len(at), a.DataType(), got.Len(), got.DataType())
			continue
		}
		for i, row := range at {
			if !array.SliceApproxEqual(a, int64(row), int64(row+1), got, int64(i), int64(i+1), array.WithNaNsEqual(true), array.WithAbsTolerance(0)) {
				t.Errorf("%s: row %d: wanted %s, got %s", a.DataType(), row, array.NewSlice(a, int64(row), int64(row+1)), array.NewSlice(got, int64(i), int64(i+1)))
				break
			}
			if rowBytes(a.Data(), row) < 1 {
				t.Errorf("%s: row %d of no bytes", a.DataType(), row)
			}
		}
	}
}

// A long row that is repeated often is copied in pieces.
func TestWriteTable_pieces(t *testing.T) {
	long := array.NewStringBuilder(memory.DefaultAllocator)
	long.AppendValues([]string{"a", strings.Repeat("x", 1<<20), "b"}, nil)
	lists := listOf(arrow.ListOf(i64), randomColumn(seed.Rand(t), arrow.Field{Type: i64}, 1<<20), 1, 1<<20, 1<<20)
	from := slices.Repeat([]int32{1}, 1000)
	from[0] = 0
	for _, c := range []arrow.Array{long.NewArray(), lists} {
		for at := 0; at < len(from); {
			rows, err := pieceOf([]arrow.Array{c}, from[at:], 3)
			if err != nil || len(rows) == 0 || len(rows) > 10 {
				t.Fatalf("%s: %d rows at once, %v", c.DataType(), len(rows), err)
			}
			at += len(rows)
		}
	}
	if rows, err := pieceOf(nil, make([]int32, 1<<15), 1); err != nil || len(rows) != pieceRows {
		t.Errorf("%d rows of no columns at once, %v", len(rows), err)
	}
}

// A table's rows bear the columns of the rows that they came of, in every
// format, and rows without results are not there.
func TestWriteTable(t *testing.T) {
	for format, want := range map[Format]string{
		FormatCSV:   "a,s,f\n01,\"x\",10\n01,\"x\",11\n3,,\n",
		FormatJSONL: `{"a":1,"s":"x","f":10}` + "\n" + `{"a":1,"s":"x","f":11}` + "\n" + `{"a":3,"s":null,"f":null}` + "\n",
	} {
		keep := KeepColumns
		if format == FormatCSV {
			keep = KeepText
		}
		s, err := NewCSV(strings.NewReader("a,s\n01,\"x\"\n2,y\n3,\n"), fields(i64), Options{Keep: keep})
		if err != nil {
			t.Fatal(err)
		}
		rows, err := s.Next(10)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		w, err := NewWriter(&out, format, false, s.Kept(), []arrow.Field{{Name: "f", Type: i64, Nullable: true}})
		if err != nil {
			t.Fatal(err)
		}
		b := array.NewInt64Builder(memory.DefaultAllocator)
		b.AppendValues([]int64{10, 11, 0}, []bool{true, true, false})
		if err := w.WriteTable(rows, []int32{0, 0, 2}, []arrow.Array{b.NewArray()}); err != nil {
			t.Fatal(err)
		}
		if err := w.WriteTable(rows, nil, []arrow.Array{b.NewArray()}); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil || out.String() != want {
			t.Errorf("%s: got %s, %v; want %s", format, out.String(), err, want)
		}
		b.AppendValues([]int64{1}, nil)
		err = w.WriteTable(rows, []int32{3}, []arrow.Array{b.NewArray()})
		if err == nil || !strings.HasSuffix(err.Error(), "wanted one of 3 rows, got row 3") {
			t.Errorf("%s: %v", format, err)
		}
	}
}

// A list of no items is a type that arrow-go panics about. The file is whole.
func TestOpen_noItems(t *testing.T) {
	const size = 0x1e61
	column := array.MakeArrayOfNull(memory.DefaultAllocator, arrow.FixedSizeListOf(size, i8), 1)
	batch := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "x", Type: column.DataType(), Nullable: true}}, nil), []arrow.Array{column}, 1)
	var file bytes.Buffer
	w := ipc.NewWriter(&file, ipc.WithSchema(batch.Schema()))
	if err := w.Write(batch); err != nil {
		t.Fatal(err)
	}
	data := file.Bytes()
	schema := bytes.Index(data, []byte{size & 0xff, size >> 8, 0, 0})
	if schema < 0 {
		t.Fatal("no size in the schema")
	}
	copy(data[schema:], []byte{0, 0})
	_, err := Open(bytes.NewReader(data), FormatArrow, fields(i64), Options{})
	if want := "it has a fixed_size_list of 0 items, which Arrow for Go does not have"; err == nil || err.Error() != want {
		t.Errorf("error = %v, want %s", err, want)
	}
}
