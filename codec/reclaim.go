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
)

// reclaimer gives memory back to the system once large blocks have not been
// used for a while.
type reclaimer struct {
	mu    sync.Mutex
	last  time.Time
	timer *time.Timer // nil: none is due
}

var reclaim reclaimer

// released notes that so many bytes are of no use any more.
func (r *reclaimer) released(size int64) {
	if size < reclaimBytes {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = time.Now()
	if r.timer == nil {
		r.timer = time.AfterFunc(reclaimAfter, r.due)
	}
}

// due collects, or waits on if there has been another since the timer was set.
func (r *reclaimer) due() {
	r.mu.Lock()
	if left := reclaimAfter - time.Since(r.last); left > 0 {
		r.timer.Reset(left)
		r.mu.Unlock()
		return
	}
	r.timer = nil
	r.mu.Unlock()
	runtime.GC() // what lies in pools is only let go by the second collection
	debug.FreeOSMemory()
}
