package codec

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sort"
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
// form that the tree's type has. What is below a null is never looked at: only
// what can be seen has been verified.
//
// # Errors
//
// *unfit for a value that the type does not hold exactly, *tooLarge beyond bound.
func (n *tree) appendRange(c *Column, body []byte, lo, hi int64) error {
	if err := n.full(); err != nil || lo >= hi {
		return err
	}
	switch k := c.Type.Kind; k {
	case udfgate.Dictionary:
		return n.appendIndices(c, body, lo, hi)
	case udfgate.RunEndEncoded:
		return n.appendRuns(c, body, lo, hi)
	case udfgate.Utf8View, udfgate.BinaryView:
		return n.appendViews(c, body, lo, hi)
	case udfgate.Null:
		return n.appendNulls(hi - lo)
	case udfgate.ListView, udfgate.LargeListView:
		return n.valid(c, body, lo, hi, func(lo, hi int64) error { return n.appendListViews(c, body, lo, hi) })
	case udfgate.List, udfgate.LargeList, udfgate.Map, udfgate.FixedSizeList, udfgate.Struct:
		return n.valid(c, body, lo, hi, func(lo, hi int64) error { return n.appendNested(c, body, lo, hi) })
	default:
		return n.appendPlain(c, body, lo, hi)
	}
}

