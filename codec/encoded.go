package codec

import (
	"encoding/binary"
	"math"

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
	valid := v.valid(c, seen)
	for i := range c.Length {
		value, ok := c.viewed(v.body, i)
		switch {
		case ok && (!c.Type.Kind.Text() || validText(value)):
		case !valid(i):
		case !ok:
			return v.at(i, "view leads outside its data")
		default:
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
	return value, string(value[:4]) == string(view[4:8])
}

// indices checks that the indices of values that are seen lie within their dictionary.
func (v *verifier) indices(c *Column, buffers []Buffer, seen reach) (err error) {
	index := c.Type.Children[0].Type.Kind
	if c.Values, err = v.take(buffers[1], c, "indices", product(c.Length, int64(index.Width()))); err != nil {
		return err
	}
	c.encoded.values = v.dictionaries.find(c.Type.ID)
	if c.encoded.values == nil {
		if c.Nulls == c.Length { // nothing refers to it
			return nil
		}
		return v.invalid("dictionary %d has not come", c.Type.ID)
	}
	valid, most := v.valid(c, seen), c.encoded.values.column.Length
	for i := range c.Length {
		if at := c.index(v.body, i); (at < 0 || at >= most) && valid(i) {
			return v.at(i, "index leads outside its dictionary")
		}
	}
	return nil
}

// index is index i into a dictionary; -1 if it is beyond any.
func (c *Column) index(body []byte, i int64) int64 {
	values, kind := body[c.Values.Off:c.Values.End()], c.Type.Children[0].Type.Kind
	if kind == udfgate.Uint64 {
		if at := binary.LittleEndian.Uint64(values[8*i:]); at <= math.MaxInt64 {
			return int64(at)
		}
		return -1
	}
	return signedAt(kind, values, i)
}

// listView checks that the items of rows that are seen lie within the child.
func listView[T offset](v *verifier, c *Column, buffers []Buffer, seen reach) (err error) {
	if c.Offsets, err = v.take(buffers[1], c, "offsets", product(c.Length, sizeOf[T]())); err != nil {
		return err
	}
	if c.encoded.sizes, err = v.take(buffers[2], c, "sizes", product(c.Length, sizeOf[T]())); err != nil {
		return err
	}
	// Rows may overlap and lie in any order, so which items are seen is not asked:
	// their bytes must be sound. What is above only decides about the row.
	if err := v.child(c, 0, 0, always); err != nil {
		return err
	}
	valid, most := v.valid(c, seen), c.Children[0].Length
	for i := range c.Length {
		from, n := c.viewedItems(v.body, i)
		if (from < 0 || n < 0 || from > most || n > most-from) && valid(i) {
			return v.at(i, "items lie outside the list's")
		}
	}
	return nil
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
	if err := v.child(c, 0, 0, always); err != nil {
		return err
	}
	ends := &c.Children[0]
	if ends.Nulls > 0 {
		return v.invalid("%d run ends are null", ends.Nulls)
	}
	last := int64(0)
	for i := range ends.Length {
		end := signedAt(ends.Type.Kind, v.body[ends.Values.Off:], i)
		if end <= last {
			return v.invalid("run end %d follows %d", end, last)
		}
		last = end
	}
	if last < c.Length {
		return v.invalid("wanted run ends up to %d, got %d", c.Length, last)
	}
	return v.child(c, 1, ends.Length, func(run int64) bool {
		first := int64(0)
		if run > 0 {
			first = signedAt(ends.Type.Kind, v.body[ends.Values.Off:], run-1)
		}
		return first < c.Length && seen(first)
	})
}
