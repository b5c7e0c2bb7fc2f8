// Package client calls the functions of an udfgate gateway with Arrow record
// batches, over Arrow Flight.
//
//	gate, err := client.Connect(ctx, "127.0.0.1:8815")
//	result, err := gate.Call(ctx, "gcd", batch)
//
// One Client holds the connections, which every call shares, and is safe for
// concurrent use. It sees the wire only: it knows no worker and starts no
// gateway.
//
// # Calls and streams
//
// Call sends one batch and waits for its answer. Stream sends many over one
// call, and may read answers while it still writes; Stream.Exchange does both
// at once and cannot deadlock. Columns are bound to arguments by position, and
// their types must be those of Client.Function's Args. CallTable and StreamTable
// are the same for table functions, whose answers come in parts.
//
// # Options
//
// An Option given to Connect holds for every call of that Client; given to a
// call, for that one, where it stands over the Client's. WithMetadata adds up.
//
// # Errors
//
// What a gateway answered instead of a batch is an *Error: its Reason says who
// is to blame (ReasonOf finds it in any error), Retryable whether later may be
// better. A gateway that could not be reached matches ErrUnreachable, a time
// limit context.DeadlineExceeded and a cancelled call context.Canceled. Nothing
// is repeated by itself: only the caller knows whether a body may run twice.
//
// # Lost connections and several gateways
//
// A lost connection is made again by the next call, with no more than a few
// seconds between attempts; until then calls match ErrUnreachable at once.
// An address "dns:///name:port" spreads calls over all addresses of the name
// and leaves out gateways that are gone or whose health says that they are not
// serving, as one that drains does. A call that a gateway refuses just as it
// begins to drain has the reason DRAINING and is Retryable.
package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/udfgate/udfgate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/health" // lets the balancer of dns:/// watch each gateway's health
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
)

// How connections behave. A gateway takes a ping every 5 s.
const (
	// windowBytes is the HTTP/2 window of streams and connection. A fixed window
	// switches grpc's bandwidth estimator off, whose PING after each message
	// costs a small call up to a fifth of its time; below 1 MiB large messages
	// stall.
	windowBytes = 1 << 20
	// A connection that has calls but has been silent for pingAfter is asked for
	// a sign of life; without one within pingTimeout its calls end. Otherwise a
	// machine that vanished would keep them for ever.
	pingAfter   = 30 * time.Second
	pingTimeout = 20 * time.Second
	// Between attempts to connect; grpc's own maximum is two minutes, in which a
	// gateway that is back again would stay unused.
	redialFirst = 100 * time.Millisecond
	redialMax   = 5 * time.Second
	// What an attempt gets: grpc's own.
	connectTime = 20 * time.Second
)

// balanced is the service config of addresses that may stand for several
// gateways.
const balanced = `{"loadBalancingConfig":[{"round_robin":{}}],"healthCheckConfig":{"serviceName":""}}`

// protocolVersion is what the gateway answers to the action of that name.
const protocolVersion = 2

// Client is a connection to one gateway, or to all that a name stands for.
type Client struct {
	addr string
	conn *grpc.ClientConn
	rpc  flight.Client
	call callOptions // defaults of every call
}

