package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/internal/arrowtype"
)

// errorColumn is the name of the column that holds rejected rows' errors.
const errorColumn = "error"

// Stream is one call of many batches. Each batch sent gets one answer, in
// order. One goroutine may send while another receives; neither side is safe
// for concurrent use with itself.
//
// Whoever only sends will block once the gateway's answers fill the connection,
// and the gateway ends the call after a while: use Exchange, read while you
// write, or wait for each answer.
type Stream struct {
	name   string
	cancel context.CancelFunc
	rpc    *receiver
	opts   callOptions

	write  *flight.Writer
	closed bool

	// The receiving side's.
	table  bool // of a TableStream
	read   *flight.Reader
	schema *arrow.Schema
	end    error

	mu       sync.Mutex
	billText string // as it came; parsed when somebody asks, which costs some microseconds
	bill     *udfgate.Bill
	inputErr error // why Exchange gave the call up
}

// Stream opens a call to a function. The schema is what every batch has; its
// columns are bound to the arguments by position. Close the Stream, unless it is
// read to its end. A table function takes a StreamTable instead.
func (c *Client) Stream(ctx context.Context, name string, schema *arrow.Schema, opts ...Option) (*Stream, error) {
	return c.stream(ctx, name, schema, false, opts)
}

func (c *Client) stream(ctx context.Context, name string, schema *arrow.Schema, table bool, opts []Option) (*Stream, error) {
	call := c.options(opts)
	call.batchBill = call.batchBill || table
	ctx, cancel := call.begin(ctx)
	rpc, err := c.rpc.DoExchange(ctx)
	if err != nil {
		cancel()
		return nil, named(name, parseError(err, nil))
	}
	w := flight.NewRecordWriter(rpc, ipc.WithSchema(schema))
	w.SetFlightDescriptor(&flight.FlightDescriptor{Type: flight.DescriptorPATH, Path: []string{name}})
	return &Stream{name: name, cancel: cancel, rpc: &receiver{stream: rpc}, opts: call, write: w, table: table}, nil
}

// Send hands over a batch, and blocks while the gateway takes no more. io.EOF
// means that the call has ended: Recv has the reason. The batch may be released
// as soon as Send returns.
func (s *Stream) Send(batch arrow.RecordBatch) error {
	return s.sent(s.write.Write(batch))
}

// SendWithAppMetadata is Send with bytes of the caller's own, which come back
// in the AppMetadata of the batch's Result.
func (s *Stream) SendWithAppMetadata(batch arrow.RecordBatch, appMetadata []byte) error {
	return s.sent(s.write.WriteWithAppMetadata(batch, appMetadata))
}

func (s *Stream) sent(err error) error {
	switch {
	case err == nil:
		return nil
	case isEOF(err):
		return io.EOF
	default:
		return fmt.Errorf("%s: send: %w", s.name, err)
	}
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
// the caller's.
func (s *Stream) Recv() (*Result, error) {
	if err := s.start(); err != nil {
		return nil, err
	}
	batch, appMetadata, err := s.next()
	if err != nil {
		return nil, err
	}
	result := &Result{Batch: batch, AppMetadata: appMetadata, Errors: s.errors(batch)}
	if s.opts.batchBill {
		result.Bill, result.AppMetadata = batchBill(appMetadata)
	}
	return result, nil
}

// next is the next batch of answers, which is the caller's, and what came with it.
func (s *Stream) next() (batch arrow.RecordBatch, appMetadata []byte, err error) {
	if !s.read.Next() {
		return nil, nil, s.finish(s.read.Err())
	}
	batch = s.read.RecordBatch()
	batch.Retain() // the reader drops its own reference on the next Next
	return batch, s.read.LatestAppMetadata(), nil
}

// errors is the column of rejected rows' errors, nil if it was not asked for.
func (s *Stream) errors(batch arrow.RecordBatch) *array.String {
	if s.opts.onError != udfgate.OnErrorReject {
		return nil
	}
	column, _ := batch.Column(int(batch.NumCols()) - 1).(*array.String) // start has seen its type
	return column
}

// Results ranges over the answers that are still to come, up to the end of the
// call. An error is the last thing it yields. Leaving the loop leaves the
// stream open.
func (s *Stream) Results() iter.Seq2[*Result, error] { return untilEOF(s.Recv) }

// untilEOF yields what recv returns up to io.EOF or another error.
func untilEOF[T any](recv func() (*T, error)) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		for {
			item, err := recv()
			if isEOF(err) || !yield(item, err) || err != nil {
				return
			}
		}
	}
}

