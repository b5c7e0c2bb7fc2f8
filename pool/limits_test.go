package pool

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/internal/clock"
)

// coreFree is how soon after its limit a timed-out call must have ended its
// worker.
const coreFree = 500 * time.Millisecond

func TestTimeout_names(t *testing.T) {
	for _, c := range []struct {
		name, function string
		timeout        time.Duration
		header         time.Duration // of the call
		message        string
		least          time.Duration
	}{
		{"flag", "sleep", 100 * time.Millisecond, 0, "timeout after 100ms (--timeout)", 100 * time.Millisecond},
		{"header", "sleep", soon, 60 * time.Millisecond, "timeout after 60ms (udfgate-timeout)", 60 * time.Millisecond},
		{"short", "sleep", soon, 5 * time.Millisecond, "timeout after 5ms (udfgate-timeout)", 5 * time.Millisecond},
		{"option", "brief", soon, time.Minute, "timeout after 50ms (the function's timeout)", 50 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t, "", func(config *Config) { config.Timeout = c.timeout })
			call := h.newCall(c.function)
			if c.header > 0 {
				call.Deadline = clock.Now() + int64(c.header)
				call.Limit, call.LimitNS = "udfgate-timeout", int64(c.header)
			}
			from := time.Now()
			_, _, err := h.callWith(t.Context(), call, []int64{3_600_000})
			took := time.Since(from)
			if errors.Is(err, context.Canceled) {
				t.Errorf("want no context.Canceled in a timeout, got %v", err)
			}
			e := wantError(t, err, udfgate.Timeout, c.message)
			wanted := "time.Sleep"
			if c.name == "short" || c.name == "option" {
				wanted = "goroutine" // on a busy machine the body need not have begun
			}
			if !strings.Contains(e.Detail, wanted) {
				t.Errorf("detail: want the stack, got %q", brief(e.Detail))
			}
			if took < c.least || took > c.least+coreFree {
				t.Errorf("want an answer after %v to %v, got it after %v", c.least, c.least+coreFree, took)
			}
			h.launcher.process(0).Wait()
			if booked := call.Timeline.Partition(); booked[udfgate.StateBody] == 0 {
				t.Errorf("want the time booked as body, got %v", booked)
			}
			h.must("same", []int64{1})
			h.reaped(0, ReapedTimeout)
		})
	}
}

// The time in the queue is not the chunk's: Timeout counts from the lease on.
func TestTimeout_countsFromTheLease(t *testing.T) {
	const timeout = 500 * time.Millisecond
	h := newHarness(t, "", func(c *Config) { c.WorkersMax, c.Timeout = 1, timeout })
	done := make(chan error, 1)
	go func() {
		_, _, err := h.call("sleep", []int64{timeout.Milliseconds() * 8 / 10})
		done <- err
	}()
	eventually(t, "the worker is busy", func() bool { return h.Stats().Busy == 1 })
	_, call := h.must("sleep", []int64{timeout.Milliseconds() / 2})
	p := call.Timeline.Partition()
	if p[udfgate.StateQueue]+p[udfgate.StateBody] < int64(timeout) {
		t.Errorf("want queue and body to be longer than %v, got %v", timeout, p)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A call whose deadline has passed already is not given to a worker, which
// would be ended for it.
func TestTimeout_passedBefore(t *testing.T) {
	h := newHarness(t, "")
	call := h.newCall("same")
	call.Deadline, call.Limit, call.LimitNS = call.Timeline.From, "the caller's deadline", int64(time.Millisecond)
	_, _, err := h.callWith(t.Context(), call, []int64{1})
	wantError(t, err, udfgate.Timeout, "timeout after 1ms (the caller's deadline)")
	if call.Attempts != 0 {
		t.Errorf("want no attempt, got %d", call.Attempts)
	}
	h.must("same", []int64{1})
	if got := h.launcher.launched.Load(); got != 1 {
		t.Errorf("want the worker to survive, got %d launched", got)
	}
}

func TestErrContext(t *testing.T) {
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("reset by peer"))
	late, cancelLate := context.WithTimeout(t.Context(), 0)
	defer cancelLate()
	past, future := clock.Now(), clock.Now()+int64(time.Hour)
	for _, c := range []struct {
		name     string
		ctx      context.Context
		deadline int64
		message  string
		gone     bool
	}{
		{"gone", cancelled, 0, "the caller went away", true},
		{"gone before its deadline", cancelled, future, "the caller went away", true},
		{"gone at its deadline", cancelled, past, "timeout after 1s (udfgate-timeout)", false},
		{"late", late, past, "timeout after 1s (udfgate-timeout)", false},
		{"late by its own clock", late, future, "timeout after 1s (udfgate-timeout)", false},
		{"context alone", late, 0, "timeout: the caller's deadline has passed", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			call := &udfgate.Call{Function: &udfgate.Function{Name: "f"}, Deadline: c.deadline, Limit: "udfgate-timeout", LimitNS: int64(time.Second)}
			err := named(errContext(c.ctx, call), call.Function)
			wantError(t, err, udfgate.Timeout, c.message)
			if got := errors.Is(err, context.Canceled); got != c.gone {
				t.Errorf("context.Canceled: want %v, got %v", c.gone, got)
			}
		})
	}
}

