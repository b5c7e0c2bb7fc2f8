package pool

import (
	"testing"
	"time"

	"github.com/udfgate/udfgate"
	"golang.org/x/sys/unix"
)

// What a busy machine may be too slow for is tried again, so that a test says
// what the pool does and not how much of a processor it was given.

// tries is how often, at most.
const tries = 20

// patiently calls try with a duration, and with one four times as long for as
// long as it says that the machine was too slow for the last.
func patiently(t testing.TB, d time.Duration, try func(d time.Duration) (slow bool)) {
	t.Helper()
	for ; try(d); d *= 4 {
		if d > soon {
			t.Fatalf("even %v were too short", d)
		}
	}
}

// serves waits until the pool has answered a call, which may run into a time
// limit that is short for the test's sake.
func (h *harness) serves() {
	h.t.Helper()
	eventually(h.t, "the pool serves", func() bool {
		_, _, err := h.call("same", []int64{1})
		if err != nil && udfgate.AsError(err).Reason != udfgate.Timeout {
			h.t.Fatal(err)
		}
		return err == nil
	})
}

// spared does something that the only worker of the pool survives, unless it
// takes longer than cancelGrace to end a body.
func (h *harness) spared(try func()) {
	h.t.Helper()
	for range tries {
		h.must("same", []int64{1})
		before := h.launcher.launched.Load()
		try()
		h.must("same", []int64{1})
		if h.launcher.launched.Load() == before {
			return
		}
		h.reaped(int(before)-1, ReapedCancelled)
	}
	h.t.Errorf("want the worker to survive, it did not in any of %d tries", tries)
}

// socketClosed reports whether the worker has closed its end, seen from ours
// without reading from it.
func socketClosed(p *testProcess) bool {
	raw, err := p.conn.SyscallConn()
	if err != nil {
		return true
	}
	closed := false
	_ = raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: pollHungUp}}
		n, err := unix.Poll(fds, 0)
		closed = err == nil && n == 1
	})
	return closed
}
