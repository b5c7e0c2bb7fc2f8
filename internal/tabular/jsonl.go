package tabular

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
)

// Of the lines that are read ahead to find the columns of a file: a member that
// comes up later than these is an error where columns are kept.
const (
	aheadLines = 1000
	aheadBytes = 8 << 20
)

// JSONL reads a file of one JSON object per line, its members taken by name, or
// of one JSON array per line, its values taken by position. Blank lines hold no
// row.
type JSONL struct {
	fields  []arrow.Field
	wanted  []string // the member of each field
	options Options
	table   *table
	in      *meter
	r       *bufio.Reader
	long    []byte // a line that is longer than the buffer
	line    int
	ahead   [][]byte
	arrays  bool
	known   bool // whether arrays is decided
	members []member
	find    finder
	raw     []json.RawMessage // of each field
	names   []string          // with KeepColumns, of the columns
	isName  map[string]bool   // of names
}

// NewJSONL reads lines from r; gzip is unpacked on the way (Options.File).
func NewJSONL(r io.Reader, fields []arrow.Field, o Options) (*JSONL, error) {
	t, err := newTable(fields)
	if err != nil {
		return nil, err
	}
	j := &JSONL{fields: fields, wanted: fieldNames(fields), options: o, table: t, in: &meter{r: r, size: o.Size}, raw: make([]json.RawMessage, len(fields))}
	if len(o.Columns) > 0 {
		if err := oneEach(fields, o.Columns); err != nil {
			return nil, err
		}
		j.wanted = o.Columns
	}
	if j.r, err = unpacked(j.in, o.File); err != nil {
		return nil, err
	}
	if mark, err := j.r.Peek(3); err == nil && bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		_, _ = j.r.Discard(3) // what Peek returned is buffered, so this cannot fail
	}
	switch o.Keep {
	case KeepText:
		t.keepText()
	case KeepColumns:
		return j, j.findColumns()
	}
	return j, nil
}

// Kept is Source's.
func (j *JSONL) Kept() *arrow.Schema { return j.table.kept }

// Note is Source's.
func (*JSONL) Note() string { return "" }

// findColumns reads ahead: the columns are the members of the first lines in
// the order in which they come up.
func (j *JSONL) findColumns() error {
	j.isName = map[string]bool{}
	for total := 0; len(j.ahead) < aheadLines && total < aheadBytes; {
		line, err := j.readLine()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		total += len(line)
		j.ahead = append(j.ahead, bytes.Clone(line))
		if bytes.HasPrefix(bytes.TrimLeft(line, " \t\r"), []byte("[")) {
			continue // values of arrays have no names
		}
		j.members = splitMembers(line, j.members[:0])
		for _, m := range j.members {
			if !j.isName[m.name] {
				j.isName[m.name] = true
				j.names = append(j.names, m.name)
			}
		}
	}
	j.line = 0
	if len(j.names) == 0 {
		j.names = j.wanted // rows are arrays, or there are none
		for _, name := range j.names {
			j.isName[name] = true
		}
	}
	pick := make([]int, len(j.wanted))
	for i, name := range j.wanted {
		pick[i] = slices.Index(j.names, name) // a member that is missing is an error of its line
	}
	j.table.keepColumns(j.names, pick, jsonMark)
	return nil
}

// Next is Source's.
func (j *JSONL) Next(rowsMax int) (*Rows, error) {
	for !j.table.full(rowsMax) {
		line, err := j.nextLine()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if line = bytes.Trim(line, " \t\r"); len(line) == 0 {
			continue
		}
		if err := j.add(line); err != nil {
			if cell, ok := errors.AsType[*CellError](err); ok && cell.Where == "" {
				cell.Where = j.where()
				return nil, cell
			}
			return nil, &CellError{Where: j.where(), Err: err}
		}
	}
	if j.table.rows == 0 {
		return nil, io.EOF
	}
	rows := j.table.take()
	rows.Share = j.in.share()
	return rows, nil
}

func (j *JSONL) where() string { return fmt.Sprintf("line %d", j.line) }

// nextLine is the next line of those read ahead, then of the file.
func (j *JSONL) nextLine() ([]byte, error) {
	if len(j.ahead) == 0 {
		return j.readLine()
	}
	line := j.ahead[0]
	j.ahead = j.ahead[1:]
	j.line++
	return line, nil
}

// readLine reads a line, valid until the next one. It counts it too.
func (j *JSONL) readLine() ([]byte, error) {
	line, err := j.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		j.long = append(j.long[:0], line...)
		for errors.Is(err, bufio.ErrBufferFull) {
			if len(j.long) > recordBytesMax {
				return nil, fmt.Errorf("line %d: longer than %d MiB", j.line+1, recordBytesMax>>20)
			}
			line, err = j.r.ReadSlice('\n')
			j.long = append(j.long, line...)
		}
		line = j.long
	}
	if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
		return nil, cause(err)
	}
	j.line++
	return bytes.TrimSuffix(line, []byte("\n")), nil
}

