package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/klauspost/compress/zstd"

	"github.com/udfgate/udfgate"
)

// bodyOf is a message of so many rows with nodes and buffers as given.
func bodyOf(rows int64, nodes []Node, buffers ...[]byte) (*Message, []byte) {
	m := &Message{Kind: KindRecordBatch, Rows: rows, Nodes: nodes}
	var body []byte
	for _, b := range buffers {
		m.Buffers = append(m.Buffers, Buffer{Offset: int64(len(body)), Length: int64(len(b))})
		body = append(body, b...)
		body = append(body, make([]byte, roundUp(int64(len(body)), 8)-int64(len(body)))...)
	}
	m.BodyLen = int64(len(body))
	return m, body
}

func words32(values ...int32) (b []byte) {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	return b
}

func words64(values ...int64) (b []byte) {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return b
}

const unknown = -1 // nulls

// decodeAs decodes what is sent into what is declared, within 1 MiB.
func decodeAs(t testing.TB, declared, sent udfgate.Type, m *Message, body []byte, all *Dictionaries) (*Batch, error) {
	t.Helper()
	d, fd := decoderAs(declared, sent), &FlightData{HasBody: true, Body: Range{0, int64(len(body))}}
	began := time.Now()
	b, err := d.Decode(fd, m, [][]byte{body}, all, testStore(t))
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("%s: took %s", sent, took)
	}
	return b, err
}

func decoderAs(declared, sent udfgate.Type) *Decoder {
	return NewDecoder([]udfgate.Field{typed(declared)}, []udfgate.Field{typed(sent)},
		Limits{RowsMax: 1 << 16, RowsName: "--max-batch-rows", BytesMax: 1 << 20, BytesName: "--max-message-bytes"})
}

