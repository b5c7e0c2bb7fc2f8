package server

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/codec"
	"google.golang.org/grpc"
)

func TestMessageOverItsLimit(t *testing.T) {
	g := start(t, Config{MessageBytesMax: 64 << 10}, map[string]body{"echo": echo})
	c := g.open("echo")
	c.send(ints(1))
	c.send(big(100 << 10))
	c.want(1)
	c.failure("ResourceExhausted", udfgate.Invalid, "is over --max-message-bytes 65536")
	if batchOf(c.rpc.Trailer()) != 1 {
		t.Errorf("trailer %v, wanted batch 1", c.rpc.Trailer())
	}
	if b := c.bill(); b.Batches != 1 {
		t.Errorf("bill %s", b.JSON())
	}
}

func TestMessageOverTheWholeBudget(t *testing.T) {
	g := start(t, Config{InflightBytesMax: 64 << 10}, map[string]body{"echo": echo})
	c := g.open("echo")
	c.send(big(100 << 10))
	c.failure("ResourceExhausted", udfgate.Invalid, "is over --max-inflight-bytes 65536")
}

func TestBatchOverItsRows(t *testing.T) {
	g := start(t, Config{BatchRowsMax: 10}, map[string]body{"echo": echo})
	c := g.open("echo")
	c.send(ints(make([]int64, 11)...))
	c.failure("ResourceExhausted", udfgate.Invalid, "echo: batch of 11 rows is over --max-batch-rows 10")
}

