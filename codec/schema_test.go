package codec

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/udfgate/udfgate"
)

func TestReadSchema(t *testing.T) {
	all := headers(t)
	fields := []udfgate.Field{field("a", udfgate.Int64), field("b", udfgate.Int64)}
	ints := udfgate.Schema{Fields: fields}
	text := udfgate.Schema{Fields: []udfgate.Field{field("a", udfgate.Int64), field("s", udfgate.Utf8)}}
	for i := range 2 {
		ints.Fields[i].Nullable, text.Fields[i].Nullable = true, true
	}
	every := udfgate.Schema{Metadata: []udfgate.KeyValue{{Key: "origin", Value: "pyarrow"}, {Key: "bytes", Value: "\x00\xff"}}}
	for i, k := range kinds {
		f := udfgate.Field{Name: k.String(), Type: udfgate.Type{Kind: k}, Nullable: i%2 == 0}
		if k == udfgate.Utf8 {
			f.Metadata = []udfgate.KeyValue{{Key: "k", Value: "v"}}
		}
		every.Fields = append(every.Fields, f)
	}
	for name, want := range map[string]udfgate.Schema{
		"schema-ints": ints, "rust-schema-ints": ints, "schema-v4": ints,
		"schema-text": text, "rust-schema-text": text, "schema-kinds": every,
	} {
		got, err := ReadSchema(all[name])
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v, wanted %+v", name, got, err, want)
		}
	}
}

func TestReadSchemaRefuses(t *testing.T) {
	const wanted = "wanted one of bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32, float64, utf8, binary"
	all := headers(t)
	types := map[string]string{
		"struct": "struct", "list": "list", "union": "union", "timestamp": "timestamp[us]", "timestamp-zone": `timestamp[us, tz="UTC"]`,
		"date32": "date32", "date64": "date64", "time32": "time32[ms]", "time64": "time64[ns]", "decimal128": "decimal128(38, 18)",
		"decimal256": "decimal256(76, 0)", "float16": "float16", "large-utf8": "large_utf8", "utf8-view": "utf8_view", "null": "null",
		"duration": "duration[us]", "map": "map", "run-end": "run_end_encoded",
	}
	for name := range all {
		kind, unbuilt := strings.CutPrefix(name, "unbuilt-")
		if !unbuilt {
			continue
		}
		shape, want := udfgate.ShapeUnsupported, fmt.Sprintf(`column 1 "s": type %s is not built yet; %s`, types[kind], wanted)
		switch kind {
		case "dictionary":
			want = `column 1 "s": dictionary encoding is not built yet; send plain values`
		case "deep":
			shape, want = udfgate.ShapeMalformed, `malformed header: column 1 "s": nested deeper than 32 levels`
		}
		_, err := ReadSchema(all[name])
		if e := udfgate.AsError(err); e == nil || e.Reason != udfgate.Invalid || e.Shape != shape || !strings.HasPrefix(e.Message, want) {
			t.Errorf("%s: wanted %q, got %v", name, want, err)
		}
	}
	if _, err := ReadSchema(all["batch-ints"]); err == nil || !strings.Contains(err.Error(), "wanted a schema, got a record batch") {
		t.Errorf("a record batch as schema: got %v", err)
	}
}

// schemaWith spells a schema that AppendSchemaMessage would not write.
func schemaWith(endian uint64, number uint8, parameters []fbField, children int) []byte {
	w := fbWriter{}
	root := w.uint32(0)
	message := w.table(fbField{width: 2, value: metadataV5}, fbField{width: 1, value: headerSchema}, fbField{width: 4}, fbField{width: 8})
	w.patch(root, message.pos)
	schema := w.table(fbField{width: 2, value: endian}, fbField{width: 4})
	w.patch(message.field[2], schema.pos)
	at := w.vector(schema.field[1], 1)
	f := w.table(fbField{width: 4}, fbField{width: 1}, fbField{width: 1, value: uint64(number)}, fbField{width: 4}, fbField{}, fbField{width: 4})
	w.patch(at, f.pos)
	w.text(f.field[0], "s")
	w.patch(f.field[3], w.table(parameters...).pos)
	vector := w.vector(f.field[5], children)
	for i := range children {
		w.column(vector+4*i, &udfgate.Field{Name: "item", Type: udfgate.Type{Kind: udfgate.Int64}})
	}
	w.align(8)
	return w.b
}

