package tabular

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/udfgate/udfgate/internal/seed"
)

// allTypes are those that arguments may have.
var allTypes = []arrow.DataType{
	boolean, i8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32, i64, u8, arrow.PrimitiveTypes.Uint16,
	arrow.PrimitiveTypes.Uint32, u64, f32, f64, text, bin,
}

// allNames are files of every format.
var allNames = []string{"x.parquet", "x.arrow", "x.feather", "x.arrows", "x.csv", "x.csv.gz", "x.jsonl", "x.ndjson", "x.jsonl.gz"}

// randomBatch is n rows of the types, a fifth of them null, with the extremes
// of each type among them.
func randomBatch(r *rand.Rand, types []arrow.DataType, n int) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, argsSchema(fields(types...)))
	for range n {
		for i := range types {
			if r.IntN(5) == 0 {
				b.Field(i).AppendNull()
			} else {
				appendRandom(r, b.Field(i))
			}
		}
	}
	return b.NewRecordBatch()
}

func appendRandom(r *rand.Rand, b array.Builder) {
	bits := r.Uint64()
	switch r.IntN(6) {
	case 0:
		bits = 0
	case 1:
		bits = math.MaxUint64
	case 2:
		bits = 1 << 63
	}
	switch b := b.(type) {
	case *array.BooleanBuilder:
		b.Append(bits&1 == 1)
	case *array.Int8Builder:
		b.Append(int8(bits >> 56))
	case *array.Int16Builder:
		b.Append(int16(bits >> 48))
	case *array.Int32Builder:
		b.Append(int32(bits >> 32))
	case *array.Int64Builder:
		b.Append(int64(bits))
	case *array.Uint8Builder:
		b.Append(uint8(bits >> 56))
	case *array.Uint16Builder:
		b.Append(uint16(bits >> 48))
	case *array.Uint32Builder:
		b.Append(uint32(bits >> 32))
	case *array.Uint64Builder:
		b.Append(bits)
	case *array.Float32Builder:
		b.Append(math.Float32frombits(uint32(bits >> 32)))
	case *array.Float64Builder:
		b.Append([]float64{math.Float64frombits(bits), 0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), 0.1}[r.IntN(7)])
	case *array.StringBuilder:
		b.Append([]string{"", "null", "NaN", `"`, "a,b", "x\r\ny\n", "é😀\u2028", "\ufeff", " 1 ", "\x00\x1b", "{}", `\`, strings.Repeat("long", r.IntN(99))}[r.IntN(13)])
	case *array.BinaryBuilder:
		b.Append([][]byte{{}, {0}, {0xff, 0xfe}, []byte("abc")}[r.IntN(4)])
	default:
		panic(b)
	}
}

// jsonRows is a batch as lines of JSON.
func jsonRows(batch arrow.RecordBatch) []string {
	lines := make([]string, batch.NumRows())
	for i := range lines {
		line := []byte("[")
		for c, column := range batch.Columns() {
			if c > 0 {
				line = append(line, ',')
			}
			line = AppendJSON(line, column, i)
		}
		lines[i] = string(append(line, ']'))
	}
	return lines
}

// write makes a file of batches, of which the last column is what is added.
func write(t *testing.T, name string, batches ...arrow.RecordBatch) {
	t.Helper()
	format, gzipped, err := FormatOf(name)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	all := batches[0].Schema().Fields()
	last := len(all) - 1
	kept := arrow.NewSchema(all[:last], nil)
	w, err := NewWriter(file, format, gzipped, kept, all[last:])
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range batches {
		input := array.NewRecordBatch(kept, b.Columns()[:last], b.NumRows())
		if err := w.Write(&Rows{Args: input, Input: input}, b.Columns()[last:]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, name string, fields []arrow.Field, o Options) (Source, error) {
	t.Helper()
	format, _, err := FormatOf(name)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	o.File, o.Size = name, info.Size()
	return Open(file, format, fields, o)
}

// drain reads all rows as JSON: the arguments, and what is kept of the input.
func drain(s Source, rowsMax int) (args, input []string, err error) {
	for share := 0.0; ; {
		rows, err := s.Next(rowsMax)
		if errors.Is(err, io.EOF) {
			return args, input, nil
		}
		if err != nil {
			return args, input, err
		}
		if rows.Len() < 1 || rows.Len() > int64(rowsMax) || rows.Share < share || rows.Share > 1 {
			return args, input, fmt.Errorf("%d rows, share %v after %v", rows.Len(), rows.Share, share)
		}
		share = rows.Share
		args = append(args, jsonRows(rows.Args)...)
		if rows.Input != nil {
			input = append(input, jsonRows(rows.Input)...)
		}
		rows.Release()
	}
}

// A random table is the same table in every format, value by value.
func TestFormats_random(t *testing.T) {
	r := seed.Rand(t)
	dir := t.TempDir()
	batches := []arrow.RecordBatch{randomBatch(r, allTypes, 1), randomBatch(r, allTypes, r.IntN(3000)), randomBatch(r, allTypes, 100)}
	var want []string
	for _, b := range batches {
		want = append(want, jsonRows(b)...)
	}
	for _, name := range allNames {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, name)
			write(t, path, batches...)
			s, err := open(t, path, fields(allTypes...), Options{Keep: KeepColumns})
			if err != nil {
				t.Fatal(err)
			}
			args, input, err := drain(s, 1+r.IntN(2000))
			if err != nil {
				t.Fatal(err)
			}
			same(t, "arguments", args, want)
			same(t, "input", input, want)
			if n := s.Kept().NumFields(); n != len(allTypes) {
				t.Errorf("%d columns kept", n)
			}
		})
	}
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d rows, want %d", what, len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%s, row %d:\n got %s\nwant %s", what, i, got[i], want[i])
		}
	}
}

// The columns are the same however a file is chosen from: by name, by position,
// by --columns; without keeping, only those are read.
func TestFormats_columns(t *testing.T) {
	b := array.NewRecordBuilder(memory.DefaultAllocator, argsSchema([]arrow.Field{{Name: "x", Type: text}, {Name: "b", Type: i64}, {Name: "a", Type: i64}}))
	b.Field(0).(*array.StringBuilder).AppendValues([]string{"p", "q"}, nil)
	b.Field(1).(*array.Int64Builder).AppendValues([]int64{1, 2}, nil)
	b.Field(2).(*array.Int64Builder).AppendValues([]int64{3, 4}, nil)
	batch := b.NewRecordBatch()
	for _, name := range allNames {
		t.Run(name, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), name)
			write(t, name, batch)
			for _, c := range []struct {
				fields       []arrow.Field
				o            Options
				args, input  string
				note, failed string
			}{
				{fields(i64, i64), Options{}, "[3,1] [4,2]", "", "", ""},
				{fields(i64, i64), Options{Columns: []string{"b", "a"}}, "[1,3] [2,4]", "", "", ""},
				{fields(i64), Options{Columns: []string{"b"}, Keep: KeepColumns}, "[1] [2]", `["p",1,3] ["q",2,4]`, "", ""},
				{nil, Options{}, "[] []", "", "", ""},
				{fields(i64), Options{Columns: []string{"z"}}, "", "", "", `no column "z"`},
				{fields(i64), Options{Columns: []string{"x"}}, "", "", "", `wanted int64, got`},
				{fields(i64, i64), Options{Columns: []string{"x"}}, "", "", "", "wanted 2 column names, got 1 (x)"},
				{fields(i64), Options{Keep: KeepColumns, Adds: []string{"x"}}, "", "", "", `is there already, and the output would have it twice`},
			} {
				s, err := open(t, name, c.fields, c.o)
				var args, input []string
				if err == nil {
					args, input, err = drain(s, 10)
				}
				failed := c.failed
				if strings.Contains(name, "json") {
					failed = strings.ReplaceAll(failed, "column \"z\"", "member \"z\"")
				}
				if failed != "" {
					if err == nil || !strings.Contains(err.Error(), failed) {
						t.Errorf("%v: error = %v, want %s", c.o, err, failed)
					}
					continue
				}
				got := strings.Join(input, " ")
				if strings.Contains(name, "csv") { // where all is text but the arguments
					got = strings.NewReplacer(`"3"`, "3", `"4"`, "4").Replace(got)
				} else if strings.Contains(name, "json") { // where it is text that is JSON
					got = strings.NewReplacer(`"3"`, "3", `"4"`, "4", `"\"p\""`, `"p"`, `"\"q\""`, `"q"`).Replace(got)
				}
				if err != nil || strings.Join(args, " ") != c.args || got != c.input {
					t.Errorf("%v: %v %v, %v", c.o, args, input, err)
				}
			}
		})
	}
}

// CSV and JSONL that become CSV and JSONL keep every row as it stands.
func TestText_verbatim(t *testing.T) {
	for _, c := range []struct{ name, in, out string }{
		{"x.csv", "a,\"q\"\"\",\n007,\"x,\"\"y\",NA\n1,,\"\"\n2,\" \r\n\",é\n", "a,\"q\"\"\",\"\",r\n007,\"x,\"\"y\",NA,\n1,,\"\",\n2,\" \r\n\",é,\n"},
		{"x.csv", "a\r\n1\r\n\r\n2", "a,r\n1,\n,\n2,\n"},
		{"x.jsonl", `{"a": 1, "b": 1.0, "c": [1e400, {"d": "\u00e9"}] }` + "\n\n" + `{"c":12345678901234567890123,"a":null}`, `{"a": 1, "b": 1.0, "c": [1e400, {"d": "\u00e9"}],"r":null}` + "\n" + `{"c":12345678901234567890123,"a":null,"r":null}` + "\n"},
		{"x.jsonl", " [1]\n[ 2 ] \r\n", "[1,null]\n[ 2,null]\n"},
	} {
		format, _, _ := FormatOf(c.name)
		s, err := Open(strings.NewReader(c.in), format, fields(i64), Options{Keep: KeepText, Adds: []string{"r"}})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		w, err := NewWriter(&out, format, false, s.Kept(), []arrow.Field{{Name: "r", Type: i64, Nullable: true}})
		if err != nil {
			t.Fatal(err)
		}
		for {
			rows, err := s.Next(2)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			nulls := array.MakeArrayOfNull(memory.DefaultAllocator, i64, int(rows.Len()))
			if err := w.Write(rows, []arrow.Array{nulls}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil || out.String() != c.out {
			t.Errorf("%v\n got %q\nwant %q", err, out.String(), c.out)
		}
	}
}

func TestJSONL(t *testing.T) {
	for _, c := range []struct{ name, in, want, err string }{
		{"members", "{\"b\":1,\"a\":2,\"c\":{\"a\":9}}\r\n\n  \n{\"a\":null,\"b\":3}", "[2 1][null 3]", ""},
		{"mark", "\ufeff{\"a\":1,\"b\":2}", "[1 2]", ""},
		{"names with escapes", `{"\u0061":1,"b":2}`, "[1 2]", ""},
		{"arrays", "[1,2]\n[3,null]\n", "[1 2][3 null]", ""},
		{"nothing", "", "", ""},
		{"no member", "{\"a\":1,\"b\":2}\n{\"a\":1,\"x\":2}", "", `line 2: no member "b"; the object has a, x`},
		{"no members", "{}", "", `line 1: no member "a"; the object has none`},
		{"twice", `{"a":1,"b":2,"a":3}`, "", `line 1: member "a" is there twice`},
		{"value", "\n" + `{"a":1,"b":"x"}`, "", `line 2, member "b": wanted int64, got string "x"`},
		{"range", `{"a":1,"b":9223372036854775808}`, "", `line 1, member "b": wanted int64, got 9223372036854775808, which is out of its range`},
		{"not JSON", "{\"a\":1,\"b\":2}\n{\"a\":1,", "", "line 2: not JSON: unexpected end of JSON input"},
		{"pretty", "{\n  \"a\": 1,\n  \"b\": 2\n}", "", "line 1: not JSON: unexpected end of JSON input; wanted one object per line, and this looks like one over several (jq -c . makes a line of each)"},
		{"pretty array", "[\n  {\"a\": 1}\n]", "", "line 1: not JSON: unexpected end of JSON input; wanted one object per line, and this looks like an array over several (jq -c '.[]' makes lines of it)"},
		{"array over lines", "[{\"a\":1},\n{\"a\":1}]", "", "line 1: not JSON: unexpected end of JSON input; wanted one object per line, and this looks like an array over several (jq -c '.[]' makes lines of it)"},
		{"array of objects", `[ {"a":1,"b":2},{"a":1,"b":2}]`, "", "line 1: wanted one object per line, got an array of objects (jq -c '.[]' makes lines of it)"},
		{"two values", `{"a":1,"b":2} {}`, "", "line 1: not JSON: invalid character '{' after top-level value"},
		{"not a row", "12", "", "line 1: wanted an object, got 12"},
		{"mixed", "{\"a\":1,\"b\":2}\n[1,2]", "", "line 2: wanted an object as in the lines before, got an array"},
		{"short array", "[1]", "", "line 1: wanted 2 values, got 1"},
		{"array value", "[1,true]", "", `line 1, column 1 "b": wanted int64, got boolean true`},
		{"not UTF-8", "{\"a\":1,\"b\":2,\"c\":\"\xff\"}", "", "line 1: wanted UTF-8, got other bytes"},
		{"long", "{\"a\":1,\"b\":2}\n" + strings.Repeat("[", recordBytesMax+readBytes+1), "", "line 2: longer than 64 MiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := NewJSONL(strings.NewReader(c.in), fields(i64, i64), Options{})
			var got []string
			if err == nil {
				got, err = read(s, 100)
			}
			check(t, got, err, c.want, c.err)
		})
	}
}

// What is kept of objects has the columns of the first lines.
func TestJSONL_columns(t *testing.T) {
	in := `{"x":[1, 2],"a":1}` + "\n" + `{"a":2,"y":"z","x":null}` + "\n"
	s, err := NewJSONL(strings.NewReader(in), fields(i64), Options{Keep: KeepColumns})
	if err != nil {
		t.Fatal(err)
	}
	_, input, err := drain(s, 10)
	if err != nil || strings.Join(input, "") != `["[1, 2]",1,null][null,2,"\"z\""]` {
		t.Errorf("%v, %v", input, err)
	}
	for i, json := range []bool{true, false, true} {
		if f := s.Kept().Field(i); f.Name != string("xay"[i]) || isJSON(f) != json {
			t.Errorf("column %d is %v", i, f)
		}
	}
	late := strings.Repeat(`{"a":1}`+"\n", aheadLines) + `{"a":1,"z":2}`
	s, err = NewJSONL(strings.NewReader(late), fields(i64), Options{Keep: KeepColumns})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = drain(s, 100)
	if err == nil || err.Error() != `line 1001: member "z" is in none of the first 1000 lines, which say the columns of the output (--output FILE.jsonl keeps any member)` {
		t.Error(err)
	}
}

// An object may have very many members: the time for a line grows with their
// number, not with its square.
func TestJSONL_manyMembers(t *testing.T) {
	const members = 60_000
	line := []byte("{")
	for i := range members {
		line = fmt.Appendf(line, `"m%d":%d,`, i, i)
	}
	in := string(line) + `"a":7}` + "\n" + string(line) + `"a":8}`
	for keep, columns := range map[Keep]int{KeepNothing: 0, KeepText: 0, KeepColumns: members + 1} {
		s, err := NewJSONL(strings.NewReader(in), fields(i64), Options{Keep: keep, Adds: []string{"f"}})
		if err != nil {
			t.Fatal(err)
		}
		rows, err := s.Next(2)
		if err != nil {
			t.Fatal(err)
		}
		if got := jsonRows(rows.Args); strings.Join(got, "") != "[7][8]" {
			t.Errorf("got %v", got)
		}
		if columns > 0 && (rows.Input.NumCols() != int64(columns) || rows.Input.Column(4321).(*array.String).Value(1) != "4321") {
			t.Errorf("%d columns", rows.Input.NumCols())
		}
		rows.Release()
	}
	s, err := NewJSONL(strings.NewReader(string(line)+`"a":1,"m59999":2}`), fields(i64), Options{})
	if err == nil {
		_, err = s.Next(1)
	}
	if want := `line 1: member "m59999" is there twice`; err == nil || err.Error() != want {
		t.Errorf("error = %v, want %s", err, want)
	}
}

// A format is told by as few bytes as say it: who sends them may wait for an
// answer before the next ones.
func TestSniff(t *testing.T) {
	wait := errors.New("read on")
	for _, c := range []struct {
		in   string
		want Format
	}{
		{"ARROW1", FormatArrow},
		{"\xff\xff\xff\xff", FormatArrow},
		{"FEA1", FormatArrow},
		{"PAR1", FormatParquet},
		{`{"`, FormatJSONL},
		{"[1", FormatJSONL},
		{" \r\n\t{", FormatJSONL},
		{"\ufeff{", FormatJSONL},
		{"a\n", FormatCSV},
		{"ARROW,", FormatCSV},
		{"PARTS", FormatCSV},
		{"\ufeffa", FormatCSV},
		{`""`, FormatCSV},
	} {
		in := io.MultiReader(iotest.OneByteReader(strings.NewReader(c.in)), iotest.ErrReader(wait))
		got, rest, err := Sniff(in)
		if err != nil || got != c.want {
			t.Errorf("%q: got %q, %v; want %q", c.in, got, err, c.want)
			continue
		}
		if text, err := io.ReadAll(rest); string(text) != c.in || !errors.Is(err, wait) {
			t.Errorf("%q: read %q, %v", c.in, text, err)
		}
	}
	for _, whole := range []string{"", "A", "\n", strings.Repeat(" ", sniffMax+1)} {
		if got, _, err := Sniff(strings.NewReader(whole)); err != nil || got != FormatCSV {
			t.Errorf("%.9q: got %q, %v", whole, got, err)
		}
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write([]byte(`{"a":1}`)) // into memory
	_ = z.Close()
	got, rest, err := Sniff(&zipped)
	if err != nil || got != FormatJSONL {
		t.Fatalf("gzip: got %q, %v", got, err)
	}
	if text, err := io.ReadAll(rest); string(text) != `{"a":1}` || err != nil {
		t.Errorf("gzip: %q, %v", text, err)
	}
}
