package codec

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"github.com/udfgate/udfgate"
)

// unfit is a value that its declared type does not hold exactly.
type unfit struct{ wanted, got string }

func (e *unfit) Error() string { return fmt.Sprintf("wanted %s, got %s", e.wanted, e.got) }

// tooLarge is the end of normalising what grows beyond its bound.
type tooLarge struct{ size int64 }

func (e *tooLarge) Error() string { return fmt.Sprintf("%d bytes", e.size) }

// appendRange adds values [lo, hi) of a verified column of any kind, in the
// form that the tree's type has.
//
// # Errors
//
// *unfit for a value that the type does not hold exactly, *tooLarge beyond bound.
func (n *tree) appendRange(c *Column, body []byte, lo, hi int64) error {
	if *n.used > n.limit {
		return &tooLarge{*n.used}
	}
	switch c.Type.Kind {
	case udfgate.Dictionary:
		return n.each(c, body, lo, hi, func(i int64) error {
			values, at := c.encoded.values, c.index(body, i)
			return n.appendRange(&values.column, values.body, at, at+1)
		})
	case udfgate.RunEndEncoded:
		return n.appendRuns(c, body, lo, hi)
	case udfgate.Utf8View, udfgate.BinaryView:
		return n.each(c, body, lo, hi, func(i int64) error {
			value, _ := c.viewed(body, i)
			n.fixed(value)
			return n.checkOffset(int64(len(n.values)))
		})
	case udfgate.ListView, udfgate.LargeListView:
		return n.each(c, body, lo, hi, func(i int64) error {
			from, count := c.viewedItems(body, i)
			if err := n.children[0].appendRange(&c.Children[0], body, from, from+count); err != nil {
				return err
			}
			return n.checkOffset(n.children[0].length)
		})
	}
	return n.appendPlain(c, body, lo, hi)
}

// each adds values one by one: nulls here, the rest by add, which leaves the
// value's parts and not its end.
func (n *tree) each(c *Column, body []byte, lo, hi int64, add func(i int64) error) error {
	validity := body[c.Validity.Off:c.Validity.End()]
	whole := c.Type.Kind == udfgate.Dictionary // add adds a whole value
	for i := lo; i < hi; i++ {
		if !bitSet(validity, i) {
			n.null()
			continue
		}
		if *n.used > n.limit {
			return &tooLarge{*n.used}
		}
		if err := add(i); err != nil {
			return err
		}
		if !whole {
			n.grown()
		}
	}
	return nil
}

// checkOffset refuses an end that offsets of 32 bits cannot say.
func (n *tree) checkOffset(end int64) error {
	if !large(n.typ.Kind) && end > math.MaxInt32 {
		return &tooLarge{end}
	}
	return nil
}

func (n *tree) appendRuns(c *Column, body []byte, lo, hi int64) error {
	ends, first := &c.Children[0], int64(0)
	for run := range ends.Length {
		end := signedAt(ends.Type.Kind, body[ends.Values.Off:], run)
		for range min(end, hi) - max(first, lo) {
			if err := n.appendRange(&c.Children[1], body, run, run+1); err != nil {
				return err
			}
		}
		if first = end; end >= hi {
			break
		}
	}
	return nil
}

// appendPlain adds values of a canonical kind.
func (n *tree) appendPlain(c *Column, body []byte, lo, hi int64) error {
	count := hi - lo
	if count <= 0 {
		return nil
	}
	var err error
	switch k := c.Type.Kind; {
	case k == udfgate.Null:
		if n.typ.Kind != udfgate.Null { // any type has nulls
			for range count {
				n.null()
			}
			return nil
		}
	case k.Variable():
		from, to := c.span(body, lo, hi)
		base := int64(len(n.values)) - from
		if err := n.checkOffset(base + to); err != nil {
			return err
		}
		n.fixed(body[c.Values.Off:][from:to])
		n.ends(c, body, lo, hi, base)
	case k == udfgate.List, k == udfgate.LargeList, k == udfgate.Map:
		from, to := c.span(body, lo, hi)
		base := n.children[0].length - from
		if err := n.checkOffset(base + to); err != nil {
			return err
		}
		err = n.children[0].appendRange(&c.Children[0], body, from, to)
		n.ends(c, body, lo, hi, base)
	case k == udfgate.FixedSizeList:
		size := int64(c.Type.Size)
		err = n.children[0].appendRange(&c.Children[0], body, lo*size, hi*size)
	case k == udfgate.Struct:
		for i := range n.children {
			if err = n.children[i].appendRange(&c.Children[i], body, lo, hi); err != nil {
				break
			}
		}
	case k == udfgate.Bool:
		n.bits(&n.values, body[c.Values.Off:], lo, hi)
	case k == n.typ.Kind:
		width := int64(n.width())
		n.fixed(body[c.Values.Off:][lo*width : hi*width])
	default:
		err = n.convert(c, body, lo, hi)
	}
	if err != nil {
		return err
	}
	n.validFrom(c, body, lo, hi)
	n.length += count
	return nil
}

// ends appends the ends of values [lo, hi), moved by base.
func (n *tree) ends(c *Column, body []byte, lo, hi, base int64) {
	for i := lo + 1; i <= hi; i++ {
		_, end := c.span(body, i-1, i)
		n.offset(base + end)
	}
}

