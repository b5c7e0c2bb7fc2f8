package codec

import (
	"encoding/binary"
	"slices"
	"sync"

	"github.com/udfgate/udfgate"
)

// tree gathers the values of a column of any type, and of the columns below it,
// into buffers of its own, which answer then lays out as one body. A value is
// added whole or not at all, so the parts always agree.
type tree struct {
	typ      *udfgate.Type
	nullable bool
	length   int64
	nulls    int64
	validity []byte // nil while no value is null
	offsets  []byte
	values   []byte
	children []*tree
	late     *viewColumn // all of the column, not gathered yet; nil if values are added
	blanks   int64       // bytes, or steps, that a value nobody looks at takes, those below it included
	used     *int64      // bytes that the whole tree has gathered
	limit    int64       // and may gather

	least, most int64 // of integers

	// Of a struct whose values come as dicts: which member a name is, and which
	// is likely to come next.
	names map[string]int
	next  int
}

// blanksMax keeps products and sums of sizes far from overflow.
const blanksMax = 1 << 45

func newTree(f *udfgate.Field, limit int64) *tree { return growTree(f, new(int64), limit) }

func growTree(f *udfgate.Field, used *int64, limit int64) *tree {
	n := &tree{typ: &f.Type, nullable: f.Nullable, used: used, limit: limit, blanks: 1, values: newBuffer()}
	if n.hasOffsets() {
		n.offsets = newBuffer()
		n.offset(0)
		n.blanks = int64(n.offsetSize())
	}
	for i := range f.Type.Children {
		child := growTree(&f.Type.Children[i], used, limit)
		n.children = append(n.children, child)
		switch f.Type.Kind {
		case udfgate.Struct:
			n.blanks = min(n.blanks+child.blanks, blanksMax)
		case udfgate.FixedSizeList:
			n.blanks = min(product(child.blanks, int64(f.Type.Size))+1, blanksMax)
		}
	}
	n.blanks += int64(n.width())
	if k := f.Type.Kind; k.Width() > 0 && k.Width() <= 8 {
		n.least, n.most = rangeOf(&f.Type)
	}
	return n
}

// buffers are those of trees that are no more: what is gathered has been copied
// then, and fresh memory would cost more than the work.
var buffers sync.Pool

func newBuffer() []byte {
	if b, ok := buffers.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return nil
}

// release gives the buffers of a tree back.
func (n *tree) release() {
	for _, b := range [][]byte{n.validity, n.offsets, n.values} {
		if cap(b) >= 1<<blockClassMin && cap(b) <= 1<<blockClassMax {
			buffers.Put(&b)
		}
	}
	n.validity, n.offsets, n.values = nil, nil, nil
	for _, child := range n.children {
		child.release()
	}
}

func (n *tree) hasOffsets() bool {
	k := n.typ.Kind
	return k.Variable() || k == udfgate.List || k == udfgate.LargeList || k == udfgate.Map
}

// offset appends the end of a value.
func (n *tree) offset(end int64) {
	if large(n.typ.Kind) {
		n.offsets = binary.LittleEndian.AppendUint64(n.offsets, uint64(end))
		*n.used += 8
		return
	}
	n.offsets = binary.LittleEndian.AppendUint32(n.offsets, uint32(end))
	*n.used += 4
}

// grown notes that a value has been added, whose parts below are there.
func (n *tree) grown() {
	switch n.typ.Kind {
	case udfgate.Utf8, udfgate.Binary, udfgate.LargeUtf8, udfgate.LargeBinary:
		n.offset(int64(len(n.values)))
	case udfgate.List, udfgate.LargeList, udfgate.Map:
		n.offset(n.children[0].length)
	case udfgate.Struct, udfgate.FixedSizeList, udfgate.FixedSizeBinary:
		*n.used++ // it may have no byte of its own, and must count
	}
	if n.validity != nil {
		n.bit(&n.validity, true)
	}
	n.length++
}

// full refuses to go on beyond the limit.
func (n *tree) full() error {
	if *n.used > n.limit {
		return &tooLarge{*n.used}
	}
	return nil
}

// bit appends a bit to a bitmap that has one per value so far.
func (n *tree) bit(bitmap *[]byte, set bool) {
	if n.length&7 == 0 {
		*bitmap = append(*bitmap, 0)
		*n.used++
	}
	if set {
		(*bitmap)[n.length>>3] |= 1 << (n.length & 7)
	}
}

// null adds a null, and below it what keeps the columns in step: of a list of
// fixed size that may be more than there is room for.
func (n *tree) null() error {
	if n.blanks > n.limit-*n.used {
		return &tooLarge{*n.used + n.blanks}
	}
	n.missing()
	return nil
}

// missing is null where there is room.
func (n *tree) missing() {
	if n.typ.Kind != udfgate.Null && n.validity == nil {
		n.makeValidity()
	}
	n.nulls++
	n.blank(false)
}

