package server

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/codec"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// held is a body that waits for release, and for its call's context at most.
func held(started chan<- struct{}, release <-chan struct{}) body {
	return func(ctx context.Context, c *udfgate.Call, in *codec.Batch) (*codec.Answer, error) {
		started <- struct{}{}
		select {
		case <-release:
			return echo(ctx, c, in)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// draining waits until the gateway refuses new calls.
func (g *gateway) draining() {
	for !g.watch.draining.Load() {
		time.Sleep(time.Millisecond)
	}
}

func TestDrainLetsCallsFinish(t *testing.T) {
	started, release := make(chan struct{}, 1), make(chan struct{})
	g := start(t, Config{}, map[string]body{"hold": held(started, release)})
	c := g.open("hold")
	c.send(ints(7))
	<-started
	drained := make(chan error, 1)
	go func() { drained <- g.drain() }()
	g.draining()
	if g.ready() {
		t.Error("still ready")
	}
	close(release)
	c.want(7)
	c.finish()
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

func TestDrainCutsOffWhatDoesNotFinish(t *testing.T) {
	started := make(chan struct{}, 1)
	g := start(t, Config{DrainTimeout: 100 * time.Millisecond}, map[string]body{"hold": held(started, nil)})
	c := g.open("hold")
	c.send(ints(7))
	<-started
	drained := make(chan error, 1)
	go func() { drained <- g.drain() }()
	st := c.failure("Unavailable", udfgate.Draining, "hold: the gateway is shutting down")
	if len(st.Details()) != 1 {
		t.Errorf("details %v", st.Details())
	}
	if b := c.bill(); b.WallNS < 50e6 {
		t.Errorf("the time until the end is not booked: %s", b.JSON())
	}
	if err := <-drained; err == nil {
		t.Error("Drain said nothing of the call that it cut off")
	}
}

// DrainNow does not wait for calls at all.
func TestDrainNow(t *testing.T) {
	started := make(chan struct{}, 1)
	g := start(t, Config{DrainTimeout: DrainNow}, map[string]body{"hold": held(started, nil)})
	c := g.open("hold")
	c.send(ints(7))
	<-started
	from := time.Now()
	drained := make(chan error, 1)
	go func() { drained <- g.drain() }()
	c.failure("Unavailable", udfgate.Draining, "hold: the gateway is shutting down")
	if err := <-drained; err == nil || time.Since(from) > drainTimeoutDefault/2 {
		t.Errorf("after %v: %v", time.Since(from), err)
	}
}

// A call that has failed and waits for its client to read does not hold up the
// end, and is none of those that were cut off.
func TestDrainEndsFailedCalls(t *testing.T) {
	g := start(t, Config{}, map[string]body{"picky": picky})
	g.deaf("picky")
	from := time.Now()
	if err := g.drain(); err != nil {
		t.Error(err)
	}
	if took := time.Since(from); took > 5*time.Second { // a second of it for the connection
		t.Errorf("took %v", took)
	}
}

// A stream that its client keeps for later does not hold up the end.
func TestDrainEndsIdleStreams(t *testing.T) {
	g := start(t, Config{}, map[string]body{"echo": echo})
	c := g.open("echo")
	c.send(ints(1))
	c.want(1)
	from := time.Now()
	go func() { _ = g.drain() }()
	c.failure("Unavailable", udfgate.Draining, "echo: the gateway is shutting down")
	if took := time.Since(from); took > 10*drainIdle {
		t.Errorf("took %v", took)
	}
}

func TestDrainRefusesNewCalls(t *testing.T) {
	g := start(t, Config{}, map[string]body{"echo": echo})
	g.watch.draining.Store(true)
	c := g.open("echo")
	c.failure("Unavailable", udfgate.Draining, "the gateway is shutting down")
	g.watch.draining.Store(false)
}

// Health watchers never end by themselves; they must not hold up the end, and
// hear of it first.
func TestHealthFollowsReadiness(t *testing.T) {
	g := start(t, Config{}, map[string]body{"echo": echo})
	health := grpc_health_v1.NewHealthClient(g.conn)
	check := func(name string, want grpc_health_v1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		r, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: name})
		if err != nil || r.GetStatus() != want {
			t.Errorf("%q: got %v %v, wanted %v", name, r.GetStatus(), err, want)
		}
	}
	const serving, not = grpc_health_v1.HealthCheckResponse_SERVING, grpc_health_v1.HealthCheckResponse_NOT_SERVING
	for _, name := range []string{"", "echo", "geo.echo"} {
		check(name, serving)
		g.table.SetReady(false)
		check(name, not)
		g.table.SetReady(true)
	}
	if _, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "nothing"}); status.Code(err) != codes.NotFound {
		t.Errorf("unknown service: %v", err)
	}
	watch, err := health.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := watch.Recv(); err != nil || r.GetStatus() != serving {
		t.Fatal(r, err)
	}
	from := time.Now()
	go func() { _ = g.drain() }()
	if r, err := watch.Recv(); err != nil || r.GetStatus() != not {
		t.Errorf("the watcher got %v %v", r, err)
	}
	<-g.served
	if took := time.Since(from); took > drainTimeoutDefault/2 {
		t.Errorf("took %v", took)
	}
}

func TestServeFailsWithItsListener(t *testing.T) {
	g := start(t, Config{}, map[string]body{"echo": echo})
	_ = g.listeners[0].Close()
	if err := <-g.ended; err == nil {
		t.Error("Serve ended without an error")
	}
	g.ended <- nil // for the cleanup
}

func TestReflectionIsServed(t *testing.T) {
	g := start(t, Config{}, map[string]body{"echo": echo})
	if _, ok := g.grpc.GetServiceInfo()["grpc.reflection.v1.ServerReflection"]; !ok {
		t.Error("no reflection")
	}
	var s grpc.ClientStream
	s, err := g.conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
	if err != nil {
		t.Fatal(err)
	}
	_ = s.CloseSend()
	if err := s.RecvMsg(nil); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}
