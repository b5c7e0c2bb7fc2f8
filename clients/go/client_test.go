package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"
	"github.com/udfgate/udfgate"
	client "github.com/udfgate/udfgate/clients/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

func TestCall(t *testing.T) {
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	c := connect(t, shared.addr, client.WithMetadata("traceparent", "00-"+trace+"-00f067aa0ba902b7-01"))
	var billed *udfgate.Bill
	result, err := c.Call(t.Context(), "double", batch(1, 2), client.WithBill(func(b *udfgate.Bill) { billed = b }))
	if err != nil {
		t.Fatal(err)
	}
	defer result.Batch.Release()
	if d := cmp.Diff([]int64{2, 4}, values(result.Batch)); d != "" {
		t.Error(d)
	}
	if result.Errors != nil {
		t.Errorf("errors = %v, nobody asked for them", result.Errors)
	}
	b := result.Bill
	if b == nil || b != billed || b.Rows != 2 || b.WallNS <= 0 || b.BodyNS > b.WallNS {
		t.Errorf("bill = %+v, told %+v", b, billed)
	}
	if b != nil && b.Trace != trace {
		t.Errorf("trace = %q: the header did not arrive", b.Trace)
	}
}

func TestCall_noRows(t *testing.T) {
	result, err := connect(t, shared.addr).Call(t.Context(), "double", batch())
	if err != nil || result.Batch.NumRows() != 0 {
		t.Errorf("result = %v, %v", result, err)
	}
}

// One client carries many calls at once.
func TestCall_concurrent(t *testing.T) {
	c := connect(t, shared.addr)
	var group sync.WaitGroup
	for i := range 32 {
		group.Go(func() {
			r, err := c.Call(t.Context(), "double", batch(int64(i)), client.WithMetadata("x-call", fmt.Sprint(i)))
			if err != nil {
				t.Error(err)
			} else if got := values(r.Batch)[0]; got != int64(2*i) {
				t.Errorf("call %d = %d", i, got)
			}
		})
	}
	group.Wait()
}

// A batch of another schema is not sent.
func TestSend_otherSchema(t *testing.T) {
	s, err := connect(t, shared.addr).Stream(t.Context(), "double", arrow.NewSchema(
		[]arrow.Field{{Name: "a", Type: arrow.BinaryTypes.String}}, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Send(batch(1)); err == nil || !strings.HasPrefix(err.Error(), "double: send: ") {
		t.Errorf("error = %v", err)
	}
}

// The call's deadline reaches the gateway, which stops the body; a call's own
// limit stands over the client's.
func TestTimeout(t *testing.T) {
	c := connect(t, shared.addr, client.WithTimeout(50*time.Millisecond))
	_, err := c.Call(t.Context(), "nap", batch(600_000))
	if !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), "nap: ") {
		t.Errorf("error = %v", err)
	}
	if _, err := c.Call(t.Context(), "nap", batch(100), client.WithTimeout(time.Minute)); err != nil {
		t.Errorf("a longer limit of the call's own: %v", err)
	}
	if _, err := c.Call(t.Context(), "nap", batch(100), client.WithTimeout(0)); err != nil {
		t.Errorf("no limit of the call's own: %v", err)
	}
}

func TestChunkTimeout(t *testing.T) {
	c := connect(t, shared.addr, client.WithChunkTimeout(50*time.Millisecond))
	detail := ""
	for tries := 0; !strings.Contains(detail, "in nap") && tries < 20; tries++ { // a busy worker may not come to it, or to speak of it, in time
		_, err := c.Call(t.Context(), "nap", batch(600_000))
		e, ok := errors.AsType[*client.Error](err)
		if !ok || e.Reason != udfgate.Timeout || e.Message != "nap: timeout after 50ms (udfgate-timeout)" {
			t.Fatalf("error = %+v", err)
		}
		detail = e.Detail
	}
	if !strings.Contains(detail, "in nap") {
		t.Errorf("no Python stack: %q", detail)
	}
	if _, err := c.Call(t.Context(), "nap", batch(100), client.WithChunkTimeout(0)); err != nil {
		t.Errorf("without the client's limit: %v", err)
	}
}