// makeValidity makes the bitmap of the values so far, none of which is null.
func (n *tree) makeValidity() {
	size := int(bitmapLen(n.length))
	n.validity = slices.Grow(newBuffer(), max(size, 1))[:size] // never nil
	for i := range n.validity {
		n.validity[i] = 0xff
	}
	if tail := n.length & 7; tail != 0 {
		n.validity[len(n.validity)-1] = 1<<tail - 1
	}
	*n.used += int64(len(n.validity))
}

// blank adds a value that nobody looks at: null itself, or below one.
func (n *tree) blank(valid bool) {
	switch n.typ.Kind {
	case udfgate.Null:
		*n.used++ // no byte, but time where it is read
		n.length++
		return
	case udfgate.Bool:
		n.bit(&n.values, false)
	case udfgate.Struct:
		*n.used++
		for _, child := range n.children {
			child.below()
		}
	case udfgate.FixedSizeList:
		*n.used++
		for range n.typ.Size {
			n.children[0].below()
		}
	default:
		n.zeros(n.width())
	}
	if n.hasOffsets() {
		n.offsets = append(n.offsets, n.offsets[len(n.offsets)-n.offsetSize():]...)
		*n.used += int64(n.offsetSize())
	}
	if n.validity != nil {
		n.bit(&n.validity, valid)
	}
	n.length++
}

// below adds what stands under a null: a null where that is allowed, else any
// value, because readers refuse nulls in a column that has none.
func (n *tree) below() {
	if n.nullable || n.typ.Kind == udfgate.Null {
		n.missing()
		return
	}
	n.blank(true)
}

// member is the member of a struct by a name that lies in memory its writer may
// change; nil if there is none, or it has its value already: two keys of a dict
// are never equal. They come in the order of the members as a rule.
func (n *tree) member(name []byte) *tree {
	i := n.next
	if i >= len(n.children) || n.typ.Children[i].Name != string(name) {
		if n.names == nil {
			n.names = make(map[string]int, len(n.children))
			for i := range n.children {
				n.names[n.typ.Children[i].Name] = i
			}
		}
		var ok bool
		if i, ok = n.names[string(name)]; !ok {
			return nil
		}
	}
	n.next = i + 1
	if n.next == len(n.children) {
		n.next = 0
	}
	if n.children[i].length != n.length {
		return nil
	}
	return n.children[i]
}

func (n *tree) offsetSize() int {
	if large(n.typ.Kind) {
		return 8
	}
	return 4
}

// width is the size of a value that lies in values itself.
func (n *tree) width() int {
	if n.typ.Kind == udfgate.FixedSizeBinary {
		return int(n.typ.Size)
	}
	return n.typ.Kind.Width()
}

// fixed appends bytes to the values.
func (n *tree) fixed(b []byte) {
	n.values = append(n.values, b...)
	*n.used += int64(len(b))
}

// zeros appends so many zero bytes to the values.
func (n *tree) zeros(count int) {
	n.values = slices.Grow(n.values, count)
	n.values = n.values[:len(n.values)+count]
	clear(n.values[len(n.values)-count:])
	*n.used += int64(count)
}

// parts calls each for the buffers of the tree in Arrow's order.
func (n *tree) parts(each func(*tree, [][]byte)) {
	switch k := n.typ.Kind; {
	case k == udfgate.Null:
		each(n, nil)
	case k.Variable():
		each(n, [][]byte{n.validity, n.offsets, n.values})
	case n.hasOffsets():
		each(n, [][]byte{n.validity, n.offsets})
	case k == udfgate.Struct, k == udfgate.FixedSizeList:
		each(n, [][]byte{n.validity})
	default:
		each(n, [][]byte{n.validity, n.values})
	}
	for _, child := range n.children {
		child.parts(each)
	}
}

// answer lays the buffers out as the body of an answer.
func (n *tree) answer(rows int64) *Answer {
	a := &Answer{Rows: rows}
	var size int64
	n.parts(func(n *tree, buffers [][]byte) {
		a.Nodes = append(a.Nodes, Node{Length: n.length, Nulls: n.nulls})
		for _, b := range buffers {
			at := roundUp(size, answerAlign)
			if len(b) == 0 {
				at = 0
			} else {
				size = roundUp(at+int64(len(b)), bufferAlign)
			}
			a.Buffers = append(a.Buffers, Buffer{Offset: at, Length: int64(len(b))})
		}
	})
	a.Body = NewBlock(int(size))
	body, end, next := a.Body.Bytes(), int64(0), 0
	n.parts(func(_ *tree, buffers [][]byte) {
		for _, b := range buffers {
			if at := a.Buffers[next].Offset; len(b) > 0 {
				clear(body[end:at]) // blocks are recycled with what they held
				end = at + int64(copy(body[at:], b))
			}
			next++
		}
	})
	clear(body[end:])
	return a
}
