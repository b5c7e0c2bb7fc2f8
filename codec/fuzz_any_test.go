package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/udfgate/udfgate"
)

const fuzzBytesMax = 1 << 16 // of what anything may become

// FuzzDecodeAny: any stream of messages gives errors, or batches whose columns
// are what a worker relies on: they are rendered and taken back, in both forms.
func FuzzDecodeAny(f *testing.F) {
	r := testRand(f, 1)
	for i := range 30 {
		f.Add(randomStream(f, r, i%3))
	}
	store := NewStore(StoreConfig{})
	f.Cleanup(func() { store.Close() })
	f.Fuzz(func(t *testing.T, stream []byte) {
		rest := stream
		header, _ := cutMessage(&rest)
		sent, err := ReadSchema(header)
		if err != nil {
			return
		}
		var fields []udfgate.Field
		for _, f := range sent.Fields {
			fields = append(fields, canonicalField(f))
		}
		if !accepted(fields, sent.Fields) {
			return
		}
		d := NewDecoder(fields, sent.Fields, Limits{RowsMax: 1 << 10, RowsName: "--max-batch-rows", BytesMax: fuzzBytesMax, BytesName: "--max-message-bytes"})
		var dictionaries Dictionaries
		for len(rest) > 0 {
			header, body := cutMessage(&rest)
			var m Message
			if ReadMessage(header, &m) != nil {
				return
			}
			fd := &FlightData{HasBody: true, Body: Range{0, int64(len(body))}}
			if m.Kind == KindDictionary {
				mustBeCallers(t, d.AddDictionary(fd, &m, [][]byte{body}, &dictionaries))
				if dictionaries.Bytes() > fuzzBytesMax {
					t.Fatalf("dictionaries of %d bytes", dictionaries.Bytes())
				}
				continue
			}
			b, err := d.Decode(fd, &m, [][]byte{body}, &dictionaries, store)
			mustBeCallers(t, err)
			if err == nil {
				checkAny(t, fields, b)
				b.Release()
			}
		}
	})
}

func accepted(declared, sent []udfgate.Field) bool {
	for i := range sent {
		if !accepts(&declared[i].Type, &sent[i].Type) {
			return false
		}
	}
	return true
}

func mustBeCallers(t *testing.T, err error) {
	if _, ok := errors.AsType[*udfgate.Error](err); err != nil && !ok {
		t.Errorf("%T is not the caller's error: %v", err, err)
	}
}

// cutMessage takes a message off a stream: two lengths of 16 bits, then header
// and body.
func cutMessage(rest *[]byte) (header, body []byte) {
	next := func(n int) []byte {
		part := (*rest)[:min(n, len(*rest))]
		*rest = (*rest)[len(part):]
		return part
	}
	var lengths [4]byte
	copy(lengths[:], next(4))
	header = next(int(binary.LittleEndian.Uint16(lengths[:])))
	return header, next(int(binary.LittleEndian.Uint16(lengths[2:])))
}

// randomStream is an IPC stream as cutMessage cuts it, packed or not.
func randomStream(t testing.TB, r *rand.Rand, packed int) (out []byte) {
	n := 1 + r.IntN(12)
	fields, columns := encodedArrays(r, n)
	for range 2 {
		f := arrowFields(t, []udfgate.Field{randomCanonicalField(r, 2)})[0]
		fields, columns = append(fields, f), append(columns, randomArray(r, f, n))
	}
	schema := arrow.NewSchema(fields, nil)
	var stream bytes.Buffer
	options := [][]ipc.Option{{}, {ipc.WithLZ4()}, {ipc.WithZstd()}}[packed]
	w := ipc.NewWriter(&stream, append(options, ipc.WithSchema(schema))...)
	if err := errors.Join(w.Write(array.NewRecordBatch(schema, columns, int64(n))), w.Close()); err != nil {
		t.Fatal(err)
	}
	s := &ipcMessages{t: t, rest: stream.Bytes()}
	for {
		header, body, ok := s.next()
		if !ok {
			return out
		}
		out = binary.LittleEndian.AppendUint16(out, uint16(len(header)))
		out = binary.LittleEndian.AppendUint16(out, uint16(len(body)))
		out = append(append(out, header...), body...)
	}
}

// checkAny renders the columns of a batch and takes them back.
func checkAny(t *testing.T, fields []udfgate.Field, b *Batch) {
	BlockRows(b)
	for i, f := range fields {
		f.Nullable = true
		c := &b.Columns[i]
		rc := &ResultColumn{Form: FormArrow, Nulls: c.Nulls}
		for _, r := range c.AppendBuffers(nil) {
			rc.Buffers = append(rc.Buffers, Buffer{Offset: r.Off, Length: r.Len})
		}
		if a, err := TakeAnswer(f, b.Rows, 64, rc, b.Slot.Bytes(), answerLimits); err == nil {
			validate(t, f, a)
			a.Release()
		} else if !hasRequired(&f.Type) {
			t.Fatalf("column %d of %s is refused: %v", i, f.Type, err)
		}
		if size := RenderSize(b, i, 0, b.Rows); Rendered(&f.Type) && size < 1<<24 {
			dst := make([]byte, size)
			index, data := Render(dst, b, i, 0, b.Rows, 64)
			rc := &ResultColumn{Form: FormMarshal, Blocks: uint32(index.Len/8 - 1), Buffers: []Buffer{{index.Off, index.Len}, {data.Off, data.Len}}}
			if a, err := TakeAnswer(f, b.Rows, 64, rc, dst, answerLimits); err == nil {
				validate(t, f, a)
				a.Release()
			}
		}
	}
}