func TestOnError(t *testing.T) {
	c := connect(t, shared.addr, client.WithOnError(udfgate.OnErrorNull))
	result, err := c.Call(t.Context(), "picky", batch(1, -2, 3))
	if err != nil {
		t.Fatal(err)
	}
	column := result.Batch.Column(0)
	if column.IsNull(0) || !column.IsNull(1) || result.Errors != nil || result.Bill.RowsFailed != 1 {
		t.Errorf("null: %v, errors %v, %d rows failed", column, result.Errors, result.Bill.RowsFailed)
	}

	result, err = c.Call(t.Context(), "picky", batch(1, -2, 3), client.WithOnError(udfgate.OnErrorReject))
	if err != nil {
		t.Fatal(err)
	}
	if n := result.Batch.NumCols(); n != 2 || result.Errors == nil {
		t.Fatalf("reject: %d columns, errors %v", n, result.Errors)
	}
	if !result.Batch.Column(0).IsNull(1) || !result.Errors.IsNull(0) || result.Errors.Value(1) != "ValueError: -2 is negative" {
		t.Errorf("reject: %v, errors %v", result.Batch.Column(0), result.Errors)
	}
	if result, err = c.Call(t.Context(), "picky", batch(1), client.WithOnError(udfgate.OnErrorReject)); err != nil {
		t.Error(err)
	} else if result.Errors == nil || result.Errors.NullN() != 1 {
		t.Errorf("reject, no row failed: errors %v", result.Errors)
	}

	if _, err := c.Call(t.Context(), "picky", batch(1, -2), client.WithOnError(udfgate.OnErrorFail)); client.ReasonOf(err) != udfgate.UserError {
		t.Errorf("fail: %v", err)
	}
	if _, err := c.Call(t.Context(), "picky", batch(1), client.WithOnError("shrug")); client.ReasonOf(err) != udfgate.Invalid {
		t.Errorf("unknown: %v", err)
	}
}

