package pool

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/udfgate/udfgate"
)

var (
	hammerSeed = flag.Uint64("seed", 0, "seed of the hammer; 0 picks one")
	hammerTime = flag.Duration("hammer", 0, "the least that the hammer runs")
)

// The hammer stops once it has seen this much, or after hammerMost.
const (
	hammerKills = 50
	hammerRight = 1000
	hammerLost  = 10
	hammerMost  = 4 * time.Second
)

// hammer counts what has happened.
type hammer struct{ kills, right, lost atomic.Int64 }

func (c *hammer) seen() bool {
	return c.kills.Load() >= hammerKills && c.right.Load() >= hammerRight && c.lost.Load() >= hammerLost
}

// TestPool_hammer kills workers at random under concurrent calls. Every call is
// answered right, or says that its worker was lost.
func TestPool_hammer(t *testing.T) {
	seed := *hammerSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d (replay with -seed)", seed)
	h := newHarness(t, "", func(c *Config) {
		c.WorkersMax, c.Overrides = 3, map[string]Override{"slow_add": {Concurrency: 2}, "threes": {Concurrency: 2}}
	})
	var count hammer
	least, most := time.Now().Add(*hammerTime), time.Now().Add(max(hammerMost, *hammerTime))
	on := func() bool {
		now := time.Now()
		return now.Before(most) && (now.Before(least) || !count.seen())
	}
	var done sync.WaitGroup
	for g := range 4 {
		random := rand.New(rand.NewPCG(seed, uint64(g)))
		done.Go(func() {
			for on() {
				if h.hammerOnce(random) {
					count.right.Add(1)
				} else {
					count.lost.Add(1)
				}
			}
		})
	}
	done.Go(func() {
		random := rand.New(rand.NewPCG(seed, 1000))
		for on() {
			time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
			if h.killOne(random) {
				count.kills.Add(1)
			}
		}
	})
	done.Wait()
	t.Logf("%d kills, %d calls right, %d lost, %d workers",
		count.kills.Load(), count.right.Load(), count.lost.Load(), h.launcher.launched.Load())
	if count.right.Load() == 0 || count.lost.Load() == 0 {
		t.Error("want calls that were answered and calls that a kill has hit")
	}
	h.must("same", []int64{1})
	if s := h.Stats(); s.QueueLen != 0 || h.gates[h.function("threes").Number].passed != 0 || h.gates[h.function("slow_add").Number].passed != 0 {
		t.Errorf("left behind: %+v", s)
	}
}

// killOne kills a worker that has a call or, more rarely, one of the last few
// whatever it does; false if there was none.
func (h *harness) killOne(random *rand.Rand) bool {
	if random.IntN(8) == 0 {
		n := int(h.launcher.launched.Load())
		return h.launcher.process(max(0, n-1-random.IntN(3))).cmd.Process.Kill() == nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.live {
		if w.state.get() == stateBusy {
			return w.process.Kill() == nil
		}
	}
	return false
}

// hammerTable calls a table function, which it may leave early, and checks its
// parts; false if its worker was lost.
func (h *harness) hammerTable(random *rand.Rand) bool {
	n, leave, at := random.Int64N(40), random.Int64N(60), int64(0)
	enough := errors.New("enough")
	ctx, cancel := context.WithCancel(h.t.Context())
	defer cancel()
	_, err := h.tableWith(ctx, h.newCall("threes"), []int64{n, n}, func(p partOf) error {
		for i, v := range p.values {
			if v != at%n || int64(p.rows[i]) != at/n {
				h.t.Errorf("value %d of twice %d: got %v of row %d", at, n, v, p.rows[i])
			}
			at++
		}
		switch {
		case at < leave || p.last:
			return nil
		case leave%2 == 0:
			cancel()
			return nil
		}
		return enough
	})
	e := udfgate.AsError(cmp.Or(err, enough))
	switch {
	case err == nil && at != 2*n:
		h.t.Errorf("twice %d: got %d values", n, at)
	case e.Reason == udfgate.WorkerLost:
		return false
	case err != nil && err != enough && !errors.Is(err, context.Canceled): //nolint:errorlint // as it is
		h.t.Errorf("want parts, a lost worker or what was asked for, got %v", err)
	}
	return true
}

// hammerOnce makes one call and checks its answer; false if its worker was lost.
func (h *harness) hammerOnce(random *rand.Rand) bool {
	if random.IntN(3) == 0 {
		return h.hammerTable(random)
	}
	name, n := "add", 1+random.IntN(300)
	if random.IntN(4) == 0 {
		name, n = "slow_add", 1 // long enough for a kill to hit it
	}
	a, b := make([]int64, n), make([]any, n)
	for i := range n {
		a[i] = random.Int64N(1 << 40)
		if random.IntN(4) > 0 {
			b[i] = random.Int64N(1 << 40)
		}
	}
	b[0] = int64(1)
	got, _, err := h.call(name, a, b)
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
