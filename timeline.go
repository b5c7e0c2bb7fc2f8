package udfgate

import (
	"cmp"
	"slices"
)

// State is what a piece of a call is doing at an instant. States are ranked:
// of several pieces, the instant is booked to the highest-ranked state.
type State uint8

// The states in ascending rank (design: body > conversion, worker then gateway
// > crossing, out then back > start > queue > coalesce > reply > other).
const (
	StateOther State = iota
	StateReply
	StateCoalesce
	StateQueue
	StateStart
	StateCrossingBack
	StateCrossingOut
	StateConversionGateway
	StateConversionWorker
	StateBody
	stateCount
)

// Span is a half-open interval [From, To) of internal/clock nanoseconds during
// which a piece was in State.
type Span struct {
	State    State
	From, To int64
}

// Timeline is the spans of one batch, from its receipt to the handing over of
// its answer. Time covered by no span is other.
type Timeline struct {
	From, To int64
	Off      bool // takes no spans, and no ledger takes it: nobody wants a bill
	Spans    []Span
	inline   [12]Span // enough for one crossing without an allocation
}

// Add notes that the batch was in state s during [from, to). Empty and
// reversed spans are dropped.
func (t *Timeline) Add(s State, from, to int64) {
	if to <= from || t.Off {
		return
	}
	if t.Spans == nil {
		t.Spans = t.inline[:0]
	}
	t.Spans = append(t.Spans, Span{s, from, to})
}

// Partition is wall time by state, in nanoseconds; its sum is the wall.
type Partition [stateCount]int64

// Wall is the sum over all states.
func (p *Partition) Wall() int64 {
	var w int64
	for _, v := range p {
		w += v
	}
	return w
}

// Partition books the timeline alone: Σ = To − From exactly.
func (t *Timeline) Partition() Partition {
	var l Ledger
	l.Add(t)
	l.Settle(t.To)
	return l.Booked
}

// Ledger books the union of many timelines of one call, each instant to the
// highest-ranked state of any batch that was inside. Memory stays bounded by
// the batches in flight: Settle books everything before the oldest of them.
type Ledger struct {
	Booked Partition
	// IdleNS is time between batches, when none was inside. It is not wall.
	IdleNS  int64
	open    []Span // sorted by From once settled; the unbooked rest
	started bool
	settled int64 // everything before it is booked
	edges   []int64
	// Enough for two short batches without an allocation.
	openRoom  [16]Span
	edgesRoom [32]int64
}

// Add takes a finished timeline. Its spans are clipped to [From, To).
func (l *Ledger) Add(t *Timeline) {
	if t.To <= t.From || t.Off {
		return
	}
	if l.open == nil {
		l.open, l.edges = l.openRoom[:0], l.edgesRoom[:0]
	}
	l.put(Span{StateOther, t.From, t.To})
	for _, s := range t.Spans {
		l.put(Span{s.State, max(s.From, t.From), min(s.To, t.To)})
	}
}

func (l *Ledger) put(s Span) {
	if s.To > s.From {
		l.open = append(l.open, s)
	}
}

// Settle books every instant before horizon: the earliest From that a later
// Add can still bring. Spans that reach past it are kept for later.
func (l *Ledger) Settle(horizon int64) {
	if len(l.open) == 0 {
		return
	}
	l.edges = l.edges[:0]
	for _, s := range l.open {
		if s.From < horizon {
			l.edges = append(l.edges, s.From, min(s.To, horizon))
		}
	}
	if len(l.edges) == 0 {
		return
	}
	slices.Sort(l.edges)
	l.edges = slices.Compact(l.edges)
	if l.started {
		l.IdleNS += max(0, l.edges[0]-l.settled)
	}
	l.book()
	l.settled, l.started = l.edges[len(l.edges)-1], true
	rest := l.open[:0]
	for _, s := range l.open {
		if s.To > horizon {
			s.From = max(s.From, horizon)
			rest = append(rest, s)
		}
	}
	l.open = rest
}

// book walks the elementary intervals between edges. Spans are sorted by From;
// with at most a window of batches in flight the inner loop is short.
func (l *Ledger) book() {
	slices.SortFunc(l.open, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	first := 0
	for i := 1; i < len(l.edges); i++ {
		from, to := l.edges[i-1], l.edges[i]
		best, busy := StateOther, false
		for first < len(l.open) && l.open[first].To <= from {
			first++
		}
		for _, s := range l.open[first:] {
			if s.From > from {
				break
			}
			if s.To > from {
				busy = true
				best = max(best, s.State)
			}
		}
		if busy {
			l.Booked[best] += to - from
		} else {
			l.IdleNS += to - from
		}
	}
}

// Work is plain sums of nanoseconds over pieces and attempts; it may exceed
// the wall when pieces run side by side.
type Work struct {
	BodyNS, BodyCPUNS, ConversionWorkerNS, ConversionGatewayNS, CrossingNS int64
}

// Since is what w has more than old, which it had been.
func (w Work) Since(old Work) Work {
	return Work{
		BodyNS: w.BodyNS - old.BodyNS, BodyCPUNS: w.BodyCPUNS - old.BodyCPUNS,
		ConversionWorkerNS:  w.ConversionWorkerNS - old.ConversionWorkerNS,
		ConversionGatewayNS: w.ConversionGatewayNS - old.ConversionGatewayNS,
		CrossingNS:          w.CrossingNS - old.CrossingNS,
	}
}

// Add sums o into w.
func (w *Work) Add(o Work) {
	w.BodyNS += o.BodyNS
	w.BodyCPUNS += o.BodyCPUNS
	w.ConversionWorkerNS += o.ConversionWorkerNS
	w.ConversionGatewayNS += o.ConversionGatewayNS
	w.CrossingNS += o.CrossingNS
}
