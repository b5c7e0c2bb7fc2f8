package client_test

import (
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/google/go-cmp/cmp"
	"github.com/udfgate/udfgate"
	client "github.com/udfgate/udfgate/clients/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// stranger answers as no gateway of ours does: other servers, proxies that drop
// what they do not know, versions to come. Everything else is tested with the
// real thing.
type stranger struct {
	flight.BaseFlightServer
	version []byte
}

func (f *stranger) DoAction(_ *flight.Action, s flight.FlightService_DoActionServer) error {
	return s.Send(&flight.Result{Body: f.version})
}

func (f *stranger) ListFlights(_ *flight.Criteria, s flight.FlightService_ListFlightsServer) error {
	for _, info := range []*flight.FlightInfo{{}, {}, {}} {
		if err := s.Send(info); err != nil {
			return err
		}
	}
	return nil
}

func (f *stranger) DoExchange(s flight.FlightService_DoExchangeServer) error {
	r, err := flight.NewRecordReader(s)
	if err != nil {
		return err
	}
	defer r.Release()
	if !r.Next() {
		return r.Err()
	}
	in := r.RecordBatch()
	in.Retain()
	name := r.LatestFlightDescriptor().GetPath()[0]
	switch name {
	case "nothing":
		return nil
	case "trailers":
		s.SetTrailer(metadata.Pairs("udfgate-reason", "WORKER_LOST", "udfgate-row", "5", "udfgate-batch", "0", "udfgate-error-id", "e2"))
		return status.Error(codes.Aborted, "f: row 5: worker lost: signal SIGSEGV")
	case "bill":
		s.SetTrailer(metadata.Pairs("udfgate-bill", "not JSON"))
	case "garbage":
		return s.Send(&flight.FlightData{DataHeader: []byte("garbage, not a flatbuffer")})
	}
	w := flight.NewRecordWriter(s, ipc.WithSchema(in.Schema()))
	defer w.Close()
	switch name {
	case "short":
		in = in.NewSlice(0, 1)
	case "twice":
		if err := w.Write(in); err != nil {
			return err
		}
	}
	return w.Write(in)
}

func startStranger(t *testing.T, version ...byte) string {
	t.Helper()
	return startServer(t, &stranger{version: version})
}

// startServer serves until the test ends.
func startServer(t *testing.T, service flight.FlightServer) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	lis, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	flight.RegisterFlightServiceServer(s, service)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(lis) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return "unix:" + path
}

// Without details, which some proxies drop, the plain trailers say the same.
func TestStranger_trailersAlone(t *testing.T) {
	_, err := connect(t, startStranger(t, 2)).Call(t.Context(), "trailers", batch(1))
	want := &client.Error{
		Code: codes.Aborted, Reason: udfgate.WorkerLost, Row: 5, Batch: 0, ErrorID: "e2",
		Message: "f: row 5: worker lost: signal SIGSEGV",
	}
	if d := cmp.Diff(error(want), err); d != "" {
		t.Error(d)
	}
}

func TestStranger_wrongAnswers(t *testing.T) {
	c := connect(t, startStranger(t, 2))
	for name, want := range map[string]string{
		"nothing": "nothing: wanted one batch back, got none",
		"short":   "short: wanted 2 rows back, got 1",
		"twice":   "twice: wanted one batch back, got more",
		"garbage": "garbage: answer: ",
	} {
		r, err := c.Call(t.Context(), name, batch(1, 2))
		if r != nil || err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, %v", name, r, err)
		}
		if client.Retryable(err) {
			t.Errorf("%s: %v will be the same later", name, err)
		}
	}
	// A missing bill must not fail a call.
	if r, err := c.Call(t.Context(), "bill", batch(1, 2)); err != nil || r.Bill != nil {
		t.Errorf("bill: %v, %v", r, err)
	}
	// Whoever asks for rejected rows must get them.
	_, err := c.Call(t.Context(), "echo", batch(1, 2), client.WithOnError(udfgate.OnErrorReject))
	if err == nil || !strings.HasPrefix(err.Error(), `echo: answer: wanted the results and a column "error" of utf8, got `) {
		t.Errorf("reject: %v", err)
	}
	if _, err := c.Functions(t.Context()); err == nil || err.Error() != "flight info: wanted a path with the function's name, got none" {
		t.Errorf("functions: %v", err)
	}
	if err := c.Ready(t.Context(), ""); err == nil || errors.Is(err, client.ErrNotReady) {
		t.Errorf("ready: %v", err)
	}
}

func TestStranger_endsEarly(t *testing.T) {
	s := open(t, connect(t, startStranger(t, 2)), "echo")
	var last error
	for _, err := range s.Exchange(func(yield func(arrow.RecordBatch, error) bool) {
		for yield(batch(1), nil) {
			continue
		}
	}) {
		last = err
	}
	if last == nil || last.Error() != "echo: the call ended before all batches were sent" {
		t.Errorf("error = %v", last)
	}
}

func TestStranger_version(t *testing.T) {
	for _, version := range [][]byte{nil, {3}} {
		_, err := client.Connect(t.Context(), startStranger(t, version...))
		if !errors.Is(err, client.ErrUnreachable) || !strings.Contains(err.Error(), "wanted protocol version 2") {
			t.Errorf("version %v: %v", version, err)
		}
	}
}
