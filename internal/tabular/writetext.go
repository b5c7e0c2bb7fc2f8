package tabular

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// appendRecord appends a row as a record of CSV: null is an empty field, the
// empty text "".
func appendRecord(dst []byte, batch arrow.RecordBatch, text *array.Binary, i int) ([]byte, error) {
	if text != nil {
		dst = append(dst, text.Value(i)...)
	}
	for c, column := range batch.Columns() {
		if c > 0 || text != nil {
			dst = append(dst, ',')
		}
		if !IsNull(column, i) {
			dst = appendCell(dst, batch.Schema().Field(c), column, i)
		}
	}
	return append(dst, '\n'), nil
}

// appendCell appends a value. JSON that JSONL had in no argument and that is a
// string is that string: CSV has nothing but text.
func appendCell(dst []byte, f arrow.Field, column arrow.Array, i int) []byte {
	kept, plain := column.(*array.String)
	if plain && !isJSON(f) {
		return appendField(dst, kept.Value(i))
	}
	text := string(AppendFieldText(nil, f, column, i))
	if plain && f.Metadata.Equal(jsonMark) && strings.HasPrefix(text, `"`) {
		if plain, err := jsonText(arrow.BinaryTypes.String, "string", []byte(text)); err == nil {
			text = plain
		}
	}
	return appendField(dst, text)
}

// appendField appends text, in quotes where it would be read as something else
// without them.
func appendField(dst []byte, text string) []byte {
	if !strings.ContainsAny(text, ",\"\r\n") && text != "" && !strings.HasPrefix(text, "\ufeff") {
		return append(dst, text...)
	}
	dst = append(dst, '"')
	dst = append(dst, strings.ReplaceAll(text, `"`, `""`)...)
	return append(dst, '"')
}

// jsonlRows writes rows as objects of one line each.
type jsonlRows struct {
	keys   [][]byte // with the colon
	fields []arrow.Field
	kept   int
}

func newJSONLRows(schema *arrow.Schema, kept int) *jsonlRows {
	j := &jsonlRows{kept: kept, fields: schema.Fields()}
	for _, f := range j.fields {
		j.keys = append(j.keys, append(appendQuoted(nil, f.Name), ':'))
	}
	return j
}

// append appends a row. What is added to a row that is kept as text goes before
// its last bracket.
func (j *jsonlRows) append(dst []byte, batch arrow.RecordBatch, text *array.Binary, i int) ([]byte, error) {
	first, array, from := true, false, 0
	if text == nil {
		dst = append(dst, '{')
	} else {
		row := text.Value(i)
		array, from = row[0] == '[', j.kept
		open := bytes.TrimRight(row[:len(row)-1], " \t")
		first = len(open) == 1
		dst = append(dst, open...)
	}
	for c, column := range batch.Columns() {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		if !array {
			dst = append(dst, j.keys[from+c]...)
		}
		var err error
		if dst, err = j.value(dst, from+c, column, i); err != nil {
			return dst, err
		}
	}
	if array {
		return append(dst, "]\n"...), nil
	}
	return append(dst, "}\n"...), nil
}

func (j *jsonlRows) value(dst []byte, c int, column arrow.Array, i int) ([]byte, error) {
	if isJSON(j.fields[c]) && !IsNull(column, i) {
		text, ok := textOf(column, i)
		if !ok {
			text, ok = variantOf(column, i)
		}
		if ok {
			return appendJSONText(dst, text)
		}
	}
	if s, ok := textOf(column, i); ok && !IsNull(column, i) {
		if !utf8.ValidString(s) {
			return dst, notUTF8(s)
		}
	}
	return AppendFieldJSON(dst, j.fields[c], column, i), nil
}