// hasRequired reports whether a type has children that are never null: what
// comes in is not held to that, what goes out is.
func hasRequired(t *udfgate.Type) bool {
	for i := range t.Children {
		if !t.Children[i].Nullable || hasRequired(&t.Children[i].Type) {
			return true
		}
	}
	return false
}

// validate lets arrow-go find what is wrong with an answer, where it reads the
// type at all.
func validate(t *testing.T, f udfgate.Field, a *Answer) {
	t.Helper()
	r, err := ipc.NewReader(bytes.NewReader(EncapsulateSchema(udfgate.Schema{Fields: []udfgate.Field{f}})))
	if err != nil {
		return // names or metadata that it refuses
	}
	r.Release()
	arrowRead(t, f, a)
}

// fuzzTypes are what FuzzMarshalTree and FuzzArrowTree expect.
var fuzzTypes = func() (all []udfgate.Field) {
	r := rand.New(rand.NewPCG(7, 0))
	for len(all) < 64 {
		f := randomCanonicalField(r, 3)
		f.Type = withViews(r, f.Type)
		if f.Nullable = len(all)%2 == 0; Rendered(&f.Type) {
			all = append(all, f)
		}
	}
	return all
}()

// fuzzCase is a column of one of the types in a slot.
func fuzzCase(f *testing.F, r *rand.Rand, store *Store, which int) *Batch {
	field := fuzzTypes[which]
	theirs := arrowFields(f, []udfgate.Field{field})[0]
	values := randomArray(r, theirs, 9)
	header, body := arrowMessage(f, array.NewRecordBatch(arrow.NewSchema([]arrow.Field{theirs}, nil), []arrow.Array{values}, 9))
	var m Message
	if err := ReadMessage(header, &m); err != nil {
		f.Fatal(err)
	}
	b, err := decodeBody(store, []udfgate.Field{field}, &m, body)
	if err != nil {
		f.Fatal(err)
	}
	return b
}

// FuzzMarshalTree: any marshal block gives an error, or an answer within the
// limit that arrow-go finds nothing wrong with.
func FuzzMarshalTree(f *testing.F) {
	r, store := testRand(f, 1), NewStore(StoreConfig{})
	for which := range fuzzTypes {
		b := fuzzCase(f, r, store, which)
		dst := make([]byte, RenderSize(b, 0, 0, 9))
		_, data := Render(dst, b, 0, 0, 9, 64)
		f.Add(uint8(which), uint8(9), dst[data.Off:data.End()])
		b.Release()
	}
	f.Cleanup(func() { store.Close() })
	f.Fuzz(func(t *testing.T, which, rows uint8, block []byte) {
		field := fuzzTypes[int(which)%len(fuzzTypes)]
		rc, region := marshalAnswer(block)
		a, err := TakeAnswer(field, int64(rows), 256, rc, region, upTo(fuzzBytesMax))
		if err != nil {
			return
		}
		defer a.Release()
		if len(a.Body.Bytes()) > fuzzBytesMax {
			t.Fatalf("body of %d bytes", len(a.Body.Bytes()))
		}
		arrowRead(t, field, a)
	})
}

// FuzzArrowTree: the same of Arrow buffers, which lie anywhere.
func FuzzArrowTree(f *testing.F) {
	r, store := testRand(f, 1), NewStore(StoreConfig{})
	for which := range fuzzTypes {
		b := fuzzCase(f, r, store, which)
		var places []byte
		for _, r := range b.Columns[0].AppendBuffers(nil) {
			places = binary.LittleEndian.AppendUint16(places, uint16(r.Off))
			places = binary.LittleEndian.AppendUint16(places, uint16(r.Len))
		}
		f.Add(uint8(which), uint8(9), places, bytes.Clone(b.Slot.Bytes()))
		b.Release()
	}
	f.Cleanup(func() { store.Close() })
	f.Fuzz(func(t *testing.T, which, rows uint8, places, region []byte) {
		field := fuzzTypes[int(which)%len(fuzzTypes)]
		rc := &ResultColumn{Form: FormArrow}
		for ; len(places) >= 4; places = places[4:] {
			rc.Buffers = append(rc.Buffers, Buffer{int64(binary.LittleEndian.Uint16(places)), int64(binary.LittleEndian.Uint16(places[2:]))})
		}
		for rc.Nulls = 0; rc.Nulls <= int64(rows); rc.Nulls++ {
			a, err := TakeAnswer(field, int64(rows), 256, rc, region, upTo(fuzzBytesMax))
			if err == nil {
				arrowRead(t, field, a)
				a.Release()
				return
			}
		}
	})
}
