package tabular

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/udfgate/udfgate/internal/arrowtype"
)

// parquetFile reads a Parquet file, one row group after the other and only the
// columns that are needed.
type parquetFile struct {
	header
	fields  []arrow.Field
	file    *file.Reader
	arrow   *pqarrow.FileReader
	columns []int // of the file, ascending: those that are read
	leaves  []int // their columns as Parquet counts, nested ones by each value
	nested  []int // of the leaves, those below a column
	at      []int // of each field, its place in columns
	kept    *arrow.Schema

	group   int // the next one
	left    int64
	readers []*pqarrow.ColumnReader
	row     int64
	size    sizer
}

// newParquet reads the footer. The file has to stay open while rows are read.
func newParquet(r parquet.ReaderAtSeeker, fields []arrow.Field, o Options) (*parquetFile, error) {
	p := &parquetFile{fields: fields, size: sizer{rows: firstRows}}
	err := guard(func() error {
		props := parquet.NewReaderProperties(newLimited())
		// Without it a column of a row group is read whole before its first value.
		props.BufferedStreamEnabled = true
		var err error
		if p.file, err = file.NewParquetReader(r, file.WithReadProps(props)); err != nil {
			return err
		}
		if stored := p.file.MetaData().KeyValueMetadata().FindValue("ARROW:schema"); stored != nil {
			if err := checkStored(*stored); err != nil {
				return err
			}
		}
		p.arrow, err = pqarrow.NewFileReader(p.file, pqarrow.ArrowReadProperties{}, newLimited())
		return err
	})
	if err != nil {
		return nil, notA("a Parquet", err)
	}
	return p, p.choose(o)
}

// notA is the error for a file that cannot be opened as what its name says.
func notA(format string, err error) error {
	if err := arrowtype.Misread(err); errors.Is(err, arrowtype.ErrNoItems) {
		return fmt.Errorf("it has %w", err)
	}
	return fmt.Errorf("not %s file, or a damaged one: %w", format, cause(err))
}

// choose finds the columns to read.
func (p *parquetFile) choose(o Options) error {
	manifest := p.arrow.Manifest
	all := make([]arrow.Field, len(manifest.Fields))
	names := make([]string, len(manifest.Fields))
	for i, f := range manifest.Fields {
		all[i], names[i] = withoutID(*f.Field), f.Field.Name
	}
	var err error
	if p.header, err = newHeader(names, p.fields, o); err != nil {
		return err
	}
	if err := convertible(p.fields, all, p.pick); err != nil {
		return err
	}
	if o.Keep != KeepNothing {
		p.kept = arrow.NewSchema(all, manifest.SchemaMeta)
	}
	for i := range all {
		if p.kept == nil && !slices.Contains(p.pick, i) {
			continue
		}
		p.columns = append(p.columns, i)
		p.addLeaves(&manifest.Fields[i], false)
	}
	p.at = make([]int, len(p.pick))
	for i, column := range p.pick {
		p.at[i] = slices.Index(p.columns, column)
	}
	return nil
}

// withoutID takes off what the library notes of a column that has no field id,
// at all depths: outputs would carry it on as if the file had said so. Inside
// of large lists it stays, because the library compares them with it.
func withoutID(f arrow.Field) arrow.Field {
	if id, ok := f.Metadata.GetValue(fieldID); ok && id == "-1" {
		kept := f.Metadata.ToMap()
		delete(kept, fieldID)
		f.Metadata = arrow.MetadataFrom(kept)
	}
	switch t := f.Type.(type) {
	case *arrow.StructType:
		fields := t.Fields()
		for i, inner := range fields {
			fields[i] = withoutID(inner)
		}
		f.Type = arrow.StructOf(fields...)
	case *arrow.ListType:
		f.Type = arrow.ListOfField(withoutID(t.ElemField()))
	case *arrow.FixedSizeListType:
		f.Type = arrow.FixedSizeListOfField(t.Len(), withoutID(t.ElemField()))
	case *arrow.MapType:
		plain := arrow.MapOfFields(withoutID(t.KeyField()), withoutID(t.ItemField()))
		plain.KeysSorted = t.KeysSorted
		f.Type = plain
	}
	return f
}

