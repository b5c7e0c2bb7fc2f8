package codec

import (
	"encoding/binary"
	"fmt"

	"github.com/udfgate/udfgate"
)

// HeaderBytesMax bounds the flatbuffer header of a message, so that what is
// kept from it is bounded too: a schema of 100,000 columns takes about 12 MiB.
const HeaderBytesMax = 16 << 20

// fbReader reads a flatbuffer that nobody has verified. Every read checks that
// the bytes are there and aligned, relative to the start of the buffer as the
// format has it, so a buffer can be read once instead of verified and then
// read. The first fault is kept; after it every read returns the default of
// its field, and the caller looks at err before it believes anything.
//
// The library of the format is not used: it has no verifier in Go and panics
// on bad offsets.
type fbReader struct {
	b     []byte
	fault string
	field string // that has the fault, e.g. "RecordBatch.nodes"
	at    int
}

// fbTable is a table whose vtable and inline bytes are within the buffer. The
// zero table stands for one that is absent: all its fields are.
type fbTable struct {
	pos    int
	size   int // inline bytes from pos
	vtable int
	slots  int // fields that the vtable knows
}

// fail notes the first fault.
func (r *fbReader) fail(field string, at int, fault string) {
	if r.fault == "" {
		r.fault, r.field, r.at = fault, field, at
	}
}

// ok reports whether all reads so far were good.
func (r *fbReader) ok() bool { return r.fault == "" }

// err is the fault as an error, nil if there was none.
func (r *fbReader) err() error {
	if r.fault == "" {
		return nil
	}
	return udfgate.Invalidf(udfgate.ShapeMalformed, "malformed header: %s: %s at byte %d of %d", r.field, r.fault, r.at, len(r.b))
}

// root is the table that the buffer is about.
func (r *fbReader) root(name string) fbTable {
	if len(r.b) > HeaderBytesMax {
		r.fail(name, 0, fmt.Sprintf("wanted at most %d bytes (HeaderBytesMax)", HeaderBytesMax))
		return fbTable{}
	}
	if len(r.b) < 8 { // an offset and the shortest table
		r.fail(name, 0, "truncated")
		return fbTable{}
	}
	return r.table(r.follow(0, name), name)
}

// follow returns where the offset at pos leads; pos must be readable.
func (r *fbReader) follow(pos int, name string) int {
	off := binary.LittleEndian.Uint32(r.b[pos:])
	if off == 0 || uint64(off) > uint64(len(r.b)-pos-4) {
		r.fail(name, pos, "offset leaves the header")
		return 0
	}
	return pos + int(off)
}

// table checks the table at pos; pos 0 is no table.
func (r *fbReader) table(pos int, name string) fbTable {
	if pos == 0 {
		return fbTable{}
	}
	if pos&3 != 0 || pos > len(r.b)-4 {
		r.fail(name, pos, "table misplaced")
		return fbTable{}
	}
	vtable := int64(pos) - int64(int32(binary.LittleEndian.Uint32(r.b[pos:])))
	if vtable < 0 || vtable&1 != 0 || vtable > int64(len(r.b)-4) {
		r.fail(name, pos, "vtable misplaced")
		return fbTable{}
	}
	t := fbTable{pos: pos, vtable: int(vtable)}
	sizes := binary.LittleEndian.Uint32(r.b[vtable:])
	length := int(sizes & 0xffff)
	t.size = int(sizes >> 16)
	if length < 4 || length&1 != 0 || length > len(r.b)-t.vtable {
		r.fail(name, t.vtable, "vtable of impossible length")
		return fbTable{}
	}
	if t.size < 4 || t.size > len(r.b)-pos {
		r.fail(name, t.vtable, "table of impossible size")
		return fbTable{}
	}
	t.slots = length/2 - 2
	return t
}

// slot is where field i of a table lies; 0 if it is absent. width is the
// field's size and alignment.
func (r *fbReader) slot(t fbTable, i, width int, name string) int {
	if i >= t.slots {
		return 0
	}
	off := int(binary.LittleEndian.Uint16(r.b[t.vtable+4+2*i:]))
	if off == 0 {
		return 0
	}
	if off < 4 || off > t.size-width || (t.pos+off)&(width-1) != 0 {
		r.fail(name, t.pos, "field misplaced")
		return 0
	}
	return t.pos + off
}

func (r *fbReader) uint8(t fbTable, i int, name string) uint8 {
	if at := r.slot(t, i, 1, name); at != 0 {
		return r.b[at]
	}
	return 0
}

