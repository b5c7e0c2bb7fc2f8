package codec

import (
	"encoding/binary"
	"unsafe"

	"github.com/udfgate/udfgate"
)

// Blocks: rows of one marshal list, and the variable bytes that it should hold.
const (
	BlockRowsMax   = 4096
	BlockRowsMin   = 64
	blockBytes     = 40 << 10 // objects of one block then stay in cache and in the allocator's free lists
	blockRowsAlign = 8        // so that a block begins at a byte of the bitmap; the smallest block too
)

// BlockRows is how many rows of b one block should have: BlockRowsMax, or fewer
// where the values of a row are long.
func BlockRows(b *Batch) int {
	var used int64
	for i := range b.Columns {
		c := &b.Columns[i]
		switch {
		case b.Rows == 0:
		case plainText(c):
			offsets := b.offsets(c)
			used += int64(offsets[b.Rows]-offsets[0]) + b.Rows*shortHeader
		case Rendered(c.Type):
			used += c.bound(b.Slot.Bytes(), 0, b.Rows)
		}
	}
	if used == 0 {
		return BlockRowsMax
	}
	rows := int64(float64(blockBytes) / float64(used) * float64(b.Rows))
	return int(min(max(rows/blockRowsAlign*blockRowsAlign, BlockRowsMin), BlockRowsMax))
}

func (b *Batch) offsets(c *Column) []int32 {
	return int32s(b.Slot.Bytes()[c.Offsets.Off:c.Offsets.End()])
}

// plainText reports whether a column is rendered by the renderer, which is made
// for the commonest of the rendered types.
func plainText(c *Column) bool { return c.Type.Kind == udfgate.Utf8 || c.Type.Kind == udfgate.Binary }

// RenderSize is an upper bound of the bytes that Render writes for rows [lo, hi)
// of a column, in blocks of any multiple of 8 rows.
func RenderSize(b *Batch, col int, lo, hi int64) int64 {
	rows := hi - lo
	if rows <= 0 {
		return indexEntry
	}
	c := &b.Columns[col]
	blocks := (rows + blockRowsAlign - 1) / blockRowsAlign
	frame := indexEntry*(blocks+1) + wideHeader*blocks
	if !plainText(c) {
		return frame + names(c.Type)*blocks + c.bound(b.Slot.Bytes(), lo, hi)
	}
	return frame + valuesBound(c, b.offsets(c), lo, hi)
}

// valuesBound is the most bytes that the values of rows [lo, hi) take.
func valuesBound(c *Column, offsets []int32, lo, hi int64) int64 {
	used := int64(offsets[hi] - offsets[lo])
	if c.ASCII { // only values over shortMax have the longer header
		return used + shortHeader*(hi-lo) + (wideHeader-shortHeader)*(used/(shortMax+1))
	}
	return used + wideHeader*(hi-lo)
}

// Render writes rows [lo, hi) of a verified column whose type is Rendered in marshal
// form: the index, then the blocks of blockRows rows, the first beginning at
// lo. dst must have RenderSize bytes; with 32 more (a slot's Room) the last
// block is written as fast as the others. Bytes of dst after the data may be
// overwritten. The ranges returned count from the start of dst.
func Render(dst []byte, b *Batch, col int, lo, hi int64, blockRows int) (index, data Range) {
	blocks := int64(0)
	if hi > lo {
		blocks = (hi - lo + int64(blockRows) - 1) / int64(blockRows)
	}
	index = Range{Off: 0, Len: indexEntry * (blocks + 1)}
	data = Range{Off: index.Len}
	c := &b.Columns[col]
	if !plainText(c) {
		data.Len = renderValues(dst, b, c, lo, hi, int64(blockRows), index.Len)
		return index, data
	}
	r := renderer{dst: dst, at: index.Len, column: c}
	if blocks > 0 {
		room := b.Slot.Room()
		r.offsets = b.offsets(c)
		r.validity = room[c.Validity.Off:c.Validity.End()]
		r.source = room[c.Values.Off:] // beyond the data too: over-copied, never used
	}
	for k := range blocks {
		binary.LittleEndian.PutUint64(dst[indexEntry*k:], uint64(r.at-data.Off))
		from := lo + k*int64(blockRows)
		r.block(from, min(from+int64(blockRows), hi))
	}
	data.Len = r.at - data.Off
	binary.LittleEndian.PutUint64(dst[indexEntry*blocks:], uint64(data.Len))
	return index, data
}

// renderValues writes the blocks of a column of any rendered type, and their
// index; it returns the bytes of the blocks, which begin at at.
func renderValues(dst []byte, b *Batch, c *Column, lo, hi, blockRows, at int64) int64 {
	w := valueWriter{dst: dst, at: at}
	s := w.source(c, b.Slot.Bytes(), map[string]int{})
	k := int64(0)
	for from := lo; from < hi; from += blockRows {
		binary.LittleEndian.PutUint64(dst[indexEntry*k:], uint64(w.at-at))
		w.block(&s, from, min(from+blockRows, hi))
		k++
	}
	binary.LittleEndian.PutUint64(dst[indexEntry*k:], uint64(w.at-at))
	return w.at - at
}

type renderer struct {
	dst      []byte
	at       int64
	column   *Column
	offsets  []int32
	validity []byte
	source   []byte
}

