package codec

import (
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

const (
	// reclaimBytes is how large a block or slot must be for what it leaves behind
	// to be worth a collection: its message came in pieces of about as much.
	reclaimBytes = 8 << 20
	// reclaimAfter is how long after the last of them the heap is collected. A
	// gateway with calls to serve collects on its own, and an idle one only every
	// two minutes: for so long it would hold what one large batch needed.
	reclaimAfter = 4 * time.Second
	// reclaimEvery is how often that is done at most. Large batches that come
	// further apart than reclaimAfter would each pay for a collection, and fault
	// in anew what it gave back.
	reclaimEvery = time.Minute
)

// reclaimer gives memory back to the system once large blocks have not been
// used for a while.
type reclaimer struct {
	after, every time.Duration
	collect      func()

	mu        sync.Mutex
	last      time.Time   // at which a large block was released
	collected time.Time   // zero: never
	timer     *time.Timer // nil: none is due
}

var reclaim = reclaimer{after: reclaimAfter, every: reclaimEvery, collect: collect}

// collect gives back all that is not used, what lies in pools too: that is only
// let go by the second collection.
func collect() {
	runtime.GC()
	debug.FreeOSMemory()
}

// released notes that so many bytes are of no use any more.
func (r *reclaimer) released(size int64) {
	if size < reclaimBytes {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = time.Now()
	if r.timer == nil {
		r.timer = time.AfterFunc(r.left(r.last), r.due)
	}
}

// left is how long it is until a collection is due. The caller holds mu.
func (r *reclaimer) left(now time.Time) time.Duration {
	left := r.after - now.Sub(r.last)
	if r.collected.IsZero() {
		return left
	}
	return max(left, r.every-now.Sub(r.collected))
}

// due collects, or waits on if there has been another since the timer was set.
func (r *reclaimer) due() {
	r.mu.Lock()
	now := time.Now()
	if left := r.left(now); left > 0 {
		r.timer.Reset(left)
		r.mu.Unlock()
		return
	}
	r.timer, r.collected = nil, now
	r.mu.Unlock()
	r.collect()
}
