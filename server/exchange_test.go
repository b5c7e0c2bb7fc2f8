package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/codec"
	"github.com/udfgate/udfgate/internal/seed"
	"google.golang.org/grpc/metadata"
)

func TestExchangeOneBatch(t *testing.T) {
	g := start(t, Config{}, map[string]body{"echo": echo})
	c := g.open("echo", "traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	c.send(ints(1, 2, 3))
	c.want(1, 2, 3)
	b := c.finish()
	if name := c.read.Schema().Field(0).Name; name != "echo" {
		t.Errorf("result field %q, wanted the function's short name", name)
	}
	if b.Function != "echo" || b.Version != "0123456789ab" || b.Dialect != "flight" || b.Path != "python" ||
		b.Rows != 3 || b.Batches != 1 || b.Crossings != 1 || b.Attempts != 1 || b.BytesIn <= 24 || b.BytesOut <= 24 ||
		b.Principal != "127.0.0.1" || b.Worker != "test:1" || b.WallNS <= 0 || b.Trace != "0af7651916cd43dd8448eb211c80319c" {
		t.Errorf("bill %s", b.JSON())
	}
	if b.ConvGatewayNS <= 0 || b.Work.ConversionGatewayNS < b.ConvGatewayNS { // the server's own, as echo books none
		t.Errorf("work is less than the wall it took: %s", b.JSON())
	}
}

func TestExchangeWithoutBatches(t *testing.T) {
	g := start(t, Config{}, map[string]body{"echo": echo})
	c := g.open("echo")
	if b := c.finish(); b.Batches != 0 || b.WallNS != 0 || b.Function != "echo" {
		t.Errorf("bill %s", b.JSON())
	}
	if c.read.Schema() == nil {
		t.Error("no schema")
	}
}

func TestExchangeZeroRowsDoNotCross(t *testing.T) {
	g := start(t, Config{}, map[string]body{"echo": func(context.Context, *udfgate.Call, *codec.Batch) (*codec.Answer, error) {
		return nil, errors.New("called")
	}})
	c := g.open("echo")
	c.send(ints())
	c.want()
	if b := c.finish(); b.Batches != 1 || b.Crossings != 0 {
		t.Errorf("bill %s", b.JSON())
	}
}

// Batches that take turns at being slow come back in order, and the bill adds
// up however they overlap.
func TestExchangeAnswersInOrder(t *testing.T) {
	rng := seed.Rand(t)
	delays := make([]time.Duration, 300)
	for i := range delays {
		delays[i] = time.Duration(rng.IntN(2000)) * time.Microsecond
	}
	g := start(t, Config{}, map[string]body{"slow": func(ctx context.Context, c *udfgate.Call, in *codec.Batch) (*codec.Answer, error) {
		if err := sleep(ctx, delays[first(in)]); err != nil {
			return nil, err
		}
		return echo(ctx, c, in)
	}})
	c := g.open("slow")
	go func() {
		for i := range delays {
			c.send(ints(int64(i), int64(i*i)))
		}
	}()
	for i := range delays {
		c.want(int64(i), int64(i*i))
	}
	b := c.finish()
	if b.Batches != 300 || b.Rows != 600 || b.Crossings != 300 {
		t.Errorf("bill %s", b.JSON())
	}
}

func TestExchangeLockStepBooksIdle(t *testing.T) {
	g := start(t, Config{}, map[string]body{"echo": echo})
	patiently(t, 50*time.Millisecond, func(pause time.Duration) (slow bool) {
		c := g.open("echo")
		c.send(ints(1))
		c.want(1)
		from := time.Now()
		time.Sleep(pause) // the client's own time is the subject
		slept := time.Since(from)
		for i := range int64(50) {
			c.send(ints(i))
			c.want(i)
		}
		b := c.finish()
		if b.IdleNS < int64(pause)*8/10 || b.Batches != 51 {
			t.Errorf("slept for %v, bill %s", slept, b.JSON())
		}
		return b.WallNS >= b.IdleNS
	})
}

func TestExchangeWindowBoundsBatchesInFlight(t *testing.T) {
	for _, c := range []struct{ configured, concurrency, window int }{
		{1, 0, 1}, {3, 0, 3}, {WindowMax, 0, WindowMax}, {WindowMax, 2, 2}, {3, 5, 3},
	} {
		window := c.window
		var now, most atomic.Int64
		g := start(t, Config{Window: c.configured}, map[string]body{"echo": func(ctx context.Context, c *udfgate.Call, in *codec.Batch) (*codec.Answer, error) {
			n := now.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			defer now.Add(-1)
			for from := time.Now(); most.Load() < int64(window) && time.Since(from) < callMax/2; {
				if err := sleep(ctx, time.Millisecond); err != nil { // until all that may be here are
					return nil, err
				}
			}
			if err := sleep(ctx, 5*time.Millisecond); err != nil { // for one too many
				return nil, err
			}
			return echo(ctx, c, in)
		}})
		g.table.Functions()[0].Concurrency = c.concurrency
		stream := g.open("echo")
		for i := range int64(40) {
			stream.send(ints(i))
		}
		for i := range int64(40) {
			stream.want(i)
		}
		stream.finish()
		if most.Load() != int64(window) {
			t.Errorf("%d batches were in flight at once, wanted %d", most.Load(), window)
		}
		_ = g.drain()
	}
}

// Timelines of every shape: whatever a backend notes down, the bill adds up.
func TestExchangeBillsAddUp(t *testing.T) {
	rng := seed.Rand(t)
	source := rng.Uint64()
	g := start(t, Config{}, map[string]body{"wild": func(ctx context.Context, c *udfgate.Call, in *codec.Batch) (*codec.Answer, error) {
		own := rand.New(rand.NewPCG(source, uint64(first(in))))
		for range own.IntN(20) {
			at := c.Timeline.From + own.Int64N(2_000_000) - 500_000
			c.Timeline.Add(udfgate.State(own.IntN(10)), at, at+own.Int64N(1_000_000)-100_000)
		}
		if err := sleep(ctx, time.Duration(own.IntN(300))*time.Microsecond); err != nil {
			return nil, err
		}
		c.Work = udfgate.Work{BodyNS: own.Int64N(1e6)}
		return echo(ctx, c, in)
	}})
	for range 20 {
		c := g.open("wild", "udfgate-bill", "batch")
		n := rng.Int64N(30)
		go func() {
			for i := range n {
				c.send(ints(i, rng.Int64()))
			}
			c.closeSend()
		}()
		for range n {
			if _, err := c.receive(); err != nil {
				t.Fatal(err)
			}
			b := batchBill(t, c.read.LatestAppMetadata()).Bill
			checkIdentity(t, &b)
		}
		if _, err := c.receive(); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if b := c.bill(); b.Batches != n {
			t.Errorf("%d batches, wanted %d", b.Batches, n)
		}
	}
}

func TestExchangeErrorInTheMiddle(t *testing.T) {
	g := start(t, Config{}, map[string]body{"picky": func(ctx context.Context, c *udfgate.Call, in *codec.Batch) (*codec.Answer, error) {
		switch n := first(in); {
		case n == 5: // known early, told late
			return nil, &udfgate.Error{
				Reason: udfgate.UserError, Function: "picky", Row: 1, Exception: "ValueError",
				Message: "ValueError: five", Detail: "Traceback (most recent call last):\n  File \"geo.py\", line 3, in picky\nValueError: five\n",
			}
		case n < 5:
			if err := sleep(ctx, 20*time.Millisecond); err != nil {
				return nil, err
			}
		}
		return echo(ctx, c, in)
	}})
	c := g.open("picky")
	go func() {
		for i := range int64(50) {
			c.send(ints(i, i))
		}
	}()
	for i := range int64(5) {
		c.want(i, i)
	}
	st := c.failure("InvalidArgument", udfgate.UserError, "picky: row 1: ValueError: five\nTraceback")
	trailer := c.rpc.Trailer()
	if batchOf(trailer) != 5 || trailer.Get("udfgate-row")[0] != "1" {
		t.Errorf("trailer %v, wanted batch 5, row 1", trailer)
	}
	if !strings.Contains(st.Message(), "geo.py") {
		t.Errorf("no traceback in %q", st.Message())
	}
	if b := c.bill(); b.Rows != 11 || b.RowsFailed != 1 || b.WallNS <= 0 { // the failed row is answered too
		t.Errorf("bill %s", b.JSON())
	}
	if _, text := g.get("/metrics", ""); !strings.Contains(text, `udfgate_rows_total{function="picky",outcome="failed",path="python"} 1`) ||
		!strings.Contains(text, `udfgate_rows_total{function="picky",outcome="ok",path="python"} 10`) {
		t.Errorf("got %s", grep(text, "rows_total"))
	}
	if k := g.errors.find(trailer.Get("udfgate-error-id")[0]); k == nil || !strings.Contains(k.err.Detail, "geo.py") {
		t.Errorf("the traceback is not kept: %+v", k)
	}
}

// Of several batches that fail the first in order is told, whenever it does.
func TestExchangeFirstFailureWins(t *testing.T) {
	g := start(t, Config{}, map[string]body{"fail": func(ctx context.Context, _ *udfgate.Call, in *codec.Batch) (*codec.Answer, error) {
		n := first(in)
		if err := sleep(ctx, time.Duration(4-n)*10*time.Millisecond); err != nil {
			return nil, err
		}
		return nil, udfgate.Errorf(udfgate.WorkerLost, "worker lost: %d", n)
	}})
	c := g.open("fail")
	for i := range int64(4) {
		c.send(ints(i))
	}
	c.failure("Aborted", udfgate.WorkerLost, "fail: worker lost: 0")
	if n := batchOf(c.rpc.Trailer()); n != 0 {
		t.Errorf("batch %d, wanted 0", n)
	}
	c.bill()
}

func TestExchangePanicIsInternal(t *testing.T) {
	g := start(t, Config{Logger: quiet}, map[string]body{"echo": echo, "boom": func(context.Context, *udfgate.Call, *codec.Batch) (*codec.Answer, error) {
		panic("a bug")
	}})
	c := g.open("boom")
	c.send(ints(1))
	c.failure("Internal", udfgate.Internal, "boom: the gateway panicked: a bug")
	c.bill()
	c = g.open("echo")
	c.send(ints(1))
	c.want(1)
	c.finish()
}

func TestExchangeAppMetadata(t *testing.T) {
	g := start(t, Config{}, map[string]body{"echo": echo})
	c := g.open("echo")
	for i := range int64(20) {
		if err := c.write.WriteWithAppMetadata(ints(i), fmt.Appendf(nil, "id-%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	c.send(ints(20))
	for i := range int64(20) {
		c.want(i)
		if got := string(c.read.LatestAppMetadata()); got != fmt.Sprintf("id-%d", i) {
			t.Errorf("batch %d: app_metadata %q", i, got)
		}
	}
	c.want(20)
	if got := c.read.LatestAppMetadata(); got != nil {
		t.Errorf("app_metadata %q where the request had none", got)
	}
	c.finish()
}

func TestExchangeBillPerBatch(t *testing.T) {
	g := start(t, Config{}, map[string]body{"echo": echo})
	c := g.open("echo", "udfgate-bill", "batch")
	if err := c.write.WriteWithAppMetadata(ints(1, 2), []byte("batch-7")); err != nil {
		t.Fatal(err)
	}
	c.want(1, 2)
	told := batchBill(t, c.read.LatestAppMetadata())
	checkIdentity(t, &told.Bill)
	if told.App != "YmF0Y2gtNw==" || told.Bill.Rows != 2 || told.Bill.Batches != 1 || told.Bill.Function != "echo" || told.Bill.Crossings != 1 {
		t.Errorf("told %+v", told)
	}
	if told.Bill.Work.ConversionGatewayNS < told.Bill.ConvGatewayNS {
		t.Errorf("work is less than the wall it took: %+v", told.Bill)
	}
	for _, key := range []string{`"work":{"body_ns":`, `"coalesce_ns":0`, `"cold":false`, `"trace":""`} {
		if !strings.Contains(string(c.read.LatestAppMetadata()), key) {
			t.Errorf("no %s in %s", key, c.read.LatestAppMetadata())
		}
	}
	c.send(ints(3))
	c.want(3)
	if strings.Contains(string(c.read.LatestAppMetadata()), `"app"`) {
		t.Errorf("app where the request had none: %s", c.read.LatestAppMetadata())
	}
	if b := c.finish(); b.WallNS <= told.Bill.WallNS {
		t.Errorf("the call's wall %d is not more than its batch's %d", b.WallNS, told.Bill.WallNS)
	}
}

func TestExchangeRefusesHeadersByName(t *testing.T) {
	g := start(t, Config{}, map[string]body{"echo": echo})
	for _, h := range [][3]string{
		{"udfgate-bill", "yes", `udfgate-bill: wanted batch, got "yes"`},
		{"udfgate-timeout", "5", `udfgate-timeout: wanted a duration of more than 0 such as 500ms or 5s, got "5"`},
		{"udfgate-timeout", "0s", `got "0s"`},
		{"udfgate-timeout", "-1s", `got "-1s"`},
		{"udfgate-timeout", "3000000h", `got "3000000h"`},
		{"udfgate-timeout", "", `got ""`},
		{"udfgate-on-error", "skip", `udfgate-on-error: wanted fail, null or reject, got "skip"`},
		{"udfgate-on-error", "Null", `got "Null"`},
		{"udfgate-on-error", "", `got ""`},
		{"udfgate-errors", "inline", "udfgate-errors is not built yet"},
	} {
		c := g.open("echo", h[0], h[1])
		c.failure("InvalidArgument", udfgate.Invalid, h[2])
	}
	c := g.open("echo", "udfgate-anything", "x", "traceparent", "nonsense", "authorization", "Bearer x")
	c.send(ints(1))
	c.want(1)
	if b := c.finish(); b.Trace != "" {
		t.Errorf("trace %q of a traceparent that is none", b.Trace)
	}
}

// The only limit that a call brings along is its caller's: what the gateway
// itself grants a chunk is the pool's, and begins with the chunk.
func TestExchangeCallersDeadline(t *testing.T) {
	var seen udfgate.Call
	g := start(t, Config{}, map[string]body{"echo": func(ctx context.Context, c *udfgate.Call, in *codec.Batch) (*codec.Answer, error) {
		seen = udfgate.Call{Deadline: c.Deadline - c.Timeline.From, Limit: c.Limit, LimitNS: c.LimitNS, ID: c.ID, Principal: c.Principal}
		return echo(ctx, c, in)
	}})
	c := g.open("echo") // with a deadline of callMax
	c.send(ints(1))
	c.want(1)
	c.finish()
	if seen.Limit != callersDeadline || seen.LimitNS <= int64(callMax/2) || seen.LimitNS > int64(callMax) ||
		seen.Deadline <= int64(callMax/2) || seen.Deadline > int64(callMax) || seen.ID == 0 || seen.Principal != "127.0.0.1" {
		t.Errorf("got %+v", seen)
	}
	var without headers
	none := udfgate.Call{Function: function("echo")}
	if without.limits(&none); none.Deadline != 0 || none.Limit != "" {
		t.Errorf("a caller without a deadline: got %d %q", none.Deadline, none.Limit)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	h, err := readHeaders(ctx)
	if err != nil || h.limit != 500e6 || h.deadline == 0 {
		t.Errorf("got %+v %v, wanted a limit of 500ms", h, err)
	}
}

// The trailers of a failed call stay under the 8 KiB beyond which Java and C
// clients see only a reset stream.
func TestTrailersAreBounded(t *testing.T) {
	texts := map[string]string{"ascii": strings.Repeat("A", 100_000), "non-ASCII": strings.Repeat("日é", 25_000), "newlines": strings.Repeat("\n", 100_000)}
	g := start(t, Config{}, map[string]body{"f": func(_ context.Context, c *udfgate.Call, in *codec.Batch) (*codec.Answer, error) {
		text := texts[[]string{"ascii", "non-ASCII", "newlines"}[first(in)]]
		c.Work, c.Worker = udfgate.Work{BodyNS: 1 << 62, BodyCPUNS: 1 << 62}, strings.Repeat("w", 3000)
		return nil, &udfgate.Error{
			Reason: udfgate.UserError, Function: "f", Row: 1, Exception: strings.Repeat("E", 5000),
			Message: "ValueError: " + text + "THE-END", Detail: "Traceback\n" + text + "\nlast line",
		}
	}})
	for i := range int64(len(texts)) {
		c := g.open("f", "traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		c.send(ints(i))
		st := c.failure("InvalidArgument", udfgate.UserError, "THE-END")
		total := headerListSize(c.rpc.Trailer()) +
			len("grpc-message") + encodedLen(st.Message()) + len("grpc-status") + 1 + 2*32
		if total >= 8<<10 {
			t.Errorf("trailers of %d bytes, wanted less than 8 KiB", total)
		}
	}
}

// headerListSize is HPACK's measure; grpc-status-details-bin is in md too.
func headerListSize(md metadata.MD) int {
	n := 0
	for key, values := range md {
		for _, v := range values {
			size := len(v)
			if strings.HasSuffix(key, "-bin") {
				size = (size + 2) / 3 * 4
			}
			n += len(key) + size + 32
		}
	}
	return n
}

func TestExchangeUnknownNames(t *testing.T) {
	g := start(t, Config{}, map[string]body{"gcd": echo, "echo": echo})
	c := g.open("gdc")
	c.send(ints(1))
	c.failure("NotFound", udfgate.NotFound, `no function "gdc": nearest names are "gcd"`)
	if got := c.rpc.Trailer().Get("udfgate-bill"); got != nil {
		t.Errorf("a bill though no function was resolved: %v", got)
	}
}
