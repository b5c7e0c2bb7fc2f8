package tabular

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/float16"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/udfgate/udfgate/internal/seed"
)

var (
	date32, date64 = arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Date64
	naive          = &arrow.TimestampType{Unit: arrow.Microsecond}
	money          = &arrow.Decimal128Type{Precision: 10, Scale: 2}
	uuids          = extensions.NewUUIDType()
	half           = arrow.FixedWidthTypes.Float16
	months         = arrow.FixedWidthTypes.MonthInterval
	dayTimes       = arrow.FixedWidthTypes.DayTimeInterval
	monthDayNanos  = arrow.FixedWidthTypes.MonthDayNanoInterval
)

// extended is a field with an extension that arrow-go does not know.
func extended(t arrow.DataType, extension string) arrow.Field {
	return arrow.Field{Name: "x", Type: t, Nullable: true, Metadata: arrow.NewMetadata([]string{"ARROW:extension:name"}, []string{extension})}
}

// everyField has one field of every type that an argument may have.
func everyField(t *testing.T) []arrow.Field {
	t.Helper()
	arrowJSON, err := extensions.NewJSONType(text)
	if err != nil {
		t.Fatal(err)
	}
	member := func(name string, t arrow.DataType) arrow.Field {
		return arrow.Field{Name: name, Type: t, Nullable: true}
	}
	types := []arrow.DataType{
		boolean, i8, i16, i32, i64, u8, u16, u32, u64, half, f32, f64, text, largeText, bin, largeBin, arrow.Null,
		&arrow.FixedSizeBinaryType{ByteWidth: 3}, date32, date64,
		arrow.FixedWidthTypes.Time32s, arrow.FixedWidthTypes.Time32ms, arrow.FixedWidthTypes.Time64us, arrow.FixedWidthTypes.Time64ns,
		months, dayTimes, monthDayNanos, uuids, arrowJSON,
		&arrow.Decimal32Type{Precision: 9, Scale: 2}, &arrow.Decimal64Type{Precision: 18, Scale: 18}, money,
		&arrow.Decimal128Type{Precision: 38, Scale: -3}, &arrow.Decimal256Type{Precision: 76, Scale: 38},
		arrow.ListOf(i64), arrow.LargeListOf(arrow.ListOf(text)), arrow.FixedSizeListOf(3, f64),
		arrow.StructOf(member("a", i64), member("b \"é\"", arrow.ListOf(money)), member("c", uuids)), arrow.StructOf(), arrow.StructOf(member("", i64), member("", text)), arrow.ListOf(arrow.StructOf(member("", money))),
		arrow.MapOf(text, i64), arrow.MapOf(i32, arrow.StructOf(member("t", timestamp))), arrow.ListOf(arrow.MapOf(date32, arrowJSON)),
		arrow.ListOfField(extended(text, "arrowudf.json")), arrow.ListOf(arrow.Null),
	}
	for _, unit := range []arrow.TimeUnit{arrow.Second, arrow.Millisecond, arrow.Microsecond, arrow.Nanosecond} {
		types = append(types, &arrow.TimestampType{Unit: unit}, &arrow.TimestampType{Unit: unit, TimeZone: "Asia/Kathmandu"}, &arrow.DurationType{Unit: unit})
	}
	fields := []arrow.Field{
		extended(text, "arrowudf.json"), extended(largeText, "arrowudf.json"), extended(text, "arrowudf.decimal"),
		extended(&arrow.FixedSizeBinaryType{ByteWidth: 16}, "arrow.uuid"), extended(largeBin, "Variant"), extended(i64, "somebody.else"),
	}
	for _, dt := range types {
		fields = append(fields, arrow.Field{Name: "x", Type: dt, Nullable: true})
	}
	return fields
}

// wide is a random number of up to so many bits, small ones as likely as large.
func wide(r *rand.Rand, bits int) int64 { return int64(r.Uint64()) >> (63 - r.IntN(bits)) }

