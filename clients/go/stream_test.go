package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/udfgate/udfgate"
	client "github.com/udfgate/udfgate/clients/go"
	"go.uber.org/goleak"
)

func open(t *testing.T, c *client.Client, name string, opts ...client.Option) *client.Stream {
	t.Helper()
	s, err := c.Stream(t.Context(), name, schema, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Each batch may carry bytes of the caller's, which come back with its answer,
// beside a bill or without.
func TestStream_appMetadata(t *testing.T) {
	c := connect(t, shared.addr)
	for _, opts := range [][]client.Option{nil, {client.WithBatchBill()}} {
		s := open(t, c, "double", opts...)
		for i := range 3 {
			if err := s.SendWithAppMetadata(batch(int64(i)), fmt.Append(nil, "tag ", i, "\x00\xff")); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Send(batch(9)); err != nil {
			t.Fatal(err)
		}
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		n := 0
		for r, err := range s.Results() {
			if err != nil {
				t.Fatal(err)
			}
			want := fmt.Sprint("tag ", n, "\x00\xff")
			if n == 3 {
				want = ""
			}
			if string(r.AppMetadata) != want {
				t.Errorf("answer %d: app_metadata = %q, want %q", n, r.AppMetadata, want)
			}
			if (r.Bill != nil) != (opts != nil) || r.Bill != nil && (r.Bill.Rows != 1 || r.Bill.WallNS == 0) {
				t.Errorf("answer %d: bill = %+v", n, r.Bill)
			}
			n++
		}
		if n != 4 || s.Bill() == nil || s.Bill().Batches != 4 {
			t.Errorf("%d answers, bill %+v", n, s.Bill())
		}
	}
}

func TestStream_noBatches(t *testing.T) {
	s := open(t, connect(t, shared.addr), "double")
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // also after the end
		got, err := s.Schema()
		if err != nil || got.NumFields() != 1 || got.Field(0).Name != "double" {
			t.Errorf("schema = %v, %v", got, err)
		}
		if _, err := s.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("end = %v", err)
		}
	}
	if err := s.CloseSend(); err != nil {
		t.Errorf("closing again: %v", err)
	}
}

// numbers yields n batches of size rows each, counting up.
func numbers(n, size int, made *int) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		for i := range n {
			*made++
			column := make([]int64, size)
			column[0] = int64(i)
			if !yield(batch(column...), nil) {
				return
			}
		}
	}
}

// Much more than the connection's windows hold, through one call: neither side
// waits for the other.
func TestExchange(t *testing.T) {
	const batches, rows = 64, 1 << 16 // 32 MiB each way
	made, got := 0, 0
	s := open(t, connect(t, shared.addr), "double")
	for r, err := range s.Exchange(numbers(batches, rows, &made)) {
		if err != nil {
			t.Fatal(err)
		}
		if v := values(r.Batch); v[0] != int64(2*got) || len(v) != rows {
			t.Fatalf("answer %d = %d, %d rows", got, v[0], len(v))
		}
		got++
	}
	if got != batches || made != batches || s.Bill().Batches != batches {
		t.Errorf("%d answers to %d batches, bill %+v", got, made, s.Bill())
	}
}

func TestExchange_reader(t *testing.T) {
	reader, err := array.NewRecordReader(schema, []arrow.RecordBatch{batch(1), batch(2, 3)})
	if err != nil {
		t.Fatal(err)
	}
	var got []int64
	for r, err := range open(t, connect(t, shared.addr), "double").Exchange(array.IterFromReader(reader)) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, values(r.Batch)...)
	}
	if fmt.Sprint(got) != "[2 4 6]" {
		t.Errorf("answers = %v", got)
	}
}

func endless(yield func(arrow.RecordBatch, error) bool) {
	for yield(batch(1), nil) {
		continue
	}
}

