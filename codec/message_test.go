package codec

import (
	"encoding/base64"
	"encoding/binary"
	"maps"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/udfgate/udfgate"
)

// headers reads testdata/headers.txt: headers that other writers wrote, by name.
func headers(t testing.TB) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile("testdata/headers.txt")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for line := range strings.Lines(string(text)) {
		name, data, _ := strings.Cut(strings.TrimSpace(line), " ")
		if out[name], err = base64.StdEncoding.DecodeString(data); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return out
}

// recorded are the names of the headers that are good, in a fixed order.
func recorded(all map[string][]byte) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(name string) bool {
		return name == "type-union" || name == "type-deep" || strings.HasPrefix(name, "refused-")
	})
}

func TestReadMessage(t *testing.T) {
	all := headers(t)
	ints := Message{
		Kind: KindRecordBatch, BodyLen: 32, Rows: 2, Nodes: []Node{{2, 0}, {2, 0}},
		Buffers: []Buffer{{0, 0}, {0, 16}, {16, 0}, {16, 16}},
	}
	text := Message{
		Kind: KindRecordBatch, BodyLen: 64, Rows: 3, Nodes: []Node{{3, 1}, {3, 1}},
		Buffers: []Buffer{{0, 1}, {8, 24}, {32, 1}, {40, 16}, {56, 4}},
	}
	for name, want := range map[string]Message{"batch-ints": ints, "batch-v4": ints, "batch-text": text} {
		var m Message
		if err := ReadMessage(all[name], &m); err != nil || !reflect.DeepEqual(m, want) {
			t.Errorf("%s: got %+v, %v, wanted %+v", name, m, err, want)
		}
	}
	for _, name := range []string{"rust-batch-ints", "rust-batch-text"} {
		var m Message
		if err := ReadMessage(all[name], &m); err != nil || len(m.Nodes) != 2 {
			t.Errorf("%s: wanted two columns, got %+v, %v", name, m, err)
		}
		checkMessage(t, all[name], &m)
	}
}

// What packs its buffers or brings a dictionary is read like any other batch.
func TestReadMessagePacked(t *testing.T) {
	all := headers(t)
	for name, want := range map[string]Message{
		"packed-lz4":        {Kind: KindRecordBatch, Compression: CompressionLZ4},
		"packed-zstd":       {Kind: KindRecordBatch, Compression: CompressionZSTD},
		"packed-dictionary": {Kind: KindDictionary},
	} {
		var m Message
		if err := ReadMessage(all[name], &m); err != nil || m.Kind != want.Kind || m.Compression != want.Compression {
			t.Errorf("%s: wanted %+v, got %+v, %v", name, want, m, err)
		}
	}
}

