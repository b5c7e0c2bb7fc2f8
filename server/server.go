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
	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/internal/metrics"
	"google.golang.org/grpc"
	"google.golang.org/grpc/experimental"
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

	// QueueTimeout bounds the wait for room among the in-flight bytes [10s].
	QueueTimeout time.Duration
	// DrainTimeout bounds how long Drain lets calls finish; DrainNow is not at
	// all [25s].
	DrainTimeout time.Duration
	// NotReadingTimeout is how long a client may leave its answers unread
	// before its call ends. For at most twice as long a call that has failed
	// throws away what its client still writes [10s].
	NotReadingTimeout time.Duration

	// Window is how many batches of one stream may be in flight, at most
	// WindowMax, and no more than the function's concurrency; of a table
	// function it is one. More than the backend runs at once only queue there;
	// more than WindowDefault let one stream crowd out the others
	// [WindowDefault].
	Window int
	// StreamsMax bounds the streams of one connection [1000].
	StreamsMax uint32
	// ConnectionsMax bounds the open connections (--max-connections); further
	// ones wait a moment and are then turned away. Their HTTP/2 windows and
	// buffers together may not be more than InflightBytesMax, as long as that
	// has room for 64 of them [4096, or what that has room for].
	ConnectionsMax int

	// OpenStreamsMax bounds the calls that are open at once, over all
	// connections (--max-streams) [16384].
	OpenStreamsMax int

	// BillOff is a debug setting to measure what bills cost: no timelines,
	// ledgers, trailers, bills of batches and metrics of calls.
	BillOff bool

	// Logger gets what happens [nobody].
	Logger *slog.Logger
	// Metrics gets the numbers [nobody].
	Metrics *metrics.Metrics

	keep keep // less in tests

	linger lingering // longer in tests
}

// WindowDefault is the default of Config.Window, and the most that is of use
// where streams share a backend.
const WindowDefault = 4

// DrainNow is a Config.DrainTimeout that cuts calls off at once; 0 is the default.
const DrainNow = time.Duration(-1)

// Defaults of Config, and bounds that have no key.
const (
	listenDefault        = "127.0.0.1:8815"
	httpDefault          = "127.0.0.1:8816"
	httpOff              = "off"
	messageBytesDefault  = 256 << 20
	batchRowsDefault     = 16777216
	inflightBytesDefault = 1 << 30
	queueTimeoutDefault  = 10 * time.Second
	drainTimeoutDefault  = 25 * time.Second
	notReadingDefault    = 10 * time.Second
	streamsDefault       = 1000
	openStreamsDefault   = 16384
	connectionsDefault   = 4096
	connectionsAlways    = 64        // that many connections are allowed whatever InflightBytesMax is
	headerListBytesMax   = 256 << 10 // beyond it grpc ends the connection, with all its calls
	handshakeTimeout     = 10 * time.Second
	readBufferBytes      = 64 << 10 // each connection keeps its own; those for writing are shared
	writeBufferBytes     = 128 << 10
)

// keep is how connections are kept alive: how often a client may ping, when a
// silent one is asked for a sign of life, and how long it has to give it.
type keep struct{ pingsEvery, probeEvery, probeTimeout time.Duration }

// keepDefault lets clients ping as often as engines do behind load balancers
// that forget silent connections after a minute or less.
var keepDefault = keep{pingsEvery: 5 * time.Second, probeEvery: time.Minute, probeTimeout: 20 * time.Second}

// windowBytes is the HTTP/2 window of streams and connections. A fixed one
// switches grpc's bandwidth estimator off, whose PING after each message costs
// a small call up to a fifth of its time; below 1 MiB large messages stall.
const windowBytes = 1 << 20

// connectionBytes is what a connection counts for: what a client may have sent
// on one stream before anybody reads it, and what grpc allocates.
const connectionBytes = windowBytes + readBufferBytes + writeBufferBytes

// ensureDefaults fills in what is zero.
func (c *Config) ensureDefaults() {
	if len(c.Listen) == 0 {
		c.Listen = []string{listenDefault}
	}
	c.HTTP = cmp.Or(c.HTTP, httpDefault)
	c.MessageBytesMax = cmp.Or(c.MessageBytesMax, messageBytesDefault)
	c.BatchRowsMax = cmp.Or(c.BatchRowsMax, batchRowsDefault)
	c.InflightBytesMax = cmp.Or(c.InflightBytesMax, inflightBytesDefault)
	c.QueueTimeout = cmp.Or(c.QueueTimeout, queueTimeoutDefault)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, drainTimeoutDefault)
	c.NotReadingTimeout = cmp.Or(c.NotReadingTimeout, notReadingDefault)
	c.Window = cmp.Or(c.Window, WindowDefault)
	c.StreamsMax = cmp.Or(c.StreamsMax, streamsDefault)
	c.OpenStreamsMax = cmp.Or(c.OpenStreamsMax, openStreamsDefault)
	c.ConnectionsMax = cmp.Or(c.ConnectionsMax, int(min(connectionsDefault, c.connectionsFit())))
	c.keep = cmp.Or(c.keep, keepDefault)
	c.linger = cmp.Or(c.linger, lingering{lingerQuiet, lingerMax})
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Metrics == nil {
		c.Metrics = metrics.New(nil)
	}
}

