package codec

import (
	"encoding/binary"

	"github.com/udfgate/udfgate"
)

// This file normalises views of text and binary. Those of a column of the batch
// itself go straight to where the batch will lie; others by way of the tree of
// the column that they are below.

// viewColumn is a whole column of views that has been verified, and is copied
// once there is room for it.
type viewColumn struct {
	column *Column
	body   []byte
	bytes  int64 // of all values
}

// gather is appendRange for all rows of a column of the batch itself.
func (n *tree) gather(c *Column, body []byte, rows int64) error {
	if k := c.Type.Kind; rows == 0 || k != udfgate.Utf8View && k != udfgate.BinaryView {
		return n.appendRange(c, body, 0, rows)
	}
	total := viewedBytes(c, body, 0, rows)
	if err := n.checkOffset(total); err != nil {
		return err
	}
	n.late = &viewColumn{c, body, total}
	*n.used += total + rows*int64(n.offsetSize()) + c.Validity.Len // the first offset has been counted
	return n.full()
}

// size is how many bytes placeLate needs, with ends of so many bytes each.
func (l *viewColumn) size(offsetSize int) (size int64) {
	for _, need := range [...]int64{l.column.Validity.Len, (l.column.Length + 1) * int64(offsetSize), l.bytes} {
		if need > 0 {
			size = roundUp(size, slotAlign) + need
		}
	}
	return size
}

// placeLate is placeAt of a column of views.
func (n *tree) placeLate(dst []byte, at *int64) Column {
	l := n.late
	rows := l.column.Length
	room := func(size int64) Range {
		if size == 0 {
			return Range{}
		}
		from := roundUp(*at, slotAlign)
		clear(dst[*at:from]) // slots are used again with what they held
		*at = from + size
		return Range{Off: from, Len: size}
	}
	c := Column{Type: n.typ, Length: rows, Nulls: l.column.Nulls}
	if c.Validity = room(l.column.Validity.Len); c.Validity.Len > 0 {
		validity := dst[c.Validity.Off:c.Validity.End()]
		copy(validity, l.body[l.column.Validity.Off:])
		if rows&7 != 0 {
			validity[len(validity)-1] &= 1<<(rows&7) - 1
		}
	}
	c.Offsets, c.Values = room((rows+1)*int64(n.offsetSize())), room(l.bytes)
	offsets, values := dst[c.Offsets.Off:c.Offsets.End()], dst[c.Values.Off:c.Values.End()]
	clear(offsets[:n.offsetSize()])
	if large(n.typ.Kind) {
		copyViews(values, 0, offsetsIn[int64](offsets)[1:], l.column, l.body, 0)
	} else {
		copyViews(values, 0, offsetsIn[int32](offsets)[1:], l.column, l.body, 0)
	}
	c.ASCII = n.typ.Kind.Text() && isASCII(values)
	return c
}

// viewedBytes is how many bytes the values of rows [lo, hi) have.
func viewedBytes(c *Column, body []byte, lo, hi int64) (total int64) {
	views, validity := viewsIn(body[c.Values.Off:c.Values.End()])[lo:hi], body[c.Validity.Off:c.Validity.End()]
	if len(validity) == 0 {
		for i := range views {
			total += views[i].size()
		}
		return total
	}
	for i := range views {
		if bitSet(validity, lo+int64(i)) {
			total += views[i].size()
		}
	}
	return total
}

// appendViews adds values of a column of views, whose text may go to a tree of
// text alone.
func (n *tree) appendViews(c *Column, body []byte, lo, hi int64) error {
	for ; lo < hi; lo += chunkRows {
		last := min(lo+chunkRows, hi)
		if err := n.reserve(viewedBytes(c, body, lo, last)); err != nil {
			return err
		}
		from, dst := len(n.values), n.values[:cap(n.values)]
		if large(n.typ.Kind) {
			n.values = dst[:copyViews(dst, from, moreOffsets[int64](n, int(last-lo)), c, body, lo)]
		} else {
			n.values = dst[:copyViews(dst, from, moreOffsets[int32](n, int(last-lo)), c, body, lo)]
		}
		*n.used += int64(len(n.values) - from)
		n.validFrom(c, body, lo, last)
		n.length += last - lo
	}
	return n.full()
}

// copyViews puts as many values as there are ends, from row lo on, into dst from
// byte at on, and returns where they end.
func copyViews[T offset](dst []byte, at int, ends []T, c *Column, body []byte, lo int64) int {
	validity := body[c.Validity.Off:c.Validity.End()]
	views := viewsIn(body[c.Values.Off:c.Values.End()])[lo:][:len(ends)]
	for i := range views {
		v := &views[i]
		size := v.size()
		switch {
		case len(validity) > 0 && !bitSet(validity, lo+int64(i)):
		case size <= inlineMax && at+viewBytes <= len(dst):
			// Moved whole: what comes after the value is overwritten by the next.
			binary.LittleEndian.PutUint64(dst[at:], v[0]>>32|v[1]<<32)
			binary.LittleEndian.PutUint64(dst[at+8:], v[1]>>32)
			at += int(size)
		default:
			value, _ := c.viewed(body, lo+int64(i))
			at += copy(dst[at:], value)
		}
		ends[i] = T(at)
	}
	return at
}
