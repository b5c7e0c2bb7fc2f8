package codec

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
	"github.com/apache/arrow-go/v18/arrow/float16"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/udfgate/udfgate"
)

// randomCanonicalField is a random field whose type is canonical all the way down.
func randomCanonicalField(r *rand.Rand, depth int) udfgate.Field {
	for {
		f := randomField(r, depth)
		f.Metadata = nil
		if canonical(&f.Type) {
			f.Type = nullableBelow(f.Type)
			return f
		}
	}
}

// nullableBelow allows nulls in all children but keys, whose type is plain:
// arrow-go's builders ask for it.
func nullableBelow(t udfgate.Type) udfgate.Type {
	t.Children = slices.Clone(t.Children)
	for i := range t.Children {
		t.Children[i].Nullable, t.Children[i].Metadata = t.Kind != udfgate.Map, nil
		t.Children[i].Type = nullableBelow(t.Children[i].Type)
	}
	if t.Kind == udfgate.Map {
		t.Children[0].Type.Children[0] = udfgate.Field{Name: "key", Type: udfgate.Type{Kind: udfgate.Utf8}}
	}
	return t
}

func canonical(t *udfgate.Type) bool {
	for i := range t.Children {
		if !canonical(&t.Children[i].Type) {
			return false
		}
	}
	return t.Kind.Canonical()
}

// arrowFields are the fields as arrow-go understands them.
func arrowFields(t testing.TB, fields []udfgate.Field) []arrow.Field {
	t.Helper()
	reader, err := ipc.NewReader(bytes.NewReader(EncapsulateSchema(udfgate.Schema{Fields: fields})))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Release()
	return reader.Schema().Fields()
}

// randomArray has n random values of a type, some of them null.
func randomArray(r *rand.Rand, f arrow.Field, n int) arrow.Array {
	b := array.NewBuilder(memory.DefaultAllocator, f.Type)
	defer b.Release()
	for range n {
		appendRandom(r, b, f.Nullable)
	}
	return b.NewArray()
}

func appendRandom(r *rand.Rand, b array.Builder, nullable bool) {
	if nullable && r.IntN(4) == 0 {
		b.AppendNull()
		return
	}
	switch b := b.(type) {
	case *array.NullBuilder:
		b.AppendNull()
	case *array.BooleanBuilder:
		b.Append(r.IntN(2) == 0)
	case *array.StringBuilder:
		b.Append(randomName(r))
	case *array.LargeStringBuilder:
		b.Append(randomName(r))
	case *array.BinaryBuilder: // of both widths
		b.Append([]byte(randomName(r)))
	case *array.FixedSizeBinaryBuilder:
		value := make([]byte, b.Type().(*arrow.FixedSizeBinaryType).ByteWidth)
		for i := range value {
			value[i] = byte(r.Uint32())
		}
		b.Append(value)
	case *array.MapBuilder:
		b.Append(true)
		for range r.IntN(3) {
			appendRandom(r, b.KeyBuilder(), false)
			appendRandom(r, b.ItemBuilder(), true)
		}
	case *array.FixedSizeListBuilder:
		b.Append(true)
		for range b.Type().(*arrow.FixedSizeListType).Len() {
			appendRandom(r, b.ValueBuilder(), true)
		}
	case array.ListLikeBuilder:
		b.Append(true)
		for range r.IntN(4) {
			appendRandom(r, b.ValueBuilder(), true)
		}
	case *array.StructBuilder:
		b.Append(true)
		for i := range b.NumField() {
			appendRandom(r, b.FieldBuilder(i), true)
		}
	default:
		appendNumber(r, b)
	}
}

