// Command billcost measures what making and sending bills costs a call: two
// gateways that differ in nothing but UDFGATE_DEBUG=bill=off take turns under
// the same load. A third, with bills like the first, says how far two equal
// gateways lie apart on this machine.
//
// Run from the top of the repository, with bin/udfgate built:
//
//	go run ./bench/billcost
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/udfgate/udfgate/bench/programs"
	"golang.org/x/sync/errgroup"
)

// function is the cheapest of two int64: next to any other body a bill is less.
const function = "affine"

// billOff is what the second gateway is started with.
const billOff = "UDFGATE_DEBUG=bill=off"

// cells are what is measured.
var cells = []cell{{1, 1}, {1, 16}, {1024, 4}, {65536, 1}}

type cell struct{ rows, callers int }

type settings struct {
	gateway programs.Gateway
	pairs   int
	slice   time.Duration
	seed    uint64
}

func main() {
	var s settings
	flag.StringVar(&s.gateway.Binary, "udfgate", "bin/udfgate", "the gateway")
	flag.StringVar(&s.gateway.Python, "python", "python3", "interpreter of the workers")
	flag.StringVar(&s.gateway.File, "functions", "bench/peers/functions.py", "the functions")
	flag.IntVar(&s.pairs, "pairs", 40, "pairs of slices of each cell and comparison, at least 2")
	flag.DurationVar(&s.slice, "slice", 250*time.Millisecond, "load of one gateway at a time")
	flag.Uint64Var(&s.seed, "seed", 1, "of the bootstrap")
	flag.Parse()
	if err := run(&s); err != nil {
		fmt.Fprintln(os.Stderr, "billcost:", err)
		os.Exit(1)
	}
}

func run(s *settings) (err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var sides [3]*side
	for i, env := range []string{"", billOff, ""} {
		if sides[i], err = start(ctx, s.gateway, env); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, sides[i].Close()) }()
	}
	on, off, control := sides[0], sides[1], sides[2]
	results := make([]result, len(cells))
	for i, c := range cells {
		batch := c.batch()
		for _, s := range sides {
			if err := s.check(ctx, batch, c.rows); err != nil {
				return err
			}
		}
		// Both comparisons by turns: they are to meet the same machine.
		for pair := range s.pairs {
			if err := results[i].bill.pair(ctx, on, off, batch, c.callers, s.slice, pair); err != nil {
				return err
			}
			if err := results[i].noise.pair(ctx, on, control, batch, c.callers, s.slice, pair); err != nil {
				return err
			}
		}
	}
	printTable(s, results)
	return nil
}

// side is a gateway under load.
type side struct {
	*programs.Loaded
	bills bool
}

func start(ctx context.Context, g programs.Gateway, env string) (*side, error) {
	if env != "" {
		g.Env = []string{env}
	}
	p, err := g.Start(ctx)
	loaded, err := programs.Connect(ctx, p, err)
	return &side{loaded, env == ""}, err
}

// check compares an answer with what the body gives, and that the gateway
// sends bills, or none, as it was told.
func (s *side) check(ctx context.Context, batch arrow.RecordBatch, rows int) error {
	result, err := s.Client.Call(ctx, function, batch)
	if err != nil {
		return err
	}
	defer result.Batch.Release()
	if (result.Bill != nil) != s.bills {
		return fmt.Errorf("wanted bills: %t, got %+v (%s)", s.bills, result.Bill, billOff)
	}
	got, ok := result.Batch.Column(0).(*array.Int64)
	if !ok {
		return fmt.Errorf("wanted int64, got %s", result.Batch.Column(0).DataType())
	}
	for i := range rows {
		if want := 2*value(0, i) + value(1, i); got.Value(i) != want {
			return fmt.Errorf("row %d: wanted %d, got %d", i, want, got.Value(i))
		}
	}
	return nil
}

// measured is what one slice of load gave.
type measured struct {
	perCall float64 // seconds: callers × wall time / calls, to the end of the last
	calls   int
	cpu     time.Duration // of the gateway process, without its workers
}

// slice makes calls for about d.
func (s *side) slice(ctx context.Context, batch arrow.RecordBatch, callers int, d time.Duration) (measured, error) {
	before, err := s.CPU()
	if err != nil {
		return measured{}, err
	}
	calls := make([]int, callers)
	group, ctx := errgroup.WithContext(ctx)
	begin := time.Now()
	for caller := range callers {
		group.Go(func() error {
			for time.Since(begin) < d {
				if err := s.call(ctx, batch); err != nil {
					return err
				}
				calls[caller]++
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return measured{}, err
	}
	took := time.Since(begin)
	after, err := s.CPU()
	m := measured{cpu: after.Sub(before).Own}
	for _, n := range calls {
		m.calls += n
	}
	m.perCall = took.Seconds() * float64(callers) / float64(m.calls)
	return m, err
}

// call is Client.Call, but for the bill: it comes and is not parsed, which is
// the caller's choice and no cost of the gateway's.
func (s *side) call(ctx context.Context, batch arrow.RecordBatch) error {
	stream, err := s.Client.Stream(ctx, function, batch.Schema())
	if err != nil {
		return err
	}
	defer stream.Close()
	if err := stream.Send(batch); err != nil && !errors.Is(err, io.EOF) {
		return err // else Recv has the reason
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	for result, err := range stream.Results() {
		if err != nil {
			return err
		}
		result.Batch.Release()
	}
	return nil
}

// value is of column 0 or 1, below 2^30.
func value(column, row int) int64 {
	return int64(uint64(2*row+column) * 0x9E3779B97F4A7C15 >> 34)
}

func (c cell) batch() arrow.RecordBatch {
	fields := make([]arrow.Field, 2)
	columns := make([]arrow.Array, 2)
	for k := range columns {
		b := array.NewInt64Builder(memory.DefaultAllocator)
		for row := range c.rows {
			b.Append(value(k, row))
		}
		columns[k] = b.NewArray()
		fields[k] = arrow.Field{Name: string(rune('a' + k)), Type: arrow.PrimitiveTypes.Int64}
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, int64(c.rows))
}
