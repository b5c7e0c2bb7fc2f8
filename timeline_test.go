package udfgate

import (
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// seeded is a random source; UDFGATE_SEED replays a run.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv("UDFGATE_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("UDFGATE_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// randomTimeline starts at from or a little later. Spans may lie outside of
// it, overlap, be empty or reversed: what a backend adds is not to be trusted.
func randomTimeline(rng *rand.Rand, from int64) *Timeline {
	t := &Timeline{From: from + rng.Int64N(20)}
	t.To = t.From + rng.Int64N(60)
	for range rng.IntN(20) {
		at := t.From - 10 + rng.Int64N(80)
		t.Add(State(rng.IntN(int(stateCount))), at, at-3+rng.Int64N(30))
	}
	return t
}

// oracle books nanosecond by nanosecond, from the definition alone.
func oracle(all []*Timeline) (booked Partition, idle int64) {
	first, last := int64(math.MaxInt64), int64(math.MinInt64)
	for _, t := range all {
		if t.To > t.From {
			first, last = min(first, t.From), max(last, t.To)
		}
	}
	for at := first; at < last; at++ {
		inside, best := false, StateOther
		for _, t := range all {
			if at < t.From || at >= t.To {
				continue
			}
			inside = true
			for _, s := range t.Spans {
				if at >= s.From && at < s.To {
					best = max(best, s.State)
				}
			}
		}
		if inside {
			booked[best]++
		} else {
			idle++
		}
	}
	return booked, idle
}

// TestLedgerBooksEveryInstantOnce adds random timelines the way a stream does,
// with up to four batches inside at a time, settles as often as a stream does,
// and compares the books with the definition.
func TestLedgerBooksEveryInstantOnce(t *testing.T) {
	rng := seeded(t)
	for round := range 2000 {
		var all []*Timeline
		var from int64
		for range 1 + rng.IntN(12) {
			tl := randomTimeline(rng, from)
			from = tl.From
			if rng.IntN(3) == 0 {
				from = tl.To + rng.Int64N(5) // the next one waits for this
			}
			all = append(all, tl)
		}
		var l Ledger
		inside := 1 + rng.IntN(4)
		for i, tl := range all {
			l.Add(tl)
			// Of the batches not added yet, the oldest bounds what may be booked.
			if i+1 < len(all) && rng.IntN(4) > 0 {
				l.Settle(all[i+1].From - rng.Int64N(int64(inside)))
			}
		}
		l.Settle(math.MaxInt64)
		want, idle := oracle(all)
		if l.Booked != want || l.IdleNS != idle {
			t.Fatalf("round %d: booked %v idle %d, wanted %v idle %d", round, l.Booked, l.IdleNS, want, idle)
		}
		if len(l.open) != 0 {
			t.Fatalf("round %d: %d spans left after the last settling", round, len(l.open))
		}
	}
}

func TestLedgerMemoryIsBoundedByBatchesInFlight(t *testing.T) {
	rng := seeded(t)
	var l Ledger
	var from, most int64
	for range 10_000 {
		tl := randomTimeline(rng, from)
		from = tl.To
		l.Add(tl)
		l.Settle(from)
		most = max(most, int64(cap(l.open)))
	}
	if most > 64 {
		t.Errorf("a lock-step stream of 10000 batches made the ledger hold %d spans", most)
	}
}

func TestTimelinePartitionAddsUpToItsWall(t *testing.T) {
	rng := seeded(t)
	for round := range 2000 {
		tl := randomTimeline(rng, rng.Int64N(1<<40))
		got := tl.Partition()
		want, _ := oracle([]*Timeline{tl})
		if got != want || got.Wall() != tl.To-tl.From {
			t.Fatalf("round %d: %v (wall %d), wanted %v (wall %d)", round, got, got.Wall(), want, tl.To-tl.From)
		}
	}
}

func TestTimelineAddDropsWhatHasNoLength(t *testing.T) {
	var tl Timeline
	tl.Add(StateBody, 5, 5)
	tl.Add(StateBody, 6, 5)
	if len(tl.Spans) != 0 {
		t.Errorf("kept %v", tl.Spans)
	}
}

func BenchmarkLedgerOneBatch(b *testing.B) {
	for b.Loop() {
		var tl Timeline
		tl.From, tl.To = 100, 1300
		for i, s := range []State{
			StateConversionGateway, StateQueue, StateConversionGateway, StateCrossingOut,
			StateConversionWorker, StateBody, StateConversionWorker, StateCrossingBack, StateConversionGateway, StateReply,
		} {
			tl.Add(s, int64(100+100*i), int64(200+100*i))
		}
		var l Ledger
		l.Add(&tl)
		l.Settle(tl.To)
	}
}
