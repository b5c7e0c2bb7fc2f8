package codec

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/udfgate/udfgate"
)

// genericBatchMessage builds the message with the format's own builder.
func genericBatchMessage(a *Answer) []byte {
	b := flatbuffers.NewBuilder(0)
	b.StartVector(16, len(a.Buffers), 8)
	for _, buf := range slices.Backward(a.Buffers) {
		b.Prep(8, 16)
		b.PrependInt64(buf.Length)
		b.PrependInt64(buf.Offset)
	}
	buffers := b.EndVector(len(a.Buffers))
	b.StartVector(16, len(a.Nodes), 8)
	for _, n := range slices.Backward(a.Nodes) {
		b.Prep(8, 16)
		b.PrependInt64(n.Nulls)
		b.PrependInt64(n.Length)
	}
	nodes := b.EndVector(len(a.Nodes))
	b.StartObject(5)
	b.PrependInt64Slot(0, a.Rows, 0)
	b.PrependUOffsetTSlot(1, nodes, 0)
	b.PrependUOffsetTSlot(2, buffers, 0)
	batch := b.EndObject()
	b.StartObject(5)
	b.PrependInt64Slot(3, int64(len(a.Body.Bytes())), 0)
	b.PrependUOffsetTSlot(2, batch, 0)
	b.PrependByteSlot(1, headerBatch, 0)
	b.PrependInt16Slot(0, metadataV5, 0)
	b.Finish(b.EndObject())
	return b.FinishedBytes()
}

// The patched template says what a generic builder says, for the common shapes
// and for others, and reading gives back what was written.
func TestBatchMessageAgainstBuilder(t *testing.T) {
	r := testRand(t)
	for range 500 {
		a := randomAnswer(r)
		header := AppendBatchMessage([]byte("before"), a)[len("before"):]
		if len(header)%8 != 0 {
			t.Fatalf("%d bytes are not a multiple of 8", len(header))
		}
		var ours, theirs Message
		if err := ReadMessage(header, &ours); err != nil {
			t.Fatal(err)
		}
		if err := ReadMessage(genericBatchMessage(a), &theirs); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(ours, theirs) {
			t.Fatalf("ours reads %+v, the builder's %+v", ours, theirs)
		}
		if ours.Rows != a.Rows || ours.BodyLen != int64(len(a.Body.Bytes())) || !slices.Equal(ours.Nodes, a.Nodes) || !slices.Equal(ours.Buffers, a.Buffers) {
			t.Fatalf("wrote %+v, read %+v", a, ours)
		}
	}
}

func randomAnswer(r *rand.Rand) *Answer {
	a := &Answer{Rows: r.Int64N(1 << 35), Body: NewBlock(r.IntN(1 << 12))}
	nodes, buffers := 1, 2+r.IntN(2)
	if r.IntN(4) == 0 {
		nodes, buffers = r.IntN(5), r.IntN(9)
	}
	for range nodes {
		a.Nodes = append(a.Nodes, Node{a.Rows, r.Int64N(a.Rows + 1)})
	}
	n := int64(len(a.Body.Bytes()))
	for range buffers {
		off := r.Int64N(n+1) &^ 7
		a.Buffers = append(a.Buffers, Buffer{off, r.Int64N(n - off + 1)})
	}
	return a
}

// batchAnswer lays the columns of a batch out as an answer.
func batchAnswer(batch arrow.RecordBatch) *Answer {
	a := &Answer{Rows: batch.NumRows()}
	var content []byte
	for _, column := range batch.Columns() {
		a.Nodes = append(a.Nodes, Node{int64(column.Len()), int64(column.NullN())})
		for i, buf := range column.Data().Buffers() {
			var b []byte
			if buf != nil && (i > 0 || column.NullN() > 0) {
				b = buf.Bytes()
			}
			a.Buffers = append(a.Buffers, Buffer{int64(len(content)), int64(len(b))})
			content = append(content, b...)
			content = append(content, make([]byte, -len(content)&7)...)
		}
	}
	a.Body = NewBlock(len(content))
	copy(a.Body.Bytes(), content)
	return a
}

// arrow-go reads batches of every kind, with and without nulls, alone and
// together, and writes headers that read the same here.
func TestBatchMessageInArrowGo(t *testing.T) {
	r := testRand(t)
	for _, nullPercent := range []int{0, 30, 100} {
		for _, rows := range []int{0, 1, 9, 200} {
			var fields []udfgate.Field
			var columns []arrow.Array
			for _, k := range kinds {
				column := arrowArray(k, randomColumn(r, k, rows, nullPercent))
				fields, columns = append(fields, field(k.String(), k)), append(columns, column)
				checkInArrowGo(t, fields[len(fields)-1:], []arrow.Array{column}, rows)
			}
			checkInArrowGo(t, fields, columns, rows)
		}
	}
	checkInArrowGo(t, nil, nil, 7)
}

