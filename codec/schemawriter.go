package codec

import (
	"encoding/binary"
	"strconv"

	"github.com/udfgate/udfgate"
)

// continuation starts an encapsulated message.
const continuation = 0xFFFFFFFF

// EncapsulateSchema is the Schema message with the prefix that it has in a
// file or in FlightInfo.schema: a continuation mark and its length.
func EncapsulateSchema(s udfgate.Schema) []byte {
	b := AppendSchemaMessage(make([]byte, 8), s)
	binary.LittleEndian.PutUint32(b, continuation)
	binary.LittleEndian.PutUint32(b[4:], uint32(len(b)-8))
	return b
}

// AppendSchemaMessage appends the Schema message: a bare flatbuffer, a
// multiple of 8 long, for FlightData.data_header. A field of no kind is
// written as Arrow's null.
func AppendSchemaMessage(dst []byte, s udfgate.Schema) []byte {
	w := fbWriter{b: dst, start: len(dst)}
	root := w.uint32(0)
	message := w.table(
		fbField{width: 2, value: metadataV5},
		fbField{width: 1, value: headerSchema},
		fbField{width: 4},
		fbField{width: 8}, // no body
	)
	w.patch(root, message.pos)
	schema := w.table(
		fbField{width: 2}, // little-endian
		fbField{width: 4},
		fbField{width: 4 * present(s.Metadata)},
	)
	w.patch(message.field[2], schema.pos)
	fields := w.vector(schema.field[1], len(s.Fields))
	w.metadata(schema.field[2], s.Metadata)
	for i := range s.Fields {
		w.column(fields+4*i, &s.Fields[i])
	}
	w.align(8)
	return w.b
}

// present is 1 where there is metadata: an absent vector is shorter, and what
// every other writer sends.
func present(metadata []udfgate.KeyValue) int { return min(1, len(metadata)) }

// fbWriter appends a flatbuffer front to back: a table comes before what it
// refers to, so positions are patched when that is written. Positions count
// from start.
type fbWriter struct {
	b     []byte
	start int
}

// fbField is a scalar, or a place for an offset, of a table. Width 0: absent.
type fbField struct {
	width int
	value uint64
}

// fbPlaced is where a table and its fields were written.
type fbPlaced struct {
	pos   int
	field [7]int // as many as any table of Arrow's that is written here
}

func (w *fbWriter) len() int { return len(w.b) - w.start }

// align pads with zeros to a multiple of n.
func (w *fbWriter) align(n int) {
	for w.len()%n != 0 {
		w.b = append(w.b, 0)
	}
}

// uint32 appends a number, aligned, and returns where.
func (w *fbWriter) uint32(v uint32) int {
	w.align(4)
	w.b = binary.LittleEndian.AppendUint32(w.b, v)
	return w.len() - 4
}

// patch makes the offset at pos lead to target, which lies behind it.
func (w *fbWriter) patch(pos, target int) {
	binary.LittleEndian.PutUint32(w.b[w.start+pos:], uint32(target-pos))
}

// table appends a vtable and, right after it, its table. Fields lie in order
// of falling width, so that none needs padding before it.
func (w *fbWriter) table(fields ...fbField) fbPlaced {
	vtable := make([]uint16, 2+len(fields)) // its length, the table's, then where each field is
	vtable[0] = uint16(2 * len(vtable))
	size := uint16(4)
	for width := 8; width > 0; width /= 2 {
		for i, f := range fields {
			if f.width == width {
				vtable[2+i] = size
				size += uint16(width)
			}
		}
	}
	vtable[1] = size
	w.align(2)
	// The widest field follows the table's first 4 bytes and must be aligned.
	for (w.len()+int(vtable[0])+4)%8 != 0 {
		w.b = append(w.b, 0, 0)
	}
	for _, v := range vtable {
		w.b = binary.LittleEndian.AppendUint16(w.b, v)
	}
	t := fbPlaced{pos: w.len()}
	w.b = binary.LittleEndian.AppendUint32(w.b, uint32(vtable[0]))
	w.b = append(w.b, make([]byte, size-4)...)
	for i, f := range fields {
		if f.width == 0 {
			continue
		}
		t.field[i] = t.pos + int(vtable[2+i])
		at := w.b[w.start+t.field[i]:]
		switch f.width {
		case 1:
			at[0] = byte(f.value)
		case 2:
			binary.LittleEndian.PutUint16(at, uint16(f.value))
		case 4:
			binary.LittleEndian.PutUint32(at, uint32(f.value))
		case 8:
			binary.LittleEndian.PutUint64(at, f.value)
		}
	}
	return t
}