func wantError(t *testing.T, err error, shape udfgate.Shape, row int64, parts ...string) {
	t.Helper()
	e, ok := errors.AsType[*udfgate.Error](err)
	if !ok || e.Shape != shape || e.Row != row {
		t.Errorf("got %v (row %v), wanted shape %v in row %d", err, e, shape, row)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

// What lies under a null, or between no row's offsets, is never looked at,
// whatever it would be.
func TestUnseenIsNeverWrong(t *testing.T) {
	small, wide := udfgate.Type{Kind: udfgate.Int8}, udfgate.Type{Kind: udfgate.Int64}
	text, views := udfgate.Type{Kind: udfgate.Utf8}, udfgate.Type{Kind: udfgate.Utf8View}
	dictionary := udfgate.Type{Kind: udfgate.Dictionary, ID: 9, Children: []udfgate.Field{field("indices", udfgate.Int32), field("values", udfgate.Utf8)}}
	badView := words32(-1, 0, 0, 0)
	one := func(t udfgate.Type) udfgate.Type { return structOf(typed(t)) }
	for name, c := range map[string]struct {
		declared, sent udfgate.Type
		nodes          []Node
		buffers        [][]byte
	}{
		"int under a null struct":   {one(small), one(wide), []Node{{2, 1}, {2, 0}}, [][]byte{{1}, {}, words64(5, 1000)}},
		"index under a null struct": {one(text), one(dictionary), []Node{{2, 2}, {2, 0}}, [][]byte{{0}, {}, words32(77, -5)}},
		"view under a null struct":  {one(text), one(views), []Node{{2, 1}, {2, 0}}, [][]byte{{1}, {}, append(words32(1, 'x', 0, 0), badView...)}},
		"int in no list": {
			listOf(udfgate.List, small, true), listOf(udfgate.List, wide, true),
			[]Node{{2, 1}, {4, 0}},
			[][]byte{{1}, words32(1, 2, 4), {}, words64(1000, 5, 1000, 1000)},
		},
		"list view under null": {
			listOf(udfgate.List, small, true), listOf(udfgate.ListView, wide, true),
			[]Node{{2, 1}, {3, 0}},
			[][]byte{{1}, words32(1, -7), words32(1, math.MaxInt32), {}, words64(1000, 5, 1000)},
		},
		"text between list views": {
			listOf(udfgate.List, text, true), listOf(udfgate.ListView, text, true),
			[]Node{{2, 0}, {3, 0}},
			[][]byte{{}, words32(2, 0), words32(1, 1), {}, words32(0, 1, 2, 3), []byte("a\xffb")},
		},
		"run of a row under null": {
			one(text), one(udfgate.Type{Kind: udfgate.RunEndEncoded, Children: []udfgate.Field{{Name: "ends", Type: udfgate.Type{Kind: udfgate.Int32}}, typed(text)}}),
			[]Node{{2, 1}, {2, 0}, {2, 0}, {2, 0}},
			[][]byte{{1}, {}, words32(1, 2), {}, words32(0, 1, 2), []byte("a\xff")},
		},
	} {
		m, body := bodyOf(2, c.nodes, append(c.buffers, make([][]byte, variadicOf(c.sent))...)...)
		m.Variadic = make([]int64, variadicOf(c.sent))
		m.Buffers = m.Buffers[:len(c.buffers)]
		b, err := decodeAs(t, c.declared, c.sent, m, body, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		theirs := arrowFields(t, []udfgate.Field{typed(c.declared)})[0]
		if v, ok := array.MakeFromData(rebuild(b.Slot.Bytes(), &b.Columns[0], theirs.Type)).(interface{ ValidateFull() error }); ok && v.ValidateFull() != nil {
			t.Errorf("%s: %v", name, v.ValidateFull())
		}
		b.Release()
	}
}

func variadicOf(t udfgate.Type) int { _, _, views := partsOf(&t); return views }

// A run is seen if any of its rows is.
func TestRunSeenInPart(t *testing.T) {
	text := udfgate.Type{Kind: udfgate.Utf8}
	runs := udfgate.Type{Kind: udfgate.RunEndEncoded, Children: []udfgate.Field{{Name: "ends", Type: udfgate.Type{Kind: udfgate.Int32}}, typed(text)}}
	m, body := bodyOf(2, []Node{{2, 1}, {2, 0}, {1, 0}, {1, 0}}, []byte{2}, nil, words32(2), nil, words32(0, 1), []byte("\xff"))
	_, err := decodeAs(t, structOf(typed(text)), structOf(typed(runs)), m, body, nil)
	wantError(t, err, udfgate.ShapeMalformed, udfgate.NoRow, "not UTF-8")
}

// Numbers beyond their declared type are errors of their row, however deep.
func TestRangeErrorNamesRow(t *testing.T) {
	small, wide := udfgate.Type{Kind: udfgate.Int8}, udfgate.Type{Kind: udfgate.Int64}
	m, body := bodyOf(3, []Node{{3, 0}}, nil, words64(1, 127, 128))
	_, err := decodeAs(t, small, wide, m, body, nil)
	wantError(t, err, udfgate.ShapeMalformed, 2, `column 0 "c"`, "wanted int8, got 128")
	m, body = bodyOf(3, []Node{{3, 0}, {4, 0}}, nil, words32(0, 1, 1, 4), nil, words64(1, 2, -129, 4))
	_, err = decodeAs(t, listOf(udfgate.List, small, true), listOf(udfgate.LargeList, wide, true), m, body, nil)
	if err == nil {
		t.Error("offsets of 32 bits pass for 64")
	}
	m, body = bodyOf(3, []Node{{3, 0}, {4, 0}}, nil, words64(0, 1, 1, 4), nil, words64(1, 2, -129, 4))
	_, err = decodeAs(t, listOf(udfgate.List, small, true), listOf(udfgate.LargeList, wide, true), m, body, nil)
	wantError(t, err, udfgate.ShapeMalformed, 2, "wanted int8, got -129")
	m, body = bodyOf(3, []Node{{3, 0}, {3, 0}, {3, 0}}, nil, nil, words64(1, 2, 300), nil, words64(1, 200, 3))
	_, err = decodeAs(t, structOf(typed(small), typed(small)), structOf(typed(wide), typed(wide)), m, body, nil)
	wantError(t, err, udfgate.ShapeMalformed, 1, "wanted int8, got 200")
	for from := udfgate.Int8; from <= udfgate.Uint64; from++ {
		for to := udfgate.Int8; to <= udfgate.Uint64; to++ {
			for _, v := range []int64{0, 1, -1, 127, 128, -128, -129, 255, 256, 32767, 32768, 65535, 65536, math.MaxInt32, math.MaxInt32 + 1, math.MaxUint32, math.MaxUint32 + 1, math.MaxInt64, math.MinInt64} {
				m, body := bodyOf(1, []Node{{1, 0}}, nil, words64(v)[:from.Width()])
				b, err := decodeAs(t, udfgate.Type{Kind: to}, udfgate.Type{Kind: from}, m, body, nil)
				sent := fixedValue(from, words64(v))
				if err == nil {
					c := b.Columns[0]
					if got := fixedValue(to, b.Slot.Bytes()[c.Values.Off:]); text(got) != text(sent) {
						t.Errorf("%s %v becomes %s %v", from, sent, to, got)
					}
					b.Release()
				} else if text(fixedValue(to, words64(v))) == text(sent) {
					t.Errorf("%s %v as %s: %v", from, sent, to, err)
				}
			}
		}
	}
}

// Bodies that are small and stand for much end at the limit, by name.
func TestNormaliseBombs(t *testing.T) {
	null, text := udfgate.Type{Kind: udfgate.Null}, udfgate.Type{Kind: udfgate.Utf8}
	rows := int64(1 << 12)
	wide := udfgate.Type{Kind: udfgate.FixedSizeList, Size: math.MaxInt32, Children: []udfgate.Field{{Name: "item", Type: null, Nullable: true}}}
	all := make([]int64, rows)
	for i := range all {
		all[i] = 1 << 16
	}
	fixed := udfgate.Type{Kind: udfgate.FixedSizeBinary, Size: 1 << 20}
	for _, c := range map[string]struct {
		declared, sent udfgate.Type
		m              func() (*Message, []byte)
	}{
		"nulls of a fixed size list": {wide, null, func() (*Message, []byte) { return bodyOf(rows, []Node{{rows, rows}}) }},
		"nulls of long binary":       {fixed, null, func() (*Message, []byte) { return bodyOf(rows, []Node{{rows, rows}}) }},
		"list views of all nulls": {listOf(udfgate.LargeList, null, true), listOf(udfgate.LargeListView, null, true), func() (*Message, []byte) {
			return bodyOf(rows, []Node{{rows, 0}, {1 << 16, unknown}}, nil, make([]byte, 8*rows), words64(all...))
		}},
		"views of one text": {text, udfgate.Type{Kind: udfgate.Utf8View}, func() (*Message, []byte) {
			m, body := bodyOf(rows, []Node{{rows, 0}}, nil, bytes.Repeat(words32(1<<16, 0x61616161, 0, 0), int(rows)), bytes.Repeat([]byte("a"), 1<<16))
			m.Variadic = []int64{1}
			return m, body
		}},
		"one run": {listOf(udfgate.List, udfgate.Type{Kind: udfgate.Int64}, true), udfgate.Type{Kind: udfgate.RunEndEncoded, Children: []udfgate.Field{
			{Name: "ends", Type: udfgate.Type{Kind: udfgate.Int32}}, typed(listOf(udfgate.List, udfgate.Type{Kind: udfgate.Int64}, true)),
		}}, func() (*Message, []byte) {
			return bodyOf(rows, []Node{{rows, 0}, {1, 0}, {1, 0}, {1 << 12, 0}}, nil, words32(int32(rows)), nil, words32(0, 1<<12), nil, make([]byte, 8<<12))
		}},
	} {
		m, body := c.m()
		_, err := decodeAs(t, c.declared, c.sent, m, body, nil)
		row := udfgate.NoRow
		if c.sent.Kind == udfgate.Utf8View {
			row = 16 // of 64 KiB each
		}
		wantError(t, err, udfgate.ShapeTooLarge, row, "--max-message-bytes 1048576", `"c"`)
	}
	m, body := bodyOf(1, []Node{{1, 0}, {1 << 30, unknown}}, nil, words32(0, 1<<30))
	_, err := decodeAs(t, listOf(udfgate.List, null, true), listOf(udfgate.List, null, true), m, body, nil)
	wantError(t, err, udfgate.ShapeTooLarge, udfgate.NoRow, "--max-batch-rows 65536", "items")
}

// Runs of runs take no more time than they have values.
func TestRunsOfRuns(t *testing.T) {
	int64s := udfgate.Type{Kind: udfgate.Int64}
	runs := func(of udfgate.Type) udfgate.Type {
		return udfgate.Type{Kind: udfgate.RunEndEncoded, Children: []udfgate.Field{{Name: "ends", Type: udfgate.Type{Kind: udfgate.Int32}}, typed(of)}}
	}
	n := int64(1 << 15)
	ends, values := make([]int32, n), make([]int64, n)
	for i := range ends {
		ends[i], values[i] = int32(i+1), int64(i)
	}
	m, body := bodyOf(n, []Node{{n, 0}, {n, 0}, {n, 0}, {n, 0}, {n, 0}}, nil, words32(ends...), nil, words32(ends...), nil, words64(values...))
	began := time.Now()
	b, err := decodeAs(t, int64s, runs(runs(int64s)), m, body, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	if got := b.Slot.Bytes()[b.Columns[0].Values.Off:][:8*n]; !bytes.Equal(got, words64(values...)) {
		t.Error("values are not in order")
	}
	if took := time.Since(began); took > 5*time.Second { // 2^30 steps take longer
		t.Errorf("took %s", took)
	}
}

// Maps have a key for each entry.
func TestMapKeys(t *testing.T) {
	typ := mapOf(udfgate.Utf8, udfgate.Int8)
	decode := func(entries, keys []byte) error {
		m, body := bodyOf(2, []Node{{2, 1}, {2, unknown}, {2, unknown}, {2, 0}}, []byte{1}, words32(0, 1, 2), entries, keys, words32(0, 1, 2), []byte("ab"), nil, []byte{1, 2})
		b, err := decodeAs(t, typ, typ, m, body, nil)
		if err == nil {
			b.Release()
		}
		return err
	}
	wantError(t, decode([]byte{2}, nil), udfgate.ShapeMalformed, udfgate.NoRow, "wanted a key of each entry, got null")
	wantError(t, decode(nil, []byte{2}), udfgate.ShapeMalformed, udfgate.NoRow, "wanted a key of each entry, got null")
	for _, err := range []error{decode([]byte{1}, nil), decode(nil, []byte{1}), decode(nil, nil)} { // of the null map
		if err != nil {
			t.Error(err)
		}
	}
}

// Packed buffers say how long they are, and are held to it.
func TestPackedLies(t *testing.T) {
	writer, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	packed := writer.EncodeAll(make([]byte, 64), nil)
	typ := udfgate.Type{Kind: udfgate.Int64}
	decode := func(how Compression, size int64, data []byte) error {
		m, body := bodyOf(8, []Node{{8, 0}}, nil, append(words64(size), data...))
		m.Compression = how
		b, err := decodeAs(t, typ, typ, m, body, nil)
		if err == nil {
			if !bytes.Equal(b.Slot.Bytes()[b.Columns[0].Values.Off:][:64], make([]byte, 64)) {
				t.Error("wrong values")
			}
			b.Release()
		}
		return err
	}
	if err := errors.Join(decode(CompressionZSTD, 64, packed), decode(CompressionZSTD, -1, make([]byte, 64)), decode(CompressionLZ4, -1, make([]byte, 64))); err != nil {
		t.Error(err)
	}
	wantError(t, decode(CompressionZSTD, 63, packed), udfgate.ShapeMalformed, udfgate.NoRow, "buffer 1: wanted 63 bytes unpacked: the data is longer")
	wantError(t, decode(CompressionZSTD, 65, packed), udfgate.ShapeMalformed, udfgate.NoRow, "buffer 1: wanted 65 bytes unpacked")
	wantError(t, decode(CompressionZSTD, 64, packed[:9]), udfgate.ShapeMalformed, udfgate.NoRow, "buffer 1: wanted 64 bytes unpacked")
	wantError(t, decode(CompressionLZ4, 64, packed), udfgate.ShapeMalformed, udfgate.NoRow, "buffer 1: wanted 64 bytes unpacked")
	wantError(t, decode(CompressionLZ4, 64, nil), udfgate.ShapeMalformed, udfgate.NoRow, "buffer 1: wanted 64 bytes unpacked")
	wantError(t, decode(CompressionZSTD, 1<<62, packed), udfgate.ShapeTooLarge, udfgate.NoRow, "--max-message-bytes 1048576")
	wantError(t, decode(CompressionZSTD, -2, packed), udfgate.ShapeMalformed, udfgate.NoRow)
	wantError(t, decode(CompressionZSTD, math.MinInt64, packed), udfgate.ShapeMalformed, udfgate.NoRow)

	// A frame of a few bytes that claims a window of gigabytes, or has them.
	bomb := writer.EncodeAll(make([]byte, 1<<24), nil)
	wantError(t, decode(CompressionZSTD, 1<<20-64, bomb), udfgate.ShapeMalformed, udfgate.NoRow, "the data is longer")
	m, body := bodyOf(1, []Node{{1, 0}}, nil, []byte{1, 2, 3})
	m.Compression = CompressionZSTD
	_, err = decodeAs(t, typ, typ, m, body, nil)
	wantError(t, err, udfgate.ShapeMalformed, udfgate.NoRow, "wanted a length of 8 bytes before packed data, got 3")
}

// A decimal may hold more digits than its type says; its text has room.
func TestRenderDecimalBeyondPrecision(t *testing.T) {
	python := startPython(t)
	for k, digits := range map[udfgate.Kind]int32{udfgate.Decimal32: 9, udfgate.Decimal64: 18, udfgate.Decimal128: 38, udfgate.Decimal256: 76} {
		for _, scale := range []int32{0, 1, digits, -digits} {
			typ := udfgate.Type{Kind: k, Precision: 1, Scale: scale}
			least := make([]byte, k.Width())
			least[len(least)-1] = 0x80
			m, body := bodyOf(2, []Node{{2, 0}}, nil, append(bytes.Clone(least), bytes.Repeat([]byte{0xff}, len(least))...))
			b, err := decodeAs(t, typ, typ, m, body, nil)
			if err != nil {
				t.Fatal(err)
			}
			dst := make([]byte, RenderSize(b, 0, 0, 2))
			_, data := Render(dst, b, 0, 0, 2, 64)
			python.ask('X', dst[data.Off:data.End()])
			b.Release()
		}
	}
}

// The names and views that a body sees are the declared ones, all the way down.
func TestDeclaredNamesBelow(t *testing.T) {
	inner := structOf(field("x", udfgate.Int8))
	inner.View = udfgate.ViewTuple
	declared := listOf(udfgate.List, structOf(udfgate.Field{Name: "declared", Type: inner}), true)
	sent := listOf(udfgate.List, structOf(udfgate.Field{Name: "sent", Type: structOf(field("y", udfgate.Int8))}), true)
	m, body := bodyOf(1, []Node{{1, 0}, {1, 0}, {1, 0}, {1, 0}}, nil, words32(0, 1), nil, nil, nil, []byte{7})
	b, err := decodeAs(t, declared, sent, m, body, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	dst := make([]byte, RenderSize(b, 0, 0, 1))
	_, data := Render(dst, b, 0, 0, 1, 64)
	if got, want := string(startPython(t).ask('X', dst[data.Off:data.End()])), "[[{S('6465636c61726564'):(7,),},],]"; got != want {
		t.Errorf("got %s, wanted %s", got, want)
	}
}

// Encodings below lists and structs, with deltas in between, are normalised
// into what arrow-go reads.
func TestNormaliseNested(t *testing.T) {
	r := testRand(t)
	store := testStore(t)
	word := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint8, ValueType: arrow.BinaryTypes.String}
	typ := arrow.ListOf(arrow.StructOf(arrow.Field{Name: "w", Type: word, Nullable: true}, arrow.Field{Name: "v", Type: arrow.BinaryTypes.StringView, Nullable: true}))
	schema := arrow.NewSchema([]arrow.Field{{Name: "c", Type: typ, Nullable: true}}, nil)
	for range 100 {
		b := array.NewListBuilder(memory.DefaultAllocator, typ.Elem())
		items := b.ValueBuilder().(*array.StructBuilder)
		words, views := items.FieldBuilder(0).(*array.BinaryDictionaryBuilder), items.FieldBuilder(1).(*array.StringViewBuilder)
		var stream bytes.Buffer
		w := ipc.NewWriter(&stream, ipc.WithSchema(schema), ipc.WithDictionaryDeltas(true))
		var sent []arrow.Array
		for batch := range 3 {
			for range 1 + r.IntN(20) {
				if r.IntN(4) == 0 {
					b.AppendNull()
					continue
				}
				b.Append(true)
				for range r.IntN(4) {
					if r.IntN(5) == 0 {
						items.AppendNull()
						continue
					}
					items.Append(true)
					if err := words.AppendString(strings.Repeat("w", batch*r.IntN(9))); err != nil {
						t.Fatal(err)
					}
					views.Append(strings.Repeat(randomName(r), r.IntN(4)))
				}
			}
			list := b.NewArray()
			sent = append(sent, list)
			if err := w.Write(array.NewRecordBatch(schema, []arrow.Array{list}, int64(list.Len()))); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		canonical, batches, err := decodeStream(t, stream.Bytes(), store)
		if err != nil {
			t.Fatal(err)
		}
		theirs := arrowFields(t, canonical)[0]
		for i, batch := range batches {
			got := array.MakeFromData(rebuild(batch.Slot.Bytes(), &batch.Columns[0], theirs.Type))
			if a, b := wordsOf(t, got), wordsOf(t, sent[i]); a != b {
				t.Fatalf("got %s, wanted %s", a, b)
			}
			batch.Release()
		}
	}
}

// The name of a type is short whatever the type.
func TestTypeNamesAreShort(t *testing.T) {
	typ := udfgate.Type{Kind: udfgate.Timestamp, Zone: strings.Repeat("z", 1<<20)}
	for range 6 {
		var members []udfgate.Field
		for range 16 {
			members = append(members, udfgate.Field{Name: strings.Repeat("ä", 1<<10), Type: typ})
		}
		typ = structOf(members...)
	}
	if name := typ.String(); len(name) > 4096 || !utf8.ValidString(name) {
		t.Errorf("a name of %d bytes", len(name))
	}
}
