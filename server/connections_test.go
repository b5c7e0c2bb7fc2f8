package server

import (
	"bufio"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/udfgate/udfgate"
	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func plain(text string) []byte { return []byte(text) }

func TestConnectionsBeyondTheLimitWait(t *testing.T) {
	var log lockedBuffer
	limit := newConnections(1, "--max-connections", plain, slog.New(slog.NewTextHandler(&log, nil)), func() { t.Error("turned away") })
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := limit.on(inner)
	accepted := make(chan net.Conn)
	go func() {
		defer close(accepted)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	for range 2 {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
	}
	one := <-accepted
	select {
	case <-accepted:
		t.Error("two connections with a limit of one")
	case <-time.After(20 * time.Millisecond):
	}
	_ = one.Close()
	_ = one.Close() // only the first counts
	two := <-accepted
	if got := strings.Count(log.String(), `limit="--max-connections 1"`); got != 1 {
		t.Errorf("%d log lines, wanted 1: %s", got, log.String())
	}
	_ = l.Close()
	_ = two.Close()
	if _, open := <-accepted; open {
		t.Error("accepted after closing")
	}
}

func TestConnectionLimitEndsWithItsListener(t *testing.T) {
	limit := newConnections(1, "--max-connections", plain, quiet, func() {})
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	<-limit.free // somebody has the only connection
	l := limit.on(inner)
	ended := make(chan error)
	go func() {
		_, err := l.Accept()
		ended <- err
	}()
	_ = l.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// Who is one too many is told which limit it was, and so is the log; once one
// of the others has gone, the next gets its place.
func TestOneConnectionTooMany(t *testing.T) {
	var log lockedBuffer
	g := start(t, Config{ConnectionsMax: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))}, map[string]body{"echo": echo})
	c := g.open("echo")
	c.send(ints(1))
	c.want(1)
	c.finish()

	raw, err := net.Dial("tcp", g.Addrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = raw.Close() }()
	if err := raw.SetDeadline(time.Now().Add(callMax)); err != nil {
		t.Fatal(err)
	}
	text, err := bufio.NewReader(raw).ReadString('1')
	if err != nil || !strings.HasSuffix(text, "every connection is taken: --max-connections 1") {
		t.Errorf("got %q, %v", text, err)
	}

	other := g.other()
	from := time.Now()
	_, err = other.client.GetFlightInfo(t.Context(), path("echo")) // at once: the last one has waited in vain already
	if status.Code(err) != codes.Unavailable || time.Since(from) > callMax/2 {
		t.Errorf("after %v: %v", time.Since(from), err)
	}
	if got := strings.Count(log.String(), `limit="--max-connections 1"`); got != 1 {
		t.Errorf("%d log lines, wanted 1: %s", got, log.String())
	}
	if _, text := g.get("/metrics", ""); !strings.Contains(text, `udfgate_rejected_total{reason="queue_full"}`) {
		t.Errorf("metrics: %s", grep(text, "rejected"))
	}
	_ = other.conn.Close() // or it would try again, and might be the next
	_ = g.conn.Close()
	g.until("the place of the one that has gone", func() bool { return len(g.flightConns.free) == 1 })
	again := g.other().open("echo")
	again.send(ints(2))
	again.want(2)
	again.finish()
}

func TestOneHTTPConnectionTooMany(t *testing.T) {
	limit := newConnections(1, "the HTTP connections:", refusalHTTP1, quiet, func() {})
	limit.asked = true
	<-limit.free
	limit.full.Store(true)
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := limit.on(inner)
	ended := make(chan error)
	go func() {
		_, err := l.Accept()
		ended <- err
	}()
	a, err := http.Get("http://" + inner.Addr().String() + "/healthz") //nolint:noctx // it is answered at once
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Body.Close() }()
	text, err := bufio.NewReader(a.Body).ReadString('\n')
	want := `{"error":{"reason":"QUEUE_FULL","message":"every connection is taken: the HTTP connections: 1","row":null,"error_id":""}}` + "\n"
	if err != nil || a.StatusCode != http.StatusTooManyRequests || text != want {
		t.Errorf("got %d %q, %v", a.StatusCode, text, err)
	}
	_ = l.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// rawHTTP2 is a client that does nothing by itself: it answers no pings.
type rawHTTP2 struct {
	net.Conn
	*http2.Framer
}

func (g *gateway) rawHTTP2() rawHTTP2 {
	g.t.Helper()
	conn, err := net.Dial("tcp", g.Addrs()[0])
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetReadDeadline(time.Now().Add(callMax)); err != nil {
		g.t.Fatal(err)
	}
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		g.t.Fatal(err)
	}
	r := rawHTTP2{conn, http2.NewFramer(conn, conn)}
	if err := r.WriteSettings(); err != nil {
		g.t.Fatal(err)
	}
	return r
}

