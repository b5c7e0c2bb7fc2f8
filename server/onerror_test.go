package server

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/codec"
)

const sevenText = "ValueError: seven"

// sevens answers its first column as a worker's answer is taken. Sevens fail.
func sevens(_ context.Context, call *udfgate.Call, in *codec.Batch) (*codec.Answer, error) {
	values, texts := array.NewInt64Builder(memory.DefaultAllocator), array.NewStringBuilder(memory.DefaultAllocator)
	body := in.Slot.Bytes()[in.Columns[0].Values.Off:]
	for row := range in.Rows {
		v := int64(binary.LittleEndian.Uint64(body[8*row:]))
		switch {
		case v == 7 && !call.OnError.KeepsGoing():
			return nil, &udfgate.Error{Reason: udfgate.UserError, Function: "picky", Row: row, Exception: "ValueError", Message: sevenText}
		case v == 7:
			values.AppendNull()
			texts.Append(sevenText)
			call.RowsFailed++
		default:
			values.Append(v)
			texts.AppendNull()
		}
	}
	var region []byte
	columns := [2]codec.ResultColumn{}
	for i, a := range []arrow.Array{values.NewArray(), texts.NewArray()} {
		columns[i] = codec.ResultColumn{Form: codec.FormArrow, Nulls: int64(a.NullN())}
		for _, b := range a.Data().Buffers() {
			for len(region)%8 != 0 {
				region = append(region, 0)
			}
			columns[i].Buffers = append(columns[i].Buffers, codec.Buffer{Offset: int64(len(region)), Length: int64(b.Len())})
			region = append(region, b.Bytes()...)
		}
	}
	return codec.TakeFailing(call.Function.Result, in.Rows, 8, &columns[0], &columns[1], region, codec.AnswerLimits{BytesMax: 1 << 30})
}

// failing starts a gateway that serves sevens, as picky, with an option of its own.
func failing(t *testing.T, c Config, own udfgate.OnError) *gateway {
	g := start(t, c, map[string]body{"picky": sevens})
	f := g.table.Functions()[0] // nobody has asked for it yet
	f.OnError, f.Result.Nullable = own, false
	return g
}

// columns receives an answer: the values, null as "", and the error texts, nil
// without that column.
func (c *call) columns() (values, texts []string) {
	c.t.Helper()
	if _, err := c.receive(); err != nil {
		c.t.Fatalf("%v %v", err, c.rpc.Trailer())
	}
	read := func(a arrow.Array) []string {
		out := []string{}
		for i := range a.Len() {
			if a.IsNull(i) {
				out = append(out, "")
			} else {
				out = append(out, a.ValueStr(i))
			}
		}
		return out
	}
	b := c.read.RecordBatch()
	values = read(b.Column(0))
	if b.NumCols() > 1 {
		texts = read(b.Column(1))
	}
	return values, texts
}

func same(t *testing.T, what string, got []string, want string) {
	t.Helper()
	if strings.Join(got, ",") != want {
		t.Errorf("%s: got %q, wanted %q", what, got, want)
	}
}

// plainField is the result where no row may be null.
const plainField = "picky: type=int64"

// decisions are what the function says and what the call says, and what becomes
// of them.
var decisions = []struct {
	own    udfgate.OnError
	header string
	fields string
	fails  bool
}{
	{"", "", plainField, true},
	{udfgate.OnErrorFail, "fail", plainField, true},
	{"", "null", plainField + ", nullable", false},
	{"", "reject", plainField + ", nullable|error: type=utf8, nullable", false},
	{udfgate.OnErrorNull, "", plainField + ", nullable", false},
	{udfgate.OnErrorNull, "fail", plainField + ", nullable", true},
	{udfgate.OnErrorNull, "reject", plainField + ", nullable|error: type=utf8, nullable", false},
	{udfgate.OnErrorReject, "", plainField + ", nullable", false}, // its callers know one field
	{udfgate.OnErrorReject, "null", plainField + ", nullable", false},
	{udfgate.OnErrorReject, "reject", plainField + ", nullable|error: type=utf8, nullable", false},
}

