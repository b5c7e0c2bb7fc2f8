// Command traffic measures what a gigabyte through the gateway costs the gateway
// itself: processor time beside that of a Flight server made of arrow-go's own
// reader and writer, and memory over many gigabytes. The gigabytes are 10⁹
// bytes of Arrow body, in and out together.
//
// Run from the top of the repository, with bin/udfgate and bench/echo built:
//
//	bench/run.sh traffic
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/udfgate/udfgate/bench/programs"
	"golang.org/x/sync/errgroup"
)

const (
	gigabyte  = 1e9
	valueSize = 8
	valueMask = 1<<30 - 1 // below 2^30: CPython's one-digit integers
	function  = "noop"
)

// sizes are the batches' bytes; the goal holds for the first.
var sizes = []int{2 << 20, 64 << 10}

type settings struct {
	gateway programs.Gateway
	echo    string
	callers int
	rounds  int     // of processor time, each with every server and size once
	slice   float64 // gigabytes of one such measurement
	total   float64 // gigabytes of the memory measurement
}

func main() {
	var s settings
	flag.StringVar(&s.gateway.Binary, "udfgate", "bin/udfgate", "the gateway")
	flag.StringVar(&s.gateway.Python, "python", "python3", "interpreter of the workers")
	flag.StringVar(&s.gateway.File, "functions", "bench/peers/functions.py", "the functions")
	flag.StringVar(&s.echo, "echo", ".data/bench/echo", "bench/echo, built")
	flag.IntVar(&s.callers, "callers", 4, "calls in flight")
	flag.IntVar(&s.rounds, "rounds", 7, "rounds of processor time; 0 leaves it out")
	flag.Float64Var(&s.slice, "slice", 0.5, "GB of each server, size and round")
	flag.Float64Var(&s.total, "total", 10, "GB over which memory is watched; 0 leaves it out")
	flag.Parse()
	if err := run(&s); err != nil {
		fmt.Fprintln(os.Stderr, "traffic:", err)
		os.Exit(1)
	}
}

func run(s *settings) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if s.rounds > 0 {
		if err := measureCPU(ctx, s); err != nil {
			return err
		}
	}
	if s.total > 0 {
		return measureMemory(ctx, s)
	}
	return nil
}

// server is a gateway, or the echo.
type server struct{ *programs.Loaded }

func connect(ctx context.Context, p *programs.Program, err error) (*server, error) {
	loaded, err := programs.Connect(ctx, p, err)
	return &server{loaded}, err
}

// load sends a batch again and again from several callers until that many bytes
// have gone in and come out. passed, which may be nil, is told the bytes of each call.
func (s *server) load(ctx context.Context, batch arrow.RecordBatch, callers int, bytes float64, passed func(int64)) error {
	perCall := 2 * batch.NumRows() * valueSize
	calls := max(int(bytes/float64(perCall)), callers)
	group, ctx := errgroup.WithContext(ctx)
	for caller := range callers {
		group.Go(func() error {
			for range calls/callers + min(1, max(0, calls%callers-caller)) {
				if err := s.call(ctx, batch); err != nil {
					return err
				}
				if passed != nil {
					passed(perCall)
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// call makes one call and looks at a value of the answer.
func (s *server) call(ctx context.Context, batch arrow.RecordBatch) error {
	result, err := s.Client.Call(ctx, function, batch)
	if err != nil {
		return err
	}
	defer result.Batch.Release()
	last := int(batch.NumRows()) - 1
	got, ok := result.Batch.Column(0).(*array.Int64)
	if !ok || got.Value(last) != value(last) {
		return fmt.Errorf("last row: wanted %d, got %s", value(last), result.Batch.Column(0).ValueStr(last))
	}
	return nil
}

// check compares a whole answer with what was sent.
func (s *server) check(ctx context.Context, batch arrow.RecordBatch) error {
	result, err := s.Client.Call(ctx, function, batch)
	if err != nil {
		return err
	}
	defer result.Batch.Release()
	if !array.Equal(batch.Column(0), result.Batch.Column(0)) {
		return errors.New("the answer is not what was sent")
	}
	return nil
}

// value spreads i over 30 bits.
func value(i int) int64 { return int64(uint64(i)*0x9E3779B97F4A7C15>>34) & valueMask }

func batchOf(bytes int) arrow.RecordBatch {
	b := array.NewInt64Builder(memory.DefaultAllocator)
	rows := bytes / valueSize
	b.Reserve(rows)
	for i := range rows {
		b.UnsafeAppend(value(i))
	}
	schema := arrow.NewSchema([]arrow.Field{{Name: "value", Type: arrow.PrimitiveTypes.Int64}}, nil)
	return array.NewRecordBatch(schema, []arrow.Array{b.NewArray()}, int64(rows))
}
