package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

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
func (t *taker) marshalTree(field udfgate.Field) (*Answer, error) {
	m := &marshalTaker{taker: t}
	blocks, err := m.find()
	if err != nil {
		return nil, err
	}
	tt := &treeTaker{taker: t, root: newTree(&field, t.limits.BytesMax)}
	defer tt.root.release()
	from, index := binary.LittleEndian.Uint64(m.index), m.index
	for range blocks {
		index = index[indexEntry:]
		to := binary.LittleEndian.Uint64(index)
		if from > to || to > uint64(len(m.blocks)) {
			return nil, fmt.Errorf("row %d: marshal block from %d to %d of %d bytes", tt.row, from, to, len(m.blocks))
		}
		if err := tt.block(m.blocks[from:to]); err != nil {
			if long, ok := errors.AsType[*tooLarge](err); ok {
				return nil, t.limits.TooLarge(long.size)
			}
			return nil, err
		}
		from = to
	}
	answer := tt.root.answer(t.rows)
	if size := int64(len(answer.Body.Bytes())); size > t.limits.BytesMax {
		answer.Release()
		return nil, t.limits.TooLarge(size)
	}
	return answer, nil
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
	if r.at >= int64(len(r.src)) {
		return 0, r.cut()
	}
	tag := r.src[r.at]
	if tag&tagEnters != 0 && r.again == 0 {
		r.entries = append(r.entries, r.at)
	}
	r.at++
	return tag &^ tagEnters, nil
}

func (r *treeTaker) uint32() (int64, error) {
	if r.at > int64(len(r.src))-4 {
		return 0, r.cut()
	}
	v := binary.LittleEndian.Uint32(r.src[r.at:])
	r.at += 4
	return int64(v), nil
}

// count is what follows the tag of a value that has a length.
func (r *treeTaker) count(tag byte) (int64, error) {
	if textTags[tag] != classShort && tag != tagSmallTuple {
		return r.uint32()
	}
	if r.at >= int64(len(r.src)) {
		return 0, r.cut()
	}
	n := r.src[r.at]
	r.at++
	return int64(n), nil
}

// value reads one value of a column.
func (r *treeTaker) value(n *tree) error {
	if err := n.full(); err != nil {
		return err
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
		return n.null()
	case tagReference:
		return r.reference(func() error { return r.value(n) })
	}
	return r.content(n, tag)
}

// reference goes back to a value of the table and reads it again.
func (r *treeTaker) reference(read func() error) error {
	at, err := r.entry()
	if err != nil {
		return err
	}
	if r.again >= referencesMax {
		return fmt.Errorf("row %d: references more than %d deep", r.row, referencesMax)
	}
	back := r.at
	r.at = at
	r.again++
	err = read()
	r.again--
	r.at = back
	return err
}

// entry reads what follows the tag of a reference: where the value begins that
// it refers to.
func (r *treeTaker) entry() (int64, error) {
	index, err := r.uint32()
	if err != nil {
		return 0, err
	}
	if index >= int64(len(r.entries)) {
		return 0, fmt.Errorf("row %d: reference to entry %d of %d", r.row, index, len(r.entries))
	}
	return r.entries[index], nil
}

// content reads a value whose tag has been read.
func (r *treeTaker) content(n *tree, tag byte) error {
	switch n.typ.Kind {
	case udfgate.Bool:
		return r.bool(n, tag)
	case udfgate.Float16, udfgate.Float32, udfgate.Float64:
		return r.float(n, tag)
	case udfgate.Decimal32, udfgate.Decimal64, udfgate.Decimal128, udfgate.Decimal256:
		return r.decimal(n, tag)
	case udfgate.Utf8, udfgate.LargeUtf8:
		return r.text(n, tag)
	case udfgate.Binary, udfgate.LargeBinary, udfgate.FixedSizeBinary:
		return r.binary(n, tag)
	case udfgate.MonthInterval, udfgate.DayTimeInterval, udfgate.MonthDayNanoInterval:
		return r.interval(n, tag)
	case udfgate.List, udfgate.LargeList, udfgate.FixedSizeList:
		return r.list(n, tag)
	case udfgate.Struct:
		return r.structure(n, tag)
	case udfgate.Map:
		return r.entriesOf(n, tag)
	case udfgate.Null:
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
	if tag == tagInt {
		bits, err := r.uint32()
		v := int64(int32(bits))
		if err == nil && (v < least || v > most) {
			err = r.wrong(tag)
		}
		return v, err
	}
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
	var b [8]byte
	if n.typ.Kind == udfgate.Uint64 {
		magnitude, negative, fits, err := r.number(tag)
		if err != nil {
			return err
		}
		if !fits || negative && magnitude != 0 {
			return r.wrong(tag)
		}
		binary.LittleEndian.PutUint64(b[:], magnitude)
	} else {
		v, err := r.signed(tag, n.least, n.most)
		if err != nil {
			return err
		}
		if n.typ.Kind == udfgate.Date64 && v%dayMillis != 0 {
			return r.wrong(tag)
		}
		binary.LittleEndian.PutUint64(b[:], uint64(v))
	}
	n.fixed(b[:n.width()])
	n.grown()
	return nil
}

// A date64 is a whole number of days, in milliseconds; a time is less than one.
const (
	daySeconds = 86400
	dayMillis  = daySeconds * 1000
)

var unitsPerSecond = [...]int64{1, 1e3, 1e6, 1e9}

// rangeOf is the range of the integer that stands for a value.
func rangeOf(t *udfgate.Type) (least, most int64) {
	switch t.Kind {
	case udfgate.Uint8, udfgate.Uint16, udfgate.Uint32:
		return 0, 1<<(8*t.Kind.Width()) - 1
	case udfgate.Time32, udfgate.Time64:
		return 0, daySeconds*unitsPerSecond[t.Unit] - 1
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
	var out [8]byte
	switch n.typ.Kind {
	case udfgate.Float64:
		binary.LittleEndian.PutUint64(out[:], math.Float64bits(v))
	case udfgate.Float32:
		single := float32(v)
		if math.IsInf(float64(single), 0) && !math.IsInf(v, 0) {
			return r.wrong(tag)
		}
		binary.LittleEndian.PutUint32(out[:], math.Float32bits(single))
	default:
		half, ok := floatToHalf(v)
		if !ok {
			return r.wrong(tag)
		}
		binary.LittleEndian.PutUint16(out[:], half)
	}
	n.fixed(out[:n.width()])
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
	class := textTags[tag]
	return class == classShort || class == classWide
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
	from := len(n.values)
	if total := int64(from) + count; total > TextBytesMax && (n.typ.Kind == udfgate.Utf8 || n.typ.Kind == udfgate.Binary) {
		return textTooLarge(n.typ.Kind, total)
	}
	n.fixed(b)
	if copied := n.values[from:]; text && !isASCII(copied) && !validText(copied) {
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
