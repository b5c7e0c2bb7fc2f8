package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"
	"github.com/udfgate/udfgate"
	client "github.com/udfgate/udfgate/clients/go"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

var (
	argField    = arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int64}
	resultField = arrow.Field{Name: "double", Type: arrow.PrimitiveTypes.Int64, Nullable: true}
	schema      = arrow.NewSchema([]arrow.Field{argField}, nil)
)

// fake speaks the gateway's side of the wire: double(a) doubles, raise(a)
// fails on its second batch, stall(a) never answers.
type fake struct {
	flight.BaseFlightServer
	mu      sync.Mutex
	headers metadata.MD
	left    time.Duration // of the last call's deadline; 0: it had none
}

func (f *fake) DoAction(_ *flight.Action, s flight.FlightService_DoActionServer) error {
	return s.Send(&flight.Result{Body: []byte{2}})
}

func (f *fake) ListFlights(_ *flight.Criteria, s flight.FlightService_ListFlightsServer) error {
	return s.Send(info())
}

func (f *fake) GetFlightInfo(_ context.Context, d *flight.FlightDescriptor) (*flight.FlightInfo, error) {
	if d.GetPath()[0] != "double" {
		return nil, problem(codes.NotFound, "NOT_FOUND", `no function "dubble": nearest names are "double"`, nil)
	}
	return info(), nil
}

func info() *flight.FlightInfo {
	md := arrow.MetadataFrom(map[string]string{"udfgate-mode": "row", "udfgate-volatility": "volatile", "udfgate-version": "0123456789ab"})
	return &flight.FlightInfo{
		Schema:           flight.SerializeSchema(arrow.NewSchema([]arrow.Field{argField, resultField}, &md), memory.DefaultAllocator),
		FlightDescriptor: &flight.FlightDescriptor{Type: flight.DescriptorPATH, Path: []string{"double"}},
		TotalRecords:     1,
	}
}

func problem(code codes.Code, reason, message string, md map[string]string) error {
	st, err := status.New(code, message).WithDetails(&errdetails.ErrorInfo{Domain: "udfgate", Reason: reason, Metadata: md})
	if err != nil {
		return err
	}
	return st.Err()
}

func (f *fake) DoExchange(s flight.FlightService_DoExchangeServer) error {
	md, _ := metadata.FromIncomingContext(s.Context())
	f.mu.Lock()
	f.headers, f.left = md, 0
	if at, ok := s.Context().Deadline(); ok {
		f.left = time.Until(at)
	}
	f.mu.Unlock()
	r, err := flight.NewRecordReader(s)
	if err != nil {
		return err
	}
	name := r.LatestFlightDescriptor().GetPath()[0]
	w := flight.NewRecordWriter(s, ipc.WithSchema(arrow.NewSchema([]arrow.Field{resultField}, nil)))
	defer w.Close()
	for n := 0; r.Next(); n++ {
		switch {
		case name == "stall":
			<-s.Context().Done()
			return s.Context().Err()
		case name == "raise" && n == 1:
			s.SetTrailer(metadata.Pairs("udfgate-bill", `{"function":"raise","rows_failed":1}`))
			return problem(codes.InvalidArgument, "USER_ERROR", "raise: row 3: ValueError: no\nTraceback\n  line", map[string]string{
				"function": "raise", "row": "3", "batch": "1", "exception": "ValueError", "error_id": "e1", "retryable": "false",
			})
		case name == "bare":
			s.SetTrailer(metadata.Pairs("udfgate-reason", "WORKER_LOST", "udfgate-row", "5", "udfgate-batch", "0", "udfgate-error-id", "e2"))
			return status.Error(codes.Aborted, "bare: row 5: worker lost: signal SIGSEGV")
		}
		out := double(r.RecordBatch())
		if err := w.WriteWithAppMetadata(out, []byte(`{"bill":{"rows":7,"wall_ns":10}}`)); err != nil {
			return err
		}
	}
	s.SetTrailer(metadata.Pairs("udfgate-bill", `{"function":"double","wall_ns":42}`))
	return nil
}

func double(in arrow.RecordBatch) arrow.RecordBatch {
	b := array.NewInt64Builder(memory.DefaultAllocator)
	column := in.Column(0).(*array.Int64)
	for i := range column.Len() {
		b.Append(2 * column.Value(i))
	}
	return array.NewRecordBatch(arrow.NewSchema([]arrow.Field{resultField}, nil), []arrow.Array{b.NewArray()}, in.NumRows())
}

func batch(values ...int64) arrow.RecordBatch {
	b := array.NewInt64Builder(memory.DefaultAllocator)
	b.AppendValues(values, nil)
	return array.NewRecordBatch(schema, []arrow.Array{b.NewArray()}, int64(len(values)))
}

func values(b arrow.RecordBatch) []int64 { return b.Column(0).(*array.Int64).Int64Values() }

// start serves a fake on a socket of the test's own.
func start(t *testing.T, opts ...client.Option) (*client.Client, *fake) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	lis, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{}
	s := grpc.NewServer()
	flight.RegisterFlightServiceServer(s, f)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(lis) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	c, err := client.Connect(t.Context(), "unix:"+path, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, f
}