// block writes one list. Bounds are checked here, once: the loops below move
// moveBytes at a time and so read and write past the ends of values.
func (r *renderer) block(from, to int64) {
	r.dst[r.at] = tagList
	binary.LittleEndian.PutUint32(r.dst[r.at+1:], uint32(to-from))
	r.at += wideHeader
	fits := r.at+valuesBound(r.column, r.offsets, from, to)+moveBytes <= int64(len(r.dst)) &&
		int64(r.offsets[to])+moveBytes <= int64(len(r.source))
	switch {
	case !fits:
		r.checked(from, to)
	case r.column.ASCII:
		r.short(from, to)
	default:
		r.wide(from, to, r.wideTag())
	}
}

func (r *renderer) wideTag() byte {
	switch {
	case r.column.Type.Kind == udfgate.Binary:
		return tagBinary
	case r.column.ASCII:
		return tagASCII
	default:
		return tagText
	}
}

// checked is the plain form of short and wide, for where over-copying would
// leave dst or the source.
func (r *renderer) checked(from, to int64) {
	wide := r.wideTag()
	for row := from; row < to; row++ {
		if !bitSet(r.validity, row) {
			r.dst[r.at] = tagNull
			r.at++
			continue
		}
		value := r.source[r.offsets[row]:r.offsets[row+1]]
		if r.column.ASCII && len(value) <= shortMax {
			r.dst[r.at], r.dst[r.at+1] = tagShortASCII, byte(len(value))
			r.at += shortHeader
		} else {
			r.dst[r.at] = wide
			binary.LittleEndian.PutUint32(r.dst[r.at+1:], uint32(len(value)))
			r.at += wideHeader
		}
		r.at += int64(copy(r.dst[r.at:], value))
	}
}

// move32 moves moveBytes by words. Assigning arrays of that size through
// pointers that might overlap compiles to a call of memmove, at twice the time.
func move32(dst, src unsafe.Pointer) {
	a, b := *(*uint64)(src), *(*uint64)(unsafe.Add(src, 8))
	c, d := *(*uint64)(unsafe.Add(src, 16)), *(*uint64)(unsafe.Add(src, 24))
	*(*uint64)(dst), *(*uint64)(unsafe.Add(dst, 8)) = a, b
	*(*uint64)(unsafe.Add(dst, 16)), *(*uint64)(unsafe.Add(dst, 24)) = c, d
}

// moveRest moves what move32 has left of n bytes, up to 7 more than asked for.
func moveRest(dst, src unsafe.Pointer, n int64) {
	for i := int64(moveBytes); i < n; i += 8 {
		*(*uint64)(unsafe.Add(dst, i)) = *(*uint64)(unsafe.Add(src, i))
	}
}

// allValid stands for the bitmap of a column without one; it is read at byte 0
// for every row.
var allValid = []byte{0xff}

// bitmap returns where validity lies and the mask for byte positions in it.
func (r *renderer) bitmap() (base unsafe.Pointer, mask int64) {
	if len(r.validity) == 0 {
		return unsafe.Pointer(unsafe.SliceData(allValid)), 0
	}
	return unsafe.Pointer(unsafe.SliceData(r.validity)), -1
}

// short writes an ASCII column: z with a length of one byte, a for the rest.
// Nulls cost no branch: one looks like an empty value whose header is cut to
// its tag.
func (r *renderer) short(from, to int64) {
	dst, src := unsafe.Pointer(unsafe.SliceData(r.dst)), unsafe.Pointer(unsafe.SliceData(r.source))
	bitmap, mask := r.bitmap()
	at, start, row := r.at, r.offsets[from], from
	for _, end := range r.offsets[from+1 : to+1] {
		valid := -int64(*(*byte)(unsafe.Add(bitmap, row>>3&mask)) >> (row & 7) & 1) // 0 or all ones
		n := int64(end-start) & valid
		head := unsafe.Add(dst, at)
		if n <= shortMax {
			*(*uint16)(head) = uint16(tagNull + (tagShortASCII-tagNull)&valid | n<<8)
			move32(unsafe.Add(head, shortHeader), unsafe.Add(src, start))
			moveRest(unsafe.Add(head, shortHeader), unsafe.Add(src, start), n)
			at += 1 + (n+shortHeader-1)&valid
		} else {
			*(*byte)(head) = tagASCII
			*(*uint32)(unsafe.Add(head, 1)) = uint32(n)
			move32(unsafe.Add(head, wideHeader), unsafe.Add(src, start))
			moveRest(unsafe.Add(head, wideHeader), unsafe.Add(src, start), n)
			at += wideHeader + n
		}
		start = end
		row++
	}
	r.at = at
}

// wide writes every value with a length of four bytes: text that is not ASCII,
// and binary.
func (r *renderer) wide(from, to int64, tag byte) {
	dst, src := unsafe.Pointer(unsafe.SliceData(r.dst)), unsafe.Pointer(unsafe.SliceData(r.source))
	bitmap, mask := r.bitmap()
	at, start, row := r.at, r.offsets[from], from
	for _, end := range r.offsets[from+1 : to+1] {
		valid := -int64(*(*byte)(unsafe.Add(bitmap, row>>3&mask)) >> (row & 7) & 1)
		n := int64(end-start) & valid
		head := unsafe.Add(dst, at)
		*(*byte)(head) = byte(tagNull + (int64(tag)-tagNull)&valid)
		*(*uint32)(unsafe.Add(head, 1)) = uint32(n)
		move32(unsafe.Add(head, wideHeader), unsafe.Add(src, start))
		moveRest(unsafe.Add(head, wideHeader), unsafe.Add(src, start), n)
		at += 1 + (n+wideHeader-1)&valid
		start = end
		row++
	}
	r.at = at
}
