package codec

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/udfgate/udfgate"
)

// exchange reads the messages of an IPC stream as a stream of FlightData would
// bring them.
type ipcMessages struct {
	t    testing.TB
	rest []byte
}

// next is the next header and body; false at the end.
func (s *ipcMessages) next() (header, body []byte, ok bool) {
	s.t.Helper()
	if len(s.rest) < 8 {
		return nil, nil, false
	}
	n := int(uint32(s.rest[4]) | uint32(s.rest[5])<<8 | uint32(s.rest[6])<<16 | uint32(s.rest[7])<<24)
	if n == 0 {
		return nil, nil, false
	}
	header = s.rest[8 : 8+n]
	s.rest = s.rest[8+n:]
	var m Message
	if err := ReadMessage(header, &m); err != nil {
		s.t.Fatal(err)
	}
	if m.Kind != KindSchema {
		body = s.rest[:m.BodyLen]
		s.rest = s.rest[m.BodyLen:]
	}
	return header, body, true
}

// decodeStream decodes an IPC stream into batches of the canonical form of what
// it sends.
func decodeStream(t testing.TB, stream []byte, store *Store) (fields []udfgate.Field, batches []*Batch, err error) {
	t.Helper()
	s := &ipcMessages{t: t, rest: stream}
	header, _, _ := s.next()
	sent, err := ReadSchema(header)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range sent.Fields {
		fields = append(fields, canonicalField(f))
	}
	d := NewDecoder(fields, sent.Fields, Limits{RowsName: "--max-batch-rows", BytesMax: 1 << 20, BytesName: "--max-message-bytes"})
	var dictionaries Dictionaries
	for {
		header, body, ok := s.next()
		if !ok {
			return fields, batches, nil
		}
		var m Message
		if err := ReadMessage(header, &m); err != nil {
			return nil, nil, err
		}
		fd := &FlightData{HasBody: true, Body: Range{0, int64(len(body))}}
		if m.Kind == KindDictionary {
			if err := d.AddDictionary(fd, &m, [][]byte{body}, &dictionaries); err != nil {
				return nil, nil, err
			}
			continue
		}
		batch, err := d.Decode(fd, &m, [][]byte{body}, &dictionaries, store)
		if err != nil {
			return nil, nil, err
		}
		batches = append(batches, batch)
	}
}

// wordsOf are the values of an array as JSON, whatever encodes them.
func wordsOf(t testing.TB, a arrow.Array) string {
	t.Helper()
	var words []string
	for i := range a.Len() {
		text, err := json.Marshal(a.GetOneForMarshal(i))
		if err != nil {
			t.Fatal(err)
		}
		words = append(words, string(text))
	}
	return strings.Join(words, " ")
}

// encodedArrays are columns that are not canonical, with values of every length.
func encodedArrays(r *rand.Rand, n int) (fields []arrow.Field, columns []arrow.Array) {
	add := func(name string, a arrow.Array) {
		fields = append(fields, arrow.Field{Name: name, Type: a.DataType(), Nullable: true})
		columns = append(columns, a)
	}
	long := func() string { return strings.Repeat(randomName(r), r.IntN(5)) }
	views := array.NewStringViewBuilder(memory.DefaultAllocator)
	binaries := array.NewBinaryViewBuilder(memory.DefaultAllocator)
	words := array.NewDictionaryBuilder(memory.DefaultAllocator, &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}).(*array.BinaryDictionaryBuilder)
	lists := array.NewListViewBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Int32)
	items := lists.ValueBuilder().(*array.Int32Builder)
	runs := array.NewRunEndEncodedBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Int16, arrow.BinaryTypes.String)
	for range n {
		if r.IntN(4) == 0 {
			views.AppendNull()
			binaries.AppendNull()
			words.AppendNull()
			lists.AppendNull()
			runs.AppendNull()
			continue
		}
		views.Append(long())
		binaries.Append([]byte(long()))
		if err := words.AppendString([]string{"a", "bb", "", "漢字"}[r.IntN(4)]); err != nil {
			panic(err)
		}
		count := r.IntN(3)
		lists.AppendWithSize(true, count)
		for range count {
			items.Append(r.Int32())
		}
		runs.Append(1)
		runs.ValueBuilder().(*array.StringBuilder).Append(long())
	}
	add("views", views.NewArray())
	add("binaries", binaries.NewArray())
	add("words", words.NewArray())
	add("lists", lists.NewArray())
	add("runs", runs.NewArray())
	return fields, columns
}

