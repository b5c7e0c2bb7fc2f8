package tabular

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/udfgate/udfgate/internal/arrowtype"
)

// A row group of Parquet ends at the first of these: many rows make a file
// quick to scan, and all of a row group is in memory until it is written.
const (
	groupRows  = 1 << 20
	groupBytes = 128 << 20
)

// parquetSink writes Parquet.
type parquetSink struct {
	w     *pqarrow.FileWriter
	plain *arrow.Schema // that the library is given: what it writes without fault
	bytes int64         // in the row group so far
}

func newParquetSink(w io.Writer, schema *arrow.Schema) (sink, error) {
	fields := schema.Fields()
	for i, f := range fields {
		if lack := parquetLacks(f); lack != "" {
			what := arrowtype.Name(f)
			if lack != what {
				what += " with " + lack
			}
			return nil, fmt.Errorf("column %q is %s, which Parquet files are not written with here; .arrow has it, .jsonl and .csv write it as text", f.Name, what)
		}
		fields[i].Type = plainType(f.Type)
	}
	meta := schema.Metadata()
	told := arrow.NewSchema(fields, &meta)
	written := told.Fields()
	for i, f := range written {
		written[i].Type = freeLists(f.Type)
	}
	plain := arrow.NewSchema(written, &meta)
	props := parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd), parquet.WithMaxRowGroupLength(groupRows))
	f, err := pqarrow.NewFileWriter(plain, onlyWrite{w}, props, pqarrow.NewArrowWriterProperties())
	if err != nil {
		return nil, err
	}
	var stored bytes.Buffer
	if err := ipc.NewWriter(&stored, ipc.WithSchema(told)).Close(); err != nil {
		return nil, err
	}
	err = f.AppendKeyValueMetadata("ARROW:schema", base64.StdEncoding.EncodeToString(stored.Bytes()))
	return &parquetSink{w: f, plain: plain}, err
}

// onlyWrite hides Close, which pqarrow would call.
type onlyWrite struct{ io.Writer }

// parquetLacks names the type in a column that the library does not write, or
// would fail at in the midst of a file; empty if there is none.
func parquetLacks(f arrow.Field) string {
	switch t := bare(f.Type).(type) {
	case *arrow.DictionaryType:
		return parquetLacks(arrow.Field{Type: t.ValueType, Nullable: true})
	case *arrow.RunEndEncodedType:
		return parquetLacks(arrow.Field{Type: t.Encoded(), Nullable: true})
	case *arrow.NullType:
		if !f.Nullable {
			return "null that is not nullable"
		}
	case *arrow.Decimal128Type, *arrow.Decimal256Type:
		if d, _ := t.(arrow.DecimalType); d.GetScale() < 0 {
			return arrowtype.Name(f)
		}
	case *arrow.DurationType, *arrow.MonthIntervalType, *arrow.DayTimeIntervalType, *arrow.MonthDayNanoIntervalType,
		*arrow.Decimal32Type, *arrow.Decimal64Type, *arrow.SparseUnionType, *arrow.DenseUnionType:
		return arrowtype.Name(f)
	}
	if t, ok := bare(f.Type).(*arrow.StructType); ok && t.NumFields() == 0 {
		return "a struct of no members"
	}
	for _, below := range inner(bare(f.Type)) {
		if lack := parquetLacks(below); lack != "" {
			return lack
		}
	}
	return ""
}

// plainType is the type as Parquet can have it: views and runs have none there.
// Below a column it has no dictionaries either, which the library writes but
// cannot read.
func plainType(t arrow.DataType) arrow.DataType {
	if d, ok := t.(*arrow.DictionaryType); ok && arrow.TypeEqual(plainBelow(d.ValueType), d.ValueType) && !arrow.IsNested(bare(d.ValueType).ID()) {
		return t
	}
	return plainBelow(t)
}

func plainBelow(t arrow.DataType) arrow.DataType {
	switch t := t.(type) {
	case *arrow.StringViewType:
		return arrow.BinaryTypes.String
	case *arrow.BinaryViewType:
		return arrow.BinaryTypes.Binary
	case *arrow.RunEndEncodedType:
		return plainBelow(t.Encoded())
	case *arrow.DictionaryType:
		return plainBelow(t.ValueType)
	case *arrow.ListViewType:
		return plainBelow(arrow.ListOfField(t.ElemField()))
	case *arrow.LargeListViewType:
		return plainBelow(arrow.LargeListOfField(t.ElemField()))
	}
	return withInner(t, plainBelow)
}

// freeLists is the type with lists of any size for those of a fixed one. These
// are alike in Parquet, but the library writes no null of a fixed size.
func freeLists(t arrow.DataType) arrow.DataType {
	if t, ok := t.(*arrow.FixedSizeListType); ok {
		return freeLists(arrow.ListOfField(t.ElemField()))
	}
	return withInner(t, freeLists)
}

// withInner is the type with another for each below it. Items of lists have
// the name that Parquet gives them, and lists of a fixed size are nullable:
// readers miss the items of one that cannot be null itself in a null struct.
func withInner(t arrow.DataType, to func(arrow.DataType) arrow.DataType) arrow.DataType {
	changed := func(f arrow.Field) arrow.Field {
		f.Nullable = f.Nullable || f.Type.ID() == arrow.FIXED_SIZE_LIST
		f.Type = to(f.Type)
		return f
	}
	item := func(f arrow.Field) arrow.Field {
		f.Name = "element"
		return changed(f)
	}
	switch t := t.(type) {
	case *arrow.ListType:
		return arrow.ListOfField(item(t.ElemField()))
	case *arrow.LargeListType:
		return arrow.LargeListOfField(item(t.ElemField()))
	case *arrow.FixedSizeListType:
		return arrow.FixedSizeListOfField(t.Len(), item(t.ElemField()))
	case *arrow.StructType:
		members := t.Fields()
		for i, f := range members {
			members[i] = changed(f)
		}
		return arrow.StructOf(members...)
	case *arrow.MapType:
		m := arrow.MapOfFields(changed(t.KeyField()), changed(t.ItemField()))
		m.KeysSorted = t.KeysSorted
		return m
	}
	return t
}

func (s *parquetSink) write(batch arrow.RecordBatch, _ *array.Binary) error {
	columns := make([]arrow.Array, batch.NumCols())
	for i, c := range batch.Columns() {
		columns[i] = c
		want := s.plain.Field(i).Type
		// The library takes the values of some types (decimals, float16) for dense
		// where only a struct above them is null, and every value after it would
		// be that of another row; and it refuses lists whose nulls have items. What
		// is nested is therefore made anew: null below what is null.
		if !arrow.TypeEqual(want, c.DataType()) || arrow.IsNested(bare(want).ID()) {
			plain, _, err := convert(want, c)
			if err != nil {
				return fmt.Errorf("column %q: %w", s.plain.Field(i).Name, err)
			}
			defer plain.Release()
			columns[i] = plain
		}
		s.bytes += held(columns[i].Data())
	}
	plain := array.NewRecordBatch(s.plain, columns, batch.NumRows())
	defer plain.Release()
	if err := s.w.WriteBuffered(plain); err != nil {
		return err
	}
	if s.bytes < groupBytes {
		return nil
	}
	s.bytes = 0
	return s.w.NewBufferedRowGroupChecked()
}

func (s *parquetSink) close() error { return s.w.Close() }