// Whatever ends an exchange ends its goroutine and its call.
func TestExchange_ends(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	c, err := client.Connect(t.Context(), shared.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("break", func(t *testing.T) {
		for _, err := range open(t, c, "double").Exchange(endless) {
			if err != nil {
				t.Error(err)
			}
			break
		}
	})
	t.Run("panic", func(t *testing.T) {
		defer func() {
			if recover() != "mine" {
				t.Error("the panic was swallowed")
			}
		}()
		for _, err := range open(t, c, "double").Exchange(endless) {
			if err == nil {
				panic("mine")
			}
		}
	})
	t.Run("the body", func(t *testing.T) {
		var last error
		for _, err := range open(t, c, "picky").Exchange(func(yield func(arrow.RecordBatch, error) bool) {
			for i := int64(100); yield(batch(i), nil); i-- {
				continue
			}
		}) {
			last = err
		}
		if e, ok := errors.AsType[*client.Error](last); !ok || e.Batch != 101 || e.Row != 0 {
			t.Errorf("error = %v", last)
		}
	})
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// So does what is wrong with the batches.
func TestExchange_endsWithItsSource(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	c, err := client.Connect(t.Context(), shared.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("the source", func(t *testing.T) {
		broken := errors.New("disk on fire")
		answers := 0
		var last error
		for _, err := range open(t, c, "double").Exchange(func(yield func(arrow.RecordBatch, error) bool) {
			_ = yield(batch(1), nil) && yield(nil, broken)
		}) {
			last = err
			answers++
		}
		if !errors.Is(last, broken) || answers > 2 {
			t.Errorf("error = %v after %d results", last, answers)
		}
	})
	t.Run("a batch of another schema", func(t *testing.T) {
		var last error
		other := arrow.NewSchema([]arrow.Field{{Name: "b", Type: arrow.BinaryTypes.String}}, nil)
		s, err := c.Stream(t.Context(), "double", other)
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range s.Exchange(endless) {
			last = err
		}
		if last == nil || !strings.HasPrefix(last.Error(), "double: send: ") {
			t.Errorf("error = %v", last)
		}
	})
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// A call may be given up at any point of it; nothing of it stays, neither here
// nor in the gateway.
func TestCancel_hammer(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c, err := client.Connect(t.Context(), shared.addr)
	if err != nil {
		t.Fatal(err)
	}
	ways := []func(ctx context.Context) error{
		func(ctx context.Context) error {
			_, err := c.Call(ctx, "nap", batch(3))
			return err
		},
		func(ctx context.Context) error {
			_, err := c.Call(ctx, "double", batch(make([]int64, 1<<17)...))
			return err
		},
		func(ctx context.Context) error {
			_, err := c.Functions(ctx)
			return err
		},
		func(ctx context.Context) error { return c.Ready(ctx, "") },
		func(ctx context.Context) (err error) {
			for _, err = range c.CallTable(ctx, "naps", batch(0)) {
				continue
			}
			return err
		},
		func(ctx context.Context) error {
			s, err := c.Stream(ctx, "double", schema)
			if err != nil {
				return err
			}
			made := 0
			for _, err = range s.Exchange(numbers(1<<30, 1000, &made)) {
				if err != nil {
					break
				}
			}
			return err
		},
	}
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(worker)))
			for range 25 {
				ctx, cancel := context.WithCancel(t.Context())
				timer := time.AfterFunc(time.Duration(r.IntN(8000))*time.Microsecond, cancel)
				err := ways[r.IntN(len(ways))](ctx)
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("error = %v", err)
				}
				timer.Stop()
				cancel()
			}
		})
	}
	group.Wait()
	r, err := c.Call(t.Context(), "double", batch(21), client.WithBill(func(b *udfgate.Bill) {}))
	if err != nil || values(r.Batch)[0] != 42 {
		t.Errorf("afterwards: %v, %v", r, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s, err := connect(t, shared.addr).Stream(ctx, "nap", schema)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := s.Recv(); !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "nap: ") {
		t.Errorf("cancel: %v", err)
	}
}
