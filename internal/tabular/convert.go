package tabular

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
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
		if have := columns[column].Type; !fits(fields[i].Type, have) {
			return fmt.Errorf("%s: wanted %s, got %s", columnAt(column+1, columns[column].Name), fields[i].Type, have)
		}
	}
	return nil
}

// fits is true if every value of the type have may be one of want: integers
// of any width, the shorter float, and text and bytes in whatever form they
// lie. Whether an integer is within the range is seen when it is there.
func fits(want, have arrow.DataType) bool {
	if arrow.TypeEqual(want, have) {
		return true
	}
	switch t := have.(type) {
	case arrow.ExtensionType:
		return fits(want, t.StorageType())
	case *arrow.DictionaryType:
		return fits(want, t.ValueType)
	case *arrow.RunEndEncodedType:
		return fits(want, t.Encoded())
	case *arrow.NullType:
		return supported(want)
	}
	switch want.ID() {
	case arrow.STRING:
		return have.ID() == arrow.LARGE_STRING || have.ID() == arrow.STRING_VIEW
	case arrow.BINARY:
		return have.ID() == arrow.LARGE_BINARY || have.ID() == arrow.BINARY_VIEW
	case arrow.FLOAT64:
		return have.ID() == arrow.FLOAT32
	}
	return arrow.IsInteger(want.ID()) && arrow.IsInteger(have.ID())
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
// is none.
func convert(want arrow.DataType, a arrow.Array) (out arrow.Array, bad int, err error) {
	if e, ok := a.(array.ExtensionArray); ok && !arrow.TypeEqual(want, a.DataType()) {
		return convert(want, e.Storage())
	}
	if arrow.TypeEqual(want, a.DataType()) {
		if err := sound(a); err != nil {
			return nil, 0, err
		}
		if bad, err := validText(a); err != nil {
			return nil, bad, err
		}
		a.Retain()
		return a, 0, nil
	}
	at, values := indices(a)
	switch want.ID() {
	case arrow.STRING:
		return texts(values, a, at)
	case arrow.BINARY:
		return binaries(values, a, at)
	case arrow.BOOL:
		b := array.NewBooleanBuilder(memory.DefaultAllocator)
		defer b.Release()
		v, _ := values.(*array.Boolean)
		return each(a, values, at, b, func(i int) error { b.Append(v.Value(i)); return nil })
	case arrow.FLOAT32:
		b := array.NewFloat32Builder(memory.DefaultAllocator)
		defer b.Release()
		v, _ := values.(*array.Float32)
		return each(a, values, at, b, func(i int) error { b.Append(v.Value(i)); return nil })
	case arrow.FLOAT64:
		b := array.NewFloat64Builder(memory.DefaultAllocator)
		defer b.Release()
		value := floats(values)
		return each(a, values, at, b, func(i int) error { b.Append(value(i)); return nil })
	}
	return integers(want, values, a, at)
}

// indices finds the values of a dictionary or of runs: the value of row i is
// values[at(i)], and null if that is negative.
func indices(a arrow.Array) (at func(i int) int, values arrow.Array) {
	switch a := a.(type) {
	case *array.Dictionary:
		inner, values := indices(a.Dictionary())
		return func(i int) int {
			if a.IsNull(i) {
				return -1
			}
			return inner(a.GetValueIndex(i))
		}, values
	case *array.RunEndEncoded:
		inner, values := indices(a.Values())
		return func(i int) int { return inner(a.GetPhysicalIndex(i)) }, values
	case array.ExtensionArray:
		return indices(a.Storage())
	case *array.Null:
		return func(int) int { return -1 }, a
	}
	return func(i int) int {
		if a.IsNull(i) {
			return -1
		}
		return i
	}, a
}

// each appends every row of a to b: null, or by add the value at its index.
func each(a, values arrow.Array, at func(int) int, b array.Builder, add func(i int) error) (arrow.Array, int, error) {
	if err := sound(values); err != nil {
		return nil, 0, err
	}
	b.Reserve(a.Len())
	for i := range a.Len() {
		v := at(i)
		if v < 0 {
			b.AppendNull()
			continue
		}
		if err := add(v); err != nil {
			return nil, i, err
		}
	}
	return b.NewArray(), 0, nil
}

func texts(values, a arrow.Array, at func(int) int) (arrow.Array, int, error) {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	defer b.Release()
	v, _ := values.(interface{ Value(i int) string })
	return each(a, values, at, b, func(i int) error {
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

func binaries(values, a arrow.Array, at func(int) int) (arrow.Array, int, error) {
	b := array.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.Binary)
	defer b.Release()
	v, _ := values.(interface{ Value(i int) []byte })
	return each(a, values, at, b, func(i int) error { b.Append(v.Value(i)); return nil })
}

func floats(values arrow.Array) func(i int) float64 {
	switch v := values.(type) {
	case *array.Float32:
		return func(i int) float64 { return float64(v.Value(i)) }
	case *array.Float64:
		return v.Value
	}
	return nil // all are null
}

// integers goes from one width to another.
func integers(want arrow.DataType, values, a arrow.Array, at func(int) int) (arrow.Array, int, error) {
	b := array.NewBuilder(memory.DefaultAllocator, want)
	defer b.Release()
	add, err := adder(want, b)
	if err != nil {
		return nil, 0, err
	}
	value := integer(values)
	return each(a, values, at, b, func(i int) error {
		negative, v := value(i)
		if !add(negative, v) {
			if negative {
				return fmt.Errorf("wanted %s, got %d, which is out of its range", want, int64(v))
			}
			return fmt.Errorf("wanted %s, got %d, which is out of its range", want, v)
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
func adder(want arrow.DataType, b array.Builder) (func(negative bool, v uint64) bool, error) {
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
	return nil, fmt.Errorf("wanted %s, which no column is converted to yet", want)
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
	s, ok := a.(*array.String)
	if !ok {
		return 0, nil
	}
	for i := range s.Len() {
		if !s.IsNull(i) && !utf8.ValidString(s.Value(i)) {
			return i, notUTF8(s.Value(i))
		}
	}
	return 0, nil
}
