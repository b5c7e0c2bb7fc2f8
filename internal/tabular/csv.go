package tabular

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// readBytes is the buffer in front of the file.
const readBytes = 256 << 10

// CSVOptions say how a file's columns become the fields.
type CSVOptions struct {
	// Columns names the columns to take, one per field, in the fields' order.
	// Empty: the columns of the fields' names if all are there, else the first
	// ones by position.
	Columns []string
	// Null is a further spelling of null besides the empty field.
	Null string
}

// CSV reads a file with a header row. An empty field is null, "" is the empty
// text.
type CSV struct {
	fields []arrow.Field
	scan   *scanner
	header []string
	pick   []int // of each field, its column in the file
	table  *table
	null   string
}

// NewCSV reads the header from r; gzip is unpacked on the way.
func NewCSV(r io.Reader, fields []arrow.Field, o CSVOptions) (*CSV, error) {
	t, err := newTable(fields)
	if err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(r, readBytes)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unzip, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		in = bufio.NewReaderSize(unzip, readBytes)
	}
	c := &CSV{fields: fields, scan: newScanner(in), table: t, null: o.Null}
	cells, err := c.scan.record()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("wanted a header row, got an empty file")
	}
	if err != nil {
		return nil, err
	}
	for _, cell := range cells {
		c.header = append(c.header, string(cell.text))
	}
	c.pick, err = pickColumns(c.header, fields, o.Columns)
	return c, err
}

// pickColumns decides which column of the file feeds each field.
func pickColumns(header []string, fields []arrow.Field, columns []string) ([]int, error) {
	if len(columns) > 0 {
		if len(columns) != len(fields) {
			return nil, fmt.Errorf("wanted %d column names, got %d (%s)", len(fields), len(columns), strings.Join(columns, ", "))
		}
		return byName(header, columns)
	}
	names := make([]string, len(fields))
	all := true
	for i, f := range fields {
		names[i] = f.Name
		all = all && slices.Contains(header, f.Name)
	}
	if all {
		return byName(header, names)
	}
	if len(header) < len(fields) {
		return nil, fmt.Errorf("wanted %d columns (%s), got %d (%s)", len(fields), strings.Join(names, ", "), len(header), strings.Join(header, ", "))
	}
	pick := make([]int, len(fields))
	for i := range pick {
		pick[i] = i
	}
	return pick, nil
}

func byName(header, names []string) ([]int, error) {
	pick := make([]int, len(names))
	for i, name := range names {
		pick[i] = slices.Index(header, name)
		if pick[i] < 0 {
			return nil, fmt.Errorf("no column %q; the file has %s", name, strings.Join(header, ", "))
		}
		if slices.Contains(header[pick[i]+1:], name) {
			return nil, fmt.Errorf("column %q is there twice", name)
		}
	}
	return pick, nil
}

// Next is Source's.
func (c *CSV) Next(rowsMax int) (arrow.RecordBatch, error) {
	for !c.table.full(rowsMax) {
		cells, err := c.scan.record()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if err := c.add(cells); err != nil {
			return nil, err
		}
	}
	if c.table.rows == 0 {
		return nil, io.EOF
	}
	return c.table.take(), nil
}

func (c *CSV) add(cells []cell) error {
	where := fmt.Sprintf("line %d", c.scan.line)
	if len(cells) != len(c.header) {
		// A blank line holds no row, unless it is the null of a one-column file.
		if len(cells) == 1 && len(cells[0].text) == 0 && !cells[0].quoted {
			return nil
		}
		return &CellError{Where: where, Err: fmt.Errorf("wanted %d fields as in the header, got %d", len(c.header), len(cells))}
	}
	for i, at := range c.pick {
		b := c.table.build.Field(i)
		cell := cells[at]
		c.table.bytes += len(cell.text)
		if !cell.quoted && (len(cell.text) == 0 || c.null != "" && string(cell.text) == c.null) {
			b.AppendNull()
			continue
		}
		if err := appendText(b, string(cell.text)); err != nil {
			return &CellError{Where: where, Column: columnAt(at+1, c.header[at]), Err: err}
		}
	}
	c.table.rows++
	return nil
}
