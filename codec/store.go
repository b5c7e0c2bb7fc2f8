package codec

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/udfgate/udfgate"
)

const (
	// arenaBytesDefault is small because a worker maps every arena, and large
	// enough for a batch of 64 Ki rows of a few columns.
	arenaBytesDefault = 4 << 20
	// slotBytesMax keeps sizes far from overflow whatever the limit is.
	slotBytesMax = 1 << 40
)

// StoreConfig configures a Store.
type StoreConfig struct {
	ArenaBytes int64  // size of an arena, 4 MiB if 0; a larger slot gets an arena of its own
	LimitBytes int64  // most bytes of all arenas together; 0: no limit
	LimitName  string // flag that the error quotes, e.g. "--max-inflight-bytes"
	Private    bool   // arenas that no worker can map; always so unless SharedArenas
}

// StoreStats is what a Store holds at one instant.
type StoreStats struct {
	ArenaBytes int64 // of all live arenas
	UsedBytes  int64 // of all slots, alignment and slack included
	Slots      int
	Arenas     int
}

// Store keeps the input arenas of one pool and hands out slots in them.
type Store struct {
	config StoreConfig
	view   atomic.Pointer[arenaView]

	// growing is held while an arena is made, so that callers who come
	// together share the new one. mu is never held over a system call.
	growing sync.Mutex
	mu      sync.Mutex
	closed  bool
	lastID  uint32
	arenas  []*Arena // ascending ID; replaced, never changed in place
	stats   StoreStats
	freed   chan struct{} // closed by the next slot that comes back; nil if nobody waits
}

// arenaView is what readers see without a lock.
type arenaView struct {
	arenas []*Arena
	epoch  uint64
}

// NewStore makes an empty store; the first arena comes with the first slot.
func NewStore(c StoreConfig) *Store {
	if c.ArenaBytes <= 0 {
		c.ArenaBytes = arenaBytesDefault
	}
	s := &Store{config: c}
	s.view.Store(&arenaView{})
	return s
}

// Arenas returns the live arenas in ascending order of ID. The slice is shared
// and must not be changed. An arena is in it before the first slot of it is
// handed out.
func (s *Store) Arenas() []*Arena { return s.view.Load().arenas }

// Epoch changes whenever Arenas does. Read it before Arenas to know later
// whether to look again.
func (s *Store) Epoch() uint64 { return s.view.Load().epoch }

// Stats returns the current totals.
func (s *Store) Stats() StoreStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// Get returns a slot of n undefined bytes, and at least Slack more after them.
//
// # Errors
//
// *udfgate.Error QueueFull names the limit that is reached; Internal if the
// host gives no memory or the store is closed.
func (s *Store) Get(n int64) (*Slot, error) {
	if n < 0 || n > slotBytesMax {
		return nil, udfgate.Invalidf(udfgate.ShapeTooLarge, "slot of %d bytes: wanted 0 to %d", n, int64(slotBytesMax))
	}
	size := roundUp(n+Slack, slotAlign)
	s.mu.Lock()
	slot := s.take(n, size)
	s.mu.Unlock()
	if slot != nil {
		return slot, nil
	}
	return s.grow(n, size)
}

// Freed is closed when the next slot comes back. Ask for it
// before the Get that may fail: room that comes in between is then not missed.
func (s *Store) Freed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.freed == nil {
		s.freed = make(chan struct{})
	}
	return s.freed
}

// take finds room in the arenas there are; nil if there is none.
func (s *Store) take(n, size int64) *Slot {
	for _, a := range s.arenas {
		off, ok := a.free.take(size)
		if !ok {
			continue
		}
		s.stats.UsedBytes += size
		s.stats.Slots++
		slot := &Slot{store: s, arena: a, off: off, n: n, size: size}
		slot.refs.Store(1)
		return slot
	}
	return nil
}

// put takes a slot's range back.
func (s *Store) put(slot *Slot) {
	a := slot.arena
	slot.arena = nil // a use after the last release fails at once
	s.mu.Lock()
	a.free.put(slot.off, slot.size)
	s.stats.UsedBytes -= slot.size
	s.stats.Slots--
	if s.freed != nil {
		close(s.freed)
		s.freed = nil
	}
	last := a.empty() && s.closed
	if a.empty() && !s.closed && a != s.arenas[0] {
		a.emptied = time.Now() // the first stays, and has calls to serve
	}
	s.mu.Unlock()
	if last {
		_ = a.Close() // nobody is left to tell, and unmapping what was mapped does not fail
	}
}

