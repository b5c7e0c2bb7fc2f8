package server

import (
	"strings"
	"testing"

	"github.com/udfgate/udfgate"
)

// taking makes echo a function that takes a column of a type.
func (g *gateway) taking(typ udfgate.Type) {
	g.t.Helper()
	f, _, err := g.table.Lookup("echo")
	if err != nil {
		g.t.Fatal(err)
	}
	f.Args = []udfgate.Field{{Name: "a", Type: typ, Nullable: true}}
}

// Nulls that are five letters each can be any number of bytes: a batch of them
// is bounded as a message is, before more is made of it.
func TestHTTPCall_nulls(t *testing.T) {
	g := start(t, Config{MessageBytesMax: 1 << 20}, map[string]body{"echo": echo})
	items := []udfgate.Field{{Name: "item", Type: udfgate.Type{Kind: udfgate.Int64}, Nullable: true}}
	g.taking(udfgate.Type{Kind: udfgate.FixedSizeList, Size: 1000, Children: items})
	code, _, text := g.post("echo", `{"rows":[[null]`+strings.Repeat(",[null]", 200)+`]}`)
	if want := "batch of more than 1048576 bytes is over --max-message-bytes 1048576; send fewer rows"; code != 400 || !strings.Contains(text, want) {
		t.Errorf("got %d %s\nwanted %s", code, text, want)
	}
	g.taking(udfgate.Type{Kind: udfgate.FixedSizeList, Size: 100_000_000, Children: items})
	code, _, text = g.post("echo", `{"rows":[[null]]}`)
	if want := "text cannot be read as fixed_size_list\\u003cint64\\u003e[100000000]: a null of it is over 64 MiB (nullBytesMax)"; code != 400 || !strings.Contains(text, want) {
		t.Errorf("got %d %s\nwanted %s", code, text, want)
	}
	g.taking(udfgate.Type{Kind: udfgate.FixedSizeList, Children: items})
	code, _, text = g.post("echo", `{"rows":[[[]]]}`)
	if want := "fixed_size_list of size 0, wanted at least 1"; code != 400 || !strings.Contains(text, want) {
		t.Errorf("got %d %s\nwanted %s", code, text, want)
	}
}
