package codec

import (
	"github.com/udfgate/udfgate"
)

// CheckMaps refuses a map with one key twice where bodies take maps as dicts:
// the second value would replace the first without a word.
//
// # Errors
//
// *udfgate.Error Invalid with the row and the column.
func CheckMaps(b *Batch) error {
	for i := range b.Columns {
		c := &b.Columns[i]
		if !hasDict(c.Type) {
			continue
		}
		if row := repeatedKey(c, b.Slot.Bytes(), 0, b.Rows); row >= 0 {
			err := udfgate.Invalidf(udfgate.ShapeMalformed,
				"column %d: a map has one key twice, which no dict holds", i)
			err.Row = row
			return err
		}
	}
	return nil
}

// hasDict reports whether a type is a map that becomes a dict, or has one below.
func hasDict(t *udfgate.Type) bool {
	if t.Kind == udfgate.Map && t.View == udfgate.ViewDefault {
		return true
	}
	for i := range t.Children {
		if hasDict(&t.Children[i].Type) {
			return true
		}
	}
	return false
}

// repeatedKey is the first of values [lo, hi) in which a map repeats a key, or
// -1. Values under a null are not looked at.
func repeatedKey(c *Column, body []byte, lo, hi int64) int64 {
	validity := body[c.Validity.Off:c.Validity.End()]
	for i := lo; i < hi; i++ {
		if !bitSet(validity, i) {
			continue
		}
		if repeatsBelow(c, body, i) {
			return i
		}
	}
	return -1
}

// repeatsBelow says so of one value that is not null.
func repeatsBelow(c *Column, body []byte, i int64) bool {
	switch c.Type.Kind {
	case udfgate.Struct:
		for m := range c.Children {
			if hasDict(c.Children[m].Type) && repeatedKey(&c.Children[m], body, i, i+1) >= 0 {
				return true
			}
		}
	case udfgate.FixedSizeList:
		size := int64(c.Type.Size)
		return repeatedKey(&c.Children[0], body, i*size, (i+1)*size) >= 0
	case udfgate.List, udfgate.LargeList:
		from, to := c.span(body, i, i+1)
		return repeatedKey(&c.Children[0], body, from, to) >= 0
	case udfgate.Map:
		from, to := c.span(body, i, i+1)
		key, value := &c.Children[0].Children[0], &c.Children[0].Children[1]
		if c.Type.View == udfgate.ViewDefault && repeats(key, body, from, to) {
			return true
		}
		return hasDict(value.Type) && repeatedKey(value, body, from, to) >= 0
	}
	return false
}

// keysCompared is up to how many keys are compared one with another; more go
// into a set.
const keysCompared = 8

// repeats reports whether two of the keys [from, to) are equal. Keys are plain
// values, so their bytes are what they are compared by, but for -0.0, which is
// 0.0 to a dict.
func repeats(key *Column, body []byte, from, to int64) bool {
	if to-from <= keysCompared {
		for i := from; i < to; i++ {
			for j := i + 1; j < to; j++ {
				if string(key.plainBytes(body, i)) == string(key.plainBytes(body, j)) {
					return true
				}
			}
		}
		return false
	}
	seen := make(map[string]struct{}, to-from)
	for i := from; i < to; i++ {
		seen[string(key.plainBytes(body, i))] = struct{}{}
	}
	return int64(len(seen)) < to-from
}

// plainBytes are the bytes of value i of a column that has no children.
func (c *Column) plainBytes(body []byte, i int64) []byte {
	switch k := c.Type.Kind; {
	case k.Variable():
		from, to := c.span(body, i, i+1)
		return body[c.Values.Off:][from:to]
	case k == udfgate.Bool:
		if bitSet(body[c.Values.Off:], i) {
			return []byte{1}
		}
		return []byte{0}
	case k == udfgate.FixedSizeBinary:
		size := int64(c.Type.Size)
		return body[c.Values.Off+i*size:][:size]
	default:
		width := int64(k.Width())
		value := body[c.Values.Off+i*width:][:width]
		if isFloat(k) && value[width-1] == 0x80 && allZero(value[:width-1]) {
			return make([]byte, width)
		}
		return value
	}
}

func isFloat(k udfgate.Kind) bool {
	return k == udfgate.Float16 || k == udfgate.Float32 || k == udfgate.Float64
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
