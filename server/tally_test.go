package server

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/internal/seed"
)

func readBills(g *gateway) (since time.Time, by map[string]totalsJSON) {
	g.t.Helper()
	code, text := g.get("/v1/bills", "")
	var told billsJSON
	if err := json.Unmarshal([]byte(text), &told); err != nil || code != 200 {
		g.t.Fatalf("%d %v: %s", code, err, text)
	}
	by = map[string]totalsJSON{}
	for _, f := range told.Functions {
		by[f.Function] = f
		checkSums(g.t, &f)
	}
	return told.Since, by
}

// checkSums checks that sums of bills add up as bills do.
func checkSums(t *testing.T, f *totalsJSON) {
	t.Helper()
	s := &f.Sum
	sum := s.QueueNS + s.CoalesceNS + s.StartNS + s.ConversionNS + s.CrossingNS + s.BodyNS + s.ReplyNS + s.OtherNS
	outcomes := int64(0)
	for _, n := range f.Outcomes {
		outcomes += n
	}
	if sum != s.WallNS || s.ConversionNS != s.ConvGatewayNS+s.ConvWorkerNS || s.CrossingNS != s.CrossingOutNS+s.CrossingBackNS || outcomes != f.Calls {
		t.Errorf("phases add up to %d, outcomes to %d: %+v", sum, outcomes, f)
	}
}

// The totals are the sum of the bills that the callers got, at every instant.
func TestBillsOfAllCalls(t *testing.T) {
	before := time.Now()
	g := start(t, Config{}, map[string]body{"echo": echo, "idle": echo, "picky": picky})
	var mu sync.Mutex
	var want sumJSON
	var walls []int64
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for i := range int64(50) {
				c := g.open("echo")
				c.send(ints(i, i))
				c.want(i, i)
				b := c.finish()
				mu.Lock()
				want.add(&b)
				walls = append(walls, b.WallNS)
				mu.Unlock()
			}
		})
	}
	done := make(chan struct{})
	go func() {
		callers.Wait()
		close(done)
	}()
	for looking := true; looking; {
		select {
		case <-done:
			looking = false
		default:
			_, by := readBills(g) // checks each
			if echo := by["echo"]; echo.Sum.Rows != 2*echo.Calls || echo.Sum.Crossings != echo.Calls {
				t.Errorf("a call that is counted in part: %+v", echo)
			}
		}
	}
	c := g.open("picky")
	c.send(ints(2))
	c.failure("Aborted", udfgate.WorkerLost, "worker lost")
	since, by := readBills(g)
	if since.Before(before.Add(-time.Second)) || since.After(time.Now()) {
		t.Errorf("since %v", since)
	}
	got := by["echo"]
	// Trailers drop nothing that is added up here but work, when they are long.
	want.Work = got.Sum.Work
	if !reflect.DeepEqual(got.Sum, want) || got.Calls != 200 || got.Outcomes["ok"] != 200 || got.Canonical != "geo.echo" {
		t.Errorf("got %+v\nwanted %+v", got, want)
	}
	slices.Sort(walls)
	if p := got.Percentiles.Wall; p.Max != walls[199] || !near(p.P50, walls[99]) || !near(p.P90, walls[179]) || !near(p.P99, walls[197]) {
		t.Errorf("percentiles %+v of %v", p, walls)
	}
	if p := by["picky"]; p.Calls != 1 || p.Outcomes["WORKER_LOST"] != 1 {
		t.Errorf("picky: %+v", p)
	}
	if idle := by["idle"]; idle.Calls != 0 || idle.Percentiles.Wall != (spreadJSON{}) || len(idle.Outcomes) != 0 {
		t.Errorf("never called: %+v", idle)
	}
}

// A call that was refused before it had a batch counts, but took no time that
// percentiles could tell of.
func TestBillsOfRefusedCalls(t *testing.T) {
	g := start(t, Config{}, map[string]body{"echo": echo})
	for i := range 12 {
		rows, want := `{"rows":[[1]]}`, 200
		if i%3 > 0 {
			rows, want = `{"rows":[["x"]]}`, 400
		}
		if code, _, text := g.post("echo", rows); code != want {
			t.Fatalf("got %d %s", code, text)
		}
	}
	_, by := readBills(g)
	got := by["echo"]
	if got.Calls != 12 || got.Outcomes["INVALID"] != 8 || got.Outcomes["ok"] != 4 {
		t.Errorf("counted %+v", got)
	}
	if p := got.Percentiles; p.Wall.P50 <= 0 || p.Wall.P50 > got.Sum.WallNS {
		t.Errorf("percentiles %+v", p)
	}
}

// near allows for the sketch's error, and for rounding to whole nanoseconds.
func near(got, want int64) bool {
	return math.Abs(float64(got-want)) <= 1+1.001*sketchError*float64(want)
}

// Percentiles hold for whatever durations come, from a nanosecond to days.
func TestSpread(t *testing.T) {
	rng := seed.Rand(t)
	s := newSpread()
	var all []int64
	for range 20_000 {
		ns := int64(math.Exp(rng.Float64() * 33)) // up to two and a half days
		if rng.IntN(10) == 0 {
			ns = 0
		}
		s.add(ns)
		all = append(all, ns)
	}
	slices.Sort(all)
	few := newSpread()
	few.add(5)
	few.add(7)
	if p := few.read(); !near(p.P50, 5) || p.P90 != 7 || p.P999 != 7 {
		t.Errorf("of 5 and 7: %+v", p)
	}
	p := s.read()
	for _, c := range []struct {
		got int64
		q   float64
	}{{p.P50, 0.5}, {p.P90, 0.9}, {p.P99, 0.99}, {p.P999, 0.999}} {
		want := all[int(math.Ceil(c.q*float64(len(all))))-1]
		if !near(c.got, want) {
			t.Errorf("quantile %g: got %d, wanted %d", c.q, c.got, want)
		}
	}
	if p.Max != all[len(all)-1] {
		t.Errorf("max: got %d, wanted %d", p.Max, all[len(all)-1])
	}
}

// BenchmarkObserve is what a finished call pays for being counted, beside what
// Prometheus' part of it costs. Its floor is a lock and a sketch's one Add.
func BenchmarkObserve(b *testing.B) {
	bill := udfgate.Bill{WallNS: 123_456, QueueNS: 1234, BodyNS: 45_678, ConvGatewayNS: 2345, ConversionNS: 2345, Rows: 1, Crossings: 1}
	b.Run("add=one", func(b *testing.B) {
		s := newSpread()
		var mu sync.Mutex
		for b.Loop() {
			mu.Lock()
			s.add(bill.WallNS)
			mu.Unlock()
		}
	})
	b.Run("add=tally", func(b *testing.B) {
		t := newTally()
		b.ReportAllocs()
		for b.Loop() {
			t.add(&bill, "")
		}
	})
	b.Run("add=tally,parallel", func(b *testing.B) {
		t := newTally()
		b.RunParallel(func(pb *testing.PB) {
			own := bill
			for pb.Next() {
				own.WallNS++
				t.add(&own, "")
			}
		})
	})
}
