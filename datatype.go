package udfgate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Kind is the family of an Arrow type. The zero Kind is no type at all.
type Kind uint8

// The kinds. Those up to Map are canonical: they lie in slots and answers as
// they are. Those from Utf8View on only ever come in, and are normalised.
const (
	KindInvalid Kind = iota
	Bool
	Int8
	Int16
	Int32
	Int64
	Uint8
	Uint16
	Uint32
	Uint64
	Float32
	Float64
	Utf8
	Binary

	Null
	Float16
	Decimal32
	Decimal64
	Decimal128
	Decimal256
	Date32 // days since 1970-01-01
	Date64 // milliseconds since 1970-01-01, whole days
	Time32 // since midnight, in seconds or milliseconds
	Time64 // since midnight, in micro- or nanoseconds
	Timestamp
	Duration
	MonthInterval        // i32 months
	DayTimeInterval      // i32 days, i32 milliseconds
	MonthDayNanoInterval // i32 months, i32 days, i64 nanoseconds
	LargeUtf8
	LargeBinary
	FixedSizeBinary
	List
	LargeList
	FixedSizeList
	Struct
	Map

	Utf8View
	BinaryView
	ListView
	LargeListView
	Dictionary
	RunEndEncoded
)

var kindNames = [...]string{
	"invalid", "bool", "int8", "int16", "int32", "int64",
	"uint8", "uint16", "uint32", "uint64", "float32", "float64", "utf8", "binary",
	"null", "float16", "decimal32", "decimal64", "decimal128", "decimal256", "date32", "date64", "time32", "time64",
	"timestamp", "duration", "month_interval", "day_time_interval", "month_day_nano_interval", "large_utf8", "large_binary",
	"fixed_size_binary", "list", "large_list", "fixed_size_list", "struct", "map",
	"utf8_view", "binary_view", "list_view", "large_list_view", "dictionary", "run_end_encoded",
}

// String is the name used in every message, signature and LOAD frame.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// KindByName is the inverse of String; false for an unknown name.
func KindByName(name string) (Kind, bool) {
	k := slices.Index(kindNames[:], name)
	return Kind(max(k, 0)), k > 0
}

// Canonical reports whether columns of the kind lie in slots and answers.
func (k Kind) Canonical() bool { return k > KindInvalid && k <= Map }

// Width is the size of one value in bytes; 0 where values have no fixed size
// of whole bytes that the kind alone tells.
func (k Kind) Width() int {
	switch k {
	case Int8, Uint8:
		return 1
	case Int16, Uint16, Float16:
		return 2
	case Int32, Uint32, Float32, Decimal32, Date32, Time32, MonthInterval:
		return 4
	case Int64, Uint64, Float64, Decimal64, Date64, Time64, Timestamp, Duration, DayTimeInterval:
		return 8
	case Decimal128, MonthDayNanoInterval:
		return 16
	case Decimal256:
		return 32
	default:
		return 0
	}
}

// Variable reports whether values of the kind have an offsets buffer and a data
// buffer.
func (k Kind) Variable() bool {
	switch k {
	case Utf8, Binary, LargeUtf8, LargeBinary:
		return true
	default:
		return false
	}
}

// Text reports whether values of the kind are UTF-8.
func (k Kind) Text() bool { return k == Utf8 || k == LargeUtf8 || k == Utf8View }

// Decimal reports whether the kind has a precision and a scale.
func (k Kind) Decimal() bool { return k >= Decimal32 && k <= Decimal256 }

// DigitsMax is the most digits of a decimal kind; 0 of others.
func (k Kind) DigitsMax() int32 {
	switch k {
	case Decimal32:
		return 9
	case Decimal64:
		return 18
	case Decimal128:
		return 38
	case Decimal256:
		return 76
	default:
		return 0
	}
}

// Nested reports whether the kind has children.
func (k Kind) Nested() bool {
	return k >= List && k <= Map || k == ListView || k == LargeListView || k == RunEndEncoded
}

// Unit is the resolution of a time, timestamp or duration.
type Unit uint8

// The units, as Arrow numbers them.
const (
	Second Unit = iota
	Millisecond
	Microsecond
	Nanosecond
)

var unitNames = [...]string{"s", "ms", "us", "ns"}

// String is the unit as type names show it.
func (u Unit) String() string {
	if int(u) < len(unitNames) {
		return unitNames[u]
	}
	return fmt.Sprintf("unit(%d)", uint8(u))
}

// UnitByName is the inverse of String; false for an unknown name.
func UnitByName(name string) (Unit, bool) {
	u := slices.Index(unitNames[:], name)
	return Unit(max(u, 0)), u >= 0
}

// ExtensionKey is the field metadata that names an extension type.
const ExtensionKey = "ARROW:extension:name"

// Extensions that change what a body sees.
const (
	ExtensionUDFJSON    = "arrowudf.json"    // over utf8: parsed JSON
	ExtensionUDFDecimal = "arrowudf.decimal" // over utf8: a decimal as text
	ExtensionJSON       = "arrow.json"       // over utf8: parsed JSON
	ExtensionUUID       = "arrow.uuid"       // over fixed_size_binary[16]
	ExtensionVariant    = "Variant"          // over large_binary: parsed JSON, Databend's
)

