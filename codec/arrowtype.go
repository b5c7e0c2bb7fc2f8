package codec

import (
	"fmt"

	"github.com/udfgate/udfgate"
)

// Members of Arrow's union Type.
const (
	typeNull            = 1
	typeInt             = 2
	typeFloatingPoint   = 3
	typeBinary          = 4
	typeUtf8            = 5
	typeBool            = 6
	typeDecimal         = 7
	typeDate            = 8
	typeTime            = 9
	typeTimestamp       = 10
	typeInterval        = 11
	typeList            = 12
	typeStruct          = 13
	typeUnion           = 14
	typeFixedSizeBinary = 15
	typeFixedSizeList   = 16
	typeMap             = 17
	typeDuration        = 18
	typeLargeBinary     = 19
	typeLargeUtf8       = 20
	typeLargeList       = 21
	typeRunEndEncoded   = 22
	typeBinaryView      = 23
	typeUtf8View        = 24
	typeListView        = 25
	typeLargeListView   = 26
	typesEnd            = 27
)

// plainTypes are the members without parameters.
var plainTypes = [typesEnd]udfgate.Kind{
	typeNull: udfgate.Null, typeBinary: udfgate.Binary, typeUtf8: udfgate.Utf8, typeBool: udfgate.Bool,
	typeList: udfgate.List, typeStruct: udfgate.Struct, typeMap: udfgate.Map, typeLargeBinary: udfgate.LargeBinary,
	typeLargeUtf8: udfgate.LargeUtf8, typeLargeList: udfgate.LargeList, typeRunEndEncoded: udfgate.RunEndEncoded,
	typeBinaryView: udfgate.BinaryView, typeUtf8View: udfgate.Utf8View, typeListView: udfgate.ListView,
	typeLargeListView: udfgate.LargeListView,
}

// describe reads a type without its children; fault says why its parameters
// make no type at all.
func (s *schemaReader) describe(number uint8, t fbTable) (typ udfgate.Type, fault string) {
	if typ.Kind = plainTypes[number]; typ.Kind != udfgate.KindInvalid {
		return typ, ""
	}
	switch number {
	case typeInt:
		typ.Kind, fault = intKind(s.int32(t, 0, "Int.bitWidth"), s.uint8(t, 1, "Int.is_signed") != 0)
	case typeFloatingPoint:
		precision := s.int16(t, 0, "FloatingPoint.precision")
		kinds := [...]udfgate.Kind{udfgate.Float16, udfgate.Float32, udfgate.Float64}
		if precision < 0 || int(precision) >= len(kinds) {
			return typ, fmt.Sprintf("float of precision %d, wanted 0, 1 or 2", precision)
		}
		typ.Kind = kinds[precision]
	case typeDecimal:
		return s.decimal(t)
	case typeInterval:
		unit := s.int16(t, 0, "Interval.unit")
		if unit < 0 || unit > 2 {
			return typ, fmt.Sprintf("interval of unit %d, wanted 0, 1 or 2", unit)
		}
		typ.Kind = udfgate.MonthInterval + udfgate.Kind(unit)
	case typeFixedSizeBinary:
		typ.Kind, typ.Size = udfgate.FixedSizeBinary, s.int32(t, 0, "FixedSizeBinary.byteWidth")
	case typeFixedSizeList:
		typ.Kind, typ.Size = udfgate.FixedSizeList, s.int32(t, 0, "FixedSizeList.listSize")
	default:
		return s.temporal(number, t)
	}
	least := int32(0)
	if typ.Kind == udfgate.FixedSizeList {
		least = 1 // lists of no items are not taken: readers disagree on how long the column below is
	}
	if typ.Size < least {
		fault = fmt.Sprintf("%s of size %d, wanted at least %d", typ.Kind, typ.Size, least)
	}
	return typ, fault
}

// temporal reads a date, time, timestamp or duration. What a missing unit means
// differs from type to type in Arrow's definition.
func (s *schemaReader) temporal(number uint8, t fbTable) (typ udfgate.Type, fault string) {
	switch number {
	case typeDate:
		typ.Kind = udfgate.Date64
		if s.slot(t, 0, 2, "Date.unit") != 0 && s.int16(t, 0, "Date.unit") == 0 {
			typ.Kind = udfgate.Date32
		}
	case typeTime:
		return s.time(t)
	case typeTimestamp:
		typ.Kind, typ.Zone = udfgate.Timestamp, s.string(t, 1, "Timestamp.timezone")
		typ.Unit, fault = s.timeUnit(t, udfgate.Second, "Timestamp.unit")
	case typeDuration:
		typ.Kind = udfgate.Duration
		typ.Unit, fault = s.timeUnit(t, udfgate.Millisecond, "Duration.unit")
	}
	return typ, fault
}

func (s *schemaReader) time(t fbTable) (typ udfgate.Type, fault string) {
	bits := int32(32)
	if s.slot(t, 1, 4, "Time.bitWidth") != 0 {
		bits = s.int32(t, 1, "Time.bitWidth")
	}
	if typ.Unit, fault = s.timeUnit(t, udfgate.Millisecond, "Time.unit"); fault != "" {
		return typ, fault
	}
	switch {
	case bits == 32 && typ.Unit <= udfgate.Millisecond:
		typ.Kind = udfgate.Time32
	case bits == 64 && typ.Unit >= udfgate.Microsecond:
		typ.Kind = udfgate.Time64
	default:
		fault = fmt.Sprintf("time of %d bits in %s, wanted 32 in s or ms, or 64 in us or ns", bits, typ.Unit)
	}
	return typ, fault
}

