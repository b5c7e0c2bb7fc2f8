package server

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/codec"
)

// counted is the series of counters in the metrics, as "function/name 3".
func (g *gateway) counted() string {
	g.t.Helper()
	_, text := g.get("/metrics", "")
	lines := grep(text, `^udfgate_counter_total\{`)
	return strings.NewReplacer(`udfgate_counter_total{function="`, "", `",name="`, "/", `"}`, "").Replace(lines)
}

// Counters of bodies are in the bill, in the totals and in the metrics, of
// answers that were handed over and of no others.
func TestCounters(t *testing.T) {
	g := start(t, Config{Logger: quiet}, map[string]body{"count": func(ctx context.Context, call *udfgate.Call, in *codec.Batch) (*codec.Answer, error) {
		n := first(in)
		call.Counts = map[string]int64{"seen": n, fmt.Sprint("batch_", call.Batch): 1}
		if n == 9 {
			return nil, udfgate.Errorf(udfgate.WorkerLost, "worker lost")
		}
		return echo(ctx, call, in)
	}, "plain": echo})
	c := g.open("count", "udfgate-bill", "batch")
	c.send(ints(2))
	c.send(ints(3))
	c.want(2)
	if got := batchBill(t, c.read.LatestAppMetadata()).Bill.Counters; !maps.Equal(got, map[string]int64{"seen": 2, "batch_0": 1}) {
		t.Errorf("the first batch counted %v", got)
	}
	c.want(3)
	c.send(ints(9))
	c.failure("Aborted", udfgate.WorkerLost, "worker lost")
	if b := c.bill(); !maps.Equal(b.Counters, map[string]int64{"seen": 5, "batch_0": 1, "batch_1": 1}) {
		t.Errorf("bill %s", b.JSON())
	}
	if _, _, text := g.post("count", `{"rows":[[4]]}`); !strings.Contains(text, `"counters":{"batch_0":1,"seen":4}`) {
		t.Errorf("over HTTP: %s", text)
	}
	if _, _, text := g.post("plain", `{"rows":[[4]]}`); strings.Contains(text, "counters") {
		t.Errorf("without any: %s", text)
	}
	g.awaitStreams(0)
	if diff := cmp.Diff("count/batch_0 2\ncount/batch_1 1\ncount/seen 9", g.counted()); diff != "" {
		t.Error(diff)
	}
	_, by := readBills(g)
	if got := by["count"].Sum.Counters; !maps.Equal(got, map[string]int64{"seen": 9, "batch_0": 2, "batch_1": 1}) || by["plain"].Sum.Counters != nil {
		t.Errorf("totals %v, %v", got, by["plain"].Sum.Counters)
	}
}

// A table counts by parts where they are handed over one by one. Over HTTP all
// are one answer: if a later part fails, there is none.
func TestCountersOfTables(t *testing.T) {
	g := startTables(t, Config{Logger: quiet}, map[string]table{"count": func(ctx context.Context, call *udfgate.Call, in *codec.Batch, deliver deliver) error {
		err := series(1)(ctx, call, in, func(p *codec.Answer, last bool) error {
			if last && inputs(in)[0] == 3 {
				p.Release()
				return udfgate.Errorf(udfgate.WorkerLost, "worker lost")
			}
			call.Counts = map[string]int64{"parts": 1}
			return deliver(p, last)
		})
		return err
	}})
	for i, want := range []struct {
		rows    int64
		flight  int64
		over    string
		counted string
	}{
		{2, 2, `"counters":{"parts":2}`, "count/parts 4"},
		{3, 2, `"error":{"reason":"WORKER_LOST"`, "count/parts 6"},
	} {
		c := g.open("count")
		c.send(ints(want.rows))
		c.parts("0:0", "0:1")
		if want.rows == 3 {
			_, _, err := c.part()
			checkFailure(t, err, c.rpc.Trailer(), "Aborted", udfgate.WorkerLost, "worker lost")
		} else {
			c.endOfParts()
		}
		if b := c.bill(); b.Counters["parts"] != want.flight {
			t.Errorf("%d: bill %s", i, b.JSON())
		}
		_, header, text := g.post("count", fmt.Sprintf(`{"rows":[[%d]]}`, want.rows))
		if !strings.Contains(text, want.over) || want.rows == 3 && strings.Contains(header.Get("Udfgate-Bill"), "counters") {
			t.Errorf("%d: over HTTP %s %s", i, text, header.Get("Udfgate-Bill"))
		}
		g.awaitStreams(0)
		if got := g.counted(); got != want.counted {
			t.Errorf("%d: counted %q", i, got)
		}
	}
}

