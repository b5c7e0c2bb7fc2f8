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
	// File is the name of the file: one that ends in .gz has to be gzip, another
	// must not be. Without a name the first bytes decide.
	File string
}

// CSV reads a file with a header row. An empty field is null, "" is the empty
// text.
type CSV struct {
	fields []arrow.Field
	scan   *scanner
	header []string
	pick   []int // of each field, its column in the file
	note   string
	table  *table
	null   string
}

// NewCSV reads the header from r; gzip is unpacked on the way (CSVOptions.File).
func NewCSV(r io.Reader, fields []arrow.Field, o CSVOptions) (*CSV, error) {
	t, err := newTable(fields)
	if err != nil {
		return nil, err
	}
	in, err := unpacked(bufio.NewReaderSize(r, readBytes), o.File)
	if err != nil {
		return nil, err
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
	if err == nil && len(o.Columns) == 0 {
		c.note = positionNote(c.header, fields)
	}
	return c, err
}

// unpacked is what a file holds, with its gzip taken off.
func unpacked(in *bufio.Reader, file string) (*bufio.Reader, error) {
	magic, err := in.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	zipped := bytes.Equal(magic, []byte{0x1f, 0x8b})
	switch named := strings.HasSuffix(file, ".gz"); {
	case named && !zipped:
		return nil, errors.New("wanted gzip, as the name says; the file is not gzip")
	case !named && zipped && file != "":
		return nil, errors.New("wanted text, as the name says; the file is gzip (name it .csv.gz)")
	case !zipped:
		return in, nil
	}
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, badGzip(err)
	}
	return bufio.NewReaderSize(unzip{z}, readBytes), nil
}

// unzip says of the errors of gzip whose they are.
type unzip struct{ z *gzip.Reader }

func (u unzip) Read(p []byte) (int, error) {
	n, err := u.z.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = badGzip(err)
	}
	return n, err
}

func badGzip(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return errors.New("the gzip file is cut short")
	}
	return fmt.Errorf("the gzip file is damaged: %w", err)
}

// Note is a sentence for the user if the columns are taken by position although
// their names say something else; empty if not.
func (c *CSV) Note() string { return c.note }

func positionNote(header []string, fields []arrow.Field) string {
	missing := slices.IndexFunc(fields, func(f arrow.Field) bool { return !slices.Contains(header, f.Name) })
	if missing < 0 {
		return ""
	}
	pairs := make([]string, len(fields))
	for i, f := range fields {
		pairs[i] = f.Name + " = " + quote(header[i])
	}
	first := fmt.Sprintf("first %d columns", len(fields))
	if len(fields) == 1 {
		first = "first column"
	}
	return fmt.Sprintf("no column %q: taking the %s by position: %s", fields[missing].Name, first, strings.Join(pairs, ", "))
}

// otherSeparator is what to add where one column looks like several.
func otherSeparator(header []string) string {
	if len(header) == 1 && strings.ContainsAny(header[0], ";\t|") {
		return "; fields are separated by commas"
	}
	return ""
}

// list is the names as an error repeats them: quoted only where they need it,
// and not all of a file that is no CSV.
func list(names []string) string {
	var b strings.Builder
	for i, name := range names {
		if i > 0 {
			b.WriteString(", ")
		}
		if b.Len() > listedMax {
			return b.String() + "…"
		}
		if len(name) > quotedMax || quote(name) != `"`+name+`"` {
			name = quote(name)
		}
		b.WriteString(name)
	}
	return b.String()
}

// listedMax bounds how much of a header an error repeats.
const listedMax = 200

// pickColumns decides which column of the file feeds each field.
func pickColumns(header []string, fields []arrow.Field, columns []string) ([]int, error) {
	if len(columns) > 0 {
		if len(columns) != len(fields) {
			return nil, fmt.Errorf("wanted %d column names, got %d (%s)", len(fields), len(columns), list(columns))
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
		return nil, fmt.Errorf("wanted %d columns (%s), got %d (%s)%s", len(fields), strings.Join(names, ", "), len(header), list(header), otherSeparator(header))
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
			return nil, fmt.Errorf("no column %q; the file has %s", name, list(header))
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
