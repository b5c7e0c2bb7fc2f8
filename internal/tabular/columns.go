package tabular

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// header is the columns of a file and which of them feed the fields.
type header struct {
	names []string
	pick  []int // of each field, its column in the file
	note  string
}

// newHeader decides which column of the file feeds each field, and refuses a
// name that the output would have twice.
func newHeader(names []string, fields []arrow.Field, o Options) (header, error) {
	h := header{names: names}
	var err error
	if h.pick, err = pickColumns(names, fields, o.Columns); err != nil {
		return h, err
	}
	if len(o.Columns) == 0 {
		h.note = positionNote(names, fields)
	}
	return h, free(names, o)
}

// Note is Source's.
func (h *header) Note() string { return h.note }

// free is an error if the file has a column that the output adds.
func free(names []string, o Options) error {
	if o.Keep == KeepNothing {
		return nil
	}
	for _, name := range o.Adds {
		if slices.Contains(names, name) {
			return fmt.Errorf("column %q is there already, and the output would have it twice", name)
		}
	}
	return nil
}

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
	return fmt.Sprintf("no column %q: taking the %s by position: %s%s", fields[missing].Name, first, strings.Join(pairs, ", "), otherSeparator(header))
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
		if err := oneEach(fields, columns); err != nil {
			return nil, err
		}
		return byName(header, columns)
	}
	names := fieldNames(fields)
	if !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(header, name) }) {
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

func oneEach(fields []arrow.Field, columns []string) error {
	if len(columns) != len(fields) {
		return fmt.Errorf("wanted %d column names, got %d (%s)", len(fields), len(columns), list(columns))
	}
	return nil
}

func fieldNames(fields []arrow.Field) []string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
	}
	return names
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
