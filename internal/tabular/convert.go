package tabular

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/udfgate/udfgate/internal/arrowtype"
)

// place is where in a file columns come from, for errors.
type place struct {
	row   int64 // of the first value
	pick  []int // of each field, its column in the file
	names []string
}

func (p place) cell(field, i int, err error) error {
	column := p.pick[field]
	return &CellError{Where: fmt.Sprintf("row %d", p.row+int64(i)), Column: columnAt(column+1, p.names[column]), Err: err}
}

// convertible is an error if a column that feeds a field has a type whose
// values the field's cannot hold.
func convertible(fields, columns []arrow.Field, pick []int) error {
	for i, column := range pick {
		if have := columns[column]; !fits(fields[i].Type, have.Type) {
			return fmt.Errorf("%s: wanted %s, got %s", columnAt(column+1, have.Name), arrowtype.Name(fields[i]), arrowtype.Name(have))
		}
	}
	return nil
}

// fits is true if every value of the type have may be one of want: integers
// of any width, shorter floats, text, bytes and lists in whatever form they
// lie, and what is nested if that is so of all that is in it. Names of members do not
// count: columns are taken by position. Whether an integer is within the range
// is seen when it is there.
func fits(want, have arrow.DataType) bool {
	if arrow.TypeEqual(want, have) {
		return canonical(want)
	}
	if e, ok := want.(arrow.ExtensionType); ok {
		return fits(e.StorageType(), have)
	}
	switch t := have.(type) {
	case arrow.ExtensionType:
		return fits(want, t.StorageType())
	case *arrow.DictionaryType:
		return fits(want, t.ValueType)
	case *arrow.RunEndEncodedType:
		return fits(want, t.Encoded())
	case *arrow.NullType:
		return canonical(want)
	}
	if arrow.IsNested(want.ID()) {
		return fitsNested(want, have)
	}
	f := family(want.ID())
	if f == 0 || f != family(have.ID()) {
		return false
	}
	return f != arrow.FLOAT64 || bitWidth(want) > bitWidth(have)
}

func bitWidth(t arrow.DataType) int {
	if f, ok := t.(arrow.FixedWidthDataType); ok {
		return f.BitWidth()
	}
	return 0
}

// family is the type that stands for all that hold the same sort of values,
// 0 if a type is the only one of its sort.
func family(t arrow.Type) arrow.Type {
	switch t {
	case arrow.STRING, arrow.LARGE_STRING, arrow.STRING_VIEW:
		return arrow.STRING
	case arrow.BINARY, arrow.LARGE_BINARY, arrow.BINARY_VIEW:
		return arrow.BINARY
	case arrow.FLOAT16, arrow.FLOAT32, arrow.FLOAT64:
		return arrow.FLOAT64
	case arrow.LIST, arrow.LARGE_LIST, arrow.LIST_VIEW, arrow.LARGE_LIST_VIEW:
		return arrow.LIST
	case arrow.FIXED_SIZE_LIST, arrow.STRUCT, arrow.MAP:
		return t
	}
	if arrow.IsInteger(t) {
		return arrow.INT64
	}
	return 0
}

// fitsNested compares what has others below it.
func fitsNested(want, have arrow.DataType) bool {
	f := family(want.ID())
	if f == 0 || f != family(have.ID()) {
		return false
	}
	if fixedSize(want) != fixedSize(have) {
		return false
	}
	wanted, had := inner(want), inner(have)
	if len(wanted) != len(had) {
		return false
	}
	for i := range wanted {
		if !fits(wanted[i].Type, had[i].Type) {
			return false
		}
	}
	return true
}

// fixedSize is how many items each list of a type has, 0 if that is not fixed.
func fixedSize(t arrow.DataType) int {
	if f, ok := t.(*arrow.FixedSizeListType); ok {
		return int(f.Len())
	}
	return 0
}

// inner is what is below a type: items, members, or key and value.
func inner(t arrow.DataType) []arrow.Field {
	switch t := t.(type) {
	case *arrow.MapType:
		return []arrow.Field{t.KeyField(), t.ItemField()}
	case arrow.NestedType:
		return t.Fields()
	}
	return nil
}

// converted makes n rows of the fields' types from columns that fit them.
func converted(fields []arrow.Field, columns []arrow.Array, n int64, at place) (*Rows, error) {
	out := make([]arrow.Array, len(columns))
	defer func() {
		for _, c := range out {
			if c != nil {
				c.Release()
			}
		}
	}()
	for i, column := range columns {
		c, bad, err := convert(fields[i].Type, column)
		if err != nil {
			return nil, at.cell(i, bad, err)
		}
		out[i] = c
	}
	return &Rows{Args: array.NewRecordBatch(argsSchema(fields), out, n)}, nil
}

// convert is the column as values of type want, or the index of the value that
// is none. What is nested is always made anew: only what can be seen of it is
// then looked at, however much lies below a slice of rows.
func convert(want arrow.DataType, a arrow.Array) (out arrow.Array, bad int, err error) {
	if !arrow.TypeEqual(want, a.DataType()) || arrow.IsNested(bare(want).ID()) {
		rows := make([]int, a.Len())
		for i := range rows {
			rows[i] = i
		}
		return gather(want, a, rows)
	}
	if err := sound(bareArray(a)); err != nil {
		return nil, 0, err
	}
	if bad, err := validText(bareArray(a)); err != nil {
		return nil, bad, err
	}
	a.Retain()
	return a, 0, nil
}