func TestReadSchemaContradictions(t *testing.T) {
	bits := func(n uint64) []fbField { return []fbField{{width: 4, value: n}, {width: 1, value: 1}} }
	for _, test := range []struct {
		name   string
		header []byte
		want   string // "" for accepted
	}{
		{"good", schemaWith(0, typeInt, bits(64), 0), ""},
		{"big-endian", schemaWith(1, typeInt, bits(64), 0), "invalid schema: big-endian data is not taken; wanted little-endian"},
		{"no endianness", schemaWith(2, typeInt, bits(64), 0), "malformed header: Schema.endianness: wanted 0 or 1, got 2"},
		{"int of 7 bits", schemaWith(0, typeInt, bits(7), 0), `malformed header: column 0 "s": int of 7 bits, wanted 8, 16, 32 or 64`},
		{"int of no bits", schemaWith(0, typeInt, nil, 0), `malformed header: column 0 "s": int of 0 bits`},
		{"float of precision 3", schemaWith(0, typeFloatingPoint, []fbField{{width: 2, value: 3}}, 0), `malformed header: column 0 "s": float of precision 3`},
		{"type 0", schemaWith(0, 0, nil, 0), `malformed header: column 0 "s": unknown type number 0`},
		{"type 27", schemaWith(0, 27, nil, 0), `malformed header: column 0 "s": unknown type number 27`},
		{"int with children", schemaWith(0, typeInt, bits(64), 2), `malformed header: column 0 "s": type int64 with 2 children, wanted none`},
	} {
		_, err := ReadSchema(test.header)
		if test.want == "" && err == nil {
			continue
		}
		if e := udfgate.AsError(err); err == nil || e.Shape != udfgate.ShapeMalformed || !strings.HasPrefix(e.Message, test.want) || test.want == "" {
			t.Errorf("%s: wanted %q, got %v", test.name, test.want, err)
		}
	}
}

// A malformed child is malformed, whatever is built: the header of a list
// column whose vector lengths were blown up, byte by byte as reported.
func TestBlownUpVectors(t *testing.T) {
	header, err := base64.StdEncoding.DecodeString("EAAAAAAACgAMAAoACQAEAAoAAAAQAAAAAAEEAAgACAAAAAQACAAAAAQAAAABAAAABAAAAOD///8QAAAAFAAAAAAADAFMAAAAAQAA" +
		"ABgAAADU////EAAUABAADwAOAAgAAAAEABAAAAAQAAAAFAAAAAAABQEQAAAAAAAAAAQABAAEAAAABAAAAGl0ZW0AAAAAAQAAAHgAAAA=")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSchema(header); udfgate.AsError(err).Shape != udfgate.ShapeUnsupported {
		t.Errorf("unchanged: wanted an error naming list, got %v", err)
	}
	for _, change := range []struct {
		at int
		by byte
	}{{47, 0xff}, {47, 0x80}, {75, 0xff}, {75, 0x80}} {
		header[change.at] ^= change.by
		if _, err := ReadSchema(header); err == nil || udfgate.AsError(err).Shape != udfgate.ShapeMalformed {
			t.Errorf("byte %d xor %#x: wanted malformed, got %v", change.at, change.by, err)
		}
		header[change.at] ^= change.by
	}
}

