package server

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/codec"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A caller that goes away ends the work, and nothing is left behind.
func TestExchangeCancelled(t *testing.T) {
	started, stopped := make(chan struct{}), make(chan error, 1)
	g := start(t, Config{}, map[string]body{"wait": func(ctx context.Context, _ *udfgate.Call, _ *codec.Batch) (*codec.Answer, error) {
		close(started)
		<-ctx.Done()
		stopped <- ctx.Err()
		return nil, ctx.Err()
	}})
	c := g.open("wait")
	c.send(ints(1))
	<-started
	c.cancel()
	if err := <-stopped; !errors.Is(err, context.Canceled) {
		t.Errorf("the backend's context ended with %v", err)
	}
}

// A caller that has written all and then goes away is no timeout, whatever the
// backend makes of it: only the backend's context tells, as nobody reads any more.
func TestExchangeCancelledAfterHalfClose(t *testing.T) {
	for name, wrapped := range map[string]func(error) error{
		"bare":  func(err error) error { return err },
		"dress": func(err error) error { return udfgate.Errorf(udfgate.Timeout, "the caller went away: %w", err) },
	} {
		t.Run(name, func(t *testing.T) {
			started := make(chan struct{})
			g := start(t, Config{}, map[string]body{"wait": func(ctx context.Context, _ *udfgate.Call, _ *codec.Batch) (*codec.Answer, error) {
				close(started)
				<-ctx.Done()
				return nil, wrapped(context.Cause(ctx))
			}})
			c := g.open("wait")
			c.send(ints(1))
			c.closeSend()
			<-started
			g.await("the receiver to end", func(x *exchange) bool { return x.ended })
			c.cancel()
			g.awaitStreams(0)
			_, text := g.get("/metrics", "")
			if calls := "udfgate_calls_total{dialect=\"flight\",function=\"wait\",outcome=\"cancelled\",path=\"python\"} 1"; !strings.Contains(text, calls) ||
				strings.Contains(text, "outcome=\"timeout\"") || strings.Contains(text, "udfgate_rejected_total{") {
				t.Errorf("wanted %s, got %s", calls, grep(text, "calls_total|rejected"))
			}
		})
	}
}

// One that goes away while its message waits for room is not refused either.
func TestExchangeCancelledWhileWaitingForRoom(t *testing.T) {
	started, release := make(chan struct{}, 1), make(chan struct{})
	g := start(t, Config{InflightBytesMax: 640 << 10}, map[string]body{"hold": held(started, release)})
	holder := g.open("hold")
	holder.send(big(400 << 10))
	<-started
	late := g.open("hold")
	late.send(big(300 << 10))
	g.until("the second to wait for room", func() bool {
		g.budget.mu.Lock()
		defer g.budget.mu.Unlock()
		return len(g.budget.waiting) > 0
	})
	late.cancel()
	g.awaitStreams(1)
	_, text := g.get("/metrics", "")
	if !strings.Contains(text, "outcome=\"cancelled\"") || strings.Contains(text, "queue_full") {
		t.Errorf("got %s", grep(text, "calls_total|rejected"))
	}
	close(release)
	if _, err := holder.receive(); err != nil {
		t.Error(err)
	}
	holder.finish()
}

// Every ending leaves the client with a status that it can read: not UNKNOWN,
// and not CANCELLED, which pyarrow turns into KeyboardInterrupt.
func TestExchangeNeverAnswersCancelled(t *testing.T) {
	var n atomic.Int64
	g := start(t, Config{}, map[string]body{"f": func(context.Context, *udfgate.Call, *codec.Batch) (*codec.Answer, error) {
		return nil, []error{context.Canceled, context.DeadlineExceeded, errors.New("x"), io.EOF}[n.Add(1)-1]
	}})
	for range 4 {
		c := g.open("f")
		c.send(ints(1))
		_, err := c.receive()
		for err == nil {
			_, err = c.receive()
		}
		if code := status.Code(err); slices.Contains([]codes.Code{codes.Canceled, codes.Unknown, codes.OK}, code) {
			t.Errorf("answered %v", err)
		}
	}
}
