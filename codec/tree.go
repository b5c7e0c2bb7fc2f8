package codec

import (
	"encoding/binary"

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
	used     *int64 // bytes that the whole tree has gathered
	limit    int64  // and may gather
}

func newTree(f *udfgate.Field, limit int64) *tree { return growTree(f, new(int64), limit) }

func growTree(f *udfgate.Field, used *int64, limit int64) *tree {
	n := &tree{typ: &f.Type, nullable: f.Nullable, used: used, limit: limit}
	if n.hasOffsets() {
		n.offset(0)
	}
	for i := range f.Type.Children {
		n.children = append(n.children, growTree(&f.Type.Children[i], used, limit))
	}
	return n
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
	switch k := n.typ.Kind; {
	case k.Variable():
		n.offset(int64(len(n.values)))
	case k == udfgate.List, k == udfgate.LargeList, k == udfgate.Map:
		n.offset(n.children[0].length)
	}
	if n.validity != nil {
		n.bit(&n.validity, true)
	}
	n.length++
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

// null adds a null, and below it what keeps the columns in step.
func (n *tree) null() {
	if n.typ.Kind != udfgate.Null && n.validity == nil {
		n.makeValidity()
	}
	n.nulls++
	n.blank(false)
}

// makeValidity makes the bitmap of the values so far, none of which is null.
func (n *tree) makeValidity() {
	n.validity = make([]byte, bitmapLen(n.length), bitmapLen(n.length)+64)
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
	switch k := n.typ.Kind; {
	case k == udfgate.Null:
		n.length++
		return
	case k == udfgate.Bool:
		n.bit(&n.values, false)
	case k == udfgate.Struct:
		for _, child := range n.children {
			child.below()
		}
	case k == udfgate.FixedSizeList:
		for range n.typ.Size {
			n.children[0].below()
		}
	default:
		n.fixed(make([]byte, n.width()))
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
		n.null()
		return
	}
	n.blank(true)
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
