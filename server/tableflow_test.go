package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/codec"
	"github.com/udfgate/udfgate/internal/clock"
	"github.com/udfgate/udfgate/internal/seed"
	"google.golang.org/grpc"
)

// full is a part of as many rows as one may have.
func full(from int64) *codec.Answer {
	rows, values := make([]int32, udfgate.TableRowsMax), make([]int64, udfgate.TableRowsMax)
	for i := range values {
		values[i] = from + int64(i)
	}
	return part(rows, values)
}

// endless delivers parts until it is told to stop, and tells with what.
func endless(delivered *atomic.Int64, ended chan<- error) table {
	return func(_ context.Context, _ *udfgate.Call, _ *codec.Batch, deliver deliver) error {
		for from := int64(0); ; from += udfgate.TableRowsMax {
			if err := deliver(full(from), false); err != nil {
				ended <- err
				return err
			}
			delivered.Add(1)
		}
	}
}

// However long a table is, the gateway holds one part of it and the books of
// one. What is live is counted after 100, 500 and 977 parts of one call.
func TestTableOfAMillionRowsKeepsMemory(t *testing.T) {
	const parts = 1_000_000/udfgate.TableRowsMax + 1
	var live []uint64
	var books []int // spans that the ledger has room for
	g := startTables(t, Config{}, map[string]table{"long": func(_ context.Context, call *udfgate.Call, _ *codec.Batch, deliver deliver) error {
		for n := range parts {
			for range 20 { // more spans than a timeline has room for
				at := clock.Now()
				call.Timeline.Add(udfgate.StateBody, at, at+1)
			}
			call.Counts = map[string]int64{"parts": 1}
			if n == 100 || n == 500 || n == parts-1 {
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				live = append(live, m.HeapAlloc)
				x, _ := call.Caller.(*exchange)
				x.mu.Lock()
				books = append(books, reflect.ValueOf(&x.ledger).Elem().FieldByName("open").Cap())
				x.mu.Unlock()
			}
			if err := deliver(full(int64(n)*udfgate.TableRowsMax), n == parts-1); err != nil {
				return err
			}
		}
		return nil
	}})
	c := g.open("long", "udfgate-bill", "batch")
	c.send(ints(0))
	rows := int64(0)
	for range parts {
		_, err := c.receive()
		if err != nil {
			t.Fatal(err)
		}
		rows += c.read.RecordBatch().NumRows()
	}
	told := batchBill(t, c.read.LatestAppMetadata())
	checkIdentity(t, &told.Bill)
	b := c.endOfParts()
	if rows != parts*udfgate.TableRowsMax || b.Crossings != parts || b.Rows != 1 || b.BytesOut < 12*rows || b.Counters["parts"] != parts ||
		told.Bill.Counters["parts"] != parts || told.Bill.BytesOut != b.BytesOut || told.Bill.Crossings != parts {
		t.Errorf("%d rows, bill %s", rows, b.JSON())
	}
	const slack = 8 << 20 // of what is on its way to the client; 1 M rows are 12 MB
	if slices.Max(live) > live[0]+slack || slices.Max(books) > 256 {
		t.Errorf("live bytes grew: %v; or the books: %v spans", live, books)
	}
}

// Nothing is sent after the caller has gone, and the body learns it from its
// part at the latest.
func TestTableCancelled(t *testing.T) {
	var delivered atomic.Int64
	ended, sent, cancelledNow := make(chan error, 1), make(chan struct{}), make(chan struct{})
	g := startTables(t, Config{Logger: quiet}, map[string]table{"endless": func(ctx context.Context, _ *udfgate.Call, _ *codec.Batch, deliver deliver) error {
		if err := deliver(full(0), false); err != nil {
			return err
		}
		close(sent)
		<-cancelledNow
		<-ctx.Done()
		late := full(1)
		err := deliver(late, false)
		if err == nil {
			delivered.Add(1)
		}
		if late.Body != nil {
			err = errors.Join(err, errors.New("the part was not released"))
		}
		ended <- err
		return err
	}})
	c := g.open("endless")
	c.send(ints(0))
	if _, err := c.receive(); err != nil {
		t.Fatal(err)
	}
	<-sent
	c.cancel()
	close(cancelledNow)
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "the caller went away") || strings.Contains(err.Error(), "released") {
		t.Errorf("the body was told %v", err)
	}
	g.awaitStreams(0)
	if delivered.Load() != 0 {
		t.Error("a part was taken after the caller had gone")
	}
	_, text := g.get("/metrics", "")
	for _, want := range []string{
		`udfgate_calls_total{dialect="flight",function="endless",outcome="cancelled",path="python"} 1`,
		`udfgate_crossings_total{function="endless"} 2`, // the last was answered by the worker, and by nobody else
	} {
		if !strings.Contains(text, want) {
			t.Errorf("wanted %s, got %s", want, grep(text, "calls_total|crossings_total"))
		}
	}
}

