package codec

import (
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/udfgate/udfgate"
)

// treeTaker reads marshal blocks of a type that is not text or binary into a
// tree. Values go by the type: a tag that the type does not allow, or a number
// out of its range, asks for a RECODE.
type treeTaker struct {
	*taker
	root    *tree
	src     []byte // the block, in memory that its writer may change
	at      int64
	row     int64
	entries []int64 // where the values of the reference table begin
	again   int     // > 0: within a reference, where nothing enters the table again
}

// referencesMax bounds references within references. A value is no deeper than
// its type, so only a writer that refers to references gets there.
const referencesMax = 2 * schemaDepthMax

// marshalTree takes [index, data] of any type.
func (t *taker) marshalTree(field *udfgate.Field) (*Answer, error) {
	m := &marshalTaker{taker: t}
	blocks, err := m.find()
	if err != nil {
		return nil, err
	}
	tt := &treeTaker{taker: t, root: newTree(field, t.limits.BytesMax)}
	from, index := binary.LittleEndian.Uint64(m.index), m.index
	for range blocks {
		index = index[indexEntry:]
		to := binary.LittleEndian.Uint64(index)
		if from > to || to > uint64(len(m.blocks)) {
			return nil, fmt.Errorf("row %d: marshal block from %d to %d of %d bytes", tt.row, from, to, len(m.blocks))
		}
		if err := tt.block(m.blocks[from:to]); err != nil {
			return nil, err
		}
		from = to
	}
	return tt.root.answer(t.rows), nil
}

// block reads one list of rows.
func (r *treeTaker) block(src []byte) error {
	r.src, r.at, r.entries = src, 0, r.entries[:0]
	tag, err := r.tag()
	if err != nil {
		return err
	}
	if tag != tagList {
		return fmt.Errorf("row %d: marshal block begins with tag %q, wanted a list", r.row, tag)
	}
	count, err := r.uint32()
	if err != nil {
		return err
	}
	if want := min(r.blockRows, r.rows-r.row); count != want {
		return fmt.Errorf("row %d: wanted a marshal list of %d values, got %d", r.row, want, count)
	}
	for range count {
		if err := r.value(r.root); err != nil {
			return err
		}
		r.row++
	}
	if left := int64(len(src)) - r.at; left != 0 {
		return fmt.Errorf("row %d: %d bytes after the marshal list", r.row, left)
	}
	return nil
}

func (r *treeTaker) cut() error {
	return fmt.Errorf("row %d: marshal block ends within the value", r.row)
}

func (r *treeTaker) wrong(tag byte) error { return &TagError{Row: r.row, Tag: tag} }

// take returns the next n bytes.
func (r *treeTaker) take(n int64) ([]byte, error) {
	if n < 0 || n > int64(len(r.src))-r.at {
		return nil, r.cut()
	}
	b := r.src[r.at : r.at+n]
	r.at += n
	return b, nil
}

// tag reads a tag; a value that enters the reference table does so here.
func (r *treeTaker) tag() (byte, error) {
	at := r.at
	b, err := r.take(1)
	if err != nil {
		return 0, err
	}
	tag := b[0]
	if tag&tagEnters != 0 && r.again == 0 {
		r.entries = append(r.entries, at)
	}
	return tag &^ tagEnters, nil
}

func (r *treeTaker) uint32() (int64, error) {
	b, err := r.take(4)
	if err != nil {
		return 0, err
	}
	return int64(binary.LittleEndian.Uint32(b)), nil
}

// count is what follows the tag of a value that has a length.
func (r *treeTaker) count(tag byte) (int64, error) {
	switch tag {
	case tagShortASCII, tagShortInterned, tagSmallTuple:
		b, err := r.take(1)
		if err != nil {
			return 0, err
		}
		return int64(b[0]), nil
	default:
		return r.uint32()
	}
}

// value reads one value of a column.
func (r *treeTaker) value(n *tree) error {
	if *n.used > r.limits.BytesMax {
		return r.limits.TooLarge(*n.used)
	}
	if n.length >= nodeLengthMax {
		return r.limits.TooLarge(n.length)
	}
	tag, err := r.tag()
	if err != nil {
		return err
	}
	switch tag {
	case tagNull:
		if !n.nullable && n.typ.Kind != udfgate.Null {
			return r.wrong(tag)
		}
		n.null()
		return nil
	case tagReference:
		return r.reference(func() error { return r.value(n) })
	}
	return r.content(n, tag)
}

// reference goes back to a value of the table and reads it again.
func (r *treeTaker) reference(read func() error) error {
	index, err := r.uint32()
	if err != nil {
		return err
	}
	if index >= int64(len(r.entries)) {
		return fmt.Errorf("row %d: reference to entry %d of %d", r.row, index, len(r.entries))
	}
	if r.again >= referencesMax {
		return fmt.Errorf("row %d: references more than %d deep", r.row, referencesMax)
	}
	back := r.at
	r.at = r.entries[index]
	r.again++
	err = read()
	r.again--
	r.at = back
	return err
}