// However much a body counts, its sums stop at a bound: in the bill, in the totals
// and, over HTTP, in what the metrics get at the end.
func TestCountersDoNotOverflow(t *testing.T) {
	const parts = 1100 // 1,024 × 2^53 is one too many
	g := startTables(t, Config{Logger: quiet}, map[string]table{"count": func(ctx context.Context, call *udfgate.Call, in *codec.Batch, deliver deliver) error {
		return series(1)(ctx, call, in, func(p *codec.Answer, last bool) error {
			call.Counts = map[string]int64{"huge": 1 << 53, "parts": 1}
			return deliver(p, last)
		})
	}})
	want := fmt.Sprintf(`"counters":{"huge":%d,"parts":%d}`, int64(counterSumMax), parts)
	if code, _, text := g.post("count", fmt.Sprintf(`{"rows":[[%d]]}`, parts)); code != 200 || !strings.Contains(text, want) {
		t.Errorf("over HTTP: %d …%s", code, text[max(0, len(text)-1000):])
	}
	c := g.open("count", "udfgate-bill", "batch")
	c.send(ints(parts))
	for range parts {
		if _, _, err := c.part(); err != nil {
			t.Fatal(err)
		}
	}
	told := batchBill(t, c.read.LatestAppMetadata())
	if b := c.endOfParts(); b.Counters["huge"] != counterSumMax || b.Counters["parts"] != parts || told.Bill.Counters["huge"] != counterSumMax {
		t.Errorf("over Flight: %s\nbatch %v", b.JSON(), told.Bill.Counters)
	}
	g.awaitStreams(0)
	if _, by := readBills(g); by["count"].Sum.Counters["huge"] != counterSumMax || by["count"].Sum.Counters["parts"] != 2*parts {
		t.Errorf("totals %v", by["count"].Sum.Counters)
	}
	// A series of whole numbers begins anew at 2^64, as that of every program.
	if got := g.counted(); !strings.HasPrefix(got, "count/huge ") || !strings.HasSuffix(got, fmt.Sprint("count/parts ", 2*parts)) {
		t.Errorf("metrics %s", got)
	}
}