func TestCancel_longCallLosesItsWorker(t *testing.T) {
	h := newHarness(t, "")
	h.must("sleep", []int64{40}) // leaves a deadline that is far away
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, _, err := h.callWith(ctx, h.newCall("sleep"), []int64{3_600_000})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("want context.Canceled, got %v", err)
	}
	if got := h.launcher.process(0).Wait(); got.Signal != "SIGKILL" {
		t.Errorf("worker: want it killed, got %v", got)
	}
	h.must("same", []int64{1})
	h.reaped(0, ReapedCancelled)
}

func TestCancel_shortCallKeepsItsWorker(t *testing.T) {
	h := newHarness(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	// Nobody watches a call for its first 20 ms; this one ends within the
	// grace after them.
	if _, _, err := h.callWith(ctx, h.newCall("sleep"), []int64{40}); err != nil {
		t.Errorf("want the answer that nobody waits for, got %v", err)
	}
	h.must("same", []int64{1})
	if got := h.launcher.launched.Load(); got != 1 {
		t.Errorf("workers: want 1, got %d", got)
	}
}

// occupy keeps a worker busy until the returned function is called.
func (h *harness) occupy() (free func()) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	busy := h.Stats().Busy
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _, _ = h.callWith(ctx, h.newCall("sleep"), []int64{3_600_000})
	}()
	eventually(h.t, "the worker is busy", func() bool { return h.Stats().Busy > busy })
	return func() {
		cancel()
		<-done
	}
}

func TestQueue_fullAndSlow(t *testing.T) {
	h := newHarness(t, "", func(c *Config) {
		c.WorkersMax, c.QueueLenMax, c.QueueTimeout = 1, 1, 80*time.Millisecond
	})
	free := h.occupy()
	waits := make(chan error, 1)
	go func() {
		_, _, err := h.call("same", []int64{1})
		waits <- err
	}()
	eventually(t, "a call waits", func() bool { return h.Stats().QueueLen == 1 })
	_, _, err := h.call("same", []int64{1})
	e := wantError(t, err, udfgate.QueueFull, "queue is full: 1 calls wait for a worker (--max-queue)")
	if !e.Retryable || e.Function != "same" {
		t.Errorf("got %+v", e)
	}
	wantError(t, <-waits, udfgate.QueueFull, "no worker was free for 80ms (--queue-timeout)")

	call := h.newCall("same")
	call.Deadline, call.Limit, call.LimitNS = clock.Now()+int64(20*time.Millisecond), "udfgate-timeout", int64(20*time.Millisecond)
	_, _, err = h.callWith(t.Context(), call, []int64{1})
	wantError(t, err, udfgate.Timeout, "timeout after 20ms (udfgate-timeout)")
	if p := call.Timeline.Partition(); p[udfgate.StateQueue] < int64(20*time.Millisecond) || call.Cold {
		t.Errorf("want 20ms of queue, warm, got %v, cold %v", p, call.Cold)
	}

	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, _, err = h.callWith(ctx, h.newCall("same"), []int64{1}); !errors.Is(err, context.Canceled) {
		t.Errorf("want context.Canceled, got %v", err)
	}
	if got := h.Stats().QueueLen; got != 0 {
		t.Errorf("queue: want nobody left, got %d", got)
	}
	free()
	h.must("same", []int64{1})
}

