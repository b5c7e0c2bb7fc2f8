package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/udfgate/udfgate"
)

// Stream is one call of many batches. Each batch sent gets one answer, in
// order. One goroutine may Send while another receives; neither method is safe
// for concurrent use with itself.
//
// A stream that only sends will block once the gateway's answers fill the
// connection: read while you write, or wait for each answer.
type Stream struct {
	name   string
	cancel context.CancelFunc
	rpc    *receiver
	opts   callOptions

	write  *flight.Writer
	closed bool

	read *flight.Reader
	end  error

	once sync.Once
	mu   sync.Mutex
	bill *udfgate.Bill
}

// Stream opens a call to a function. The schema is what every batch has; its
// columns are bound to the arguments by position.
func (c *Client) Stream(ctx context.Context, name string, schema *arrow.Schema, opts ...Option) (*Stream, error) {
	call := c.options(opts)
	ctx, cancel := call.limit(c.outgoing(ctx, call))
	rpc, err := c.rpc.DoExchange(ctx)
	if err != nil {
		cancel()
		return nil, parseError(err, nil)
	}
	w := flight.NewRecordWriter(rpc, ipc.WithSchema(schema))
	w.SetFlightDescriptor(&flight.FlightDescriptor{Type: flight.DescriptorPATH, Path: []string{name}})
	return &Stream{name: name, cancel: cancel, rpc: &receiver{stream: rpc}, opts: call, write: w}, nil
}

// limit is ctx for the duration of a call.
func (o callOptions) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if o.timeout > 0 {
		return context.WithTimeout(ctx, o.timeout)
	}
	return context.WithCancel(ctx)
}

// Send hands over a batch, and blocks while the gateway takes no more. io.EOF
// means that the gateway ended the call: Recv has the reason. The batch may be
// released as soon as Send returns.
func (s *Stream) Send(batch arrow.RecordBatch) error {
	if err := s.write.Write(batch); err != nil {
		if isEOF(err) {
			return io.EOF
		}
		return fmt.Errorf("%s: send: %w", s.name, err)
	}
	return nil
}

// CloseSend says that no batch follows. Answers still come.
func (s *Stream) CloseSend() error {
	if s.closed {
		return nil
	}
	s.closed = true
	// Close writes the schema if no batch did: zero batches are a valid call.
	if err := s.write.Close(); err != nil && !isEOF(err) {
		return fmt.Errorf("%s: send: %w", s.name, err)
	}
	return s.rpc.stream.CloseSend()
}

// Recv waits for the next answer; io.EOF once the call is done. The batch is
// the caller's to release.
func (s *Stream) Recv() (*Result, error) {
	if err := s.start(); err != nil {
		return nil, err
	}
	if !s.read.Next() {
		return nil, s.finish(s.read.Err())
	}
	batch := s.read.RecordBatch()
	batch.Retain() // the reader drops its own reference on the next Next
	result := &Result{Batch: batch}
	if s.opts.batchBill {
		result.Bill = batchBill(s.read.LatestAppMetadata())
	}
	return result, nil
}

// Schema is that of the answers: one column, named after the function. It
// waits for the gateway's first message.
func (s *Stream) Schema() (*arrow.Schema, error) {
	if err := s.start(); err != nil {
		return nil, err
	}
	return s.read.Schema(), nil
}

// start waits for the schema of the answers, unless it is there.
func (s *Stream) start() error {
	if s.end != nil || s.read != nil {
		return s.end
	}
	r, err := flight.NewRecordReader(s.rpc)
	if err != nil {
		return s.finish(err)
	}
	s.read = r
	return nil
}

// finish remembers how the call ended and takes the bill from the trailer. The
// error that the connection gave stands over what arrow made of it.
func (s *Stream) finish(err error) error {
	if s.rpc.err != nil {
		err = s.rpc.err
	}
	s.end = io.EOF
	switch {
	case err == nil || isEOF(err):
	case s.rpc.err != nil:
		e := parseError(err, s.rpc.stream.Trailer())
		if e.Reason == "" { // grpc's own words: they name no function
			e.Message = s.name + ": " + e.Message
		}
		s.end = e
	default: // the bytes came, but not as the schema said
		s.end = fmt.Errorf("%s: answer: %w", s.name, err)
	}
	if s.rpc.err != nil { // only then is the trailer there
		s.settle()
	}
	return s.end
}

func (s *Stream) settle() {
	s.once.Do(func() {
		bill := parseBill([]byte(first(s.rpc.stream.Trailer(), "udfgate-bill")))
		s.mu.Lock()
		s.bill = bill
		s.mu.Unlock()
		if s.opts.onBill != nil && bill != nil {
			s.opts.onBill(bill)
		}
	})
}

// Bill is the whole call's, once Recv has returned io.EOF or an *Error; nil
// before, and if the gateway sent none.
func (s *Stream) Bill() *udfgate.Bill {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bill
}

// Close gives the call up if it is not over. It may be called at any time, by
// any goroutine, and more than once.
func (s *Stream) Close() { s.cancel() }

// receiver keeps the error that the connection gave: arrow's reader wraps or
// swallows it, and the status within is what the caller needs.
type receiver struct {
	stream flight.FlightService_DoExchangeClient
	err    error
}

func (r *receiver) Recv() (*flight.FlightData, error) {
	d, err := r.stream.Recv()
	if err != nil {
		r.err = err
	}
	return d, err
}

func batchBill(appMetadata []byte) *udfgate.Bill {
	var box struct {
		Bill json.RawMessage `json:"bill"`
	}
	if json.Unmarshal(appMetadata, &box) != nil {
		return nil
	}
	return parseBill(box.Bill)
}

// parseBill is nil for what is no bill: a missing one must not fail a call.
func parseBill(text []byte) *udfgate.Bill {
	if len(text) == 0 {
		return nil
	}
	b := new(udfgate.Bill)
	if json.Unmarshal(text, b) != nil {
		return nil
	}
	return b
}
