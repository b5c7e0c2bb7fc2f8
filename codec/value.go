package codec

import (
	"encoding/binary"
	"math"

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

// bound is the most bytes that values [lo, hi) of a column take, but for the
// names of members, of which every block spells each out once: see names.
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
		return n * (shortHeader + decimalTextMax(k.Width(), c.Type.Scale))
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
			total += n*wideHeader + c.Children[i].bound(body, lo, hi)
		}
		return total
	default:
		return n * intBytesMax
	}
}

// names is the most bytes of the names of members that a block spells out.
func names(t *udfgate.Type) (total int64) {
	for i := range t.Children {
		if t.Kind == udfgate.Struct {
			total += int64(len(t.Children[i].Name))
		}
		total += names(&t.Children[i].Type)
	}
	return total
}

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

// source is a column that is being written: where its parts lie.
type source struct {
	typ      *udfgate.Type
	kind     udfgate.Kind
	large    bool // offsets are of 64 bits
	text     byte // tag of text and binary
	validity []byte
	offsets  []byte
	values   []byte
	children []source
	names    []int // of members, in the table of the writer
}

// span is as of Column.
func (s *source) span(i int64) (from, to int64) {
	if s.large {
		b := s.offsets[8*i:][:16]
		return int64(binary.LittleEndian.Uint64(b)), int64(binary.LittleEndian.Uint64(b[8:]))
	}
	b := s.offsets[4*i:][:8]
	return int64(binary.LittleEndian.Uint32(b)), int64(binary.LittleEndian.Uint32(b[4:]))
}

// memberName is the name of a struct's member: text that enters the reference
// table of a block where it comes first, a reference from then on.
type memberName struct {
	text  string
	index int64 // in the block's table, -1 before it has come
}

// valueWriter writes values of any type in marshal form. dst has the room that
// bound and names say.
type valueWriter struct {
	dst     []byte
	at      int64
	names   []memberName
	entered int64 // names in the block's table
}

// source makes a column ready to be written.
func (w *valueWriter) source(c *Column, body []byte, known map[string]int) source {
	s := source{typ: c.Type, kind: c.Type.Kind, large: large(c.Type.Kind), text: tagText}
	s.validity, s.offsets, s.values = body[c.Validity.Off:c.Validity.End()], body[c.Offsets.Off:c.Offsets.End()], body[c.Values.Off:c.Values.End()]
	switch {
	case !s.kind.Text():
		s.text = tagBinary
	case c.ASCII:
		s.text = tagASCII
	}
	for i := range c.Children {
		s.children = append(s.children, w.source(&c.Children[i], body, known))
		if s.kind != udfgate.Struct || s.typ.View == udfgate.ViewTuple {
			continue
		}
		name := c.Type.Children[i].Name
		if _, ok := known[name]; !ok {
			known[name] = len(w.names)
			w.names = append(w.names, memberName{text: name})
		}
		s.names = append(s.names, known[name])
	}
	return s
}

// block writes values [from, to) as one list.
func (w *valueWriter) block(s *source, from, to int64) {
	w.entered = 0
	for i := range w.names {
		w.names[i].index = -1
	}
	w.items(s, from, to)
}

func (w *valueWriter) tag(tag byte) {
	w.dst[w.at] = tag
	w.at++
}

// count writes a tag with a u32: a length, a count or an index.
func (w *valueWriter) count(tag byte, n int64) {
	head := w.dst[w.at:][:wideHeader]
	head[0] = tag
	binary.LittleEndian.PutUint32(head[1:], uint32(n))
	w.at += wideHeader
}

func (w *valueWriter) bytes(tag byte, value []byte) {
	w.count(tag, int64(len(value)))
	w.at += int64(copy(w.dst[w.at:], value))
}

// value writes value i of a column.
func (w *valueWriter) value(s *source, i int64) {
	if !bitSet(s.validity, i) {
		w.tag(tagNull)
		return
	}
	switch s.kind {
	case udfgate.Int64:
		w.integer(int64(binary.LittleEndian.Uint64(s.values[8*i:])))
	case udfgate.Null:
		w.tag(tagNull)
	case udfgate.Utf8, udfgate.Binary, udfgate.LargeUtf8, udfgate.LargeBinary:
		from, to := s.span(i)
		w.bytes(s.text, s.values[from:to])
	case udfgate.List, udfgate.LargeList:
		from, to := s.span(i)
		w.items(&s.children[0], from, to)
	case udfgate.FixedSizeList:
		size := int64(s.typ.Size)
		w.items(&s.children[0], i*size, (i+1)*size)
	case udfgate.Struct:
		w.members(s, i)
	case udfgate.Map:
		w.entries(s, i)
	default:
		w.scalar(s, i)
	}
}

func (w *valueWriter) items(s *source, from, to int64) {
	w.count(tagList, to-from)
	for i := from; i < to; i++ {
		w.value(s, i)
	}
}

func (w *valueWriter) members(s *source, i int64) {
	if s.typ.View == udfgate.ViewTuple {
		w.count(tagTuple, int64(len(s.children)))
		for m := range s.children {
			w.value(&s.children[m], i)
		}
		return
	}
	w.tag(tagDict)
	for m := range s.children {
		w.name(&w.names[s.names[m]])
		w.value(&s.children[m], i)
	}
	w.tag(tagEnd)
}

func (w *valueWriter) name(n *memberName) {
	if n.index >= 0 {
		w.count(tagReference, n.index)
		return
	}
	n.index = w.entered
	w.entered++
	w.count(tagTextInterned|tagEnters, int64(len(n.text)))
	w.at += int64(copy(w.dst[w.at:], n.text))
}

func (w *valueWriter) entries(s *source, i int64) {
	from, to := s.span(i)
	key, value := &s.children[0].children[0], &s.children[0].children[1]
	if s.typ.View == udfgate.ViewPairs {
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
func (w *valueWriter) scalar(s *source, i int64) {
	le, values := binary.LittleEndian, s.values
	switch k := s.kind; k {
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
		size := int64(s.typ.Size)
		w.bytes(tagBinary, values[i*size:(i+1)*size])
	case udfgate.Decimal32, udfgate.Decimal64, udfgate.Decimal128, udfgate.Decimal256:
		width := int64(k.Width())
		w.decimal(values[i*width:(i+1)*width], s.typ.Scale)
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
	room := w.dst[w.at+shortHeader:]
	text := appendDecimal(room[:0:len(room)], b, scale)
	w.dst[w.at], w.dst[w.at+1] = tagShortASCII, byte(len(text))
	w.at += shortHeader + int64(len(text))
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