func TestCall(t *testing.T) {
	c, f := start(t, client.WithMetadata("traceparent", "00-1"))
	result, err := c.Call(t.Context(), "double", batch(1, 2), client.WithBatchBill())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]int64{2, 4}, values(result.Batch)); d != "" {
		t.Error(d)
	}
	if result.Bill == nil || result.Bill.WallNS != 42 {
		t.Errorf("bill = %+v", result.Bill)
	}
	for key, want := range map[string]string{"traceparent": "00-1", "udfgate-client": "go", "udfgate-bill": "batch"} {
		if got := f.headers.Get(key); len(got) != 1 || got[0] != want {
			t.Errorf("header %s = %q, want %q", key, got, want)
		}
	}
}

// A timeout is the call's gRPC deadline, which the gateway sees; a call's own
// stands over the client's.
func TestTimeout(t *testing.T) {
	c, f := start(t, client.WithTimeout(time.Minute))
	for _, limit := range []struct {
		opts []client.Option
		want time.Duration
	}{
		{nil, time.Minute},
		{[]client.Option{client.WithTimeout(time.Second)}, time.Second},
	} {
		if _, err := c.Call(t.Context(), "double", batch(1), limit.opts...); err != nil {
			t.Fatal(err)
		}
		if f.left <= 0 || f.left > limit.want || f.left < limit.want/2 {
			t.Errorf("the gateway saw %s left, want about %s", f.left, limit.want)
		}
	}
	_, err := c.Call(t.Context(), "stall", batch(1), client.WithTimeout(10*time.Millisecond))
	if !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), "stall: ") {
		t.Errorf("error = %v", err)
	}
}

func TestStream_writesAhead(t *testing.T) {
	c, _ := start(t)
	s, err := c.Stream(t.Context(), "double", schema, client.WithBatchBill())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const batches = 200
	sent := make(chan error, 1)
	go func() {
		for i := range batches {
			if err := s.Send(batch(int64(i))); err != nil {
				sent <- err
				return
			}
		}
		sent <- s.CloseSend()
	}()
	for i := range batches {
		r, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if got := values(r.Batch)[0]; got != int64(2*i) {
			t.Fatalf("answer %d = %d", i, got)
		}
		if r.Bill == nil || r.Bill.WallNS != 10 {
			t.Fatalf("batch bill = %+v", r.Bill)
		}
	}
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("end = %v", err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	if s.Bill().WallNS != 42 {
		t.Errorf("bill = %+v", s.Bill())
	}
}

func TestStream_noBatches(t *testing.T) {
	c, _ := start(t)
	s, err := c.Stream(t.Context(), "double", schema)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	got, err := s.Schema()
	if err != nil || got.Field(0).Name != "double" {
		t.Errorf("schema = %v, %v", got, err)
	}
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("end = %v", err)
	}
}

func TestErrors(t *testing.T) {
	c, _ := start(t)
	var billed *udfgate.Bill
	s, err := c.Stream(t.Context(), "raise", schema, client.WithBill(func(b *udfgate.Bill) { billed = b }))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Send(batch(1)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Recv(); err != nil {
		t.Fatal(err)
	}
	_, err = s.Recv()
	want := &client.Error{
		Code: codes.InvalidArgument, Reason: udfgate.UserError, Function: "raise", Row: 3, Batch: 1,
		Exception: "ValueError", ErrorID: "e1", Message: "raise: row 3: ValueError: no", Detail: "Traceback\n  line",
	}
	if d := cmp.Diff(error(want), err); d != "" {
		t.Error(d)
	}
	if billed == nil || billed.RowsFailed != 1 {
		t.Errorf("bill = %+v", billed)
	}
	if got := fmt.Sprintf("%v|%+v|%q", err, err, err); got != "raise: row 3: ValueError: no|raise: row 3: ValueError: no\nTraceback\n  line|\"raise: row 3: ValueError: no\"" {
		t.Errorf("texts = %s", got)
	}
}

// Without details, which some proxies drop, the plain trailers say the same.
func TestErrors_trailersAlone(t *testing.T) {
	c, _ := start(t)
	_, err := c.Call(t.Context(), "bare", batch(1))
	want := &client.Error{
		Code: codes.Aborted, Reason: udfgate.WorkerLost, Row: 5, Batch: 0, ErrorID: "e2",
		Message: "bare: row 5: worker lost: signal SIGSEGV",
	}
	if d := cmp.Diff(error(want), err); d != "" {
		t.Error(d)
	}
}

func TestDeadlineAndCancel(t *testing.T) {
	c, _ := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := c.Call(ctx, "stall", batch(1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("deadline: %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	s, err := c.Stream(ctx, "stall", schema)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := s.Recv(); !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "stall: ") {
		t.Errorf("cancel: %v", err)
	}
}

func TestFunctions(t *testing.T) {
	c, _ := start(t)
	list, err := c.Functions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []client.Function{{
		Name: "double", Args: []arrow.Field{argField}, Result: resultField,
		Mode: "row", Volatility: "volatile", Version: "0123456789ab",
	}}
	if d := cmp.Diff(want, list, cmp.Comparer(func(a, b arrow.Field) bool { return a.Equal(b) })); d != "" {
		t.Error(d)
	}
	if got := list[0].Signature(); got != "double(a int64) -> int64?" {
		t.Errorf("signature = %s", got)
	}
	_, err = c.Function(t.Context(), "dubble")
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Reason != udfgate.NotFound {
		t.Errorf("error = %v", err)
	}
}

func TestConnect_nobodyThere(t *testing.T) {
	_, err := client.Connect(t.Context(), "unix:"+filepath.Join(t.TempDir(), "s"))
	if !errors.Is(err, client.ErrUnreachable) {
		t.Errorf("error = %v", err)
	}
}

// One client carries many calls at once.
func TestCall_concurrent(t *testing.T) {
	c, _ := start(t)
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
