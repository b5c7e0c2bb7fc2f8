package codec

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"github.com/udfgate/udfgate"
)

// This file verifies what is taken and is not canonical: views, dictionaries,
// runs and list views. What it lets through is safe to follow for every value
// that is not null.

// encoded checks a column of such a kind; its node and validity have been.
func (v *verifier) encoded(t *udfgate.Type, c *Column, buffers []Buffer, seen reach) error {
	c.encoded = &encodedColumn{}
	switch t.Kind {
	case udfgate.Utf8View, udfgate.BinaryView:
		return v.views(c, buffers, seen)
	case udfgate.Dictionary:
		return v.indices(c, buffers, seen)
	case udfgate.ListView:
		return listView[int32](v, c, buffers, seen)
	default:
		return listView[int64](v, c, buffers, seen)
	}
}

// viewBytes is the size of one view: a length, then up to inlineMax bytes of
// the value, or its first four, a buffer and where it begins there.
const (
	viewBytes = 16
	inlineMax = 12
)

// view is one, as two little-endian words.
type view [2]uint64

// size is the length of the value.
func (v *view) size() int64 { return int64(uint32(v[0])) }

// ascii reports whether a value that lies in its view, or its first bytes and
// where the rest lies, has no high bit.
func (v *view) ascii() bool { return (v[0]&^math.MaxUint32|v[1])&highBits == 0 }

// viewsIn sees bytes as views, on the terms of int32s.
func viewsIn(b []byte) []view {
	if len(b) < viewBytes {
		return nil
	}
	return unsafe.Slice((*view)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/viewBytes)
}

// views checks that the views of values that are seen lie within their buffers
// and are what their first bytes say.
func (v *verifier) views(c *Column, buffers []Buffer, seen reach) (err error) {
	if c.Values, err = v.take(buffers[1], c, "views", product(c.Length, viewBytes)); err != nil {
		return err
	}
	if len(v.variadic) == 0 {
		return v.invalid("wanted a count of data buffers, got none")
	}
	count := v.variadic[0]
	v.variadic = v.variadic[1:]
	if count > int64(len(v.buffers)) {
		return v.invalid("wanted %d data buffers, got %d", count, len(v.buffers))
	}
	for _, b := range v.buffers[:count] {
		r, err := v.take(b, c, "data", b.Length)
		if err != nil {
			return err
		}
		c.encoded.data = append(c.encoded.data, r)
	}
	v.buffers = v.buffers[count:]
	text, valid := c.Type.Kind.Text(), v.valid(c, seen)
	views := viewsIn(v.bytes(c.Values))
	for at := range views {
		size := views[at].size()
		if size <= inlineMax && (!text || views[at].ascii()) {
			continue
		}
		i := int64(at)
		if !valid(i) {
			continue
		}
		value, ok := c.viewed(v.body, i)
		if !ok {
			return v.at(i, "view leads outside its data")
		}
		// All views can be of the same text, which is not read again and again
		// where that much would not be taken anyway.
		if v.viewed += size; v.viewed > v.bytesMax {
			err := v.at(i, fmt.Sprintf("%d bytes or more as plain values are over %s %d; send smaller batches", v.viewed, v.bytesName, v.bytesMax))
			err.Shape = udfgate.ShapeTooLarge
			return err
		}
		if text && !isASCII(value) && !validText(value) {
			return v.at(i, "not UTF-8")
		}
	}
	return nil
}

// at is an error of value i, which is its row if nothing is above the column.
func (v *verifier) at(i int64, what string) *udfgate.Error {
	err := v.invalid("%s", what)
	if v.below == "" {
		err.Row = i
	}
	return err
}

// viewed is value i of a column of views; false if its view leads nowhere.
func (c *Column) viewed(body []byte, i int64) ([]byte, bool) {
	le := binary.LittleEndian
	view := body[c.Values.Off+i*viewBytes:][:viewBytes]
	n := int64(int32(le.Uint32(view)))
	if n < 0 {
		return nil, false
	}
	if n <= inlineMax {
		return view[4 : 4+n], true
	}
	number, from := int64(int32(le.Uint32(view[8:]))), int64(int32(le.Uint32(view[12:])))
	if number < 0 || number >= int64(len(c.encoded.data)) || from < 0 {
		return nil, false
	}
	data := c.encoded.data[number]
	if from > data.Len || n > data.Len-from {
		return nil, false
	}
	value := body[data.Off+from:][:n]
	return value, le.Uint32(value) == le.Uint32(view[4:])
}

