package pool

import (
	"context"
	"errors"
	"fmt"
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

// What is waited for until then leaves more than half of it to the machine.
const _ = uint(coreFree - 2*stackWait)

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
			wanted := "time.Sleep"
			if c.name == "short" {
				wanted = "goroutine" // the body need not have begun
			}
			h.stackInTime(c.least, wanted, c.message, func() (*udfgate.Call, error) {
				call := h.newCall(c.function)
				if c.header > 0 {
					call.Deadline = clock.Now() + int64(c.header)
					call.Limit, call.LimitNS = "udfgate-timeout", int64(c.header)
				}
				_, _, err := h.callWith(t.Context(), call, []int64{3_600_000})
				return call, err
			})
			h.serves()
			h.reaped(0, ReapedTimeout)
		})
	}
}

// stackInTime makes a call that runs into a limit of that length. It is tried
// until the limit was the worker's, and until it has been in time: a busy
// machine may not let the body begin before, nor the worker speak within
// stackWait.
func (h *harness) stackInTime(length time.Duration, stack, message string, call func() (*udfgate.Call, error)) {
	h.t.Helper()
	var detail string
	var took time.Duration
	for range tries {
		h.serves()
		from := time.Now()
		made, err := call()
		took = time.Since(from)
		if errors.Is(err, context.Canceled) {
			h.t.Errorf("want no context.Canceled in a timeout, got %v", err)
		}
		detail = wantError(h.t, err, udfgate.Timeout, message).Detail
		if took < length {
			h.t.Errorf("want an answer after %v, got it after %v", length, took)
		}
		if made.Attempts == 0 {
			continue // the limit has passed before
		}
		if booked := made.Timeline.Partition(); booked[udfgate.StateBody] == 0 {
			h.t.Errorf("want the time booked as body, got %v", booked)
		}
		if strings.Contains(detail, stack) && took <= length+coreFree {
			return
		}
	}
	h.t.Errorf("want an answer after %v to %v with %q in its stack, not once got it; the last after %v: %q",
		length, length+coreFree, stack, took, brief(detail))
}

// The time in the queue is not the chunk's: Timeout counts from the lease on.
func TestTimeout_countsFromTheLease(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 1 })
	patiently(t, 250*time.Millisecond, func(timeout time.Duration) (slow bool) {
		free := h.occupy()
		call := h.newCall("same")
		call.TimeoutNS, call.TimeoutName = int64(timeout), "udfgate-timeout"
		done := make(chan error, 1)
		go func() {
			_, _, err := h.callWith(t.Context(), call, []int64{1})
			done <- err
		}()
		eventually(t, "the call waits", func() bool { return h.Stats().QueueLen == 1 })
		waits := clock.Now()
		eventually(t, "it has waited for longer than its limit", func() bool { return clock.Now() > waits+int64(timeout) })
		free()
		err := <-done
		p := call.Timeline.Partition()
		waited := p[udfgate.StateQueue] + p[udfgate.StateStart]
		if waited < int64(timeout) {
			t.Errorf("want a wait of more than %v, got %v", timeout, p)
		}
		if err == nil {
			return false
		}
		wantError(t, err, udfgate.Timeout, fmt.Sprintf("timeout after %v (udfgate-timeout)", timeout))
		if left := call.Timeline.To - call.Timeline.From - waited; left < int64(timeout) {
			t.Errorf("the limit of %v was passed after %v with a worker", timeout, time.Duration(left))
		}
		return true
	})
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
	w := h.only()
	before := w.stderr.mark()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		eventually(t, "the body runs", func() bool { return w.stderr.mark() > before })
		cancel()
	}()
	_, _, err := h.callWith(ctx, h.newCall("sleep"), []int64{3_600_000})
	<-gone
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
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 1 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	// Nobody watches a call for its first 20 ms; this one ends within the
	// grace after them.
	h.spared(func() {
		call := h.newCall("sleep")
		_, _, err := h.callWith(ctx, call, []int64{40})
		if err != nil && (!errors.Is(err, context.Canceled) || call.Timeline.To-call.Timeline.From < int64(cancelGrace)) {
			t.Errorf("want the answer that nobody waits for, got %v", err)
		}
	})
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
	full := newHarness(t, "", func(c *Config) { c.WorkersMax, c.QueueLenMax = 1, 1 })
	free := full.occupy()
	ctx, cancel := context.WithCancel(t.Context())
	waits := make(chan error, 1)
	go func() {
		_, _, err := full.callWith(ctx, full.newCall("same"), []int64{1})
		waits <- err
	}()
	eventually(t, "a call waits", func() bool { return full.Stats().QueueLen == 1 })
	_, _, err := full.call("same", []int64{1})
	e := wantError(t, err, udfgate.QueueFull, "queue is full: 1 call waits for a worker (--max-queue)")
	if !e.Retryable || e.Function != "same" {
		t.Errorf("got %+v", e)
	}
	cancel()
	if err := <-waits; !errors.Is(err, context.Canceled) {
		t.Errorf("want context.Canceled, got %v", err)
	}
	free()

	h := newHarness(t, "", func(c *Config) { c.WorkersMax, c.QueueTimeout = 1, 80*time.Millisecond })
	free = h.occupy()
	_, _, err = h.call("same", []int64{1})
	wantError(t, err, udfgate.QueueFull, "no worker was free for 80ms (--queue-timeout)")

	call := h.newCall("same")
	call.Deadline, call.Limit, call.LimitNS = clock.Now()+int64(20*time.Millisecond), "udfgate-timeout", int64(20*time.Millisecond)
	_, _, err = h.callWith(t.Context(), call, []int64{1})
	wantError(t, err, udfgate.Timeout, "timeout after 20ms (udfgate-timeout)")
	if spans := call.Timeline.Spans; len(spans) != 1 || spans[0].State != udfgate.StateQueue || spans[0].To < call.Deadline || call.Cold {
		t.Errorf("want a queue until %d, warm, got %v, cold %v", call.Deadline, spans, call.Cold)
	}
	if got := h.Stats().QueueLen; got != 0 {
		t.Errorf("queue: want nobody left, got %d", got)
	}
	free()
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
