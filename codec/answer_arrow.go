package codec

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"

	"github.com/udfgate/udfgate"
)

// arrowTaker copies the buffers of a column of any type, and of those below it,
// as they are. How long each is follows from the rows and from offsets that are
// read before the copy; the verifier then finds out whether the copy says so too.
type arrowTaker struct {
	*taker
	next    int // buffer of the answer that comes next
	nodes   []Node
	buffers []Buffer // in the body
	sources [][]byte
}

// arrowTree takes buffers in Arrow's order.
func (t *taker) arrowTree(field udfgate.Field) (*Answer, error) {
	a := &arrowTaker{taker: t}
	if err := a.column(&field.Type, t.rows); err != nil {
		return nil, err
	}
	if a.next != len(t.rc.Buffers) {
		return nil, fmt.Errorf("wanted %d buffers of %s, got %d", a.next, field.Type, len(t.rc.Buffers))
	}
	if err := t.allocate(); err != nil {
		return nil, err
	}
	answer := &Answer{Rows: t.rows, Nodes: a.nodes, Buffers: a.buffers, Body: t.body}
	a.copy()
	v := verifier{body: t.body.Bytes(), nodes: a.nodes, buffers: a.buffers, field: &field, valuesMax: RowsMax, valuesName: "the most rows of a batch,", dictionary: -1}
	var c Column
	if err := v.top(&field.Type, &c, t.rows); err != nil {
		return nil, fmt.Errorf("answer: %s", err.Error()) // not the caller's fault, so no *udfgate.Error
	}
	if hasRange(&field.Type) {
		if err := ranged(v.body, &c, always); err != nil {
			return nil, err
		}
	}
	t.nulls = c.Nulls
	s := settler{body: t.body.Bytes(), answer: answer}
	if err := s.settle(&field, &c, always); err != nil {
		return nil, err
	}
	return answer, nil
}

// part places one buffer of which need bytes are wanted.
func (a *arrowTaker) part(what string, need int64) ([]byte, error) {
	if a.next >= len(a.rc.Buffers) {
		return nil, fmt.Errorf("wanted %s as buffer %d, got %d buffers", what, a.next, len(a.rc.Buffers))
	}
	source, err := a.source(a.next, what, need)
	if err != nil {
		return nil, err
	}
	a.next++
	b := Buffer{}
	if need > 0 {
		b = a.place(need)
	}
	if a.size > a.limits.BytesMax {
		return nil, a.limits.TooLarge(a.size)
	}
	a.buffers = append(a.buffers, b)
	a.sources = append(a.sources, source[:need])
	return source[:need], nil
}

// column places the buffers of a column of so many values.
func (a *arrowTaker) column(t *udfgate.Type, length int64) error {
	if length < 0 || length > nodeLengthMax {
		return fmt.Errorf("%s of %d values, the most is %d", t.Kind, length, int64(nodeLengthMax))
	}
	a.nodes = append(a.nodes, Node{Length: length, Nulls: -1})
	if t.Kind == udfgate.Null {
		return nil
	}
	need := int64(0)
	if a.next < len(a.rc.Buffers) && a.rc.Buffers[a.next].Length > 0 {
		need = bitmapLen(length)
	}
	if _, err := a.part("validity", need); err != nil {
		return err
	}
	switch k := t.Kind; {
	case k.Variable():
		last, err := a.offsets(t, length)
		if err != nil {
			return err
		}
		_, err = a.part("data", last)
		return err
	case k == udfgate.List, k == udfgate.LargeList, k == udfgate.Map:
		last, err := a.offsets(t, length)
		if err != nil {
			return err
		}
		return a.column(&t.Children[0].Type, last)
	case k == udfgate.FixedSizeList:
		return a.column(&t.Children[0].Type, product(length, int64(t.Size)))
	case k == udfgate.Struct:
		for i := range t.Children {
			if err := a.column(&t.Children[i].Type, length); err != nil {
				return err
			}
		}
		return nil
	case k == udfgate.Bool:
		need = bitmapLen(length)
	case k == udfgate.FixedSizeBinary:
		need = product(length, int64(t.Size))
	default:
		need = product(length, int64(k.Width()))
	}
	_, err := a.part("values", need)
	return err
}

