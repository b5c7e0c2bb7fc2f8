// Package tabular turns rows of text (CSV, JSON) into record batches of given
// types, and values of record batches back into text. Types always come from
// the caller, never from a guess at the data. It knows no gateway.
package tabular

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// BatchBytesMax ends a batch early, however few rows it has: text of any
// length must not make a batch that no gateway would take.
const BatchBytesMax = 32 << 20

// Source is rows that come in batches.
type Source interface {
	// Next returns up to rowsMax rows, at least one, or io.EOF. The batch is
	// the caller's to release. Another error names the place in the input.
	Next(rowsMax int) (arrow.RecordBatch, error)
}

// CellError says where in the input a value does not fit its column.
type CellError struct {
	Where  string // "row 1" or "line 3"
	Column string // `column 2 "b"`; empty if the whole row is at fault
	Err    error
}

// Error is `line 3, column 2 "b": wanted int64, got "abc"`.
func (e *CellError) Error() string {
	s := e.Where
	if e.Column != "" {
		s += ", " + e.Column
	}
	return s + ": " + e.Err.Error()
}

// Unwrap returns what is wrong with the value.
func (e *CellError) Unwrap() error { return e.Err }

// columnAt is how errors name a column: by number and name. In files it is
// counted from 1 as editors do, in JSON from 0 like its row.
func columnAt(number int, name string) string {
	return fmt.Sprintf("column %d %q", number, name)
}

// table gathers rows into one batch.
type table struct {
	schema *arrow.Schema
	build  *array.RecordBuilder
	rows   int
	bytes  int
	most   int // BatchBytesMax, less in tests
}

func newTable(fields []arrow.Field) (*table, error) {
	nullable := make([]arrow.Field, len(fields))
	for i, f := range fields {
		if !supported(f.Type) {
			return nil, fmt.Errorf("column %q: text cannot be read as %s yet", f.Name, f.Type)
		}
		// The rows may hold nulls whatever the function declares: what a null
		// means is the function's affair.
		nullable[i] = arrow.Field{Name: f.Name, Type: f.Type, Nullable: true}
	}
	schema := arrow.NewSchema(nullable, nil)
	return &table{schema: schema, most: BatchBytesMax, build: array.NewRecordBuilder(memory.DefaultAllocator, schema)}, nil
}

func (t *table) full(rowsMax int) bool { return t.rows >= rowsMax || t.bytes >= t.most }

// take ends the batch. RecordBuilder derives the row count from its columns,
// of which a function without arguments has none.
func (t *table) take() arrow.RecordBatch {
	columns := make([]arrow.Array, len(t.build.Fields()))
	for i, b := range t.build.Fields() {
		columns[i] = b.NewArray()
		defer columns[i].Release()
	}
	batch := array.NewRecordBatch(t.schema, columns, int64(t.rows))
	t.rows, t.bytes = 0, 0
	return batch
}

func supported(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.BOOL, arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64, arrow.UINT8, arrow.UINT16, arrow.UINT32,
		arrow.UINT64, arrow.FLOAT32, arrow.FLOAT64, arrow.STRING, arrow.BINARY:
		return true
	}
	return false
}