// content reads a value whose tag has been read.
func (r *treeTaker) content(n *tree, tag byte) error {
	switch k := n.typ.Kind; {
	case k == udfgate.Bool:
		return r.bool(n, tag)
	case k == udfgate.Float16, k == udfgate.Float32, k == udfgate.Float64:
		return r.float(n, tag)
	case k.Decimal():
		return r.decimal(n, tag)
	case k.Text():
		return r.text(n, tag)
	case k.Variable(), k == udfgate.FixedSizeBinary:
		return r.binary(n, tag)
	case k == udfgate.MonthInterval, k == udfgate.DayTimeInterval, k == udfgate.MonthDayNanoInterval:
		return r.interval(n, tag)
	case k == udfgate.List, k == udfgate.LargeList, k == udfgate.FixedSizeList:
		return r.list(n, tag)
	case k == udfgate.Struct:
		return r.structure(n, tag)
	case k == udfgate.Map:
		return r.entriesOf(n, tag)
	case k == udfgate.Null:
		return r.wrong(tag)
	default:
		return r.integer(n, tag)
	}
}

func (r *treeTaker) bool(n *tree, tag byte) error {
	if tag != tagTrue && tag != tagFalse {
		return r.wrong(tag)
	}
	n.bit(&n.values, tag == tagTrue)
	n.grown()
	return nil
}

// number reads an int; fits is false if it is beyond 64 bits, negative is its sign.
func (r *treeTaker) number(tag byte) (magnitude uint64, negative, fits bool, err error) {
	switch tag {
	case tagInt:
		v, err := r.uint32()
		if s := int64(int32(v)); s < 0 {
			return uint64(-s), true, true, err
		}
		return uint64(v), false, true, err
	case tagLong:
		count, err := r.uint32()
		if err != nil {
			return 0, false, false, err
		}
		digits := int64(int32(count))
		negative = digits < 0
		if negative {
			digits = -digits
		}
		b, err := r.take(2 * digits)
		if err != nil {
			return 0, false, false, err
		}
		fits = true
		for i := digits - 1; i >= 0; i-- {
			if magnitude>>(64-15) != 0 {
				fits = false
			}
			magnitude = magnitude<<15 | uint64(binary.LittleEndian.Uint16(b[2*i:])&0x7fff)
		}
		return magnitude, negative, fits, nil
	default:
		return 0, false, false, r.wrong(tag)
	}
}

// signed reads an int within [least, most].
func (r *treeTaker) signed(tag byte, least, most int64) (int64, error) {
	magnitude, negative, fits, err := r.number(tag)
	if err != nil {
		return 0, err
	}
	v := int64(magnitude)
	if negative {
		v = -v
	}
	if !fits || magnitude > math.MaxInt64 && (!negative || magnitude > 1<<63) || v < least || v > most {
		return 0, r.wrong(tag)
	}
	return v, nil
}

func (r *treeTaker) integer(n *tree, tag byte) error {
	if n.typ.Kind == udfgate.Uint64 {
		magnitude, negative, fits, err := r.number(tag)
		if err != nil {
			return err
		}
		if !fits || negative && magnitude != 0 {
			return r.wrong(tag)
		}
		n.fixed(binary.LittleEndian.AppendUint64(nil, magnitude))
		n.grown()
		return nil
	}
	least, most := rangeOf(n.typ)
	v, err := r.signed(tag, least, most)
	if err != nil {
		return err
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(v))
	n.fixed(b[:n.typ.Kind.Width()])
	n.grown()
	return nil
}

// rangeOf is the range of the integer that stands for a value.
func rangeOf(t *udfgate.Type) (least, most int64) {
	const day = 86400
	switch t.Kind {
	case udfgate.Uint8, udfgate.Uint16, udfgate.Uint32:
		return 0, 1<<(8*t.Kind.Width()) - 1
	case udfgate.Time32, udfgate.Time64:
		perSecond := [...]int64{1, 1e3, 1e6, 1e9}
		return 0, day*perSecond[t.Unit] - 1
	}
	bits := 8 * t.Kind.Width()
	return -1 << (bits - 1), 1<<(bits-1) - 1
}

