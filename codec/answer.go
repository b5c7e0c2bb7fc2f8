package codec

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/udfgate/udfgate"
)

// Value forms of a column, as numbered in docs/worker-protocol.md.
const (
	FormArrow   = 1
	FormMarshal = 2
	FormFlat    = 3
)

const (
	// TextBytesMax is what int32 offsets can address: the most data that a utf8
	// or binary column of one batch can hold.
	TextBytesMax = math.MaxInt32
	// answerAlign is where each buffer of an answer begins; readers that map
	// values into vectors need no copy then.
	answerAlign = 64
)

// AnswerLimits bound what TakeAnswer makes. BytesName is the flag that the error
// quotes.
type AnswerLimits struct {
	BytesMax  int64 // of the body
	BytesName string
}

// TooLarge is the error of an answer of size bytes, which is over the limit.
func (l AnswerLimits) TooLarge(size int64) error {
	return udfgate.Invalidf(udfgate.ShapeTooLarge, "result of %d bytes is over %s %d; send smaller batches",
		size, l.BytesName, l.BytesMax)
}

// ResultColumn is a result column as a RESULT frame describes it. Buffer
// offsets count from the start of the answer's region.
type ResultColumn struct {
	Form    uint16
	Blocks  uint32
	Nulls   int64
	Buffers []Buffer
}

// TagError says that a marshal block cannot be taken as it is and the worker
// should encode its values one by one (RECODE). Row counts from the first row run.
type TagError struct {
	Row int64
	Tag byte // 0: the tag is right, its text is not UTF-8
}

func (e *TagError) Error() string {
	if e.Tag == 0 {
		return fmt.Sprintf("row %d: text is not UTF-8", e.Row)
	}
	return fmt.Sprintf("row %d: marshal tag %q is not one of the result's type", e.Row, e.Tag)
}

// TakeAnswer copies a result column out of region and verifies the copy. region
// is memory that the worker may change at any time: every length in it is read
// once, and nothing is believed that was not checked after it was copied.
//
// # Errors
//
// *TagError asks for a RECODE; *udfgate.Error Invalid says that the answer is
// over a limit; any other error means that the worker broke the protocol.
func TakeAnswer(field udfgate.Field, rows int64, blockRows int, rc *ResultColumn, region []byte, limits AnswerLimits) (*Answer, error) {
	if rows < 0 || rows > RowsMax {
		return nil, fmt.Errorf("answer of %d rows, wanted 0 to %d", rows, int64(RowsMax))
	}
	kind := field.Type.Kind
	t := &taker{kind: kind, nullable: field.Nullable, rows: rows, blockRows: int64(blockRows), rc: rc, region: region, limits: limits}
	var err error
	var tree *Answer // of all but the commonest types, which have code of their own
	text, numbers := kind == udfgate.Utf8 || kind == udfgate.Binary, !Rendered(&field.Type)
	switch {
	case rc.Form == FormArrow && text:
		err = t.arrowVariable()
	case rc.Form == FormArrow && numbers:
		err = t.arrowFixed(&field.Type)
	case rc.Form == FormArrow:
		tree, err = t.arrowTree(field)
	case rc.Form == FormMarshal && text:
		err = t.marshal()
	case rc.Form == FormMarshal && !numbers:
		tree, err = t.marshalTree(field)
	case rc.Form == FormFlat && numbers:
		err = t.flat(&field.Type)
	default:
		err = fmt.Errorf("value form %d does not carry %s", rc.Form, field.Type)
	}
	if err == nil && t.nulls > 0 && !field.Nullable && kind != udfgate.Null {
		err = fmt.Errorf("%d nulls in a result that is not nullable", t.nulls)
	}
	// Marshal blocks are the one form in which counting nulls would cost the
	// worker a pass of its own.
	if err == nil && t.nulls != rc.Nulls && rc.Form != FormMarshal {
		err = fmt.Errorf("answer says %d nulls, its values have %d", rc.Nulls, t.nulls)
	}
	if err != nil {
		if t.body != nil {
			t.body.Release()
		}
		return nil, err
	}
	if tree != nil {
		return tree, nil
	}
	return t.answer(), nil
}

// EmptyAnswer is the answer of zero rows.
func EmptyAnswer(field udfgate.Field) *Answer {
	return newTree(&field, math.MaxInt64).answer(0) // with the one offset that readers may ask for even here
}