// bare is a type without an extension over it.
func bare(t arrow.DataType) arrow.DataType {
	if e, ok := t.(arrow.ExtensionType); ok {
		return bare(e.StorageType())
	}
	return t
}

func bareArray(a arrow.Array) arrow.Array {
	if e, ok := a.(array.ExtensionArray); ok {
		return bareArray(e.Storage())
	}
	return a
}

// each appends the values at the rows to b, by add, null for a row below 0.
func each(values arrow.Array, rows []int, b array.Builder, add func(i int) error) (arrow.Array, int, error) {
	if err := sound(values); err != nil {
		return nil, 0, err
	}
	b.Reserve(len(rows))
	for i, row := range rows {
		if row < 0 {
			b.AppendNull()
			continue
		}
		if err := add(row); err != nil {
			return nil, i, err
		}
	}
	return b.NewArray(), 0, nil
}

// texts makes text, in offsets of either size.
func texts(b array.StringLikeBuilder, values arrow.Array, rows []int) (arrow.Array, int, error) {
	v, _ := values.(interface{ Value(i int) string })
	return each(values, rows, b, func(i int) error {
		text := v.Value(i)
		if !utf8.ValidString(text) {
			return notUTF8(text)
		}
		b.Append(text)
		return nil
	})
}

func notUTF8(text string) error {
	return fmt.Errorf("wanted utf8, got bytes that are not UTF-8: %s", quote(text))
}

func floats(values arrow.Array) func(i int) float64 {
	switch v := values.(type) {
	case *array.Float16:
		return func(i int) float64 { return halfFloat(v.Value(i)) }
	case *array.Float32:
		return func(i int) float64 { return float64(v.Value(i)) }
	case *array.Float64:
		return v.Value
	}
	return nil // all are null
}

// integers goes from one width to another.
func integers(b array.Builder, values arrow.Array, rows []int) (arrow.Array, int, error) {
	add, err := adder(b)
	if err != nil {
		return nil, 0, err
	}
	value := integer(values)
	return each(values, rows, b, func(i int) error {
		negative, v := value(i)
		if !add(negative, v) {
			if negative {
				return fmt.Errorf("wanted %s, got %d, which is out of its range", b.Type(), int64(v))
			}
			return fmt.Errorf("wanted %s, got %d, which is out of its range", b.Type(), v)
		}
		return nil
	})
}

// integer reads integers of all types: as 64 bits, in two's complement if the
// value is negative.
func integer(values arrow.Array) func(i int) (negative bool, v uint64) {
	signed := func(v int64) (bool, uint64) { return v < 0, uint64(v) }
	switch a := values.(type) {
	case *array.Int8:
		return func(i int) (bool, uint64) { return signed(int64(a.Value(i))) }
	case *array.Int16:
		return func(i int) (bool, uint64) { return signed(int64(a.Value(i))) }
	case *array.Int32:
		return func(i int) (bool, uint64) { return signed(int64(a.Value(i))) }
	case *array.Int64:
		return func(i int) (bool, uint64) { return signed(a.Value(i)) }
	case *array.Uint8:
		return func(i int) (bool, uint64) { return false, uint64(a.Value(i)) }
	case *array.Uint16:
		return func(i int) (bool, uint64) { return false, uint64(a.Value(i)) }
	case *array.Uint32:
		return func(i int) (bool, uint64) { return false, uint64(a.Value(i)) }
	case *array.Uint64:
		return func(i int) (bool, uint64) { return false, a.Value(i) }
	}
	return nil // all are null
}

// adder appends an integer to b unless it is out of the type's range.
func adder(b array.Builder) (func(negative bool, v uint64) bool, error) {
	switch b := b.(type) {
	case *array.Int8Builder:
		return narrow(b.Append), nil
	case *array.Int16Builder:
		return narrow(b.Append), nil
	case *array.Int32Builder:
		return narrow(b.Append), nil
	case *array.Int64Builder:
		return narrow(b.Append), nil
	case *array.Uint8Builder:
		return narrow(b.Append), nil
	case *array.Uint16Builder:
		return narrow(b.Append), nil
	case *array.Uint32Builder:
		return narrow(b.Append), nil
	case *array.Uint64Builder:
		return narrow(b.Append), nil
	}
	return nil, fmt.Errorf("wanted %s, which no column is converted to yet", nameOf(b.Type()))
}

func narrow[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](add func(T)) func(bool, uint64) bool {
	return func(negative bool, v uint64) bool {
		t := T(v)
		if (t < 0) != negative || uint64(t) != v {
			return false
		}
		add(t)
		return true
	}
}

// sound is an error if an array's buffers are not what its length says: a
// file's bytes are not to be believed.
func sound(a arrow.Array) error {
	data := a.Data()
	if bits := data.Buffers(); len(bits) > 0 && bits[0] != nil && bits[0].Len()*8 < data.Offset()+data.Len() {
		return errors.New("the file is damaged: it has nulls for fewer rows than there are")
	}
	if v, ok := a.(interface{ ValidateFull() error }); ok {
		if err := v.ValidateFull(); err != nil {
			return fmt.Errorf("the file is damaged: %w", err)
		}
	}
	return nil
}

// validText finds text that is not UTF-8.
func validText(a arrow.Array) (bad int, err error) {
	s, ok := a.(interface{ Value(i int) string })
	if !ok {
		return 0, nil
	}
	for i := range a.Len() {
		if !a.IsNull(i) && !utf8.ValidString(s.Value(i)) {
			return i, notUTF8(s.Value(i))
		}
	}
	return 0, nil
}