func TestOnErrorDecides(t *testing.T) {
	for _, c := range decisions {
		t.Run(string(c.own)+"/"+c.header, func(t *testing.T) {
			g := failing(t, Config{Logger: quiet}, c.own)
			var headers []string
			if c.header != "" {
				headers = []string{"udfgate-on-error", c.header}
			}
			x := g.open("picky", headers...)
			x.send(ints(1, 2))
			x.send(ints())
			x.send(ints(7, 3, 7))
			x.send(ints(9))
			values, texts := x.columns()
			same(t, "good values", values, "1,2")
			rejects := c.header == "reject"
			if rejects != (texts != nil) {
				t.Fatalf("error column %v", texts)
			}
			if rejects {
				same(t, "texts of good rows", texts, ",")
			}
			values, texts = x.columns()
			if len(values) != 0 || len(texts) != 0 || rejects != (texts != nil) {
				t.Errorf("no rows: got %v %v", values, texts)
			}
			var fields []string
			for _, f := range x.read.Schema().Fields() {
				fields = append(fields, f.String())
			}
			same(t, "schema", fields, strings.ReplaceAll(c.fields, "|", ","))
			if c.fails {
				x.failure("InvalidArgument", udfgate.UserError, "picky: row 0: ValueError: seven")
				if b := x.bill(); b.Rows != 3 || b.RowsFailed != 1 || batchOf(x.rpc.Trailer()) != 2 {
					t.Errorf("bill %s", b.JSON())
				}
				return
			}
			values, texts = x.columns()
			same(t, "values", values, ",3,")
			if rejects {
				same(t, "texts", texts, sevenText+",,"+sevenText)
			}
			values, _ = x.columns()
			same(t, "values after", values, "9")
			if b := x.finish(); b.Rows != 6 || b.RowsFailed != 2 || b.Crossings != 3 {
				t.Errorf("bill %s", b.JSON())
			}
			g.awaitStreams(0)
			_, got := g.get("/metrics", "")
			for _, line := range []string{
				`udfgate_rows_total{function="picky",outcome="failed",path="python"} 2`,
				`udfgate_rows_total{function="picky",outcome="ok",path="python"} 4`,
				`udfgate_calls_total{dialect="flight",function="picky",outcome="ok",path="python"} 1`,
			} {
				if !strings.Contains(got, line) {
					t.Errorf("no %s in the metrics", line)
				}
			}
		})
	}
}

// A backend makes no texts that no caller would see: the function's own reject
// answers no errors.
func TestOnErrorAsksForNoTextsInVain(t *testing.T) {
	asked := make(chan udfgate.OnError, 1)
	g := start(t, Config{}, map[string]body{"picky": func(ctx context.Context, call *udfgate.Call, in *codec.Batch) (*codec.Answer, error) {
		asked <- call.OnError
		return sevens(ctx, call, in)
	}})
	g.table.Functions()[0].OnError = udfgate.OnErrorReject
	for header, want := range map[string]udfgate.OnError{"": udfgate.OnErrorNull, "null": udfgate.OnErrorNull, "reject": udfgate.OnErrorReject} {
		var headers []string
		if header != "" {
			headers = []string{"udfgate-on-error", header}
		}
		x := g.open("picky", headers...)
		x.send(ints(1))
		x.columns()
		x.finish()
		if got := <-asked; got != want {
			t.Errorf("%q: the backend was asked for %q, wanted %q", header, got, want)
		}
	}
}

// The schema goes out at once and is that of the call, also where no batch
// comes; a FlightInfo knows of the function alone.
func TestOnErrorSchemas(t *testing.T) {
	for own, nullable := range map[udfgate.OnError]bool{"": false, udfgate.OnErrorNull: true, udfgate.OnErrorReject: true} {
		g := failing(t, Config{}, own)
		c := g.open("picky", "udfgate-on-error", "reject")
		c.finish()
		if n := c.read.Schema().NumFields(); n != 2 {
			t.Errorf("%d fields, wanted 2", n)
		}
		info, err := g.client.GetFlightInfo(t.Context(), &flight.FlightDescriptor{Type: flight.DescriptorPATH, Path: []string{"picky"}})
		if err != nil {
			t.Fatal(err)
		}
		schema, err := flight.DeserializeSchema(info.Schema, memory.DefaultAllocator)
		if err != nil {
			t.Fatal(err)
		}
		if schema.NumFields() != 2 || schema.Field(1).Nullable != nullable || schema.Field(1).Name != "picky" {
			t.Errorf("option %q: got %v", own, schema)
		}
	}
}

