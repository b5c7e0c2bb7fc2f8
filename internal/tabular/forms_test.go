package tabular

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/float16"
)

// oneValue reads a single value and prints it again.
func oneValue(f arrow.Field, s Source, err error) (string, error) {
	if err != nil {
		return "", err
	}
	rows, err := s.Next(10)
	if err != nil {
		return "", err
	}
	return string(AppendFieldJSON(nil, f, rows.Args.Column(0), 0)), nil
}

// Forms of values, in a field of CSV and as JSON. What is no JSON has no second
// one.
func TestForms(t *testing.T) {
	arrowJSON, err := extensions.NewJSONType(text)
	if err != nil {
		t.Fatal(err)
	}
	pair := arrow.StructOf(arrow.Field{Name: "a", Type: i64}, arrow.Field{Name: "b", Type: text, Nullable: true})
	seconds, nanos := &arrow.TimestampType{Unit: arrow.Second}, &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "UTC"}
	duration := &arrow.DurationType{Unit: arrow.Millisecond}
	wide := &arrow.Decimal256Type{Precision: 76, Scale: 0}
	for _, c := range []struct {
		t    arrow.DataType
		csv  string
		json string // empty: csv as a string
		want string // the value, or what is wrong with the JSON
	}{
		{date32, "2024-02-29", "", `"2024-02-29"`},
		{date32, "0000-01-01", "", `"0000-01-01"`},
		{date32, "+10000-01-01", "", `"+10000-01-01"`},
		{date32, "-0044-03-15", "", `"-0044-03-15"`},
		{date64, "1969-12-31", "", `"1969-12-31"`},
		{arrow.FixedWidthTypes.Time32s, "23:59", "", `"23:59:00"`},
		{arrow.FixedWidthTypes.Time64ns, "00:00:00.000000001", "", `"00:00:00.000000001"`},
		{naive, "2024-01-02 03:04:05", "", `"2024-01-02T03:04:05"`},
		{naive, "2024-01-02T03:04:05.500000000", "", `"2024-01-02T03:04:05.5"`},
		{timestamp, "2024-03-31T02:30:00+02:00", "", `"2024-03-31T00:30:00Z"`},
		{timestamp, "2024-01-01T00:00-0530", "", `"2024-01-01T05:30:00Z"`},
		{timestamp, "0000-01-01T00:00:00+23:59", "", `"-0001-12-31T00:01:00Z"`},
		{seconds, "+292277026596-12-04T15:30:07", "", `"+292277026596-12-04T15:30:07"`},
		{duration, "PT1.5S", "", `"PT1.5S"`},
		{duration, "-P1DT1H1M1.001S", "", `"PT-90061.001S"`},
		{duration, "P1WT-1S", "", `"PT604799S"`},
		{months, "P1Y-1M", "", `"P11M"`},
		{dayTimes, "P2DT-0.5S", "", `"P2DT-0.5S"`},
		{monthDayNanos, "P1M0DT0.000000001S", "", `"P1MT0.000000001S"`},
		{monthDayNanos, "PT0S", "", `"PT0S"`},
		{money, "12.5", "12.5", `"12.50"`},
		{money, "-1.250e1", `"-1.250e1"`, `"-12.50"`},
		{money, "0e-900", "0e-900", `"0.00"`},
		{money, "1." + strings.Repeat("0", 100), "", `"1.00"`},
		{&arrow.Decimal128Type{Precision: 3, Scale: -2}, "12300", "12300", `"12300"`},
		{wide, strings.Repeat("9", 76), "", `"` + strings.Repeat("9", 76) + `"`},
		{half, "0.1", "0.1", "0.099975586"},
		{half, "65519.99", "65519.99", "65504"},
		{half, "2.980232238769531250001e-8", "2.980232238769531250001e-8", "5.9604645e-08"},
		{half, "NaN", `"NaN"`, `"NaN"`},
		{uuids, "123E4567-e89b-12d3-a456-426614174000", "", `"123e4567-e89b-12d3-a456-426614174000"`},
		{&arrow.FixedSizeBinaryType{ByteWidth: 2}, "YWI=", "", `"YWI="`},
		{arrowJSON, `{"a": 1.0}`, `{"a": 1.0}`, `{"a": 1.0}`},
		{arrowJSON, strings.Repeat("[", 500) + strings.Repeat("]", 500), strings.Repeat("[", 500) + strings.Repeat("]", 500), strings.Repeat("[", 500) + strings.Repeat("]", 500)},
		{arrow.ListOf(i64), " [1, null] ", "[1, null]", "[1,null]"},
		{arrow.ListOf(i64), "null", "null", "null"},
		{pair, `{"b":null,"a":1}`, `{"b":null,"a":1}`, `{"a":1,"b":null}`},
		{pair, `{"a":1}`, `{"a":1}`, `{"a":1,"b":null}`},
		{arrow.MapOf(text, i64), `{"a":1,"b":null}`, `{"a":1,"b":null}`, `[{"key":"a","value":1},{"key":"b","value":null}]`},
		{arrow.MapOf(i64, i64), `[{"key":1,"value":2},{"key":1}]`, `[{"key":1,"value":2},{"key":1}]`, `[{"key":1,"value":2},{"key":1,"value":null}]`},

		{date32, "2023-02-29", "", `wanted date32, got 2023-02-29, which is no day of the calendar`},
		{date32, "10000-01-01", "", `wanted date32 as YYYY-MM-DD, got "10000-01-01"`},
		{date32, "31/01/2024", "", `wanted date32 as YYYY-MM-DD, got "31/01/2024"`},
		{date32, "+5881580-07-12", "", `wanted date32, got +5881580-07-12, which is out of its range`},
		{date32, "+9999999999999-01-01", "", `wanted date32 as YYYY-MM-DD, got "+9999999999999-01-01"`},
		{arrow.FixedWidthTypes.Time32s, "24:00:00", "", `wanted time32[s] as HH:MM:SS, got "24:00:00"`},
		{arrow.FixedWidthTypes.Time32s, "23:59:60", "", `wanted time32[s] as HH:MM:SS, got "23:59:60"`},
		{arrow.FixedWidthTypes.Time32s, "23:59:59.5", "", `23:59:59.5 is not exact in time32[s]`},
		{naive, "2024-01-02", "", `wanted timestamp[us] as YYYY-MM-DDTHH:MM:SS, got "2024-01-02"`},
		{naive, "2024-01-02T03:04:05Z", "", `wanted timestamp[us] without an offset, got "2024-01-02T03:04:05Z"`},
		{naive, "2024-01-02T03:04:05.0000001", "", `2024-01-02T03:04:05.0000001 is not exact in timestamp[us]`},
		{timestamp, "2024-01-02T03:04:05", "", `wanted timestamp[us, Europe/Berlin] with an offset such as Z or +01:00, got "2024-01-02T03:04:05"`},
		{timestamp, "2024-01-02T03:04:05+24:00", "", `wanted timestamp[us, Europe/Berlin] as YYYY-MM-DDTHH:MM:SSZ, got "2024-01-02T03:04:05+24:00"`},
		{nanos, "2262-04-11T23:47:16.854775808Z", "", `wanted timestamp[ns, UTC], got 2262-04-11T23:47:16.854775808Z, which is out of its range`},
		{nanos, "1677-09-21T00:12:43.145224191Z", "", `wanted timestamp[ns, UTC], got 1677-09-21T00:12:43.145224191Z, which is out of its range`},
		{duration, "1500", "1500", `wanted duration[ms], got number 1500`},
		{duration, "P1M", "", `wanted duration[ms] as an ISO 8601 duration such as PT1.5S, got "P1M"`},
		{duration, "PT1S1M", "", `wanted duration[ms] as an ISO 8601 duration such as PT1.5S, got "PT1S1M"`},
		{duration, "PT", "", `wanted duration[ms] as an ISO 8601 duration such as PT1.5S, got "PT"`},
		{duration, "PT0.0001S", "", `PT0.0001S is not exact in duration[ms]`},
		{duration, "P99999999999999999999D", "", `wanted duration[ms], got P99999999999999999999D, which is out of its range`},
		{months, "P1D", "", `wanted month_interval as an ISO 8601 duration such as P1Y2M, got "P1D"`},
		{months, "P178956971Y", "", `wanted month_interval, got P178956971Y, which is out of its range`},
		{money, "1.234", "1.234", `wanted decimal128(10, 2), got 1.234, which has more digits after the point than its scale`},
		{money, "123456789", "123456789", `wanted decimal128(10, 2), got 123456789, which has more digits than its precision`},
		{money, "1e999999999", "1e999999999", `wanted decimal128(10, 2), got 1e999999999, which has more digits than its precision`},
		{money, strings.Repeat("9", 100), strings.Repeat("9", 100), `wanted decimal128(10, 2), got ` + strings.Repeat("9", 40) + `…, which has more digits than its precision`},
		{money, strings.Repeat("0", 1025), `"` + strings.Repeat("0", 1025) + `"`, `wanted decimal128(10, 2) of at most 1024 characters (decimalTextMax), got 1025`},
		{money, "1.", `"1."`, `wanted decimal128(10, 2), got "1."`},
		{money, "NaN", `"NaN"`, `wanted decimal128(10, 2), got "NaN"`},
		{half, "65520", "65520", `wanted float16, got 65520, which is out of its range`},
		{half, "2049", "2049", `2049 is not exact in float16`},
		{uuids, "123e4567e89b12d3a456426614174000", "", `wanted a UUID such as 123e4567-e89b-12d3-a456-426614174000, got "123e4567e89b12d3a456426614174000"`},
		{uuids, "123e4567-e89b-12d3-a456-42661417400-", "", `wanted a UUID such as 123e4567-e89b-12d3-a456-426614174000, got "123e4567-e89b-12d3-a456-42661417400-"`},
		{&arrow.FixedSizeBinaryType{ByteWidth: 2}, "YQ==", "", `wanted fixed_size_binary[2], got 1 byte`},
		{arrow.Null, "x", "", `wanted null, got "x"`},
		{arrowJSON, strings.Repeat("[", 501) + strings.Repeat("]", 501), strings.Repeat("[", 501) + strings.Repeat("]", 501), `wanted JSON nested at most 500 deep (jsonDepthMax), got more`},
		{arrow.ListOf(i64), "1", "1", `wanted list<int64>, got number 1`},
		{arrow.ListOf(i64), `[1,"2"]`, `[1,"2"]`, `item 1: wanted int64, got string "2"`},
		{arrow.ListOf(date32), `["2024-1-1"]`, `["2024-1-1"]`, `item 0: wanted date32 as YYYY-MM-DD, got "2024-1-1"`},
		{arrow.ListOf(text), `["\ud800"]`, `["\ud800"]`, `item 0: wanted utf8, got text that is not valid Unicode: "\ud800"`},
		{arrow.FixedSizeListOf(2, i64), "[1]", "[1]", `wanted 2 items for fixed_size_list<int64>[2], got 1`},
		{arrow.FixedSizeListOf(2, i64), "[1,2,3]", "[1,2,3]", `wanted 2 items for fixed_size_list<int64>[2], got 3`},
		{pair, `{"a":1,"c":2}`, `{"a":1,"c":2}`, `no member "c" in struct<a int64 not null, b utf8>`},
		{pair, `{"a":1,"a":2}`, `{"a":1,"a":2}`, `member "a" is there twice`},
		{pair, `{"b":"x"}`, `{"b":"x"}`, `member "a" is missing, and is not nullable`},
		{pair, `[1,"x"]`, `[1,"x"]`, `wanted struct<a int64 not null, b utf8>, got array [1,"x"]`},
		{arrow.MapOf(i64, i64), `{"1":2}`, `{"1":2}`, `wanted map<int64, int64>, got object {"1":2}`},
		{arrow.MapOf(text, i64), `{"a":1,"a":2}`, `{"a":1,"a":2}`, `member "a" is there twice`},
		{arrow.MapOf(text, i64), `[{"key":null,"value":2}]`, `[{"key":null,"value":2}]`, `entry 0: wanted a key, got null`},
		{arrow.MapOf(text, i64), `[{"value":2}]`, `[{"value":2}]`, `entry 0: wanted members key and value, got no key`},
		{arrow.MapOf(text, i64), `[["a",2]]`, `[["a",2]]`, `entry 0: wanted an object of key and value, got array`},
		{arrow.MapOf(text, i64), `[{"key":"a","value":"b"}]`, `[{"key":"a","value":"b"}]`, `entry 0, value: wanted int64, got string "b"`},
		{arrow.ListOf(arrow.FixedSizeListOf(1<<10, &arrow.FixedSizeBinaryType{ByteWidth: 1 << 13})), "[" + strings.Repeat("null,", 9) + "null]", "[" + strings.Repeat("null,", 9) + "null]", `item 8: wanted a value whose nulls take at most 64 MiB (nullBytesMax), got more`},
	} {
		f := arrow.Field{Name: "x", Type: c.t, Nullable: true}
		json := c.json
		if json == "" {
			json = fmt.Sprintf("%q", c.csv)
		}
		s, err := NewJSONRows(strings.NewReader("[["+json+"]]"), []arrow.Field{f}, Options{})
		matches(t, "JSON "+clip(json), `row 0, column 0 "x": `, c.want)(oneValue(f, s, err))
		if c.json != "" && strings.HasPrefix(c.want, "wanted duration[ms], got number") {
			continue // CSV has no numbers
		}
		field := `"` + strings.ReplaceAll(c.csv, `"`, `""`) + `"`
		csv, err := NewCSV(strings.NewReader("x\n"+field+"\n"), []arrow.Field{f}, Options{})
		matches(t, "CSV "+clip(c.csv), `line 2, column 1 "x": `, c.want)(oneValue(f, csv, err))
	}
}