// validFrom appends the validity of values [lo, hi).
func (n *tree) validFrom(c *Column, body []byte, lo, hi int64) {
	validity := body[c.Validity.Off:c.Validity.End()]
	if n.typ.Kind == udfgate.Null {
		n.nulls += hi - lo
		return
	}
	nulls := int64(0)
	if len(validity) > 0 {
		for i := lo; i < hi; i++ {
			if !bitSet(validity, i) {
				nulls++
			}
		}
	}
	if nulls > 0 && n.validity == nil {
		n.makeValidity()
	}
	n.nulls += nulls
	if n.validity == nil {
		return
	}
	if len(validity) == 0 {
		validity = nil
	}
	n.bits(&n.validity, validity, lo, hi)
}

// bits appends bits [lo, hi) of src to a bitmap that has length of them; nil
// stands for ones.
func (n *tree) bits(bitmap *[]byte, src []byte, lo, hi int64) {
	need := int(bitmapLen(n.length+hi-lo)) - len(*bitmap)
	*bitmap = append(*bitmap, make([]byte, need)...)
	*n.used += int64(need)
	for i := lo; i < hi; i++ {
		if src == nil || bitSet(src, i) {
			at := n.length + i - lo
			(*bitmap)[at>>3] |= 1 << (at & 7)
		}
	}
}

// convert adds numbers of another kind than the tree's, each exactly or not at all.
func (n *tree) convert(c *Column, body []byte, lo, hi int64) error {
	values, validity := body[c.Values.Off:c.Values.End()], body[c.Validity.Off:c.Validity.End()]
	for i := lo; i < hi; i++ {
		if !bitSet(validity, i) {
			n.fixed(make([]byte, n.width()))
			continue
		}
		if err := n.number(c.Type.Kind, values, i); err != nil {
			return err
		}
	}
	return nil
}

// number adds number i of values of kind k.
func (n *tree) number(k udfgate.Kind, values []byte, i int64) error {
	le := binary.LittleEndian
	var b [8]byte
	switch {
	case k == udfgate.Float16 || k == udfgate.Float32:
		v := halfOrSingle(k, values, i)
		if n.typ.Kind == udfgate.Float32 {
			le.PutUint32(b[:], math.Float32bits(float32(v)))
		} else {
			le.PutUint64(b[:], math.Float64bits(v))
		}
	case k == udfgate.Uint64:
		v := le.Uint64(values[8*i:])
		if most := mostOf(n.typ.Kind); v > most {
			return &unfit{n.typ.String(), strconv.FormatUint(v, 10)}
		}
		le.PutUint64(b[:], v)
	default:
		v := signedAt(k, values, i)
		least, most := rangeOf(n.typ)
		if n.typ.Kind == udfgate.Uint64 {
			least, most = 0, math.MaxInt64
		}
		if v < least || v > most {
			return &unfit{n.typ.String(), strconv.FormatInt(v, 10)}
		}
		le.PutUint64(b[:], uint64(v))
	}
	n.fixed(b[:n.width()])
	return nil
}

// mostOf is the largest number of an integer kind.
func mostOf(k udfgate.Kind) uint64 {
	if k == udfgate.Uint64 {
		return math.MaxUint64
	}
	_, most := rangeOf(&udfgate.Type{Kind: k})
	return uint64(most)
}

func halfOrSingle(k udfgate.Kind, values []byte, i int64) float64 {
	if k == udfgate.Float16 {
		return halfToFloat(binary.LittleEndian.Uint16(values[2*i:]))
	}
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(values[4*i:])))
}

// size is how many bytes place needs.
func (n *tree) size() (size int64) {
	n.parts(func(_ *tree, buffers [][]byte) {
		for _, b := range buffers {
			size = roundUp(size, slotAlign) + int64(len(b))
		}
	})
	return size
}

// place copies the buffers into dst, which has size bytes, and returns the
// column that they make there.
func (n *tree) place(dst []byte) Column {
	at := int64(0)
	return n.placeAt(dst, &at)
}

func (n *tree) placeAt(dst []byte, at *int64) Column {
	put := func(b []byte) Range {
		if len(b) == 0 {
			*at = roundUp(*at, slotAlign)
			return Range{}
		}
		from := roundUp(*at, slotAlign)
		clear(dst[*at:from])
		*at = from + int64(copy(dst[from:], b))
		return Range{Off: from, Len: int64(len(b))}
	}
	c := Column{Type: n.typ, Length: n.length, Nulls: n.nulls}
	switch k := n.typ.Kind; {
	case k == udfgate.Null:
	case k.Variable():
		c.Validity, c.Offsets, c.Values = put(n.validity), put(n.offsets), put(n.values)
		c.ASCII = k.Text() && isASCII(n.values)
	case n.hasOffsets():
		c.Validity, c.Offsets = put(n.validity), put(n.offsets)
	case k == udfgate.Struct, k == udfgate.FixedSizeList:
		c.Validity = put(n.validity)
	default:
		c.Validity, c.Values = put(n.validity), put(n.values)
	}
	for _, child := range n.children {
		c.Children = append(c.Children, child.placeAt(dst, at))
	}
	return c
}
