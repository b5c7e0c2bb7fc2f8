package client_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/udfgate/udfgate"
	client "github.com/udfgate/udfgate/clients/go"
	"golang.org/x/net/dns/dnsmessage"
)

// patience bounds what has to come about by itself.
const patience = 20 * time.Second

// until repeats f until it is done.
func until(t *testing.T, what string, f func() (done bool)) {
	t.Helper()
	for from := time.Now(); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Since(from) > patience {
			t.Fatalf("waited %s for %s", patience, what)
		}
	}
}

// One client outlives its gateway: calls fail at once while it is away and work
// once it is back.
func TestReconnect(t *testing.T) {
	g := serve(t, "testdata/functions.py", "127.0.0.1:0")
	c := connect(t, g.addr)
	if _, err := c.Call(t.Context(), "double", batch(1)); err != nil {
		t.Fatal(err)
	}
	s := open(t, c, "double")
	if err := g.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); client.ReasonOf(err) != udfgate.Draining || !client.Retryable(err) {
		t.Errorf("the stream that was open: %v", err)
	}
	_, err := c.Call(t.Context(), "double", batch(1))
	if !errors.Is(err, client.ErrUnreachable) || !client.Retryable(err) || !strings.HasPrefix(err.Error(), "double: ") {
		t.Errorf("away: %v", err)
	}
	if err := c.Ready(t.Context(), ""); !errors.Is(err, client.ErrUnreachable) {
		t.Errorf("away: ready: %v", err)
	}
	serve(t, "testdata/functions.py", g.addr)
	until(t, "the client to find the gateway again", func() bool {
		r, err := c.Call(t.Context(), "double", batch(21))
		if err != nil && !errors.Is(err, client.ErrUnreachable) {
			t.Fatal(err)
		}
		return err == nil && values(r.Batch)[0] == 42
	})
}

// A gateway that is killed takes its calls with it, and says nothing.
func TestReconnect_killed(t *testing.T) {
	g := serve(t, "testdata/functions.py", "127.0.0.1:0")
	c := connect(t, g.addr)
	mark := filepath.Join(t.TempDir(), "running")
	ended := make(chan error, 1)
	go func() {
		_, err := c.Call(t.Context(), "hold", text(mark))
		ended <- err
	}()
	until(t, "the body to run", func() bool { return exists(mark) })
	if err := g.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = g.cmd.Wait() // it was killed
	if err := <-ended; !errors.Is(err, client.ErrUnreachable) || client.ReasonOf(err) != "" {
		t.Errorf("error = %v", err)
	}
}

// nameServer answers every question for an IPv4 address with these, as the
// DNS of a cluster does for the gateways behind a service.
func nameServer(t *testing.T, addrs ...[4]byte) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		packet := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(packet)
			if err != nil {
				return // closed
			}
			var m dnsmessage.Message
			if err := m.Unpack(packet[:n]); err != nil {
				t.Error(err)
				return
			}
			answer := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true}, Questions: m.Questions}
			for _, q := range m.Questions {
				for _, a := range addrs {
					if q.Type == dnsmessage.TypeA {
						answer.Answers = append(answer.Answers, dnsmessage.Resource{
							Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1},
							Body:   &dnsmessage.AResource{A: a},
						})
					}
				}
			}
			packed, err := answer.Pack()
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := conn.WriteTo(packed, from); err != nil {
				return
			}
		}
	})
	t.Cleanup(func() {
		conn.Close()
		serving.Wait()
	})
	return conn.LocalAddr().String()
}

func text(value string) arrow.RecordBatch {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	b.Append(value)
	fields := []arrow.Field{{Name: "path", Type: arrow.BinaryTypes.String}}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), []arrow.Array{b.NewArray()}, 1)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// numbered serves who, which answers n: which gateway took a call. linger does
