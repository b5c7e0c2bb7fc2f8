package codec

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// pageBytes is what the size of an arena is rounded up to.
var pageBytes = int64(os.Getpagesize())

// Role says who writes an arena. The values are those of ARENA frames.
type Role uint32

// The roles. An input arena belongs to a pool and only the gateway can write
// it; an output arena belongs to one worker, which maps it read-write.
const (
	Input  Role = 1
	Output Role = 2
)

// String is the name that docs/worker-protocol.md gives the role.
func (r Role) String() string {
	switch r {
	case Input:
		return "input"
	case Output:
		return "output"
	default:
		return fmt.Sprintf("role(%d)", uint32(r))
	}
}

// ErrArenaClosed says that an arena was dropped before it could be shared.
var ErrArenaClosed = errors.New("arena is closed")

// Arena is a range of memory that the gateway shares with workers, or, if it is
// private, the gateway's own copy of one that a worker has as well. It never
// changes size: a pool grows by another arena.
type Arena struct {
	// Role says who may write it.
	Role Role

	id  uint32
	mem mapping
	// holds counts the owner and the running Shares. The memory goes with the
	// last of them, so a descriptor number is never reused under a sender.
	holds  atomic.Int32
	closed atomic.Bool

	// Of input arenas only, guarded by the mutex of their store.
	free    freeList
	emptied time.Time // when the last slot went
}

// NewOutput makes the output arena of one worker, at least size bytes; a
// private one unless SharedArenas. The caller owns it and closes it once the
// worker is gone and no copy is running.
func NewOutput(id uint32, size int64) (*Arena, error) { return newArena(id, Output, size, false) }

// NewPrivateOutput is NewOutput of zeroed memory that no worker can map.
func NewPrivateOutput(id uint32, size int64) (*Arena, error) { return newArena(id, Output, size, true) }

func newArena(id uint32, role Role, size int64, private bool) (*Arena, error) {
	size = roundUp(max(size, 1), pageBytes)
	mem, err := newMapping(role, size, private)
	if err != nil {
		return nil, fmt.Errorf("%s arena of %d bytes: %w", role, size, err)
	}
	a := &Arena{Role: role, id: id, mem: mem}
	a.holds.Store(1)
	return a, nil
}

// ID is the number that frames know the arena by. It is never given twice.
func (a *Arena) ID() uint32 { return a.id }

// Size is the length of the arena in bytes, a multiple of the page size.
func (a *Arena) Size() int64 { return int64(len(a.mem.bytes)) }

// Private reports whether no other process can map the arena: what either side
// writes is to be sent to the other.
func (a *Arena) Private() bool { return a.mem.fd == noFile }

// Bytes is the gateway's mapping of the whole arena, invalid after Close.
// What a worker writes to an output arena may change while it is read.
func (a *Arena) Bytes() []byte { return a.mem.bytes }

// Rights is the SCM_RIGHTS control message that hands the arena over, nil
// of a private one. It names an open descriptor, so it is good
// only as long as nobody closes the arena: for a pool's own output arena, or
// an input arena in which the caller holds a slot. Everyone else uses Share.
func (a *Arena) Rights() []byte { return a.mem.rights() }

// Share calls write with Rights while the descriptor is held open, and returns
// what write returns.
//
// # Errors
//
// ErrArenaClosed if the arena has been dropped or closed before.
func (a *Arena) Share(write func(rights []byte) error) error {
	if !a.hold() {
		return ErrArenaClosed
	}
	return errors.Join(write(a.Rights()), a.unhold())
}

// Close gives the memory back once the last running Share has ended. Workers
// that map it keep their mapping. Closing twice does nothing.
func (a *Arena) Close() error {
	if a.closed.Swap(true) {
		return nil
	}
	return a.unhold()
}

// hold adds a holder unless the last one has gone.
func (a *Arena) hold() bool {
	for !a.closed.Load() {
		n := a.holds.Load()
		if n == 0 {
			return false
		}
		if a.holds.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

func (a *Arena) unhold() error {
	if a.holds.Add(-1) > 0 {
		return nil
	}
	if err := a.mem.close(); err != nil {
		return fmt.Errorf("%s arena %d: %w", a.Role, a.id, err)
	}
	return nil
}

// roundUp returns the least multiple of to, a power of two, that is ≥ n.
func roundUp(n, to int64) int64 { return (n + to - 1) &^ (to - 1) }
