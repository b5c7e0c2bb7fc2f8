package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/udfgate/udfgate/bench/programs"
)

const (
	// goalKeptMiB is how much more memory than before the gateway may hold after its rest.
	goalKeptMiB = 32
	goalRest    = 10 * time.Second
	goalLarge   = 100_000_000 // bytes
	largeCalls  = 3
)

// measureLarge sends large batches to a gateway of their own and watches its memory.
func measureLarge(ctx context.Context, out io.Writer, s *settings) (err error) {
	g, err := serve(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	small := integers(64 << 10)
	for range turnCalls {
		if _, err := g.call(ctx, "noop", small, true); err != nil {
			return err
		}
	}
	before, err := g.Memory()
	if err != nil {
		return err
	}
	batch := integers(s.large)
	var took []float64
	for turn := range largeCalls {
		started := time.Now()
		if _, err := g.call(ctx, "noop", batch, turn == 0); err != nil {
			return err
		}
		took = append(took, time.Since(started).Seconds())
	}
	after, err := g.Memory()
	if err != nil {
		return err
	}
	time.Sleep(s.rest)
	rested, err := g.Memory()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\nA batch of %.0f MB, mode arrow: %.3f s at best of %d calls (with the first, which finds no arena: %.3f)\n\n",
		float64(s.large)/1e6, min(took[1], took[2]), largeCalls, took[0])
	fmt.Fprintf(out, "| gateway's memory, MiB | before | right after | %s later | more than before | goal | result |\n", s.rest)
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|")
	for _, kind := range []struct {
		name string
		of   func(programs.Memory) int64
	}{
		{"RSS", func(m programs.Memory) int64 { return m.RSS }},
		{"PSS", func(m programs.Memory) int64 { return m.PSS }},
		{"of it anonymous: heap and stacks", func(m programs.Memory) int64 { return m.Private }},
	} {
		kept := float64(kind.of(rested)-kind.of(before)) / mib
		result := "pass"
		switch {
		case s.rest < goalRest || s.large < goalLarge:
			result = fmt.Sprintf("– (wants %d MB and %s)", goalLarge/1_000_000, goalRest)
		case kept > goalKeptMiB:
			result = "**miss**"
		}
		fmt.Fprintf(out, "| %s | %.1f | %.1f | %.1f | %+.1f | ≤ +%d | %s |\n", kind.name, float64(kind.of(before))/mib,
			float64(kind.of(after))/mib, float64(kind.of(rested))/mib, kept, goalKeptMiB, result)
	}
	return nil
}
