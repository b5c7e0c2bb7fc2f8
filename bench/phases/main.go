// Command phases measures what the gateway adds to a body: conversion and
// crossing per row, as the bill of each call says, beside what the same
// conversion costs in CPython alone. One caller, one worker, large batches.
//
// Run from the top of the repository, with bin/udfgate built:
//
//	go run ./bench/phases
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/bench/programs"
	client "github.com/udfgate/udfgate/clients/go"
)

// warmCalls are not counted: arenas grow, pages are touched, caches fill.
const warmCalls = 3

func main() {
	binary := flag.String("udfgate", "bin/udfgate", "the gateway")
	python := flag.String("python", "python3", "interpreter of the worker and of the floor")
	file := flag.String("functions", "bench/peers/functions.py", "the functions")
	script := flag.String("floors", "bench/phases/floors.py", "the floor")
	calls := flag.Int("calls", 40, "counted calls of each case")
	rows := flag.Int("rows", 65536, "rows of a batch")
	flag.Parse()
	if err := run(os.Stdout, *binary, *python, *file, *script, *calls, *rows); err != nil {
		fmt.Fprintln(os.Stderr, "phases:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, binary, python, file, script string, calls, rows int) (err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	g, err := programs.Gateway{Binary: binary, Python: python, File: file, Workers: 1}.Start(ctx)
	if err != nil {
		return err
	}
	defer g.Stop()
	alone, err := startFloors(ctx, python, script, rows)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, alone.stop()) }()
	c, err := client.Connect(ctx, g.Addr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()

	all := make([]*samples, len(cases))
	batches := make([]arrow.RecordBatch, len(cases))
	for i := range cases {
		all[i] = &samples{}
		batches[i] = cases[i].batch(rows)
	}
	// One call and one pass of each case in turn: whatever else the machine
	// does meets all of them.
	for turn := range warmCalls + calls {
		for i := range cases {
			bill, err := call(ctx, c, &cases[i], batches[i], turn == 0)
			if err != nil {
				return err
			}
			pass, err := alone.pass(cases[i].name)
			if err != nil {
				return err
			}
			if turn >= warmCalls {
				all[i].add(bill, pass, float64(rows))
			}
		}
	}
	printTable(out, all, calls, rows)
	return nil
}

// call makes one call and returns its bill; check compares the answer too.
func call(ctx context.Context, c *client.Client, vc *valueCase, batch arrow.RecordBatch, check bool) (*udfgate.Bill, error) {
	result, err := c.Call(ctx, vc.function, batch)
	if err != nil {
		return nil, err
	}
	defer result.Batch.Release()
	if check {
		if wrong := vc.wrong(result.Batch); wrong != "" {
			return nil, fmt.Errorf("%s: %s", vc.title, wrong)
		}
	}
	b := result.Bill
	if b == nil {
		return nil, fmt.Errorf("%s: the call had no bill", vc.title)
	}
	sum := b.QueueNS + b.CoalesceNS + b.StartNS + b.ConversionNS + b.CrossingNS + b.BodyNS + b.ReplyNS + b.OtherNS
	if sum != b.WallNS {
		return nil, fmt.Errorf("%s: the phases of the bill add up to %d ns, its wall is %d", vc.title, sum, b.WallNS)
	}
	return b, nil
}

// samples are ns/row of one case, one entry per call or pass.
type samples struct {
	paid, gateway, crossing, body []float64 // from the bill; paid is conversion + crossing
	loop, calls                   []float64 // alone: the bare loop; the two conversion calls
}

func (s *samples) add(b *udfgate.Bill, f floor, rows float64) {
	s.paid = append(s.paid, float64(b.ConversionNS+b.CrossingNS)/rows)
	s.gateway = append(s.gateway, float64(b.ConvGatewayNS)/rows)
	s.crossing = append(s.crossing, float64(b.CrossingNS)/rows)
	s.body = append(s.body, float64(b.BodyNS)/rows)
	s.loop = append(s.loop, f.Body/rows)
	s.calls = append(s.calls, (f.Decode+f.Encode)/rows)
}

func median(v []float64) float64 {
	sorted := slices.Sorted(slices.Values(v))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

func printTable(out io.Writer, all []*samples, calls, rows int) {
	fmt.Fprintf(out, "ns per row, median (least) of %d calls of %d rows, one caller, one worker\n\n", calls, rows)
	fmt.Fprintln(out, "| values | conversion + crossing | goal | of it gateway | of it crossing | body | bare loop | the two CPython calls alone | ratio to them | goal elsewhere | result |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|---|---|---|---|")
	both := func(v []float64) string { return fmt.Sprintf("%.1f (%.1f)", median(v), slices.Min(v)) }
	for i, s := range all {
		c := &cases[i]
		gateway := both(s.gateway)
		if c.gateway > 0 {
			gateway += fmt.Sprintf(", goal ≤ %g", c.gateway)
		}
		ratio := median(s.paid) / median(s.calls)
		fmt.Fprintf(out, "| %s | %s | ≤ %g | %s | %s | %s | %s | %s | %.2f | ≤ %g | %s |\n", c.title, both(s.paid), c.goal,
			gateway, both(s.crossing), both(s.body), both(s.loop), both(s.calls), ratio, c.ratio, c.verdict(s, ratio))
	}
	fmt.Fprint(out, "\nThe goals in ns hold on the machine they were set on; on a slower one the ratio stands for them.\n")
}

// verdict judges the medians.
func (c *valueCase) verdict(s *samples, ratio float64) string {
	result := "pass"
	switch {
	case median(s.paid) <= c.goal:
	case ratio <= c.ratio:
		result = "pass by the ratio"
	default:
		result = "**miss**"
	}
	if c.gateway > 0 && median(s.gateway) > c.gateway {
		result += ", gateway above its share"
	}
	return result
}