func matches(t *testing.T, what, where, want string) func(string, error) {
	return func(got string, err error) {
		t.Helper()
		if err != nil {
			got = strings.TrimPrefix(err.Error(), where)
		}
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", what, got, want)
		}
	}
}

// Texts that only CSV can have, or only JSON.
func TestForms_one(t *testing.T) {
	arrowJSON, err := extensions.NewJSONType(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		f        arrow.Field
		csv, err string
	}{
		{extended(arrow.ListOf(i64), ""), "1;2", `line 2, column 1 "x": wanted list<int64> as JSON, got "1;2"`},
		{extended(arrow.ListOf(i64), ""), "NA", `line 2, column 1 "x": wanted list<int64> as JSON, got "NA"; --csv-null NA takes it as null`},
		{extended(arrowJSON, ""), "{", `line 2, column 1 "x": wanted JSON, got "{"`},
		{extended(arrowJSON, ""), "\xff", `line 2, column 1 "x": wanted utf8, got bytes that are not UTF-8: "\xff"`},
		{extended(arrow.ListOf(text), ""), "\"[\"\"\xff\"\"]\"", `line 2, column 1 "x": wanted utf8, got bytes that are not UTF-8: "[\"\xff\"]"`},
		{extended(largeText, ""), "\xff", `line 2, column 1 "x": wanted utf8, got bytes that are not UTF-8: "\xff"`},
		{extended(text, "arrowudf.decimal"), "1,5", `line 2, column 1 "x": wanted utf8 as arrowudf.decimal such as 12.50, got "1,5"`},
	} {
		field := c.csv
		if strings.Contains(field, ",") {
			field = `"` + field + `"`
		}
		s, err := NewCSV(strings.NewReader("x\n"+field+"\n"), []arrow.Field{c.f}, Options{})
		if _, err := oneValue(c.f, s, err); err == nil || err.Error() != c.err {
			t.Errorf("error = %v, want %s", err, c.err)
		}
	}
	f := extended(text, "arrowudf.decimal")
	s, err := NewJSONRows(strings.NewReader("[[1.50]]"), []arrow.Field{f}, Options{})
	if got, err := oneValue(f, s, err); err != nil || got != `"1.50"` {
		t.Error(got, err)
	}
	f = extended(text, "arrowudf.json")
	s, err = NewJSONRows(strings.NewReader("[[\"\xff\"]]"), []arrow.Field{f}, Options{})
	if _, err := oneValue(f, s, err); err == nil || !strings.Contains(err.Error(), "not valid Unicode") {
		t.Error(err)
	}
}

