package client_test

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Nested types have names of the gateway's in signatures, and their schema is
// the one that a call takes.
func TestNested(t *testing.T) {
	c := connect(t, serve(t, "testdata/values.py", "127.0.0.1:0").addr)
	functions, err := c.Functions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range functions {
		got = append(got, functions[i].Signature())
	}
	if want := []string{
		"turn(v struct<a int64, b list<utf8>>?) -> struct<a int64, b list<utf8>>?",
		"moments(v map<utf8, decimal128(10, 2)>?) -> list<timestamp[us, UTC]>?",
		"same(v fixed_size_binary[16] as arrow.uuid?) -> fixed_size_binary[16] as arrow.uuid?",
	}; strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for name, values := range map[string][2]string{
		"turn":    {`[{"a":1,"b":["x",null]},null,{"a":null,"b":[]}]`, `[{"a":-1,"b":[null,"x"]},null,{"a":null,"b":[]}]`},
		"moments": {`[[{"key":"k","value":"1.50"}],[]]`, `[[],[]]`},
		"same":    {`["AAECAwQFBgcICQoLDA0ODw==",null]`, `["AAECAwQFBgcICQoLDA0ODw==",null]`},
	} {
		f, err := c.Function(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		column := func(t *testing.T, dt arrow.DataType, text string) arrow.Array {
			a, _, err := array.FromJSON(memory.DefaultAllocator, dt, strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		in := column(t, f.Args[0].Type, values[0])
		result, err := c.Call(t.Context(), name, array.NewRecordBatch(f.Schema(), []arrow.Array{in}, int64(in.Len())))
		if err != nil {
			t.Fatal(err)
		}
		if want := column(t, f.Result.Type, values[1]); !array.Equal(result.Batch.Column(0), want) {
			t.Errorf("%s: got %s, want %s", name, result.Batch.Column(0), want)
		}
	}
}
