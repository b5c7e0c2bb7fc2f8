package tabular

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/udfgate/udfgate/internal/seed"
)

var (
	i16, i32, u16, u32 = arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Uint32
	largeText, view    = arrow.BinaryTypes.LargeString, arrow.BinaryTypes.StringView
	largeBin, binView  = arrow.BinaryTypes.LargeBinary, arrow.BinaryTypes.BinaryView
	timestamp          = &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "Europe/Berlin"}
)

func dictionary(t arrow.DataType) arrow.DataType {
	return &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: t}
}

func runs(t arrow.DataType) arrow.DataType { return arrow.RunEndEncodedOf(i32, t) }

// fromJSON is a column of values written as JSON.
func fromJSON(t *testing.T, dt arrow.DataType, values string) arrow.Array {
	t.Helper()
	if d, ok := dt.(*arrow.DictionaryType); ok { // one value per row: not every type has a builder for it
		dict := fromJSON(t, d.ValueType, values)
		b := array.NewInt8Builder(memory.DefaultAllocator)
		defer b.Release()
		for i := range dict.Len() {
			if b.Append(int8(i)); i%2 == 1 && dict.IsNull(i) {
				b.SetNull(i) // a null among the indices; others are among the values
			}
		}
		return array.NewDictionaryArray(dt, b.NewArray(), dict)
	}
	b := array.NewBuilder(memory.DefaultAllocator, dt)
	defer b.Release()
	if err := b.UnmarshalJSON([]byte(values)); err != nil {
		t.Fatalf("%s %s: %v", dt, values, err)
	}
	return b.NewArray()
}

// conversions are columns whose type is not the declared one.
var conversions = []struct {
	want, have   arrow.DataType
	values, rows string // rows empty: as values
	err          string
}{
	{i64, i8, `[-128,null,127]`, "", ""},
	{i8, i64, `[-128,null,127]`, "", ""},
	{i8, i64, `[1,128]`, "", `row 6, column 3 "x": wanted int8, got 128, which is out of its range`},
	{i8, u8, `[1,200]`, "", `row 6, column 3 "x": wanted int8, got 200, which is out of its range`},
	{u8, i16, `[255,-1]`, "", `row 6, column 3 "x": wanted uint8, got -1, which is out of its range`},
	{u64, i64, `[0,9223372036854775807]`, "", ""},
	{u64, i64, `[-1]`, "", `row 5, column 3 "x": wanted uint64, got -1, which is out of its range`},
	{i64, u64, `[0,9223372036854775807]`, "", ""},
	{i64, u64, `[9223372036854775808]`, "", `row 5, column 3 "x": wanted int64, got 9223372036854775808, which is out of its range`},
	{u16, i32, `[65535]`, "", ""},
	{u32, u64, `[4294967296]`, "", `row 5, column 3 "x": wanted uint32, got 4294967296, which is out of its range`},
	{i32, i64, `[-2147483648,2147483647]`, "", ""},
	{i16, dictionary(i64), `[300,null,300]`, "", ""},
	{i16, runs(i64), `[300,null,300,300]`, "", ""},
	{f64, f32, `[0.5,null,1e30]`, `[0.5,null,1.0000000150474662e+30]`, ""},
	{f64, dictionary(f64), `[0.1,null]`, "", ""},
	{f32, runs(f32), `[0.1,null,0.1]`, "", ""},
	{boolean, runs(boolean), `[true,null,false]`, "", ""},
	{text, largeText, `["a",null,""]`, "", ""},
	{text, view, `["a",null,"longer than the twelve bytes of a view"]`, "", ""},
	{text, dictionary(text), `["a",null,"a"]`, "", ""},
	{text, dictionary(largeText), `["a",null,"a"]`, "", ""},
	{text, runs(text), `["a","a",null]`, "", ""},
	{bin, largeBin, `["YQ==",null]`, "", ""},
	{bin, binView, `["YQ==",null]`, "", ""},
	{bin, dictionary(bin), `["YQ==",null]`, "", ""},
	{i64, arrow.Null, `[null,null]`, "", ""},
	{f64, arrow.Null, `[null]`, "", ""},
	{text, arrow.Null, `[null]`, "", ""},
	{timestamp, timestamp, `["2024-01-02T03:04:05.000006Z"]`, "", ""},
}

