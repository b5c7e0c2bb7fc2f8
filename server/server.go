// Package server speaks Arrow Flight and a little HTTP: listeners, admission,
// routing, the walk of each batch from its bytes to its answer, bills, errors
// and health. It is handed a Catalog of backends and never builds one; it
// knows no process and no worker protocol.
package server

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/udfgate/udfgate/internal/metrics"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
)

// Config is how a gateway listens and what it bounds. A zero value takes the
// default in brackets.
type Config struct {
	// Listen has the Flight addresses: host:port or unix:/path; port 0 picks
	// one [127.0.0.1:8815].
	Listen []string
	// HTTP is the address of the HTTP endpoints, or "off" [127.0.0.1:8816].
	HTTP string
	// Insecure allows addresses beyond loopback without TLS and tokens.
	Insecure bool

	// MessageBytesMax bounds one message (--max-message-bytes) [256 MiB].
	MessageBytesMax int64
	// BatchRowsMax bounds the rows of one batch (--max-batch-rows) [16777216].
	BatchRowsMax int64
	// InflightBytesMax bounds the bytes of all batches and answers within the
	// gateway (--max-inflight-bytes) [1 GiB].
	InflightBytesMax int64

	// Timeout is the time that one chunk may take (--timeout) [30s].
	Timeout time.Duration
	// QueueTimeout bounds the wait for room among the in-flight bytes [10s].
	QueueTimeout time.Duration
	// DrainTimeout bounds how long Drain lets calls finish [25s].
	DrainTimeout time.Duration
	// NotReadingTimeout is how long a client may leave its answers unread
	// before its call ends, and how long its writes are then thrown away [10s].
	NotReadingTimeout time.Duration

	// Window is how many batches of one stream may be in flight, at most
	// WindowMax; the least of the pool's workers and 4 is a good choice [4].
	Window int
	// StreamsMax bounds the streams of one connection [1000].
	StreamsMax uint32
	// ConnectionsMax bounds the open connections; further ones wait. Their
	// HTTP/2 windows together may not be more than InflightBytesMax, or than
	// 64 MiB where that is more [1024, or what that has room for].
	ConnectionsMax int

	// Logger gets what happens [nobody].
	Logger *slog.Logger
	// Metrics gets the numbers [nobody].
	Metrics *metrics.Metrics
}

// Defaults of Config, and bounds that have no key.
const (
	listenDefault         = "127.0.0.1:8815"
	httpDefault           = "127.0.0.1:8816"
	httpOff               = "off"
	messageBytesDefault   = 256 << 20
	batchRowsDefault      = 16777216
	inflightBytesDefault  = 1 << 30
	timeoutDefault        = 30 * time.Second
	queueTimeoutDefault   = 10 * time.Second
	drainTimeoutDefault   = 25 * time.Second
	notReadingDefault     = 10 * time.Second
	windowDefault         = 4
	streamsDefault        = 1000
	connectionsDefault    = 1024
	connectionsAlways     = 64 // that many windows are allowed on top of any InflightBytesMax
	headerListBytesMax    = 64 << 10
	handshakeTimeout      = 10 * time.Second
	pingsEvery            = 5 * time.Second // a client may ping so often
	probeEvery            = time.Minute     // a silent connection is asked for a sign of life
	probeTimeout          = 20 * time.Second
	connectionBufferBytes = 128 << 10
)

// windowBytes is the HTTP/2 window of streams and connections. A fixed one
// switches grpc's bandwidth estimator off, whose PING after each message costs
// a small call up to a fifth of its time; below 1 MiB large messages stall.
const windowBytes = 1 << 20

// ensureDefaults fills in what is zero.
func (c *Config) ensureDefaults() {
	if len(c.Listen) == 0 {
		c.Listen = []string{listenDefault}
	}
	c.HTTP = cmp.Or(c.HTTP, httpDefault)
	c.MessageBytesMax = cmp.Or(c.MessageBytesMax, messageBytesDefault)
	c.BatchRowsMax = cmp.Or(c.BatchRowsMax, batchRowsDefault)
	c.InflightBytesMax = cmp.Or(c.InflightBytesMax, inflightBytesDefault)
	c.Timeout = cmp.Or(c.Timeout, timeoutDefault)
	c.QueueTimeout = cmp.Or(c.QueueTimeout, queueTimeoutDefault)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, drainTimeoutDefault)
	c.NotReadingTimeout = cmp.Or(c.NotReadingTimeout, notReadingDefault)
	c.Window = cmp.Or(c.Window, windowDefault)
	c.StreamsMax = cmp.Or(c.StreamsMax, streamsDefault)
	c.ConnectionsMax = cmp.Or(c.ConnectionsMax, int(min(connectionsDefault, c.connectionsFit())))
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Metrics == nil {
		c.Metrics = metrics.New(nil)
	}
}

// connectionsFit is how many connections' windows InflightBytesMax allows.
func (c *Config) connectionsFit() int64 {
	return max(c.InflightBytesMax/windowBytes, connectionsAlways)
}

