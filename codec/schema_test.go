package codec

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
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

// Every type as pyarrow writes it, by the name under which messages show it.
func TestReadSchemaTypes(t *testing.T) {
	all := headers(t)
	types := map[string]string{
		"struct": "struct<x int64>", "list": "list<utf8>", "timestamp": "timestamp[us]", "timestamp-zone": "timestamp[us, UTC]",
		"date32": "date32", "date64": "date64", "time32": "time32[ms]", "time64": "time64[ns]", "decimal128": "decimal128(38, 18)",
		"decimal256": "decimal256(76, 0)", "float16": "float16", "large-utf8": "large_utf8", "utf8-view": "utf8_view", "null": "null",
		"duration": "duration[us]", "map": "map<utf8, int64>", "run-end": "run_end_encoded<int32, int64>", "dictionary": "dictionary<int32, utf8>",
	}
	refused := map[string]string{
		"union": `column 1 "s": unions are not taken`,
		"deep":  `malformed header: column 1 "s": nested deeper than 32 levels`,
	}
	for name := range all {
		kind, ok := strings.CutPrefix(name, "type-")
		if !ok {
			continue
		}
		schema, err := ReadSchema(all[name])
		if want := refused[kind]; want != "" {
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s: wanted %q, got %v", name, want, err)
			}
		} else if err != nil || schema.Fields[1].Type.String() != types[kind] {
			t.Errorf("%s: wanted %q, got %v, %v", name, types[kind], schema, err)
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
		{"int with children", schemaWith(0, typeInt, bits(64), 2), `malformed header: column 0 "s": type int64 with 2 children, wanted 0`},
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
	if schema, err := ReadSchema(header); err != nil || schema.Fields[0].Type.Kind != udfgate.List {
		t.Errorf("unchanged: wanted a list, got %v, %v", schema, err)
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
			f := w.table(fbField{}, fbField{}, fbField{width: 1, value: typeStruct}, fbField{width: 4}, fbField{}, fbField{width: 4})
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
		if f.Type.Kind == udfgate.KindInvalid || !utf8.ValidString(f.Name) {
			t.Fatalf("accepted %+v", f)
		}
		if encoded(f.Type) { // never written
			return
		}
	}
	written := AppendSchemaMessage(nil, s)
	if again, err := ReadSchema(written); err != nil || !reflect.DeepEqual(again, s) {
		t.Fatalf("wrote %+v, read %+v, %v", s, again, err)
	}
}

// encoded reports whether a type is a dictionary or has one inside.
func encoded(t udfgate.Type) bool {
	return t.Kind == udfgate.Dictionary || slices.ContainsFunc(t.Children, func(f udfgate.Field) bool { return encoded(f.Type) })
}

func FuzzReadSchema(f *testing.F) {
	for name, b := range headers(f) {
		if strings.Contains(name, "schema-") || strings.HasPrefix(name, "type-") {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, header []byte) { checkHeader(t, header) })
}

func randomSchema(r *rand.Rand) udfgate.Schema {
	var s udfgate.Schema
	s.Fields = make([]udfgate.Field, r.IntN(12))
	for i := range s.Fields {
		s.Fields[i] = randomField(r, 3)
	}
	s.Metadata = randomPairs(r)
	return s
}

func randomField(r *rand.Rand, depth int) udfgate.Field {
	return udfgate.Field{Name: randomName(r), Type: randomType(r, depth), Nullable: r.IntN(2) == 0, Metadata: randomPairs(r)}
}

// randomType is of any kind but a dictionary, nested at most so deep.
func randomType(r *rand.Rand, depth int) udfgate.Type {
	t := udfgate.Type{Kind: 1 + udfgate.Kind(r.IntN(int(udfgate.RunEndEncoded)))}
	for t.Kind == udfgate.Dictionary || t.Kind.Nested() && depth == 0 {
		t.Kind = 1 + udfgate.Kind(r.IntN(int(udfgate.RunEndEncoded)))
	}
	switch k := t.Kind; k {
	case udfgate.Decimal32, udfgate.Decimal64, udfgate.Decimal128, udfgate.Decimal256:
		most := k.DigitsMax()
		t.Precision, t.Scale = 1+r.Int32N(most), r.Int32N(2*most+1)-most
	case udfgate.Time32:
		t.Unit = udfgate.Unit(r.IntN(2))
	case udfgate.Time64:
		t.Unit = udfgate.Microsecond + udfgate.Unit(r.IntN(2))
	case udfgate.Timestamp, udfgate.Duration:
		t.Unit = udfgate.Unit(r.IntN(4))
		if k == udfgate.Timestamp && r.IntN(2) == 0 {
			t.Zone = "Europe/" + randomName(r)
		}
	case udfgate.FixedSizeBinary, udfgate.FixedSizeList:
		t.Size = 1 + r.Int32N(20) // of 0 arrow-go makes no array
	case udfgate.Map:
		key := randomField(r, depth-1)
		key.Nullable = false
		t.Children = []udfgate.Field{{Name: "entries", Type: udfgate.Type{Kind: udfgate.Struct, Children: []udfgate.Field{key, randomField(r, depth-1)}}}}
		return t
	case udfgate.RunEndEncoded:
		ends := udfgate.Field{Name: "run_ends", Type: udfgate.Type{Kind: udfgate.Int16 + udfgate.Kind(r.IntN(3))}}
		t.Children = []udfgate.Field{ends, randomField(r, depth-1)}
		return t
	}
	children := childrenWanted(t.Kind)
	if children < 0 {
		children = r.IntN(4)
	}
	for range children {
		t.Children = append(t.Children, randomField(r, depth-1))
	}
	return t
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

// Lists of no items are refused by name: some readers stumble over them.
func TestNoListsOfNoItems(t *testing.T) {
	for size, want := range map[int32]string{0: "fixed_size_list of size 0, wanted at least 1", -1: "fixed_size_list of size -1, wanted at least 1", 1: ""} {
		typ := listOf(udfgate.FixedSizeList, udfgate.Type{Kind: udfgate.Int64}, true)
		typ.Size = size
		for _, typ := range []udfgate.Type{typ, structOf(udfgate.Field{Name: "a", Type: typ})} {
			_, err := ReadSchema(AppendSchemaMessage(nil, udfgate.Schema{Fields: []udfgate.Field{{Name: "c", Type: typ}}}))
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("size %d: wanted %q, got %v", size, want, err)
			}
		}
	}
}

// A name of the sender's must not fill the error, which travels in a header.
func TestLongNameInError(t *testing.T) {
	name := strings.Repeat("n", 1<<20)
	list := udfgate.Type{Kind: udfgate.List} // without its item
	_, err := ReadSchema(AppendSchemaMessage(nil, udfgate.Schema{Fields: []udfgate.Field{{Name: name, Type: list}}}))
	if want := `malformed header: column 0 "` + name[:quotedBytesMax] + `…": type list with 0 children, wanted 1`; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("wanted %q, got %.300v", want, err)
	}
}
