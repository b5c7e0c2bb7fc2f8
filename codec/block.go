package codec

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// Slack is how many bytes after the end of a slot or block may be read and
// overwritten, so that moves of fixed width need no case for the tail.
const Slack = 32

// Blocks come in powers of two between these. Larger ones are made to measure
// and left to the collector: they are rare, and keeping them would pin memory.
const (
	blockClassMin = 8  // 256 bytes
	blockClassMax = 26 // 64 MiB
)

var blockPools [blockClassMax + 1]sync.Pool // of *[]byte

// Block is a piece of the gateway's heap that is recycled without being
// cleared: its bytes are undefined until written. It starts with one reference.
type Block struct {
	buf  *[]byte
	n    int
	refs atomic.Int32
}

// NewBlock returns a block of n undefined bytes.
func NewBlock(n int) *Block {
	b := &Block{buf: blockBuffer(n), n: n}
	b.refs.Store(1)
	return b
}

// Bytes is the block's contents, exactly as long as asked for.
func (b *Block) Bytes() []byte { return (*b.buf)[:b.n:b.n] }

// Room is Bytes and all that may be overwritten after it, at least Slack bytes.
func (b *Block) Room() []byte { return *b.buf }

// Resize makes the block n bytes long and keeps what it held up to there. Only
// a holder that shares the block with nobody may call it.
func (b *Block) Resize(n int) {
	if n+Slack > len(*b.buf) {
		grown := blockBuffer(n)
		copy(*grown, (*b.buf)[:b.n])
		recycle(b.buf)
		b.buf = grown
	}
	b.n = n
}

// Retain adds a reference.
func (b *Block) Retain() {
	if b.refs.Add(1) <= 1 {
		panic("codec: block retained after its last release")
	}
}

// Release drops a reference; with the last one the memory is used again.
func (b *Block) Release() {
	switch left := b.refs.Add(-1); {
	case left == 0:
		size := len(*b.buf)
		recycle(b.buf)
		b.buf = nil
		reclaim.released(int64(size))
	case left < 0:
		panic("codec: block released more often than retained")
	}
}

// blockClass is the power of two that holds n bytes. The slack comes on top:
// bodies of exactly a power of two are common, and would take twice their size.
func blockClass(n int) int {
	return max(bits.Len(uint(max(n, 1)-1)), blockClassMin)
}

func blockBuffer(n int) *[]byte {
	c := blockClass(n)
	if c > blockClassMax {
		buf := make([]byte, n+Slack)
		return &buf
	}
	if buf, ok := blockPools[c].Get().(*[]byte); ok {
		return buf
	}
	buf := make([]byte, 1<<c+Slack)
	return &buf
}

func recycle(buf *[]byte) {
	if c := blockClass(len(*buf) - Slack); c <= blockClassMax {
		blockPools[c].Put(buf)
	}
}
