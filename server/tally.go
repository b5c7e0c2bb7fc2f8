package server

import (
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/DataDog/sketches-go/ddsketch"
	"github.com/DataDog/sketches-go/ddsketch/mapping"
	"github.com/DataDog/sketches-go/ddsketch/store"
	"github.com/udfgate/udfgate"
)

// A percentile is at most sketchError off, relative to its value, as long as
// its largest value is less than e^(sketchBins/50) times its smallest, which
// nanoseconds and days are not apart; the smallest ones would be merged first.
const (
	sketchError = 0.01
	sketchBins  = 2048
)

// tallies are the sums of all bills since the gateway began, by function. There
// are no more of them than functions have been served.
type tallies struct {
	since  time.Time
	mu     sync.Mutex
	byName map[string]*tally // by canonical name: a new generation goes on with it
}

func newTallies() *tallies { return &tallies{since: time.Now(), byName: map[string]*tally{}} }

// of is the tally of a function, made at first sight.
func (t *tallies) of(f *udfgate.Function) *tally {
	t.mu.Lock()
	defer t.mu.Unlock()
	own, ok := t.byName[f.Canonical()]
	if !ok {
		own = newTally()
		t.byName[f.Canonical()] = own
	}
	return own
}

// tally is what the calls of one function have cost.
type tally struct {
	mu       sync.Mutex
	calls    int64
	cold     int64
	outcomes map[udfgate.Reason]int64 // "" is ok, which ok counts apart
	ok       int64
	sum      sumJSON
	wall     spread
	queue    spread
	body     spread
}

func newTally() *tally {
	return &tally{outcomes: map[udfgate.Reason]int64{}, wall: newSpread(), queue: newSpread(), body: newSpread()}
}

// observe books the bill of a call that ended; reason is empty if all went
// well. It is the one place where bills leave the room.
func (r *route) observe(b *udfgate.Bill, reason udfgate.Reason) {
	r.series.Observe(b, reason)
	r.tally.add(b, reason)
}

// add books one bill. It runs once per call and takes a few hundred
// nanoseconds at most, so one lock will do.
func (t *tally) add(b *udfgate.Bill, reason udfgate.Reason) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls++
	if reason == "" {
		t.ok++
	} else {
		t.outcomes[reason]++
	}
	if b.Cold {
		t.cold++
	}
	t.sum.add(b)
	if b.Batches == 0 && b.WallNS == 0 { // it was refused before it had a batch: a time of 0 would say that it was quick
		return
	}
	t.wall.add(b.WallNS)
	t.queue.add(b.QueueNS)
	t.body.add(b.BodyNS)
}

// spread is how durations are distributed. Zeros are counted apart, for which
// the sketch has a count of its own.
type spread struct {
	sketch *ddsketch.DDSketch
	max    int64
}

func newSpread() spread {
	m, err := mapping.NewCubicallyInterpolatedMapping(sketchError)
	if err != nil { // only an error outside (0, 1) is refused
		panic(err)
	}
	return spread{sketch: ddsketch.NewDDSketch(m, store.NewCollapsingLowestDenseStore(sketchBins), store.NewSparseStore())}
}

func (s *spread) add(ns int64) {
	// It refuses what is not a finite number in its range, and all int64 are.
	_ = s.sketch.Add(float64(ns))
	s.max = max(s.max, ns)
}

// spreadJSON is how /v1/bills shows a spread, in nanoseconds.
type spreadJSON struct {
	P50  int64 `json:"p50"`
	P90  int64 `json:"p90"`
	P99  int64 `json:"p99"`
	P999 int64 `json:"p999"`
	Max  int64 `json:"max"`
}

func (s *spread) read() spreadJSON {
	return spreadJSON{P50: s.at(0.5), P90: s.at(0.9), P99: s.at(0.99), P999: s.at(0.999), Max: s.max}
}

// at is the least value that a share q of all values do not exceed, so the
// percentiles of a few calls are the largest of them, not the smallest.
func (s *spread) at(q float64) int64 {
	n := s.sketch.GetCount()
	if n == 0 {
		return 0
	}
	rank := math.Ceil(q*n) - 1
	// The half keeps the rank, which the sketch computes again, from rounding down.
	v, err := s.sketch.GetValueAtQuantile(min((rank+0.5)/max(n-1, 1), 1))
	if err != nil { // only an empty sketch has no values
		return 0
	}
	return min(int64(math.Round(v)), s.max) // a bin reaches past its largest value
}

// totalsJSON is what /v1/bills says of one function. The members of sum have
// the names that they have in a bill.
type totalsJSON struct {
	Function    string           `json:"function"`
	Canonical   string           `json:"canonical"`
	Version     string           `json:"version"`
	Calls       int64            `json:"calls"`
	CallsCold   int64            `json:"calls_cold"`
	Outcomes    map[string]int64 `json:"outcomes"`
	Sum         sumJSON          `json:"sum"`
	Percentiles percentilesJSON  `json:"percentiles"`
}

