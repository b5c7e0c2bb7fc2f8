package tabular

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
)

// nullSpellings are what other programs write for null, and no number is.
var nullSpellings = []string{"NA", "N/A", "NULL", "null", "None", "-"}

// CSV reads a file with a header row. An empty field is null, "" is the empty
// text.
type CSV struct {
	header
	scan  *scanner
	table *table
	null  string
	in    *meter
}

// NewCSV reads the header from r; gzip is unpacked on the way (Options.File).
func NewCSV(r io.Reader, fields []arrow.Field, o Options) (*CSV, error) {
	t, err := newTable(fields)
	if err != nil {
		return nil, err
	}
	in := &meter{r: r, size: o.Size}
	text, err := unpacked(in, o.File)
	if err != nil {
		return nil, err
	}
	c := &CSV{scan: newScanner(text), table: t, null: o.Null, in: in}
	cells, err := c.scan.record()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("wanted a header row, got an empty file")
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, cell := range cells {
		names = append(names, string(cell.text))
	}
	if c.header, err = newHeader(names, fields, o); err != nil {
		return nil, err
	}
	switch o.Keep {
	case KeepColumns:
		t.keepColumns(names, c.pick, arrow.Metadata{})
	case KeepText:
		t.keepText()
	}
	return c, nil
}

// Kept is Source's.
func (c *CSV) Kept() *arrow.Schema {
	if c.table.text == nil {
		return c.table.kept
	}
	fields := make([]arrow.Field, len(c.names))
	for i, name := range c.names {
		fields[i] = arrow.Field{Name: name, Type: arrow.BinaryTypes.String, Nullable: true}
	}
	return arrow.NewSchema(fields, nil)
}

// Next is Source's.
func (c *CSV) Next(rowsMax int) (*Rows, error) {
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
	rows := c.table.take()
	rows.Share = c.in.share()
	return rows, nil
}

func (c *CSV) isNull(cell cell) bool {
	return !cell.quoted && (len(cell.text) == 0 || c.null != "" && string(cell.text) == c.null)
}

func (c *CSV) add(cells []cell) error {
	if len(cells) != len(c.names) {
		// A blank line holds no row, unless it is the null of a one-column file.
		if len(cells) == 1 && len(cells[0].text) == 0 && !cells[0].quoted {
			return nil
		}
		return &CellError{Where: c.line(), Err: fmt.Errorf("wanted %d fields as in the header, got %d", len(c.names), len(cells))}
	}
	for i, at := range c.pick {
		b := c.table.build.Field(i)
		cell := cells[at]
		c.table.bytes += len(cell.text)
		if c.isNull(cell) {
			b.AppendNull()
			continue
		}
		if err := appendText(b, string(cell.text)); err != nil {
			if !cell.quoted && slices.Contains(nullSpellings, string(cell.text)) {
				err = fmt.Errorf("%w; --csv-null %[2]s takes it as null", err, cell.text)
			}
			return &CellError{Where: c.line(), Column: columnAt(at+1, c.names[at]), Err: err}
		}
	}
	c.table.rows++
	return c.keep(cells)
}

// keep adds what else of the record is wanted.
func (c *CSV) keep(cells []cell) error {
	for i, b := range c.table.extra {
		if b == nil {
			continue
		}
		c.table.bytes += len(cells[i].text)
		if c.isNull(cells[i]) {
			b.AppendNull()
		} else if err := appendText(b, string(cells[i].text)); err != nil {
			return &CellError{Where: c.line(), Column: columnAt(i+1, c.names[i]), Err: err}
		}
	}
	if c.table.text != nil {
		text := recordText(cells)
		c.table.text.Append(text)
		c.table.bytes += len(text)
	}
	return nil
}

func (c *CSV) line() string { return fmt.Sprintf("line %d", c.scan.line) }

// recordText is a record as it stands in its file, but for the end of the line.
func recordText(cells []cell) []byte {
	var out []byte
	for i, cell := range cells {
		if i > 0 {
			out = append(out, ',')
		}
		if !cell.quoted {
			out = append(out, cell.text...)
			continue
		}
		out = append(out, '"')
		out = append(out, bytes.ReplaceAll(cell.text, []byte(`"`), []byte(`""`))...)
		out = append(out, '"')
	}
	return out
}
