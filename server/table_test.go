package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/codec"
	"github.com/udfgate/udfgate/internal/clock"
	"github.com/udfgate/udfgate/internal/seed"
)

type deliver = func(part *codec.Answer, last bool) error

// table is a table function in tests, in place of a pool.
type table func(ctx context.Context, call *udfgate.Call, in *codec.Batch, deliver deliver) error

func (b *backend) InvokeTable(ctx context.Context, call *udfgate.Call, in *codec.Batch, deliver deliver) error {
	call.Attempts, call.Worker = 1, "test:1"
	return b.tables[call.Function.Name](ctx, call, in, func(part *codec.Answer, last bool) error {
		call.Crossings++
		call.ResultBytes += int64(len(part.Body.Bytes()))
		return deliver(part, last)
	})
}

func startTables(t *testing.T, c Config, tables map[string]table) *gateway {
	t.Helper()
	return startBackend(t, c, &backend{slots: codec.NewStore(codec.StoreConfig{}), tables: tables})
}

// part is rows of a table of int64: the input row of each, and its value.
func part(rows []int32, values []int64) *codec.Answer {
	at := (4*len(rows) + 63) / 64 * 64
	block := codec.NewBlock(at + 8*len(values))
	body := block.Bytes()
	clear(body)
	for i, row := range rows {
		binary.LittleEndian.PutUint32(body[4*i:], uint32(row))
		binary.LittleEndian.PutUint64(body[at+8*i:], uint64(values[i]))
	}
	n := int64(len(rows))
	return &codec.Answer{
		Rows: n, Body: block,
		Nodes:   []codec.Node{{Length: n}, {Length: n}},
		Buffers: []codec.Buffer{{}, {Length: 4 * n}, {}, {Offset: int64(at), Length: 8 * n}},
	}
}

// column is the values of a batch.
func inputs(in *codec.Batch) []int64 {
	v := in.Slot.Bytes()[in.Columns[0].Values.Off:]
	values := make([]int64, in.Rows)
	for i := range values {
		values[i] = int64(binary.LittleEndian.Uint64(v[8*i:]))
	}
	return values
}

// series yields 0 to n-1 for each input n, in parts of size rows.
func series(size int) table {
	return func(_ context.Context, _ *udfgate.Call, in *codec.Batch, deliver deliver) error {
		var rows []int32
		var values []int64
		for row, n := range inputs(in) {
			for v := range n {
				if len(rows) == size {
					if err := deliver(part(rows, values), false); err != nil {
						return err
					}
					rows, values = rows[:0], values[:0]
				}
				rows, values = append(rows, int32(row)), append(values, v)
			}
		}
		return deliver(part(rows, values), true)
	}
}

// gotPart is a part as the client sees it: "row:value …".
func (c *call) part() (text string, app []byte, err error) {
	c.t.Helper()
	if c.read == nil {
		if c.read, err = flight.NewRecordReader(c.rpc); err != nil {
			return "", nil, err
		}
	}
	if !c.read.Next() {
		if err := c.read.Err(); err != nil {
			return "", nil, err
		}
		return "", nil, io.EOF
	}
	b := c.read.RecordBatch()
	rows, _ := b.Column(0).(*array.Int32)
	var all []string
	for i := range int(b.NumRows()) {
		s := fmt.Sprint(rows.Value(i), ":", b.Column(1).ValueStr(i))
		if b.NumCols() > 2 {
			s += ":" + b.Column(2).ValueStr(i)
		}
		all = append(all, s)
	}
	return strings.Join(all, " "), slices.Clone(c.read.LatestAppMetadata()), nil
}

// parts receives parts and compares them.
func (c *call) parts(want ...string) {
	c.t.Helper()
	for _, w := range want {
		got, _, err := c.part()
		if err != nil || got != w {
			c.t.Fatalf("wanted %q, got %q %v %v", w, got, err, c.rpc.Trailer())
		}
	}
}

