// Package client calls the functions of an udfgate gateway with Arrow record
// batches, over Arrow Flight.
//
// One Client holds one connection, which every call shares, and is safe for
// concurrent use. Call sends one batch; Stream sends many over one call, and
// may read answers while it still writes. Every failure that came from the
// gateway is an *Error; one that never reached it matches ErrUnreachable.
//
// The package sees the wire only: it knows no worker and starts no gateway.
package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/udfgate/udfgate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

// windowBytes is the HTTP/2 window of streams and connection. A fixed window
// switches grpc's bandwidth estimator off, whose PING after each message costs
// a small call up to a fifth of its time; below 1 MiB large messages stall.
const windowBytes = 1 << 20

// protocolVersion is what the gateway answers to the action of that name.
const protocolVersion = 2

// ErrUnreachable is matched by errors that came about because no gateway
// answered: nobody listens, or the connection broke.
var ErrUnreachable = errors.New("gateway not reached")

// Client is a connection to one gateway.
type Client struct {
	addr string
	conn *grpc.ClientConn
	rpc  flight.Client
	call callOptions // defaults of every call
}

// Result is the answer to one batch. Release Batch when done with it if its
// allocator counts; under Go's own memory that is optional.
type Result struct {
	Batch arrow.RecordBatch
	// Bill is the whole call's bill from Call; from Stream.Recv it is the
	// batch's own, present with WithBatchBill only.
	Bill *udfgate.Bill
}

