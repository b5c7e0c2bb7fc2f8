package tabular

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
)

func fields(types ...arrow.DataType) []arrow.Field {
	var out []arrow.Field
	for i, t := range types {
		out = append(out, arrow.Field{Name: string(rune('a' + i)), Type: t})
	}
	return out
}

var (
	i64, i8, u8, u64 = arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Uint64
	f32, f64         = arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64
	text, bin        = arrow.BinaryTypes.String, arrow.BinaryTypes.Binary
	boolean          = arrow.FixedWidthTypes.Boolean
)

// read drains a source into rows of JSON text, batch by batch.
func read(s Source, rowsMax int) (batches []string, err error) {
	for {
		batch, err := s.Next(rowsMax)
		if errors.Is(err, io.EOF) {
			return batches, nil
		}
		if err != nil {
			return batches, err
		}
		var out []byte
		for i := range int(batch.Len()) {
			out = append(out, '[')
			for c, column := range batch.Args.Columns() {
				if c > 0 {
					out = append(out, ' ')
				}
				out = AppendJSON(out, column, i)
			}
			out = append(out, ']')
		}
		batch.Release()
		batches = append(batches, string(out))
	}
}

func TestJSONRows(t *testing.T) {
	for _, c := range []struct {
		name, in string
		fields   []arrow.Field
		rowsMax  int
		want     string // batches joined by |
		err      string
	}{
		{"rows", "[[12,18],[7,null]]", fields(i64, i64), 10, "[12 18][7 null]", ""},
		{"batches", "[[1],[2],[3]]", fields(i64), 2, "[1][2]|[3]", ""},
		{"no rows", " [ ] ", fields(i64), 10, "", ""},
		{"no columns", "[[],[]]", nil, 10, "[][]", ""},
		{"exact integers", "[[-9223372036854775808,18446744073709551615]]", fields(i64, u64), 10, "[-9223372036854775808 18446744073709551615]", ""},
		{"floats", `[[0.1,"NaN"],[1e300,"-Infinity"],[3,"Infinity"]]`, fields(f64, f32), 10, `[0.1 "NaN"][1e+300 "-Infinity"][3 "Infinity"]`, ""},
		{"text", `[["a\"\n","\u00e9\ud83d\ude00"]]`, fields(text, text), 10, `["a\"\n" "é😀"]`, ""},
		{"given U+FFFD", `[["\ufffd�"]]`, fields(text), 10, `["��"]`, ""},
		{"binary", `[["AAH/"]]`, fields(bin), 10, `["AAH/"]`, ""},
		{"bool", `[[true],[false],[null]]`, fields(boolean), 10, "[true][false][null]", ""},

		{"integers for floats", `[[9007199254740994,16777216],[-0,7],[100000000000000000000,0.1],[1152921504606847000,1e3],[9007199254740993.0,1]]`, fields(f64, f32), 10, "[9007199254740994 16777216][-0 7][100000000000000000000 0.1][1152921504606847000 1000][9007199254740992 1]", ""},
		{"not exact", `[[1],[9007199254740993]]`, fields(f64), 10, "", `row 1, column 0 "a": 9007199254740993 is not exact in float64`},
		{"not exact in the half", `[[-16777217]]`, fields(f32), 10, "", `row 0, column 0 "a": -16777217 is not exact in float32`},
		{"not an array", `{"a":1}`, fields(i64), 10, "", "wanted an array of rows such as [[1, 2], [3, null]], got {"},
		{"row not an array", `[12]`, fields(i64), 10, "", "row 0: wanted an array of 1 value, got 12"},
		{"too few", `[[1,2],[1]]`, fields(i64, i64), 10, "", "row 1: wanted 2 values, got 1"},
		{"cut", `[[1],[2`, fields(i64), 10, "", "JSON ends too early, after 1 row"},
		{"rest", `[[1]] 7`, fields(i64), 10, "", "wanted nothing after the array of rows, got 7"},
		{"kind", `[[1,2],[3,"x"]]`, fields(i64, i64), 10, "", `row 1, column 1 "b": wanted int64, got string "x"`},
		{"fraction", `[[1.5]]`, fields(i64), 10, "", `row 0, column 0 "a": wanted int64, got 1.5`},
		{"integral float", `[[1.0]]`, fields(i64), 10, "", `row 0, column 0 "a": wanted int64, got 1.0`},
		{"range", `[[128]]`, fields(i8), 10, "", `row 0, column 0 "a": wanted int8, got 128, which is out of its range`},
		{"negative", `[[-1]]`, fields(u8), 10, "", `row 0, column 0 "a": wanted uint8, got -1, which is out of its range`},
		{"float range", `[[1e39]]`, fields(f32), 10, "", `row 0, column 0 "a": wanted float32, got 1e39, which is out of its range`},
		{"bool for int", `[[true]]`, fields(i64), 10, "", `row 0, column 0 "a": wanted int64, got boolean true`},
		{"int for text", `[[1]]`, fields(text), 10, "", `row 0, column 0 "a": wanted utf8, got number 1`},
		{"half a pair", `[["\ud800"]]`, fields(text), 10, "", `row 0, column 0 "a": wanted utf8, got text that is not valid Unicode: "\ud800"`},
		{"not base64", `[["?"]]`, fields(bin), 10, "", `row 0, column 0 "a": wanted binary as base64, got "?"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := NewJSONRows(strings.NewReader(c.in), c.fields, Options{})
			if err != nil {
				t.Fatal(err)
			}
			got, err := read(s, c.rowsMax)
			check(t, got, err, c.want, c.err)
		})
	}
}

func check(t *testing.T, got []string, err error, want, wantErr string) {
	t.Helper()
	if wantErr != "" {
		if err == nil || err.Error() != wantErr {
			t.Errorf("error = %v, want %s", err, wantErr)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if all := strings.Join(got, "|"); all != want {
		t.Errorf("rows = %s, want %s", all, want)
	}
}

func TestCSV(t *testing.T) {
	for _, c := range []struct {
		name, in string
		fields   []arrow.Field
		o        Options
		want     string
		err      string
	}{
		{"by name", "b,x,a\n1,2,3\n", fields(i64, i64), Options{}, "[3 1]", ""},
		{"by position", "x,y,z\n1,2,3\n", fields(i64, i64), Options{}, "[1 2]", ""},
		{"columns", "x,y\n1,2\n", fields(i64, i64), Options{Columns: []string{"y", "x"}}, "[2 1]", ""},
		{"null and empty text", "a,b\n,\"\"\n\"\",x\n", fields(text, text), Options{}, `[null ""]["" "x"]`, ""},
		{"spelling of null", "a,b\nNA,\"NA\"\n", fields(i64, text), Options{Null: "NA"}, `[null "NA"]`, ""},
		{"quotes", "a,b\r\n\"1,\"\"2\"\"\n3\",4\r\n", fields(text, i64), Options{}, `["1,\"2\"\n3" 4]`, ""},
		{"mark and no last newline", "\ufeffa\n1", fields(i64), Options{}, "[1]", ""},
		{"blank lines", "a,b\n\n1,2\n\n", fields(i64, i64), Options{}, "[1 2]", ""},
		{"blank line is a null", "a\n1\n\n2\n", fields(i64), Options{}, "[1][null][2]", ""},
		{"last field empty", "a,b\n1,", fields(i64, i64), Options{}, "[1 null]", ""},
		{"bool and float", "a,b\nTRUE,NaN\n0,-inf\n", fields(boolean, f64), Options{}, `[true "NaN"][false "-Infinity"]`, ""},
		{"bare CR", "a,b\r1,2\r3,4\r", fields(i64, i64), Options{}, "[1 2][3 4]", ""},
		{"bare CR, quotes", "a,b\r\"x\ry\",2\r\"z\",4", fields(text, i64), Options{}, `["x\ry" 2]["z" 4]`, ""},
		{"every line end", "a,b\r\n1,2\r3,4\n5,6\r\n7,8\r9,10\r11,12\r\n13,14", fields(i64, i64), Options{}, "[1 2][3 4][5 6][7 8][9 10][11 12][13 14]", ""},
		{"no rows", "a\n", fields(i64), Options{}, "", ""},

		{"value", "a,b\n1,2\n3,abc\n", fields(i64, i64), Options{}, "", `line 3, column 2 "b": wanted int64, got "abc"`},
		{"line after a long field", "a,b\n\"x\ny\",1\nz,q\n", fields(text, i64), Options{}, "", `line 4, column 2 "b": wanted int64, got "q"`},
		{"line after bare CRs", "a,b\r\"x\r\ny\",1\rz,q\r", fields(text, i64), Options{}, "", `line 4, column 2 "b": wanted int64, got "q"`},
		{"not exact", "a\n9007199254740992\n9007199254740993\n", fields(f64), Options{}, "", `line 3, column 1 "a": 9007199254740993 is not exact in float64`},
		{"range", "a\n300\n", fields(u8), Options{}, "", `line 2, column 1 "a": wanted uint8, got 300, which is out of its range`},
		{"quoted nothing", "a,b\n\"\",1\n", fields(i64, i64), Options{}, "", `line 2, column 1 "a": wanted int64, got ""`},
		{"ragged", "a,b\n1,2,3\n", fields(i64, i64), Options{}, "", "line 2: wanted 2 fields as in the header, got 3"},
		{"not UTF-8", "a\n\xff\n", fields(text), Options{}, "", `line 2, column 1 "a": wanted utf8, got bytes that are not UTF-8: "\xff"`},
		{"open quote", "a\n\"x\n", fields(text), Options{}, "", "line 2: the record has a quote that nothing closes"},
		{"quote inside", "a\nx\"y\n", fields(text), Options{}, "", "line 2: a quote within a field that does not begin with one"},
		{"after quote", "a\n\"x\"y\n", fields(text), Options{}, "", "line 2: wanted a comma or the end of the line after a closing quote, got 'y'"},
		{"Go's own floats", "a\n0x1p4\n", fields(f64), Options{}, "", `line 2, column 1 "a": wanted float64, got "0x1p4"`},
		{"empty", "", fields(i64), Options{}, "", "wanted a header row, got an empty file"},
		{"no such column", "x,y\n", fields(i64), Options{Columns: []string{"z"}}, "", `no column "z"; the file has x, y`},
		{"other separator", "x;y\n", fields(i64, i64), Options{}, "", "wanted 2 columns (a, b), got 1 (x;y); fields are separated by commas"},
		{"no CSV", "\x00\xff" + strings.Repeat("z", 50) + "\n", fields(i64, i64), Options{}, "", `wanted 2 columns (a, b), got 1 ("\x00\xff` + strings.Repeat("z", 38) + `"…)`},
		{"twice", "a,a\n", fields(i64), Options{}, "", `column "a" is there twice`},
		{"too few columns", "x\n", fields(i64, i64), Options{}, "", "wanted 2 columns (a, b), got 1 (x)"},
		{"too few names", "x\n", fields(i64, i64), Options{Columns: []string{"x"}}, "", "wanted 2 column names, got 1 (x)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := NewCSV(strings.NewReader(c.in), c.fields, c.o)
			var got []string
			if err == nil {
				got, err = read(s, 10)
			}
			check(t, got, err, c.want, c.err)
		})
	}
}

func TestCSV_gzip(t *testing.T) {
	var file bytes.Buffer
	z := gzip.NewWriter(&file)
	_, _ = z.Write([]byte("a\n1\n2\n3\n")) // into memory
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	whole := file.String()
	for _, c := range []struct{ name, in, file, want, err string }{
		{"named", whole, "x.csv.gz", "[1][2]|[3]", ""},
		{"stdin", whole, "", "[1][2]|[3]", ""},
		{"text in a .gz", "a\n1\n", "x.csv.gz", "", "wanted gzip, as the name says; the file is not gzip"},
		{"empty .gz", "", "x.csv.gz", "", "wanted gzip, as the name says; the file is not gzip"},
		{"gzip in a .csv", whole, "x.csv", "", "wanted text, as the name says; the file is gzip (name it .csv.gz)"},
		{"cut header", whole[:4], "x.csv.gz", "", "the gzip file is cut short"},
		{"cut before a row", whole[:12], "x.csv.gz", "", "the gzip file is cut short"},
		{"cut checksum", whole[:len(whole)-3], "x.csv.gz", "", "the gzip file is cut short"},
		{"junk", "\x1f\x8bjunk and junk and junk", "x.csv.gz", "", "the gzip file is damaged: gzip: invalid header"},
		{"junk behind", whole + "junk and junk", "x.csv.gz", "", "the gzip file is damaged: gzip: invalid header"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := NewCSV(strings.NewReader(c.in), fields(i64), Options{File: c.file})
			var got []string
			if err == nil {
				got, err = read(s, 2)
			}
			check(t, got, err, c.want, c.err)
		})
	}
}

// A file of bare CRs is read line by line from the buffer too, and so is one
// whose line ends lie on the buffer's edge.
func TestCSV_lineEndsAcrossBuffers(t *testing.T) {
	for _, end := range []string{"\r", "\n", "\r\n"} {
		for size := 16; size < 24; size++ { // bufio's least is 16
			in := strings.Repeat("1,2"+end, 50)
			s := newScanner(bufio.NewReaderSize(strings.NewReader(in), size))
			records := 0
			for {
				cells, err := s.record()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil || len(cells) != 2 || string(cells[0].text) != "1" || string(cells[1].text) != "2" {
					t.Fatalf("%q, buffer of %d, record %d: %d cells, %v", end, size, records, len(cells), err)
				}
				records++
			}
			if records != 50 || s.next != 51 {
				t.Errorf("%q, buffer of %d: %d records, %d lines", end, size, records, s.next-1)
			}
		}
	}
}

// A batch ends by bytes too, however many rows were asked for.
func TestCSV_longRows(t *testing.T) {
	row := strings.Repeat("x", 1000) + "\n"
	s, err := NewCSV(strings.NewReader("a\n"+row+row+row), fields(text), Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.table.most = 1500
	got, err := read(s, 1000)
	if err != nil || len(got) != 2 {
		t.Errorf("got %d batches, %v; want 2", len(got), err)
	}
}

func FuzzCSV(f *testing.F) {
	f.Add([]byte("a,b\n1,\"x\"\"y\"\r\n,\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		s, err := NewCSV(bytes.NewReader(file), fields(i64, text), Options{})
		if err != nil {
			return
		}
		_, _ = read(s, 3) // must end without a panic
	})
}