// fieldID is the key of a Parquet column's number.
const fieldID = "PARQUET:field_id"

func (p *parquetFile) addLeaves(f *pqarrow.SchemaField, below bool) {
	if f.IsLeaf() {
		p.leaves = append(p.leaves, f.ColIndex)
		if below {
			p.nested = append(p.nested, f.ColIndex)
		}
	}
	for i := range f.Children {
		p.addLeaves(&f.Children[i], true)
	}
}

// Kept is Source's.
func (p *parquetFile) Kept() *arrow.Schema { return p.kept }

// Next is Source's.
func (p *parquetFile) Next(rowsMax int) (*Rows, error) {
	var rows *Rows
	err := guard(func() (err error) {
		for p.left == 0 {
			if err := p.nextGroup(); err != nil {
				return err
			}
		}
		rows, err = p.read(min(p.left, int64(p.size.next(rowsMax))))
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
	return nil, fmt.Errorf("row group %d, at row %d of the file: %w", p.group-1, p.row, broken(err))
}

// nextGroup opens the columns of the next row group; errEnd after the last.
func (p *parquetFile) nextGroup() error {
	p.release()
	if p.group >= p.file.NumRowGroups() {
		return errEnd
	}
	group := p.group
	p.group++
	meta := p.file.RowGroup(group)
	rows := meta.NumRows()
	if rows < 0 {
		return fmt.Errorf("the file is damaged: it has %d rows", rows)
	}
	// Columns of a struct are opened on goroutines of the library, where a
	// panic ends the program: whatever has one has it here first.
	for _, leaf := range p.nested {
		if _, err := meta.GetColumnPageReader(leaf); err != nil {
			return err
		}
	}
	var err error
	if len(p.leaves) > 0 {
		p.readers, _, err = p.arrow.GetFieldReaders(context.Background(), p.leaves, []int{group})
	}
	if err == nil {
		p.left = rows
	}
	return err
}

func (p *parquetFile) release() {
	for _, r := range p.readers {
		if r != nil {
			r.Release()
		}
	}
	p.readers = nil
}

// read takes n rows of the row group.
func (p *parquetFile) read(n int64) (*Rows, error) {
	columns := make([]arrow.Array, 0, len(p.readers))
	defer func() {
		for _, c := range columns {
			c.Release()
		}
	}()
	for i, r := range p.readers {
		column, err := p.column(r, p.columns[i], n)
		if err != nil {
			return nil, err
		}
		columns = append(columns, column)
	}
	args := make([]arrow.Array, len(p.fields))
	for i, at := range p.at {
		args[i] = columns[at]
	}
	rows, err := converted(p.fields, args, n, place{p.row, p.pick, p.names})
	if err != nil {
		return nil, err
	}
	if p.kept != nil {
		rows.Input = array.NewRecordBatch(p.kept, columns, n)
	}
	p.size.took(n, columns, rows.Args.Columns())
	p.row += n
	p.left -= n
	rows.Share = share(p.row, p.file.NumRows())
	return rows, nil
}

// column is the next n values of a column as one array.
func (p *parquetFile) column(r *pqarrow.ColumnReader, index int, n int64) (arrow.Array, error) {
	chunks, err := r.NextBatch(n)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", columnAt(index+1, p.names[index]), err)
	}
	defer chunks.Release()
	if int64(chunks.Len()) != n {
		return nil, fmt.Errorf("%s: wanted %s more, got %d: the file is damaged", columnAt(index+1, p.names[index]), count(n, "value"), chunks.Len())
	}
	if len(chunks.Chunks()) == 1 {
		column := chunks.Chunk(0)
		column.Retain()
		return column, nil
	}
	return array.Concatenate(chunks.Chunks(), newLimited())
}