// valid adds nulls one by one, and what lies between them by add.
func (n *tree) valid(c *Column, body []byte, lo, hi int64, add func(lo, hi int64) error) error {
	validity := body[c.Validity.Off:c.Validity.End()]
	if len(validity) == 0 {
		return add(lo, hi)
	}
	for lo < hi {
		end := lo
		for end < hi && bitSet(validity, end) {
			end++
		}
		if end > lo {
			if err := add(lo, end); err != nil {
				return err
			}
		}
		for lo = end; lo < hi && !bitSet(validity, lo); lo++ {
			if err := n.null(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (n *tree) appendNulls(count int64) error {
	if n.typ.Kind == udfgate.Null {
		*n.used += count
		n.nulls += count
		n.length += count
		return n.full()
	}
	for range count { // any type has nulls
		if err := n.null(); err != nil {
			return err
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
	ends, values := &c.Children[0], body[c.Children[0].Values.Off:]
	end := func(run int64) int64 { return signedAt(ends.Type.Kind, values, run) }
	run := int64(sort.Search(int(ends.Length), func(run int) bool { return end(int64(run)) > lo }))
	for ; lo < hi; run++ {
		for last := min(end(run), hi); lo < last; lo++ {
			if err := n.appendRange(&c.Children[1], body, run, run+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func (n *tree) appendListViews(c *Column, body []byte, lo, hi int64) error {
	for i := lo; i < hi; i++ {
		from, count := c.viewedItems(body, i)
		if err := n.children[0].appendRange(&c.Children[0], body, from, from+count); err != nil {
			return err
		}
		if err := n.checkOffset(n.children[0].length); err != nil {
			return err
		}
		n.grown()
	}
	return n.full()
}

// appendNested adds values that are not null of a column with others below it.
func (n *tree) appendNested(c *Column, body []byte, lo, hi int64) error {
	switch k := c.Type.Kind; k {
	case udfgate.Struct:
		for i := range n.children {
			if err := n.children[i].appendRange(&c.Children[i], body, lo, hi); err != nil {
				return err
			}
		}
		*n.used += hi - lo
	case udfgate.FixedSizeList:
		size := int64(c.Type.Size)
		if err := n.children[0].appendRange(&c.Children[0], body, lo*size, hi*size); err != nil {
			return err
		}
		*n.used += hi - lo
	default:
		from, to := c.span(body, lo, hi)
		base := n.children[0].length - from
		if err := n.checkOffset(base + to); err != nil {
			return err
		}
		if err := n.children[0].appendRange(&c.Children[0], body, from, to); err != nil {
			return err
		}
		if entries := n.children[0]; k == udfgate.Map && (entries.nulls > 0 || entries.children[0].nulls > 0) {
			return &unfit{"a key of each entry", "null"}
		}
		n.ends(c, body, lo, hi, base)
	}
	n.ones(hi - lo)
	n.length += hi - lo
	return n.full()
}

// ones notes that so many values that come now are not null.
func (n *tree) ones(count int64) {
	if n.validity != nil {
		n.bits(&n.validity, nil, 0, count)
	}
}

// appendPlain adds values of a canonical kind without others below it.
func (n *tree) appendPlain(c *Column, body []byte, lo, hi int64) error {
	var err error
	switch k := c.Type.Kind; {
	case k.Variable():
		from, to := c.span(body, lo, hi)
		base := int64(len(n.values)) - from
		if err := n.checkOffset(base + to); err != nil {
			return err
		}
		if to-from > n.limit-*n.used {
			return &tooLarge{*n.used + to - from}
		}
		n.fixed(body[c.Values.Off:][from:to])
		n.ends(c, body, lo, hi, base)
	case k == udfgate.Bool:
		n.bits(&n.values, body[c.Values.Off:], lo, hi)
	case k == n.typ.Kind:
		width := int64(n.width())
		if width == 0 {
			*n.used += hi - lo // no byte, and must count
		}
		n.fixed(body[c.Values.Off:][lo*width : hi*width])
	default:
		err = n.convert(c, body, lo, hi)
	}
	if err != nil {
		return err
	}
	n.validFrom(c, body, lo, hi)
	n.length += hi - lo
	return nil
}

// ends appends the ends of values [lo, hi), moved by base.
func (n *tree) ends(c *Column, body []byte, lo, hi, base int64) {
	offsets := body[c.Offsets.Off:c.Offsets.End()]
	if large(c.Type.Kind) {
		moveEnds(n, offsetsIn[int64](offsets)[lo+1:hi+1], base)
	} else {
		moveEnds(n, offsetsIn[int32](offsets)[lo+1:hi+1], base)
	}
}

func moveEnds[T offset](n *tree, ends []T, base int64) {
	if large(n.typ.Kind) {
		out := moreOffsets[int64](n, len(ends))
		for i, end := range ends {
			out[i] = base + int64(end)
		}
		return
	}
	out := moreOffsets[int32](n, len(ends))
	for i, end := range ends {
		out[i] = int32(base + int64(end)) // checkOffset has looked at the last one
	}
}

// moreOffsets is room for count more ends.
func moreOffsets[T offset](n *tree, count int) []T {
	from, size := len(n.offsets), count*int(sizeOf[T]())
	n.offsets = slices.Grow(n.offsets, size)[:from+size]
	*n.used += int64(size)
	return offsetsIn[T](n.offsets[from:])
}

// validFrom appends the validity of values [lo, hi).
func (n *tree) validFrom(c *Column, body []byte, lo, hi int64) {
	validity := body[c.Validity.Off:c.Validity.End()]
	if len(validity) == 0 {
		n.ones(hi - lo)
		return
	}
	nulls := hi - lo
	if lo&7 == 0 {
		nulls = zeroBits(validity[lo>>3:], hi-lo)
	} else {
		for i := lo; i < hi; i++ {
			nulls -= int64(validity[i>>3] >> (i & 7) & 1)
		}
	}
	if nulls > 0 && n.validity == nil {
		n.makeValidity()
	}
	n.nulls += nulls
	if n.validity != nil {
		n.bits(&n.validity, validity, lo, hi)
	}
}

// bits appends bits [lo, hi) of src to a bitmap that has length of them; nil
// stands for ones.
func (n *tree) bits(bitmap *[]byte, src []byte, lo, hi int64) {
	need := int(bitmapLen(n.length+hi-lo)) - len(*bitmap)
	*bitmap = append(*bitmap, make([]byte, need)...)
	*n.used += int64(need)
	dst, at := *bitmap, n.length
	if at&7 == 0 && lo&7 == 0 && src != nil { // whole bytes
		whole := (hi - lo) >> 3
		copy(dst[at>>3:], src[lo>>3:][:whole])
		at, lo = at+whole<<3, lo+whole<<3
	}
	for src == nil && at&7 == 0 && hi-lo >= 8 {
		dst[at>>3] = 0xff
		at, lo = at+8, lo+8
	}
	for ; lo < hi; lo, at = lo+1, at+1 {
		if src == nil || src[lo>>3]>>(lo&7)&1 == 1 {
			dst[at>>3] |= 1 << (at & 7)
		}
	}
}

// convert adds numbers of another kind than the tree's, each exactly or not at all.
func (n *tree) convert(c *Column, body []byte, lo, hi int64) error {
	values, validity := body[c.Values.Off:c.Values.End()], body[c.Validity.Off:c.Validity.End()]
	n.values = slices.Grow(n.values, n.width()*int(hi-lo))
	for i := lo; i < hi; i++ {
		if !bitSet(validity, i) {
			n.zeros(n.width())
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
	switch k {
	case udfgate.Float16, udfgate.Float32:
		v := halfOrSingle(k, values, i)
		if n.typ.Kind == udfgate.Float32 {
			le.PutUint32(b[:], math.Float32bits(float32(v)))
		} else {
			le.PutUint64(b[:], math.Float64bits(v))
		}
	case udfgate.Uint64:
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
	if n.late != nil {
		return n.late.size(n.offsetSize())
	}
	n.parts(func(_ *tree, buffers [][]byte) {
		for _, b := range buffers {
			if len(b) > 0 {
				size = roundUp(size, slotAlign) + int64(len(b))
			}
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
	if n.late != nil {
		return n.placeLate(dst, at)
	}
	put := func(b []byte) Range {
		if len(b) == 0 {
			return Range{}
		}
		from := roundUp(*at, slotAlign)
		clear(dst[*at:from]) // slots are used again with what they held
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
