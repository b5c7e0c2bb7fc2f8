package codec

import (
	"encoding/binary"
	"math"
	"math/big"
	"strconv"

	"github.com/udfgate/udfgate"
)

// Rendered reports whether columns of a type cross to a worker as marshal
// blocks, where it reads those: everything that no array of machine numbers
// stands for.
func Rendered(t *udfgate.Type) bool {
	switch k := t.Kind; {
	case k.Variable(), k.Decimal(), k.Nested(), k == udfgate.Null, k == udfgate.FixedSizeBinary,
		k == udfgate.MonthInterval, k == udfgate.DayTimeInterval, k == udfgate.MonthDayNanoInterval:
		return true
	default:
		return false
	}
}

// Most bytes of a value in marshal form, without its text or items.
const (
	intBytesMax   = 1 + 4 + 2*5 // long: tag, count of digits, five digits of 15 bits
	floatBytes    = 1 + 8
	exponentBytes = 5 // of a decimal with a negative scale: E+76
	pairHeader    = 2 // a tuple's tag and its u8 count
)

// bound is the most bytes that values [lo, hi) of a column take.
func (c *Column) bound(body []byte, lo, hi int64) int64 {
	n := hi - lo
	if n <= 0 {
		return 0
	}
	switch k := c.Type.Kind; {
	case k == udfgate.Null, k == udfgate.Bool:
		return n
	case k == udfgate.Float16, k == udfgate.Float32, k == udfgate.Float64:
		return n * floatBytes
	case k.Decimal():
		return n * (shortHeader + exponentBytes + 3 + int64(c.Type.Precision+max(c.Type.Scale, 0))) // a sign, a zero, a point
	case k == udfgate.MonthInterval, k == udfgate.DayTimeInterval, k == udfgate.MonthDayNanoInterval:
		return n * (pairHeader + 3*intBytesMax)
	case k == udfgate.FixedSizeBinary:
		return n * (wideHeader + int64(c.Type.Size))
	case k.Variable():
		from, to := c.span(body, lo, hi)
		return n*wideHeader + to - from
	case k == udfgate.List, k == udfgate.LargeList:
		from, to := c.span(body, lo, hi)
		return n*wideHeader + c.Children[0].bound(body, from, to)
	case k == udfgate.FixedSizeList:
		size := int64(c.Type.Size)
		return n*wideHeader + c.Children[0].bound(body, lo*size, hi*size)
	case k == udfgate.Map:
		from, to := c.span(body, lo, hi)
		entries := &c.Children[0]
		return n*wideHeader + (to-from)*pairHeader + entries.Children[0].bound(body, from, to) + entries.Children[1].bound(body, from, to)
	case k == udfgate.Struct:
		total := n * wideHeader
		for i := range c.Children {
			total += n*nameBytes(c.Type.Children[i].Name) + c.Children[i].bound(body, lo, hi)
		}
		return total
	default:
		return n * intBytesMax
	}
}

func nameBytes(name string) int64 { return wideHeader + int64(len(name)) }

// span is where the bytes or items of values [lo, hi) lie below a column.
func (c *Column) span(body []byte, lo, hi int64) (from, to int64) {
	b := body[c.Offsets.Off:c.Offsets.End()]
	if large(c.Type.Kind) {
		return int64(binary.LittleEndian.Uint64(b[8*lo:])), int64(binary.LittleEndian.Uint64(b[8*hi:]))
	}
	return int64(binary.LittleEndian.Uint32(b[4*lo:])), int64(binary.LittleEndian.Uint32(b[4*hi:]))
}

// large reports whether a kind has offsets of 64 bits.
func large(k udfgate.Kind) bool {
	return k == udfgate.LargeUtf8 || k == udfgate.LargeBinary || k == udfgate.LargeList
}

// valueWriter writes values of any type in marshal form. dst has the room that
// bound says.
type valueWriter struct {
	body []byte
	dst  []byte
	at   int64
	// names are where the block's reference table has the names of struct
	// members, so that each is spelled out once per block.
	names map[string]uint32
}

// block writes values [from, to) as one list.
func (w *valueWriter) block(c *Column, from, to int64) {
	clear(w.names)
	w.count(tagList, to-from)
	for i := from; i < to; i++ {
		w.value(c, i)
	}
}

func (w *valueWriter) tag(tag byte) {
	w.dst[w.at] = tag
	w.at++
}

// count writes a tag with a u32: a length, a count or an index.
func (w *valueWriter) count(tag byte, n int64) {
	w.dst[w.at] = tag
	binary.LittleEndian.PutUint32(w.dst[w.at+1:], uint32(n))
	w.at += wideHeader
}

func (w *valueWriter) bytes(tag byte, value []byte) {
	w.count(tag, int64(len(value)))
	w.at += int64(copy(w.dst[w.at:], value))
}

