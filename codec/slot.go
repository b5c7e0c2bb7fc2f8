package codec

import "sync/atomic"

// slotAlign is what the start of every slot is a multiple of: a cache line,
// and more than any Arrow buffer asks for.
const slotAlign = 64

// Slot is a range of an input arena that holds one batch's body bytes, or a
// value form rendered from them. It starts with one reference; whoever may
// still read it holds one, a worker that may be reading included.
type Slot struct {
	store *Store
	arena *Arena
	off   int64
	n     int64 // bytes asked for
	size  int64 // bytes taken
	refs  atomic.Int32
}

// Bytes is the slot's contents, exactly as long as asked for. They are
// undefined until written.
func (s *Slot) Bytes() []byte { return s.arena.mem.bytes[s.off : s.off+s.n : s.off+s.n] }

// Room is Bytes and all that may be overwritten after it, at least Slack bytes.
func (s *Slot) Room() []byte { return s.arena.mem.bytes[s.off : s.off+s.size : s.off+s.size] }

// Arena is the ID of the arena that the slot lies in.
func (s *Slot) Arena() uint32 { return s.arena.id }

// Offset is where in its arena the slot starts, a multiple of 64.
func (s *Slot) Offset() int64 { return s.off }

// Retain adds a reference.
func (s *Slot) Retain() {
	if s.refs.Add(1) <= 1 {
		panic("codec: slot retained after its last release")
	}
}

// Release drops a reference; with the last one the range is used again, and
// the slot must not be touched.
func (s *Slot) Release() {
	switch left := s.refs.Add(-1); {
	case left == 0:
		size := s.size
		s.store.put(s)
		reclaim.released(size)
	case left < 0:
		panic("codec: slot released more often than retained")
	}
}