// A flatbuffer may refer to one table from many places. What that multiplies
// must stay bounded by the bytes that came.
func TestSharedTables(t *testing.T) {
	deep := func() []byte { // 20 levels of 100 fields, all of them the same table
		w := fbWriter{}
		root := w.uint32(0)
		message := w.table(fbField{width: 2, value: metadataV5}, fbField{width: 1, value: headerSchema}, fbField{width: 4})
		w.patch(root, message.pos)
		schema := w.table(fbField{}, fbField{width: 4})
		w.patch(message.field[2], schema.pos)
		from := schema.field[1]
		for range 20 {
			at := w.vector(from, 100)
			f := w.table(fbField{}, fbField{}, fbField{width: 1, value: 12}, fbField{width: 4}, fbField{}, fbField{width: 4})
			for i := range 100 {
				w.patch(at+4*i, f.pos)
			}
			w.patch(f.field[3], w.table().pos)
			from = f.field[5]
		}
		w.vector(from, 0)
		return w.b
	}
	long := func() []byte { // a name of 64 KiB, in 10,000 columns
		w := fbWriter{}
		root := w.uint32(0)
		message := w.table(fbField{width: 2, value: metadataV5}, fbField{width: 1, value: headerSchema}, fbField{width: 4})
		w.patch(root, message.pos)
		schema := w.table(fbField{}, fbField{width: 4})
		w.patch(message.field[2], schema.pos)
		at := w.vector(schema.field[1], 10_000)
		f := w.table(fbField{width: 4}, fbField{}, fbField{width: 1, value: typeUtf8}, fbField{width: 4})
		for i := range 10_000 {
			w.patch(at+4*i, f.pos)
		}
		w.patch(f.field[3], w.table().pos)
		w.text(f.field[0], strings.Repeat("n", 1<<16))
		return w.b
	}
	for name, header := range map[string][]byte{"fields": deep(), "text": long()} {
		if _, err := ReadSchema(header); err == nil || !strings.Contains(err.Error(), "than the header has room for") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// checkSchema holds what callers of ReadSchema rely on.
func checkSchema(t testing.TB, s udfgate.Schema) {
	t.Helper()
	for _, f := range s.Fields {
		if f.Type.Kind < udfgate.Bool || f.Type.Kind > udfgate.Binary || !utf8.ValidString(f.Name) {
			t.Fatalf("accepted %+v", f)
		}
	}
	written := AppendSchemaMessage(nil, s)
	if again, err := ReadSchema(written); err != nil || !reflect.DeepEqual(again, s) {
		t.Fatalf("wrote %+v, read %+v, %v", s, again, err)
	}
}

func FuzzReadSchema(f *testing.F) {
	for name, b := range headers(f) {
		if strings.Contains(name, "schema-") || strings.HasPrefix(name, "unbuilt-") {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, header []byte) { checkHeader(t, header) })
}

func randomSchema(r *rand.Rand) udfgate.Schema {
	var s udfgate.Schema
	s.Fields = make([]udfgate.Field, r.IntN(12))
	for i := range s.Fields {
		s.Fields[i] = udfgate.Field{
			Name:     randomName(r),
			Type:     udfgate.Type{Kind: kinds[r.IntN(len(kinds))]},
			Nullable: r.IntN(2) == 0,
			Metadata: randomPairs(r),
		}
	}
	s.Metadata = randomPairs(r)
	return s
}

func randomName(r *rand.Rand) string {
	alphabet := []rune("abc_0\"\x00é漢😀")
	name := make([]rune, r.IntN(9))
	for i := range name {
		name[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(name)
}

// randomPairs has distinct keys, which arrow-go asks for.
func randomPairs(r *rand.Rand) (pairs []udfgate.KeyValue) {
	for i := range r.IntN(4) {
		pairs = append(pairs, udfgate.KeyValue{Key: fmt.Sprint(i, randomName(r)), Value: randomName(r)})
	}
	return pairs
}

func TestSchemaRoundTrip(t *testing.T) {
	r := testRand(t)
	for range 500 {
		checkSchema(t, randomSchema(r))
	}
}

func BenchmarkSchema(b *testing.B) {
	header := headers(b)["schema-text"]
	schema, err := ReadSchema(header)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := ReadSchema(header); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		dst := make([]byte, 0, 512)
		for b.Loop() {
			dst = AppendSchemaMessage(dst[:0], schema)
		}
	})
	b.Run("floor=memcpy", func(b *testing.B) {
		dst := make([]byte, 512)
		for b.Loop() {
			copy(dst, header)
		}
	})
}

// A name of the sender's must not fill the error, which travels in a header.
func TestLongNameInError(t *testing.T) {
	s := udfgate.Schema{Fields: []udfgate.Field{{Name: strings.Repeat("n", 1<<20)}}} // no kind: written as null
	_, err := ReadSchema(AppendSchemaMessage(nil, s))
	if want := `column 0 "` + strings.Repeat("n", quotedBytesMax) + `…": type null is not built yet`; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("wanted %q, got %.300v", want, err)
	}
}