// decimals are the decimal kinds by width in bits.
var decimals = map[int32]udfgate.Kind{32: udfgate.Decimal32, 64: udfgate.Decimal64, 128: udfgate.Decimal128, 256: udfgate.Decimal256}

func (s *schemaReader) decimal(t fbTable) (typ udfgate.Type, fault string) {
	bits := int32(128)
	if s.slot(t, 2, 4, "Decimal.bitWidth") != 0 {
		bits = s.int32(t, 2, "Decimal.bitWidth")
	}
	typ.Precision, typ.Scale = s.int32(t, 0, "Decimal.precision"), s.int32(t, 1, "Decimal.scale")
	kind, known := decimals[bits]
	digits := kind.DigitsMax()
	switch {
	case !known:
		return typ, fmt.Sprintf("decimal of %d bits, wanted 32, 64, 128 or 256", bits)
	case typ.Precision < 1 || typ.Precision > digits:
		return typ, fmt.Sprintf("decimal%d of %d digits, wanted 1 to %d", bits, typ.Precision, digits)
	case typ.Scale < -digits || typ.Scale > digits:
		return typ, fmt.Sprintf("decimal%d of scale %d, wanted %d to %d", bits, typ.Scale, -digits, digits)
	}
	typ.Kind = kind
	return typ, ""
}

// timeUnit reads the unit in field 0; missing stands for what the definition says.
func (s *schemaReader) timeUnit(t fbTable, missing udfgate.Unit, name string) (udfgate.Unit, string) {
	if s.slot(t, 0, 2, name) == 0 {
		return missing, ""
	}
	unit := s.int16(t, 0, name)
	if unit < 0 || unit > int16(udfgate.Nanosecond) {
		return 0, fmt.Sprintf("%s %d, wanted 0 to 3", name, unit)
	}
	return udfgate.Unit(unit), ""
}

// intKind is the kind of an Int of so many bits.
func intKind(bits int32, signed bool) (kind udfgate.Kind, fault string) {
	switch bits {
	case 8:
		kind = udfgate.Uint8
	case 16:
		kind = udfgate.Uint16
	case 32:
		kind = udfgate.Uint32
	case 64:
		kind = udfgate.Uint64
	default:
		return udfgate.KindInvalid, fmt.Sprintf("int of %d bits, wanted 8, 16, 32 or 64", bits)
	}
	if signed {
		kind -= udfgate.Uint8 - udfgate.Int8
	}
	return kind, ""
}

// childrenWanted is how many children a type has; -1: any number.
func childrenWanted(k udfgate.Kind) int {
	switch k {
	case udfgate.Struct:
		return -1
	case udfgate.RunEndEncoded:
		return 2
	case udfgate.List, udfgate.LargeList, udfgate.FixedSizeList, udfgate.Map, udfgate.ListView, udfgate.LargeListView:
		return 1
	default:
		return 0
	}
}

// unionMember is the inverse of describe: the member of the union Type and the
// fields of its table. A zone is not among them, since it is text: the writer
// patches field 1.
func unionMember(t *udfgate.Type) (number uint8, parameters []fbField) {
	short := func(v uint64) fbField { return fbField{width: 2, value: v} }
	long := func(v int32) fbField { return fbField{width: 4, value: uint64(uint32(v))} }
	for number, k := range plainTypes {
		if k == t.Kind && k != udfgate.KindInvalid {
			return uint8(number), nil
		}
	}
	switch k := t.Kind; k {
	case udfgate.Float16, udfgate.Float32, udfgate.Float64:
		precision := map[udfgate.Kind]uint64{udfgate.Float16: 0, udfgate.Float32: 1, udfgate.Float64: 2}[k]
		return typeFloatingPoint, []fbField{short(precision)}
	case udfgate.Int8, udfgate.Int16, udfgate.Int32, udfgate.Int64:
		return typeInt, []fbField{long(8 * int32(k.Width())), {width: 1, value: 1}}
	case udfgate.Uint8, udfgate.Uint16, udfgate.Uint32, udfgate.Uint64:
		return typeInt, []fbField{long(8 * int32(k.Width())), {width: 1}}
	case udfgate.Decimal32, udfgate.Decimal64, udfgate.Decimal128, udfgate.Decimal256:
		return typeDecimal, []fbField{long(t.Precision), long(t.Scale), long(8 * int32(k.Width()))}
	case udfgate.Date32, udfgate.Date64:
		return typeDate, []fbField{short(uint64(k - udfgate.Date32))}
	case udfgate.Time32, udfgate.Time64:
		return typeTime, []fbField{short(uint64(t.Unit)), long(8 * int32(k.Width()))}
	case udfgate.Timestamp:
		return typeTimestamp, []fbField{short(uint64(t.Unit)), {width: 4 * min(1, len(t.Zone))}}
	case udfgate.Duration:
		return typeDuration, []fbField{short(uint64(t.Unit))}
	case udfgate.MonthInterval, udfgate.DayTimeInterval, udfgate.MonthDayNanoInterval:
		return typeInterval, []fbField{short(uint64(k - udfgate.MonthInterval))}
	case udfgate.FixedSizeBinary:
		return typeFixedSizeBinary, []fbField{long(t.Size)}
	case udfgate.FixedSizeList:
		return typeFixedSizeList, []fbField{long(t.Size)}
	default:
		return typeNull, nil
	}
}
