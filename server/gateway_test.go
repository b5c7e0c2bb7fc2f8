package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/codec"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// body is what a function does in tests, in place of a pool.
type body func(ctx context.Context, call *udfgate.Call, in *codec.Batch) (*codec.Answer, error)

// backend runs bodies by function name in this process.
type backend struct {
	slots  *codec.Store
	bodies map[string]body
	tables map[string]table
}

func (b *backend) Slots() *codec.Store { return b.slots }

func (b *backend) Invoke(ctx context.Context, call *udfgate.Call, in *codec.Batch) (*codec.Answer, error) {
	call.Attempts, call.Crossings, call.Worker = 1, 1, "test:1"
	return b.bodies[call.Function.Name](ctx, call, in)
}

// echo answers its first column, which is int64 without nulls.
func echo(_ context.Context, _ *udfgate.Call, in *codec.Batch) (*codec.Answer, error) {
	v := in.Columns[0].Values
	block := codec.NewBlock(int(v.Len))
	copy(block.Bytes(), in.Slot.Bytes()[v.Off:v.End()])
	return &codec.Answer{
		Rows:    in.Rows,
		Nodes:   []codec.Node{{Length: in.Rows}},
		Buffers: []codec.Buffer{{}, {Length: v.Len}},
		Body:    block,
	}, nil
}

// first is the first value of a batch.
func first(in *codec.Batch) int64 {
	v := in.Slot.Bytes()[in.Columns[0].Values.Off:]
	n := int64(0)
	for i := range 8 {
		n |= int64(v[i]) << (8 * i)
	}
	return n
}

// sleep waits without outliving the call.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// patiently calls try with a duration, and with one four times as long for as
// long as it says that the machine was too slow for the last: what a test gives
// somebody time for is then the larger part of what passes.
func patiently(t *testing.T, d time.Duration, try func(d time.Duration) (slow bool)) {
	t.Helper()
	for ; try(d); d *= 4 {
		if d > callMax {
			t.Fatalf("even %v were too short", d)
		}
	}
}

// gateway is a running Server and a client's connection to it.
type gateway struct {
	*Server
	t       *testing.T
	table   *Table
	conn    *grpc.ClientConn
	client  flight.Client
	ended   chan error
	drained sync.Once
}

func function(name string) *udfgate.Function {
	return &udfgate.Function{
		Name: name, Module: "geo", Pool: "default", Mode: udfgate.ModeRow, Volatility: udfgate.Volatile, Version: "0123456789ab",
		Args:   []udfgate.Field{{Name: "a", Type: udfgate.Type{Kind: udfgate.Int64}}},
		Result: udfgate.Field{Name: "result", Type: udfgate.Type{Kind: udfgate.Int64}, Nullable: true},
	}
}

// start runs a gateway until the test ends; what is in flight must then be gone.
func start(t *testing.T, c Config, bodies map[string]body) *gateway {
	t.Helper()
	return startBackend(t, c, &backend{slots: codec.NewStore(codec.StoreConfig{}), bodies: bodies})
}

func startBackend(t *testing.T, c Config, b *backend) *gateway {
	t.Helper()
	var served []Served
	for _, name := range slices.Sorted(maps.Keys(b.bodies)) {
		served = append(served, Served{function(name), b})
	}
	for _, name := range slices.Sorted(maps.Keys(b.tables)) {
		f := function(name)
		f.Table = true
		served = append(served, Served{f, b})
	}
	table, err := NewCatalog(served)
	if err != nil {
		t.Fatal(err)
	}
	table.SetReady(true)
	g := &gateway{t: t, table: table, ended: make(chan error, 1)}
	g.serve(c)
	t.Cleanup(func() {
		_ = g.drain() // an error is a call that a test left open
		if held := g.budget.bytes(); held != 0 {
			t.Errorf("%d bytes of the budget are still held", held)
		}
		if used := b.slots.Stats().UsedBytes; used != 0 {
			t.Errorf("%d bytes of slots are still held", used)
		}
		if err := b.slots.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

func (g *gateway) serve(c Config) {
	g.t.Helper()
	if len(c.Listen) == 0 {
		c.Listen = []string{"127.0.0.1:0"}
	}
	if c.HTTP == "" {
		c.HTTP = "127.0.0.1:0"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.NewTextHandler(testWriter{g.t}, &slog.HandlerOptions{Level: slog.LevelError}))
	}
	s, err := New(c, g.table)
	if err != nil {
		g.t.Fatal(err)
	}
	g.Server = s
	go func() { g.ended <- s.Serve() }()
	g.conn = g.dial()
	g.client = flight.NewClientFromConn(g.conn, nil)
}

func (g *gateway) dial(opts ...grpc.DialOption) *grpc.ClientConn {
	g.t.Helper()
	opts = append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30)))
	conn, err := grpc.NewClient(g.Addrs()[0], opts...)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// other is the gateway by a connection of its own.