// value writes value i of a column.
func (w *valueWriter) value(c *Column, i int64) {
	if c.Type.Kind == udfgate.Null || !bitSet(w.body[c.Validity.Off:c.Validity.End()], i) {
		w.tag(tagNull)
		return
	}
	switch k := c.Type.Kind; {
	case k.Variable():
		from, to := c.span(w.body, i, i+1)
		value := w.body[c.Values.Off:][from:to]
		switch {
		case !k.Text():
			w.bytes(tagBinary, value)
		case c.ASCII:
			w.bytes(tagASCII, value)
		default:
			w.bytes(tagText, value)
		}
	case k == udfgate.List, k == udfgate.LargeList:
		from, to := c.span(w.body, i, i+1)
		w.items(&c.Children[0], from, to)
	case k == udfgate.FixedSizeList:
		size := int64(c.Type.Size)
		w.items(&c.Children[0], i*size, (i+1)*size)
	case k == udfgate.Struct:
		w.members(c, i)
	case k == udfgate.Map:
		w.entries(c, i)
	default:
		w.scalar(c, i)
	}
}

func (w *valueWriter) items(c *Column, from, to int64) {
	w.count(tagList, to-from)
	for i := from; i < to; i++ {
		w.value(c, i)
	}
}

func (w *valueWriter) members(c *Column, i int64) {
	if c.Type.View == udfgate.ViewTuple {
		w.count(tagTuple, int64(len(c.Children)))
		for m := range c.Children {
			w.value(&c.Children[m], i)
		}
		return
	}
	w.tag(tagDict)
	for m := range c.Children {
		w.name(c.Type.Children[m].Name)
		w.value(&c.Children[m], i)
	}
	w.tag(tagEnd)
}

// name writes the name of a member: text that enters the reference table when
// it comes first, a reference from then on.
func (w *valueWriter) name(name string) {
	if index, ok := w.names[name]; ok {
		w.count(tagReference, int64(index))
		return
	}
	if w.names == nil {
		w.names = map[string]uint32{}
	}
	w.names[name] = uint32(len(w.names))
	w.bytes(tagTextInterned|tagEnters, []byte(name))
}

func (w *valueWriter) entries(c *Column, i int64) {
	from, to := c.span(w.body, i, i+1)
	key, value := &c.Children[0].Children[0], &c.Children[0].Children[1]
	if c.Type.View == udfgate.ViewPairs {
		w.count(tagList, to-from)
		for e := from; e < to; e++ {
			w.tag(tagSmallTuple)
			w.tag(2)
			w.value(key, e)
			w.value(value, e)
		}
		return
	}
	w.tag(tagDict)
	for e := from; e < to; e++ {
		w.value(key, e)
		w.value(value, e)
	}
	w.tag(tagEnd)
}

// scalar writes a value of fixed width.
func (w *valueWriter) scalar(c *Column, i int64) {
	le, values := binary.LittleEndian, w.body[c.Values.Off:c.Values.End()]
	switch k := c.Type.Kind; k {
	case udfgate.Bool:
		if bitSet(values, i) {
			w.tag(tagTrue)
		} else {
			w.tag(tagFalse)
		}
	case udfgate.Float16:
		w.float(halfToFloat(le.Uint16(values[2*i:])))
	case udfgate.Float32:
		w.float(float64(math.Float32frombits(le.Uint32(values[4*i:]))))
	case udfgate.Float64:
		w.float(math.Float64frombits(le.Uint64(values[8*i:])))
	case udfgate.Uint64:
		w.unsigned(le.Uint64(values[8*i:]))
	case udfgate.FixedSizeBinary:
		size := int64(c.Type.Size)
		w.bytes(tagBinary, values[i*size:(i+1)*size])
	case udfgate.Decimal32, udfgate.Decimal64, udfgate.Decimal128, udfgate.Decimal256:
		w.decimal(values[i*int64(k.Width()):][:k.Width()], c.Type.Scale)
	case udfgate.MonthInterval:
		w.tuple(int64(int32(le.Uint32(values[4*i:]))))
	case udfgate.DayTimeInterval:
		w.tuple(int64(int32(le.Uint32(values[8*i:]))), int64(int32(le.Uint32(values[8*i+4:]))))
	case udfgate.MonthDayNanoInterval:
		w.tuple(int64(int32(le.Uint32(values[16*i:]))), int64(int32(le.Uint32(values[16*i+4:]))), int64(le.Uint64(values[16*i+8:])))
	default:
		w.integer(signedAt(k, values, i))
	}
}

