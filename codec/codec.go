// Package codec turns FlightData bytes into verified layout tables and back:
// framing, flatbuffer headers, slots in shared-memory arenas, value forms and
// the copy out of a worker's answer. It knows no process, no socket and no gRPC.
package codec

import "github.com/udfgate/udfgate"

// Range is a byte range of the memory it is used with.
type Range struct{ Off, Len int64 }

// End is one past the last byte.
func (r Range) End() int64 { return r.Off + r.Len }

// Column is one verified column of a batch, or one below it. Ranges count from
// the start of the batch's slot. Which of them there are is the kind's affair:
// see AppendBuffers.
type Column struct {
	Type     *udfgate.Type
	Length   int64 // values; below a list those of all its rows
	Nulls    int64 // counted in the validity bitmap, never taken from the sender
	Validity Range // of length 0 where no value is null
	Offsets  Range // Length+1 of int32, or of int64 of the large kinds; none of length 0
	Values   Range // values of fixed width, bool bits, or the data of text and binary
	ASCII    bool  // text only: every used byte is below 0x80
	Children []Column

	// Of what comes in and is normalised; nil in slots.
	encoded *encodedColumn
}

// encodedColumn is what a column has that is not canonical.
type encodedColumn struct {
	sizes  Range       // of list views
	data   []Range     // of text and binary views
	values *dictionary // of dictionary indices
}

// AppendBuffers appends the buffers of a column and of those below it as Arrow
// orders them: validity, then offsets or values or both; none of a null column.
func (c *Column) AppendBuffers(dst []Range) []Range {
	switch k := c.Type.Kind; {
	case k == udfgate.Null:
		return dst
	case k.Variable():
		dst = append(dst, c.Validity, c.Offsets, c.Values)
	case k == udfgate.List, k == udfgate.LargeList, k == udfgate.Map:
		dst = append(dst, c.Validity, c.Offsets)
	case k == udfgate.Struct, k == udfgate.FixedSizeList:
		dst = append(dst, c.Validity)
	default:
		dst = append(dst, c.Validity, c.Values)
	}
	for i := range c.Children {
		dst = c.Children[i].AppendBuffers(dst)
	}
	return dst
}

// Batch is a record batch in canonical Arrow form whose body lies in a slot,
// verified in that copy: ranges, offsets, UTF-8.
type Batch struct {
	Rows    int64
	Columns []Column
	Slot    *Slot
}

// Release gives the slot back.
func (b *Batch) Release() {
	if b.Slot != nil {
		b.Slot.Release()
		b.Slot = nil
	}
}

// Node is one column's entry in a RecordBatch header.
type Node struct{ Length, Nulls int64 }

// Buffer is one buffer's entry in a RecordBatch header. Offset counts from the
// start of the body.
type Buffer struct{ Offset, Length int64 }

// Answer is a result batch in canonical Arrow form on the gateway's own heap.
type Answer struct {
	Rows    int64
	Nodes   []Node
	Buffers []Buffer
	Body    *Block
	// Errors is a column of the same rows with the text of each row that
	// failed, null where the row is good. It is nil where none failed, or
	// nobody wants to know.
	Errors *Answer
}

// Release gives the body back, and that of Errors.
func (a *Answer) Release() {
	a.ForgetErrors()
	if a.Body != nil {
		a.Body.Release()
		a.Body = nil
	}
}