// ExtensionVector is Databend's VECTOR: a fixed_size_list of float32, and so for
// a body.
const ExtensionVector = "Vector"

// View says in which of several Python forms a body takes a nested value.
type View uint8

// The views. Decorators of different packages promise different ones.
const (
	ViewDefault View = iota // a struct is a dict, a map a dict
	ViewTuple               // a struct is a tuple
	ViewPairs               // a map is a list of pairs
)

// Type is the type of a column. Fields that its Kind has no use for are zero.
type Type struct {
	Kind      Kind
	Unit      Unit    // of times, timestamps and durations
	Zone      string  // of timestamps; empty means wall clock
	Precision int32   // of decimals, digits
	Scale     int32   // of decimals, digits after the point
	Size      int32   // bytes of fixed_size_binary, items of fixed_size_list
	ID        int64   // of a dictionary, which names it on the wire; no part of what the type is
	Extension string  // name of the extension type over this one, if it has one
	View      View    // how a body takes it; no part of what the type is
	Children  []Field // item; members; a map's entries, a struct of key and value; run ends and values; a dictionary's indices and values
}

// Equal reports whether two types hold the same values in the same layout. The
// names and metadata of items and entries, and nullability, do not count; the
// names of a struct's members do not either: engines send their own.
func (t Type) Equal(o Type) bool {
	if t.Kind != o.Kind || t.Unit != o.Unit || !SameZone(t.Zone, o.Zone) || t.Precision != o.Precision ||
		t.Scale != o.Scale || t.Size != o.Size || len(t.Children) != len(o.Children) {
		return false
	}
	for i := range t.Children {
		if !t.Children[i].Type.Equal(o.Children[i].Type) {
			return false
		}
	}
	return true
}

// SameZone reports whether two zones are one: the spellings of UTC are.
func SameZone(a, b string) bool { return a == b || isUTC(a) && isUTC(b) }

func isUTC(zone string) bool {
	switch zone {
	case "UTC", "Etc/UTC", "Z", "+00:00", "-00:00":
		return true
	default:
		return false
	}
}

// String is the type as messages and signatures show it: int64,
// decimal128(10, 2), timestamp[us, UTC], list<int64>, struct<a int64, b utf8>.
// What is inside of a type is nullable unless it says "not null", as where types
// are declared.
func (t Type) String() string {
	var b strings.Builder
	t.write(&b, 0)
	return b.String()
}

// Bounds of a type's name: types come from callers, and messages are short.
const (
	typeNameDepthMax   = 6
	typeNameMembersMax = 16
	typeNameBytesMax   = 1024 // and what is begun by then
	typeNameTextMax    = 64   // of a member's name, a zone, an extension
)

// typeNameText is text of the sender's, never longer than a line.
func typeNameText(text string) string {
	if len(text) > typeNameTextMax {
		text = strings.ToValidUTF8(text[:typeNameTextMax], "") + "…"
	}
	return text
}

func (t Type) write(b *strings.Builder, depth int) {
	name := t.Kind.String()
	switch {
	case depth > typeNameDepthMax, b.Len() > typeNameBytesMax:
		b.WriteString("…")
		return
	case t.Kind.Decimal():
		fmt.Fprintf(b, "%s(%d, %d)", name, t.Precision, t.Scale)
	case t.Kind == Timestamp && t.Zone != "":
		fmt.Fprintf(b, "%s[%s, %s]", name, t.Unit, typeNameText(t.Zone))
	case t.Kind == Time32, t.Kind == Time64, t.Kind == Timestamp, t.Kind == Duration:
		fmt.Fprintf(b, "%s[%s]", name, t.Unit)
	case t.Kind == FixedSizeBinary:
		b.WriteString(name + "[" + strconv.Itoa(int(t.Size)) + "]")
	default:
		b.WriteString(name)
		t.writeChildren(b, depth)
		if t.Kind == FixedSizeList {
			b.WriteString("[" + strconv.Itoa(int(t.Size)) + "]")
		}
	}
	if t.Extension != "" && depth == 0 {
		b.WriteString(" as " + typeNameText(t.Extension))
	}
}

// saysNullable is whether a child may or may not be null: keys, indices and runs
// are never.
func (t Type) saysNullable(child int) bool {
	switch t.Kind {
	case Map:
		return child == 1
	case Dictionary, RunEndEncoded:
		return false
	}
	return true
}

func (t Type) writeChildren(b *strings.Builder, depth int) {
	members := t.Children
	if t.Kind == Map && len(members) == 1 {
		members = members[0].Type.Children
	}
	if len(members) == 0 && t.Kind != Struct {
		return
	}
	b.WriteByte('<')
	for i := range members {
		if i > 0 {
			b.WriteString(", ")
		}
		if i == typeNameMembersMax || b.Len() > typeNameBytesMax {
			b.WriteString("…")
			break
		}
		if t.Kind == Struct && members[i].Name != "" {
			b.WriteString(typeNameText(members[i].Name) + " ")
		}
		members[i].Type.write(b, depth+1)
		if !members[i].Nullable && t.saysNullable(i) {
			b.WriteString(" not null")
		}
	}
	b.WriteByte('>')
}