// connectionsFit is how many connections InflightBytesMax has room for.
func (c *Config) connectionsFit() int64 {
	return max(c.InflightBytesMax/connectionBytes, connectionsAlways)
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
	positive(queueTimeoutName, int64(c.QueueTimeout))
	if c.DrainTimeout != DrainNow {
		positive("--drain-timeout", int64(c.DrainTimeout))
	}
	positive("not-reading timeout", int64(c.NotReadingTimeout))
	positive(connectionsName, int64(c.ConnectionsMax))
	positive(openStreamsName, int64(c.OpenStreamsMax))
	if c.Window < 1 || c.Window > WindowMax {
		all = append(all, fmt.Errorf("window: wanted 1 to %d batches in flight per stream, got %d", WindowMax, c.Window))
	}
	// On top of the budget come, for each connection, grpc's buffers and what
	// has come for a stream and is not read yet, up to its window: these are
	// compared here, for one stream that is not read from per connection. Beyond
	// that lie the windows of further streams (that of the connection bounds
	// nothing: grpc opens it again whether anybody reads or not) and the rest of
	// messages under way, which grpc buffers whole, up to receiveBytesMax each,
	// before their size is known and settled with the budget. The sum of those
	// over all streams that may be open is beyond every budget, though next to
	// nothing for streams that are idle or are read from: to compare it would
	// forbid them.
	if fit := c.connectionsFit(); int64(c.ConnectionsMax) > fit {
		all = append(all, fmt.Errorf("%s %d × %s of HTTP/2 window and buffers each are more than %s %s: wanted at most %d connections",
			connectionsName, c.ConnectionsMax, humanize.IBytes(connectionBytes), inflightBytesName, humanize.IBytes(uint64(max(c.InflightBytesMax, 0))), fit))
	}
	return errors.Join(all...)
}

// Server is a gateway's outside. Make one with New.
type Server struct {
	config  Config
	catalog Catalog
	logger  *slog.Logger
	metrics *metrics.Metrics

	grpc        *grpc.Server
	listeners   []net.Listener
	flightConns *connections // of all of them
	http        *http.Server
	httpListn   net.Listener // nil if HTTP is off
	health      *healthService

	budget  *budget
	errors  errorStore
	routes  sync.Map // *udfgate.Function → *route
	tallies *tallies
	names   descriptorNames
	calls   atomic.Uint64 // batches handed to a backend
	streams atomic.Uint64 // calls that have come

	principals principals

	watch    watch
	crew     *crew
	running  sync.WaitGroup // receivers and walks
	stopOnce sync.Once
	served   chan struct{} // closed once everything has ended
}

// streamWorkers is how many goroutines of grpc take calls one after the other.
// A new goroutine for each call grows its stack anew: 7 to 9 % of the CPU of a
// small one. When all are taken, grpc makes new ones as it would without.
const streamWorkers = 32

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
		budget:  newBudget(c.InflightBytesMax),
		crew:    newCrew(),
		tallies: newTallies(),
		served:  make(chan struct{}),
	}
	s.watch.streams = map[*exchange]struct{}{}
	s.metrics.Inflight(s.budget.bytes)
	s.buildGRPC()
	if err := s.bind(); err != nil {
		s.unbind()
		s.grpc.Stop() // ends the goroutines that wait for calls
		return nil, err
	}
	return s, nil
}

// Check reports what New would find wrong with the settings and the addresses
// just now, which is cheap, while what a Catalog is made from may not be. It
// binds the addresses and lets go of them again.
//
// # Errors
//
// As of New.
func Check(c Config) error {
	c.ensureDefaults()
	if err := c.validate(); err != nil {
		return err
	}
	s := &Server{config: c, logger: c.Logger, metrics: c.Metrics}
	defer s.unbind()
	return s.bind()
}

func (s *Server) buildGRPC() {
	c := &s.config
	options := append(s.interceptors(),
		grpc.ForceServerCodecV2(newRawCodec()),
		experimental.BufferPool(&buffers{}),
		grpc.InitialWindowSize(windowBytes),
		grpc.InitialConnWindowSize(windowBytes),
		grpc.ReadBufferSize(readBufferBytes),
		grpc.WriteBufferSize(writeBufferBytes),
		grpc.MaxRecvMsgSize(c.receiveBytesMax()),
		grpc.MaxSendMsgSize(math.MaxInt32),
		grpc.MaxConcurrentStreams(c.StreamsMax),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.MaxHeaderListSize(headerListBytesMax),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: c.keep.pingsEvery, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: c.keep.probeEvery, Timeout: c.keep.probeTimeout}),
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
	turnedAway := func() { s.metrics.Rejected(udfgate.QueueFull) }
	s.flightConns = newConnections(s.config.ConnectionsMax, connectionsName, refusalHTTP2, s.logger, turnedAway)
	for _, addr := range s.config.Listen {
		l, err := listen("--listen", addr, s.config.Insecure)
		if err != nil {
			return err
		}
		s.listeners = append(s.listeners, s.flightConns.on(l))
	}
	if s.config.HTTP == httpOff {
		return nil
	}
	l, err := listen("--http", s.config.HTTP, s.config.Insecure)
	if err != nil {
		return err
	}
	httpConns := newConnections(httpConnectionsMax, "the HTTP connections:", refusalHTTP1, s.logger, turnedAway)
	httpConns.asked = true
	s.httpListn = httpConns.on(l)
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