// What is in flight keeps others out until it is done; who waits too long is
// told which limit it was.
func TestBudgetIsSharedByCalls(t *testing.T) {
	release := make(chan struct{})
	started := make(chan struct{}, 2)
	g := start(t, Config{InflightBytesMax: 640 << 10, QueueTimeout: 200 * time.Millisecond},
		map[string]body{"hold": func(ctx context.Context, c *udfgate.Call, in *codec.Batch) (*codec.Answer, error) {
			started <- struct{}{}
			select {
			case <-release:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			return echo(ctx, c, in)
		}})
	holder := g.open("hold")
	holder.send(big(400 << 10))
	<-started
	if got := g.budget.bytes(); got < 400<<10 {
		t.Errorf("%d bytes held, wanted the batch's 400 KiB at least", got)
	}
	late := g.open("hold")
	late.send(big(300 << 10))
	st := late.failure("ResourceExhausted", udfgate.QueueFull, "within --queue-timeout 200ms: --max-inflight-bytes 655360 is in use")
	if !strings.HasPrefix(st.Message(), "hold: no room for a message of") {
		t.Errorf("message %q", st.Message())
	}
	patient := g.open("hold")
	patient.send(big(300 << 10))
	close(release)
	if got, err := patient.receive(); err != nil || len(got) != 300<<10/8 {
		t.Errorf("after the first has left: %d values, %v", len(got), err)
	}
	if b := patient.finish(); b.QueueNS < 0 || b.Rows != 300<<10/8 {
		t.Errorf("bill %s", b.JSON())
	}
	if got, err := holder.receive(); err != nil || len(got) != 400<<10/8 {
		t.Errorf("%d values, %v", len(got), err)
	}
	holder.finish()
}

// A batch that finds no slot waits for one, as long as for the budget, and books
// the wait as queue.
func TestSlotsAreWaitedFor(t *testing.T) {
	g := start(t, Config{QueueTimeout: 200 * time.Millisecond}, map[string]body{"echo": echo})
	route, err := g.resolve("echo")
	if err != nil {
		t.Fatal(err)
	}
	store := codec.NewStore(codec.StoreConfig{LimitBytes: 1 << 20, LimitName: inflightBytesName})
	route.backend.(*backend).slots = store
	taken, err := store.Get(900 << 10)
	if err != nil {
		t.Fatal(err)
	}
	late := g.open("echo")
	late.send(big(300 << 10))
	late.failure("ResourceExhausted", udfgate.QueueFull, "echo: slots are full: wanted ")

	// Whether a batch had to wait before its slot came back is for the scheduler
	// to say, so it is given several chances.
	waited := int64(0)
	for tries := 0; waited == 0 && tries < 50; tries++ {
		patient := g.open("echo")
		patient.send(big(300 << 10))
		g.await("the batch to be there", func(x *exchange) bool { return x.arrived })
		taken.Release()
		if got, err := patient.receive(); err != nil || len(got) != 300<<10/8 {
			t.Fatalf("after the slot came back: %d values, %v", len(got), err)
		}
		waited = patient.finish().QueueNS
		if taken, err = store.Get(900 << 10); err != nil {
			t.Fatal(err)
		}
	}
	taken.Release()
	if waited == 0 {
		t.Error("no batch has waited for a slot, or none has booked it")
	}
	never := g.open("echo")
	never.send(big(1<<20 + 8))
	never.failure("ResourceExhausted", udfgate.QueueFull, "echo: slots are full: wanted ")
}

// A client that writes everything before it reads would wait for the gateway,
// which waits for the client: it gets a named error instead.
func TestClientThatDoesNotRead(t *testing.T) {
	g := start(t, Config{NotReadingTimeout: 500 * time.Millisecond}, map[string]body{"echo": echo})
	c := g.open("echo")
	batch := big(1 << 20)
	answered := 0
	for range 16 { // more than all windows hold
		c.send(batch)
	}
	c.closeSend()
	for {
		_, err := c.receive()
		if err == nil {
			answered++
			continue
		}
		checkFailure(t, err, c.rpc.Trailer(), "FailedPrecondition", udfgate.NotReading,
			"echo: client is not reading its answers: read while writing (none was taken for 500ms)")
		break
	}
	if answered == 0 || answered == 16 {
		t.Errorf("%d of 16 answers came, wanted those that were sent before", answered)
	}
	if b := c.bill(); b.ReplyNS < 400e6 {
		t.Errorf("the wait is not booked as reply: %s", b.JSON())
	}
}

// A slow reader is not one that does not read, however large its answer.
func TestSlowReaderBooksReply(t *testing.T) {
	patiently(t, 150*time.Millisecond, func(pause time.Duration) (slow bool) {
		g := start(t, Config{NotReadingTimeout: pause * 8 / 3}, map[string]body{"echo": echo})
		conn := g.dial(grpc.WithInitialWindowSize(64<<10), grpc.WithInitialConnWindowSize(64<<10))
		c := (&gateway{Server: g.Server, t: t, client: flight.NewClientFromConn(conn, nil)}).open("echo")
		batch := big(4 << 20)
		go func() {
			for range 3 {
				c.send(batch)
			}
			c.closeSend()
		}()
		longest, last := time.Duration(0), time.Now()
		for range 3 {
			time.Sleep(pause) // the reader's slowness is the subject
			got, err := c.receive()
			longest, last = max(longest, time.Since(last)), time.Now()
			if err != nil && longest > 2*pause {
				return true // and it was slower than it was meant to be
			}
			if err != nil || len(got) != 4<<20/8 {
				t.Fatalf("%d values, %v %v", len(got), err, c.rpc.Trailer())
			}
		}
		if _, err := c.receive(); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		b := c.bill()
		t.Logf("read every %v, bill %s", pause, b.JSON())
		return b.ReplyNS < int64(pause)*2/3 || b.ReplyNS*2 < b.WallNS // the slowness is not the larger part
	})
}

// picky is echo that fails from batch 2 on.
func picky(ctx context.Context, c *udfgate.Call, in *codec.Batch) (*codec.Answer, error) {
	if first(in) >= 2 {
		return nil, udfgate.Errorf(udfgate.WorkerLost, "worker lost")
	}
	return echo(ctx, c, in)
}

// A client that writes everything before it reads gets the answers that were
// due, whenever the failure happens, and only then the status.
func TestFailureDoesNotBreakOffWriting(t *testing.T) {
	written := make(chan struct{}, 1)
	g := start(t, Config{}, map[string]body{"picky": func(ctx context.Context, c *udfgate.Call, in *codec.Batch) (*codec.Answer, error) {
		if first(in) == 0 {
			<-written // the client is ahead
		}
		return picky(ctx, c, in)
	}})
	for good, tries := 0, 0; good < 20; tries++ {
		c := g.open("picky")
		last, pause := time.Now(), time.Duration(0)
		var broken error
		for i := int64(0); i < 10 && broken == nil; i++ {
			broken = c.write.Write(ints(i))
			if i == 1 {
				g.await("batch 1", func(x *exchange) bool { return x.next == 2 })
				written <- struct{}{}
			}
			pause, last = max(pause, time.Since(last)), time.Now()
			time.Sleep(time.Millisecond) // slower than the gateway
		}
		if pause > lingerQuiet/2 && tries < 100 { // a busy machine: the gateway may take it for the end
			c.cancel()
			continue
		}
		if good++; broken != nil {
			t.Fatalf("writing was broken off: %v", broken)
		}
		c.closeSend()
		c.want(0)
		c.want(1)
		c.failure("Aborted", udfgate.WorkerLost, "picky: worker lost")
	}
}

// One that waits for each answer is not kept waiting for its status.
func TestFailureReachesALockStepClient(t *testing.T) {
	g := start(t, Config{}, map[string]body{"picky": picky})
	best := lingerMax
	for tries := 0; tries < 100 && best >= lingerQuiet; tries++ { // the machine may be slow, the gateway not
		c := g.open("picky")
		batch := make([]int64, 32<<10)
		for i := range int64(2) {
			batch[0] = i
			c.send(ints(batch...))
			if _, err := c.receive(); err != nil {
				t.Fatal(err)
			}
		}
		batch[0] = 2
		from := time.Now()
		c.send(ints(batch...))
		c.failure("Aborted", udfgate.WorkerLost, "picky: worker lost")
		best = min(best, time.Since(from))
	}
	if best >= lingerQuiet {
		t.Errorf("the status took %v, the client was not even writing", best)
	}
}

// A failed call whose client neither reads nor ends keeps its handler for twice
// the time that is given to read, however much it goes on writing.
func TestFailureLingersForALimitedTime(t *testing.T) {
	patiently(t, 300*time.Millisecond, func(reading time.Duration) (slow bool) {
		g := start(t, Config{NotReadingTimeout: reading}, map[string]body{"picky": picky})
		c := g.deaf("picky")
		from := time.Now()
		written := make(chan struct{})
		go func() {
			defer close(written)
			for c.write.Write(ints(2)) == nil { // until its call has ended
				time.Sleep(time.Millisecond)
			}
		}()
		g.awaitStreams(0)
		took := time.Since(from)
		c.failure("Aborted", udfgate.WorkerLost, "picky: worker lost")
		<-written
		t.Logf("held for %v, %v given to read", took, reading)
		return took > 2*lingerTimes*reading
	})
}

// deaf is a call that has failed and lingers: its client reads nothing, and an
// answer that is larger than all windows waits for it.
func (g *gateway) deaf(name string) *call {
	g.t.Helper()
	conn := g.dial(grpc.WithInitialWindowSize(64<<10), grpc.WithInitialConnWindowSize(64<<10))
	c := (&gateway{Server: g.Server, t: g.t, client: flight.NewClientFromConn(conn, nil)}).open(name)
	c.send(big(1 << 20))
	c.send(ints(2))
	g.await("the call to fail", func(x *exchange) bool { return x.over })
	return c
}

// A discarding receiver takes its bytes from the budget, and gives up where
// there are none.
func TestFailureDiscardsWithinTheBudget(t *testing.T) {
	g := start(t, Config{InflightBytesMax: 8 << 20}, map[string]body{"picky": picky})
	c := g.deaf("picky")
	if g.budget.bytes() == 0 {
		t.Error("the receiver holds nothing while it waits for messages to discard")
	}
	g.budget.resize(0, g.budget.max)
	from := time.Now()
	c.send(ints(3)) // taken by the reservation that is there; there is no other
	g.awaitStreams(0)
	if took := time.Since(from); took > notReadingDefault/2 {
		t.Errorf("the call was held for %v", took)
	}
	g.budget.release(g.budget.max)
	c.failure("Aborted", udfgate.WorkerLost, "picky: worker lost")
}

// A call that fails while its client is still writing and has unread answers
// gets its status through: the client's writes end.
func TestFailureReachesAClientThatOnlyWrites(t *testing.T) {
	g := start(t, Config{}, map[string]body{"picky": picky})
	conn := g.dial(grpc.WithInitialWindowSize(64<<10), grpc.WithInitialConnWindowSize(64<<10))
	c := (&gateway{Server: g.Server, t: t, client: flight.NewClientFromConn(conn, nil)}).open("picky")
	batch := slices.Repeat([]int64{0}, 128<<10)
	for i := range 20 {
		batch[0] = int64(i % 2 * 2)
		c.send(ints(batch...))
	}
	c.closeSend()
	if _, err := c.receive(); err != nil {
		t.Fatal(err)
	}
	c.failure("Aborted", udfgate.WorkerLost, "picky: worker lost")
	if batchOf(c.rpc.Trailer()) != 1 {
		t.Errorf("trailer %v", c.rpc.Trailer())
	}
}
