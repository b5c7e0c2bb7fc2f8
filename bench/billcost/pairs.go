package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
)

const (
	// goal is the most that bills may add to the time of a call.
	goal = 0.02
	// The bootstrap draws so often; its interval leaves out this share at each end.
	resamples = 10000
	tail      = 0.025
)

// result is what one cell gave.
type result struct {
	bill  pairs // with bills against without
	noise pairs // with bills against with bills
}

// pairs are the slices of two gateways.
type pairs struct{ first, second []measured }

// pair measures one slice of each. Pairs begin in turn with either gateway,
// A B B A, so that a machine that gets slower favours neither.
func (p *pairs) pair(ctx context.Context, a, b *side, batch arrow.RecordBatch, callers int, d time.Duration, n int) error {
	order := [2]*side{a, b}
	if n%2 == 1 {
		order = [2]*side{b, a}
	}
	for _, s := range order {
		m, err := s.slice(ctx, batch, callers, d)
		if err != nil {
			return err
		}
		if s == a {
			p.first = append(p.first, m)
		} else {
			p.second = append(p.second, m)
		}
	}
	return nil
}

// added is by how much the first is slower, as the median of the pairs' ratios
// less 1, with its 95 % interval by bootstrap over the pairs.
func (p *pairs) added(seed uint64) (middle, low, high float64) {
	ratios := make([]float64, len(p.first))
	for i := range ratios {
		ratios[i] = p.first[i].perCall/p.second[i].perCall - 1
	}
	r := rand.New(rand.NewPCG(seed, uint64(len(ratios))))
	medians, drawn := make([]float64, resamples), make([]float64, len(ratios))
	for i := range medians {
		for k := range drawn {
			drawn[k] = ratios[r.IntN(len(ratios))]
		}
		medians[i] = median(drawn)
	}
	slices.Sort(medians)
	cut := int(tail * resamples)
	return median(ratios), medians[cut], medians[resamples-1-cut]
}

// perCall is the median time of a call in microseconds, and the processor time
// of the gateway process that all calls together took, for each.
func perCall(all []measured) (wall, cpu float64) {
	times, calls := make([]float64, len(all)), 0
	for i, m := range all {
		times[i] = 1e6 * m.perCall
		cpu += 1e6 * m.cpu.Seconds()
		calls += m.calls
	}
	return median(times), cpu / float64(calls)
}

func median(v []float64) float64 {
	sorted := slices.Sorted(slices.Values(v))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

func printTable(s *settings, results []result) {
	fmt.Printf("Time that the bill adds to a call of %s(int64, int64): median of %d paired ratios less 1 and its 95 %% interval (bootstrap, seed %d); slices of %s, A B B A. Control: two gateways with bills, by turns with the others.\n\n",
		function, s.pairs, s.seed, s.slice)
	fmt.Println("| rows | callers | µs per call with | without | bill adds | 95 % | control adds | 95 % | gateway's CPU µs per call with | without | with, control | goal | result |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
	for i, r := range results {
		adds, low, high := r.bill.added(s.seed)
		noise, noiseLow, noiseHigh := r.noise.added(s.seed)
		with, withCPU := perCall(r.bill.first)
		without, withoutCPU := perCall(r.bill.second)
		_, controlCPU := perCall(r.noise.second)
		fmt.Printf("| %d | %d | %.0f | %.0f | %+.1f %% | %+.1f … %+.1f | %+.1f %% | %+.1f … %+.1f | %.0f | %.0f | %.0f | ≤ %g %% | %s |\n",
			cells[i].rows, cells[i].callers, with, without, 100*adds, 100*low, 100*high,
			100*noise, 100*noiseLow, 100*noiseHigh, withCPU, withoutCPU, controlCPU, 100*goal, verdict(adds, low, high))
	}
}

// verdict judges the median, and says whether the interval agrees.
func verdict(adds, low, high float64) string {
	switch {
	case adds <= goal && high <= goal:
		return "pass"
	case adds <= goal:
		return "pass by the median"
	case low <= goal:
		return "miss by the median"
	default:
		return "**miss**"
	}
}