func TestQueue_firstComeFirstServed(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 1 })
	free := h.occupy()
	const calls = 5
	var done sync.WaitGroup
	var granted [calls]int64 // the end of each wait; the next one ends after the answer
	for i := range calls {
		done.Go(func() {
			_, call := h.must("same", []int64{1})
			for _, s := range call.Timeline.Spans {
				if s.State == udfgate.StateQueue {
					granted[i] = s.To
				}
			}
		})
		eventually(t, "the call waits", func() bool { return h.Stats().QueueLen == i+1 })
	}
	free()
	done.Wait()
	if !slices.IsSorted(granted[:]) || granted[0] == 0 {
		t.Errorf("want the calls served in the order they came, got %v", granted)
	}
}

// More workers start when a chunk finds none idle, up to the most.
func TestGrow(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 2 })
	first := h.occupy()
	_, call := h.must("same", []int64{1})
	if got := h.launcher.launched.Load(); got != 2 {
		t.Errorf("want 2 workers, got %d", got)
	}
	if p := call.Timeline.Partition(); p[udfgate.StateQueue] == 0 || p[udfgate.StateStart] != 0 || call.Cold {
		t.Errorf("want the wait booked as queue: another worker was alive; got %v, cold %v", p, call.Cold)
	}
	second := h.occupy()
	if s := h.Stats(); s.Busy != 2 || s.Idle != 0 || s.Starting != 0 {
		t.Errorf("want 2 busy workers, got %+v", s)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.must("same", []int64{1})
	}()
	eventually(t, "the third call waits", func() bool { return h.Stats().QueueLen == 1 })
	if got := h.launcher.launched.Load(); got != 2 {
		t.Errorf("want no third worker, got %d", got)
	}
	first()
	<-done
	second()
}

// The worker that was busy last is taken first.
func TestLease_lastInFirstOut(t *testing.T) {
	h := newHarness(t, "")
	var pids [2]string
	free := h.occupy()
	_, call := h.must("same", []int64{1})
	pids[1] = call.Worker
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, c := h.must("sleep", []int64{30})
		pids[0] = c.Worker
	}()
	<-done
	if pids[0] != pids[1] {
		t.Errorf("want worker %s again, got %s", pids[1], pids[0])
	}
	free()
}

// An idle worker that dies is noticed and replaced before anybody calls.
func TestIdleDeath(t *testing.T) {
	h := newHarness(t, "")
	h.must("same", []int64{1})
	if err := h.launcher.process(0).Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another worker is idle", func() bool { return h.launcher.launched.Load() == 2 && h.Stats().Idle == 1 })
	_, call := h.must("same", []int64{1})
	if call.Attempts != 1 {
		t.Errorf("want one attempt, got %d", call.Attempts)
	}
	h.reaped(0, ReapedSignal)
}

// A worker whose socket takes no byte of the CALL is passed over in silence.
func TestNotTaken(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 1 })
	h.must("close_after", []int64{1})
	eventually(t, "the socket is closed", func() bool { return socketClosed(h.launcher.process(0)) })
	got, call := h.must("same", []int64{5})
	if got[0] != int64(5) || call.Attempts != 1 {
		t.Errorf("want 5 at the first attempt that was taken, got %v, %d attempts", got, call.Attempts)
	}
	if len(h.told.retried) != 1 || h.told.retried[0] != "m.same" {
		t.Errorf("want one retry told, got %q", h.told.retried)
	}
}

// A worker that was killed and is not gone yet still takes a CALL, and nobody
// reads it: the call goes to the next worker, whatever the function is.
func TestNotTaken_killedBefore(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 1 })
	for range 5 {
		h.must("same", []int64{1})
		if err := h.only().process.Kill(); err != nil {
			t.Fatal(err)
		}
		if _, call := h.must("same", []int64{5}); call.Attempts != 1 || call.Crossings != 1 {
			t.Errorf("want one attempt that counts, got %d, %d crossings", call.Attempts, call.Crossings)
		}
	}
}

// Of a worker that dies with the call read nobody knows what it did.
func TestDeathWithinCallIsNotRetried(t *testing.T) {
	h := newHarness(t, "")
	w, ready := h.only(), make(chan struct{})
	go func() {
		defer close(ready)
		eventually(t, "the body runs", func() bool { return w.stderr.mark() > 0 })
		_ = h.launcher.process(0).Kill()
	}()
	_, call, err := h.call("sleep", []int64{3_600_000})
	<-ready
	wantError(t, err, udfgate.WorkerLost, "worker lost: signal SIGKILL")
	if call.Attempts != 1 {
		t.Errorf("want one attempt, got %d", call.Attempts)
	}
}