// taker builds one answer. The buffers of the body are placed in the order of
// the header; size is where the next may begin.
type taker struct {
	kind      udfgate.Kind
	nullable  bool
	rows      int64
	blockRows int64
	rc        *ResultColumn
	region    []byte
	limits    AnswerLimits

	body     *Block
	size     int64
	nulls    int64
	validity Buffer
	offsets  Buffer
	values   Buffer // of fixed width types and bool
	data     Buffer // of utf8 and binary
}

// place reserves n bytes for a buffer.
func (t *taker) place(n int64) Buffer {
	at := roundUp(t.size, answerAlign)
	t.size = roundUp(at+n, bufferAlign)
	return Buffer{Offset: at, Length: n}
}

// allocate gets the body for what was placed, if the limits allow for it.
func (t *taker) allocate() error {
	if t.size > t.limits.BytesMax {
		return t.limits.TooLarge(t.size)
	}
	t.body = NewBlock(int(t.size))
	return nil
}

func textTooLarge(kind udfgate.Kind, size int64) error {
	return udfgate.Invalidf(udfgate.ShapeTooLarge, "result of %d bytes of %s is over %d, the most that one column of a batch can hold; send smaller batches",
		size, kind, int64(TextBytesMax))
}

// in is the memory of a placed buffer.
func (t *taker) in(b Buffer) []byte {
	return t.body.Bytes()[b.Offset : b.Offset+b.Length : b.Offset+b.Length]
}

// source is buffer i of the answer, at least need bytes of it.
func (t *taker) source(i int, what string, need int64) ([]byte, error) {
	b, size := t.rc.Buffers[i], int64(len(t.region))
	if b.Offset < 0 || b.Length < 0 || b.Offset > size || b.Length > size-b.Offset || b.Offset%bufferAlign != 0 {
		return nil, fmt.Errorf("wanted %s at a multiple of %d within an answer of %d bytes, got %d bytes at %d",
			what, bufferAlign, size, b.Length, b.Offset)
	}
	if b.Length < need {
		return nil, fmt.Errorf("wanted at least %d bytes of %s for %d rows of %s, got %d", need, what, t.rows, t.kind, b.Length)
	}
	return t.region[b.Offset : b.Offset+b.Length], nil
}

func (t *taker) wantBuffers(n int) error {
	if len(t.rc.Buffers) != n {
		return fmt.Errorf("wanted %d buffers in form %d of %s, got %d", n, t.rc.Form, t.kind, len(t.rc.Buffers))
	}
	return nil
}

// answerRoom is an answer with room for its header, so that it is one piece.
type answerRoom struct {
	Answer
	nodes   [1]Node
	buffers [3]Buffer
}

// answer hands the body over. Gaps between buffers are zeroed here: blocks are
// recycled without clearing, and what they held belongs to other calls.
func (t *taker) answer() *Answer {
	if t.nulls == 0 {
		t.validity = Buffer{Offset: 0}
	}
	room := &answerRoom{nodes: [...]Node{{Length: t.rows, Nulls: t.nulls}}}
	a := &room.Answer
	a.Rows, a.Nodes, a.Body = t.rows, room.nodes[:], t.body
	if t.kind.Variable() {
		a.Buffers = append(room.buffers[:0], t.validity, t.offsets, t.data)
	} else {
		a.Buffers = append(room.buffers[:0], t.validity, t.values)
	}
	body := t.body.Bytes()
	end := int64(0)
	for _, b := range a.Buffers {
		if b.Length > 0 {
			clear(body[end:b.Offset])
			end = b.Offset + b.Length
		}
	}
	clear(body[end:])
	return a
}

// copyBitmap copies one bit per row and zeroes the bits beyond.
func copyBitmap(dst, src []byte, rows int64) {
	copy(dst, src)
	if tail := rows & 7; tail != 0 {
		dst[len(dst)-1] &= 1<<tail - 1
	}
}

// arrowValidity places the validity, if one came; fillValidity copies it once
// the body exists.
func (t *taker) arrowValidity() ([]byte, error) {
	if t.rc.Buffers[0].Length == 0 {
		return nil, nil
	}
	src, err := t.source(0, "validity", bitmapLen(t.rows))
	if err == nil {
		t.validity = t.place(bitmapLen(t.rows))
	}
	return src, err
}