// appendNumber appends a random value of a type of fixed width.
func appendNumber(r *rand.Rand, b array.Builder) {
	n := int64(r.Uint64() >> r.IntN(64))
	switch b := b.(type) {
	case *array.Float16Builder:
		b.Append(float16.New(float32(n % 1000)))
	case *array.Float32Builder:
		b.Append(float32(n))
	case *array.Float64Builder:
		b.Append(float64(n))
	case *array.Decimal32Builder:
		b.Append(decimal.Decimal32(n % int64(math.Pow10(min(int(b.Type().(arrow.DecimalType).GetPrecision()), 9)))))
	case *array.Decimal64Builder:
		b.Append(decimal.Decimal64(n % int64(math.Pow10(min(int(b.Type().(arrow.DecimalType).GetPrecision()), 18)))))
	case *array.Decimal128Builder:
		b.Append(decimal128.FromBigInt(randomUnscaled(r, b.Type())))
	case *array.Decimal256Builder:
		b.Append(decimal256.FromBigInt(randomUnscaled(r, b.Type())))
	case *array.Date32Builder:
		b.Append(arrow.Date32(n))
	case *array.Date64Builder:
		b.Append(arrow.Date64(n / dayMillis * dayMillis))
	case *array.Time32Builder:
		b.Append(arrow.Time32(uint64(n) % uint64(daySeconds*unitsPerSecond[b.Type().(*arrow.Time32Type).Unit])))
	case *array.Time64Builder:
		b.Append(arrow.Time64(uint64(n) % uint64(daySeconds*unitsPerSecond[b.Type().(*arrow.Time64Type).Unit])))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(n))
	case *array.DurationBuilder:
		b.Append(arrow.Duration(n))
	case *array.MonthIntervalBuilder:
		b.Append(arrow.MonthInterval(n))
	case *array.DayTimeIntervalBuilder:
		b.Append(arrow.DayTimeInterval{Days: int32(n), Milliseconds: int32(n >> 3)})
	case *array.MonthDayNanoIntervalBuilder:
		b.Append(arrow.MonthDayNanoInterval{Months: int32(n), Days: int32(n >> 9), Nanoseconds: n})
	default:
		text := fmt.Sprint(n & 0x7f)
		if err := b.AppendValueFromString(text); err != nil {
			panic(fmt.Sprintf("%s of %s: %v", text, b.Type(), err))
		}
	}
}

// randomUnscaled has up to as many digits as the precision of a decimal type.
func randomUnscaled(r *rand.Rand, t arrow.DataType) *big.Int {
	digits := int64(1 + r.IntN(int(t.(arrow.DecimalType).GetPrecision())))
	n := new(big.Int)
	for range 4 {
		n.Lsh(n, 64).Or(n, new(big.Int).SetUint64(r.Uint64()))
	}
	n.Mod(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(digits), nil))
	if r.IntN(2) == 0 {
		n.Neg(n)
	}
	return n
}

// rebuild makes arrow-go's array of a decoded column, without a copy.
func rebuild(body []byte, c *Column, theirs arrow.DataType) arrow.ArrayData {
	var buffers []*memory.Buffer
	ranges := (&Column{Type: c.Type, Validity: c.Validity, Offsets: c.Offsets, Values: c.Values}).AppendBuffers(nil)
	for i, r := range ranges {
		var buffer *memory.Buffer
		if r.Len > 0 || i > 0 {
			buffer = memory.NewBufferBytes(body[r.Off:r.End()])
		}
		buffers = append(buffers, buffer)
	}
	if c.Type.Kind == udfgate.Null {
		buffers = []*memory.Buffer{nil}
	}
	var children []arrow.ArrayData
	if nested, ok := theirs.(arrow.NestedType); ok {
		for i, f := range nested.Fields() {
			children = append(children, rebuild(body, &c.Children[i], f.Type))
		}
	}
	return array.NewData(theirs, int(c.Length), buffers, children, int(c.Nulls), 0)
}

// Columns of any canonical type, sliced anywhere, decode into what arrow-go
// itself makes of the ranges.
func TestDecodeEveryType(t *testing.T) {
	r := testRand(t)
	store := testStore(t)
	for range 300 {
		var fields []udfgate.Field
		for range 1 + r.IntN(4) {
			fields = append(fields, randomCanonicalField(r, 3))
		}
		theirs := arrowFields(t, fields)
		n := r.IntN(40)
		var columns []arrow.Array
		for _, f := range theirs {
			columns = append(columns, randomArray(r, f, n))
		}
		whole := array.NewRecordBatch(arrow.NewSchema(theirs, nil), columns, int64(n))
		from := r.Int64N(int64(n) + 1)
		sent := whole.NewSlice(from, from+r.Int64N(int64(n)-from+1))

		header, body := arrowMessage(t, sent)
		var m Message
		if err := ReadMessage(header, &m); err != nil {
			t.Fatalf("%v: %v", fields, err)
		}
		batch, err := decodeBody(store, fields, &m, body)
		if err != nil {
			t.Fatalf("%v: %v", fields, err)
		}
		for i := range fields {
			got := array.MakeFromData(rebuild(batch.Slot.Bytes(), &batch.Columns[i], theirs[i].Type))
			if !array.Equal(got, sent.Column(i)) {
				t.Fatalf("%s: wanted %v, got %v", fields[i].Type, sent.Column(i), got)
			}
		}
		batch.Release()
	}
}