func (g *gateway) other(opts ...grpc.DialOption) *gateway {
	conn := g.dial(opts...)
	return &gateway{Server: g.Server, t: g.t, conn: conn, client: flight.NewClientFromConn(conn, nil)}
}

// drain ends the gateway; the first caller gets what Drain returned.
func (g *gateway) drain() (err error) {
	g.drained.Do(func() {
		err = g.Drain(context.Background())
		if ended := <-g.ended; ended != nil {
			g.t.Errorf("Serve: %v", ended)
		}
		_ = g.conn.Close()
	})
	return err
}

// await looks at the open streams until one of them is as wanted.
func (g *gateway) await(what string, wanted func(*exchange) bool) {
	g.t.Helper()
	g.until(what, func() bool {
		return slices.ContainsFunc(g.watch.open(), func(x *exchange) bool {
			x.mu.Lock()
			defer x.mu.Unlock()
			return wanted(x)
		})
	})
}

// awaitStreams waits until only n streams are open.
func (g *gateway) awaitStreams(n int) {
	g.t.Helper()
	g.until("streams to end", func() bool { return len(g.watch.open()) <= n })
}

func (g *gateway) until(what string, done func() bool) {
	g.t.Helper()
	for from := time.Now(); !done(); time.Sleep(time.Millisecond) {
		if time.Since(from) > callMax {
			g.t.Fatalf("waited %v for %s", callMax, what)
		}
	}
}

// testWriter sends logs to the test.
type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", p)
	return len(p), nil
}

var intSchema = arrow.NewSchema([]arrow.Field{{Name: "", Type: arrow.PrimitiveTypes.Int64}}, nil)

func ints(values ...int64) arrow.RecordBatch {
	b := array.NewInt64Builder(memory.DefaultAllocator)
	defer b.Release()
	b.AppendValues(values, nil)
	return array.NewRecordBatch(intSchema, []arrow.Array{b.NewArray()}, int64(len(values)))
}

// int64s is a copy of a batch's first column, of a table's second.
func int64s(b arrow.RecordBatch) []int64 {
	column, ok := b.Column(0).(*array.Int64)
	if !ok {
		column, _ = b.Column(1).(*array.Int64)
	}
	return slices.Clone(column.Int64Values())
}

// big is a batch whose body has n bytes or a little more.
func big(n int) arrow.RecordBatch { return ints(make([]int64, n/8)...) }

// call is an open DoExchange as arrow-go's writer and reader do it.
type call struct {
	t      *testing.T
	rpc    flight.FlightService_DoExchangeClient
	cancel context.CancelFunc
	write  *flight.Writer
	read   *flight.Reader
}

const callMax = 20 * time.Second

func (g *gateway) open(name string, headers ...string) *call {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(context.Background(), headers...), callMax)
	g.t.Cleanup(cancel)
	rpc, err := g.client.DoExchange(ctx)
	if err != nil {
		g.t.Fatal(err)
	}
	c := &call{t: g.t, rpc: rpc, cancel: cancel, write: flight.NewRecordWriter(rpc, ipc.WithSchema(intSchema))}
	c.write.SetFlightDescriptor(&flight.FlightDescriptor{Type: flight.DescriptorPATH, Path: []string{name}})
	return c
}

