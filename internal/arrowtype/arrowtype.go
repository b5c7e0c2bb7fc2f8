// Package arrowtype tells arrow-go's types in the vocabulary of the gateway, so
// that a type has one name in every signature and message, whoever writes it.
package arrowtype

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/udfgate/udfgate"
)

// Field is f in the gateway's words. An extension type, which arrow-go knows or
// knows not, is its storage with the extension's name.
func Field(f arrow.Field) udfgate.Field {
	typ := Of(f.Type)
	if name, ok := f.Metadata.GetValue(udfgate.ExtensionKey); ok && typ.Extension == "" {
		typ.Extension = name
	}
	return udfgate.Field{Name: f.Name, Type: typ, Nullable: f.Nullable}
}

// Name is the name of a column's type, as udfgate.Type writes it. Types that no
// column of a gateway has, such as unions, keep arrow-go's name.
func Name(f arrow.Field) string {
	if field := Field(f); field.Type.Kind != udfgate.KindInvalid {
		return field.Type.String()
	}
	return f.Type.String()
}

// plain are the types without parameters, by arrow-go's number.
var plain = map[arrow.Type]udfgate.Kind{
	arrow.NULL: udfgate.Null, arrow.BOOL: udfgate.Bool,
	arrow.INT8: udfgate.Int8, arrow.INT16: udfgate.Int16, arrow.INT32: udfgate.Int32, arrow.INT64: udfgate.Int64,
	arrow.UINT8: udfgate.Uint8, arrow.UINT16: udfgate.Uint16, arrow.UINT32: udfgate.Uint32, arrow.UINT64: udfgate.Uint64,
	arrow.FLOAT16: udfgate.Float16, arrow.FLOAT32: udfgate.Float32, arrow.FLOAT64: udfgate.Float64,
	arrow.STRING: udfgate.Utf8, arrow.LARGE_STRING: udfgate.LargeUtf8, arrow.STRING_VIEW: udfgate.Utf8View,
	arrow.BINARY: udfgate.Binary, arrow.LARGE_BINARY: udfgate.LargeBinary, arrow.BINARY_VIEW: udfgate.BinaryView,
	arrow.DATE32: udfgate.Date32, arrow.DATE64: udfgate.Date64,
	arrow.INTERVAL_MONTHS: udfgate.MonthInterval, arrow.INTERVAL_DAY_TIME: udfgate.DayTimeInterval,
	arrow.INTERVAL_MONTH_DAY_NANO: udfgate.MonthDayNanoInterval,
	arrow.DECIMAL32:               udfgate.Decimal32, arrow.DECIMAL64: udfgate.Decimal64,
	arrow.DECIMAL128: udfgate.Decimal128, arrow.DECIMAL256: udfgate.Decimal256,
}

// units are arrow-go's, which counts from seconds too.
var units = map[arrow.TimeUnit]udfgate.Unit{
	arrow.Second: udfgate.Second, arrow.Millisecond: udfgate.Millisecond,
	arrow.Microsecond: udfgate.Microsecond, arrow.Nanosecond: udfgate.Nanosecond,
}

// Of is t in the gateway's words, of KindInvalid if those have none for it.
func Of(t arrow.DataType) udfgate.Type {
	switch t := t.(type) {
	case arrow.ExtensionType:
		typ := Of(t.StorageType())
		typ.Extension = t.ExtensionName()
		return typ
	case arrow.DecimalType:
		return udfgate.Type{Kind: plain[t.ID()], Precision: t.GetPrecision(), Scale: t.GetScale()}
	case *arrow.Time32Type:
		return udfgate.Type{Kind: udfgate.Time32, Unit: units[t.Unit]}
	case *arrow.Time64Type:
		return udfgate.Type{Kind: udfgate.Time64, Unit: units[t.Unit]}
	case *arrow.TimestampType:
		return udfgate.Type{Kind: udfgate.Timestamp, Unit: units[t.Unit], Zone: t.TimeZone}
	case *arrow.DurationType:
		return udfgate.Type{Kind: udfgate.Duration, Unit: units[t.Unit]}
	case *arrow.FixedSizeBinaryType:
		return udfgate.Type{Kind: udfgate.FixedSizeBinary, Size: int32(t.ByteWidth)}
	}
	return nested(t)
}

func nested(t arrow.DataType) udfgate.Type {
	switch t := t.(type) {
	case *arrow.ListType:
		return over(udfgate.List, t.ElemField())
	case *arrow.LargeListType:
		return over(udfgate.LargeList, t.ElemField())
	case *arrow.ListViewType:
		return over(udfgate.ListView, t.ElemField())
	case *arrow.LargeListViewType:
		return over(udfgate.LargeListView, t.ElemField())
	case *arrow.FixedSizeListType:
		typ := over(udfgate.FixedSizeList, t.ElemField())
		typ.Size = t.Len()
		return typ
	case *arrow.StructType:
		return over(udfgate.Struct, t.Fields()...)
	case *arrow.MapType:
		entries := over(udfgate.Struct, t.KeyField(), t.ItemField())
		return udfgate.Type{Kind: udfgate.Map, Children: []udfgate.Field{{Name: "entries", Type: entries}}}
	case *arrow.DictionaryType:
		return over(udfgate.Dictionary, arrow.Field{Name: "indices", Type: t.IndexType}, arrow.Field{Name: "values", Type: t.ValueType})
	case *arrow.RunEndEncodedType:
		return over(udfgate.RunEndEncoded, arrow.Field{Name: "run_ends", Type: t.RunEnds()}, arrow.Field{Name: "values", Type: t.Encoded()})
	}
	return udfgate.Type{Kind: plain[t.ID()]}
}

func over(k udfgate.Kind, children ...arrow.Field) udfgate.Type {
	typ := udfgate.Type{Kind: k}
	for _, c := range children {
		typ.Children = append(typ.Children, Field(c))
	}
	return typ
}