// A struct that has no names for its members, or one for two, is an array.
func TestPositional(t *testing.T) {
	for _, name := range []string{"", "a"} {
		pair := arrow.Field{Type: arrow.StructOf(arrow.Field{Name: name, Type: i64}, arrow.Field{Name: name, Type: text})}
		for text, want := range map[string]string{
			`[1,"x"]`:   `[1,"x"]`,
			`["1","x"]`: `row 0, column 0 "": member 0: wanted int64, got string "1"`,
			`[1]`:       `wanted 2 values for struct<`,
			`[1,"x",2]`: `, got 3`,
			`{"":1}`:    `wanted an array of 2 values for struct<`,
		} {
			s, err := NewJSONRows(strings.NewReader("[["+text+"]]"), []arrow.Field{pair}, Options{})
			got, err := oneValue(pair, s, err)
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, want) {
				t.Errorf("%s: got %s, want %s", text, got, want)
			}
		}
	}
}

// Types that no text stands for are refused before a row is read.
func TestReadable(t *testing.T) {
	for want, dt := range map[string]arrow.DataType{
		`column "a": text cannot be read as dictionary<int8, utf8> yet`:                                                   dictionary(text),
		`column "a": text cannot be read as utf8_view yet`:                                                                arrow.ListOf(view),
		`column "a": text cannot be read as fixed_size_list<int64>[10000000]: a null of it is over 64 MiB (nullBytesMax)`: arrow.FixedSizeListOf(10_000_000, i64),
	} {
		if _, err := NewJSONRows(strings.NewReader("[]"), fields(dt), Options{}); err == nil || err.Error() != want {
			t.Errorf("error = %v, want %s", err, want)
		}
	}
}