// signedAt reads an integer of any width but uint64.
func signedAt(k udfgate.Kind, values []byte, i int64) int64 {
	le := binary.LittleEndian
	switch k {
	case udfgate.Int8:
		return int64(int8(values[i]))
	case udfgate.Uint8:
		return int64(values[i])
	case udfgate.Int16:
		return int64(int16(le.Uint16(values[2*i:])))
	case udfgate.Uint16:
		return int64(le.Uint16(values[2*i:]))
	case udfgate.Uint32:
		return int64(le.Uint32(values[4*i:]))
	}
	if k.Width() == 4 {
		return int64(int32(le.Uint32(values[4*i:])))
	}
	return int64(le.Uint64(values[8*i:]))
}

func (w *valueWriter) tuple(numbers ...int64) {
	w.tag(tagSmallTuple)
	w.tag(byte(len(numbers)))
	for _, n := range numbers {
		w.integer(n)
	}
}

func (w *valueWriter) float(v float64) {
	w.dst[w.at] = tagFloat
	binary.LittleEndian.PutUint64(w.dst[w.at+1:], math.Float64bits(v))
	w.at += floatBytes
}

// integer writes an int of 32 bits, or one of so many digits of 15 bits.
func (w *valueWriter) integer(v int64) {
	if v == int64(int32(v)) {
		w.count(tagInt, int64(uint32(v)))
		return
	}
	if v < 0 {
		w.digits(uint64(-v), -1) // of the least int64 too: its negative is itself, read as unsigned
		return
	}
	w.digits(uint64(v), 1)
}

func (w *valueWriter) unsigned(v uint64) {
	if v <= math.MaxInt32 {
		w.count(tagInt, int64(v))
		return
	}
	w.digits(v, 1)
}

func (w *valueWriter) digits(v uint64, sign int32) {
	at := w.at + wideHeader
	n := int32(0)
	for ; v > 0; v >>= 15 {
		binary.LittleEndian.PutUint16(w.dst[at:], uint16(v&0x7fff))
		at += 2
		n++
	}
	w.count(tagLong, int64(uint32(n*sign)))
	w.at = at
}

// decimal writes a decimal as its digits, so that no digit is lost or added.
func (w *valueWriter) decimal(b []byte, scale int32) {
	var room [96]byte
	text := appendDecimal(room[:0], b, scale)
	w.dst[w.at], w.dst[w.at+1] = tagShortASCII, byte(len(text))
	w.at += shortHeader + int64(copy(w.dst[w.at+shortHeader:], text))
}

// appendDecimal writes a little-endian two's complement number of 4 to 32 bytes
// with a point before its last scale digits; a negative scale as an exponent.
func appendDecimal(dst, b []byte, scale int32) []byte {
	from := len(dst)
	dst = appendUnscaled(dst, b)
	switch {
	case scale < 0:
		return strconv.AppendInt(append(dst, "E+"...), int64(-scale), 10)
	case scale == 0:
		return dst
	}
	if dst[from] == '-' {
		from++
	}
	if short := int(scale) + 1 - (len(dst) - from); short > 0 { // leading zeros up to the one before the point
		dst = append(dst, make([]byte, short)...)
		copy(dst[from+short:], dst[from:])
		for i := range short {
			dst[from+i] = '0'
		}
	}
	point := len(dst) - int(scale)
	dst = append(dst, 0)
	copy(dst[point+1:], dst[point:])
	dst[point] = '.'
	return dst
}

func appendUnscaled(dst, b []byte) []byte {
	le := binary.LittleEndian
	if len(b) == 4 {
		return strconv.AppendInt(dst, int64(int32(le.Uint32(b))), 10)
	}
	low := int64(le.Uint64(b))
	rest := b[8:]
	for len(rest) > 0 && int64(le.Uint64(rest)) == low>>63 {
		rest = rest[8:]
	}
	if len(rest) == 0 { // the usual case: it fits 64 bits
		return strconv.AppendInt(dst, low, 10)
	}
	big := make([]byte, len(b)) // big-endian
	for i := range b {
		big[len(b)-1-i] = b[i]
	}
	return appendBig(dst, big)
}

// appendBig writes a big-endian two's complement number.
func appendBig(dst, b []byte) []byte {
	n := new(big.Int).SetBytes(b)
	if b[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return n.Append(dst, 10)
}

// halfToFloat widens a float of 16 bits, exactly.
func halfToFloat(h uint16) float64 {
	sign, exponent, fraction := uint64(h>>15)<<63, int(h>>10&0x1f), uint64(h&0x3ff)
	switch exponent {
	case 0x1f:
		return math.Float64frombits(sign | 0x7ff<<52 | fraction<<42)
	case 0:
		v := math.Ldexp(float64(fraction), -24)
		return math.Float64frombits(sign | math.Float64bits(v))
	default:
		return math.Float64frombits(sign | uint64(exponent-15+1023)<<52 | fraction<<42)
	}
}