func TestReadMessageRefuses(t *testing.T) {
	all := headers(t)
	tests := []struct {
		name  string
		kind  MessageKind
		shape udfgate.Shape
		want  string
	}{
		{"refused-tensor", KindOther, udfgate.ShapeUnsupported, "tensor messages are not taken; wanted a schema or a record batch"},
	}
	for _, test := range tests {
		var m Message
		err := ReadMessage(all[test.name], &m)
		if e := udfgate.AsError(err); err == nil || e.Reason != udfgate.Invalid || e.Shape != test.shape || e.Message != test.want || m.Kind != test.kind {
			t.Errorf("%s: wanted kind %d, %q, got kind %d, %v", test.name, test.kind, test.want, m.Kind, err)
		}
	}
	var m Message
	for name, b := range map[string][]byte{"nothing": nil, "seven bytes": make([]byte, 7), "too large": make([]byte, HeaderBytesMax+1)} {
		err := ReadMessage(b, &m)
		if err == nil || udfgate.AsError(err).Shape != udfgate.ShapeMalformed || !strings.Contains(err.Error(), "malformed header: Message") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestBatchFields damages one field of a good header at a time.
func TestBatchFields(t *testing.T) {
	const rowsAt, nodeAt, bufferAt, bodyAt = batchLengthAt, nodeVectorAt + 4, nodeVectorAt + 4 + 16 + 8, messageBodyAt
	good := AppendBatchMessage(nil, &Answer{
		Rows: 3, Nodes: []Node{{3, 0}}, Buffers: []Buffer{{0, 8}, {8, 24}}, Body: NewBlock(32),
	})
	tests := []struct {
		name  string
		at    int
		value int64
		want  string // "" for accepted
	}{
		{"unchanged", rowsAt, 3, ""},
		{"negative rows", rowsAt, -1, "RecordBatch.length: wanted 0 or more rows, got -1"},
		{"negative node", nodeAt, -3, "RecordBatch.nodes[0]: wanted a length of 0 to 34359738368, got -3"},
		{"nulls unknown", nodeAt + 8, -1, ""},
		{"all null", nodeAt + 8, 3, ""},
		{"more nulls than rows", nodeAt + 8, 4, "RecordBatch.nodes[0]: wanted a null count of 0 to 3, got 4"},
		{"nulls below -1", nodeAt + 8, -2, "RecordBatch.nodes[0]: wanted a null count of 0 to 3, got -2"},
		{"negative body", bodyAt, -1, "Message.bodyLength: wanted 0 or more, got -1"},
		{"body too short", bodyAt, 24, "buffer 1: wanted a range of the body's 24 bytes that starts at a multiple of 8, got 24 bytes at 8"},
		{"offset not a multiple of 8", bufferAt + 16, 4, "buffer 1: wanted"},
		{"negative offset", bufferAt + 16, -8, "buffer 1: wanted"},
		{"offset at the end", bufferAt, 32, "buffer 0: wanted"},
		{"negative length", bufferAt + 24, -24, "buffer 1: wanted"},
		{"length that wraps", bufferAt + 24, 1<<63 - 8, "buffer 1: wanted"},
		{"length past the end", bufferAt + 24, 25, "buffer 1: wanted"},
	}
	for _, test := range tests {
		b := slices.Clone(good)
		binary.LittleEndian.PutUint64(b[test.at:], uint64(test.value))
		var m Message
		err := ReadMessage(b, &m)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), "malformed header: "+test.want)) {
			t.Errorf("%s: wanted %q, got %v", test.name, test.want, err)
		}
	}
}

// What writers send must take the fast way.
func TestUsualBatches(t *testing.T) {
	all := headers(t)
	for _, name := range recorded(all) {
		if !strings.Contains(name, "batch") {
			continue
		}
		if !readUsualBatch(all[name], &Message{}) {
			t.Errorf("%s is not read the fast way", name)
		}
	}
	if !readUsualBatch(AppendBatchMessage(nil, &Answer{Body: NewBlock(0)}), &Message{}) {
		t.Error("an answer of our own is not")
	}
}

// checkMessage holds what the comment of Message promises.
func checkMessage(t testing.TB, header []byte, m *Message) {
	t.Helper()
	if m.Kind == KindOther || m.BodyLen < 0 || m.Rows < 0 || m.Compression > CompressionZSTD {
		t.Fatalf("accepted %+v", m)
	}
	if 16*(len(m.Nodes)+len(m.Buffers)) > len(header)*2 {
		t.Fatalf("%d nodes and %d buffers from %d bytes", len(m.Nodes), len(m.Buffers), len(header))
	}
	for _, n := range m.Nodes {
		if n.Length < 0 || n.Length > nodeLengthMax || n.Nulls < -1 || n.Nulls > n.Length {
			t.Fatalf("accepted node %+v of %d rows", n, m.Rows)
		}
	}
	for _, b := range m.Buffers {
		if b.Offset < 0 || b.Offset%8 != 0 || b.Length < 0 || b.Offset > m.BodyLen || b.Length > m.BodyLen-b.Offset {
			t.Fatalf("accepted buffer %+v of a body of %d", b, m.BodyLen)
		}
	}
}

