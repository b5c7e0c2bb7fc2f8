package pool

import (
	"testing"
	"time"

	"github.com/udfgate/udfgate"
)

func TestTimeline_ofACrossing(t *testing.T) {
	h := newHarness(t, "")
	_, call := h.must("sleep", []int64{30})
	p := call.Timeline.Partition()
	wall := call.Timeline.To - call.Timeline.From
	if p.Wall() != wall {
		t.Errorf("phases sum to %d, the wall is %d", p.Wall(), wall)
	}
	if body := p[udfgate.StateBody]; body < int64(30*time.Millisecond) || body != call.Work.BodyNS {
		t.Errorf("want 30ms of body, on both sides; got %d and %d", body, call.Work.BodyNS)
	}
	for _, s := range []udfgate.State{udfgate.StateCrossingOut, udfgate.StateCrossingBack, udfgate.StateConversionGateway} {
		if p[s] <= 0 {
			t.Errorf("want some time in state %d, got %v", s, p)
		}
	}
	if got := p[udfgate.StateCrossingOut] + p[udfgate.StateCrossingBack]; got != call.Work.CrossingNS {
		t.Errorf("crossing: want %d as in work, got %d", call.Work.CrossingNS, got)
	}
	if p[udfgate.StateQueue] != 0 || p[udfgate.StateStart] != 0 {
		t.Errorf("want no wait, got %v", p)
	}
}

// What an attempt took is never left without a name, however it ended.
func TestTimeline_ofFailures(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 1 })
	_, call, err := h.call("slow_lie", []int64{1})
	wantError(t, err, udfgate.WorkerLost, "worker lost: broke the protocol: PONG within a call")
	if p := call.Timeline.Partition(); p[udfgate.StateBody] < int64(slowLie) || call.Work.BodyNS != p[udfgate.StateBody] {
		t.Errorf("want %v of body, on both sides; got %v and %d", slowLie, p, call.Work.BodyNS)
	}

	// A worker that takes nothing of the call is given untakenWait to say why.
	h.must("close_after", []int64{1})
	eventually(t, "the socket is closed", func() bool { return socketClosed(h.launcher.process(1)) })
	_, call = h.must("same", []int64{5})
	p := call.Timeline.Partition()
	if p[udfgate.StateQueue] < int64(untakenWait) || p[udfgate.StateStart] == 0 || !call.Cold {
		t.Errorf("want %v of queue and a start, got %v, cold %v", untakenWait, p, call.Cold)
	}
	if call.Work.BodyNS != p[udfgate.StateBody] || call.Work.CrossingNS != p[udfgate.StateCrossingOut]+p[udfgate.StateCrossingBack] {
		t.Errorf("want the work of the attempt that was taken alone, got %+v", call.Work)
	}
}

// Stamps that cannot be true are not believed; the sum stays the wall.
func TestTimeline_ofLies(t *testing.T) {
	h := newHarness(t, "")
	for _, function := range []string{"early_stamps", "long_body"} {
		_, call := h.must(function, []int64{1})
		p := call.Timeline.Partition()
		if p.Wall() != call.Timeline.To-call.Timeline.From {
			t.Errorf("%s: phases do not add up to the wall", function)
		}
		if call.Work.BodyNS > p.Wall() || call.Work.CrossingNS < 0 {
			t.Errorf("%s: work %+v is longer than the wall %d", function, call.Work, p.Wall())
		}
	}
}

func TestBook_scalesIntoTheInterval(t *testing.T) {
	for _, c := range []struct {
		name                 string
		recv, send           int64
		decode, body, encode int64
		nests                bool
		want                 udfgate.Partition
	}{
		{"nested", 1100, 1900, 100, 500, 100, true, partition(200, 100, 200, 500)},
		{"not nested", 900, 1900, 100, 500, 100, true, partition(150, 150, 200, 500)},
		{"other clock", 1100, 1900, 100, 500, 100, false, partition(150, 150, 200, 500)},
		{"too long", 1100, 1900, 1000, 2000, 1000, true, partition(0, 0, 500, 500)},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := crossing{w: &worker{nests: c.nests}, call: &udfgate.Call{}, began: 1000, ended: 2000}
			x.result = result{recv: c.recv, send: c.send, decode: c.decode, body: c.body, encode: c.encode}
			x.call.Timeline.From, x.call.Timeline.To = 1000, 2000
			x.book()
			if got := x.call.Timeline.Partition(); got != c.want {
				t.Errorf("want %v, got %v", c.want, got)
			}
		})
	}
}

func partition(out, back, conversion, body int64) (p udfgate.Partition) {
	p[udfgate.StateCrossingOut], p[udfgate.StateCrossingBack] = out, back
	p[udfgate.StateConversionWorker], p[udfgate.StateBody] = conversion, body
	return p
}