// appendAny appends a value of b's type that is not null.
func appendAny(r *rand.Rand, b array.Builder, f arrow.Field) {
	storage, extension := below(b, f)
	value := func(b array.Builder, f arrow.Field) {
		if r.IntN(5) == 0 {
			b.AppendNull()
		} else {
			appendAny(r, b, f)
		}
	}
	switch b := storage.(type) {
	case *array.NullBuilder:
		b.AppendNull()
	case *array.StringBuilder, *array.LargeStringBuilder:
		texts := []string{"", "a\"\\\n\t,", "é😀\u2028", "null", "NaN", "2024-01-01", "\x7f\x01"}
		switch {
		case overJSON(extension):
			texts = []string{`{"a":[1,2.50,{"b":null}]}`, `"x\ny"`, "1e400", "[]", "true", `"\ud83d\ude00"`}
		case extension == "arrowudf.decimal":
			texts = []string{"0", "-1.50", "1E+30", "NaN"}
		}
		_ = appendPlain(b, texts[r.IntN(len(texts))]) // it is text
	case *array.BinaryBuilder:
		if overJSON(extension) {
			b.Append([]byte([]string{`{"a":[1,2.50,{"b":null}]}`, `"x\ny"`, "1e400", "[]", "true"}[r.IntN(5)]))
			return
		}
		b.Append([]byte{byte(r.Uint32()), 0, 255}[:r.IntN(4)])
	case *array.FixedSizeBinaryBuilder:
		v := make([]byte, b.Type().(*arrow.FixedSizeBinaryType).ByteWidth)
		for i := range v {
			v[i] = byte(r.Uint32())
		}
		b.Append(v)
	case *array.ListBuilder:
		b.Append(true)
		for range r.IntN(4) {
			value(b.ValueBuilder(), b.Type().(*arrow.ListType).ElemField())
		}
	case *array.LargeListBuilder:
		b.Append(true)
		for range r.IntN(4) {
			value(b.ValueBuilder(), b.Type().(*arrow.LargeListType).ElemField())
		}
	case *array.FixedSizeListBuilder:
		b.Append(true)
		t := b.Type().(*arrow.FixedSizeListType)
		for range t.Len() {
			value(b.ValueBuilder(), t.ElemField())
		}
	case *array.StructBuilder:
		b.Append(true)
		for i, f := range b.Type().(*arrow.StructType).Fields() {
			value(b.FieldBuilder(i), f)
		}
	case *array.MapBuilder:
		b.Append(true)
		t := b.Type().(*arrow.MapType)
		for range r.IntN(4) {
			appendAny(r, b.KeyBuilder(), t.KeyField())
			value(b.ItemBuilder(), t.ItemField())
		}
	default:
		appendRandomNumber(r, storage)
	}
}

func appendRandomNumber(r *rand.Rand, b array.Builder) {
	digits := func(t arrow.DecimalType) *big.Int {
		v := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(1+r.IntN(int(t.GetPrecision())))), nil)
		v.Sub(v, big.NewInt(1+int64(r.IntN(9))))
		if r.IntN(2) == 0 {
			v.Neg(v)
		}
		return v
	}
	switch b := b.(type) {
	case *array.BooleanBuilder:
		b.Append(r.IntN(2) == 0)
	case *array.Float16Builder:
		b.Append(float16.FromBits(uint16(r.Uint32())))
	case *array.Float32Builder:
		b.Append(math.Float32frombits(r.Uint32()))
	case *array.Float64Builder:
		b.Append(math.Float64frombits(r.Uint64()))
	case *array.Date32Builder:
		b.Append(arrow.Date32(wide(r, 31)))
	case *array.Date64Builder:
		b.Append(arrow.Date64(wide(r, 63) / day.Milliseconds() * day.Milliseconds()))
	case *array.Time32Builder:
		b.Append(arrow.Time32(r.Int64N(secondsDay * perSecond(b.Type().(*arrow.Time32Type).Unit))))
	case *array.Time64Builder:
		b.Append(arrow.Time64(r.Int64N(secondsDay * perSecond(b.Type().(*arrow.Time64Type).Unit))))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(wide(r, 63)))
	case *array.DurationBuilder:
		b.Append(arrow.Duration(wide(r, 63)))
	case *array.MonthIntervalBuilder:
		b.Append(arrow.MonthInterval(wide(r, 31)))
	case *array.DayTimeIntervalBuilder:
		b.Append(arrow.DayTimeInterval{Days: int32(wide(r, 31)), Milliseconds: int32(wide(r, 31))})
	case *array.MonthDayNanoIntervalBuilder:
		b.Append(arrow.MonthDayNanoInterval{Months: int32(wide(r, 31)), Days: int32(wide(r, 31)), Nanoseconds: wide(r, 63)})
	case *array.Decimal32Builder:
		b.Append(decimal.Decimal32(digits(b.Type().(arrow.DecimalType)).Int64()))
	case *array.Decimal64Builder:
		b.Append(decimal.Decimal64(digits(b.Type().(arrow.DecimalType)).Int64()))
	case *array.Decimal128Builder:
		b.Append(decimal128.FromBigInt(digits(b.Type().(arrow.DecimalType))))
	case *array.Decimal256Builder:
		b.Append(decimal256.FromBigInt(digits(b.Type().(arrow.DecimalType))))
	default: // an integer: the text of one
		width := b.Type().(arrow.FixedWidthDataType).BitWidth()
		v := fmt.Sprint(r.Uint64() >> (64 - width))
		if arrow.IsSignedInteger(b.Type().ID()) {
			v = fmt.Sprint(int64(r.Uint64()) >> (64 - width))
		}
		if err := b.AppendValueFromString(v); err != nil {
			panic(err)
		}
	}
}

