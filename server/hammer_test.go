package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/codec"
	"github.com/udfgate/udfgate/internal/seed"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// TestExchange_hammer makes calls of every kind at once: that end well, fail,
// are given up in the middle, or wait for the budget. The cleanup of start then
// finds every byte given back, and TestMain every goroutine ended.
func TestExchange_hammer(t *testing.T) {
	source := seed.Rand(t).Uint64()
	g := start(t, Config{InflightBytesMax: 2 << 20, Window: 3, Logger: quiet}, map[string]body{
		"mixed": func(ctx context.Context, c *udfgate.Call, in *codec.Batch) (*codec.Answer, error) {
			own := rand.New(rand.NewPCG(source, c.ID))
			if err := sleep(ctx, time.Duration(own.IntN(1000))*time.Microsecond); err != nil {
				return nil, err
			}
			switch own.IntN(40) {
			case 0:
				return nil, udfgate.Errorf(udfgate.WorkerLost, "worker lost: signal SIGSEGV")
			case 1:
				panic("a bug")
			}
			return echo(ctx, c, in)
		},
	})
	var wg sync.WaitGroup
	for caller := range uint64(8) {
		rng := rand.New(rand.NewPCG(source, caller))
		wg.Go(func() {
			for range 25 {
				hammerCall(t, g, rng)
			}
		})
	}
	wg.Wait()
}

func hammerCall(t *testing.T, g *gateway, rng *rand.Rand) {
	ctx, cancel := context.WithTimeout(context.Background(), callMax)
	defer cancel()
	rpc, err := g.client.DoExchange(ctx)
	if err != nil {
		t.Error(err)
		return
	}
	m := record(t, intSchema, ints(make([]int64, 1+rng.IntN(20_000))...))
	n, giveUp := rng.IntN(12), rng.IntN(30)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_ = rpc.Send(with(path("mixed"), m[0]))
		for range n {
			if rpc.Send(m[1]) != nil {
				return
			}
		}
		_ = rpc.CloseSend()
	}()
	var answers int
	for {
		d, err := rpc.Recv()
		if err != nil {
			var bill udfgate.Bill
			if giveUp > answers {
				bill = parseBill(t, rpc.Trailer())
			}
			if errors.Is(err, io.EOF) && int(bill.Batches) != n && giveUp > answers {
				t.Errorf("%d batches in the bill, wanted %d", bill.Batches, n)
			}
			break
		}
		if len(d.GetDataHeader()) > 0 {
			answers++
		}
		if answers == giveUp {
			cancel()
		}
	}
	<-sent
}

// panicky is a catalog with a bug.
type panicky struct{ Catalog }

func (panicky) Lookup(string) (*udfgate.Function, Backend, error) { panic("a bug") }

func TestPanicsOutsideOfBatches(t *testing.T) {
	g := start(t, Config{Logger: quiet}, map[string]body{"echo": echo})
	g.catalog = panicky{g.catalog}
	var trailer metadata.MD
	_, err := g.client.GetFlightInfo(t.Context(), path("echo"), grpc.Trailer(&trailer))
	checkFailure(t, err, trailer, "Internal", udfgate.Internal, "the gateway panicked: a bug")
	_, trailer, err = g.raw(&flight.FlightData{FlightDescriptor: path("echo")})
	checkFailure(t, err, trailer, "Internal", udfgate.Internal, "the gateway panicked: a bug")
}

// The interceptors see calls whose messages are no protobuf structs.
func TestCallsAreLoggedForDebugging(t *testing.T) {
	var log lockedBuffer
	g := start(t, Config{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}, map[string]body{"echo": echo})
	c := g.open("echo")
	c.send(ints(1))
	c.want(1)
	c.finish()
	if _, err := g.client.GetFlightInfo(t.Context(), path("echo")); err != nil {
		t.Fatal(err)
	}
	_ = g.drain()
	for _, text := range []string{"started call", "finished call", "grpc.method=DoExchange", "grpc.method=GetFlightInfo", "grpc.code=OK"} {
		if !strings.Contains(log.String(), text) {
			t.Errorf("no %q in the log:\n%s", text, log.String())
		}
	}
	if strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("errors in the log:\n%s", log.String())
	}
}