func (r *treeTaker) float(n *tree, tag byte) error {
	if tag != tagFloat {
		return r.wrong(tag)
	}
	b, err := r.take(8)
	if err != nil {
		return err
	}
	v := math.Float64frombits(binary.LittleEndian.Uint64(b))
	switch n.typ.Kind {
	case udfgate.Float64:
		n.fixed(binary.LittleEndian.AppendUint64(nil, math.Float64bits(v)))
	case udfgate.Float32:
		single := float32(v)
		if math.IsInf(float64(single), 0) && !math.IsInf(v, 0) {
			return r.wrong(tag)
		}
		n.fixed(binary.LittleEndian.AppendUint32(nil, math.Float32bits(single)))
	default:
		half, ok := floatToHalf(v)
		if !ok {
			return r.wrong(tag)
		}
		n.fixed(binary.LittleEndian.AppendUint16(nil, half))
	}
	n.grown()
	return nil
}

// floatToHalf rounds to the nearest float of 16 bits, ties to even; false if a
// finite number would become infinite.
func floatToHalf(v float64) (uint16, bool) {
	sign := uint16(math.Float64bits(v) >> 48 & 0x8000)
	abs := math.Abs(v)
	switch {
	case math.IsNaN(v):
		return sign | 0x7e00, true
	case math.IsInf(v, 0):
		return sign | 0x7c00, true
	case abs >= 65520: // halfway to 2^16, which rounds up
		return 0, false
	case abs < 1.0/(1<<14): // subnormal: a multiple of 2^-24
		return sign | uint16(math.RoundToEven(math.Ldexp(abs, 24))), true
	}
	fraction, exponent := math.Frexp(abs) // fraction is in [0.5, 1)
	mantissa := uint16(math.RoundToEven(math.Ldexp(fraction, 11)))
	return sign | (uint16(exponent+14)<<10 + mantissa - 1<<10), true // a mantissa of 2^11 carries into the exponent
}

// isText says whether a tag is one of text.
func isText(tag byte) bool {
	switch tag {
	case tagShortASCII, tagShortInterned, tagASCII, tagASCIIInterned, tagText, tagTextInterned:
		return true
	default:
		return false
	}
}

func (r *treeTaker) text(n *tree, tag byte) error {
	if !isText(tag) {
		return r.wrong(tag)
	}
	count, err := r.count(tag)
	if err != nil {
		return err
	}
	return r.data(n, count, true)
}

// data copies count bytes into the values, then checks the copy.
func (r *treeTaker) data(n *tree, count int64, text bool) error {
	b, err := r.take(count)
	if err != nil {
		return err
	}
	if !large(n.typ.Kind) && n.typ.Kind.Variable() && int64(len(n.values))+count > TextBytesMax {
		return textTooLarge(n.typ.Kind, int64(len(n.values))+count)
	}
	from := len(n.values)
	n.fixed(b)
	if text && !utf8.Valid(n.values[from:]) {
		return r.wrong(0)
	}
	n.grown()
	return nil
}

func (r *treeTaker) binary(n *tree, tag byte) error {
	if tag != tagBinary {
		return r.wrong(tag)
	}
	count, err := r.uint32()
	if err != nil {
		return err
	}
	if n.typ.Kind == udfgate.FixedSizeBinary && count != int64(n.typ.Size) {
		return r.wrong(tag)
	}
	return r.data(n, count, false)
}

// sequence reads the count of a list or tuple.
func (r *treeTaker) sequence(tag byte) (int64, error) {
	switch tag {
	case tagList, tagTuple, tagSmallTuple:
		return r.count(tag)
	default:
		return 0, r.wrong(tag)
	}
}

func (r *treeTaker) interval(n *tree, tag byte) error {
	count, err := r.sequence(tag)
	if err != nil {
		return err
	}
	widths := map[udfgate.Kind][]int{
		udfgate.MonthInterval: {4}, udfgate.DayTimeInterval: {4, 4}, udfgate.MonthDayNanoInterval: {4, 4, 8},
	}[n.typ.Kind]
	if count != int64(len(widths)) {
		return r.wrong(tag)
	}
	var b []byte
	for _, width := range widths {
		tag, err := r.tag()
		if err != nil {
			return err
		}
		v, err := r.signed(tag, -1<<(8*width-1), 1<<(8*width-1)-1)
		if err != nil {
			return err
		}
		b = binary.LittleEndian.AppendUint64(b, uint64(v))[:len(b)+width]
	}
	n.fixed(b)
	n.grown()
	return nil
}

func (r *treeTaker) list(n *tree, tag byte) error {
	count, err := r.sequence(tag)
	if err != nil {
		return err
	}
	if n.typ.Kind == udfgate.FixedSizeList && count != int64(n.typ.Size) {
		return r.wrong(tag)
	}
	if !large(n.typ.Kind) && n.children[0].length+count > math.MaxInt32 {
		return r.limits.TooLarge(n.children[0].length + count)
	}
	for range count {
		if err := r.value(n.children[0]); err != nil {
			return err
		}
	}
	n.grown()
	return nil
}
