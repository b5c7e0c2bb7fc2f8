package tabular

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

// Writer writes a file of rows: what was kept of the input, then the columns
// that are added.
type Writer struct {
	format Format
	kept   int // columns of the input
	schema *arrow.Schema
	sink   sink
	row    int64
}

// sink is a file format. It is given batches of its schema, or for text formats
// the rows' own text with what is added to it.
type sink interface {
	write(batch arrow.RecordBatch, text *array.Binary) error
	close() error
}

// NewWriter begins a file. kept is the input's Source.Kept, nil if its rows
// come as text without fixed columns; adds are the columns behind them.
//
// # Errors
//
// A column of a type that the format does not have.
func NewWriter(w io.Writer, f Format, gzipped bool, kept *arrow.Schema, adds []arrow.Field) (*Writer, error) {
	var fields []arrow.Field
	var meta arrow.Metadata
	if kept != nil {
		fields, meta = kept.Fields(), kept.Metadata()
	}
	out := &Writer{format: f, kept: len(fields)}
	out.schema = arrow.NewSchema(append(fields, adds...), &meta)
	err := guard(func() (err error) {
		switch f {
		case FormatParquet:
			out.sink, err = newParquetSink(w, out.schema)
		case FormatArrow:
			out.sink, err = newArrowSink(w, out.schema)
		case FormatArrowStream:
			out.sink = ipcSink{ipc.NewWriter(w, ipc.WithSchema(out.schema))}
		default:
			out.sink = newTextSink(w, f, gzipped, out.schema, out.kept)
		}
		return err
	})
	if err != nil {
		return nil, out.wrong(err)
	}
	return out, nil
}

func (w *Writer) wrong(err error) error {
	if _, ok := errors.AsType[*CellError](err); ok {
		return fmt.Errorf("as %s: %w", w.format, err)
	}
	return fmt.Errorf("as %s, at row %d: %w", w.format, w.row, err)
}

// Write adds rows with their added columns. An error leaves the file useless.
func (w *Writer) Write(rows *Rows, adds []arrow.Array) error {
	err := guard(func() error {
		if rows.Text != nil {
			batch := array.NewRecordBatch(arrow.NewSchema(w.schema.Fields()[w.kept:], nil), adds, rows.Len())
			defer batch.Release()
			return w.sink.write(batch, rows.Text)
		}
		var columns []arrow.Array
		if rows.Input != nil {
			columns = rows.Input.Columns()
		}
		batch := array.NewRecordBatch(w.schema, append(columns[:len(columns):len(columns)], adds...), rows.Len())
		defer batch.Release()
		return w.sink.write(batch, nil)
	})
	if err != nil {
		return w.wrong(err)
	}
	w.row += rows.Len()
	return nil
}

// Close ends the file; the io.Writer below stays open.
func (w *Writer) Close() error {
	if err := guard(w.sink.close); err != nil {
		return w.wrong(err)
	}
	return nil
}

// ipcSink writes Arrow.
type ipcSink struct {
	w interface {
		Write(arrow.RecordBatch) error
		Close() error
	}
}

func newArrowSink(w io.Writer, schema *arrow.Schema) (sink, error) {
	f, err := ipc.NewFileWriter(w, ipc.WithSchema(schema))
	return ipcSink{f}, err
}

func (s ipcSink) write(batch arrow.RecordBatch, _ *array.Binary) error {
	err := s.w.Write(batch)
	if err != nil && strings.Contains(err.Error(), "Dictionary replacement") {
		return errors.New("a column's dictionary changes here, and an Arrow file has one for all rows; write .arrows or .parquet")
	}
	return err
}

func (s ipcSink) close() error { return s.w.Close() }

// textSink writes CSV and JSONL.
type textSink struct {
	w      io.Writer
	z      *gzip.Writer // nil without .gz
	row    func(dst []byte, batch arrow.RecordBatch, text *array.Binary, i int) ([]byte, error)
	buf    []byte
	rows   int64
	header []byte // what is still to be written before the first row
}

func newTextSink(w io.Writer, f Format, gzipped bool, schema *arrow.Schema, kept int) *textSink {
	s := &textSink{w: w}
	if gzipped {
		s.z = gzip.NewWriter(w)
		s.w = s.z
	}
	if f == FormatJSONL {
		s.row = newJSONLRows(schema, kept).append
		return s
	}
	s.row = appendRecord
	for i, field := range schema.Fields() {
		if i > 0 {
			s.header = append(s.header, ',')
		}
		s.header = appendField(s.header, field.Name)
	}
	s.header = append(s.header, '\n')
	return s
}

func (s *textSink) write(batch arrow.RecordBatch, text *array.Binary) error {
	s.buf = append(s.buf[:0], s.header...)
	s.header = nil
	for i := range int(batch.NumRows()) {
		var err error
		if s.buf, err = s.row(s.buf, batch, text, i); err != nil {
			return &CellError{Where: fmt.Sprintf("row %d", s.rows+int64(i)), Err: err}
		}
		if len(s.buf) >= readBytes {
			if _, err := s.w.Write(s.buf); err != nil {
				return err
			}
			s.buf = s.buf[:0]
		}
	}
	s.rows += batch.NumRows()
	_, err := s.w.Write(s.buf)
	return err
}

func (s *textSink) close() error {
	_, err := s.w.Write(s.header)
	if s.z != nil {
		err = errors.Join(err, s.z.Close())
	}
	return err
}
