package tabular

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/udfgate/udfgate/internal/seed"
)

// Every type comes out of a file as the argument of that type, in small pieces too.
func TestLayouts_files(t *testing.T) {
	r := seed.Rand(t)
	dir := t.TempDir()
	for _, f := range everyField(t) {
		column := randomColumn(r, f, 100)
		for _, name := range []string{"x.arrow", "x.arrows", "x.parquet"} {
			name := filepath.Join(dir, name)
			sink, err := os.Create(name)
			if err != nil {
				t.Fatal(err)
			}
			format, _, err := FormatOf(name)
			if err != nil {
				t.Fatal(err)
			}
			batch := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{f}, nil), []arrow.Array{column}, int64(column.Len()))
			w, err := NewWriter(sink, format, false, batch.Schema(), nil)
			if err == nil {
				err = w.Write(&Rows{Args: batch, Input: batch}, nil)
			}
			if err != nil && format == FormatParquet && lacking(f.Type) {
				_ = sink.Close() // what is in it is of no use
				continue
			}
			if err != nil {
				t.Errorf("%s: %s: %v", f, name, err)
				continue
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if err := sink.Close(); err != nil {
				t.Fatal(err)
			}
			s, err := open(t, name, []arrow.Field{f}, Options{})
			if err != nil && format == FormatParquet && lacking(f.Type) {
				continue
			}
			if err != nil {
				t.Errorf("%s: %s: %v", f, name, err)
				continue
			}
			for at := int64(0); at < 100; {
				rows, err := s.Next(17)
				if err != nil {
					t.Fatalf("%s: %s: %v", f, name, err)
				}
				equal(t, fmt.Sprint(f, " ", name), f, array.NewSlice(column, at, at+rows.Len()), rows.Args.Column(0))
				at += rows.Len()
			}
		}
	}
}

// lacking are types that Parquet, or its library, has no place for, or makes
// others of: date64 date32, seconds milliseconds, arrow.json binary.
func lacking(t arrow.DataType) bool {
	if arrow.IsNested(t.ID()) {
		below := inner(t)
		return len(below) == 0 || slices.ContainsFunc(below, func(f arrow.Field) bool { return lacking(f.Type) })
	}
	if e, ok := t.(arrow.ExtensionType); ok {
		return e.ExtensionName() == "arrow.json"
	}
	if d, ok := t.(arrow.DecimalType); ok && d.GetScale() < 0 {
		return true
	}
	switch t.ID() {
	case arrow.DURATION, arrow.INTERVAL_MONTHS, arrow.INTERVAL_DAY_TIME, arrow.INTERVAL_MONTH_DAY_NANO, arrow.DATE64, arrow.DECIMAL32, arrow.DECIMAL64:
		return true
	case arrow.TIME32, arrow.TIMESTAMP:
		return strings.Contains(t.String(), "[s")
	}
	return false
}

// listOf puts the items between the ends into rows of a list.
func listOf(t arrow.DataType, items arrow.Array, ends ...int32) arrow.Array {
	offsets := memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(append([]int32{0}, ends...)))
	return array.MakeFromData(array.NewData(t, len(ends), []*memory.Buffer{nil, offsets}, []arrow.ArrayData{items.Data()}, 0, 0))
}