// Nulls that take much memory end a batch, as text does.
func TestNulls_endBatches(t *testing.T) {
	rows := "[" + strings.Repeat("[null],", 99) + "[null]]"
	s, err := NewJSONRows(strings.NewReader(rows), fields(arrow.FixedSizeListOf(1<<7, &arrow.FixedSizeBinaryType{ByteWidth: 1 << 13})), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n++ {
		batch, err := s.Next(1000)
		if errors.Is(err, io.EOF) {
			if n < 10 {
				t.Errorf("%d batches", n)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		batch.Release()
	}
}

// The calendar is Go's, where Go has it.
func TestCalendar(t *testing.T) {
	for days := int64(-800_000); days < 3_000_000; days += 97 {
		text := string(appendDate(nil, days))
		if at := time.Unix(days*secondsDay, 0).UTC(); at.Year() >= 0 && at.Year() < 10000 && at.Format(time.DateOnly) != text {
			t.Fatalf("day %d: got %s, want %s", days, text, at.Format(time.DateOnly))
		}
		if back, err := parseDate(text); err != nil || back != days {
			t.Fatalf("%s: got %d, %v; want %d", text, back, err, days)
		}
	}
}

// Times that are beyond a day are shown as what they are, and not read.
func TestTimes_beyond(t *testing.T) {
	a := fromJSON(t, i32, "[86400,-1]")
	for i, want := range []string{"24:00:00", "-00:00:01"} {
		v := int64(arrow.Int32Traits.CastFromBytes(a.Data().Buffers()[1].Bytes())[i])
		got := string(appendTimeOfDay(nil, v, arrow.Second))
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if _, err := parseTime(got, arrow.Second); !errors.Is(err, errSyntax) {
			t.Errorf("%s: %v", got, err)
		}
	}
}

// All half floats are what they say, and numbers between two of them go to the
// nearer one, or to the even one.
func TestHalf(t *testing.T) {
	for b := range uint16(halfInf) {
		h := float16.FromBits(b)
		v := halfFloat(h)
		if got, ok := roundHalf(v, 0); !ok || got != h {
			t.Fatalf("%#x: %v became %#x", b, v, got.Uint16())
		}
		next := halfFloat(float16.FromBits(b + 1))
		if b == halfInf-1 {
			next = 65536
		}
		even := b + b&1
		if got, ok := roundHalf((v+next)/2, 0); ok && got.Uint16() != even || !ok && even != halfInf {
			t.Fatalf("between %v and %v: got %#x", v, next, got.Uint16())
		}
		if got, ok := roundHalf(-(v+next)/2, 1); !ok || got.Uint16() != b|halfSign {
			t.Fatalf("a little above -%v: got %#x", (v+next)/2, got.Uint16())
		}
	}
}

func FuzzValues(f *testing.F) {
	for _, s := range []string{`[1,{"a":[]}]`, "P1Y2M", "-1.5e3", "2024-02-29T01:02:03.4+05:06", `{"a":1,"b":null}`} {
		f.Add(s)
	}
	pair := arrow.StructOf(arrow.Field{Name: "a", Type: arrow.ListOf(i64), Nullable: true}, arrow.Field{Name: "b", Type: arrow.MapOf(text, money), Nullable: true})
	types := fields(date32, timestamp, monthDayNanos, money, half, uuids, pair, arrow.ListOf(pair))
	f.Fuzz(func(t *testing.T, in string) {
		for _, field := range types {
			csv, err := NewCSV(strings.NewReader("x\n\""+strings.ReplaceAll(in, `"`, `""`)+"\"\n"), []arrow.Field{field}, Options{})
			got, err := oneValue(field, csv, err)
			if err != nil {
				continue
			}
			s, err := NewJSONRows(strings.NewReader("[["+got+"]]"), []arrow.Field{field}, Options{})
			if again, err := oneValue(field, s, err); err != nil || again != got {
				t.Errorf("%s: %q became %s, and that %s: %v", field.Type, in, got, again, err)
			}
		}
	})
}
