package pool

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/udfgate/udfgate"
)

func TestClose_idleWorkersExit(t *testing.T) {
	h := newHarness(t, "")
	path := h.folder.path
	h.Close(t.Context())
	if got := h.launcher.process(0).Wait(); got != (Exit{}) {
		t.Errorf("want exit status 0, got %v", got)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("folder: want it gone, got %v", err)
	}
	h.reaped(0, ReapedClosed)
	_, _, err := h.callAfterClose()
	wantError(t, err, udfgate.Draining, "the pool is closed")
	h.Close(t.Context()) // a second time does nothing
}

// callAfterClose calls with a batch that has no slot: the store is closed too.
func (h *harness) callAfterClose() ([]any, *udfgate.Call, error) {
	call := h.newCall("seven")
	_, err := h.Invoke(h.t.Context(), call, emptyBatch(1))
	return nil, call, err
}

func TestClose_stubbornWorkerIsKilled(t *testing.T) {
	h := newHarness(t, "bye=ignored")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h.Close(ctx)
	if got := h.launcher.process(0).Wait(); got.Signal != "SIGKILL" {
		t.Errorf("want it killed, got %v", got)
	}
	h.reaped(0, ReapedClosed)
}

// A call in its worker is finished, one in the queue is not begun.
func TestClose_busyWorkerFinishes(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 1 })
	finish := h.inside("alone") // which is to have no error
	waiting, closed := make(chan error, 1), make(chan struct{})
	go func() {
		_, _, err := h.call("same", []int64{1})
		waiting <- err
	}()
	h.waits(1)
	go func() {
		defer close(closed)
		h.Close(t.Context())
	}()
	wantError(t, <-waiting, udfgate.Draining, "the pool is closed")
	finish()
	<-closed
	if got := h.launcher.process(0).Wait(); got != (Exit{}) {
		t.Errorf("want exit status 0, got %v", got)
	}
}

func TestClose_killsWhatDoesNotFinish(t *testing.T) {
	h := newHarness(t, "")
	running := make(chan error, 1)
	go func() {
		_, _, err := h.call("sleep", []int64{3_600_000})
		running <- err
	}()
	eventually(t, "a call runs", func() bool { return h.Stats().Busy == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	h.Close(ctx)
	wantError(t, <-running, udfgate.Draining, "the pool is closed")
}

func TestClose_whileStarting(t *testing.T) {
	h := newHarness(t, "hang=later")
	if err := h.launcher.process(0).Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another worker starts", func() bool { return h.launcher.launched.Load() == 2 })
	from := time.Now()
	h.Close(t.Context())
	if took := time.Since(from); took > h.config.StartTimeout/2 {
		t.Errorf("want the start given up, Close took %v", took)
	}
}

func TestStats(t *testing.T) {
	h := newHarness(t, "")
	if s := h.Stats(); s.Idle != 1 || s.Busy != 0 || s.Starting != 0 || s.QueueLen != 0 || s.WorkerTime <= 0 {
		t.Errorf("got %+v", s)
	}
	h.must("sleep", []int64{30})
	s := h.Stats()
	if s.BusyTime < 30*time.Millisecond || s.WorkerTime < s.BusyTime {
		t.Errorf("want 30ms busy of more, got %+v", s)
	}
	free := h.occupy()
	eventually(t, "the lease counts", func() bool { return h.Stats().BusyTime > s.BusyTime+10*time.Millisecond })
	free()
}
