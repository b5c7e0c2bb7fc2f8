package tabular

import (
	"errors"
	"fmt"
	"math"
	"sort"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// gather is the values of a at rows, null for a row below 0, as a new column of
// type want, which they fit. bad is the place in rows of a value that is none.
func gather(want arrow.DataType, a arrow.Array, rows []int) (out arrow.Array, bad int, err error) {
	if e, ok := want.(arrow.ExtensionType); ok {
		storage, bad, err := gather(e.StorageType(), a, rows)
		if err != nil {
			return nil, bad, err
		}
		defer storage.Release()
		return array.NewExtensionArrayWithStorage(e, storage), 0, nil
	}
	values, rows := resolve(a, rows)
	if want.ID() == arrow.NULL {
		return array.NewNull(len(rows)), 0, nil
	}
	if values.DataType().ID() == arrow.NULL {
		return array.MakeArrayOfNull(memory.DefaultAllocator, want, len(rows)), 0, nil
	}
	if arrow.IsNested(want.ID()) {
		return gatherNested(want, values, rows)
	}
	b := array.NewBuilder(memory.DefaultAllocator, want)
	defer b.Release()
	switch b := b.(type) {
	case array.StringLikeBuilder:
		return texts(b, values, rows)
	case *array.BinaryBuilder:
		v, _ := values.(interface{ Value(i int) []byte })
		return each(values, rows, b, func(i int) error { b.Append(v.Value(i)); return nil })
	case *array.BooleanBuilder:
		v, _ := values.(*array.Boolean)
		return each(values, rows, b, func(i int) error { b.Append(v.Value(i)); return nil })
	case *array.Float32Builder:
		value := floats(values)
		return each(values, rows, b, func(i int) error { b.Append(float32(value(i))); return nil })
	case *array.Float64Builder:
		value := floats(values)
		return each(values, rows, b, func(i int) error { b.Append(value(i)); return nil })
	}
	if arrow.IsInteger(want.ID()) {
		return integers(b, values, rows)
	}
	return gatherFixed(want, values, rows)
}

// resolve goes through dictionaries, runs and extensions to the values
// themselves, and to the places of the rows among them: below 0 where one is null.
func resolve(a arrow.Array, rows []int) (values arrow.Array, at []int) {
	at = make([]int, len(rows))
	for i, row := range rows {
		if at[i] = row; row >= 0 && a.IsNull(row) {
			at[i] = -1
		}
	}
	under := func(values arrow.Array, place func(row int) int) (arrow.Array, []int) {
		for i, row := range at {
			if row >= 0 {
				at[i] = place(row)
			}
		}
		return resolve(values, at)
	}
	switch a := a.(type) {
	case *array.Dictionary:
		return under(a.Dictionary(), a.GetValueIndex)
	case *array.RunEndEncoded:
		return under(a.Values(), a.GetPhysicalIndex)
	case array.ExtensionArray:
		return resolve(a.Storage(), at)
	}
	return a, at
}

// nullBits is the validity of rows, nil if none of them is null.
func nullBits(rows []int) (bits *memory.Buffer, nulls int) {
	for _, row := range rows {
		if row < 0 {
			nulls++
		}
	}
	if nulls == 0 {
		return nil, 0
	}
	b := make([]byte, bitutil.BytesForBits(int64(len(rows))))
	for i, row := range rows {
		if row >= 0 {
			bitutil.SetBit(b, i)
		}
	}
	return memory.NewBufferBytes(b), nulls
}

// gatherFixed copies values of a fixed number of bytes, which are of type want.
func gatherFixed(want arrow.DataType, values arrow.Array, rows []int) (arrow.Array, int, error) {
	fixed, ok := want.(arrow.FixedWidthDataType)
	if !ok || fixed.BitWidth()%8 != 0 {
		return nil, 0, fmt.Errorf("wanted %s, which no column is converted to yet", nameOf(want))
	}
	width := fixed.BitWidth() / 8
	var from []byte
	if b := values.Data().Buffers()[1]; b != nil {
		from = b.Bytes()[values.Data().Offset()*width:]
	}
	to := make([]byte, len(rows)*width)
	for i, row := range rows {
		if row >= 0 {
			copy(to[i*width:], from[row*width:][:width])
		}
	}
	bits, nulls := nullBits(rows)
	data := array.NewData(want, len(rows), []*memory.Buffer{bits, memory.NewBufferBytes(to)}, nil, nulls, 0)
	defer data.Release()
	return array.MakeFromData(data), 0, nil
}

// errItems is more items below a column than its offsets can count.
var errItems = errors.New("wanted fewer than 2³¹ items in a batch; fewer --batch-rows help")

func gatherNested(want arrow.DataType, values arrow.Array, rows []int) (arrow.Array, int, error) {
	bits, nulls := nullBits(rows)
	buffers := []*memory.Buffer{bits}
	below, parent := rows, func(i int) int { return i }
	switch v := values.(type) {
	case *array.Struct:
	case array.ListLike: // maps and views too
		ends, items, err := itemsOf(v, rows)
		if err != nil {
			return nil, 0, err
		}
		below = items
		parent = func(i int) int { return sort.Search(len(rows), func(row int) bool { return ends[row+1] > i }) }
		if t, ok := want.(*arrow.FixedSizeListType); ok {
			below, parent = fixedItems(v, rows, int(t.Len()))
		} else {
			buffers = append(buffers, offsets(ends, want.ID() == arrow.LARGE_LIST))
		}
	default:
		return nil, 0, fmt.Errorf("wanted %s, which no column is converted to yet", nameOf(want))
	}
	children := make([]arrow.ArrayData, 0, 2)
	defer func() {
		for _, c := range children {
			c.Release()
		}
	}()
	for i, f := range inner(want) {
		child, bad, err := gather(f.Type, childOf(values, i), below)
		if err != nil {
			return nil, parent(bad), fmt.Errorf("%s: %w", partOf(want, f), err)
		}
		child.Data().Retain()
		children = append(children, child.Data())
		child.Release()
	}
	if t, ok := want.(*arrow.MapType); ok {
		if children[0].NullN() > 0 {
			return nil, 0, errors.New("wanted a key of each entry, got null")
		}
		entries := array.NewData(t.Elem(), len(below), []*memory.Buffer{nil}, children, 0, 0)
		for _, c := range children {
			c.Release()
		}
		children = []arrow.ArrayData{entries}
	}
	data := array.NewData(want, len(rows), buffers, children, nulls, 0)
	defer data.Release()
	return array.MakeFromData(data), 0, nil
}

// partOf is how an error names what is below a type.
func partOf(want arrow.DataType, f arrow.Field) string {
	switch want.(type) {
	case *arrow.StructType:
		return "member " + quote(f.Name)
	case *arrow.MapType:
		return f.Name
	}
	return "items"
}

// childOf is the column below values that has items, a member, keys or values.
func childOf(values arrow.Array, i int) arrow.Array {
	switch v := values.(type) {
	case *array.Struct:
		return v.Field(i)
	case *array.Map:
		if i == 0 {
			return v.Keys()
		}
		return v.Items()
	case array.ListLike:
		return v.ListValues()
	}
	return nil
}

// itemsOf is where the items of rows lie, and how many there are up to each.
func itemsOf(v array.ListLike, rows []int) (ends, items []int, err error) {
	ends = make([]int, 1, len(rows)+1)
	most := int64(v.ListValues().Len())
	for _, row := range rows {
		if row >= 0 {
			from, to := v.ValueOffsets(row)
			if from < 0 || to < from || to > most {
				return nil, nil, fmt.Errorf("the file is damaged: items %d to %d of %d", from, to, most)
			}
			if int64(len(items))+to-from > math.MaxInt32 {
				return nil, nil, errItems
			}
			for i := from; i < to; i++ {
				items = append(items, int(i))
			}
		}
		ends = append(ends, len(items))
	}
	return ends, items, nil
}

// fixedItems is where the items of rows of a list of fixed size lie.
func fixedItems(v array.ListLike, rows []int, size int) (items []int, parent func(int) int) {
	items = make([]int, 0, len(rows)*size)
	for _, row := range rows {
		from := int64(0)
		if row >= 0 {
			from, _ = v.ValueOffsets(row)
		}
		for i := range size {
			if row < 0 {
				items = append(items, -1)
			} else {
				items = append(items, int(from)+i)
			}
		}
	}
	return items, func(i int) int { return i / max(size, 1) }
}

func offsets(ends []int, large bool) *memory.Buffer {
	if large {
		wide := make([]int64, len(ends))
		for i, end := range ends {
			wide[i] = int64(end)
		}
		return memory.NewBufferBytes(arrow.Int64Traits.CastToBytes(wide))
	}
	narrow := make([]int32, len(ends))
	for i, end := range ends {
		narrow[i] = int32(end)
	}
	return memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(narrow))
}
