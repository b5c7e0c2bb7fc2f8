package tabular

import (
	"encoding/binary"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/encoded"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// take is the values at these rows, in their order, in the very type that they
// have: gather makes canonical ones, and arrow-go's compute lacks views, runs
// and sparse unions. Rows count from the array's own start, and are within it.
// What can be is shared: dictionaries, the bytes of views, the items of list
// views and the children of dense unions.
func take(data arrow.ArrayData, rows []int) (arrow.ArrayData, error) {
	switch t := layoutOf(data.DataType()).(type) {
	case *arrow.NullType:
		return array.NewData(data.DataType(), len(rows), []*memory.Buffer{nil}, nil, len(rows), 0), nil
	case *arrow.RunEndEncodedType:
		return takeRuns(data, rows)
	case *arrow.DenseUnionType:
		buffers := []*memory.Buffer{nil, takeFixed(data, 1, 1, rows), takeFixed(data, 2, 4, rows)}
		return array.NewData(data.DataType(), len(rows), buffers, data.Children(), 0, 0), nil
	case *arrow.SparseUnionType:
		return takeChildren(data, rows, []*memory.Buffer{nil, takeFixed(data, 1, 1, rows)}, itemsBelow(rows, data.Offset(), 1))
	case *arrow.StructType:
		return takeChildren(data, rows, []*memory.Buffer{nil}, itemsBelow(rows, data.Offset(), 1))
	case *arrow.FixedSizeListType:
		return takeChildren(data, rows, []*memory.Buffer{nil}, itemsBelow(rows, data.Offset(), int(t.Len())))
	case *arrow.BooleanType:
		return taken(data, rows, []*memory.Buffer{nil, takeBits(data.Buffers()[1], data.Offset(), rows)}, nil)
	case arrow.BinaryViewDataType:
		views := takeFixed(data, 1, arrow.ViewHeaderSizeBytes, rows)
		return taken(data, rows, append([]*memory.Buffer{nil, views}, data.Buffers()[2:]...), nil)
	case *arrow.ListViewType, *arrow.LargeListViewType:
		width := offsetWidth(t)
		return taken(data, rows, []*memory.Buffer{nil, takeFixed(data, 1, width, rows), takeFixed(data, 2, width, rows)}, data.Children())
	case *arrow.ListType, *arrow.LargeListType, *arrow.MapType:
		return takeLists(data, offsetWidth(t), rows)
	case arrow.BinaryDataType:
		return takeBytes(data, offsetWidth(t), rows)
	case arrow.FixedWidthDataType: // dictionaries by their indices
		return taken(data, rows, []*memory.Buffer{nil, takeFixed(data, 1, t.BitWidth()/8, rows)}, nil)
	}
	return nil, fmt.Errorf("rows of type %s cannot be repeated", nameOf(data.DataType()))
}

// layoutOf is the type that says how an array's values lie.
func layoutOf(t arrow.DataType) arrow.DataType {
	if e, ok := t.(arrow.ExtensionType); ok {
		return layoutOf(e.StorageType())
	}
	return t
}

// taken is the array of the buffers, the first of which it makes: the validity.
func taken(data arrow.ArrayData, rows []int, buffers []*memory.Buffer, children []arrow.ArrayData) (arrow.ArrayData, error) {
	nulls := 0
	if nullable(data) {
		buffers[0] = takeBits(data.Buffers()[0], data.Offset(), rows)
		nulls = len(rows) - bitutil.CountSetBits(buffers[0].Bytes(), 0, len(rows))
	}
	if layoutOf(data.DataType()).ID() == arrow.DICTIONARY {
		dictionary, _ := data.Dictionary().(*array.Data)
		return array.NewDataWithDictionary(data.DataType(), len(rows), buffers, nulls, 0, dictionary), nil
	}
	return array.NewData(data.DataType(), len(rows), buffers, children, nulls, 0), nil
}

// takeChildren is taken with the rows items of each child.
func takeChildren(data arrow.ArrayData, rows []int, buffers []*memory.Buffer, items []int) (arrow.ArrayData, error) {
	children := make([]arrow.ArrayData, len(data.Children()))
	for i, child := range data.Children() {
		var err error
		if children[i], err = take(child, items); err != nil {
			return nil, err
		}
	}
	return taken(data, rows, buffers, children)
}

// itemsBelow are the rows of a child that has n for each of its parent's.
func itemsBelow(rows []int, offset, n int) []int {
	items := make([]int, 0, len(rows)*n)
	for _, row := range rows {
		for i := range n {
			items = append(items, (row+offset)*n+i)
		}
	}
	return items
}

func takeBits(from *memory.Buffer, offset int, rows []int) *memory.Buffer {
	bits := make([]byte, bitutil.BytesForBits(int64(len(rows))))
	for i, row := range rows {
		if bitutil.BitIsSet(from.Bytes(), row+offset) {
			bitutil.SetBit(bits, i)
		}
	}
	return memory.NewBufferBytes(bits)
}

func takeFixed(data arrow.ArrayData, buffer, width int, rows []int) *memory.Buffer {
	values := make([]byte, 0, len(rows)*width)
	if from := data.Buffers()[buffer]; from != nil { // it is nil where values have no bytes
		for _, row := range rows {
			at := (row + data.Offset()) * width
			values = append(values, from.Bytes()[at:at+width]...)
		}
	}
	return memory.NewBufferBytes(values)
}

func takeBytes(data arrow.ArrayData, width int, rows []int) (arrow.ArrayData, error) {
	var values []byte
	ends := make([]int, 1, len(rows)+1)
	for _, row := range rows {
		if from, to := extent(data, width, row); to > from {
			values = append(values, data.Buffers()[2].Bytes()[from:to]...)
		}
		ends = append(ends, len(values))
	}
	return taken(data, rows, []*memory.Buffer{nil, offsets(ends, width == 8), memory.NewBufferBytes(values)}, nil)
}

func takeLists(data arrow.ArrayData, width int, rows []int) (arrow.ArrayData, error) {
	var items []int
	ends := make([]int, 1, len(rows)+1)
	for _, row := range rows {
		for i, to := extent(data, width, row); i < to; i++ {
			items = append(items, i)
		}
		ends = append(ends, len(items))
	}
	return takeChildren(data, rows, []*memory.Buffer{nil, offsets(ends, width == 8)}, items)
}

// takeRuns makes one run of rows of the same run that follow one another.
func takeRuns(data arrow.ArrayData, rows []int) (arrow.ArrayData, error) {
	var ends []byte
	var values []int
	kind := data.Children()[0].DataType()
	for i, row := range rows {
		run := encoded.FindPhysicalIndex(data, data.Offset()+row)
		if n := len(values); n == 0 || values[n-1] != run {
			values = append(values, run)
		} else {
			ends = ends[:len(ends)-bitWidth(kind)/8]
		}
		switch kind.ID() {
		case arrow.INT16:
			ends = binary.NativeEndian.AppendUint16(ends, uint16(i+1))
		case arrow.INT32:
			ends = binary.NativeEndian.AppendUint32(ends, uint32(i+1))
		default:
			ends = binary.NativeEndian.AppendUint64(ends, uint64(i+1))
		}
	}
	kept, err := take(data.Children()[1], values)
	if err != nil {
		return nil, err
	}
	runs := array.NewData(kind, len(values), []*memory.Buffer{nil, memory.NewBufferBytes(ends)}, nil, 0, 0)
	return array.NewData(data.DataType(), len(rows), []*memory.Buffer{nil}, []arrow.ArrayData{runs, kept}, 0, 0), nil
}

// offsetWidth is how many bytes an offset has in arrays of the type.
func offsetWidth(t arrow.DataType) int {
	switch t.ID() {
	case arrow.LARGE_STRING, arrow.LARGE_BINARY, arrow.LARGE_LIST, arrow.LARGE_LIST_VIEW:
		return 8
	}
	return 4
}

// extent is where the bytes or items of a row are; nowhere those of a null.
func extent(data arrow.ArrayData, width, row int) (from, to int) {
	if nullable(data) && !bitutil.BitIsSet(data.Buffers()[0].Bytes(), data.Offset()+row) {
		return 0, 0
	}
	b, at := data.Buffers()[1].Bytes(), data.Offset()+row
	if width == 8 {
		wide := arrow.Int64Traits.CastFromBytes(b)
		return int(wide[at]), int(wide[at+1])
	}
	narrow := arrow.Int32Traits.CastFromBytes(b)
	return int(narrow[at]), int(narrow[at+1])
}

func nullable(data arrow.ArrayData) bool {
	valid := data.Buffers()[0]
	return valid != nil && valid.Len() > 0 && data.NullN() != 0
}

// itemBytes is what take holds of any value while it runs.
const itemBytes = 8

// rowBytes is about how much memory take needs for one more copy of a row.
func rowBytes(data arrow.ArrayData, row int) int64 {
	switch t := layoutOf(data.DataType()).(type) {
	case *arrow.NullType, *arrow.DenseUnionType:
		return itemBytes
	case *arrow.RunEndEncodedType:
		return rowBytes(data.Children()[1], encoded.FindPhysicalIndex(data, data.Offset()+row))
	case *arrow.StructType, *arrow.SparseUnionType:
		return itemBytes + itemsBytes(data.Children(), data.Offset()+row, data.Offset()+row+1)
	case *arrow.FixedSizeListType:
		n := int(t.Len())
		return itemBytes + itemsBytes(data.Children(), (data.Offset()+row)*n, (data.Offset()+row+1)*n)
	case *arrow.ListType, *arrow.LargeListType, *arrow.MapType:
		from, to := extent(data, offsetWidth(t), row)
		return itemBytes + itemsBytes(data.Children(), from, to)
	case arrow.BinaryViewDataType, *arrow.ListViewType, *arrow.LargeListViewType:
		return itemBytes + int64(arrow.ViewHeaderSizeBytes)
	case arrow.BinaryDataType:
		from, to := extent(data, offsetWidth(t), row)
		return itemBytes + int64(to-from)
	case arrow.FixedWidthDataType:
		return itemBytes + int64(t.BitWidth()/8)
	}
	return itemBytes
}

func itemsBytes(children []arrow.ArrayData, from, to int) (n int64) {
	for _, child := range children {
		if t, ok := layoutOf(child.DataType()).(arrow.FixedWidthDataType); ok && !arrow.IsNested(t.ID()) {
			n += int64(to-from) * (itemBytes + int64(t.BitWidth()/8))
			continue
		}
		for i := from; i < to; i++ {
			n += rowBytes(child, i)
		}
	}
	return n
}
