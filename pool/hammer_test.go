package pool

import (
	"errors"
	"flag"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/udfgate/udfgate"
)

var (
	hammerSeed = flag.Uint64("seed", 0, "seed of the hammer; 0 picks one")
	hammerTime = flag.Duration("hammer", time.Second, "how long the hammer runs")
)

// TestPool_hammer kills workers at random under concurrent calls. Every call is
// answered right, or says that its worker was lost.
func TestPool_hammer(t *testing.T) {
	seed := *hammerSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d (replay with -seed)", seed)
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 3 })
	end := time.Now().Add(*hammerTime)
	var done sync.WaitGroup
	var mu sync.Mutex
	right, lost := 0, 0
	for g := range 4 {
		random := rand.New(rand.NewPCG(seed, uint64(g)))
		done.Go(func() {
			for time.Now().Before(end) {
				ok := h.hammerOnce(random)
				mu.Lock()
				if ok {
					right++
				} else {
					lost++
				}
				mu.Unlock()
			}
		})
	}
	done.Go(func() {
		random := rand.New(rand.NewPCG(seed, 1000))
		for time.Now().Before(end) {
			time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
			n := int(h.launcher.launched.Load())
			_ = h.launcher.process(max(0, n-1-random.IntN(3))).Kill()
		}
	})
	done.Wait()
	t.Logf("%d calls right, %d lost, %d workers", right, lost, h.launcher.launched.Load())
	if right == 0 {
		t.Error("no call was answered")
	}
	h.must("same", []int64{1})
}

// hammerOnce makes one call and checks its answer; false if its worker was lost.
func (h *harness) hammerOnce(random *rand.Rand) bool {
	n := 1 + random.IntN(300)
	a, b := make([]int64, n), make([]any, n)
	for i := range n {
		a[i] = random.Int64N(1 << 40)
		if random.IntN(4) > 0 {
			b[i] = random.Int64N(1 << 40)
		}
	}
	b[0] = int64(1)
	got, _, err := h.call("add", a, b)
	if e, ok := errors.AsType[*udfgate.Error](err); ok && e.Reason == udfgate.WorkerLost {
		return false
	}
	if err != nil {
		h.t.Errorf("want an answer or a lost worker, got %v", err)
		return false
	}
	for i := range n {
		var want any
		if v, ok := b[i].(int64); ok {
			want = a[i] + v
		}
		if got[i] != want {
			h.t.Errorf("row %d of %d: want %v, got %v", i, n, want, got[i])
			return false
		}
	}
	return true
}

// TestPool_hammerClose closes a pool under concurrent calls: each is answered,
// or refused as draining.
func TestPool_hammerClose(t *testing.T) {
	for range 5 {
		h := newHarness(t, "")
		var done sync.WaitGroup
		for range 4 {
			done.Go(func() {
				for {
					in := emptyBatch(1)
					answer, err := h.Invoke(t.Context(), h.newCall("seven"), in)
					if err != nil {
						if e, ok := errors.AsType[*udfgate.Error](err); !ok || e.Reason != udfgate.Draining {
							t.Errorf("want an answer or DRAINING, got %v", err)
						}
						return
					}
					answer.Release()
				}
			})
		}
		eventually(t, "calls are answered", func() bool { return h.Stats().BusyTime > 0 })
		h.Close(t.Context())
		done.Wait()
	}
}
