package pool

import (
	"testing"

	"github.com/udfgate/udfgate"
)

// BenchmarkInvoke is all of Invoke for one row. The worker is a plain Go
// program, so what is counted beside the time is the gateway's own.
func BenchmarkInvoke(b *testing.B) {
	for name, column := range map[string]any{"same": []int64{1}, "shout": []string{"a"}} {
		b.Run(name, func(b *testing.B) {
			once := newHarness(b, "").warm(name, column)
			b.ReportAllocs()
			for b.Loop() {
				once()
			}
		})
	}
}

// warm returns a function that makes the same call again and again.
func (h *harness) warm(name string, column any) (once func()) {
	in, err := batchOf(h.Slots(), column)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(in.Release)
	f := h.function(name)
	return func() {
		call := &udfgate.Call{ID: callIDs.Add(1), Function: f}
		answer, err := h.Invoke(h.t.Context(), call, in)
		if err != nil {
			h.t.Fatal(err)
		}
		answer.Release()
	}
}

// One is the call, which a server has for itself, one its answer.
func TestInvoke_allocations(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector makes pools forget")
	}
	once := newHarness(t, "").warm("same", []int64{1})
	if n := testing.AllocsPerRun(200, once); n > 5 {
		t.Errorf("want 5 allocations or fewer, got %v", n)
	}
}