// endOfParts half-closes, reads to the end and returns the bill.
func (c *call) endOfParts() udfgate.Bill {
	c.t.Helper()
	c.closeSend()
	if got, _, err := c.part(); !errors.Is(err, io.EOF) {
		c.t.Fatalf("wanted the end, got %q %v", got, err)
	}
	return c.bill()
}

func (c *call) sendApp(app string, values ...int64) {
	c.t.Helper()
	if err := c.write.WriteWithAppMetadata(ints(values...), []byte(app)); err != nil {
		c.t.Fatal(err)
	}
}

func TestTableAnswersInParts(t *testing.T) {
	g := startTables(t, Config{}, map[string]table{"series": series(2)})
	info, err := g.client.GetFlightInfo(t.Context(), path("series"))
	if err != nil {
		t.Fatal(err)
	}
	schema, err := flight.DeserializeSchema(info.GetSchema(), nil)
	if err != nil {
		t.Fatal(err)
	}
	kind, _ := schema.Metadata().GetValue("udfgate-kind")
	if fields := fmt.Sprint(schema.Fields()); info.GetTotalRecords() != 1 || kind != "table" ||
		fields != "[a: type=int64 row: type=int32 series: type=int64, nullable]" {
		t.Errorf("info: %d inputs, kind %q, %s", info.GetTotalRecords(), kind, fields)
	}
	c := g.open("series")
	c.sendApp("x", 3, 0, 1)
	c.send(ints())
	c.send(ints(0))
	c.send(ints(4))
	c.closeSend()
	for _, want := range []struct{ part, app string }{
		{"0:0 0:1", "x"}, {"0:2 2:0", "x"}, {"", ""}, {"", ""}, {"0:0 0:1", ""}, {"0:2 0:3", ""},
	} {
		got, app, err := c.part()
		if err != nil || got != want.part || string(app) != want.app {
			t.Fatalf("wanted %q, got %q with app_metadata %q, %v", want, got, app, err)
		}
	}
	if _, _, err := c.part(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	b := c.bill()
	if b.Rows != 5 || b.Batches != 4 || b.Crossings != 5 || b.Attempts != 3 || b.RowsFailed != 0 || b.BytesOut < 6*100 ||
		b.ResultBytes < 8*8 || b.ConvGatewayNS == 0 {
		t.Errorf("bill %s", b.JSON())
	}
	if fields := fmt.Sprint(c.read.Schema().Fields()); fields != "[row: type=int32 series: type=int64, nullable]" {
		t.Errorf("answers have %s", fields)
	}
}

// Bills add up to the nanosecond, that of the call and those of its batches,
// whatever a backend notes down while parts go out.
func TestTableBillsAddUp(t *testing.T) {
	source := seed.Rand(t).Uint64()
	wild := func(ctx context.Context, call *udfgate.Call, in *codec.Batch, deliver deliver) error {
		own := rand.New(rand.NewPCG(source, uint64(call.Batch)))
		return series(3)(ctx, call, in, func(p *codec.Answer, last bool) error {
			for range own.IntN(8) {
				at := call.Timeline.From + own.Int64N(2_000_000) - 500_000
				call.Timeline.Add(udfgate.State(own.IntN(10)), at, at+own.Int64N(1_000_000)-100_000)
			}
			if err := sleep(ctx, time.Duration(own.IntN(500))*time.Microsecond); err != nil {
				return err
			}
			call.Work.BodyNS += 1000
			call.SlotBytes += 64
			return deliver(p, last)
		})
	}
	g := startTables(t, Config{}, map[string]table{"wild": wild})
	for _, lockStep := range []bool{true, false} {
		c := g.open("wild", "udfgate-bill", "batch")
		batches := [][]int64{{5, 0, 6}, {10}, {1, 1, 1, 1, 1}}
		app := []string{"first", "", "third"}
		if !lockStep {
			for i, values := range batches {
				c.sendApp(app[i], values...)
			}
		}
		var all udfgate.Bill
		for i, values := range batches {
			if lockStep {
				c.sendApp(app[i], values...)
			}
			for n := 0; ; n++ {
				_, meta, err := c.part()
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(string(meta), `"bill"`) {
					if want := map[string]string{"first": `{"app":"Zmlyc3Q="}`, "third": `{"app":"dGhpcmQ="}`, "": ""}[app[i]]; string(meta) != want {
						t.Errorf("batch %d: app_metadata %q, wanted %q", i, meta, want)
					}
					continue
				}
				told := batchBill(t, meta)
				checkIdentity(t, &told.Bill)
				b := &told.Bill
				if int(b.Crossings) != n+1 || b.Rows != int64(len(values)) || b.Batches != 1 || b.Work.BodyNS != 1000*b.Crossings ||
					b.SlotBytes != 64*b.Crossings || b.Attempts != 1 || b.BytesOut < 100*b.Crossings || b.WallNS <= 0 {
					t.Errorf("batch %d, %d parts: bill %s", i, n+1, b.JSON())
				}
				all.WallNS += b.WallNS
				all.Crossings += b.Crossings
				all.BytesOut += b.BytesOut
				all.SlotBytes += b.SlotBytes
				all.ResultBytes += b.ResultBytes
				break
			}
		}
		b := c.endOfParts()
		// The work alone may be dropped from a trailer that is long.
		if b.Crossings != all.Crossings || b.BytesOut != all.BytesOut || b.SlotBytes != all.SlotBytes || b.ResultBytes != all.ResultBytes ||
			b.WallNS < all.WallNS || b.Rows != 9 || b.Batches != 3 || b.Attempts != 3 {
			t.Errorf("bill %s\nbatches %s", b.JSON(), all.JSON())
		}
	}
}

// A batch begins once the one before it has been answered, however far its
// client writes ahead.
func TestTableBatchesRunOneByOne(t *testing.T) {
	var running, most atomic.Int64
	g := startTables(t, Config{Window: WindowMax}, map[string]table{"series": func(ctx context.Context, call *udfgate.Call, in *codec.Batch, deliver deliver) error {
		defer running.Add(-1)
		if n := running.Add(1); n > most.Load() {
			most.Store(n)
		}
		return series(1)(ctx, call, in, func(p *codec.Answer, last bool) error {
			if last {
				running.Add(-1)
				defer running.Add(1) // the next may begin before this returns
			}
			return deliver(p, last)
		})
	}})
	c := g.open("series")
	for range 20 {
		c.send(ints(3))
	}
	for range 20 {
		c.parts("0:0", "0:1", "0:2")
	}
	c.endOfParts()
	if most.Load() != 1 {
		t.Errorf("%d batches ran at once", most.Load())
	}
}

// What has been sent stays sent when the body fails later.
func TestTableFailsAfterParts(t *testing.T) {
	g := startTables(t, Config{Logger: quiet}, map[string]table{"breaks": func(ctx context.Context, call *udfgate.Call, in *codec.Batch, deliver deliver) error {
		if call.Batch == 0 {
			return series(1)(ctx, call, in, deliver)
		}
		for i := range 3 {
			call.Counts = map[string]int64{"made": 1}
			if err := deliver(part([]int32{0}, []int64{int64(i)}), false); err != nil {
				return err
			}
		}
		call.Timeline.Add(udfgate.StateBody, call.Timeline.From, clock.Now())
		call.Counts = map[string]int64{"made": 100}
		return &udfgate.Error{Reason: udfgate.UserError, Row: 1, Exception: "ValueError", Message: "ValueError: bad"}
	}})
	c := g.open("breaks")
	c.send(ints(1))
	c.send(ints(1, 2, 3))
	c.send(ints(1))
	c.parts("0:0", "0:0", "0:1", "0:2")
	_, _, err := c.part()
	checkFailure(t, err, c.rpc.Trailer(), "InvalidArgument", udfgate.UserError, "breaks: row 1: ValueError: bad")
	b := c.bill()
	if batchOf(c.rpc.Trailer()) != 1 || b.Rows != 2 || b.RowsFailed != 1 || b.Batches != 2 || b.Crossings != 4 || b.BodyNS == 0 || b.Counters["made"] != 3 {
		t.Errorf("bill %s", b.JSON())
	}
}

// A backend that breaks the contract fails its call, and nothing else.
func TestTableBackendsThatAreWrong(t *testing.T) {
	g := startTables(t, Config{Logger: quiet}, map[string]table{
		"endless": func(_ context.Context, _ *udfgate.Call, _ *codec.Batch, deliver deliver) error {
			return deliver(part([]int32{0}, []int64{1}), false)
		},
		"again": func(_ context.Context, _ *udfgate.Call, _ *codec.Batch, deliver deliver) error {
			if err := deliver(part([]int32{0}, []int64{1}), true); err != nil {
				return err
			}
			if err := deliver(part([]int32{0}, []int64{2}), true); err == nil {
				panic("a second end was taken")
			}
			return errors.New("after the end")
		},
		"panics": func(context.Context, *udfgate.Call, *codec.Batch, deliver) error { panic("a bug") },
	})
	c := g.open("endless")
	c.send(ints(1))
	c.parts("0:1")
	_, _, err := c.part()
	checkFailure(t, err, c.rpc.Trailer(), "Internal", udfgate.Internal, "endless: the backend has answered no last part")
	c = g.open("panics")
	c.send(ints(1))
	_, _, err = c.part()
	checkFailure(t, err, c.rpc.Trailer(), "Internal", udfgate.Internal, "the gateway panicked: a bug")
	c = g.open("again")
	c.send(ints(1))
	c.parts("0:1")
	if b := c.endOfParts(); b.Rows != 1 {
		t.Errorf("bill %s", b.JSON())
	}
}

// rejecting answers rows as sevens does: a seven fails, in one part per row.
func rejecting(_ context.Context, call *udfgate.Call, in *codec.Batch, deliver deliver) error {
	values := inputs(in)
	for row, v := range values {
		p := part([]int32{int32(row)}, []int64{v})
		if v == 7 {
			if !call.OnError.KeepsGoing() {
				p.Release()
				return &udfgate.Error{Reason: udfgate.UserError, Row: int64(row), Message: sevenText}
			}
			one, err := codec.AllFailed(call.Function.Result, 1, sevenText, codec.AnswerLimits{BytesMax: 1 << 20})
			if err != nil {
				panic(err)
			}
			p.Errors, one.Errors = one.Errors, nil
			one.Release()
			body := p.Body.Bytes()
			p.Body.Resize(len(body) + 8)
			p.Body.Bytes()[len(body)] = 0
			p.Nodes[1].Nulls = 1
			p.Buffers[2] = codec.Buffer{Offset: int64(len(body)), Length: 1}
			call.RowsFailed++
		}
		if err := deliver(p, row == len(values)-1); err != nil {
			return err
		}
	}
	return nil
}

func TestTableOnError(t *testing.T) {
	const null = "(null)"
	for header, want := range map[string][]string{
		"null":   {"0:1", "1:" + null, "2:3"},
		"reject": {"0:1:" + null, "1:" + null + ":" + sevenText, "2:3:" + null},
		"fail":   {"0:1"},
	} {
		t.Run(header, func(t *testing.T) {
			g := startTables(t, Config{Logger: quiet}, map[string]table{"picky": rejecting})
			g.table.Functions()[0].Result.Nullable = false
			c := g.open("picky", "udfgate-on-error", header)
			c.send(ints(1, 7, 3))
			c.parts(want...)
			if header == "fail" {
				_, _, err := c.part()
				checkFailure(t, err, c.rpc.Trailer(), "InvalidArgument", udfgate.UserError, "picky: row 1: ValueError: seven")
				return
			}
			c.send(ints())
			c.parts("")
			if b := c.endOfParts(); b.Rows != 3 || b.RowsFailed != 1 || b.Crossings != 3 {
				t.Errorf("bill %s", b.JSON())
			}
			schema := "[row: type=int32 picky: type=int64, nullable"
			if header == "reject" {
				schema += " error: type=utf8, nullable"
			}
			if got := fmt.Sprint(c.read.Schema().Fields()); got != schema+"]" {
				t.Errorf("schema %s", got)
			}
		})
	}
}