// Connect dials an address and checks that a gateway answers there, within
// ctx. Close the Client when done with it. The forms of an address:
//
//   - host:port, or grpc://host:port
//   - unix:/path
//   - dns:///name:port: several gateways behind one name, see above
//
// The connection is in clear text. TLS and bearer tokens, where something in
// front of the gateway asks for them, are grpc's own options:
// WithDialOptions(grpc.WithTransportCredentials(…), grpc.WithPerRPCCredentials(…)).
//
// # Errors
//
// Nobody listening, no gateway, or no answer before ctx ends: matches
// ErrUnreachable.
func Connect(ctx context.Context, addr string, opts ...ConnectOption) (*Client, error) {
	var cfg config
	for _, o := range opts {
		o.connect(&cfg)
	}
	c := &Client{addr: addr, call: cfg.call}
	to, err := target(addr)
	if err != nil {
		return nil, fmt.Errorf("connect %s: %w: %w", addr, ErrUnreachable, err)
	}
	conn, err := grpc.NewClient(to, append(defaults(to), cfg.dial...)...)
	if err != nil {
		return nil, fmt.Errorf("connect %s: %w: %w", addr, ErrUnreachable, err)
	}
	c.conn, c.rpc = conn, flight.NewClientFromConn(conn, nil)
	if err := c.greet(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

// defaults are the dial options that the caller's own stand over.
func defaults(target string) []grpc.DialOption {
	redial := backoff.DefaultConfig
	redial.BaseDelay, redial.MaxDelay = redialFirst, redialMax
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithInitialWindowSize(windowBytes),
		grpc.WithInitialConnWindowSize(windowBytes),
		// The gateway bounds messages (--max-message-bytes); a second, smaller
		// bound of grpc's 4 MiB here would only hide that limit's own error.
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingAfter, Timeout: pingTimeout}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: redial, MinConnectTimeout: connectTime}),
		grpc.WithDisableServiceConfig(), // a TXT record does not decide how calls are made
		grpc.WithUserAgent("udfgate-go"),
	}
	if strings.HasPrefix(target, "dns:") {
		opts = append(opts, grpc.WithDefaultServiceConfig(balanced))
	}
	return opts
}

// target turns the address forms of this project into grpc's. A plain
// host:port is taken as it is, without a resolver or proxy in between.
func target(addr string) (string, error) {
	scheme, rest, found := strings.Cut(addr, "://")
	switch {
	case scheme == "grpc+unix":
		return "unix:" + rest, nil
	case strings.HasPrefix(addr, "grpc+unix:"):
		return strings.TrimPrefix(addr, "grpc+"), nil
	case strings.HasPrefix(addr, "unix:"), strings.HasPrefix(addr, "dns:"):
		return addr, nil
	case !found:
		rest = addr
	case scheme != "grpc" && scheme != "grpc+tcp" && scheme != "http":
		return "", errors.New("wanted host:port, grpc://host:port, unix:/path or dns:///name:port")
	}
	return "passthrough:///" + strings.TrimSuffix(rest, "/"), nil
}

// greet asks for the protocol version: the one question that every gateway
// answers at once, whatever it serves and however busy it is.
func (c *Client) greet(ctx context.Context) error {
	call := c.call
	call.timeout = 0 // a call's limit leaves out the time that it takes to connect
	ctx, cancel := call.begin(ctx)
	defer cancel()
	stream, err := c.rpc.DoAction(ctx, &flight.Action{Type: "protocol_version"})
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

// Close ends the connections; calls under way fail.
func (c *Client) Close() error { return c.conn.Close() }

// Addr is the address given to Connect.
func (c *Client) Addr() string { return c.addr }

// Ready asks whether calls to a function may come now; of the gateway as a
// whole if function is "". Of several gateways it asks one that is serving.
//
// # Errors
//
// Matches ErrNotReady if the gateway says no: it still starts, or it drains.
// No such function: *Error of reason NOT_FOUND.
func (c *Client) Ready(ctx context.Context, function string) error {
	ctx, cancel := c.call.begin(ctx)
	defer cancel()
	answer, err := grpc_health_v1.NewHealthClient(c.conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: function})
	if err != nil {
		e := parseError(err, nil)
		if e.Code == codes.NotFound { // health knows no reasons
			e.Reason, e.Message = udfgate.NotFound, fmt.Sprintf("no function %q", function)
		}
		return e
	}
	if got := answer.GetStatus(); got != grpc_health_v1.HealthCheckResponse_SERVING {
		if function == "" {
			function = c.addr
		}
		return fmt.Errorf("%s: %w: health is %s", function, ErrNotReady, got)
	}
	return nil
}
