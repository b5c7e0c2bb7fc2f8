package codec

import (
	"fmt"
	"strings"

	"github.com/udfgate/udfgate"
)

// Members of Arrow's union Type that have parameters or are built.
const (
	typeNull          = 1
	typeInt           = 2
	typeFloatingPoint = 3
	typeBinary        = 4
	typeUtf8          = 5
	typeBool          = 6
	typeDecimal       = 7
	typeDate          = 8
	typeTime          = 9
	typeTimestamp     = 10
	typeDuration      = 18
)

// arrowTypes names the members of the union Type, as messages show them.
var arrowTypes = [...]string{
	"none", "null", "int", "float", "binary", "utf8", "bool", "decimal", "date", "time", "timestamp", "interval",
	"list", "struct", "union", "fixed_size_binary", "fixed_size_list", "map", "duration", "large_binary",
	"large_utf8", "large_list", "run_end_encoded", "binary_view", "utf8_view", "list_view", "large_list_view",
}

// timeUnits are Arrow's TimeUnit as type names show them.
var timeUnits = [...]string{"s", "ms", "us", "ns"}

// builtTypes lists the types that a column can have.
func builtTypes() string {
	var names []string
	for k := udfgate.Bool; k <= udfgate.Binary; k++ {
		names = append(names, k.String())
	}
	return strings.Join(names, ", ")
}

// describe returns the kind of a type, or KindInvalid and its name if it is
// not built; fault says why its parameters make no type at all.
func (s *schemaReader) describe(number uint8, t fbTable) (kind udfgate.Kind, name, fault string) {
	switch number {
	case typeBool:
		return udfgate.Bool, "", ""
	case typeUtf8:
		return udfgate.Utf8, "", ""
	case typeBinary:
		return udfgate.Binary, "", ""
	case typeInt:
		return intKind(s.int32(t, 0, "Int.bitWidth"), s.uint8(t, 1, "Int.is_signed") != 0)
	case typeFloatingPoint:
		switch precision := s.int16(t, 0, "FloatingPoint.precision"); precision {
		case 0:
			return udfgate.KindInvalid, "float16", ""
		case 1:
			return udfgate.Float32, "", ""
		case 2:
			return udfgate.Float64, "", ""
		default:
			return udfgate.KindInvalid, "", fmt.Sprintf("float of precision %d, wanted 0, 1 or 2", precision)
		}
	default:
		return udfgate.KindInvalid, s.unbuiltName(number, t), ""
	}
}

// intKind is the kind of an Int of so many bits.
func intKind(bits int32, signed bool) (kind udfgate.Kind, name, fault string) {
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
		return udfgate.KindInvalid, "", fmt.Sprintf("int of %d bits, wanted 8, 16, 32 or 64", bits)
	}
	if signed {
		kind -= udfgate.Uint8 - udfgate.Int8
	}
	return kind, "", ""
}

// unionMember is the inverse of describe: the member of the union Type and the
// fields of its table.
func unionMember(k udfgate.Kind) (number uint8, parameters []fbField) {
	switch k {
	case udfgate.Bool:
		return typeBool, nil
	case udfgate.Utf8:
		return typeUtf8, nil
	case udfgate.Binary:
		return typeBinary, nil
	case udfgate.Float32:
		return typeFloatingPoint, []fbField{{width: 2, value: 1}}
	case udfgate.Float64:
		return typeFloatingPoint, []fbField{{width: 2, value: 2}}
	case udfgate.Int8, udfgate.Int16, udfgate.Int32, udfgate.Int64:
		return typeInt, []fbField{{width: 4, value: uint64(8 * k.Width())}, {width: 1, value: 1}}
	case udfgate.Uint8, udfgate.Uint16, udfgate.Uint32, udfgate.Uint64:
		return typeInt, []fbField{{width: 4, value: uint64(8 * k.Width())}, {width: 1}}
	default:
		return typeNull, nil
	}
}

// unbuiltName names a type that is not built with the parameters that tell it
// from its siblings. Defaults are those of Arrow's schema definition.
func (s *schemaReader) unbuiltName(number uint8, t fbTable) string {
	name := arrowTypes[number]
	switch number {
	case typeDate:
		if s.slot(t, 0, 2, "Date.unit") != 0 && s.int16(t, 0, "Date.unit") == 0 {
			return "date32"
		}
		return "date64"
	case typeTime:
		bits := int32(32)
		if s.slot(t, 1, 4, "Time.bitWidth") != 0 {
			bits = s.int32(t, 1, "Time.bitWidth")
		}
		return fmt.Sprintf("time%d[%s]", bits, s.timeUnit(t, 1, "Time.unit"))
	case typeTimestamp:
		unit := s.timeUnit(t, 0, "Timestamp.unit")
		if zone := s.string(t, 1, "Timestamp.timezone"); zone != "" {
			return fmt.Sprintf("timestamp[%s, tz=%s]", unit, quoted(zone))
		}
		return fmt.Sprintf("timestamp[%s]", unit)
	case typeDuration:
		return fmt.Sprintf("duration[%s]", s.timeUnit(t, 1, "Duration.unit"))
	case typeDecimal:
		bits := int32(128)
		if s.slot(t, 2, 4, "Decimal.bitWidth") != 0 {
			bits = s.int32(t, 2, "Decimal.bitWidth")
		}
		return fmt.Sprintf("decimal%d(%d, %d)", bits, s.int32(t, 0, "Decimal.precision"), s.int32(t, 1, "Decimal.scale"))
	default:
		return name
	}
}

// timeUnit names the unit in field 0; missing stands for what the definition says.
func (s *schemaReader) timeUnit(t fbTable, missing int16, name string) string {
	unit := missing
	if s.slot(t, 0, 2, name) != 0 {
		unit = s.int16(t, 0, name)
	}
	if unit < 0 || int(unit) >= len(timeUnits) {
		return fmt.Sprintf("unit %d", unit)
	}
	return timeUnits[unit]
}
