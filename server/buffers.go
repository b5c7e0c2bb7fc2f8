package server

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/mem"
)

// Classes of buffers are powers of two: grpc reads frames into 16 KiB, and asks
// for a few other sizes. Larger ones are rare and left to the collector.
const (
	bufferClassMin = 8  // 256 bytes
	bufferClassMax = 20 // 1 MiB
	// bufferKeptBytesMax bounds what lies unused between messages: a window of
	// four large batches arrives in so much.
	bufferKeptBytesMax = 16 << 20
)

// buffers is grpc's buffer pool. grpc's own clears each buffer that it gives
// out, which costs a large message as much as reading it, and loses all it
// keeps with every second garbage collection, which makes memory rise and fall.
// This one does neither, and what it keeps has a bound. Buffers are written
// before they are read: nothing of one call is seen by another.
type buffers struct {
	kept    atomic.Int64 // bytes in all classes
	classes [bufferClassMax + 1]bufferStack
}

type bufferStack struct {
	mu   sync.Mutex
	free []*[]byte
}

var _ mem.BufferPool = (*buffers)(nil)

// Get implements mem.BufferPool.
func (p *buffers) Get(n int) *[]byte {
	class := max(bits.Len(uint(max(n, 1)-1)), bufferClassMin)
	if class > bufferClassMax {
		b := make([]byte, n)
		return &b
	}
	if b := p.classes[class].pop(); b != nil {
		p.kept.Add(-int64(cap(*b)))
		*b = (*b)[:n]
		return b
	}
	b := make([]byte, n, 1<<class)
	return &b
}

// Put implements mem.BufferPool.
func (p *buffers) Put(b *[]byte) {
	size := cap(*b)
	class := bits.Len(uint(size)) - 1
	if class < bufferClassMin || class > bufferClassMax || size != 1<<class {
		return // not one of ours, or too large to keep
	}
	if p.kept.Add(int64(size)) > bufferKeptBytesMax {
		p.kept.Add(-int64(size))
		return
	}
	p.classes[class].push(b)
}

func (s *bufferStack) pop() *[]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.free) - 1
	if last < 0 {
		return nil
	}
	b := s.free[last]
	s.free[last], s.free = nil, s.free[:last]
	return b
}

func (s *bufferStack) push(b *[]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, b)
}