func (c *call) send(batch arrow.RecordBatch) {
	c.t.Helper()
	if err := c.write.Write(batch); err != nil && !errors.Is(err, io.EOF) {
		c.t.Errorf("send: %v", err)
	}
}

func (c *call) closeSend() {
	c.t.Helper()
	if err := c.write.Close(); err != nil && !errors.Is(err, io.EOF) {
		c.t.Errorf("close: %v", err)
	}
	if err := c.rpc.CloseSend(); err != nil {
		c.t.Errorf("close: %v", err)
	}
}

// receive returns the next answer's values, or how the call ended.
func (c *call) receive() ([]int64, error) {
	if c.read == nil {
		r, err := flight.NewRecordReader(c.rpc)
		if err != nil {
			return nil, err
		}
		c.read = r
	}
	if !c.read.Next() {
		if err := c.read.Err(); err != nil {
			return nil, err
		}
		return nil, io.EOF
	}
	return int64s(c.read.RecordBatch()), nil
}

// want receives an answer and compares it.
func (c *call) want(values ...int64) {
	c.t.Helper()
	got, err := c.receive()
	if err != nil {
		c.t.Fatalf("wanted %v, got %v %v", values, err, c.rpc.Trailer())
	}
	if !slices.Equal(got, values) {
		c.t.Fatalf("wanted %v, got %v", values, got)
	}
}

// finish half-closes, reads to the end and returns the bill.
func (c *call) finish() udfgate.Bill {
	c.t.Helper()
	c.closeSend()
	if _, err := c.receive(); !errors.Is(err, io.EOF) {
		c.t.Fatalf("wanted the end, got %v", err)
	}
	return c.bill()
}

func (c *call) bill() udfgate.Bill {
	c.t.Helper()
	return parseBill(c.t, c.rpc.Trailer())
}

func parseBill(t *testing.T, trailer metadata.MD) udfgate.Bill {
	t.Helper()
	text := trailer.Get("udfgate-bill")
	if len(text) != 1 {
		t.Fatalf("wanted one bill, got trailer %v", trailer)
	}
	var b udfgate.Bill
	if err := json.Unmarshal([]byte(text[0]), &b); err != nil {
		t.Fatalf("bill %s: %v", text[0], err)
	}
	checkIdentity(t, &b)
	return b
}

func checkIdentity(t *testing.T, b *udfgate.Bill) {
	t.Helper()
	sum := b.QueueNS + b.CoalesceNS + b.StartNS + b.ConversionNS + b.CrossingNS + b.BodyNS + b.ReplyNS + b.OtherNS
	if sum != b.WallNS || b.ConversionNS != b.ConvGatewayNS+b.ConvWorkerNS || b.CrossingNS != b.CrossingOutNS+b.CrossingBackNS {
		t.Errorf("phases add up to %d: %s", sum, b.JSON())
	}
}

// failure receives until the call fails and checks its status and trailers.
func (c *call) failure(code string, reason udfgate.Reason, text string) *status.Status {
	c.t.Helper()
	for {
		_, err := c.receive()
		if err == nil {
			continue
		}
		return checkFailure(c.t, err, c.rpc.Trailer(), code, reason, text)
	}
}

// batchOf is the trailer udfgate-batch, -1 without one.
func batchOf(trailer metadata.MD) int {
	v := trailer.Get("udfgate-batch")
	if len(v) == 0 {
		return -1
	}
	n, err := strconv.Atoi(v[0])
	if err != nil {
		panic(fmt.Sprint("udfgate-batch: ", v))
	}
	return n
}

// quiet is the log of tests that provoke errors.
var quiet = slog.New(slog.DiscardHandler)

// toldBill is the app_metadata of an answer under udfgate-bill: batch.
type toldBill struct {
	Bill udfgate.Bill `json:"bill"`
	App  string       `json:"app"`
}

func batchBill(t *testing.T, appMetadata []byte) toldBill {
	t.Helper()
	var told toldBill
	if err := json.Unmarshal(appMetadata, &told); err != nil {
		t.Fatalf("app_metadata %q: %v", appMetadata, err)
	}
	return told
}
