package pool

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/codec"
)

// only returns the one worker of a pool that is idle.
func (h *harness) only() *worker {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.idle) != 1 || len(h.live) != 1 {
		h.t.Fatalf("want one idle worker, got %d of %d", len(h.idle), len(h.live))
	}
	return h.idle[0]
}

func TestArenas_comeAndGo(t *testing.T) {
	h := newHarness(t, "")
	if got := h.only().arenas; len(got) != 0 {
		t.Fatalf("want no input arena before the first slot, got %v", got)
	}
	h.must("same", []int64{1})
	fill, err := h.Slots().Get(4<<20 - 64) // all of the first arena
	if err != nil {
		t.Fatal(err)
	}
	h.must("same", []int64{1})
	w := h.only()
	if len(w.arenas) != 2 || w.arenas[0] != 1 || w.arenas[1] != 2 {
		t.Fatalf("want arenas 1 and 2, got %v", w.arenas)
	}
	h.tidy(0)
	if len(w.arenas) != 1 || w.arenas[0] != 1 {
		t.Errorf("want arena 2 dropped, got %v", w.arenas)
	}
	h.must("same", []int64{1})
	fill.Release()
	if len(w.arenas) != 2 || w.arenas[1] != 3 {
		t.Errorf("want arenas 1 and 3: numbers are not used again; got %v", w.arenas)
	}
}

func TestNeed_growsAndShrinks(t *testing.T) {
	h := newHarness(t, "")
	big := func(n int) {
		t.Helper()
		got, _ := h.must("big", []int64{int64(n), 0, 1})
		if s, ok := got[0].(string); !ok || s != strings.Repeat("x", n) || got[2] != "x" {
			t.Fatalf("wrong text of %d bytes", n)
		}
	}
	w := h.only()
	big(1000)
	if got := w.out.Size(); got != outBytes {
		t.Errorf("want the first arena of %d bytes, got %d", outBytes, got)
	}
	big(5 << 20)
	if got := w.out.Size(); got != 2*outBytes {
		t.Errorf("want twice the first arena, got %d", got)
	}
	big(17 << 20)
	if got := w.out.Size(); got < 17<<20 {
		t.Errorf("want 17 MiB or more, got %d", got)
	}
	big(1000)
	if got := w.out.Size(); got < 17<<20 {
		t.Errorf("want it kept right after it was needed, got %d", got)
	}
	w.outAt -= int64(outIdle)
	big(1000)
	if got := w.out.Size(); got != outBytes {
		t.Errorf("want a small one with the next small call, got %d", got)
	}
	big(17 << 20)
	w.outAt -= int64(outIdle)
	h.tidy(0)
	if got := w.out.Size(); got != outBytes {
		t.Errorf("want a small one once idle, got %d", got)
	}
	big(1000)
}

func TestNeed_refused(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.AnswerBytesMax = 1 << 20 })
	for _, n := range []int64{2 << 20, 5 << 20} { // fits the arena; needs another
		_, _, err := h.call("big", []int64{n})
		e, ok := errors.AsType[*udfgate.Error](err)
		if !ok || e.Reason != udfgate.Invalid || e.Shape != udfgate.ShapeTooLarge ||
			!strings.Contains(e.Message, "is over --max-message-bytes 1048576") || e.Function != "big" {
			t.Errorf("%d bytes: got %v", n, err)
		}
	}
	h.must("big", []int64{1000})
	if got := h.launcher.launched.Load(); got != 1 {
		t.Errorf("want the worker to survive, got %d launched", got)
	}
}

// A NEED that is read just before a deadline of the read is answered after it.
func TestNeed_isAnsweredAfterADeadline(t *testing.T) {
	l, far := socketPair(t)
	out, err := codec.NewOutput(outArenaFirst, outBytes)
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{pool: &Pool{config: Config{AnswerBytesMax: 8 << 20}}, link: *l, out: out, outNext: outArenaFirst + 1}
	defer func() { _ = w.out.Close() }()
	x := &crossing{w: w, call: &udfgate.Call{ID: 3}, chunk: &chunk{function: &udfgate.Function{}}}
	other := newLink(far)
	for want, kind := range map[uint64]frameType{5 << 20: frameArena, 1 << 40: frameRefuse} {
		_ = w.link.conn.SetDeadline(time.Now().Add(-time.Second))
		if err := x.need(le.AppendUint64(nil, want)); err != nil {
			t.Fatalf("%d bytes: %v", want, err)
		}
		if f, err := other.read(); err != nil || f.kind != kind || f.call != 3 {
			t.Errorf("%d bytes: want %v of call 3, got %v of %d, %v", want, kind, f.kind, f.call, err)
		}
	}
}

// A lost worker may still read the slots it was given until it is dead.
func TestSlots_areKeptForADyingWorker(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 1 })
	for range 3 {
		_, _, err := h.call("lie_tail", []int64{1})
		wantError(t, err, udfgate.WorkerLost, "worker lost: broke the protocol: RESULT has 1 bytes too many")
	}
	h.must("same", []int64{1})
	eventually(t, "every slot is free", func() bool { return h.Slots().Stats().Slots == 0 })
}

func TestSlots_limit(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.SlotLimitBytes, c.SlotLimitName = 8<<20, "--max-inflight-bytes" })
	if _, err := h.Slots().Get(9 << 20); err == nil || !strings.Contains(err.Error(), "--max-inflight-bytes") {
		t.Errorf("want an error naming the limit, got %v", err)
	}
}
