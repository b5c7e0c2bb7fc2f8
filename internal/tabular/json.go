package tabular

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
)

// JSONRows reads one JSON array of rows, each an array with one value per
// field: [[12, 18], [7, null]].
type JSONRows struct {
	fields  []arrow.Field
	dec     *json.Decoder
	table   *table
	row     int64
	keep    bool
	started bool
	done    bool
}

// NewJSONRows reads rows of the fields' types from r. Of the options Keep and
// Adds mean something here.
func NewJSONRows(r io.Reader, fields []arrow.Field, o Options) (*JSONRows, error) {
	t, err := newTable(fields)
	if err != nil {
		return nil, err
	}
	if err := free(fieldNames(fields), o); err != nil {
		return nil, err
	}
	return &JSONRows{fields: fields, dec: json.NewDecoder(r), table: t, keep: o.Keep != KeepNothing}, nil
}

// Next is Source's.
func (j *JSONRows) Next(rowsMax int) (*Rows, error) {
	if j.done {
		return nil, io.EOF
	}
	if !j.started {
		if err := j.delim('['); err != nil {
			return nil, err
		}
		j.started = true
	}
	for !j.table.full(rowsMax) {
		if !j.dec.More() {
			if err := j.end(); err != nil {
				return nil, err
			}
			break
		}
		if err := j.read(); err != nil {
			return nil, err
		}
	}
	if j.table.rows == 0 {
		return nil, io.EOF
	}
	rows := j.table.take()
	if j.keep {
		rows.Args.Retain()
		rows.Input = rows.Args
	}
	return rows, nil
}

// Kept is Source's: all that a row has is arguments.
func (j *JSONRows) Kept() *arrow.Schema {
	if !j.keep {
		return nil
	}
	return j.table.schema
}

// Note is Source's.
func (*JSONRows) Note() string { return "" }

func (j *JSONRows) delim(want json.Delim) error {
	token, err := j.dec.Token()
	if err != nil {
		return j.syntax(err)
	}
	if token != want {
		return fmt.Errorf("wanted an array of rows such as [[1, 2], [3, null]], got %v", token)
	}
	return nil
}

// end takes the closing bracket and refuses what follows it.
func (j *JSONRows) end() error {
	j.done = true
	if err := j.delim(']'); err != nil {
		return err
	}
	if token, err := j.dec.Token(); !errors.Is(err, io.EOF) {
		if err != nil {
			return j.syntax(err)
		}
		return fmt.Errorf("wanted nothing after the array of rows, got %v", token)
	}
	return nil
}

func (j *JSONRows) read() error {
	var raw json.RawMessage
	if err := j.dec.Decode(&raw); err != nil {
		return j.syntax(err)
	}
	where := fmt.Sprintf("row %d", j.row)
	var cells []json.RawMessage
	if jsonKind(raw) != "array" {
		return &CellError{Where: where, number: j.row + 1, Err: fmt.Errorf("wanted an array of %s, got %s", count(len(j.fields), "value"), clip(string(raw)))}
	}
	if err := json.Unmarshal(raw, &cells); err != nil {
		return &CellError{Where: where, number: j.row + 1, Err: err}
	}
	if len(cells) != len(j.fields) {
		return &CellError{Where: where, number: j.row + 1, Err: fmt.Errorf("wanted %s, got %d", count(len(j.fields), "value"), len(cells))}
	}
	for i, cell := range cells {
		b := j.table.build.Field(i)
		if jsonKind(cell) == "null" {
			b.AppendNull()
			continue
		}
		if err := appendJSON(b, cell); err != nil {
			return &CellError{Where: where, number: j.row + 1, Column: columnAt(i, j.fields[i].Name), Err: err}
		}
	}
	j.row++
	j.table.rows++
	j.table.bytes += len(raw)
	return nil
}

func (j *JSONRows) syntax(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("JSON ends too early, after %s", count(j.row, "row"))
	}
	return fmt.Errorf("after %s: not JSON: %w", count(j.row, "row"), err)
}

func count[N int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
