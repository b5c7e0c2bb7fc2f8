package server

import (
	"slices"
	"sync"
	"time"
)

// budget is the bytes that batches and answers may occupy within the gateway
// (InflightBytesMax). A stream holds a small reservation while it waits for a
// message and settles it to the message's real size; what is in flight gives
// its bytes back when the answer has gone out.
//
// Who waits is served in the order of arrival, with one exception: while the
// first in line needs more than is free, later ones that fit go past it, so
// that a big message does not stop small ones. What has gone past a waiter is
// counted, and once that reaches the whole budget nobody passes any more until
// it is served: small ones do not starve big ones either.
type budget struct {
	max int64

	mu       sync.Mutex
	used     int64 // reserved and in flight
	inflight int64 // of which will be given back without anybody's doing
	waiting  []*budgetWait
	passed   int64 // bytes granted past the first in line
}

// budgetWait is one stream in line.
type budgetWait struct {
	bytes   int64
	settles bool          // for a message that is there already
	granted chan struct{} // closed when the bytes are its own
}

func newBudget(limit int64) *budget { return &budget{max: limit} }

// bytes is what is occupied now.
func (b *budget) bytes() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// reserve takes n bytes for a message to come, waiting in line for at most
// timeout or until stop or gone closes. False: not granted.
func (b *budget) reserve(n int64, timeout time.Duration, stop, gone <-chan struct{}) bool {
	granted, _ := b.acquire(n, false, timeout, stop, gone)
	return granted
}

// settle turns a reservation into a message in flight of its real size, and
// waits for the difference like reserve. When it is not granted the
// reservation is gone too.
func (b *budget) settle(reserved, size int64, timeout time.Duration, stop, gone <-chan struct{}) (granted, waited bool) {
	if size > reserved {
		granted, waited = b.acquire(size-reserved, true, timeout, stop, gone)
		if !granted {
			b.unreserve(reserved)
			return false, waited
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inflight += min(size, reserved) // of the difference acquire has seen to it
	if size < reserved {
		b.used -= reserved - size
		b.serve()
	}
	return true, waited
}

// resize changes what is in flight from old bytes to now, which it returns. It
// never waits: an answer that exists must be able to leave. The excess delays
// what comes next.
func (b *budget) resize(old, now int64) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used += now - old
	b.inflight += now - old
	b.serve()
	return now
}

// release gives n bytes in flight back.
func (b *budget) release(n int64) { b.resize(n, 0) }

// unreserve gives a reservation back.
func (b *budget) unreserve(n int64) {
	b.mu.Lock()
	b.used -= n
	b.serve()
	b.mu.Unlock()
}

// fits says whether n bytes may be granted now. A message that is there may
// have its bytes whatever is reserved while nothing is in flight: only messages
// in flight give bytes back by themselves, so it would wait for nothing.
func (b *budget) fits(n int64, settles bool) bool {
	return b.used+n <= b.max || settles && b.inflight == 0
}

func (b *budget) grant(n int64, settles bool) {
	b.used += n
	if settles {
		b.inflight += n
	}
}

// pass grants n bytes past those in line, if they fit and enough patience is left.
func (b *budget) pass(n int64, settles bool) bool {
	if len(b.waiting) > 0 && b.passed+n > b.max || !b.fits(n, settles) {
		return false
	}
	if len(b.waiting) > 0 {
		b.passed += n
	}
	b.grant(n, settles)
	return true
}

// serve grants whoever can be granted, first in line first.
func (b *budget) serve() {
	for len(b.waiting) > 0 && b.fits(b.waiting[0].bytes, b.waiting[0].settles) {
		w := b.waiting[0]
		b.grant(w.bytes, w.settles)
		close(w.granted)
		b.waiting[0], b.waiting = nil, b.waiting[1:]
		b.passed = 0
	}
	for i := 1; i < len(b.waiting) && b.used < b.max && b.passed < b.max; i++ {
		if w := b.waiting[i]; b.pass(w.bytes, w.settles) {
			close(w.granted)
			b.waiting = slices.Delete(b.waiting, i, i+1)
			i--
		}
	}
}

func (b *budget) acquire(n int64, settles bool, timeout time.Duration, stop, gone <-chan struct{}) (granted, waited bool) {
	b.mu.Lock()
	if b.pass(n, settles) {
		b.mu.Unlock()
		return true, false
	}
	w := &budgetWait{bytes: n, settles: settles, granted: make(chan struct{})}
	b.waiting = append(b.waiting, w)
	b.mu.Unlock()

	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-w.granted:
		return true, true
	case <-timer.C:
	case <-stop:
	case <-gone:
	}
	return b.leave(w), true
}

// leave takes w out of the line; true if it was granted at the last moment.
func (b *budget) leave(w *budgetWait) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.waiting, w)
	if i < 0 {
		return true
	}
	b.waiting = slices.Delete(b.waiting, i, i+1)
	if i == 0 {
		b.passed = 0
	}
	b.serve()
	return false
}