// Nested columns of other types become the declared ones, value by value.
func TestConvert_nested(t *testing.T) {
	member := func(name string, t arrow.DataType) arrow.Field {
		return arrow.Field{Name: name, Type: t, Nullable: true}
	}
	named := func(t arrow.DataType) arrow.DataType { return arrow.ListOfField(arrow.Field{Name: "element", Type: t}) }
	words := listOf(arrow.ListOf(dictionary(text)), fromJSON(t, dictionary(text), `["a",null,"b"]`), 2, 2, 3)
	runsOf := listOf(arrow.ListOf(runs(i64)), fromJSON(t, runs(i64), `[7,7,null]`), 1, 3)
	for _, c := range []struct {
		want arrow.DataType
		have arrow.Array
		rows string // or the error
	}{
		{arrow.ListOf(i64), fromJSON(t, arrow.ListOf(i8), `[[1,null],null,[]]`), `[[1,null],null,[]]`},
		{arrow.ListOf(i64), fromJSON(t, named(i64), `[[1],[2,3]]`), `[[1],[2,3]]`},
		{arrow.LargeListOf(largeText), fromJSON(t, arrow.ListOf(view), `[["a"],["longer than the twelve bytes of a view"]]`), `[["a"],["longer than the twelve bytes of a view"]]`},
		{arrow.ListOf(text), fromJSON(t, arrow.ListViewOf(text), `[["a"],[]]`), `[["a"],[]]`},
		{arrow.ListOf(f64), fromJSON(t, arrow.LargeListViewOf(half), `[[0.5],[null]]`), `[[0.5],[null]]`},
		{arrow.ListOf(text), words, `[["a",null],[],["b"]]`},
		{arrow.ListOf(u8), runsOf, `[[7],[7,null]]`},
		{arrow.ListOf(i64), fromJSON(t, arrow.ListOf(arrow.Null), `[[null,null]]`), `[[null,null]]`},
		{arrow.FixedSizeListOf(2, i64), fromJSON(t, arrow.FixedSizeListOf(2, i32), `[[1,2],null,[3,null]]`), `[[1,2],null,[3,null]]`},
		{
			arrow.StructOf(member("a", i64), member("b", arrow.ListOf(text))),
			fromJSON(t, arrow.StructOf(member("x", i8), member("y", arrow.LargeListOf(text))), `[{"x":1,"y":["z"]},null,{"x":null,"y":null}]`),
			`[{"a":1,"b":["z"]},null,{"a":null,"b":null}]`,
		},
		{arrow.MapOf(text, i64), fromJSON(t, arrow.MapOf(view, u8), `[[{"key":"k","value":1}],null,[]]`), `[[{"key":"k","value":1}],null,[]]`},
		{uuids, fromJSON(t, &arrow.FixedSizeBinaryType{ByteWidth: 16}, `["AAAAAAAAAAAAAAAAAAAAAA==",null]`), `["00000000-0000-0000-0000-000000000000",null]`},
		{&arrow.FixedSizeBinaryType{ByteWidth: 16}, fromJSON(t, uuids, `["00000000-0000-0000-0000-000000000000"]`), `["AAAAAAAAAAAAAAAAAAAAAA=="]`},
		{money, fromJSON(t, dictionary(money), `["1.50",null]`), `["1.50",null]`},
		{date32, fromJSON(t, runs(date32), `["2024-01-01","2024-01-01"]`), `["2024-01-01","2024-01-01"]`},
		{f64, fromJSON(t, half, `[0.5,null]`), `[0.5,null]`},
		{largeText, fromJSON(t, text, `["a"]`), `["a"]`},
		{largeBin, fromJSON(t, binView, `["YQ=="]`), `["YQ=="]`},
		{arrow.Null, fromJSON(t, arrow.Null, `[null]`), `[null]`},

		{arrow.ListOf(i8), fromJSON(t, arrow.ListOf(i64), `[[1],[2,300]]`), `row 6, column 3 "x": items: wanted int8, got 300, which is out of its range`},
		{
			arrow.StructOf(member("a", arrow.FixedSizeListOf(1, u8))),
			fromJSON(t, arrow.StructOf(member("q", arrow.FixedSizeListOf(1, i8))), `[{"q":[1]},{"q":[-1]}]`),
			`row 6, column 3 "x": member "a": items: wanted uint8, got -1, which is out of its range`,
		},
		{arrow.MapOf(i8, i8), fromJSON(t, arrow.MapOf(i8, i64), `[[{"key":1,"value":128}]]`), `row 5, column 3 "x": value: wanted int8, got 128, which is out of its range`},
		{arrow.ListOf(text), fromJSON(t, arrow.ListOf(arrow.ListOf(text)), `[]`), `column 3 "x": wanted list<utf8>, got list<list<utf8>>`},
		{arrow.FixedSizeListOf(2, i64), fromJSON(t, arrow.FixedSizeListOf(3, i64), `[]`), `column 3 "x": wanted fixed_size_list<int64>[2], got fixed_size_list<int64>[3]`},
		{arrow.StructOf(member("a", i64)), fromJSON(t, arrow.StructOf(), `[]`), `column 3 "x": wanted struct<a int64>, got struct<>`},
		{money, fromJSON(t, &arrow.Decimal128Type{Precision: 11, Scale: 2}, `[]`), `column 3 "x": wanted decimal128(10, 2), got decimal128(11, 2)`},
		{naive, fromJSON(t, timestamp, `[]`), `column 3 "x": wanted timestamp[us], got timestamp[us, Europe/Berlin]`},
		{date32, fromJSON(t, date64, `[]`), `column 3 "x": wanted date32, got date64`},
		{half, fromJSON(t, f32, `[]`), `column 3 "x": wanted float16, got float32`},
	} {
		fields := fields(c.want)
		err := convertible(fields, []arrow.Field{{}, {}, {Name: "x", Type: c.have.DataType()}}, []int{2})
		var got *Rows
		if err == nil {
			got, err = converted(fields, []arrow.Array{c.have}, int64(c.have.Len()), place{5, []int{2}, []string{"", "", "x"}})
		}
		if err != nil {
			if err.Error() != c.rows {
				t.Errorf("%s from %s: error = %v, want %s", c.want, c.have.DataType(), err, c.rows)
			}
			continue
		}
		var out []string
		for i := range c.have.Len() {
			out = append(out, string(AppendJSON(nil, got.Args.Column(0), i)))
		}
		if have := "[" + strings.Join(out, ",") + "]"; have != c.rows || !arrow.TypeEqual(got.Args.Column(0).DataType(), c.want) {
			t.Errorf("%s from %s: got %s of %s, want %s", c.want, c.have.DataType(), have, got.Args.Column(0).DataType(), c.rows)
		}
	}
}

// Damaged files whose arguments are nested are errors too.
func TestDamaged_nested(t *testing.T) {
	r := seed.Rand(t)
	var fields []arrow.Field
	var columns []arrow.Array
	for i, f := range everyField(t) {
		if arrow.IsNested(f.Type.ID()) {
			f.Name = fmt.Sprint("x", i)
			fields = append(fields, f)
			columns = append(columns, randomColumn(r, f, 20))
		}
	}
	batch := array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, 20)
	name := filepath.Join(t.TempDir(), "x.arrows")
	write(t, name, batch)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		data := bytes.Clone(whole)
		for range 1 + r.IntN(3) {
			data[r.IntN(len(data))] ^= byte(1 << r.IntN(8))
		}
		s, err := Open(bytes.NewReader(data), FormatArrow, fields, Options{})
		if err != nil {
			continue
		}
		for err == nil {
			var rows *Rows
			if rows, err = s.Next(7); err == nil {
				jsonRows(rows.Args) // what is taken is sound
				rows.Release()
			}
		}
	}
}