// unconvertible are types of which no value would be kept.
var unconvertible = []struct{ want, have arrow.DataType }{
	{i64, f64},
	{f64, i64},
	{f32, f64},
	{i64, text},
	{text, i64},
	{text, bin},
	{bin, text},
	{boolean, i8},
	{i64, boolean},
	{i64, timestamp},
	{timestamp, i64},
	{text, dictionary(i64)},
	{f64, runs(i64)},
	{arrow.ListOf(i64), arrow.ListOf(f32)},
}

// A column whose type is not the declared one is taken if each value is kept.
func TestConvert(t *testing.T) {
	for _, c := range conversions {
		t.Run(fmt.Sprintf("%s from %s", c.want, c.have), func(t *testing.T) {
			fields := fields(c.want)
			if err := convertible(fields, []arrow.Field{{}, {}, {Name: "x", Type: c.have}}, []int{2}); err != nil {
				t.Fatal(err)
			}
			a := fromJSON(t, c.have, c.values)
			got, err := converted(fields, []arrow.Array{a}, int64(a.Len()), place{5, []int{2}, []string{"", "", "x"}})
			if c.err != "" {
				if err == nil || err.Error() != c.err {
					t.Errorf("error = %v, want %s", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := c.rows
			if want == "" {
				want = c.values
			}
			var out []string
			for i := range a.Len() {
				out = append(out, string(AppendJSON(nil, got.Args.Column(0), i)))
			}
			if have := "[" + strings.Join(out, ",") + "]"; have != want {
				t.Errorf("got %s, want %s", have, want)
			}
		})
	}
	for _, c := range unconvertible {
		err := convertible(fields(c.want), []arrow.Field{{Name: "x", Type: c.have}}, []int{0})
		if want := fmt.Sprintf(`column 1 "x": wanted %s, got %s`, nameOf(c.want), nameOf(c.have)); err == nil || err.Error() != want {
			t.Errorf("error = %v, want %s", err, want)
		}
	}
}

// others are columns that no function takes: type, values, and what they are
// as rows of JSONL.
func others(t *testing.T) (arrow.RecordBatch, []string) {
	t.Helper()
	decimal := &arrow.Decimal128Type{Precision: 38, Scale: 2}
	table := []struct {
		name, values string
		t            arrow.DataType
		want         [2]string
	}{
		{"decimal", `["123456789012345678901234.56",null]`, decimal, [2]string{`"123456789012345678901234.56"`, "null"}},
		{"money", `["1.50","-0.05"]`, &arrow.Decimal128Type{Precision: 10, Scale: 2}, [2]string{`"1.50"`, `"-0.05"`}},
		{"whole", `["4","0"]`, &arrow.Decimal256Type{Precision: 50, Scale: 3}, [2]string{`"4.000"`, `"0.000"`}},
		{"date", `["2024-02-29",null]`, arrow.FixedWidthTypes.Date32, [2]string{`"2024-02-29"`, "null"}},
		{"time", `["03:04:05.000006",null]`, arrow.FixedWidthTypes.Time64us, [2]string{`"03:04:05.000006"`, "null"}},
		{"instant", `["1969-12-31T23:59:59.999999Z",null]`, timestamp, [2]string{`"1969-12-31T23:59:59.999999Z"`, "null"}},
		{"local", `["2024-01-02T03:04:05",null]`, &arrow.TimestampType{Unit: arrow.Nanosecond}, [2]string{`"2024-01-02T03:04:05"`, "null"}},
		{"list", `[[1,null],[]]`, arrow.ListOf(i32), [2]string{"[1,null]", "[]"}},
		{"struct", `[{"a":1,"b":["x"]},{"a":null,"b":null}]`, arrow.StructOf(arrow.Field{Name: "a", Type: i64, Nullable: true}, arrow.Field{Name: "b", Type: arrow.ListOf(text), Nullable: true}), [2]string{`{"a":1,"b":["x"]}`, `{"a":null,"b":null}`}},
		{"map", `[[{"key":"k","value":1}],null]`, arrow.MapOf(text, i64), [2]string{`[{"key":"k","value":1}]`, "null"}},
		{"dictionary", `["x","x"]`, dictionary(text), [2]string{`"x"`, `"x"`}},
		{"fixed", `["YWI=",null]`, &arrow.FixedSizeBinaryType{ByteWidth: 2}, [2]string{`"YWI="`, "null"}},
		{"half", `[0.5,null]`, arrow.FixedWidthTypes.Float16, [2]string{"0.5", "null"}},
		{"large", `["l",null]`, largeText, [2]string{`"l"`, "null"}},
		{"nothing", `[null,null]`, arrow.Null, [2]string{"null", "null"}},
	}
	var all []arrow.Field
	var columns []arrow.Array
	rows := make([]string, 2)
	for i, c := range table {
		all = append(all, arrow.Field{Name: c.name, Type: c.t, Nullable: true})
		columns = append(columns, fromJSON(t, c.t, c.values))
		for r := range rows {
			rows[r] += fmt.Sprintf(`%q:%s,`, table[i].name, c.want[r])
		}
	}
	all = append(all, arrow.Field{Name: "a", Type: i64, Nullable: true})
	columns = append(columns, fromJSON(t, i64, "[1,2]"))
	for r := range rows {
		rows[r] = "{" + rows[r] + fmt.Sprintf(`"a":%d}`, r+1)
	}
	return array.NewRecordBatch(arrow.NewSchema(all, nil), columns, 2), rows
}

// Columns that are no arguments go from Parquet and Arrow to Parquet and Arrow
// in their own types, and into text as ISO 8601, base64 and JSON.
func TestPassThrough(t *testing.T) {
	batch, rows := others(t)
	dir := t.TempDir()
	for _, from := range []string{"in.parquet", "in.arrow", "in.arrows"} {
		from := filepath.Join(dir, from)
		write(t, from, batch)
		for _, to := range []string{"out.parquet", "out.arrow", "out.arrows", "out.jsonl", "out.csv"} {
			s, err := open(t, from, fields(i64), Options{Keep: KeepColumns})
			if err != nil {
				t.Fatal(err)
			}
			read, err := s.Next(10)
			if err != nil {
				t.Fatal(err)
			}
			for c, f := range batch.Schema().Fields() {
				// Parquet has its own name for the elements of lists.
				if got := read.Input.Column(c).DataType(); !arrow.TypeEqual(got, f.Type) && !strings.Contains(f.Type.String(), "list") {
					t.Errorf("%s: %s is %s, want %s", from, f.Name, got, f.Type)
				}
			}
			same(t, from, jsonRows(read.Input), jsonRows(batch))
			to := filepath.Join(dir, to)
			write(t, to, read.Input)
			if strings.HasSuffix(to, "jsonl") {
				text, err := os.ReadFile(to)
				if want := strings.Join(rows, "\n") + "\n"; err != nil || string(text) != want {
					t.Errorf("%s: %v\n got %s\nwant %s", from, err, text, want)
				}
			}
			s, err = open(t, to, fields(i64), Options{})
			if err != nil {
				t.Fatal(err)
			}
			args, _, err := drain(s, 10)
			if err != nil || strings.Join(args, "") != "[1][2]" {
				t.Errorf("%s to %s: %v, %v", from, to, args, err)
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "out.csv"))
	want := "decimal,money,whole,date,time,instant,local,list,struct,map,dictionary,fixed,half,large,nothing,a\n" +
		`123456789012345678901234.56,1.50,4.000,2024-02-29,03:04:05.000006,1969-12-31T23:59:59.999999Z,2024-01-02T03:04:05,"[1,null]","{""a"":1,""b"":[""x""]}","[{""key"":""k"",""value"":1}]",x,YWI=,0.5,l,,1` + "\n" +
		`,-0.05,0.000,,,,,[],"{""a"":null,""b"":null}",,x,,,,,2` + "\n"
	if err != nil || string(text) != want {
		t.Errorf("%v\n got %s\nwant %s", err, text, want)
	}
}

// Views and runs become plain in Parquet, which has neither.
func TestParquet_plain(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.parquet")
	all := []arrow.Field{{Name: "v", Type: view, Nullable: true}, {Name: "r", Type: runs(i64), Nullable: true}, {Name: "a", Type: i64, Nullable: true}}
	write(t, name, array.NewRecordBatch(arrow.NewSchema(all, nil), []arrow.Array{
		fromJSON(t, view, `["x",null]`), fromJSON(t, runs(i64), `[7,7]`), fromJSON(t, i64, "[1,2]"),
	}, 2))
	s, err := open(t, name, fields(i64), Options{Keep: KeepColumns, Columns: []string{"r"}})
	if err != nil {
		t.Fatal(err)
	}
	args, input, err := drain(s, 1)
	if err != nil || strings.Join(args, "") != "[7][7]" || strings.Join(input, "") != `["x",7,1][null,7,2]` {
		t.Error(args, input, err)
	}
}

// A dictionary that changes has no place in an Arrow file; a stream takes it.
func TestArrow_dictionaries(t *testing.T) {
	all := []arrow.Field{{Name: "d", Type: dictionary(text), Nullable: true}, {Name: "a", Type: i64, Nullable: true}}
	batch := func(values string) arrow.RecordBatch {
		return array.NewRecordBatch(arrow.NewSchema(all, nil), []arrow.Array{fromJSON(t, all[0].Type, values), fromJSON(t, i64, "[1]")}, 1)
	}
	stream := filepath.Join(t.TempDir(), "x.arrows")
	write(t, stream, batch(`["x"]`), batch(`["y"]`))
	s, err := open(t, stream, fields(i64), Options{Keep: KeepColumns})
	if err != nil {
		t.Fatal(err)
	}
	_, input, err := drain(s, 10)
	if err != nil || strings.Join(input, "") != `["x",1]["y",1]` {
		t.Error(input, err)
	}
	var sink strings.Builder
	w, err := NewWriter(&sink, FormatArrow, false, arrow.NewSchema(all[:1], nil), all[1:])
	if err != nil {
		t.Fatal(err)
	}
	for i, values := range []string{`["x"]`, `["y"]`} {
		b := batch(values)
		err = w.Write(&Rows{Args: b, Input: array.NewRecordBatch(arrow.NewSchema(all[:1], nil), b.Columns()[:1], 1)}, b.Columns()[1:])
		if i == 0 && err != nil {
			t.Fatal(err)
		}
	}
	if err == nil || !strings.Contains(err.Error(), "as arrow, at row 1: a column's dictionary changes here") {
		t.Error(err)
	}
}

// Compressed bodies are read, from files and from streams, and a file from
// stdin, where nobody can seek.
func TestArrow_compressed(t *testing.T) {
	r := seed.Rand(t)
	batch := randomBatch(r, allTypes, 500)
	for name, option := range map[string]ipc.Option{"lz4": ipc.WithLZ4(), "zstd": ipc.WithZstd()} {
		var stream, file strings.Builder
		sw := ipc.NewWriter(&stream, ipc.WithSchema(batch.Schema()), option)
		fw, err := ipc.NewFileWriter(&file, ipc.WithSchema(batch.Schema()), option)
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{sw.Write(batch), sw.Close(), fw.Write(batch), fw.Close()} {
			if err != nil {
				t.Fatal(err)
			}
		}
		for kind, data := range map[string]string{"stream": stream.String(), "file": file.String()} {
			s, err := Open(strings.NewReader(data), FormatArrow, fields(allTypes...), Options{})
			if err != nil {
				t.Fatal(err)
			}
			args, _, err := drain(s, 100)
			if err != nil {
				t.Fatal(name, kind, err)
			}
			same(t, name+" "+kind, args, jsonRows(batch))
		}
	}
}

// A decimal has all digits of its scale, whatever its width.
func TestDecimalText(t *testing.T) {
	for _, c := range []struct {
		t     arrow.DataType
		value string
		json  string
	}{
		{&arrow.Decimal32Type{Precision: 9, Scale: 2}, `["1.5"]`, `"1.50"`},
		{&arrow.Decimal64Type{Precision: 18, Scale: 4}, `["-0.0001"]`, `"-0.0001"`},
		{&arrow.Decimal128Type{Precision: 38, Scale: 0}, `["120"]`, `"120"`},
		{&arrow.Decimal128Type{Precision: 38, Scale: 38}, `["-0.1"]`, `"-0.1` + strings.Repeat("0", 37) + `"`},
		{&arrow.Decimal128Type{Precision: 10, Scale: -2}, `["1200"]`, `"1200"`},
		{&arrow.Decimal128Type{Precision: 10, Scale: -2}, `["0"]`, `"0"`},
		{&arrow.Decimal256Type{Precision: 76, Scale: 1}, `["-` + strings.Repeat("9", 75) + `.0"]`, `"-` + strings.Repeat("9", 75) + `.0"`},
	} {
		a := fromJSON(t, c.t, c.value)
		if got := string(AppendJSON(nil, a, 0)); got != c.json {
			t.Errorf("%s %s: got %s, want %s", c.t, c.value, got, c.json)
		}
		if got := string(AppendText(nil, a, 0)); `"`+got+`"` != c.json {
			t.Errorf("%s %s as text: got %s, want %s", c.t, c.value, got, c.json)
		}
	}
}

// A Parquet file without field ids gets none on its way; those of a file that
// has some stay.
func TestParquet_fieldIDs(t *testing.T) {
	dir := t.TempDir()
	id := arrow.NewMetadata([]string{fieldID, "unit"}, []string{"7", "km"})
	all := []arrow.Field{
		{Name: "plain", Type: i64, Nullable: true},
		{Name: "numbered", Type: i64, Nullable: true, Metadata: id},
		{Name: "deep", Type: arrow.StructOf(arrow.Field{Name: "in", Type: arrow.ListOf(i64), Nullable: true}), Nullable: true},
		{Name: "map", Type: arrow.MapOf(text, arrow.ListOf(i64)), Nullable: true},
		{Name: "pair", Type: arrow.FixedSizeListOf(2, i64), Nullable: true},
		{Name: "a", Type: i64, Nullable: true},
	}
	batch := array.NewRecordBatch(arrow.NewSchema(all, nil), []arrow.Array{
		fromJSON(t, i64, "[1]"), fromJSON(t, i64, "[2]"), fromJSON(t, all[2].Type, `[{"in":[3]}]`), fromJSON(t, all[3].Type, `[[{"key":"k","value":[1]}]]`),
		fromJSON(t, all[4].Type, "[[5,6]]"), fromJSON(t, i64, "[4]"),
	}, 1)
	from := filepath.Join(dir, "in.parquet")
	write(t, from, batch)
	s, err := open(t, from, fields(i64), Options{Keep: KeepColumns, Columns: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := s.Next(1)
	if err != nil {
		t.Fatal(err)
	}
	if ids := fieldIDs(nil, s.Kept().Fields()); len(ids) != 1 || ids[0] != "7" {
		t.Errorf("ids %q of %v", ids, s.Kept())
	}
	to := filepath.Join(dir, "out.arrow")
	write(t, to, rows.Input)
	if s, err = open(t, to, fields(i64), Options{Keep: KeepColumns, Columns: []string{"a"}}); err != nil {
		t.Fatal(err)
	}
	if ids := fieldIDs(nil, s.Kept().Fields()); len(ids) != 1 || ids[0] != "7" {
		t.Errorf("ids %q of %v", ids, s.Kept())
	}
}

// fieldIDs are the ids of fields, at all depths.
func fieldIDs(ids []string, fields []arrow.Field) []string {
	for _, f := range fields {
		if id, ok := f.Metadata.GetValue(fieldID); ok {
			ids = append(ids, id)
		}
		if nested, ok := f.Type.(arrow.NestedType); ok {
			ids = fieldIDs(ids, nested.Fields())
		}
	}
	return ids
}