// checkHeader reads a header that nobody vouches for in every way there is.
func checkHeader(t testing.TB, header []byte) {
	t.Helper()
	var m, quick Message
	if err := ReadMessage(header, &m); err == nil {
		checkMessage(t, header, &m)
		if readUsualBatch(header, &quick) {
			if err := readAnyMessage(header, &m); err != nil || !slices.Equal(m.Nodes, quick.Nodes) || !slices.Equal(m.Buffers, quick.Buffers) ||
				m.Rows != quick.Rows || m.BodyLen != quick.BodyLen || m.Kind != quick.Kind {
				t.Fatalf("quickly read %+v, with care %+v, %v", quick, m, err)
			}
		}
	} else if udfgate.AsError(err).Reason != udfgate.Invalid {
		t.Fatalf("wanted Invalid, got %v", err)
	}
	schema, err := ReadSchema(header)
	if err != nil {
		if udfgate.AsError(err).Reason != udfgate.Invalid || !reflect.DeepEqual(schema, udfgate.Schema{}) {
			t.Fatalf("wanted Invalid and no schema, got %v and %+v", err, schema)
		}
		return
	}
	checkSchema(t, schema)
}

// TestDamagedHeaders changes every byte of recorded headers to every other
// value, and cuts them after every byte: an error or a sound value, and never
// an allocation out of proportion (one changed byte in a schema once cost a
// server of arrow-go 40 GB, see apache/arrow-go#1062).
func TestDamagedHeaders(t *testing.T) {
	const allocatedMax = 16 << 20 // by the 255 changes of one byte, errors included
	all := headers(t)
	for _, name := range recorded(all) {
		whole := all[name]
		every := name == "schema-text" || name == "batch-text" || name == "rust-batch-text"
		var before, after runtime.MemStats
		for at := range whole {
			checkHeader(t, whole[:at])
			b := slices.Clone(whole)
			runtime.ReadMemStats(&before)
			for x := 1; x < 256; x++ {
				if every || x&(x-1) == 0 || x == 255 || x == 127 {
					b[at] = whole[at] ^ byte(x)
					checkHeader(t, b)
				}
			}
			runtime.ReadMemStats(&after)
			if got := after.TotalAlloc - before.TotalAlloc; got > allocatedMax {
				t.Errorf("%s: changes of byte %d allocated %d bytes", name, at, got)
			}
		}
	}
}

func FuzzReadMessage(f *testing.F) {
	for name, b := range headers(f) {
		if strings.HasPrefix(name, "batch-") || strings.HasPrefix(name, "refused-") || strings.HasPrefix(name, "rust-batch-") {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, header []byte) {
		var m Message
		if err := ReadMessage(header, &m); err != nil {
			if udfgate.AsError(err).Reason != udfgate.Invalid {
				t.Fatalf("wanted Invalid, got %v", err)
			}
			return
		}
		checkHeader(t, header)
		if m.Kind != KindRecordBatch || m.BodyLen > 1<<20 {
			return
		}
		body := NewBlock(int(m.BodyLen))
		defer body.Release()
		var again Message
		written := AppendBatchMessage(nil, &Answer{Rows: m.Rows, Nodes: m.Nodes, Buffers: m.Buffers, Body: body})
		if err := ReadMessage(written, &again); err != nil {
			t.Fatalf("what was written is refused: %v", err)
		}
		if m.Rows != again.Rows || m.BodyLen != again.BodyLen || !slices.Equal(m.Nodes, again.Nodes) || !slices.Equal(m.Buffers, again.Buffers) {
			t.Fatalf("wrote %+v, read %+v", m, again)
		}
	})
}

func BenchmarkReadMessage(b *testing.B) {
	all := headers(b)
	for name, header := range map[string][]byte{
		"columns=2": all["batch-ints"],
		"column=1":  AppendBatchMessage(nil, &Answer{Rows: 3, Nodes: []Node{{3, 0}}, Buffers: []Buffer{{0, 8}, {8, 24}}, Body: NewBlock(32)}),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var m Message
			for b.Loop() {
				if err := ReadMessage(header, &m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("floor=memcpy", func(b *testing.B) {
		src, dst := all["batch-ints"], make([]byte, 256)
		for b.Loop() {
			copy(dst, src)
		}
	})
}

func TestReadMessageAllocates(t *testing.T) {
	header := headers(t)["batch-text"]
	var m Message
	if n := testing.AllocsPerRun(100, func() { _ = ReadMessage(header, &m) }); n != 0 {
		t.Errorf("wanted no allocation after the first, got %.0f", n)
	}
}
