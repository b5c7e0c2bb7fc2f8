package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/udfgate/udfgate/internal/tabular"
)

// forms are types as functions declare them, what they are called everywhere
// else, and values of them as JSON: what is sent, and what comes back if that
// is not the same.
var forms = []struct{ declared, name, sent, back string }{
	{"float16", "float16", `0.5|65504|"NaN"`, ""},
	{"decimal128(10, 2)", "decimal128(10, 2)", `"12.50"|"-0.01"`, ""},
	{"DECIMAL(38, 0)", "decimal128(38, 0)", `99999999999999999999999999999999999999|1e3`, `"99999999999999999999999999999999999999"|"1000"`},
	{"DATE", "date32", `"2024-02-29"|"0001-01-01"`, ""},
	{"time64[us]", "time64[us]", `"23:59:59.999999"|"08:30:00"`, ""},
	{"timestamp[us]", "timestamp[us]", `"2024-01-31T08:30:00.5"|"1969-12-31T23:59:59.999999"`, ""},
	{"timestamp[us, tz=Europe/Berlin]", "timestamp[us, Europe/Berlin]", `"2024-10-27T02:30:00+02:00"|"2024-10-27T02:30:00+01:00"`, `"2024-10-27T00:30:00Z"|"2024-10-27T01:30:00Z"`},
	{"duration[us]", "duration[us]", `"PT1.5S"|"-P1D"`, `"PT1.5S"|"PT-86400S"`},
	{"large_string", "large_utf8", `"é"|""`, ""},
	{"large_binary", "large_binary", `"AAH/"`, ""},
	{"fixed_size_binary[2]", "fixed_size_binary[2]", `"YWI="`, ""},
	{"UUID", "fixed_size_binary[16] as arrow.uuid", `"123e4567-e89b-12d3-a456-426614174000"`, ""},
	{"JSON", "utf8 as arrowudf.json", `{"a":[1,null]}|"x"|7`, `{"a": [1, null]}|"x"|7`},
	{"list<item: int64>", "list<int64>", `[1,null,-9223372036854775808]|[]`, ""},
	{"list<item: list<item: string>>", "list<list<utf8>>", `[["a"],null,[]]`, ""},
	{"fixed_size_list<item: double>[2]", "fixed_size_list<float64>[2]", `[0.5,1]`, ""},
	{"STRUCT<a BIGINT, b VARCHAR[]>", "struct<a int64, b list<utf8>>", `{"a":1,"b":["x"]}|{"b":null}`, `{"a":1,"b":["x"]}|{"a":null,"b":null}`},
	{"MAP(VARCHAR, BIGINT)", "map<utf8, int64>", `{"k":1}|[{"key":"l","value":null}]`, `[{"key":"k","value":1}]|[{"key":"l","value":null}]`},
}

func formsSource() string {
	var source strings.Builder
	source.WriteString("from udfgate import udf\n")
	for i, f := range forms {
		fmt.Fprintf(&source, "@udf(input_types=[%q], result_type=%q)\ndef form_%d(v): return v\n", f.declared, f.declared, i)
	}
	return source.String()
}

