package pool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/internal/clock"
)

// inside makes a function of concurrency 1 run until let go. The queue is empty
// when it returns.
func (h *harness) inside(name string) (release func()) {
	h.t.Helper()
	var running sync.WaitGroup
	running.Go(func() {
		if _, _, err := h.call(name, []int64{1}); err != nil {
			h.t.Errorf("%s: %v", name, err)
		}
	})
	home := h.folder.home()
	eventually(h.t, "the body runs", func() bool {
		_, err := os.Stat(filepath.Join(home, "alone"))
		return err == nil
	})
	var once sync.Once
	release = func() {
		once.Do(func() {
			if err := os.WriteFile(filepath.Join(home, "release"), nil, 0o600); err != nil {
				h.t.Error(err)
			}
			running.Wait()
		})
	}
	h.t.Cleanup(release)
	return release
}

// waits waits until n calls do.
func (h *harness) waits(n int) {
	h.t.Helper()
	eventually(h.t, "calls wait", func() bool { return h.Stats().QueueLen == n })
}

// Chunks of a function of concurrency 1 run one after the other, in the order
// they came, and those that wait hold no worker.
func TestConcurrency(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 3 })
	release := h.inside("alone")
	var mu sync.Mutex
	var order []int64
	var calls sync.WaitGroup
	queued := make([]*udfgate.Call, 3)
	for i := range queued {
		queued[i] = h.newCall("alone")
		calls.Go(func() {
			if _, _, err := h.callWith(t.Context(), queued[i], []int64{int64(i) + 10}); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			order = append(order, int64(i))
		})
		h.waits(i + 1)
	}
	if s := h.Stats(); s.Busy != 1 {
		t.Errorf("want one worker busy, got %d", s.Busy)
	}
	h.must("same", []int64{1}) // others are not kept
	release()
	calls.Wait()
	slices.Sort(order) // who hears first is up to the scheduler
	if !slices.Equal(order, []int64{0, 1, 2}) {
		t.Errorf("got %v", order)
	}
	last := int64(0)
	for i, call := range queued {
		p := call.Timeline.Partition()
		if p[udfgate.StateQueue] == 0 {
			t.Errorf("call %d: nothing booked as queue: %v", i, p)
		}
		for _, s := range call.Timeline.Spans {
			if s.State == udfgate.StateBody {
				if s.From < last {
					t.Errorf("call %d ran before call %d was done", i, i-1)
				}
				last = s.To
			}
		}
	}
	if g := h.gates[h.function("alone").Number]; g.passed != 0 || g.queue.length != 0 || h.gated != 0 {
		t.Errorf("left behind: %d passed, %d wait, %d in all", g.passed, g.queue.length, h.gated)
	}
}

// Many callers, some of whom give up: the body never runs twice at once, nobody
// is forgotten, and no place is lost.
func TestConcurrency_hammer(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 2 })
	var callers sync.WaitGroup
	for i := range 24 {
		callers.Go(func() {
			for n := range 10 {
				ctx, cancel := context.WithCancel(t.Context())
				if (i+n)%3 == 0 {
					time.AfterFunc(time.Duration(n*i)*10*time.Microsecond, cancel)
				}
				_, _, err := h.callWith(ctx, h.newCall("alone"), []int64{int64(i + 2)})
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	callers.Wait()
	h.must("alone", []int64{2})
	if g := h.gates[h.function("alone").Number]; g.passed != 0 || g.queue.length != 0 || h.gated != 0 {
		t.Errorf("left behind: %d passed, %d wait, %d in all", g.passed, g.queue.length, h.gated)
	}
}

// Waiting has an end: the function's own, the queue's, the caller's, the pool's.
func TestConcurrency_givesUp(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.QueueLenMax = 1 })
	release := h.inside("alone_briefly")
	_, call, err := h.call("alone_briefly", []int64{2})
	e := wantError(t, err, udfgate.QueueFull, "waited 30ms for one of 1 chunks at once (concurrency)")
	if !e.Retryable || e.Error() != "alone_briefly: "+e.Message || call.Attempts != 0 {
		t.Errorf("got %+v, %d attempts", e, call.Attempts)
	}
	call = h.newCall("alone_briefly")
	call.Deadline, call.Limit, call.LimitNS = clock.Now()+int64(5*time.Millisecond), "udfgate-timeout", int64(5*time.Millisecond)
	_, _, err = h.callWith(t.Context(), call, []int64{2})
	wantError(t, err, udfgate.Timeout, "timeout after 5ms (udfgate-timeout)")
	release()
	h.must("alone_briefly", []int64{2})
	if n := len(h.told.waits); n != 4 {
		t.Errorf("want a wait observed per call, got %d", n)
	}

	h = newHarness(t, "", func(c *Config) { c.QueueTimeout = 60 * time.Millisecond })
	release = h.inside("alone")
	_, _, err = h.call("alone", []int64{2})
	wantError(t, err, udfgate.QueueFull, "waited 60ms for one of 1 chunks at once (concurrency)")
	release()

	h = newHarness(t, "")
	release = h.inside("alone")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = h.callWith(ctx, h.newCall("alone"), []int64{2})
	wantError(t, err, udfgate.Timeout, "the caller went away")
	release()
	h.must("alone", []int64{2})
}

// There is one --queue-timeout for the gate and the worker; a wait that the
// author has set is beside it.
func TestConcurrency_oneQueueTimeout(t *testing.T) {
	patiently(t, 200*time.Millisecond, func(timeout time.Duration) (slow bool) {
		h := newHarness(t, "", func(c *Config) { c.WorkersMax, c.QueueTimeout = 1, timeout })
		release := h.inside("alone")
		ctx, cancel := context.WithCancel(t.Context())
		var sleeps sync.WaitGroup
		sleeps.Go(func() { // takes the worker when it is free
			_, _, err := h.callWith(ctx, h.newCall("sleep"), []int64{3_600_000})
			slow = udfgate.AsError(err).Reason == udfgate.QueueFull
		})
		h.waits(1)
		waits := make(chan error, 1)
		call := h.newCall("alone")
		go func() {
			_, _, err := h.callWith(t.Context(), call, []int64{2})
			waits <- err
		}()
		eventually(t, "the call waits at the gate", func() bool { return h.Stats().QueueLen != 1 || len(waits) == 1 })
		release()
		err := <-waits
		cancel()
		sleeps.Wait()
		e := udfgate.AsError(err)
		if slow = slow || err == nil || strings.HasPrefix(e.Message, "waited "); slow {
			return true
		}
		text, _, _ := strings.Cut(strings.TrimPrefix(e.Message, "no worker was free for "), " ")
		left, bad := time.ParseDuration(text)
		want := fmt.Sprintf("no worker was free for %v (--queue-timeout %v, %v of it for the function's concurrency)", left, timeout, timeout-left)
		gated := time.Duration(call.Timeline.Spans[0].To - call.Timeline.Spans[0].From)
		if bad != nil || e.Reason != udfgate.QueueFull || !e.Retryable || e.Message != want || left < timeout-gated-time.Millisecond {
			t.Errorf("want %q, got %+v after %v at the gate", want, e, gated)
		}
		if f := h.function("alone_briefly"); h.patience(f, time.Hour) != timeout {
			t.Errorf("with a wait of its own: got %v", h.patience(f, time.Hour))
		}
		return false
	})
}

// A call that waits at a gate holds its batch and nothing that is made of it.
func TestConcurrency_slots(t *testing.T) {
	h := newPython(t, "from udfgate import udf\n@udf(concurrency=1)\ndef size(s: str) -> int:\n    return len(s)\n") // it is sent rendered text
	f := h.function("size")
	if _, err := h.enter(t.Context(), h.newCall(f.Name)); err != nil { // another chunk
		t.Fatal(err)
	}
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if got, _ := h.must(f.Name, []string{"three", "of", "them"}); fmt.Sprint(got) != "[5 2 4]" {
			t.Errorf("got %v", got)
		}
	})
	h.waits(1)
	if s := h.Slots().Stats(); s.Slots != 1 {
		t.Errorf("want the slot of the batch, got %d", s.Slots)
	}
	h.exit(f)
	waiting.Wait()
}