// offsets places the offsets of a column and returns the last one.
func (a *arrowTaker) offsets(t *udfgate.Type, length int64) (last int64, err error) {
	size := int64(4)
	if large(t.Kind) {
		size = 8
	}
	need := size * (length + 1)
	if length == 0 { // none are there, and readers may ask for the first
		a.next++
		a.buffers, a.sources = append(a.buffers, a.place(size)), append(a.sources, make([]byte, size))
		return 0, nil
	}
	b, err := a.part("offsets", need)
	if err != nil {
		return 0, err
	}
	if size == 8 {
		last = int64(binary.LittleEndian.Uint64(b[need-size:]))
	} else {
		last = int64(int32(binary.LittleEndian.Uint32(b[need-size:])))
	}
	if last < 0 {
		return 0, fmt.Errorf("last offset %d of %s is negative", last, t.Kind)
	}
	return last, nil
}

// copy fills the body, and zeroes what lies between buffers: blocks are recycled
// with what they held.
func (a *arrowTaker) copy() {
	body, end := a.body.Bytes(), int64(0)
	for i, b := range a.buffers {
		if b.Length > 0 {
			clear(body[end:b.Offset])
			end = b.Offset + int64(copy(body[b.Offset:], a.sources[i]))
		}
	}
	clear(body[end:])
}

// settler makes a verified answer what every reader takes: null counts in the
// nodes, no bitmap where there is no null, and text that is UTF-8 also where
// nobody looks.
type settler struct {
	body         []byte
	answer       *Answer
	node, buffer int
}

func (s *settler) settle(field *udfgate.Field, c *Column, seen reach) error {
	if c.Nulls > 0 && !field.Nullable && c.Type.Kind != udfgate.Null {
		if err := s.hide(field, c, seen); err != nil {
			return err
		}
	}
	s.answer.Nodes[s.node].Nulls = c.Nulls
	s.node++
	if c.Nulls == 0 && c.Type.Kind != udfgate.Null {
		s.answer.Buffers[s.buffer] = Buffer{}
	}
	s.buffer += bufferCount(c.Type.Kind)
	if c.Type.Kind.Text() && !c.ASCII && c.Length > 0 {
		s.clearUnseen(c)
	}
	for i := range c.Children {
		if err := s.settle(&c.Type.Children[i], &c.Children[i], seenBelow(s.body, c, seen)); err != nil {
			return err
		}
	}
	return nil
}

// hide makes values of nulls that nobody sees, in a column that may have none.
func (s *settler) hide(field *udfgate.Field, c *Column, seen reach) error {
	validity := s.body[c.Validity.Off:c.Validity.End()]
	for i := range c.Length {
		if !bitSet(validity, i) && seen(i) {
			return fmt.Errorf("nulls in %s, which is not nullable", quoted(field.Name))
		}
	}
	c.Nulls, c.Validity = 0, Range{}
	return nil
}

// clearUnseen zeroes values that are not UTF-8, and what lies before the first:
// the verifier has found that nobody sees them, yet some readers check the data
// as a whole.
func (s *settler) clearUnseen(c *Column) {
	data := s.body[c.Values.Off:c.Values.End()]
	first, _ := c.span(s.body, 0, 1)
	if offsets := s.body[c.Offsets.Off:c.Offsets.End()]; validText(data[:first]) {
		if large(c.Type.Kind) && wholeText(offsetsIn[int64](offsets), data) || !large(c.Type.Kind) && wholeText(offsetsIn[int32](offsets), data) {
			return
		}
	}
	clear(data[:first])
	for i := range c.Length {
		from, to := c.span(s.body, i, i+1)
		if value := data[from:to]; !utf8.Valid(value) {
			clear(value)
		}
	}
}