// Values of every sort go to a function and back over HTTP, and by the client
// that the commands have.
func TestForms(t *testing.T) {
	g := open(t, formsSource(), timeoutDefault)
	c := dialed(t, g)
	functions, err := c.Functions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, listed := get(t, "http://"+g.server.HTTPAddr()+"/v1/functions")
	for i, f := range forms {
		t.Run(f.name, func(t *testing.T) {
			back := f.back
			if back == "" {
				back = f.sent
			}
			want := strings.ReplaceAll(back, "|", ",") + ",null"
			name := fmt.Sprintf("form_%d", i)
			body := `{"rows":[[` + strings.ReplaceAll(f.sent, "|", "],[") + `],[null]]}`
			answer, err := http.Post("http://"+g.server.HTTPAddr()+"/v1/call/"+name, "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(answer.Body)
			answer.Body.Close()
			if err != nil || !strings.HasPrefix(string(text), `{"rows":[`+want+`],`) {
				t.Errorf("HTTP: got %s, %v; want %s", text, err, want)
			}
			if signature := fmt.Sprintf(`"signature":"%s(v %s?) -> %s?"`, name, f.name, f.name); !strings.Contains(listed, signature) {
				t.Errorf("/v1/functions lacks %s in %s", signature, listed)
			}
			function := &functions[i]
			if got, want := function.Signature(), fmt.Sprintf("%s(v %s?) -> %s?", name, f.name, f.name); got != want {
				t.Errorf("signature %s, want %s", got, want)
			}
			source, err := tabular.NewJSONRows(strings.NewReader(`[[`+strings.ReplaceAll(f.sent, "|", "],[")+`],[null]]`), function.Args, tabular.Options{})
			if err != nil {
				t.Fatal(err)
			}
			rows, err := source.Next(100)
			if err != nil {
				t.Fatal(err)
			}
			result, err := c.Call(t.Context(), name, rows.Args)
			if err != nil {
				t.Fatal(err)
			}
			var out []string
			for i := range int(rows.Len()) {
				out = append(out, string(tabular.AppendFieldJSON(nil, result.Batch.Schema().Field(0), result.Batch.Column(0), i)))
			}
			if got := strings.Join(out, ","); got != want {
				t.Errorf("client: got %s, want %s", got, want)
			}
		})
	}
}

// An error names the value and the way to it.
func TestForms_wrong(t *testing.T) {
	g := open(t, formsSource(), timeoutDefault)
	t.Cleanup(g.close)
	post := func(form, row string) string {
		for i, f := range forms {
			if f.name == form {
				answer, err := http.Post(fmt.Sprintf("http://%s/v1/call/form_%d", g.server.HTTPAddr(), i), "application/json", strings.NewReader(`{"rows":[[null],[`+row+`]]}`))
				if err != nil {
					t.Fatal(err)
				}
				defer answer.Body.Close()
				text, err := io.ReadAll(answer.Body)
				if err != nil || answer.StatusCode != http.StatusBadRequest {
					t.Errorf("%s: %d %s %v", row, answer.StatusCode, text, err)
				}
				return string(text)
			}
		}
		t.Fatalf("no form %s", form)
		return ""
	}
	for _, c := range []struct{ form, row, want string }{
		{"date32", `"10000-01-01"`, `wanted date32 as YYYY-MM-DD, got \"10000-01-01\"`},
		{"decimal128(10, 2)", "1.234", `wanted decimal128(10, 2), got 1.234, which has more digits after the point than its scale`},
		{"list<int64>", `[1,"2"]`, `item 1: wanted int64, got string \"2\"`},
		{"timestamp[us, Europe/Berlin]", `"2024-01-01T00:00:00"`, `with an offset such as Z or +01:00`},
		{"utf8 as arrowudf.json", strings.Repeat("[", 600) + strings.Repeat("]", 600), `wanted JSON nested at most 500 deep (jsonDepthMax), got more`},
	} {
		if got := post(c.form, c.row); !strings.Contains(got, c.want) || !strings.Contains(got, `"row":1`) {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

// The table shows what is nested as JSON, and decimals to the right.
func TestForms_table(t *testing.T) {
	texts := arrow.ListOf(arrow.BinaryTypes.String)
	a, _, err := array.FromJSON(memory.DefaultAllocator, texts, strings.NewReader(`[["a",null],[],null]`))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{`["a",null]`, "[]", "null"} {
		if got := cellText(arrow.Field{Name: "x", Type: texts}, a, i); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if !numeric(&arrow.Decimal128Type{Precision: 10, Scale: 2}) || numeric(texts) {
		t.Error("wanted decimals alone to the right")
	}
}
