package pool

import (
	"context"
	"testing"
	"time"
)

func TestStats_bytes(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 1 })
	in, err := batchOf(h.Slots(), []int64{3_600_000})
	if err != nil {
		t.Fatal(err)
	}
	s := h.Stats()
	if s.MemoryBytes != testProcessUsage || s.SlotBytes == 0 || s.ArenaBytes < s.SlotBytes || s.PinnedBytes != 0 {
		t.Errorf("want the memory of 1 worker, a slot in an arena and nothing pinned, got %+v", s)
	}
	w := h.only()
	w.hold() // as another lease would
	call := h.newCall("sleep")
	call.TimeoutNS = int64(50 * time.Millisecond)
	if _, err := h.Invoke(t.Context(), call, in); err == nil {
		t.Error("want a timeout")
	}
	in.Release()
	if got := h.Stats(); got.PinnedBytes != s.SlotBytes || got.SlotBytes != s.SlotBytes {
		t.Errorf("want %d bytes, all of them pinned, got %+v", s.SlotBytes, got)
	}
	w.release()
	eventually(t, "nothing is pinned", func() bool {
		s := h.Stats()
		return s.PinnedBytes == 0 && s.SlotBytes == 0
	})
	h.must("same", []int64{1})
	h.Close(context.Background())
	if s := h.Stats(); s.MemoryBytes != 0 || s.ArenaBytes != 0 {
		t.Errorf("want nothing left, got %+v", s)
	}
}

// A worker that was only told about arenas has served nobody.
func TestTidy_isNoCall(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 1 })
	slot, err := h.Slots().Get(1)
	if err != nil {
		t.Fatal(err)
	}
	defer slot.Release()
	w := h.only()
	h.tidy(0)
	if w.epoch != h.Slots().Epoch() {
		t.Fatal("the worker has not been told")
	}
	if s := h.Stats(); s.BusyTime != 0 || s.Busy != 0 {
		t.Errorf("want no time of a call, got %+v", s)
	}
	if err := w.process.Kill(); err != nil {
		t.Fatal(err)
	}
	h.reaped(0, ReapedSignal)
	if got := h.dudCount(); got != 1 {
		t.Errorf("want a worker that died before it answered, got %d", got)
	}
}

// What a call took is counted once, and stays counted.
func TestStats_busyTimeNeverFalls(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 1 })
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, name := range []string{"same", "exit", "sleep", "signal", "slow_lie", "same"} {
			_, _, _ = h.call(name, []int64{9})
		}
	}()
	var last Stats
	for {
		s := h.Stats()
		if s.BusyTime < last.BusyTime || s.WorkerTime < last.WorkerTime {
			t.Fatalf("want figures that grow, got %+v after %+v", s, last)
		}
		last = s
		select {
		case <-done:
			return
		case <-time.After(time.Millisecond):
		}
	}
}