func TestOnErrorBatchBill(t *testing.T) {
	g := failing(t, Config{}, "")
	c := g.open("picky", "udfgate-on-error", "null", "udfgate-bill", "batch")
	c.send(ints(7, 1, 7))
	c.columns()
	if b := batchBill(t, c.read.LatestAppMetadata()).Bill; b.Rows != 3 || b.RowsFailed != 2 {
		t.Errorf("bill %s", b.JSON())
	}
	c.finish()
}

// Answers that their error texts make too large are refused by the limit's
// name; those before have gone out.
func TestOnErrorColumnOverTheLimit(t *testing.T) {
	const limit = 64 << 10
	g := failing(t, Config{MessageBytesMax: limit, Logger: quiet}, "")
	many := make([]int64, 6000)
	for i := range many {
		many[i] = 7
	}
	c := g.open("picky", "udfgate-on-error", "reject")
	c.send(ints(7))
	c.send(ints(many...))
	values, texts := c.columns()
	same(t, "values", values, "")
	same(t, "texts", texts, sevenText)
	c.failure("ResourceExhausted", udfgate.Invalid, "--max-message-bytes 65536; send smaller batches")
	c = g.open("picky", "udfgate-on-error", "null")
	c.send(ints(many...))
	if values, _ := c.columns(); len(values) != len(many) {
		t.Errorf("%d rows", len(values))
	}
	c.finish()
}

func TestTimeoutHeader(t *testing.T) {
	var seen udfgate.Call
	g := start(t, Config{}, map[string]body{"echo": func(ctx context.Context, c *udfgate.Call, in *codec.Batch) (*codec.Answer, error) {
		seen = udfgate.Call{TimeoutNS: c.TimeoutNS, TimeoutName: c.TimeoutName, OnError: c.OnError}
		return echo(ctx, c, in)
	}})
	for _, headers := range [][]string{{"udfgate-timeout", "1m30.5s"}, nil} {
		c := g.open("echo", headers...)
		c.send(ints(1))
		c.want(1)
		c.finish()
		want := udfgate.Call{}
		if headers != nil {
			want = udfgate.Call{TimeoutNS: int64(90500 * time.Millisecond), TimeoutName: "udfgate-timeout"}
		}
		if seen.TimeoutNS != want.TimeoutNS || seen.TimeoutName != want.TimeoutName || seen.OnError.KeepsGoing() {
			t.Errorf("%v: got %+v", headers, seen)
		}
	}
}

// Without bills answers are the same, and nothing of the call is noted down.
func TestBillOff(t *testing.T) {
	g := failing(t, Config{BillOff: true, Logger: quiet}, udfgate.OnErrorNull)
	c := g.open("picky")
	c.send(ints(7, 1))
	values, _ := c.columns()
	same(t, "values", values, ",1")
	c.closeSend()
	if _, err := c.receive(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	c2 := g.open("picky", "udfgate-on-error", "fail")
	c2.send(ints(7))
	c2.failure("InvalidArgument", udfgate.UserError, "row 0")
	for _, c := range []*call{c, c2} {
		if bill := c.rpc.Trailer().Get("udfgate-bill"); bill != nil {
			t.Errorf("a bill: %v", bill)
		}
	}
	g.open("picky", "udfgate-bill", "batch").failure("InvalidArgument", udfgate.Invalid,
		"udfgate-bill: no bills are written here, by UDFGATE_DEBUG=bill=off; leave the header out (clients that tell the end of a table by its bill cannot call one here)")
	g.awaitStreams(0)
	if _, text := g.get("/metrics", ""); strings.Contains(text, `udfgate_calls_total{`) || strings.Contains(text, `udfgate_chunk_rows_count{function="picky"} 1`) {
		t.Error("the calls were counted")
	}
}
