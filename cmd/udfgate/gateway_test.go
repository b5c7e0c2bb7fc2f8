package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/udfgate/udfgate"
	client "github.com/udfgate/udfgate/clients/go"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
)

// gate starts a gateway of this process over a file of functions, with real
// workers, and connects to it.
func gate(t *testing.T, source string) *client.Client {
	t.Helper()
	return dialed(t, open(t, source, timeoutDefault))
}

func dialed(t *testing.T, g *gateway) *client.Client {
	t.Helper()
	t.Cleanup(g.close)
	c, err := client.Connect(t.Context(), g.server.Addrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func open(t *testing.T, source string, timeout time.Duration) *gateway {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "functions.py")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := startGateway(t.Context(), settings{
		paths: []string{file}, python: "python3", workers: 2, cores: 2,
		log: slog.New(slog.DiscardHandler), listen: []string{"unix:" + filepath.Join(dir, "s")}, http: "127.0.0.1:0",
		timeout: timeout, queueTimeout: queueTimeoutDefault, startTimeout: startTimeoutDefault, drainTimeout: drainTimeoutDefault,
		maxQueue: maxQueueDefault, messageBytesMax: messageBytesMaxDefault, batchRowsMax: batchRowsMaxDefault,
		inflightBytesMax: 1 << 30,
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// kinds are the thirteen types with their edges, as arrow's JSON.
var kinds = []struct {
	kind arrow.DataType
	json string
}{
	{arrow.FixedWidthTypes.Boolean, `[true, null, false]`},
	{arrow.PrimitiveTypes.Int8, `[-128, null, 127, 0]`},
	{arrow.PrimitiveTypes.Int16, `[-32768, null, 32767, 0]`},
	{arrow.PrimitiveTypes.Int32, `[-2147483648, null, 2147483647]`},
	{arrow.PrimitiveTypes.Int64, `[-9223372036854775808, null, 9223372036854775807, 1]`},
	{arrow.PrimitiveTypes.Uint8, `[null, 255, 0]`},
	{arrow.PrimitiveTypes.Uint16, `[null, 65535, 0]`},
	{arrow.PrimitiveTypes.Uint32, `[null, 4294967295]`},
	{arrow.PrimitiveTypes.Uint64, `[null, 18446744073709551615, 9223372036854775808]`},
	{arrow.PrimitiveTypes.Float32, `[null, 0.1, -3.4028235e38, 1e-45]`},
	{arrow.PrimitiveTypes.Float64, `[null, 0.1, -1.7976931348623157e308, 5e-324]`},
	{arrow.BinaryTypes.String, `[null, "", "a", "é😀 \u0000", "null"]`},
	{arrow.BinaryTypes.Binary, `[null, "", "AAH/", "gICA"]`},
}

func identities() string {
	var source strings.Builder
	source.WriteString("from udfgate import udf\n")
	for _, k := range kinds {
		name := k.kind.String()
		fmt.Fprintf(&source, "@udf(input_types=[%q], result_type=%q)\ndef same_%s(v): return v\n", name, name, name)
	}
	return source.String()
}

// column repeats a few values until they fill several blocks of a worker.
func column(t *testing.T, kind arrow.DataType, json string, times int) arrow.RecordBatch {
	t.Helper()
	few, _, err := array.FromJSON(memory.DefaultAllocator, kind, strings.NewReader(json))
	if err != nil {
		t.Fatal(err)
	}
	parts := make([]arrow.Array, times)
	for i := range parts {
		parts[i] = few
	}
	many, err := array.Concatenate(parts, memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	schema := arrow.NewSchema([]arrow.Field{{Name: "v", Type: kind, Nullable: true}}, nil)
	return array.NewRecordBatch(schema, []arrow.Array{many}, int64(many.Len()))
}

func TestEveryType(t *testing.T) {
	c := gate(t, identities())
	for _, k := range kinds {
		t.Run(k.kind.String(), func(t *testing.T) {
			for _, times := range []int{0, 1, 2500} {
				in := column(t, k.kind, k.json, max(times, 1)).NewSlice(0, 0)
				if times > 0 {
					in = column(t, k.kind, k.json, times)
				}
				r, err := c.Call(t.Context(), "same_"+k.kind.String(), in)
				if err != nil {
					t.Fatal(err)
				}
				if !array.Equal(in.Column(0), r.Batch.Column(0)) {
					t.Fatalf("%d rows: wanted %.200s, got %.200s", in.NumRows(), in.Column(0), r.Batch.Column(0))
				}
				checkBill(t, r.Bill, in.NumRows())
			}
		})
	}
}

// A slice is sent as what it shows, not as what lies behind it.
func TestEveryType_sliced(t *testing.T) {
	c := gate(t, identities())
	for _, k := range kinds {
		in := column(t, k.kind, k.json, 100).NewSlice(3, 117)
		r, err := c.Call(t.Context(), "same_"+k.kind.String(), in)
		if err != nil {
			t.Fatalf("%s: %v", k.kind, err)
		}
		if !array.Equal(in.Column(0), r.Batch.Column(0)) {
			t.Errorf("%s: wanted %.200s, got %.200s", k.kind, in.Column(0), r.Batch.Column(0))
		}
	}
}

func checkBill(t *testing.T, b *udfgate.Bill, rows int64) {
	t.Helper()
	if b == nil {
		t.Fatal("no bill")
	}
	sum := b.QueueNS + b.CoalesceNS + b.StartNS + b.ConversionNS + b.CrossingNS + b.BodyNS + b.ReplyNS + b.OtherNS
	if sum != b.WallNS || b.WallNS <= 0 || b.Rows != rows {
		t.Errorf("phases add up to %d ns, wall is %d ns, %d rows (wanted %d): %s", sum, b.WallNS, b.Rows, rows, b.JSON())
	}
	if rows > 0 && (b.BodyNS <= 0 || b.CrossingNS <= 0 || b.ConversionNS <= 0 || b.Path != "python" || b.Dialect != "flight") {
		t.Errorf("bill: %s", b.JSON())
	}
}

const bodies = `from __future__ import annotations
import os, signal, time
from udfgate import udf

@udf
def double(v: int) -> int:
    return 2 * v

@udf
def picky(v: int) -> int:
    if v == 3:
        raise ValueError("no threes")
    return v

@udf
def misfit(v: int) -> int:
    return "text" if v == 2 else v

@udf
def leave(v: int) -> int:
    raise SystemExit(3)

@udf
def crash(v: int) -> int:
    os.kill(os.getpid(), signal.SIGSEGV)

@udf
def vanish(v: int) -> int:
    os.write(2, b"last words\n")
    os._exit(9)

@udf
def spin(v: int) -> int:
    while True:
        v += 1

@udf(timeout="200ms")
def brief(v: int) -> int:
    while True:
        v += 1

@udf
def slow(v: int) -> int:
    time.sleep(v / 1000)
    return v
`

func ints(values ...int64) arrow.RecordBatch {
	b := array.NewInt64Builder(memory.DefaultAllocator)
	b.AppendValues(values, nil)
	schema := arrow.NewSchema([]arrow.Field{{Name: "v", Type: arrow.PrimitiveTypes.Int64}}, nil)
	return array.NewRecordBatch(schema, []arrow.Array{b.NewArray()}, int64(len(values)))
}

// What can go wrong, by its status; the gateway goes on after each.
func TestFailures(t *testing.T) {
	patient, quick := dialed(t, open(t, bodies, timeoutDefault)), dialed(t, open(t, bodies, 400*time.Millisecond))
	for _, f := range []struct {
		name    string
		code    codes.Code
		reason  udfgate.Reason
		row     int64
		message string
		detail  string
	}{
		{"picky", codes.InvalidArgument, udfgate.UserError, 2, "picky: row 2: ValueError: no threes", "in picky"},
		{"misfit", codes.InvalidArgument, udfgate.UserError, 1, "misfit: row 1: TypeError: result: wanted int64, got str 'text'", ""},
		{"leave", codes.InvalidArgument, udfgate.UserError, 0, "leave: row 0: SystemExit: 3", ""},
		{"crash", codes.Aborted, udfgate.WorkerLost, udfgate.NoRow, "crash: worker lost: signal SIGSEGV", ""},
		{"vanish", codes.Aborted, udfgate.WorkerLost, udfgate.NoRow, "vanish: worker lost: exit status 9", "last words"},
		{"spin", codes.DeadlineExceeded, udfgate.Timeout, udfgate.NoRow, "spin: timeout after 400ms (--timeout)", "in spin"},
		{"brief", codes.DeadlineExceeded, udfgate.Timeout, udfgate.NoRow, "brief: timeout after 200ms (the function's timeout)", "in brief"},
		{"dubble", codes.NotFound, udfgate.NotFound, udfgate.NoRow, `no function "dubble": nearest names are "double"`, ""},
	} {
		t.Run(f.name, func(t *testing.T) {
			c := patient
			if f.name == "spin" {
				c = quick
			}
			var bill *udfgate.Bill
			var e *client.Error
			// Of the stacks of a body that is ended: a busy machine may not let the
			// worker come to it, or speak, in the time that it has.
			for tries := 0; tries == 0 || tries < 20 && e.Reason == udfgate.Timeout && !strings.Contains(e.Detail, f.detail); tries++ {
				_, err := c.Call(t.Context(), f.name, ints(1, 2, 3),
					client.WithBill(func(b *udfgate.Bill) { bill = b }))
				var ok bool
				if e, ok = errors.AsType[*client.Error](err); !ok {
					t.Fatalf("error = %v", err)
				}
			}
			if e.Code != f.code || e.Reason != f.reason || e.Row != f.row || e.Message != f.message || !strings.Contains(e.Detail, f.detail) {
				t.Errorf("got %s %s row %d\n%+v\nwanted %s %s row %d\n%s, with %q", e.Code, e.Reason, e.Row, e, f.code, f.reason, f.row, f.message, f.detail)
			}
			if (bill == nil) != (f.reason == udfgate.NotFound) {
				t.Errorf("bill = %v", bill)
			}
			r, err := c.Call(t.Context(), "double", ints(21))
			for tries := 1; c == quick && client.ReasonOf(err) == udfgate.Timeout && tries < 20; tries++ {
				r, err = c.Call(t.Context(), "double", ints(21))
			}
			if err != nil || r.Batch.Column(0).(*array.Int64).Value(0) != 42 {
				t.Errorf("the next call: %v", err)
			}
		})
	}
}

func TestWrongColumns(t *testing.T) {
	c := gate(t, bodies)
	schema := arrow.NewSchema([]arrow.Field{{Name: "v", Type: arrow.BinaryTypes.String}}, nil)
	s, err := c.Stream(t.Context(), "double", schema)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	_, err = s.Recv()
	e, ok := errors.AsType[*client.Error](err)
	if !ok || e.Reason != udfgate.Invalid || e.Code != codes.InvalidArgument || !strings.Contains(e.Message, "wanted int64, got utf8") {
		t.Errorf("error = %v", err)
	}
}

// Many batches in one call, written ahead: one answer each, in order, with a
// bill each; those before a failing batch are delivered.
func TestStream(t *testing.T) {
	c := gate(t, bodies)
	s, err := c.Stream(t.Context(), "picky", ints().Schema(), client.WithBatchBill())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const good = 50
	go func() {
		for i := range good {
			if s.Send(ints(int64(i+10), int64(i+11))) != nil {
				return
			}
		}
		_ = s.Send(ints(7, 3)) // the failing one
		_ = s.CloseSend()
	}()
	for i := range good {
		r, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Batch.Column(0).(*array.Int64).Value(1); got != int64(i+11) {
			t.Fatalf("answer %d = %d", i, got)
		}
		checkBill(t, r.Bill, 2)
	}
	_, err = s.Recv()
	e, ok := errors.AsType[*client.Error](err)
	if !ok || e.Row != 1 || e.Batch != good || e.Exception != "ValueError" {
		t.Errorf("error = %+v", err)
	}
	if b := s.Bill(); b == nil || b.Batches != good+1 {
		t.Errorf("bill = %+v", b)
	}
}

// A caller that goes away ends its call alone.
func TestCancel(t *testing.T) {
	c := gate(t, bodies)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Call(ctx, "spin", ints(1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error = %v", err)
	}
	if _, err := c.Call(t.Context(), "double", ints(1)); err != nil {
		t.Error(err)
	}
}

// The client's own limit ends the body too: more such calls than there are
// workers leave one free for the next.
func TestClientTimeout(t *testing.T) {
	c := gate(t, bodies)
	for range 3 {
		_, err := c.Call(t.Context(), "spin", ints(1), client.WithTimeout(100*time.Millisecond))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error = %v", err)
		}
	}
	if _, err := c.Call(t.Context(), "double", ints(1), client.WithTimeout(time.Minute)); err != nil {
		t.Error(err)
	}
}

// Draining lets a call in flight finish and takes no new one.
func TestDrain(t *testing.T) {
	g := open(t, bodies, timeoutDefault)
	defer g.close()
	c, err := client.Connect(t.Context(), g.server.Addrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := c.Stream(t.Context(), "slow", ints().Schema())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Send(ints(1)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); err != nil { // the call is under way
		t.Fatal(err)
	}
	if err := errors.Join(s.Send(ints(200)), s.CloseSend()); err != nil {
		t.Fatal(err)
	}
	drained := make(chan error, 1)
	go func() { drained <- g.drain(t.Context()) }()
	if _, err := s.Recv(); err != nil {
		t.Errorf("call in flight: %v", err)
	}
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("end of the call: %v", err)
	}
	if err := <-drained; err != nil {
		t.Errorf("drain: %v", err)
	}
	if _, err := c.Call(t.Context(), "double", ints(1)); err == nil {
		t.Error("a call after draining was answered")
	}
}

// An embedded gateway leaves no process, folder or goroutine behind.
func TestClose_leavesNothing(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	before := goleak.IgnoreCurrent()
	children := childProcesses(t)
	flags := clientFlags{Serve: []string{filepath.Join("..", "..", "examples", "flights.py")}, Python: "python3", StartTimeout: startTimeoutDefault}
	c, done, err := flags.connect(t.Context(), &console{err: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Functions(t.Context()); err != nil {
		t.Error(err)
	}
	if len(childProcesses(t)) <= len(children) {
		t.Error("wanted a worker process, got none")
	}
	done()
	if now := childProcesses(t); len(now) > len(children) {
		t.Errorf("processes left: %v", now)
	}
	if left, _ := filepath.Glob(filepath.Join(tmp, "*")); len(left) > 0 {
		t.Errorf("files left: %v", left)
	}
	goleak.VerifyNone(t, before)
}

// childProcesses are the processes whose parent is this one.
func childProcesses(t *testing.T) []string {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it ended meanwhile
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		if f := strings.Fields(rest); len(f) > 1 && f[1] == strconv.Itoa(os.Getpid()) {
			found = append(found, string(text))
		}
	}
	return found
}

// The HTTP side shows what pool and server have measured.
func TestHTTP(t *testing.T) {
	g := open(t, bodies, timeoutDefault)
	c := dialed(t, g)
	if _, err := c.Call(t.Context(), "double", ints(1, 2, 3)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/healthz": "",
		"/readyz":  "",
		"/metrics": "udfgate_worker_starts_total{pool=\"default\"} 1\n",
	} {
		status, body := get(t, "http://"+g.server.HTTPAddr()+path)
		if status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d\n%s\nwanted %s", path, status, body, want)
		}
	}
	_, metrics := get(t, "http://"+g.server.HTTPAddr()+"/metrics")
	for _, want := range []string{
		`udfgate_build_info{commit=`, `udfgate_workers{pool="default",state="idle"} 1`, `udfgate_rows_total{function="double",outcome="ok",path="python"} 3`,
		`udfgate_calls_total{dialect="flight",function="double",outcome="ok",path="python"} 1`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
}

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(text)
}