// validate says everything that is wrong, each with its flag or key.
func (c *Config) validate() error {
	var all []error
	positive := func(name string, v int64) {
		if v <= 0 {
			all = append(all, fmt.Errorf("%s: wanted more than 0, got %d", name, v))
		}
	}
	positive(messageBytesName, c.MessageBytesMax)
	positive(batchRowsName, c.BatchRowsMax)
	positive(inflightBytesName, c.InflightBytesMax)
	positive(timeoutName, int64(c.Timeout))
	positive(queueTimeoutName, int64(c.QueueTimeout))
	positive("--drain-timeout", int64(c.DrainTimeout))
	positive("not-reading timeout", int64(c.NotReadingTimeout))
	positive("connections", int64(c.ConnectionsMax))
	if c.Window < 1 || c.Window > WindowMax {
		all = append(all, fmt.Errorf("window: wanted 1 to %d batches in flight per stream, got %d", WindowMax, c.Window))
	}
	// Bytes that were received and not read are bounded by the window of each
	// connection's stream, and by nothing else: they come on top of the budget.
	if fit := c.connectionsFit(); int64(c.ConnectionsMax) > fit {
		all = append(all, fmt.Errorf("%d connections × an HTTP/2 window of %s are more than %s %s: wanted at most %d connections",
			c.ConnectionsMax, humanize.IBytes(windowBytes), inflightBytesName, humanize.IBytes(uint64(max(c.InflightBytesMax, 0))), fit))
	}
	return errors.Join(all...)
}

// Server is a gateway's outside. Make one with New.
type Server struct {
	config  Config
	catalog Catalog
	logger  *slog.Logger
	metrics *metrics.Metrics

	grpc      *grpc.Server
	listeners []net.Listener
	http      *http.Server
	httpListn net.Listener // nil if HTTP is off
	health    *healthService

	budget *budget
	errors errorStore
	routes sync.Map // *udfgate.Function → *route
	names  descriptorNames
	calls  atomic.Uint64

	watch    watch
	crew     *crew
	running  sync.WaitGroup // receivers and walks
	stopOnce sync.Once
	served   chan struct{} // closed once everything has ended
}

// New checks the configuration, binds the listeners and returns a Server that
// answers once Serve runs.
//
// # Errors
//
// The text names the setting or address that is at fault, by its flag.
func New(c Config, cat Catalog) (*Server, error) {
	c.ensureDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	s := &Server{
		config: c, catalog: cat, logger: c.Logger, metrics: c.Metrics,
		budget: newBudget(c.InflightBytesMax),
		crew:   newCrew(),
		served: make(chan struct{}),
	}
	s.watch.streams = map[*exchange]struct{}{}
	s.metrics.Inflight(s.budget.bytes)
	s.buildGRPC()
	if err := s.bind(); err != nil {
		s.unbind()
		return nil, err
	}
	return s, nil
}

func (s *Server) buildGRPC() {
	c := &s.config
	options := append(s.interceptors(),
		grpc.ForceServerCodecV2(newRawCodec()),
		grpc.InitialWindowSize(windowBytes),
		grpc.InitialConnWindowSize(windowBytes),
		grpc.ReadBufferSize(connectionBufferBytes),
		grpc.WriteBufferSize(connectionBufferBytes),
		grpc.MaxRecvMsgSize(c.receiveBytesMax()),
		grpc.MaxSendMsgSize(math.MaxInt32),
		grpc.MaxConcurrentStreams(c.StreamsMax),
		grpc.MaxHeaderListSize(headerListBytesMax),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingsEvery, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: probeEvery, Timeout: probeTimeout}),
	)
	s.grpc = grpc.NewServer(options...)
	register(s.grpc, &flightService{server: s}, s.handle)
	s.health = newHealthService(s)
	grpc_health_v1.RegisterHealthServer(s.grpc, s.health)
	reflection.Register(s.grpc)
}

// receiveBytesMax is grpc's own limit of a message. It is more than ours
// because grpc ends the stream in its own words, without reason, bill and the
// answers that are due; so what is a little too large is still read.
func (c *Config) receiveBytesMax() int {
	const atLeast = 16 << 20
	return int(min(max(2*c.MessageBytesMax, atLeast), math.MaxInt32))
}

func (s *Server) bind() error {
	flightConns := newConnections(s.config.ConnectionsMax, "flight", s.logger)
	for _, addr := range s.config.Listen {
		l, err := listen("--listen", addr, s.config.Insecure)
		if err != nil {
			return err
		}
		s.listeners = append(s.listeners, flightConns.limit(l))
	}
	if s.config.HTTP == httpOff {
		return nil
	}
	l, err := listen("--http", s.config.HTTP, s.config.Insecure)
	if err != nil {
		return err
	}
	s.httpListn = newConnections(httpConnectionsMax, "http", s.logger).limit(l)
	s.http = s.newHTTP()
	return nil
}

func (s *Server) unbind() {
	for _, l := range s.listeners {
		_ = l.Close()
	}
	if s.httpListn != nil {
		_ = s.httpListn.Close()
	}
}

// Addrs are the Flight addresses as bound: host:port, or unix:/path.
func (s *Server) Addrs() []string {
	addrs := make([]string, len(s.listeners))
	for i, l := range s.listeners {
		addrs[i] = addrOf(l)
	}
	return addrs
}

// HTTPAddr is the HTTP address as bound; empty if HTTP is off.
func (s *Server) HTTPAddr() string {
	if s.httpListn == nil {
		return ""
	}
	return addrOf(s.httpListn)
}

// Serve answers until Drain has ended, or a listener fails. A Server serves
// once.
func (s *Server) Serve() error {
	stopWatch := s.startWatch()
	defer stopWatch()
	failed := make(chan error, len(s.listeners)+1)
	for _, l := range s.listeners {
		go func() { failed <- s.grpc.Serve(l) }()
	}
	if s.http != nil {
		go func() { failed <- s.http.Serve(s.httpListn) }()
	}
	select {
	case <-s.served:
		return nil
	case err := <-failed:
		if s.watch.draining.Load() { // its listener was closed on purpose
			<-s.served
			return nil
		}
		s.stop()
		return err
	}
}
