package client

import (
	"context"
	"time"

	"github.com/udfgate/udfgate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// ConnectOption changes how a Client connects. Every Option is one too: it then
// holds for all calls of the Client.
type ConnectOption interface{ connect(*config) }

// Option changes how a call is made.
type Option interface {
	ConnectOption
	call(*callOptions)
}

// config is what Connect is told.
type config struct {
	dial []grpc.DialOption
	call callOptions
}

type callOptions struct {
	timeout      time.Duration
	chunkTimeout time.Duration
	onError      udfgate.OnError
	batchBill    bool
	onBill       func(*udfgate.Bill)
	metadata     []string // keys and values in turn
}

type connectOption func(*config)

func (o connectOption) connect(c *config) { o(c) }

type callOption func(*callOptions)

func (o callOption) connect(c *config)   { o(&c.call) }
func (o callOption) call(c *callOptions) { o(c) }

// WithDialOptions passes options on to grpc, for example credentials. They
// stand over the package's own.
func WithDialOptions(opts ...grpc.DialOption) ConnectOption {
	return connectOption(func(c *config) { c.dial = append(c.dial, opts...) })
}

// WithTimeout limits how long a call may take in all, from its start to its
// last answer. It is the call's gRPC deadline, so the gateway knows it and
// stops a body that runs into it. What comes back is an *Error that matches
// context.DeadlineExceeded; it has the body's stack if the gateway's answer was
// quicker than the end of the wait. A context that ends sooner binds instead.
// Zero or less is no limit.
func WithTimeout(d time.Duration) Option {
	return callOption(func(c *callOptions) { c.timeout = d })
}

// WithChunkTimeout limits how long a worker may take for one chunk, which is a
// batch unless the gateway splits it: the header udfgate-timeout. The least of
// this, the function's own limit and the gateway's binds; running into it ends
// the call with reason TIMEOUT and the body's stack. Zero or less asks for no
// limit beside those.
func WithChunkTimeout(d time.Duration) Option {
	return callOption(func(c *callOptions) { c.chunkTimeout = d })
}

// WithOnError says what becomes of rows whose body raises, instead of what the
// function says itself: the header udfgate-on-error. With OnErrorNull they are
// null and Bill.RowsFailed counts them; with OnErrorReject their errors come
// in Result.Errors as well; OnErrorFail ends the call with the first. The empty
// OnError leaves it to the function.
func WithOnError(how udfgate.OnError) Option {
	return callOption(func(c *callOptions) { c.onError = how })
}

// WithBatchBill asks for a bill with every batch of a Stream.
func WithBatchBill() Option {
	return callOption(func(c *callOptions) { c.batchBill = true })
}

// WithBill hands the whole call's bill to f when the call ends, failed calls
// included as far as the gateway sent one. f runs in the goroutine that
// receives.
func WithBill(f func(*udfgate.Bill)) Option {
	return callOption(func(c *callOptions) { c.onBill = f })
}

// WithMetadata adds a header to the call, e.g. "traceparent".
func WithMetadata(key, value string) Option {
	return callOption(func(c *callOptions) {
		// Clip first: two calls that extend the client's defaults must not
		// share the backing array.
		c.metadata = append(c.metadata[:len(c.metadata):len(c.metadata)], key, value)
	})
}

// options are the client's defaults changed by a call's own.
func (c *Client) options(opts []Option) callOptions {
	call := c.call
	for _, o := range opts {
		o.call(&call)
	}
	return call
}

// begin is ctx for a call: with its headers and its time limit. Cancelling it
// frees what the call holds, at any point of it.
func (o *callOptions) begin(ctx context.Context) (context.Context, context.CancelFunc) {
	// udfgate-client is always among the headers: it tells the gateway that the
	// stream is plain Flight although its columns may be nameless.
	pairs := append([]string{"udfgate-client", "go"}, o.metadata...)
	if o.batchBill {
		pairs = append(pairs, "udfgate-bill", "batch")
	}
	if o.onError != "" {
		pairs = append(pairs, "udfgate-on-error", string(o.onError))
	}
	if o.chunkTimeout > 0 {
		pairs = append(pairs, "udfgate-timeout", o.chunkTimeout.String())
	}
	ctx = metadata.AppendToOutgoingContext(ctx, pairs...)
	if o.timeout > 0 {
		return context.WithTimeout(ctx, o.timeout)
	}
	return context.WithCancel(ctx)
}
