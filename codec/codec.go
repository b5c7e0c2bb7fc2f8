// Package codec turns FlightData bytes into verified layout tables and back:
// framing, flatbuffer headers, slots in shared-memory arenas, value forms and
// the copy out of a worker's answer. It knows no process, no socket and no gRPC.
package codec

import "github.com/udfgate/udfgate"

// Range is a byte range of the memory it is used with.
type Range struct{ Off, Len int64 }

// End is one past the last byte.
func (r Range) End() int64 { return r.Off + r.Len }

// Column is one verified column of a batch. Ranges count from the start of
// the batch's slot. Validity.Len is 0 where no value is null.
type Column struct {
	Type     udfgate.Type
	Nulls    int64 // counted in the validity bitmap, never taken from the sender
	Validity Range
	Offsets  Range // int32, Rows+1 of them, none of 0 rows; utf8 and binary only
	Values   Range // fixed-width values, bool bits, or the data of utf8 and binary
	ASCII    bool  // utf8 only: every used byte is below 0x80
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