// Connect dials addr ("host:port", "grpc://host:port" or "unix:/path") and
// checks that a gateway answers there within ctx. Options given here hold for
// every call, unless the call has its own.
//
// # Errors
//
// Nobody listening, or no answer before ctx ends: matches ErrUnreachable.
func Connect(ctx context.Context, addr string, opts ...Option) (*Client, error) {
	c := &Client{addr: addr}
	var dial dialOptions
	for _, o := range opts {
		o(&dial, &c.call)
	}
	conn, err := grpc.NewClient(target(addr), append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithInitialWindowSize(windowBytes),
		grpc.WithInitialConnWindowSize(windowBytes),
		// The gateway bounds messages (--max-message-bytes); a second, smaller
		// bound of grpc's 4 MiB here would only hide that limit's own error.
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32)),
		grpc.WithUserAgent("udfgate-go"),
	}, dial.grpc...)...)
	if err != nil {
		return nil, fmt.Errorf("connect %s: %w: %w", addr, ErrUnreachable, err)
	}
	c.conn, c.rpc = conn, flight.NewClientFromConn(conn, nil)
	if err := c.greet(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

// greet asks for the protocol version: the one question that every gateway
// answers at once, whatever it serves and however busy it is.
func (c *Client) greet(ctx context.Context) error {
	stream, err := c.rpc.DoAction(c.outgoing(ctx, c.call), &flight.Action{Type: "protocol_version"})
	if err != nil {
		return c.unreachable(err)
	}
	answer, err := stream.Recv()
	if err != nil {
		return c.unreachable(err)
	}
	if len(answer.GetBody()) == 0 || answer.GetBody()[0] != protocolVersion {
		return fmt.Errorf("connect %s: %w: wanted protocol version %d, got %v", c.addr, ErrUnreachable, protocolVersion, answer.GetBody())
	}
	for err == nil { // to the end, so that grpc can free the stream
		_, err = stream.Recv()
	}
	return nil
}

// unreachable is the error of a first contact that failed: whatever is not a
// gateway's own verdict means that no gateway was reached.
func (c *Client) unreachable(err error) error {
	e := parseError(err, nil)
	if e.Reason != "" {
		return e
	}
	why := strings.Trim(strings.TrimPrefix(e.Message, "connection error: desc = "), `"`)
	why = strings.TrimPrefix(why, "transport: Error while dialing: ")
	return fmt.Errorf("connect %s: %w: %s", c.addr, ErrUnreachable, why)
}

// Close ends the connection; calls under way fail.
func (c *Client) Close() error { return c.conn.Close() }

// Addr is the address given to Connect.
func (c *Client) Addr() string { return c.addr }

// target turns the address forms of this project into grpc's. A plain
// host:port is taken as it is, without a resolver or proxy in between.
func target(addr string) string {
	switch {
	case strings.HasPrefix(addr, "unix:"):
		return addr
	case strings.HasPrefix(addr, "grpc+unix:"):
		return "unix:" + strings.TrimPrefix(strings.TrimPrefix(addr, "grpc+unix:"), "//")
	}
	for _, scheme := range []string{"grpc+tcp://", "grpc://", "http://"} {
		addr = strings.TrimPrefix(addr, scheme)
	}
	return "passthrough:///" + strings.TrimSuffix(addr, "/")
}

// Call sends one batch to a function and waits for its answer, which has as
// many rows. The bill is the call's whole one.
//
// # Errors
//
// What the gateway refused or the body raised: *Error. An end of ctx or of
// WithTimeout: *Error that matches context.Canceled or DeadlineExceeded.
func (c *Client) Call(ctx context.Context, name string, batch arrow.RecordBatch, opts ...Option) (*Result, error) {
	s, err := c.Stream(ctx, name, batch.Schema(), opts...)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	// A failed Send means that the call has ended; Recv knows why.
	if err := s.Send(batch); err == nil {
		err = s.CloseSend()
		if err != nil {
			return nil, err
		}
	}
	result, err := s.Recv()
	if err != nil {
		return nil, noAnswer(name, err)
	}
	if result.Batch.NumRows() != batch.NumRows() {
		return nil, fmt.Errorf("%s: wanted %d rows back, got %d", name, batch.NumRows(), result.Batch.NumRows())
	}
	if _, err := s.Recv(); !isEOF(err) {
		result.Batch.Release()
		if err == nil {
			err = fmt.Errorf("%s: wanted one batch back, got more", name)
		}
		return nil, err
	}
	result.Bill = s.Bill()
	return result, nil
}

// noAnswer is the error of a call that ended well but empty.
func noAnswer(name string, err error) error {
	if isEOF(err) {
		return fmt.Errorf("%s: wanted one batch back, got none", name)
	}
	return err
}

// Option changes how a Client connects or how a call is made.
type Option func(*dialOptions, *callOptions)

type dialOptions struct{ grpc []grpc.DialOption }

type callOptions struct {
	batchBill bool
	timeout   time.Duration
	onBill    func(*udfgate.Bill)
	metadata  []string // keys and values in turn
}

// WithDialOptions passes options on to grpc; for Connect only.
func WithDialOptions(opts ...grpc.DialOption) Option {
	return func(d *dialOptions, _ *callOptions) { d.grpc = append(d.grpc, opts...) }
}

// WithTimeout limits how long a Call or Stream may take in all, from its start
// to its last answer. It is the call's gRPC deadline, so the gateway knows it
// and stops a body that runs into it. What comes back is an *Error that matches
// context.DeadlineExceeded; it has the body's stack if the gateway's answer was
// quicker than the end of the wait. A context that ends sooner binds instead.
func WithTimeout(d time.Duration) Option {
	return func(_ *dialOptions, c *callOptions) { c.timeout = d }
}

// WithBatchBill asks for a bill with every batch of a Stream.
func WithBatchBill() Option {
	return func(_ *dialOptions, c *callOptions) { c.batchBill = true }
}

// WithMetadata adds a header to the call, e.g. "traceparent".
func WithMetadata(key, value string) Option {
	return func(_ *dialOptions, c *callOptions) {
		// Clip first: two calls that extend the client's defaults must not
		// share the backing array.
		c.metadata = append(c.metadata[:len(c.metadata):len(c.metadata)], key, value)
	}
}

// WithBill hands the whole call's bill to f when the call ends, failed calls
// included as far as the gateway sent one.
func WithBill(f func(*udfgate.Bill)) Option {
	return func(_ *dialOptions, c *callOptions) { c.onBill = f }
}

// options are the client's defaults changed by a call's own.
func (c *Client) options(opts []Option) callOptions {
	call := c.call
	var ignored dialOptions
	for _, o := range opts {
		o(&ignored, &call)
	}
	return call
}

// outgoing is ctx with the call's headers. udfgate-client is always among
// them: it tells the gateway that the stream is plain Flight although its
// columns may be nameless.
func (c *Client) outgoing(ctx context.Context, o callOptions) context.Context {
	pairs := append([]string{"udfgate-client", "go"}, o.metadata...)
	if o.batchBill {
		pairs = append(pairs, "udfgate-bill", "batch")
	}
	return metadata.AppendToOutgoingContext(ctx, pairs...)
}