func (r *fbReader) int16(t fbTable, i int, name string) int16 {
	if at := r.slot(t, i, 2, name); at != 0 {
		return int16(binary.LittleEndian.Uint16(r.b[at:]))
	}
	return 0
}

func (r *fbReader) int32(t fbTable, i int, name string) int32 {
	if at := r.slot(t, i, 4, name); at != 0 {
		return int32(binary.LittleEndian.Uint32(r.b[at:]))
	}
	return 0
}

func (r *fbReader) int64(t fbTable, i int, name string) int64 {
	if at := r.slot(t, i, 8, name); at != 0 {
		return int64(binary.LittleEndian.Uint64(r.b[at:]))
	}
	return 0
}

// ref is where the offset in field i leads; 0 if the field is absent.
func (r *fbReader) ref(t fbTable, i int, name string) int {
	at := r.slot(t, i, 4, name)
	if at == 0 {
		return 0
	}
	return r.follow(at, name)
}

// child is the table that field i refers to.
func (r *fbReader) child(t fbTable, i int, name string) fbTable {
	return r.table(r.ref(t, i, name), name)
}

// fbVector is the elements of a vector, all of them within the buffer.
type fbVector struct{ pos, len int }

// vector is the vector in field i of elements of size bytes. align is what the
// elements are aligned to.
func (r *fbReader) vector(t fbTable, i, size, align int, name string) fbVector {
	pos := r.ref(t, i, name)
	if pos == 0 {
		return fbVector{}
	}
	if pos&3 != 0 || pos > len(r.b)-4 {
		r.fail(name, pos, "vector misplaced")
		return fbVector{}
	}
	n := binary.LittleEndian.Uint32(r.b[pos:])
	pos += 4
	if uint64(n)*uint64(size) > uint64(len(r.b)-pos) {
		r.fail(name, pos-4, "vector longer than the header")
		return fbVector{}
	}
	if pos&(align-1) != 0 && n > 0 {
		r.fail(name, pos-4, "vector misaligned")
		return fbVector{}
	}
	return fbVector{pos: pos, len: int(n)}
}

// element is table j of a vector of tables.
func (r *fbReader) element(v fbVector, j int, name string) fbTable {
	return r.table(r.follow(v.pos+4*j, name), name)
}

// str is the string in field i: a vector of bytes and a zero after it.
func (r *fbReader) str(t fbTable, i int, name string) fbVector {
	v := r.vector(t, i, 1, 1, name)
	if v.pos == 0 {
		return v
	}
	if end := v.pos + v.len; end >= len(r.b) || r.b[end] != 0 {
		r.fail(name, v.pos, "string without an end")
		return fbVector{}
	}
	return v
}

// quickTable is the table that the offset at pos leads to, checked as by
// fbReader.table; the zero table, which has no fields, if there is any fault.
func quickTable(b []byte, pos int) fbTable {
	off := int(binary.LittleEndian.Uint32(b[pos:]))
	at := pos + off
	if off == 0 || at&3 != 0 || uint(at) > uint(len(b)-4) {
		return fbTable{}
	}
	vtable := at - int(int32(binary.LittleEndian.Uint32(b[at:])))
	if vtable < 0 || vtable&1 != 0 || vtable > len(b)-4 {
		return fbTable{}
	}
	sizes := binary.LittleEndian.Uint32(b[vtable:])
	length, size := int(sizes&0xffff), int(sizes>>16)
	if length < 4 || length&1 != 0 || length > len(b)-vtable || size < 4 || size > len(b)-at {
		return fbTable{}
	}
	return fbTable{pos: at, size: size, vtable: vtable, slots: length/2 - 2}
}

// at is where field i lies: 0 if it is absent, -1 if misplaced.
func (t fbTable) at(b []byte, i, width int) int {
	if i >= t.slots {
		return 0
	}
	off := int(binary.LittleEndian.Uint16(b[t.vtable+4+2*i:]))
	if off == 0 {
		return 0
	}
	if off < 4 || off > t.size-width || (t.pos+off)&(width-1) != 0 {
		return -1
	}
	return t.pos + off
}

// quickVector is the vector of 16-byte structs that the offset at pos leads
// to: where its elements are, and how many; -1 if there is any fault.
func quickVector(b []byte, pos int) (at, n int) {
	off := int(binary.LittleEndian.Uint32(b[pos:]))
	at = pos + off
	if off == 0 || at&7 != 4 || uint(at) > uint(len(b)-4) {
		return 0, -1
	}
	n = int(binary.LittleEndian.Uint32(b[at:]))
	at += 4
	if n > (len(b)-at)/16 {
		return 0, -1
	}
	return at, n
}
