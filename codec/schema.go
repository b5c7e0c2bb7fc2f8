package codec

import (
	"fmt"
	"unicode/utf8"

	"github.com/udfgate/udfgate"
)

// Bounds of a schema. Only hostile ones come near them.
const (
	schemaColumnsMax = 100_000
	schemaDepthMax   = 32 // levels of nested types below a column
	schemaTextReuse  = 8  // bytes of text may be referred to this often, on average
	tableBytesMin    = 8  // of a table in a vector: its offset there and its own
	quotedBytesMax   = 64
)

// ReadSchema reads the header of a Schema message. Metadata of the schema and
// of its fields is kept in the order sent.
//
// # Errors
//
// *udfgate.Error Invalid: malformed for a header that is none, and for
// big-endian data; unsupported names the first column whose type is not built.
func ReadSchema(header []byte) (udfgate.Schema, error) {
	var m Message
	if err := ReadMessage(header, &m); err != nil {
		return udfgate.Schema{}, err
	}
	if m.Kind != KindSchema {
		return udfgate.Schema{}, malformed("Message.header_type: wanted a schema, got a record batch")
	}
	s := newSchemaReader(header)
	schema := s.schema(s.child(s.root("Message"), 2, "Message.header"))
	if err := s.err(); err != nil {
		return udfgate.Schema{}, err
	}
	if s.refused != nil {
		return udfgate.Schema{}, s.refused
	}
	return schema, nil
}

// schemaReader reads a schema whole before it refuses a type: a header that
// is malformed says so even where an earlier column is of a type not built.
type schemaReader struct {
	fbReader
	all     string // the header again, to cut strings from
	refused error  // the first thing that is sound, and not taken

	// A flatbuffer may refer to one table or string many times, which turns
	// few bytes into much work. These bound it by the bytes that came.
	tablesLeft int
	textLeft   int
}

// newSchemaReader copies the header once: the copy backs every name and value,
// so what is kept is never longer than what came.
func newSchemaReader(header []byte) schemaReader {
	return schemaReader{
		fbReader:   fbReader{b: header},
		all:        string(header),
		tablesLeft: len(header) / tableBytesMin,
		textLeft:   len(header) * schemaTextReuse,
	}
}

// refuse notes the first thing that is not taken.
func (s *schemaReader) refuse(shape udfgate.Shape, format string, args ...any) {
	if s.refused == nil {
		s.refused = udfgate.Invalidf(shape, format, args...)
	}
}

func (s *schemaReader) schema(t fbTable) udfgate.Schema {
	switch endian := s.int16(t, 0, "Schema.endianness"); endian {
	case 0:
	case 1:
		s.refuse(udfgate.ShapeMalformed, "invalid schema: big-endian data is not taken; wanted little-endian")
	default:
		s.fail("Schema.endianness", t.pos, fmt.Sprintf("wanted 0 or 1, got %d", endian))
	}
	fields := s.tables(t, 1, "Schema.fields")
	if fields.len > schemaColumnsMax {
		s.fail("Schema.fields", fields.pos, fmt.Sprintf("too many columns: wanted at most %d, got %d", schemaColumnsMax, fields.len))
	}
	out := udfgate.Schema{Metadata: s.metadata(t, 2, "Schema.custom_metadata")}
	if !s.ok() {
		return out
	}
	out.Fields = make([]udfgate.Field, fields.len)
	for i := range out.Fields {
		out.Fields[i] = s.column(s.element(fields, i, "Schema.fields"), i)
		if !s.ok() {
			break
		}
	}
	return out
}

// column reads one top-level field.
func (s *schemaReader) column(t fbTable, number int) udfgate.Field {
	what := func(name string) string { return fmt.Sprintf("column %d %s", number, quoted(name)) }
	return s.field(t, what, 1)
}

// field reads a field and those below it. what names the column that it
// belongs to, given the name of that column.
func (s *schemaReader) field(t fbTable, what func(string) string, depth int) udfgate.Field {
	f := udfgate.Field{
		Name:     s.string(t, 0, "Field.name"),
		Nullable: s.uint8(t, 1, "Field.nullable") != 0,
		Metadata: s.metadata(t, 6, "Field.custom_metadata"),
	}
	if !utf8.ValidString(f.Name) {
		s.fail("Field.name", t.pos, "not UTF-8")
		return f
	}
	name := what(f.Name)
	f.Type = s.fieldType(t, name)
	children := s.tables(t, 5, "Field.children")
	if wanted := childrenWanted(f.Type.Kind); s.ok() && wanted >= 0 && wanted != children.len && f.Type.Kind != udfgate.KindInvalid {
		s.fail(name, t.pos, fmt.Sprintf("type %s with %d children, wanted %d", f.Type.Kind, children.len, wanted))
	}
	if children.len > 0 && depth > schemaDepthMax {
		s.fail(name, t.pos, fmt.Sprintf("nested deeper than %d levels", schemaDepthMax))
	}
	if !s.ok() {
		return f
	}
	if children.len > 0 { // nil otherwise, so that equal schemas are deeply equal
		f.Type.Children = make([]udfgate.Field, children.len)
	}
	for i := range f.Type.Children {
		f.Type.Children[i] = s.field(s.element(children, i, "Field.children"), func(string) string { return name }, depth+1)
		if !s.ok() {
			return f
		}
	}
	s.checkChildren(&f, t, name)
	s.dictionary(&f, t, name)
	f.Type.Extension = extension(f.Metadata)
	return f
}