// Calls at a gate count as calls that wait for a worker do.
func TestConcurrency_fullQueue(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.QueueLenMax = 1 })
	release := h.inside("alone")
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if _, _, err := h.call("alone", []int64{2}); err != nil {
			t.Error(err)
		}
	})
	h.waits(1)
	_, _, err := h.call("alone", []int64{2})
	wantError(t, err, udfgate.QueueFull, "queue is full: 1 call waits for a function's concurrency (--max-queue)")
	release()
	waiting.Wait()
}

// The queue may be full of both.
func TestErrQueueFull(t *testing.T) {
	for _, c := range []struct {
		free, gated int
		want        string
	}{
		{1, 0, "1 call waits for a worker"},
		{4096, 0, "4096 calls wait for a worker"},
		{0, 2, "2 calls wait for a function's concurrency"},
		{1, 2, "1 call waits for a worker, 2 for a function's concurrency"},
	} {
		p := Pool{queue: queue{length: c.free}, gated: c.gated}
		wantError(t, p.errQueueFull(), udfgate.QueueFull, "queue is full: "+c.want+" (--max-queue)")
	}
}

// A pool that closes sends home who waits.
func TestConcurrency_close(t *testing.T) {
	h := newHarness(t, "")
	release := h.inside("alone")
	var waiting, closing sync.WaitGroup
	waiting.Go(func() {
		_, _, err := h.call("alone", []int64{2})
		wantError(t, err, udfgate.Draining, "the pool is closed")
	})
	h.waits(1)
	closing.Go(func() { h.Close(context.Background()) })
	waiting.Wait()
	release()
	closing.Wait()
	_, err := h.Invoke(t.Context(), h.newCall("alone"), emptyBatch(1))
	wantError(t, err, udfgate.Draining, "the pool is closed")
}

// Also of table functions, whose chunk lasts to the end of the body; and the
// gateway's owner may say otherwise.
func TestConcurrency_ofTablesAndOverrides(t *testing.T) {
	h := newHarness(t, "", func(c *Config) {
		c.WorkersMax, c.QueueTimeout = 2, 30*time.Millisecond
		c.Overrides = map[string]Override{"threes": {Concurrency: 1}, "alone": {Concurrency: 5}}
	})
	if f, g := h.function("threes"), h.function("alone"); f.Concurrency != 1 || g.Concurrency != 5 || h.function("alone_briefly").ConcurrencyWaitNS != 30e6 {
		t.Errorf("got %+v, %+v", f, g)
	}
	for _, name := range []string{"table_alone", "threes"} {
		parts, err := h.tableWith(t.Context(), h.newCall(name), []int64{9}, func(p partOf) error {
			if p.values[0] != int64(0) {
				return nil
			}
			_, _, err := h.table("", name, []int64{1})
			wantError(t, err, udfgate.QueueFull, "waited 30ms for one of 1 chunks at once (concurrency)")
			return nil
		})
		if err != nil || len(parts) < 3 {
			t.Errorf("%s: got %v, %d parts", name, err, len(parts))
		}
		if _, _, err := h.table("", name, []int64{1}); err != nil {
			t.Errorf("%s, after it: %v", name, err)
		}
	}
}