func checkInArrowGo(t *testing.T, fields []udfgate.Field, columns []arrow.Array, rows int) {
	t.Helper()
	batch := array.NewRecordBatch(arrowSchema(fields), columns, int64(rows))
	a := batchAnswer(batch)
	header := AppendBatchMessage(nil, a)
	stream := binary.LittleEndian.AppendUint32(EncapsulateSchema(udfgate.Schema{Fields: fields}), continuation)
	stream = binary.LittleEndian.AppendUint32(stream, uint32(len(header)))
	stream = append(append(stream, header...), a.Body.Bytes()...)
	reader, err := ipc.NewReader(bytes.NewReader(stream))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Release()
	got, err := reader.Read()
	if err != nil {
		t.Fatal(err)
	}
	if !array.RecordEqual(got, batch) {
		t.Errorf("%d rows of %s: wrote %v, arrow-go reads %v", rows, typeNames(fields), batch, got)
	}

	var m Message
	header, body := arrowMessage(t, batch)
	if err := ReadMessage(header, &m); err != nil {
		t.Fatal(err)
	}
	if m.Rows != int64(rows) || m.BodyLen != int64(len(body)) || !slices.Equal(m.Nodes, a.Nodes) {
		t.Errorf("%d rows of %s: read %+v of %d bytes", rows, typeNames(fields), m, len(body))
	}
}

// Schemas go to arrow-go and back without loss, in both directions.
func TestSchemaInArrowGo(t *testing.T) {
	r := testRand(t)
	for range 200 {
		s := randomSchema(r)
		reader, err := ipc.NewReader(bytes.NewReader(EncapsulateSchema(s)))
		if err != nil {
			t.Fatal(err)
		}
		theirs := reader.Schema()
		reader.Release()
		if got := fromArrowGo(theirs); !sameSchema(got, s) {
			t.Fatalf("wrote %+v, arrow-go reads %+v", s, got)
		}

		var stream bytes.Buffer
		writer := ipc.NewWriter(&stream, ipc.WithSchema(theirs))
		if err := writer.Close(); err != nil {
			t.Fatal(err)
		}
		n := binary.LittleEndian.Uint32(stream.Bytes()[4:])
		got, err := ReadSchema(stream.Bytes()[8 : 8+n])
		if err != nil || !sameSchema(got, s) {
			t.Fatalf("arrow-go wrote %v, read %+v, %v", theirs, got, err)
		}
	}
}

// sameSchema leaves out what arrow-go gives names of its own: items and entries.
func sameSchema(a, b udfgate.Schema) bool {
	return reflect.DeepEqual(a.Metadata, b.Metadata) && slices.EqualFunc(a.Fields, b.Fields, func(f, g udfgate.Field) bool {
		return f.Name == g.Name && f.Nullable == g.Nullable && reflect.DeepEqual(f.Metadata, g.Metadata) && f.Type.Equal(g.Type)
	})
}

func fromArrowGo(theirs *arrow.Schema) udfgate.Schema {
	return udfgate.Schema{Fields: fromArrowFields(theirs.Fields()), Metadata: fromPairs(theirs.Metadata())}
}

func fromArrowFields(theirs []arrow.Field) []udfgate.Field {
	fields := make([]udfgate.Field, 0, len(theirs))
	for _, f := range theirs {
		fields = append(fields, udfgate.Field{Name: f.Name, Type: fromArrowType(f.Type), Nullable: f.Nullable, Metadata: fromPairs(f.Metadata)})
	}
	return fields
}

// fromArrowType is arrow-go's type in our words.
func fromArrowType(theirs arrow.DataType) udfgate.Type {
	var t udfgate.Type
	names := map[string]string{
		"decimal": "decimal128", "struct": "struct", "fixed_size_binary": "fixed_size_binary", "string_view": "utf8_view",
		"day_time_interval": "day_time_interval", "run_end_encoded": "run_end_encoded",
	}
	name := theirs.Name()
	if ours, ok := names[name]; ok {
		name = ours
	}
	t.Kind, _ = udfgate.KindByName(name)
	switch theirs := theirs.(type) {
	case arrow.DecimalType:
		t.Precision, t.Scale = theirs.GetPrecision(), theirs.GetScale()
	case *arrow.TimestampType:
		t.Unit, t.Zone = udfgate.Unit(theirs.Unit), theirs.TimeZone
	case *arrow.Time32Type:
		t.Unit = udfgate.Unit(theirs.Unit)
	case *arrow.Time64Type:
		t.Unit = udfgate.Unit(theirs.Unit)
	case *arrow.DurationType:
		t.Unit = udfgate.Unit(theirs.Unit)
	case *arrow.FixedSizeBinaryType:
		t.Size = int32(theirs.ByteWidth)
	case *arrow.FixedSizeListType:
		t.Size = theirs.Len()
	}
	if nested, ok := theirs.(arrow.NestedType); ok {
		t.Children = fromArrowFields(nested.Fields())
	}
	return t
}

func fromPairs(m arrow.Metadata) (pairs []udfgate.KeyValue) {
	for i, key := range m.Keys() {
		pairs = append(pairs, udfgate.KeyValue{Key: key, Value: m.Values()[i]})
	}
	return pairs
}

func BenchmarkAppendBatchMessage(b *testing.B) {
	dst := make([]byte, 0, 512)
	for name, buffers := range map[string][]Buffer{
		"buffers=2": {{0, 8}, {8, 24}},
		"buffers=3": {{0, 8}, {8, 16}, {24, 8}},
	} {
		a := &Answer{Rows: 3, Nodes: []Node{{3, 0}}, Buffers: buffers, Body: NewBlock(32)}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				dst = AppendBatchMessage(dst[:0], a)
			}
		})
	}
	b.Run("floor=memcpy", func(b *testing.B) {
		src := make([]byte, 136)
		for b.Loop() {
			dst = append(dst[:0], src...)
		}
	})
}