// randomColumn is rows of a field's type, the extremes of integers first.
func randomColumn(r *rand.Rand, f arrow.Field, rows int) arrow.Array {
	b := array.NewBuilder(memory.DefaultAllocator, f.Type)
	defer b.Release()
	bits := map[arrow.Type]bool{arrow.TIMESTAMP: true, arrow.DURATION: true}[f.Type.ID()]
	for i := range rows {
		switch {
		case bits && i < 2:
			v := []int64{math.MinInt64, math.MaxInt64}[i]
			if t, ok := b.(*array.TimestampBuilder); ok {
				t.Append(arrow.Timestamp(v))
			} else {
				b.(*array.DurationBuilder).Append(arrow.Duration(v))
			}
		case r.IntN(6) == 0:
			b.AppendNull()
		default:
			appendAny(r, b, f)
		}
	}
	return b.NewArray()
}

// equal compares a column and what was read of it, by values and by text: NaN
// is no number's equal, and -0 is 0's.
func equal(t *testing.T, what string, f arrow.Field, want, got arrow.Array) {
	t.Helper()
	if want.Len() != got.Len() {
		t.Fatalf("%s: got %d rows, want %d", what, got.Len(), want.Len())
	}
	for i := range want.Len() {
		w, g := string(AppendFieldJSON(nil, f, want, i)), string(AppendFieldJSON(nil, f, got, i))
		if w != g || !strings.Contains(w, "NaN") && !array.SliceEqual(want, int64(i), int64(i+1), got, int64(i), int64(i+1)) {
			t.Fatalf("%s, row %d: got %s, want %s", what, i, g, w)
		}
	}
}

// What is written is read again as the same value, for every type and in every
// format of text, and once more where a value is JSON in JSON.
func TestValues_roundTrip(t *testing.T) {
	r := seed.Rand(t)
	for _, f := range everyField(t) {
		column := randomColumn(r, f, 200)
		batch := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{f}, nil), []arrow.Array{column}, int64(column.Len()))
		rows := []byte{'['}
		for i := range column.Len() {
			if i > 0 {
				rows = append(rows, ',')
			}
			rows = append(AppendFieldJSON(append(rows, '['), f, column, i), ']')
		}
		sources := map[string]Source{}
		var err error
		if sources["json"], err = NewJSONRows(bytes.NewReader(append(rows, ']')), []arrow.Field{f}, Options{}); err != nil {
			t.Fatal(f, err)
		}
		for _, format := range []Format{FormatJSONL, FormatCSV} {
			var file bytes.Buffer
			w, err := NewWriter(&file, format, false, batch.Schema(), nil)
			if err != nil {
				t.Fatal(f, err)
			}
			if err := w.Write(&Rows{Args: batch, Input: batch}, nil); err != nil {
				t.Fatal(f, err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(f, err)
			}
			if sources[string(format)], err = Open(&file, format, []arrow.Field{f}, Options{}); err != nil {
				t.Fatal(f, err)
			}
		}
		for name, source := range sources {
			got, err := source.Next(1000)
			if err != nil {
				t.Errorf("%s as %s: %v", f, name, err)
				continue
			}
			equal(t, fmt.Sprintf("%s as %s", f, name), f, column, got.Args.Column(0))
		}
	}
}