// indices checks that the indices of values that are seen lie within their dictionary.
func (v *verifier) indices(c *Column, buffers []Buffer, seen reach) (err error) {
	index := c.Type.Children[0].Type.Kind
	if c.Values, err = v.take(buffers[1], c, "indices", product(c.Length, int64(index.Width()))); err != nil {
		return err
	}
	d, most := v.dictionaries.find(c.Type.ID), int64(0)
	if d != nil {
		if sent := &c.Type.Children[1].Type; d.sent != sent && !d.sent.Equal(*sent) {
			return v.invalid("dictionary %d is of %s elsewhere, wanted %s", c.Type.ID, d.sent, sent)
		}
		most = d.length
	}
	c.encoded.values = d
	valid := v.valid(c, seen)
	var room [chunkRows]int64
	for lo := int64(0); lo < c.Length; lo += chunkRows {
		for i, at := range c.indices(room[:], v.body, lo, min(lo+chunkRows, c.Length)) {
			if uint64(at) < uint64(most) || !valid(lo+int64(i)) {
				continue
			}
			if d == nil {
				return v.invalid("dictionary %d has not come", c.Type.ID)
			}
			return v.at(lo+int64(i), "index leads outside its dictionary")
		}
	}
	return nil
}

// listView checks that the items of rows that are seen lie within the child.
func listView[T offset](v *verifier, c *Column, buffers []Buffer, seen reach) (err error) {
	if c.Offsets, err = v.take(buffers[1], c, "offsets", product(c.Length, sizeOf[T]())); err != nil {
		return err
	}
	if c.encoded.sizes, err = v.take(buffers[2], c, "sizes", product(c.Length, sizeOf[T]())); err != nil {
		return err
	}
	valid, most := v.valid(c, seen), v.nodes[0].Length
	for i := range c.Length {
		from, n := c.viewedItems(v.body, i)
		if (from < 0 || n < 0 || from > most || n > most-from) && valid(i) {
			return v.at(i, "items lie outside the list's")
		}
	}
	var covered []bool
	body := v.body
	return v.child(c, 0, 0, func(item int64) bool {
		if most > 8*int64(len(body)) { // more than have any bytes: not worth finding out
			return true
		}
		if covered == nil { // once an item has been found that must not be seen
			covered = c.coverage(body, most, valid)
		}
		return covered[item]
	})
}

// coverage says which of so many items belong to a row of a list view that is
// seen. Rows may overlap and lie in any order.
func (c *Column) coverage(body []byte, items int64, valid reach) []bool {
	begin := make([]int32, items+1) // rows that begin there, less those that end; sums are right even if they wrap
	for i := range c.Length {
		if from, n := c.viewedItems(body, i); n > 0 && valid(i) {
			begin[from]++
			begin[from+n]--
		}
	}
	covered, depth := make([]bool, items), int32(0)
	for i := range covered {
		depth += begin[i]
		covered[i] = depth != 0
	}
	return covered
}

// viewedItems is where the items of row i of a list view begin, and how many there are.
func (c *Column) viewedItems(body []byte, i int64) (from, n int64) {
	le := binary.LittleEndian
	offsets, sizes := body[c.Offsets.Off:c.Offsets.End()], body[c.encoded.sizes.Off:c.encoded.sizes.End()]
	if c.Type.Kind == udfgate.LargeListView {
		return int64(le.Uint64(offsets[8*i:])), int64(le.Uint64(sizes[8*i:]))
	}
	return int64(int32(le.Uint32(offsets[4*i:]))), int64(int32(le.Uint32(sizes[4*i:])))
}

// runs checks a run-end encoded column, which has no buffers of its own: its
// ends rise, and the last one reaches its length.
func (v *verifier) runs(c *Column, seen reach) error {
	if err := v.claim(c.Length); err != nil {
		return err
	}
	if err := v.child(c, 0, 0, always); err != nil {
		return err
	}
	ends, values := &c.Children[0], v.body[c.Children[0].Values.Off:]
	if ends.Nulls > 0 {
		return v.invalid("%d run ends are null", ends.Nulls)
	}
	last := int64(0)
	for i := range ends.Length {
		end := signedAt(ends.Type.Kind, values, i)
		if end <= last {
			return v.invalid("run end %d follows %d", end, last)
		}
		last = end
	}
	if last < c.Length {
		return v.invalid("wanted run ends up to %d, got %d", c.Length, last)
	}
	return v.child(c, 1, ends.Length, func(run int64) bool {
		if run >= ends.Length {
			return false
		}
		row := int64(0)
		if run > 0 {
			row = signedAt(ends.Type.Kind, values, run-1)
		}
		end := min(signedAt(ends.Type.Kind, values, run), c.Length)
		for ; row < end; row++ { // rows of a run are no other's, so all of this is one pass
			if seen(row) {
				return true
			}
		}
		return false
	})
}
