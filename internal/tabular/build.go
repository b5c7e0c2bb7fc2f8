package tabular

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/internal/arrowtype"
)

// jsonMark is the metadata of a text column whose values are JSON, as Arrow
// names that extension type.
var jsonMark = arrow.NewMetadata([]string{"ARROW:extension:name", "ARROW:extension:metadata"}, []string{"arrow.json", ""})

// table gathers rows of text into batches.
type table struct {
	schema *arrow.Schema
	build  builders
	rows   int
	bytes  int
	blanks int // bytes that nulls took, which no text stands for
	most   int // BatchBytesMax, less in tests

	// With KeepColumns: of each column of the file, the argument that it feeds,
	// or if none the builder of its text.
	kept  *arrow.Schema
	arg   []int
	extra []*array.StringBuilder
	// With KeepText.
	text *array.BinaryBuilder
}

func newTable(fields []arrow.Field) (*table, error) {
	t := &table{schema: argsSchema(fields), most: BatchBytesMax}
	for _, f := range fields {
		if err := readable(f.Type); err != nil {
			return nil, fmt.Errorf("column %q: %w", f.Name, err)
		}
		b := array.NewBuilder(memory.DefaultAllocator, f.Type)
		if _, extended := f.Metadata.GetValue(udfgate.ExtensionKey); extended || !simple(f.Type) {
			b = newValueBuilder(b, f, &t.blanks)
		}
		t.build = append(t.build, b)
	}
	return t, nil
}

// builders are those of the fields.
type builders []array.Builder

// Field is the builder of a field.
func (b builders) Field(i int) array.Builder { return b[i] }

// argsSchema is the fields as rows carry them. They may hold nulls whatever the
// function declares: what a null means is the function's affair.
func argsSchema(fields []arrow.Field) *arrow.Schema {
	nullable := make([]arrow.Field, len(fields))
	for i, f := range fields {
		nullable[i] = arrow.Field{Name: f.Name, Type: f.Type, Nullable: true, Metadata: f.Metadata}
	}
	return arrow.NewSchema(nullable, nil)
}

// keepColumns makes the table keep the columns that header names. Those that
// feed a field, as pick says, have its type; the others are text with the
// metadata mark.
func (t *table) keepColumns(header []string, pick []int, mark arrow.Metadata) {
	fields := make([]arrow.Field, len(header))
	t.arg, t.extra = make([]int, len(header)), make([]*array.StringBuilder, len(header))
	for i, name := range header {
		t.arg[i] = slices.Index(pick, i)
		if t.arg[i] >= 0 {
			field := t.schema.Field(t.arg[i])
			fields[i] = arrow.Field{Name: name, Type: field.Type, Nullable: true, Metadata: field.Metadata}
			continue
		}
		fields[i] = arrow.Field{Name: name, Type: arrow.BinaryTypes.String, Nullable: true, Metadata: mark}
		t.extra[i] = array.NewStringBuilder(memory.DefaultAllocator)
	}
	t.kept = arrow.NewSchema(fields, nil)
}

func (t *table) keepText() {
	t.text = array.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.Binary)
}

func (t *table) full(rowsMax int) bool { return t.rows >= rowsMax || t.bytes+t.blanks >= t.most }

// take ends the batch. A RecordBuilder derives the row count from its columns,
// of which a function without arguments has none.
func (t *table) take() *Rows {
	columns := make([]arrow.Array, len(t.build))
	for i, b := range t.build {
		columns[i] = b.NewArray()
		defer columns[i].Release()
	}
	rows := &Rows{Args: array.NewRecordBatch(t.schema, columns, int64(t.rows))}
	if t.kept != nil {
		all := make([]arrow.Array, len(t.arg))
		for i, arg := range t.arg {
			if arg >= 0 {
				all[i] = columns[arg]
				continue
			}
			all[i] = t.extra[i].NewArray()
			defer all[i].Release()
		}
		rows.Input = array.NewRecordBatch(t.kept, all, int64(t.rows))
	}
	if t.text != nil {
		rows.Text = t.text.NewBinaryArray()
	}
	t.rows, t.bytes, t.blanks = 0, 0, 0
	return rows
}

// simple are the types that a word of text stands for.
func simple(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.BOOL, arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64, arrow.UINT8, arrow.UINT16, arrow.UINT32,
		arrow.UINT64, arrow.FLOAT32, arrow.FLOAT64, arrow.STRING, arrow.BINARY:
		return true
	}
	return false
}

// canonical are the types that an argument may have.
func canonical(t arrow.DataType) bool { return arrowtype.Of(t).Kind.Canonical() }
