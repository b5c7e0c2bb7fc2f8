package codec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	arrowmemory "github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/udfgate/udfgate"
)

// arrow-go is the judge of what Arrow bytes mean, in both directions.

var arrowDataTypes = map[udfgate.Kind]arrow.DataType{
	udfgate.Bool: arrow.FixedWidthTypes.Boolean,
	udfgate.Int8: arrow.PrimitiveTypes.Int8, udfgate.Int16: arrow.PrimitiveTypes.Int16,
	udfgate.Int32: arrow.PrimitiveTypes.Int32, udfgate.Int64: arrow.PrimitiveTypes.Int64,
	udfgate.Uint8: arrow.PrimitiveTypes.Uint8, udfgate.Uint16: arrow.PrimitiveTypes.Uint16,
	udfgate.Uint32: arrow.PrimitiveTypes.Uint32, udfgate.Uint64: arrow.PrimitiveTypes.Uint64,
	udfgate.Float32: arrow.PrimitiveTypes.Float32, udfgate.Float64: arrow.PrimitiveTypes.Float64,
	udfgate.Utf8: arrow.BinaryTypes.String, udfgate.Binary: arrow.BinaryTypes.Binary,
}

// kinds is every kind there is, in order.
var kinds = func() (all []udfgate.Kind) {
	for k := udfgate.Bool; k <= udfgate.Binary; k++ {
		all = append(all, k)
	}
	return all
}()

func arrowArray(k udfgate.Kind, col testColumn) arrow.Array {
	b := array.NewBuilder(arrowmemory.DefaultAllocator, arrowDataTypes[k])
	for _, v := range col {
		switch v := v.(type) {
		case nil:
			b.AppendNull()
		case string:
			b.(*array.StringBuilder).Append(v)
		case []byte:
			b.(*array.BinaryBuilder).Append(v)
		case bool:
			b.(*array.BooleanBuilder).Append(v)
		case float32:
			b.(*array.Float32Builder).Append(v)
		case float64:
			b.(*array.Float64Builder).Append(v)
		default:
			if err := b.AppendValueFromString(fmt.Sprint(v)); err != nil {
				panic(err)
			}
		}
	}
	return b.NewArray()
}

func arrowSchema(fields []udfgate.Field) *arrow.Schema {
	out := make([]arrow.Field, len(fields))
	for i, f := range fields {
		out[i] = arrow.Field{Name: f.Name, Type: arrowDataTypes[f.Type.Kind], Nullable: f.Nullable}
	}
	return arrow.NewSchema(out, nil)
}

// arrowMessage is what an arrow-go client puts into a FlightData.
func arrowMessage(t testing.TB, batch arrow.RecordBatch) (header, body []byte) {
	t.Helper()
	payload, err := ipc.GetRecordBatchPayload(batch)
	if err != nil {
		t.Fatal(err)
	}
	defer payload.Release()
	var out bytes.Buffer
	if err := payload.SerializeBody(&out); err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(payload.Meta().Bytes()), out.Bytes()
}

// arrowBatch reads an answer as a client would: schema, header, body. The batch
// is released at the end of the test.
func arrowBatch(t testing.TB, a *Answer, fields ...udfgate.Field) arrow.RecordBatch {
	t.Helper()
	stream := EncapsulateSchema(udfgate.Schema{Fields: fields})
	header := AppendBatchMessage(nil, a)
	stream = binary.LittleEndian.AppendUint32(stream, 0xffffffff)
	stream = binary.LittleEndian.AppendUint32(stream, uint32(len(header)))
	stream = append(append(stream, header...), a.Body.Bytes()...)
	r, err := ipc.NewReader(bytes.NewReader(stream))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Release)
	batch, err := r.Read()
	if err != nil {
		t.Fatal(err)
	}
	return batch
}

// arrowRead is the one column of an answer.
func arrowRead(t testing.TB, f udfgate.Field, a *Answer) arrow.Array {
	t.Helper()
	got := arrowBatch(t, a, f).Column(0)
	if v, ok := got.(interface{ ValidateFull() error }); ok {
		if err := v.ValidateFull(); err != nil {
			t.Fatal(err)
		}
	}
	return got
}

// randomColumn has random values of a kind, extremes among them.
func randomColumn(r *rand.Rand, k udfgate.Kind, rows, nullPercent int) testColumn {
	switch k {
	case udfgate.Utf8:
		return randomText(r, rows, nullPercent, r.IntN(2) == 0)
	case udfgate.Binary:
		return asBinary(randomText(r, rows, nullPercent, r.IntN(2) == 0))
	}
	col := make(testColumn, rows)
	for i := range col {
		if r.IntN(100) >= nullPercent {
			col[i] = randomFixed(r, k)
		}
	}
	return col
}

func randomFixed(r *rand.Rand, k udfgate.Kind) any {
	v := r.Uint64()
	if r.IntN(10) == 0 {
		v = []uint64{0, 1, math.MaxUint64, 1 << 63, 1<<63 - 1}[r.IntN(5)]
	}
	b := binary.LittleEndian.AppendUint64(nil, v)
	switch k {
	case udfgate.Bool:
		return v&1 == 1
	case udfgate.Float32, udfgate.Float64: // bit patterns of NaN do not compare
		if f, ok := fixedValue(k, b).(float64); ok && !math.IsNaN(f) {
			return f
		}
		return fixedValue(k, make([]byte, 8))
	}
	return fixedValue(k, b)
}

// fuzzBatch has random columns of the fields' types.
func fuzzBatch(seed uint64, fields []udfgate.Field, rows int) arrow.RecordBatch {
	r := rand.New(rand.NewPCG(seed, 0))
	arrays := make([]arrow.Array, len(fields))
	for i, f := range fields {
		arrays[i] = arrowArray(f.Type.Kind, randomColumn(r, f.Type.Kind, rows, 20))
	}
	return array.NewRecordBatch(arrowSchema(fields), arrays, int64(rows))
}
