package codec

import (
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// What a large block leaves behind goes back to the system though nobody
// allocates any more.
func TestLargeBlocksAreReclaimed(t *testing.T) {
	const size = 80 << 20 // too large to be kept for the next
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapSys - m.HeapReleased
	}
	r := reclaimer{after: 10 * time.Millisecond, every: time.Hour, collect: collect}
	debug.FreeOSMemory() // else the block may be made of what earlier tests have left
	before := heap()
	block := NewBlock(size)
	if held := heap(); held < before+size/2 {
		t.Fatalf("%d bytes of heap with a block of %d, %d before: nothing to give back", held, size, before)
	}
	block.Release()
	r.released(size)
	// Polled: nothing tells when the system has it back.
	const soon = 30 * time.Second
	for end := time.Now().Add(soon); heap() > before+size/2; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d bytes of heap are held %s after a block of %d, %d before", heap(), soon, size, before)
		}
	}
}

// Large blocks put a collection off while they come, and further apart they
// bring one a minute and not one each.
func TestReclaimer_howOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var collected atomic.Int64
		r := reclaimer{after: reclaimAfter, every: reclaimEvery, collect: func() { collected.Add(1) }}
		wants := func(want int64) {
			t.Helper()
			synctest.Wait()
			if got := collected.Load(); got != want {
				t.Fatalf("want %d collections, got %d", want, got)
			}
		}
		r.released(reclaimBytes - 1)
		time.Sleep(time.Hour)
		wants(0)
		for range 10 {
			r.released(reclaimBytes)
			time.Sleep(reclaimAfter - time.Second)
		}
		wants(0)
		time.Sleep(time.Second)
		wants(1)
		for range 11 { // 55 seconds
			r.released(reclaimBytes)
			time.Sleep(reclaimAfter + time.Second)
		}
		wants(1)
		time.Sleep(5 * time.Second) // a minute
		wants(2)
		time.Sleep(24 * time.Hour) // nobody comes
		wants(2)
		r.released(reclaimBytes)
		time.Sleep(reclaimAfter)
		wants(3)
	})
}