type percentilesJSON struct {
	Wall  spreadJSON `json:"wall_ns"`
	Queue spreadJSON `json:"queue_ns"`
	Body  spreadJSON `json:"body_ns"`
}

// sumJSON is the members of a bill that can be added up.
type sumJSON struct {
	Rows           int64            `json:"rows"`
	RowsNative     int64            `json:"rows_native"`
	RowsFailed     int64            `json:"rows_failed"`
	BytesIn        int64            `json:"bytes_in"`
	BytesOut       int64            `json:"bytes_out"`
	Batches        int64            `json:"batches"`
	Crossings      int64            `json:"crossings"`
	Attempts       int64            `json:"attempts"`
	WallNS         int64            `json:"wall_ns"`
	QueueNS        int64            `json:"queue_ns"`
	CoalesceNS     int64            `json:"coalesce_ns"`
	StartNS        int64            `json:"start_ns"`
	ConversionNS   int64            `json:"conversion_ns"`
	ConvGatewayNS  int64            `json:"conversion_gateway_ns"`
	ConvWorkerNS   int64            `json:"conversion_worker_ns"`
	CrossingNS     int64            `json:"crossing_ns"`
	CrossingOutNS  int64            `json:"crossing_out_ns"`
	CrossingBackNS int64            `json:"crossing_back_ns"`
	BodyNS         int64            `json:"body_ns"`
	BodyCPUNS      int64            `json:"body_cpu_ns"`
	ReplyNS        int64            `json:"reply_ns"`
	OtherNS        int64            `json:"other_ns"`
	IdleNS         int64            `json:"idle_ns"`
	Work           udfgate.BillWork `json:"work"`
	Counters       map[string]int64 `json:"counters,omitempty"`
}

// add adds up what can be: counts, phases and work, but no peaks and names.
func (sum *sumJSON) add(b *udfgate.Bill) {
	sum.Rows += b.Rows
	sum.RowsNative += b.RowsNative
	sum.RowsFailed += b.RowsFailed
	sum.BytesIn += b.BytesIn
	sum.BytesOut += b.BytesOut
	sum.Batches += b.Batches
	sum.Crossings += b.Crossings
	sum.Attempts += b.Attempts
	sum.WallNS += b.WallNS
	sum.QueueNS += b.QueueNS
	sum.CoalesceNS += b.CoalesceNS
	sum.StartNS += b.StartNS
	sum.ConversionNS += b.ConversionNS
	sum.ConvGatewayNS += b.ConvGatewayNS
	sum.ConvWorkerNS += b.ConvWorkerNS
	sum.CrossingNS += b.CrossingNS
	sum.CrossingOutNS += b.CrossingOutNS
	sum.CrossingBackNS += b.CrossingBackNS
	sum.BodyNS += b.BodyNS
	sum.BodyCPUNS += b.BodyCPUNS
	sum.ReplyNS += b.ReplyNS
	sum.OtherNS += b.OtherNS
	sum.IdleNS += b.IdleNS
	sum.Work.BodyNS += b.Work.BodyNS
	sum.Work.BodyCPUNS += b.Work.BodyCPUNS
	sum.Work.ConversionWorkerNS += b.Work.ConversionWorkerNS
	sum.Work.ConversionGatewayNS += b.Work.ConversionGatewayNS
	sum.Work.CrossingNS += b.Work.CrossingNS
	sum.Counters = addCounts(sum.Counters, b.Counters)
}

// read is the tally at one instant: no call is counted in part.
func (t *tally) read() totalsJSON {
	t.mu.Lock()
	calls, cold, ok, sum, outcomes := t.calls, t.cold, t.ok, t.sum, maps.Clone(t.outcomes)
	percentiles := percentilesJSON{t.wall.read(), t.queue.read(), t.body.read()}
	sum.Counters = maps.Clone(sum.Counters)
	t.mu.Unlock()
	told := totalsJSON{Calls: calls, CallsCold: cold, Outcomes: map[string]int64{}, Sum: sum, Percentiles: percentiles}
	if ok > 0 {
		told.Outcomes["ok"] = ok
	}
	for _, reason := range slices.Sorted(maps.Keys(outcomes)) {
		told.Outcomes[string(reason)] = outcomes[reason]
	}
	return told
}

// readTallies is every function served, with the totals of those that were called.
func (s *Server) readTallies() []totalsJSON {
	functions := s.catalog.Functions()
	all := make([]totalsJSON, 0, len(functions))
	for _, f := range functions {
		told := s.tallies.of(f).read()
		told.Function, told.Canonical, told.Version = shownName(s.catalog, f), f.Canonical(), f.Version
		all = append(all, told)
	}
	return all
}