// Encodings of any kind, packed or not, decode into the plain values that
// arrow-go reads from them.
func TestNormalise(t *testing.T) {
	r := testRand(t)
	store := testStore(t)
	for range 200 {
		n := 1 + r.IntN(50)
		fields, columns := encodedArrays(r, n)
		schema := arrow.NewSchema(fields, nil)
		whole := array.NewRecordBatch(schema, columns, int64(n))
		var stream bytes.Buffer
		options := []ipc.Option{ipc.WithSchema(schema)}
		switch r.IntN(3) {
		case 0:
			options = append(options, ipc.WithLZ4())
		case 1:
			options = append(options, ipc.WithZstd())
		}
		w := ipc.NewWriter(&stream, options...)
		if err := w.Write(whole); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		canonical, batches, err := decodeStream(t, stream.Bytes(), store)
		if err != nil {
			t.Fatal(err)
		}
		theirs := arrowFields(t, canonical)
		for i, f := range theirs {
			got := array.MakeFromData(rebuild(batches[0].Slot.Bytes(), &batches[0].Columns[i], f.Type))
			if a, b := wordsOf(t, got), wordsOf(t, whole.Column(i)); a != b {
				t.Fatalf("%s: got %s, wanted %s", f.Name, a, b)
			}
		}
		batches[0].Release()
	}
}

// writeStream writes one batch as an IPC stream.
func writeStream(t testing.TB, stream *bytes.Buffer, batch arrow.RecordBatch, options ...ipc.Option) {
	t.Helper()
	w := ipc.NewWriter(stream, append(options, ipc.WithSchema(batch.Schema()))...)
	if err := w.Write(batch); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// Columns whose declared type has other widths are what arrow-go reads from
// what was sent, sliced anywhere and nested.
func TestNormaliseWidths(t *testing.T) {
	r := testRand(t)
	store := testStore(t)
	of := func(k udfgate.Kind) udfgate.Type { return udfgate.Type{Kind: k} }
	person := func(a, b udfgate.Kind) udfgate.Type { return structOf(field("a", a), field("b", b)) }
	for _, c := range []struct{ sent, declared udfgate.Type }{
		{of(udfgate.LargeUtf8), of(udfgate.Utf8)},
		{of(udfgate.Utf8), of(udfgate.LargeUtf8)},
		{of(udfgate.LargeBinary), of(udfgate.Binary)},
		{of(udfgate.Binary), of(udfgate.LargeBinary)},
		{of(udfgate.Float16), of(udfgate.Float32)},
		{of(udfgate.Float16), of(udfgate.Float64)},
		{of(udfgate.Float32), of(udfgate.Float64)},
		{of(udfgate.Uint8), of(udfgate.Int64)},
		{of(udfgate.Int64), of(udfgate.Uint8)}, // the random ones are small
		{of(udfgate.Null), of(udfgate.Utf8)},
		{of(udfgate.Null), person(udfgate.Int8, udfgate.Bool)},
		{listOf(udfgate.LargeList, of(udfgate.Float32), true), listOf(udfgate.List, of(udfgate.Float64), true)},
		{listOf(udfgate.List, of(udfgate.LargeUtf8), true), listOf(udfgate.LargeList, of(udfgate.Utf8), true)},
		{person(udfgate.Int16, udfgate.LargeUtf8), person(udfgate.Int32, udfgate.Utf8)},
		{listOf(udfgate.List, person(udfgate.Bool, udfgate.Int8), true), listOf(udfgate.LargeList, person(udfgate.Bool, udfgate.Int16), true)},
	} {
		sent, declared := []udfgate.Field{typed(c.sent)}, []udfgate.Field{typed(c.declared)}
		theirs, ours := arrowFields(t, sent), arrowFields(t, declared)
		d := NewDecoder(declared, sent, Limits{})
		for range 20 {
			n := r.IntN(80)
			whole := randomArray(r, theirs[0], n)
			from := r.Int64N(int64(n) + 1)
			values := array.NewSlice(whole, from, from+r.Int64N(int64(n)-from+1))
			header, body := arrowMessage(t, array.NewRecordBatch(arrow.NewSchema(theirs, nil), []arrow.Array{values}, int64(values.Len())))
			var m Message
			if err := ReadMessage(header, &m); err != nil {
				t.Fatal(err)
			}
			b, err := d.Decode(&FlightData{HasBody: true, Body: Range{0, int64(len(body))}}, &m, [][]byte{body[:min(9, len(body))], body[min(9, len(body)):]}, nil, store)
			if err != nil {
				t.Fatalf("%s as %s: %v", c.sent, c.declared, err)
			}
			got := everyCase{field: declared[0], array: array.MakeFromData(rebuild(b.Slot.Bytes(), &b.Columns[0], ours[0].Type))}
			want := everyCase{field: sent[0], array: values}
			if got, want := got.expressions(0, values.Len()), want.expressions(0, values.Len()); got != want {
				t.Fatalf("%s as %s: got %s, wanted %s", c.sent, c.declared, got, want)
			}
			b.Release()
		}
	}
}