func (t *taker) fillValidity(src []byte) {
	if t.validity.Length == 0 {
		return
	}
	dst := t.in(t.validity)
	copyBitmap(dst, src, t.rows)
	t.nulls = zeroBits(dst, t.rows)
}

// arrowFixed takes [validity, values] of fixed width, or bits of bool.
func (t *taker) arrowFixed(typ *udfgate.Type) error {
	if err := t.wantBuffers(2); err != nil {
		return err
	}
	validity, err := t.arrowValidity()
	if err != nil {
		return err
	}
	need := t.rows * int64(t.kind.Width())
	if t.kind == udfgate.Bool {
		need = bitmapLen(t.rows)
	}
	values, err := t.source(1, "values", need)
	if err != nil {
		return err
	}
	t.values = t.place(need)
	if err := t.allocate(); err != nil {
		return err
	}
	t.fillValidity(validity)
	if t.kind == udfgate.Bool {
		copyBitmap(t.in(t.values), values, t.rows)
		return nil
	}
	copy(t.in(t.values), values)
	if row := t.unfit(typ); row >= 0 {
		own := *typ // the error quotes it, and the field of every answer would go to the heap for that
		return errUnfit(row, &own)
	}
	return nil
}

// arrowVariable takes [validity, offsets, data]. The first and last offset are
// read once to size the copy, and must still be there in the copy.
func (t *taker) arrowVariable() error {
	if err := t.wantBuffers(3); err != nil {
		return err
	}
	validity, err := t.arrowValidity()
	if err != nil {
		return err
	}
	need := 4 * (t.rows + 1)
	if t.rows == 0 {
		need = 0
	}
	offsets, err := t.source(1, "offsets", need)
	if err != nil {
		return err
	}
	data, err := t.source(2, "data", 0)
	if err != nil {
		return err
	}
	var first, last int64
	if t.rows > 0 {
		first = int64(int32(binary.LittleEndian.Uint32(offsets)))
		last = int64(int32(binary.LittleEndian.Uint32(offsets[4*t.rows:])))
	}
	if first < 0 || last < first || last > int64(len(data)) {
		return fmt.Errorf("offsets go from %d to %d in data of %d bytes", first, last, len(data))
	}
	t.offsets = t.place(4 * (t.rows + 1))
	t.data = t.place(last - first)
	if err := t.allocate(); err != nil {
		return err
	}
	t.fillValidity(validity)
	copy(t.in(t.data), data[first:last])
	if t.rows == 0 {
		clear(t.in(t.offsets))
		return nil
	}
	copy(t.in(t.offsets), offsets)
	return t.rebase(int32(first), int32(last))
}

// rebase checks the copied offsets and makes them begin at 0.
func (t *taker) rebase(first, last int32) error {
	offsets := int32s(t.in(t.offsets))
	if offsets[0] != first || offsets[t.rows] != last {
		return fmt.Errorf("offsets changed while the answer was copied")
	}
	if !ascending(offsets) {
		row := firstFall(offsets)
		return fmt.Errorf("end offset %d of row %d is less than its start %d", offsets[row+1], row, offsets[row])
	}
	if first != 0 {
		for i := range offsets {
			offsets[i] -= first
		}
	}
	if t.kind != udfgate.Utf8 {
		return nil
	}
	data := t.in(t.data)
	if isASCII(data) || wholeText(offsets, data) {
		return nil
	}
	var validity []byte
	if t.nulls > 0 {
		validity = t.in(t.validity)
	}
	if row := firstBadText(offsets, data, func(row int64) bool { return bitSet(validity, row) }); row >= 0 {
		return fmt.Errorf("row %d: text is not UTF-8", row)
	}
	t.dropNullBytes(offsets, data, validity)
	return nil
}

// dropNullBytes removes what lies under nulls. It is legal in Arrow that this
// is not UTF-8, yet some readers check the data as a whole and refuse the batch.
func (t *taker) dropNullBytes(offsets []int32, data, validity []byte) {
	at, start := int32(0), offsets[0]
	for row, end := range offsets[1:] {
		if bitSet(validity, int64(row)) {
			at += int32(copy(data[at:], data[start:end]))
		}
		offsets[row+1] = at
		start = end
	}
	t.data.Length = int64(at)
	t.size = roundUp(t.data.Offset+t.data.Length, bufferAlign)
	t.body.Resize(int(t.size))
}
