// Command vector measures what the gateway adds to a body in mode arrow, which
// works on whole columns: conversion, crossing and other of each call's bill,
// beside one plain copy of the same bytes, in turns. And how long a batch of 100
// MB takes, and what of it the gateway still holds ten seconds later.
//
// Run from the top of the repository, with bin/udfgate built and an interpreter
// that has pyarrow:
//
//	go run ./bench/vector -python .venv/peers-ref/bin/python
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/bench/programs"
)

const (
	// turnCalls are counted of each turn.
	turnCalls = 10
	mib       = 1 << 20
	// goalPerMiB is for a batch of goalBytes, conversion, crossing and other together.
	goalBytes  = mib
	goalPerMiB = 150 * time.Microsecond
	textBytes  = 16 // of one value, its offset counted
	intBytes   = 8
)

type settings struct {
	gateway programs.Gateway
	calls   int
	large   int // bytes of the large batch; 0 leaves it out
	rest    time.Duration
}

func main() {
	s := settings{gateway: programs.Gateway{Workers: 1}}
	flag.StringVar(&s.gateway.Binary, "udfgate", "bin/udfgate", "the gateway")
	flag.StringVar(&s.gateway.Python, "python", ".venv/peers-ref/bin/python", "interpreter of the worker; it has pyarrow")
	flag.StringVar(&s.gateway.File, "functions", "bench/vector/functions.py", "the functions")
	flag.IntVar(&s.calls, "calls", 200, "counted calls of each size")
	flag.IntVar(&s.large, "large", 100_000_000, "bytes of the large batch; 0 leaves it out")
	flag.DurationVar(&s.rest, "rest", 10*time.Second, "how long after it the gateway's memory is looked at")
	flag.Parse()
	if err := run(os.Stdout, &s); err != nil {
		fmt.Fprintln(os.Stderr, "vector:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, s *settings) (err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := measureBatches(ctx, out, s); err != nil || s.large == 0 {
		return err
	}
	return measureLarge(ctx, out, s)
}

// served is a gateway with the client that calls it.
type served struct{ *programs.Loaded }

func serve(ctx context.Context, s *settings) (*served, error) {
	p, err := s.gateway.Start(ctx)
	loaded, err := programs.Connect(ctx, p, err)
	return &served{loaded}, err
}

// call makes one call and returns its bill; check compares the answer too.
func (g *served) call(ctx context.Context, function string, batch arrow.RecordBatch, check bool) (*udfgate.Bill, error) {
	result, err := g.Client.Call(ctx, function, batch)
	if err != nil {
		return nil, err
	}
	defer result.Batch.Release()
	if check && !array.Equal(batch.Column(0), result.Batch.Column(0)) {
		return nil, fmt.Errorf("%s: the answer is not what was sent", function)
	}
	if result.Bill == nil {
		return nil, fmt.Errorf("%s: the call had no bill", function)
	}
	return result.Bill, nil
}

// size is one kind of batch and what its calls came to.
type size struct {
	function string
	bytes    int
	batch    arrow.RecordBatch
	from, to []byte // a plain copy

	added, gateway, worker, crossing, other, copied []float64 // µs
}

func measureBatches(ctx context.Context, out io.Writer, s *settings) (err error) {
	g, err := serve(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	var sizes []*size
	for _, bytes := range []int{64 << 10, 512 << 10, mib, 8 * mib} {
		sizes = append(sizes, &size{function: "noop", bytes: bytes, batch: integers(bytes)})
	}
	sizes = append(sizes, &size{function: "noop_text", bytes: mib, batch: texts(mib)})
	for _, one := range sizes {
		one.from, one.to = make([]byte, one.bytes), make([]byte, one.bytes)
	}
	// A few calls and copies of each size in turn: whatever else the machine does
	// meets all of them. More than one, as 8 MiB leave nothing of a small batch in
	// any cache.
	for range max(s.calls/turnCalls, 1) {
		for _, one := range sizes {
			if err := one.turn(ctx, g); err != nil {
				return err
			}
		}
	}
	printBatches(out, sizes, s.calls)
	return nil
}

// turn makes the calls of one turn, of which the first is not counted.
func (s *size) turn(ctx context.Context, g *served) error {
	for i := range turnCalls + 1 {
		bill, err := g.call(ctx, s.function, s.batch, i == 0)
		if err != nil {
			return err
		}
		started := time.Now()
		copy(s.to, s.from)
		if copied := time.Since(started); i > 0 {
			s.add(bill, copied)
		}
	}
	return nil
}

func (s *size) add(b *udfgate.Bill, copied time.Duration) {
	us := func(ns int64) float64 { return float64(ns) / 1e3 }
	s.added = append(s.added, us(b.ConversionNS+b.CrossingNS+b.OtherNS))
	s.gateway = append(s.gateway, us(b.ConvGatewayNS))
	s.worker = append(s.worker, us(b.ConvWorkerNS))
	s.crossing = append(s.crossing, us(b.CrossingNS))
	s.other = append(s.other, us(b.OtherNS))
	s.copied = append(s.copied, us(copied.Nanoseconds()))
}

func printBatches(out io.Writer, sizes []*size, calls int) {
	fmt.Fprintf(out, "Mode arrow, the column handed back; µs, median (least) of %d calls, one caller, one worker\n\n", calls)
	fmt.Fprintln(out, "| batch | conversion + crossing + other | per MiB | of it gateway | worker | crossing | other | a plain copy | ratio to it | result |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|---|---|---|")
	both := func(v []float64) string { return fmt.Sprintf("%.0f (%.0f)", median(v), slices.Min(v)) }
	for _, s := range sizes {
		result := "–"
		if s.bytes == goalBytes && s.function == "noop" {
			result = fmt.Sprintf("pass (goal ≤ %d)", goalPerMiB.Microseconds())
			if median(s.added) > float64(goalPerMiB.Microseconds()) {
				result = fmt.Sprintf("**miss** (goal ≤ %d)", goalPerMiB.Microseconds())
			}
		}
		fmt.Fprintf(out, "| %s, %d KiB | %s | %.0f | %s | %s | %s | %s | %s | %.1f | %s |\n", s.batch.Column(0).DataType(), s.bytes>>10,
			both(s.added), median(s.added)*mib/float64(s.bytes), both(s.gateway), both(s.worker), both(s.crossing), both(s.other),
			both(s.copied), median(s.added)/median(s.copied), result)
	}
}

func median(v []float64) float64 {
	sorted := slices.Sorted(slices.Values(v))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// value spreads i over 62 bits.
func value(i int) int64 { return int64(uint64(i) * 0x9E3779B97F4A7C15 >> 2) }

func integers(bytes int) arrow.RecordBatch {
	b := array.NewInt64Builder(memory.DefaultAllocator)
	rows := bytes / intBytes
	b.Reserve(rows)
	for i := range rows {
		b.UnsafeAppend(value(i))
	}
	return batchOf(b.NewArray())
}

func texts(bytes int) arrow.RecordBatch {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	for i := range bytes / textBytes {
		b.Append(fmt.Sprintf("%012d", uint64(value(i))%1e12))
	}
	return batchOf(b.NewArray())
}

func batchOf(column arrow.Array) arrow.RecordBatch {
	schema := arrow.NewSchema([]arrow.Field{{Name: "value", Type: column.DataType()}}, nil)
	return array.NewRecordBatch(schema, []arrow.Array{column}, int64(column.Len()))
}