// empty reports that no slot lies in the arena.
func (a *Arena) empty() bool { return a.free.bytes == a.Size() }

// grow adds an arena and takes the slot from it.
func (s *Store) grow(n, size int64) (*Slot, error) {
	s.growing.Lock()
	defer s.growing.Unlock()

	s.mu.Lock()
	slot, bytes, dropped, err := s.plan(n, size)
	s.mu.Unlock()
	closeErr := closeAll(dropped)
	if slot != nil || err != nil {
		return slot, err
	}
	if closeErr != nil {
		return nil, udfgate.Errorf(udfgate.Internal, "slots: %w", closeErr)
	}

	a, err := newArena(s.lastID+1, Input, bytes, s.config.Private)
	if err != nil {
		return nil, udfgate.Errorf(udfgate.Internal, "slots: %w", err)
	}
	a.free = newFreeList(a.Size())

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.Join(errStoreClosed(), a.Close())
	}
	s.lastID++
	s.stats.ArenaBytes += a.Size()
	s.publish(append(slices.Clip(s.arenas), a))
	return s.take(n, size), nil // cannot fail: the arena was made for it and nobody else has seen it
}

// plan decides how to make room: a slot that has become free meanwhile, or the
// size of a new arena and the empty arenas to drop for it.
func (s *Store) plan(n, size int64) (slot *Slot, bytes int64, dropped []*Arena, err error) {
	if s.closed {
		return nil, 0, nil, errStoreClosed()
	}
	if slot := s.take(n, size); slot != nil {
		return slot, 0, nil, nil
	}
	need := roundUp(size, pageBytes)
	bytes = max(need, roundUp(s.config.ArenaBytes, pageBytes))
	if s.config.LimitBytes <= 0 {
		return nil, bytes, nil, nil
	}
	left := s.config.LimitBytes - s.stats.ArenaBytes
	if left >= bytes {
		return nil, bytes, nil, nil
	}
	if left >= need {
		return nil, left &^ (pageBytes - 1), nil, nil
	}
	for _, a := range slices.Backward(s.arenas) {
		if a.empty() && left < need {
			left += a.Size()
			dropped = append(dropped, a)
		}
	}
	if left < need {
		return nil, 0, nil, s.full(n, size)
	}
	s.drop(dropped)
	return nil, min(bytes, left&^(pageBytes-1)), dropped, nil
}

func (s *Store) full(n, size int64) error {
	e := udfgate.Errorf(udfgate.QueueFull, "slots are full: wanted %d bytes, arenas take %d of %d (%s)",
		n, s.stats.ArenaBytes, s.config.LimitBytes, s.config.LimitName)
	e.Retryable = roundUp(size, pageBytes) <= s.config.LimitBytes
	return e
}

func errStoreClosed() error { return udfgate.Errorf(udfgate.Internal, "slots: store is closed") }

// drop takes arenas out of the store. The caller closes them, without the lock.
func (s *Store) drop(dropped []*Arena) {
	kept := make([]*Arena, 0, len(s.arenas))
	for _, a := range s.arenas {
		if !slices.Contains(dropped, a) {
			kept = append(kept, a)
			continue
		}
		s.stats.ArenaBytes -= a.Size()
	}
	s.publish(kept)
}

// publish replaces the list of arenas.
func (s *Store) publish(arenas []*Arena) {
	s.arenas = arenas
	s.stats.Arenas = len(arenas)
	s.view.Store(&arenaView{arenas: arenas, epoch: s.view.Load().epoch + 1})
}

// Trim drops the arenas that have been empty for idle, but never the first:
// it is what the next call starts with. IDs are never used again.
func (s *Store) Trim(idle time.Duration) {
	s.mu.Lock()
	var dropped []*Arena
	for _, a := range s.arenas[min(1, len(s.arenas)):] {
		if a.empty() && time.Since(a.emptied) >= idle {
			dropped = append(dropped, a)
		}
	}
	if len(dropped) > 0 {
		s.drop(dropped)
	}
	s.mu.Unlock()
	_ = closeAll(dropped) // unmapping what was mapped does not fail
}

// Close drops all arenas; those that still hold slots go with the last of
// them. Closing twice does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	var dropped []*Arena
	for _, a := range s.arenas {
		if a.empty() {
			dropped = append(dropped, a)
		}
	}
	if len(s.arenas) > 0 {
		s.drop(s.arenas)
	}
	s.mu.Unlock()
	return closeAll(dropped)
}

func closeAll(arenas []*Arena) error {
	var errs []error
	for _, a := range arenas {
		errs = append(errs, a.Close())
	}
	return errors.Join(errs...)
}