// One that goes away while the body makes parts and nobody reads.
func TestTableCancelledInTheMiddle(t *testing.T) {
	var delivered atomic.Int64
	ended := make(chan error, 1)
	g := startTables(t, Config{Logger: quiet}, map[string]table{"endless": endless(&delivered, ended)})
	c := g.open("endless")
	c.send(ints(0))
	for range 50 {
		if _, err := c.receive(); err != nil {
			t.Fatal(err)
		}
	}
	c.cancel()
	if err := <-ended; err == nil {
		t.Error("the body was told nothing")
	}
	g.awaitStreams(0)
}

// A body whose client does not read makes no more than has room on the way, and
// ends with the call: before the client has found out, so that a worker is free.
func TestTableClientThatDoesNotRead(t *testing.T) {
	var delivered atomic.Int64
	told, ended := make(chan error), make(chan error, 1)
	type look struct{ streams, held int64 }
	looked := make(chan look, 1)
	var g *gateway
	// Its part is still with the connection when the body learns of the end, and
	// is so for as long as the client has to read.
	watched := func(ctx context.Context, call *udfgate.Call, in *codec.Batch, deliver deliver) error {
		err := endless(&delivered, ended)(ctx, call, in, deliver)
		g.budget.mu.Lock()
		held := g.budget.inflight
		g.budget.mu.Unlock()
		looked <- look{int64(len(g.watch.open())), held}
		told <- <-ended
		return err
	}
	g = startTables(t, Config{NotReadingTimeout: 2 * time.Second}, map[string]table{"endless": watched})
	conn := g.dial(grpc.WithInitialWindowSize(64<<10), grpc.WithInitialConnWindowSize(64<<10))
	c := (&gateway{Server: g.Server, t: t, client: flight.NewClientFromConn(conn, nil)}).open("endless")
	c.send(ints(0)) // and it does not half-close: it may be writing, and gets time to read
	if err := <-told; err == nil || !strings.Contains(err.Error(), "client is not reading its answers") {
		t.Errorf("the body was told %v", err)
	}
	if n := delivered.Load(); n > 64 {
		t.Errorf("%d parts were taken from a client that read none", n)
	}
	at := <-looked
	if at.streams != 1 {
		t.Error("the client had no time to read")
	}
	if at.held < 12*udfgate.TableRowsMax {
		t.Errorf("%d bytes were in flight while a part of %d was with the connection", at.held, 12*udfgate.TableRowsMax)
	}
	for {
		_, err := c.receive()
		if err == nil {
			continue
		}
		checkFailure(t, err, c.rpc.Trailer(), "FailedPrecondition", udfgate.NotReading, "endless: client is not reading its answers")
		break
	}
	b := c.bill()
	if b.ReplyNS < 1600e6 || b.ReplyNS*2 < b.WallNS || b.Crossings != delivered.Load()+1 {
		t.Errorf("%d parts, bill %s", delivered.Load(), b.JSON())
	}
}

// A slow reader slows the body down, and pays for it as reply.
func TestTableSlowReaderBooksReply(t *testing.T) {
	const parts = 64
	g := startTables(t, Config{}, map[string]table{"long": func(_ context.Context, _ *udfgate.Call, _ *codec.Batch, deliver deliver) error {
		for n := range parts {
			if err := deliver(full(0), n == parts-1); err != nil {
				return err
			}
		}
		return nil
	}})
	conn := g.dial(grpc.WithInitialWindowSize(64<<10), grpc.WithInitialConnWindowSize(64<<10))
	c := (&gateway{Server: g.Server, t: t, client: flight.NewClientFromConn(conn, nil)}).open("long", "udfgate-bill", "batch")
	c.send(ints(0))
	for n := range parts {
		if n%16 == 15 {
			time.Sleep(100 * time.Millisecond) // the reader's slowness is the subject
		}
		if _, err := c.receive(); err != nil {
			t.Fatal(err)
		}
	}
	told := batchBill(t, c.read.LatestAppMetadata())
	checkIdentity(t, &told.Bill)
	b := c.endOfParts()
	if b.ReplyNS < 100e6 || told.Bill.ReplyNS < 100e6 {
		t.Errorf("the reader's slowness is not booked as reply: %s\n%s", b.JSON(), told.Bill.JSON())
	}
}