// Schema is that of the answers: a column named after the function, and with
// WithOnError(OnErrorReject) the column "error". It waits for the gateway's
// first message, which comes no sooner than a batch or CloseSend has gone.
func (s *Stream) Schema() (*arrow.Schema, error) {
	if s.schema == nil {
		if err := s.start(); err != nil {
			return nil, err
		}
	}
	return s.schema, nil
}

// start waits for the schema of the answers, unless it is there.
func (s *Stream) start() error {
	if s.end != nil || s.read != nil {
		return s.end
	}
	r, err := flight.NewRecordReader(s.rpc)
	if err != nil {
		return s.finish(arrowtype.Misread(err))
	}
	s.read, s.schema = r, r.Schema()
	if err := s.fits(s.schema.Fields()); err != nil {
		return s.finish(err)
	}
	return nil
}

// fits is an error if the answers' columns are not those asked for.
func (s *Stream) fits(columns []arrow.Field) error {
	results := 1
	switch table := isTable(columns); {
	case table && !s.table:
		return errors.New("wanted one column of results, got those of a table function, which CallTable and StreamTable call")
	case s.table && !table:
		return fmt.Errorf("wanted the columns row and value of a table function, got %v; Call and Stream are for others", columns)
	case table:
		results = 2
	}
	if s.opts.onError != udfgate.OnErrorReject {
		return nil
	}
	last := len(columns) - 1
	if last < results || columns[last].Name != errorColumn || columns[last].Type.ID() != arrow.STRING {
		return fmt.Errorf("wanted the results and a column %q of utf8, got %v", errorColumn, columns)
	}
	return nil
}

// finish remembers how the call ended and takes the bill from the trailer. The
// error that the connection gave stands over what arrow made of it.
func (s *Stream) finish(err error) error {
	ended := s.rpc.err != nil // only then is the trailer there
	if ended {
		err = s.rpc.err
	}
	s.end = io.EOF
	switch {
	case err == nil || isEOF(err):
	case ended:
		s.end = named(s.name, parseError(err, s.rpc.stream.Trailer()))
	default: // the bytes came, but not as the schema said
		s.end = fmt.Errorf("%s: answer: %w", s.name, err)
	}
	if ended {
		s.settle()
	}
	if s.read != nil {
		s.read.Release()
		s.read = nil
	}
	s.cancel() // frees the timer, and ends a call whose answer was no use
	return s.end
}

// named puts a function's name before grpc's own words, which have none.
func named(name string, e *Error) *Error {
	if e.Reason == "" {
		e.Message = name + ": " + e.Message
	}
	return e
}

func (s *Stream) settle() {
	s.mu.Lock()
	s.billText = first(s.rpc.stream.Trailer(), "udfgate-bill")
	s.mu.Unlock()
	if s.opts.onBill != nil {
		if bill := s.Bill(); bill != nil {
			s.opts.onBill(bill)
		}
	}
}

// Bill is the whole call's, once Recv has returned io.EOF or an *Error; nil
// before, and if the gateway sent none.
func (s *Stream) Bill() *udfgate.Bill {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.billText != "" {
		s.bill, s.billText = parseBill([]byte(s.billText)), ""
	}
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

// batchBill reads an answer's app_metadata under WithBatchBill: the batch's
// bill, and what the caller sent with the batch.
func batchBill(appMetadata []byte) (bill *udfgate.Bill, app []byte) {
	var box struct {
		Bill json.RawMessage `json:"bill"`
		App  []byte          `json:"app"`
	}
	if json.Unmarshal(appMetadata, &box) != nil {
		return nil, appMetadata
	}
	return parseBill(box.Bill), box.App
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
