package arrowtype

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/udfgate/udfgate"
)

func TestName(t *testing.T) {
	i64, text := arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String
	member := func(name string, t arrow.DataType) arrow.Field {
		return arrow.Field{Name: name, Type: t, Nullable: true}
	}
	for want, dt := range map[string]arrow.DataType{
		"int64": i64, "utf8": text, "large_utf8": arrow.BinaryTypes.LargeString, "binary_view": arrow.BinaryTypes.BinaryView,
		"null": arrow.Null, "float16": arrow.FixedWidthTypes.Float16, "date64": arrow.FixedWidthTypes.Date64,
		"time32[ms]": arrow.FixedWidthTypes.Time32ms, "time64[ns]": arrow.FixedWidthTypes.Time64ns,
		"timestamp[us]": &arrow.TimestampType{Unit: arrow.Microsecond}, "timestamp[s, UTC]": arrow.FixedWidthTypes.Timestamp_s,
		"duration[us]": arrow.FixedWidthTypes.Duration_us, "month_interval": arrow.FixedWidthTypes.MonthInterval,
		"day_time_interval": arrow.FixedWidthTypes.DayTimeInterval, "month_day_nano_interval": arrow.FixedWidthTypes.MonthDayNanoInterval,
		"decimal32(9, 2)": &arrow.Decimal32Type{Precision: 9, Scale: 2}, "decimal64(18, 0)": &arrow.Decimal64Type{Precision: 18},
		"decimal128(10, -2)": &arrow.Decimal128Type{Precision: 10, Scale: -2}, "decimal256(76, 38)": &arrow.Decimal256Type{Precision: 76, Scale: 38},
		"fixed_size_binary[3]":                    &arrow.FixedSizeBinaryType{ByteWidth: 3},
		"fixed_size_binary[16] as arrow.uuid":     extensions.NewUUIDType(),
		"list<list<int64 not null>>":              arrow.ListOf(arrow.ListOfNonNullable(i64)),
		"large_list<utf8>":                        arrow.LargeListOf(text),
		"list_view<utf8>":                         arrow.ListViewOf(text),
		"large_list_view<utf8>":                   arrow.LargeListViewOf(text),
		"fixed_size_list<int64>[2]":               arrow.FixedSizeListOf(2, i64),
		"struct<a int64, b utf8>":                 arrow.StructOf(member("a", i64), member("b", text)),
		"struct<int64, utf8 not null>":            arrow.StructOf(member("", i64), arrow.Field{Type: text}),
		"map<int64, utf8 not null>":               arrow.MapOfFields(arrow.Field{Name: "key", Type: i64}, arrow.Field{Name: "value", Type: text}),
		"struct<>":                                arrow.StructOf(),
		"map<utf8, list<int64>>":                  arrow.MapOf(text, arrow.ListOf(i64)),
		"dictionary<int8, utf8>":                  &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: text},
		"run_end_encoded<int32, utf8>":            arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, text),
		"sparse_union<a: type=int64, nullable=0>": arrow.SparseUnionOf([]arrow.Field{member("a", i64)}, []arrow.UnionTypeCode{0}), // arrow-go's own
	} {
		if got := Name(member("x", dt)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	f := arrow.Field{Type: text, Metadata: arrow.NewMetadata([]string{udfgate.ExtensionKey}, []string{udfgate.ExtensionUDFJSON})}
	if got := Name(f); got != "utf8 as arrowudf.json" {
		t.Errorf("got %s", got)
	}
}
