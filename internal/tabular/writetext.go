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

// appendCell appends a value. JSON that is a string is that string: CSV has
// nothing but text.
func appendCell(dst []byte, f arrow.Field, column arrow.Array, i int) []byte {
	if text, ok := column.(*array.String); ok && !isJSON(f) {
		return appendField(dst, text.Value(i))
	}
	text := string(AppendText(nil, column, i))
	if isJSON(f) && strings.HasPrefix(text, `"`) {
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
	keys [][]byte // with the colon
	json []bool   // columns whose text is JSON
	kept int
}

func newJSONLRows(schema *arrow.Schema, kept int) *jsonlRows {
	j := &jsonlRows{kept: kept}
	for _, f := range schema.Fields() {
		j.keys = append(j.keys, append(appendQuoted(nil, f.Name), ':'))
		j.json = append(j.json, isJSON(f))
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
	if j.json[c] && !IsNull(column, i) {
		if text, ok := textOf(column, i); ok {
			return appendJSONText(dst, text)
		}
	}
	if s, ok := textOf(column, i); ok && !IsNull(column, i) {
		if !utf8.ValidString(s) {
			return dst, notUTF8(s)
		}
	}
	return AppendJSON(dst, column, i), nil
}