// A body may learn who calls, but no credentials and none of the transport's
// own; nobody pays for it who does not ask.
func TestCallerOfABody(t *testing.T) {
	type told struct {
		stream  uint64
		batch   int64
		headers []udfgate.KeyValue
	}
	asked := make(chan told, 2)
	g := start(t, Config{}, map[string]body{"who": func(ctx context.Context, call *udfgate.Call, in *codec.Batch) (*codec.Answer, error) {
		asked <- told{call.Stream, call.Batch, call.Caller.Headers()}
		return echo(ctx, call, in)
	}})
	c := g.open("who", "X-Tenant", "b", "x-tenant", "a", "authorization", "Bearer secret", "cookie", "secret", "proxy-authorization", "secret",
		"udfgate-bill", "batch", "grpc-previous-rpc-attempts", "1", "databend-stage-mapping", `[{"param":"s"}]`, "a-bin", "\xff\x00")
	c.send(ints(1))
	c.want(1)
	c.send(ints(2))
	c.want(2)
	c.finish()
	one, two := <-asked, <-asked
	if one.stream == 0 || one.stream != two.stream || one.batch != 0 || two.batch != 1 {
		t.Errorf("streams %d and %d, batches %d and %d", one.stream, two.stream, one.batch, two.batch)
	}
	agent := ""
	for _, h := range one.headers {
		if h.Key == "user-agent" {
			agent = h.Value
		}
	}
	want := []udfgate.KeyValue{
		{Key: "a-bin", Value: "/wA="},
		{Key: "databend-stage-mapping", Value: `[{"param":"s"}]`},
		{Key: "user-agent", Value: agent},
		{Key: "x-tenant", Value: "b"},
		{Key: "x-tenant", Value: "a"},
	}
	if diff := cmp.Diff(want, one.headers); diff != "" || !strings.Contains(agent, "grpc-go") {
		t.Errorf("headers of a Flight call:\n%s", diff)
	}
	if code, _, text := g.post("who", `{"rows":[[1]]}`, "Authorization", "Bearer secret", "Cookie", "secret", "X-Tenant", "c", "User-Agent", "curl",
		"Udfgate-Timeout", "5s", "Te", "trailers", "Keep-Alive", "5", "X-Latin", "gr\xf6\xdfe"); code != 200 {
		t.Fatalf("%d %s", code, text)
	}
	over := <-asked
	want = []udfgate.KeyValue{{Key: "user-agent", Value: "curl"}, {Key: "x-latin", Value: "gr\xf6\xdfe"}, {Key: "x-tenant", Value: "c"}}
	if diff := cmp.Diff(want, over.headers); diff != "" || over.stream == one.stream {
		t.Errorf("headers of a call over HTTP, stream %d:\n%s", over.stream, diff)
	}
}

func TestTableOverHTTP(t *testing.T) {
	g := startTables(t, Config{MessageBytesMax: 1 << 20, Logger: quiet}, map[string]table{"series": series(2), "long": series(1000), "picky": rejecting})
	code, _, text := g.post("series", `{"rows":[[3],[0],[1]]}`)
	if code != 200 || !strings.HasPrefix(text, `{"rows":[{"row":0,"value":0},{"row":0,"value":1},{"row":0,"value":2},{"row":2,"value":0}],"bill":{`) {
		t.Fatalf("got %d %s", code, text)
	}
	if b := parseAnswer(t, text).Bill; b.Rows != 3 || b.Crossings != 2 || b.Batches != 1 || b.ConvGatewayNS <= 0 {
		t.Errorf("bill %s", b.JSON())
	}
	for _, body := range []string{`{"rows":[]}`, `{"rows":[[0]]}`} {
		if code, _, text := g.post("series", body); code != 200 || !strings.HasPrefix(text, `{"rows":[],"bill":{`) {
			t.Errorf("no rows: %d %s", code, text)
		}
	}
	code, _, text = g.post("picky", `{"rows":[[1],[7]]}`, "udfgate-on-error", "reject")
	if code != 200 || !strings.HasPrefix(text, `{"rows":[{"row":0,"value":1,"error":null},{"row":1,"value":null,"error":"ValueError: seven"}],"bill":{`) {
		t.Errorf("got %d %s", code, text)
	}
	code, header, text := g.post("picky", `{"rows":[[1],[7]]}`)
	if code != 400 || !strings.Contains(text, `"reason":"USER_ERROR","message":"picky: row 1: ValueError: seven"`) || header.Get("Udfgate-Bill") == "" {
		t.Errorf("got %d %s", code, text)
	}
	// A table that does not end, ends at a bound that has a name.
	code, _, text = g.post("long", `{"rows":[[100000]]}`)
	if code != 400 || !strings.Contains(text, `long: answer of more than 1048576 bytes is over --max-message-bytes 1048576; send fewer rows, or call it over Flight`) {
		t.Errorf("got %d %s", code, text)
	}
	if _, text := g.get("/v1/functions", ""); !strings.Contains(text, `"signature":"series(a int64) -> table of int64?"`) ||
		strings.Count(text, `"kind":"table","mode":"row"`) != 3 {
		t.Errorf("functions: %s", text)
	}
}
