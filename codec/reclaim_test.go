package codec

import (
	"runtime"
	"testing"
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
	before := heap()
	NewBlock(size).Release()
	if held := heap(); held < before+size/2 {
		t.Fatalf("%d bytes of heap after a block of %d, %d before: nothing to give back", held, size, before)
	}
	// Polled: the collector's own clock is not to be waited for, and nothing else tells.
	for end := time.Now().Add(6 * reclaimAfter); heap() > before+size/2; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d bytes of heap are held %s after a block of %d, %d before", heap(), 6*reclaimAfter, size, before)
		}
	}
}