// checkChildren refuses children that their type does not allow.
func (s *schemaReader) checkChildren(f *udfgate.Field, t fbTable, name string) {
	switch c := f.Type.Children; f.Type.Kind {
	case udfgate.Map:
		if entries := c[0].Type; entries.Kind != udfgate.Struct || len(entries.Children) != 2 {
			s.fail(name, t.pos, fmt.Sprintf("map of %s, wanted a struct of key and value", entries))
		}
	case udfgate.RunEndEncoded:
		if k := c[0].Type.Kind; k != udfgate.Int16 && k != udfgate.Int32 && k != udfgate.Int64 {
			s.fail(name, t.pos, fmt.Sprintf("run ends of %s, wanted int16, int32 or int64", k))
		}
	}
}

// dictionary makes the type of a dictionary-encoded field: Arrow writes the
// type of its values in the place of its own.
func (s *schemaReader) dictionary(f *udfgate.Field, t fbTable, name string) {
	encoding := s.child(t, 4, "Field.dictionary")
	if !s.ok() || encoding.pos == 0 {
		return
	}
	indices := udfgate.Int32
	if index := s.child(encoding, 1, "DictionaryEncoding.indexType"); index.pos != 0 {
		var fault string
		indices, fault = intKind(s.int32(index, 0, "Int.bitWidth"), s.uint8(index, 1, "Int.is_signed") != 0)
		if fault != "" {
			s.fail(name, index.pos, fault)
			return
		}
	}
	f.Type = udfgate.Type{Kind: udfgate.Dictionary, ID: s.int64(encoding, 0, "DictionaryEncoding.id"), Children: []udfgate.Field{
		{Name: "indices", Type: udfgate.Type{Kind: indices}},
		{Name: "values", Type: f.Type, Nullable: true, Metadata: f.Metadata},
	}}
}

// extension is the extension type that field metadata names, if any.
func extension(metadata []udfgate.KeyValue) string {
	for _, kv := range metadata {
		if kv.Key == udfgate.ExtensionKey {
			return kv.Value
		}
	}
	return ""
}

// quoted is text of the sender's as messages show it, never longer than a line.
func quoted(text string) string {
	if len(text) > quotedBytesMax {
		text = text[:quotedBytesMax] + "…"
	}
	return fmt.Sprintf("%q", text)
}

// fieldType reads the type of a field without its children; of a union only
// that it is refused.
func (s *schemaReader) fieldType(t fbTable, name string) udfgate.Type {
	number := s.uint8(t, 2, "Field.type_type")
	content := s.child(t, 3, "Field.type")
	if !s.ok() {
		return udfgate.Type{}
	}
	if number == 0 || number >= typesEnd {
		s.fail(name, t.pos, fmt.Sprintf("unknown type number %d", number))
		return udfgate.Type{}
	}
	if content.pos == 0 {
		s.fail(name, t.pos, "no Field.type")
		return udfgate.Type{}
	}
	if number == typeUnion {
		s.refuse(udfgate.ShapeUnsupported, "%s: unions are not taken", name)
		return udfgate.Type{}
	}
	typ, fault := s.describe(number, content)
	if fault != "" {
		s.fail(name, content.pos, fault)
	}
	return typ
}

// tables is a vector of tables, charged to what the header has room for.
func (s *schemaReader) tables(t fbTable, i int, name string) fbVector {
	v := s.vector(t, i, 4, 4, name)
	if v.len > s.tablesLeft {
		s.fail(name, v.pos, "more entries than the header has room for")
		return fbVector{}
	}
	s.tablesLeft -= v.len
	return v
}

// string is the text in field i, "" if it is absent.
func (s *schemaReader) string(t fbTable, i int, name string) string {
	v := s.str(t, i, name)
	if v.len > s.textLeft {
		s.fail(name, v.pos, "more text than the header has room for")
		return ""
	}
	s.textLeft -= v.len
	return s.all[v.pos : v.pos+v.len]
}

// metadata is the key-value pairs in field i, nil if there are none. Values
// may be any bytes: extension types serialise themselves into them.
func (s *schemaReader) metadata(t fbTable, i int, name string) []udfgate.KeyValue {
	v := s.tables(t, i, name)
	if v.len == 0 {
		return nil
	}
	pairs := make([]udfgate.KeyValue, 0, v.len)
	for j := 0; j < v.len && s.ok(); j++ {
		kv := s.element(v, j, name)
		pairs = append(pairs, udfgate.KeyValue{
			Key:   s.string(kv, 0, "KeyValue.key"),
			Value: s.string(kv, 1, "KeyValue.value"),
		})
	}
	return pairs
}