// so a little later, and makes a file that says that it runs.
func numbered(t *testing.T, n int, listen string) (g *gateway, running string) {
	t.Helper()
	dir := t.TempDir()
	file, running := filepath.Join(dir, "numbered.py"), filepath.Join(dir, "running")
	source := fmt.Sprintf(`
import time
from udfgate import udf

@udf
def who(a: int) -> int:
    return %d

@udf
def linger(a: int) -> int:
    open(%q, "w").close()
    time.sleep(0.3)
    return %d
`, n, running, n)
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	return serve(t, file, listen), running
}

// caller asks gateways behind one name who they are.
type caller struct {
	*client.Client
	t *testing.T
	// refusals is how often a gateway that had just begun to drain said so.
	refusals int
}

// who is the number of the gateway that answers.
func (c *caller) who() int64 {
	c.t.Helper()
	for {
		r, err := c.Call(c.t.Context(), "who", batch(0))
		if err == nil {
			return values(r.Batch)[0]
		}
		if client.ReasonOf(err) != udfgate.Draining || !client.Retryable(err) {
			c.t.Fatal(err)
		}
		c.refusals++
	}
}

// drains ends a gateway while a call of its own is in flight: no call is lost.
func (c *caller) drains(g *gateway, running string) {
	t := c.t
	t.Helper()
	lingered := make(chan error, 2)
	for range 2 { // in turn: one for each
		go func() {
			_, err := c.Call(t.Context(), "linger", batch(0))
			lingered <- err
		}()
	}
	until(t, "the second to run a body", func() bool { return exists(running) })
	if err := g.drain(); err != nil {
		t.Fatal(err)
	}
	until(t, "the second to be left out", func() bool {
		for range 20 {
			if c.who() == 2 {
				return false
			}
			if _, err := c.Functions(t.Context()); err != nil && !client.Retryable(err) {
				t.Fatal(err)
			}
		}
		return true
	})
	for range 2 {
		if err := <-lingered; err != nil {
			t.Errorf("a call in flight: %v", err)
		}
	}
	if err := g.cmd.Wait(); err != nil {
		t.Errorf("drained: %v", err)
	}
}

// Calls to one name go to all gateways behind it. One that drains gets no more
// calls and loses none, one that dies is left out, one that is back is used
// again.
func TestSeveralGateways(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs 127.0.0.2, a second loopback address on the same port")
	}
	first, _ := numbered(t, 1, "127.0.0.1:0")
	_, port, err := net.SplitHostPort(first.addr)
	if err != nil {
		t.Fatal(err)
	}
	second, running := numbered(t, 2, "127.0.0.2:"+port)
	dns := nameServer(t, [4]byte{127, 0, 0, 1}, [4]byte{127, 0, 0, 2})
	c := &caller{t: t, Client: connect(t, "dns://"+dns+"/gateways.test:"+port)}
	seen := map[int64]int{}
	until(t, "both to be called", func() bool {
		seen[c.who()]++
		return seen[1] > 0 && seen[2] > 0
	})
	before := seen[1]
	for range 20 {
		seen[c.who()]++
	}
	if seen[1] == before+20 || seen[1] == before {
		t.Errorf("calls went to one of two gateways: %v", seen)
	}

	c.drains(second, running)

	// It comes back, and the first dies without a word.
	numbered(t, 2, "127.0.0.2:"+port)
	until(t, "the second to be found again", func() bool { return c.who() == 2 })
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.cmd.Wait() // it was killed
	lost := 0
	until(t, "the first to be left out", func() bool {
		for range 20 {
			r, err := c.Call(t.Context(), "who", batch(1))
			if errors.Is(err, client.ErrUnreachable) {
				lost++
				return false
			}
			if err != nil || values(r.Batch)[0] != 2 {
				t.Fatalf("answer %v, %v", r, err)
			}
		}
		return true
	})
	t.Logf("%v answered; %d calls refused by a draining gateway, %d lost with a killed one", seen, c.refusals, lost)
}