// vector appends a vector of n offsets, to be patched, that the offset at pos
// leads to, and returns where its elements are.
func (w *fbWriter) vector(pos, n int) int {
	at := w.uint32(uint32(n))
	w.patch(pos, at)
	w.b = append(w.b, make([]byte, 4*n)...)
	return at + 4
}

// text appends a string that the offset at pos leads to.
func (w *fbWriter) text(pos int, s string) {
	w.patch(pos, w.uint32(uint32(len(s))))
	w.b = append(w.b, s...)
	w.b = append(w.b, 0)
}

// metadata appends key-value pairs, if there are any.
func (w *fbWriter) metadata(pos int, pairs []udfgate.KeyValue) {
	if len(pairs) == 0 {
		return
	}
	vector := w.vector(pos, len(pairs))
	for i, kv := range pairs {
		t := w.table(fbField{width: 4}, fbField{width: 4})
		w.patch(vector+4*i, t.pos)
		w.text(t.field[0], kv.Key)
		w.text(t.field[1], kv.Value)
	}
}

// column appends a Field that the offset at pos leads to. Its vector of
// children is there though empty: readers in C++ have refused its absence.
func (w *fbWriter) column(pos int, f *udfgate.Field) {
	var nullable uint64
	if f.Nullable {
		nullable = 1
	}
	number, parameters := unionMember(&f.Type)
	metadata := fieldMetadata(f)
	t := w.table(
		fbField{width: 4}, // name
		fbField{width: 1, value: nullable},
		fbField{width: 1, value: uint64(number)},
		fbField{width: 4}, // type
		fbField{},         // dictionary
		fbField{width: 4}, // children
		fbField{width: 4 * present(metadata)},
	)
	w.patch(pos, t.pos)
	w.text(t.field[0], f.Name)
	content := w.table(parameters...)
	w.patch(t.field[3], content.pos)
	if f.Type.Zone != "" {
		w.text(content.field[1], f.Type.Zone)
	}
	children := w.vector(t.field[5], len(f.Type.Children))
	for i := range f.Type.Children {
		w.column(children+4*i, &f.Type.Children[i])
	}
	w.metadata(t.field[6], metadata)
}

// fieldMetadata is the field's own, and the name of its extension type if that
// is not among it.
func fieldMetadata(f *udfgate.Field) []udfgate.KeyValue {
	name := f.Type.Extension
	if name == "" || extension(f.Metadata) != "" {
		return f.Metadata
	}
	metadata := append(f.Metadata[:len(f.Metadata):len(f.Metadata)], udfgate.KeyValue{Key: udfgate.ExtensionKey, Value: name})
	if name == udfgate.ExtensionVariant || name == udfgate.ExtensionVector { // Databend knows its own by a key of its own
		metadata = append(metadata, udfgate.KeyValue{Key: databendKey, Value: name})
	}
	if name == udfgate.ExtensionVector {
		metadata = append(metadata, udfgate.KeyValue{Key: databendSizeKey, Value: strconv.Itoa(int(f.Type.Size))})
	}
	return metadata
}

// Field metadata by which Databend knows a VARIANT, and a VECTOR and its size.
const databendKey, databendSizeKey = "Extension", "vector_size"
