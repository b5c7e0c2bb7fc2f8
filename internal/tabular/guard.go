package tabular

import (
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// allocationMax bounds one piece of memory that reading a file may take at
// once. A damaged file can ask for any number of bytes; Go cannot recover from
// memory that the system does not have.
var allocationMax = 2 << 30

// guard turns a panic of the libraries below into an error: they have some for
// files that are not what they say.
func guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the file is damaged: %v", r)
		}
	}()
	return f()
}

// limited is memory for reading files: a request over allocationMax panics, and
// guard tells the caller.
type limited struct{ memory.Allocator }

func newLimited() limited { return limited{memory.DefaultAllocator} }

func (l limited) Allocate(size int) []byte {
	checkAllocation(size)
	return l.Allocator.Allocate(size)
}

func (l limited) Reallocate(size int, b []byte) []byte {
	checkAllocation(size)
	return l.Allocator.Reallocate(size, b)
}

func checkAllocation(size int) {
	if size < 0 || size > allocationMax {
		panic(fmt.Sprintf("it asks for %d bytes at once, and at most %d are taken; where the rows are this large, fewer --batch-rows help", size, allocationMax))
	}
}

// errEnd is the end of a file where it should be. A library's io.EOF may as
// well come from the midst of a value.
var errEnd = errors.New("end of the file")

// broken says of a file's early end what it is.
func broken(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the file is cut short: %w", err)
	}
	return cause(err)
}

// How many rows the first batch may have, how much larger a batch may be than
// the one before it, and the most. The size of the rows is not known before
// they are read: a dictionary makes any number of long values out of a few
// bytes.
const (
	firstRows   = 1024
	growthRows  = 8
	maxRowsRead = 1 << 24
)

// sizer chooses how many rows to read at once: what BatchBytesMax allows by the
// rows read before.
type sizer struct{ rows int }

func (s *sizer) next(rowsMax int) int { return min(rowsMax, s.rows) }

// took learns from n rows, as they were read and as they are sent: the larger
// counts, and that is what is sent if a dictionary was read.
func (s *sizer) took(n int64, read, sent []arrow.Array) {
	s.rows = min(s.rows*growthRows, maxRowsRead)
	if perRow := max(heldAll(read), heldAll(sent)) / max(1, n); perRow > 0 {
		s.rows = max(1, min(s.rows, int(BatchBytesMax/perRow)))
	}
}

func heldAll(columns []arrow.Array) int64 {
	var n int64
	for _, c := range columns {
		n += held(c.Data())
	}
	return n
}

// held is how many bytes an array's buffers have, those of a dictionary too.
func held(data arrow.ArrayData) int64 {
	var n int64
	for _, b := range data.Buffers() {
		if b != nil {
			n += int64(b.Len())
		}
	}
	for _, child := range data.Children() {
		n += held(child)
	}
	if d, ok := data.(*array.Data); ok && d.DataType().ID() == arrow.DICTIONARY {
		n += held(d.Dictionary())
	}
	return n
}