// A failed call does not break off the writing of a client that is ahead, though
// the gateway has read one batch alone.
func TestTableFailureDoesNotBreakOffWriting(t *testing.T) {
	written := make(chan struct{}, 1)
	patient := Config{Logger: quiet, NotReadingTimeout: callMax, linger: lingering{callMax, callMax}}
	g := startTables(t, patient, map[string]table{"breaks": func(_ context.Context, call *udfgate.Call, _ *codec.Batch, deliver deliver) error {
		if call.Batch == 0 {
			<-written
			return deliver(part([]int32{0}, []int64{7}), true)
		}
		return udfgate.Errorf(udfgate.WorkerLost, "worker lost")
	}})
	for range 5 {
		c := g.open("breaks")
		c.send(ints(0))
		c.send(ints(0))
		written <- struct{}{}
		g.await("the failure", func(x *exchange) bool { return x.over })
		for range 8 { // one by one, each as late as it likes
			var before int64
			g.await("the call to stay", func(x *exchange) bool { before = x.came.Load(); return true })
			c.send(ints(0))
			g.await("the batch to be read", func(x *exchange) bool { return x.came.Load() != before })
		}
		c.closeSend()
		c.parts("0:7")
		_, _, err := c.part()
		checkFailure(t, err, c.rpc.Trailer(), "Aborted", udfgate.WorkerLost, "breaks: worker lost")
		g.awaitStreams(0)
	}
}

func TestTableDrain(t *testing.T) {
	for _, finishes := range []bool{true, false} {
		t.Run(fmt.Sprint("finishes ", finishes), func(t *testing.T) {
			patience := 100 * time.Millisecond
			if finishes {
				patience = callMax
			}
			started, release, told := make(chan struct{}), make(chan struct{}), make(chan error, 2)
			g := startTables(t, Config{DrainTimeout: patience, Logger: quiet}, map[string]table{"hold": func(ctx context.Context, call *udfgate.Call, in *codec.Batch, deliver deliver) error {
				if call.Batch == 0 {
					if err := deliver(part([]int32{0}, []int64{1}), false); err != nil {
						return err
					}
					close(started)
					select {
					case <-release:
					case <-ctx.Done():
					}
				}
				err := series(1)(ctx, call, in, deliver)
				told <- err
				return err
			}})
			c := g.open("hold")
			c.send(ints(2))
			c.parts("0:1")
			<-started
			if finishes {
				c.send(ints(1)) // waits for the first, which takes longer than a silent stream may stay
				c.closeSend()
			}
			drained := make(chan error, 1)
			go func() { drained <- g.drain() }()
			g.draining()
			if !finishes {
				_, _, err := c.part()
				checkFailure(t, err, c.rpc.Trailer(), "Unavailable", udfgate.Draining, "hold: the gateway is shutting down")
				if b := c.bill(); b.Crossings != 1 || b.WallNS <= 0 {
					t.Errorf("bill %s", b.JSON())
				}
				if err := <-drained; err == nil {
					t.Error("Drain said nothing of the call that it cut off")
				}
				if err := <-told; err == nil {
					t.Error("the body was told nothing")
				}
				return
			}
			close(release)
			c.parts("0:0", "0:1", "0:0")
			if _, _, err := c.part(); !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			if err := <-drained; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestTable_hammer makes table calls of every kind at once; the cleanup of start
// then finds every byte given back, and TestMain every goroutine ended.
func TestTable_hammer(t *testing.T) {
	source := seed.Rand(t).Uint64()
	g := startTables(t, Config{InflightBytesMax: 2 << 20, Logger: quiet}, map[string]table{
		"mixed": func(ctx context.Context, call *udfgate.Call, in *codec.Batch, deliver deliver) error {
			own := rand.New(rand.NewPCG(source, call.ID))
			return series(1+own.IntN(4))(ctx, call, in, func(p *codec.Answer, last bool) error {
				call.Counts = map[string]int64{"parts": 1}
				switch own.IntN(100) {
				case 0:
					p.Release()
					return udfgate.Errorf(udfgate.WorkerLost, "worker lost: signal SIGSEGV")
				case 1:
					p.Release()
					panic("a bug")
				}
				return deliver(p, last)
			})
		},
	})
	var callers sync.WaitGroup
	for caller := range uint64(8) {
		rng := rand.New(rand.NewPCG(source, caller))
		callers.Go(func() {
			for range 20 {
				hammerTable(t, g, rng)
			}
		})
	}
	callers.Wait()
}

func hammerTable(t *testing.T, g *gateway, rng *rand.Rand) {
	ctx, cancel := context.WithTimeout(context.Background(), callMax)
	defer cancel()
	rpc, err := g.client.DoExchange(ctx)
	if err != nil {
		t.Error(err)
		return
	}
	m := record(t, intSchema, ints(rng.Int64N(9), rng.Int64N(9), rng.Int64N(9)))
	n, giveUp := rng.IntN(8), rng.IntN(40)
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
	for parts := 0; ; parts++ {
		if _, err := rpc.Recv(); err != nil {
			if giveUp > parts {
				b := parseBill(t, rpc.Trailer())
				if errors.Is(err, io.EOF) && (int(b.Batches) != n || b.Counters["parts"] != b.Crossings) {
					t.Errorf("%d batches: bill %s", n, b.JSON())
				}
			}
			break
		}
		if parts == giveUp {
			cancel()
		}
	}
	<-sent
}