// ping sends one and returns the answer to it, or the GOAWAY instead.
func (r rawHTTP2) ping(t *testing.T, number byte) http2.Frame {
	t.Helper()
	if err := r.WritePing(false, [8]byte{number}); err != nil {
		t.Fatal(err)
	}
	for {
		frame, err := r.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch f := frame.(type) {
		case *http2.PingFrame:
			if f.IsAck() && f.Data[0] == number {
				return f
			}
		case *http2.GoAwayFrame:
			return f
		}
	}
}

// A client may ping a silent connection every so often; one that does it more
// often is told so, and nobody else.
func TestPings(t *testing.T) {
	const every = 50 * time.Millisecond
	g := start(t, Config{keep: keep{every, time.Minute, time.Minute}}, map[string]body{"echo": echo})
	slow, fast := g.rawHTTP2(), g.rawHTTP2()
	for i := range byte(6) { // strikes are forgiven twice
		if away, ok := slow.ping(t, i).(*http2.GoAwayFrame); ok {
			t.Fatalf("ping %d: sent away with %s %q", i, away.ErrCode, away.DebugData())
		}
		time.Sleep(every + every/5) // the pace is the subject
	}
	for i := range byte(100) { // on a busy machine some may have been far apart
		if away, ok := fast.ping(t, i).(*http2.GoAwayFrame); ok {
			if away.ErrCode != http2.ErrCodeEnhanceYourCalm || string(away.DebugData()) != "too_many_pings" {
				t.Errorf("sent away with %s %q", away.ErrCode, away.DebugData())
			}
			return
		}
	}
	t.Error("nobody minds a client that pings without a pause")
}

func TestPingsEveryFiveSeconds(t *testing.T) {
	var c Config
	c.ensureDefaults()
	if c.keep.pingsEvery != 5*time.Second {
		t.Errorf("%v, and clients are promised 5s", c.keep.pingsEvery)
	}
}

// A connection whose client has gone without a word is found out.
func TestSilentConnectionIsProbed(t *testing.T) {
	g := start(t, Config{ConnectionsMax: 2, keep: keep{time.Minute, time.Second, 100 * time.Millisecond}}, map[string]body{"echo": echo})
	c := g.open("echo") // its client answers
	c.send(ints(1))
	c.want(1)
	silent := g.rawHTTP2()
	g.until("the silent one to be taken", func() bool { return len(g.flightConns.free) == 0 })
	probed := false
	for {
		frame, err := silent.ReadFrame()
		if err != nil {
			break
		}
		if p, ok := frame.(*http2.PingFrame); ok && !p.IsAck() {
			probed = true
		}
	}
	if !probed {
		t.Error("closed without a ping")
	}
	g.until("its place to be free", func() bool { return len(g.flightConns.free) == 1 })
	c.send(ints(2))
	c.want(2)
	c.finish()
}

// One stream more than a connection may have waits at the client, as HTTP/2
// has it, until another ends.
func TestStreamsOfOneConnection(t *testing.T) {
	g := start(t, Config{StreamsMax: 2}, map[string]body{"echo": echo})
	calls := []*call{g.open("echo"), g.open("echo")}
	for i, c := range calls {
		c.send(ints(int64(i)))
		c.want(int64(i))
	}
	third := make(chan *call)
	go func() { third <- g.open("echo") }()
	elsewhere := g.other().open("echo") // another connection has streams of its own
	elsewhere.send(ints(7))
	elsewhere.want(7)
	elsewhere.finish()
	select {
	case <-third:
		t.Fatal("a third stream on a connection that may have two")
	default:
	}
	calls[0].finish()
	c := <-third
	c.send(ints(3))
	c.want(3)
	c.finish()
	calls[1].finish()
}

// Calls over a gateway's limit are refused with its name, over HTTP too.
func TestOpenStreams(t *testing.T) {
	g := start(t, Config{OpenStreamsMax: 1}, map[string]body{"echo": echo})
	c := g.open("echo")
	c.send(ints(1))
	c.want(1)
	late := g.other().open("echo")
	late.send(ints(2))
	late.failure("ResourceExhausted", udfgate.QueueFull, "no room for one more call: --max-streams 1 are open")
	code, _, text := g.post("echo", `{"rows":[[1]]}`)
	if code != http.StatusTooManyRequests || !strings.Contains(text, `"reason":"QUEUE_FULL","message":"no room for one more call: --max-streams 1 are open"`) {
		t.Errorf("got %d %s", code, text)
	}
	c.finish()
	g.awaitStreams(0)
	if code, _, text := g.post("echo", `{"rows":[[1]]}`); code != http.StatusOK {
		t.Errorf("got %d %s", code, text)
	}
}