// add takes one row.
func (j *JSONL) add(line []byte) error {
	if !utf8.Valid(line) {
		return errors.New("wanted UTF-8, got other bytes")
	}
	if !json.Valid(line) {
		var v json.RawMessage
		return fmt.Errorf("not JSON: %w%s", json.Unmarshal(line, &v), perLine(line))
	}
	if err := j.kind(line); err != nil {
		return err
	}
	if err := j.pick(line); err != nil {
		return err
	}
	for i, raw := range j.raw {
		b := j.table.build.Field(i)
		if raw[0] == 'n' {
			b.AppendNull()
			continue
		}
		if err := appendJSON(b, raw); err != nil {
			return &CellError{Column: j.column(i), Err: err}
		}
	}
	j.table.rows++
	j.table.bytes += len(line)
	if j.table.text != nil {
		j.table.text.Append(line)
	}
	if j.arrays || j.table.kept == nil {
		return nil
	}
	return j.keepMembers()
}

func (j *JSONL) column(i int) string {
	if j.arrays {
		return columnAt(i, j.fields[i].Name)
	}
	return fmt.Sprintf("member %q", j.wanted[i])
}

// kind sees to it that all lines are of one kind.
func (j *JSONL) kind(line []byte) error {
	arrays := line[0] == '['
	if arrays && bytes.HasPrefix(bytes.TrimLeft(line[1:], " \t"), []byte("{")) {
		return errors.New("wanted one object per line, got an array of objects (jq -c '.[]' makes lines of it)")
	}
	if !arrays && line[0] != '{' {
		return fmt.Errorf("wanted an object, got %s", clip(string(line)))
	}
	if !j.known {
		if arrays && len(j.options.Columns) > 0 {
			return errors.New("wanted an object with the members that --columns names, got an array")
		}
		j.known, j.arrays = true, arrays
	}
	if arrays != j.arrays {
		return fmt.Errorf("wanted an %s as in the lines before, got an %s", kindName(j.arrays), kindName(arrays))
	}
	return nil
}

// perLine is what to add where a line looks like the first of a JSON text that
// goes on in the next one.
func perLine(line []byte) string {
	switch {
	case len(line) == 1 && line[0] == '[', bytes.HasPrefix(line, []byte("[{")) && line[len(line)-1] == ',':
		return "; wanted one object per line, and this looks like an array over several (jq -c '.[]' makes lines of it)"
	case len(line) == 1 && line[0] == '{':
		return "; wanted one object per line, and this looks like one over several (jq -c . makes a line of each)"
	}
	return ""
}

func kindName(array bool) string {
	if array {
		return "array"
	}
	return "object"
}

// pick finds the value of each field in the line.
func (j *JSONL) pick(line []byte) error {
	j.members = splitMembers(line, j.members[:0])
	if j.arrays {
		if len(j.members) != len(j.fields) {
			return fmt.Errorf("wanted %s, got %d", count(len(j.fields), "value"), len(j.members))
		}
		for i, m := range j.members {
			j.raw[i] = m.value
		}
		return nil
	}
	if twice, ok := j.find.over(j.members); !ok {
		return fmt.Errorf("member %q is there twice", twice)
	}
	for _, m := range j.members {
		if j.options.Keep != KeepNothing && slices.Contains(j.options.Adds, m.name) {
			return fmt.Errorf("member %q is there already, and the output would have it twice", m.name)
		}
	}
	for i, name := range j.wanted {
		at := j.find.at(name)
		if at < 0 {
			return fmt.Errorf("no member %q; the object has %s", name, j.memberList())
		}
		j.raw[i] = j.members[at].value
	}
	return nil
}

func (j *JSONL) memberList() string {
	if len(j.members) == 0 {
		return "none"
	}
	names := make([]string, len(j.members))
	for i, m := range j.members {
		names[i] = m.name
	}
	return list(names)
}

// keepMembers keeps those members that are no arguments as JSON text.
func (j *JSONL) keepMembers() error {
	for i, b := range j.table.extra {
		if b == nil {
			continue
		}
		at := j.find.at(j.names[i])
		if at < 0 || j.members[at].value[0] == 'n' {
			b.AppendNull()
			continue
		}
		b.Append(string(j.members[at].value))
	}
	for _, m := range j.members {
		if !j.isName[m.name] {
			return fmt.Errorf("member %q is in none of the first %d lines, which say the columns of the output (--output FILE.jsonl keeps any member)", m.name, aheadLines)
		}
	}
	return nil
}