func TestErrors(t *testing.T) {
	c := connect(t, shared.addr)
	s, err := c.Stream(t.Context(), "picky", schema)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, b := range []arrow.RecordBatch{batch(1), batch(2, -3)} {
		if err := s.Send(b); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Recv(); err != nil {
		t.Fatal(err)
	}
	_, err = s.Recv()
	e, ok := errors.AsType[*client.Error](err)
	if !ok {
		t.Fatalf("error = %v", err)
	}
	if e.ErrorID == "" || !strings.Contains(e.Detail, "in picky") {
		t.Errorf("error id %q, detail %q", e.ErrorID, e.Detail)
	}
	want := &client.Error{
		Code: codes.InvalidArgument, Reason: udfgate.UserError, Function: "picky", Row: 1, Batch: 1,
		Exception: "ValueError", Message: "picky: row 1: ValueError: -3 is negative", ErrorID: e.ErrorID, Detail: e.Detail,
	}
	if d := cmp.Diff(want, e); d != "" {
		t.Error(d)
	}
	if got := fmt.Sprintf("%v|%q", e, e); got != e.Message+`|"`+e.Message+`"` {
		t.Errorf("texts = %s", got)
	}
	if got := fmt.Sprintf("%+v", e); got != e.Message+"\n"+e.Detail {
		t.Errorf("text = %s", got)
	}
	if client.Retryable(err) || errors.Is(err, client.ErrUnreachable) {
		t.Error("a raise does not go away by itself")
	}
	if b := s.Bill(); b == nil || b.RowsFailed != 1 {
		t.Errorf("bill = %+v", b)
	}
	if _, again := s.Recv(); !errors.Is(again, err) {
		t.Errorf("after the end: %v", again)
	}
}

func TestErrors_retryable(t *testing.T) {
	c := connect(t, shared.addr)
	_, err := c.Call(t.Context(), "crash", batch(1))
	if client.ReasonOf(err) != udfgate.WorkerLost || !client.Retryable(err) {
		t.Errorf("worker lost: %v, retryable %t", err, client.Retryable(err))
	}
	for _, err := range []error{client.ErrUnreachable, client.ErrNotReady, fmt.Errorf("x: %w", err)} {
		if !client.Retryable(err) {
			t.Errorf("%v may go away", err)
		}
	}
	if err := errors.New("x"); client.Retryable(err) || client.ReasonOf(err) != "" || client.Retryable(nil) {
		t.Error("other errors are not the gateway's")
	}
}

func TestFunctions(t *testing.T) {
	c := connect(t, shared.addr, client.WithTimeout(time.Minute))
	list, err := c.Functions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range list {
		names = append(names, f.Name)
	}
	if d := cmp.Diff([]string{"gcd", "double", "picky", "nap", "hold", "crash", "series", "halves", "naps"}, names); d != "" {
		t.Error(d)
	}
	f, err := c.Function(t.Context(), "gcd")
	if err != nil {
		t.Fatal(err)
	}
	if got := f.Signature(); got != "gcd(a int64, b int64) -> int64" {
		t.Errorf("signature = %s", got)
	}
	if f.Mode != "row" || f.Volatility != "volatile" || len(f.Version) != 12 || f.Schema().NumFields() != 2 {
		t.Errorf("function = %+v", f)
	}
	_, err = c.Function(t.Context(), "dubble")
	if client.ReasonOf(err) != udfgate.NotFound || !strings.Contains(err.Error(), "double") {
		t.Errorf("error = %v", err)
	}
}

func TestReady(t *testing.T) {
	c := connect(t, shared.addr)
	for _, name := range []string{"", "gcd", "functions.gcd"} {
		if err := c.Ready(t.Context(), name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	err := c.Ready(t.Context(), "dubble")
	if client.ReasonOf(err) != udfgate.NotFound || err.Error() != `no function "dubble"` {
		t.Errorf("error = %v", err)
	}
}

func TestConnect_nobodyThere(t *testing.T) {
	for _, addr := range []string{
		"unix:" + filepath.Join(t.TempDir(), "s"),
		"grpc+tls://127.0.0.1:1",
		"dns:///127.0.0.1:1",
	} {
		_, err := client.Connect(t.Context(), addr)
		if !errors.Is(err, client.ErrUnreachable) || !client.Retryable(err) || !strings.HasPrefix(err.Error(), "connect "+addr+": gateway not reached: ") {
			t.Errorf("%s: error = %v", addr, err)
		}
	}
}

// Whoever listens but never says a word must not hold Connect beyond its context.
func TestConnect_silence(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := client.Connect(ctx, lis.Addr().String()); !errors.Is(err, client.ErrUnreachable) {
		t.Errorf("error = %v", err)
	}
}

func TestConnect_addresses(t *testing.T) {
	_, port, err := net.SplitHostPort(shared.addr)
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range []string{"grpc://" + shared.addr, "grpc+tcp://" + shared.addr + "/", "http://" + shared.addr, "dns:///127.0.0.1:" + port} {
		c := connect(t, addr)
		if c.Addr() != addr {
			t.Errorf("addr = %s", c.Addr())
		}
		if _, err := c.Call(t.Context(), "double", batch(1)); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
	}
	socket := "unix:" + filepath.Join(scratch, "s")
	serve(t, "testdata/functions.py", socket)
	for _, addr := range []string{socket, "grpc+" + socket, strings.Replace("grpc+"+socket, ":", "://", 1)} {
		if _, err := connect(t, addr).Call(t.Context(), "double", batch(1)); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

// The caller's dial options stand over the package's own.
func TestDialOptions(t *testing.T) {
	c := connect(t, shared.addr, client.WithDialOptions(grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(1000))))
	if _, err := c.Call(t.Context(), "double", batch(make([]int64, 10)...)); err != nil {
		t.Error(err)
	}
	_, err := c.Call(t.Context(), "double", batch(make([]int64, 1000)...))
	if err == nil || !strings.Contains(err.Error(), "1000") {
		t.Errorf("error = %v", err)
	}
}
