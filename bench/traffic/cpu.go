package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/udfgate/udfgate/bench/programs"
)

// goalCPU is the most that the gateway may use of what the echo server does,
// for batches of sizes[0].
const goalCPU = 0.6

// spent are seconds of processor time per gigabyte, one entry per round.
type spent struct{ gateway, workers, echo []float64 }

func measureCPU(ctx context.Context, s *settings) (err error) {
	p, err := s.gateway.Start(ctx)
	gateway, err := connect(ctx, p, err)
	if err != nil {
		return err
	}
	defer func() { err = firstOf(err, gateway.Close()) }()
	p, err = programs.StartEcho(ctx, s.echo)
	echo, err := connect(ctx, p, err)
	if err != nil {
		return err
	}
	defer func() { err = firstOf(err, echo.Close()) }()

	all := make([]spent, len(sizes))
	batches := make([]arrow.RecordBatch, len(sizes))
	for i, size := range sizes {
		batches[i] = batchOf(size)
		for _, server := range []*server{gateway, echo} {
			if err := server.check(ctx, batches[i]); err != nil {
				return err
			}
			// Arenas grow, heaps find their size.
			if err := server.load(ctx, batches[i], s.callers, s.slice*gigabyte/2, nil); err != nil {
				return err
			}
		}
	}
	for range s.rounds {
		for i := range sizes {
			if err := all[i].round(ctx, s, gateway, echo, batches[i]); err != nil {
				return err
			}
		}
	}
	printCPU(s, all)
	return nil
}

func firstOf(err, next error) error {
	if err != nil {
		return err
	}
	return next
}

func (a *spent) round(ctx context.Context, s *settings, gateway, echo *server, batch arrow.RecordBatch) error {
	used, err := gateway.use(ctx, s, batch)
	if err != nil {
		return err
	}
	floor, err := echo.use(ctx, s, batch)
	if err != nil {
		return err
	}
	a.gateway = append(a.gateway, used.Own.Seconds()/s.slice)
	a.workers = append(a.workers, used.Children.Seconds()/s.slice)
	a.echo = append(a.echo, floor.Own.Seconds()/s.slice)
	return nil
}

// use is the processor time that one slice of load takes the server.
func (s *server) use(ctx context.Context, set *settings, batch arrow.RecordBatch) (programs.CPU, error) {
	before, err := s.CPU()
	if err != nil {
		return before, err
	}
	if err := s.load(ctx, batch, set.callers, set.slice*gigabyte, nil); err != nil {
		return before, err
	}
	after, err := s.CPU()
	return after.Sub(before), err
}

func printCPU(s *settings, all []spent) {
	fmt.Printf("CPU seconds (user and system) per GB of Arrow body, in and out together: median (least–most) of %d rounds of %g GB; %s(int64) below 2^30, %d calls in flight\n\n",
		s.rounds, s.slice, function, s.callers)
	fmt.Println("| batch | gateway process | its workers | arrow-go echo server | gateway / echo | goal | result |")
	fmt.Println("|---|---|---|---|---|---|---|")
	for i, a := range all {
		ratios := make([]float64, len(a.gateway))
		for k := range ratios {
			ratios[k] = a.gateway[k] / a.echo[k]
		}
		goal, result := "–", "–"
		if i == 0 {
			goal, result = fmt.Sprintf("≤ %g", goalCPU), "pass"
			if median(ratios) > goalCPU {
				result = "**miss**"
			}
		}
		fmt.Printf("| %d KiB | %s | %s | %s | %s | %s | %s |\n", sizes[i]>>10, spread(a.gateway), spread(a.workers), spread(a.echo), spread(ratios), goal, result)
	}
}

func spread(v []float64) string {
	return fmt.Sprintf("%.2f (%.2f–%.2f)", median(v), slices.Min(v), slices.Max(v))
}

func median(v []float64) float64 {
	sorted := slices.Sorted(slices.Values(v))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
