package tabular

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

// bodyBytesMax bounds one record batch of an Arrow stream whose size is not
// known; a file's cannot be larger than the file.
const bodyBytesMax = 2 << 30

// The first and last bytes of an Arrow file, of a stream's messages, and of
// what was called Feather before it was Arrow.
var (
	magicFile    = []byte("ARROW1")
	magicMessage = []byte{0xff, 0xff, 0xff, 0xff}
	magicFeather = []byte("FEA1")
)

// ipcFile reads an Arrow file or stream.
type ipcFile struct {
	header
	fields []arrow.Field
	kept   *arrow.Schema
	next   func() (arrow.RecordBatch, error)
	share  func() float64

	batch  arrow.RecordBatch // what is left of it begins at from
	number int               // batches begun
	from   int64
	most   int64 // rows at once that BatchBytesMax allows
	size   sizer // the same for the arguments, which are larger once unpacked
	row    int64
}

// newIPC tells a file from a stream by its first bytes. A file that cannot be
// sought in, as stdin, is read as the stream that it holds.
func newIPC(r io.Reader, fields []arrow.Field, o Options) (*ipcFile, error) {
	in := &meter{r: r, size: o.Size}
	buf := bufio.NewReaderSize(in, readBytes)
	head, err := buf.Peek(8)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, cause(err)
	}
	f := &ipcFile{fields: fields, share: in.share, size: sizer{rows: firstRows}}
	var schema *arrow.Schema
	file, seekable := r.(*os.File)
	err = guard(func() error {
		switch {
		case len(head) == 0:
			return errors.New("the file is empty")
		case bytes.HasPrefix(head, magicFeather):
			return errors.New("it is Feather version 1; only version 2, which is Arrow, is read")
		case bytes.HasPrefix(head, magicFile) && seekable && o.Size > 0:
			schema, err = f.openFile(file, o.Size)
		case bytes.HasPrefix(head, magicFile):
			_, _ = buf.Discard(8) // what Peek returned is buffered, so this cannot fail
			schema, err = f.openStream(buf, o.Size, true)
		case bytes.HasPrefix(head, magicMessage):
			schema, err = f.openStream(buf, o.Size, false)
		default:
			return fmt.Errorf("its first bytes are %q", head)
		}
		return err
	})
	if err != nil {
		return nil, notA("an Arrow", err)
	}
	return f, f.choose(schema, o)
}

func limits(size int64) []ipc.Option {
	if size <= 0 {
		size = bodyBytesMax
	}
	return []ipc.Option{ipc.WithAllocator(newLimited()), ipc.WithBodySizeLimit(size), ipc.WithMetadataSizeLimit(min(size, recordBytesMax))}
}

func (f *ipcFile) openFile(file *os.File, size int64) (*arrow.Schema, error) {
	batches, err := checkFooter(file, size)
	if err != nil {
		return nil, err
	}
	r, err := ipc.NewFileReader(file, limits(size)...)
	if err != nil {
		return nil, err
	}
	f.next = func() (arrow.RecordBatch, error) {
		if f.number >= r.NumRecords() {
			return nil, errEnd
		}
		f.number++
		if err := batches[f.number-1].check(file, size); err != nil {
			return nil, err
		}
		return r.RecordBatchAt(f.number - 1)
	}
	f.share = func() float64 {
		done := float64(f.number)
		if f.batch != nil && f.batch.NumRows() > 0 {
			done += float64(f.from)/float64(f.batch.NumRows()) - 1
		}
		return done / float64(max(1, r.NumRecords()))
	}
	return r.Schema(), nil
}

// openStream reads a stream; footed is one that a file's footer has to follow.
func (f *ipcFile) openStream(in *bufio.Reader, size int64, footed bool) (*arrow.Schema, error) {
	r, err := ipc.NewReader(&checkedStream{r: in}, limits(size)...)
	if err != nil {
		return nil, err
	}
	f.next = func() (arrow.RecordBatch, error) {
		batch, err := r.Read()
		if err == nil {
			f.number++
			batch.Retain() // the reader drops its own reference on the next Read
			return batch, nil
		}
		switch {
		case !errors.Is(err, io.EOF):
			return nil, err
		case footed:
			return nil, footer(in)
		}
		return nil, errEnd
	}
	return r.Schema(), nil
}

// footer reads to the end of a file: it is not cut short if the magic bytes
// are there again. It is errEnd or what is wrong.
func footer(in io.Reader) error {
	rest, err := io.ReadAll(io.LimitReader(in, recordBytesMax))
	if err != nil {
		return err
	}
	if !bytes.HasSuffix(rest, magicFile) {
		return io.ErrUnexpectedEOF
	}
	return errEnd
}

func (f *ipcFile) choose(schema *arrow.Schema, o Options) error {
	var err error
	if f.header, err = newHeader(fieldNames(schema.Fields()), f.fields, o); err != nil {
		return err
	}
	if err := convertible(f.fields, schema.Fields(), f.pick); err != nil {
		return err
	}
	if o.Keep != KeepNothing {
		f.kept = schema
	}
	return nil
}

// Kept is Source's.
func (f *ipcFile) Kept() *arrow.Schema { return f.kept }

// Next is Source's.
func (f *ipcFile) Next(rowsMax int) (*Rows, error) {
	var rows *Rows
	err := guard(func() (err error) {
		for f.batch == nil || f.from >= f.batch.NumRows() {
			if err := f.open(); err != nil {
				return err
			}
		}
		n := min(int64(f.size.next(rowsMax)), f.most, f.batch.NumRows()-f.from)
		rows, err = f.slice(n)
		return err
	})
	if err == nil {
		return rows, nil
	}
	if cell, ok := errors.AsType[*CellError](err); ok {
		return nil, cell
	}
	if errors.Is(err, errEnd) {
		return nil, io.EOF
	}
	return nil, fmt.Errorf("record batch %d, at row %d of the file: %w", f.number, f.row, broken(err))
}

// open takes the next record batch and looks at how large its rows are.
func (f *ipcFile) open() error {
	if f.batch != nil {
		f.batch.Release()
		f.batch = nil
	}
	batch, err := f.next()
	if err != nil {
		return err
	}
	f.batch, f.from, f.most = batch, 0, batch.NumRows()
	if perRow := heldAll(batch.Columns()) / max(1, batch.NumRows()); perRow > 0 {
		f.most = max(1, BatchBytesMax/perRow)
	}
	return nil
}

// slice takes the next n rows of the batch.
func (f *ipcFile) slice(n int64) (*Rows, error) {
	batch := f.batch.NewSlice(f.from, f.from+n)
	defer batch.Release()
	args := make([]arrow.Array, len(f.fields))
	for i, column := range f.pick {
		args[i] = batch.Column(column)
	}
	rows, err := converted(f.fields, args, n, place{f.row, f.pick, f.names})
	if err != nil {
		return nil, err
	}
	if f.kept != nil {
		rows.Input = array.NewRecordBatch(f.kept, batch.Columns(), n)
	}
	f.size.took(n, nil, rows.Args.Columns())
	f.from += n
	f.row += n
	rows.Share = f.share()
	return rows, nil
}
