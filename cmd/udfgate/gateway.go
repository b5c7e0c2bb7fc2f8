package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/internal/metrics"
	"github.com/udfgate/udfgate/pool"
	"github.com/udfgate/udfgate/sandbox"
	"github.com/udfgate/udfgate/server"
)

// poolDefault is the pool of the files given to serve.
const poolDefault = "default"

// settings is everything that a gateway is started from.
type settings struct {
	paths  []string
	python string

	workers int // 0: one per core
	cores   int

	listen   []string
	http     string
	insecure bool

	timeout, queueTimeout, startTimeout, drainTimeout time.Duration

	maxQueue                                        int
	messageBytesMax, batchRowsMax, inflightBytesMax int64

	connectionsMax int // 0: as many as fit
	openStreamsMax int

	config *config // nil: none
	strict bool    // each of config's functions has to be served
	debug  debugSettings

	log *slog.Logger
}

// gateway is a running one: a pool of workers behind a server.
type gateway struct {
	set    settings
	pool   *pool.Pool
	server *server.Server
	table  *server.Table
	done   chan error // what Serve returned
	begun  time.Time
}

// launcher adapts package sandbox to what pool needs. The two rooms do not
// know each other, so their types cannot be the same.
type launcher struct{}

func (launcher) Launch(s pool.Spec) (pool.Process, error) {
	p, err := sandbox.Start(sandbox.Spec{Argv: s.Argv, Env: s.Env, Dir: s.Dir})
	if err != nil {
		return nil, err // a literal nil: a nil *sandbox.Process is no nil Process
	}
	return process{p}, nil
}

type process struct{ *sandbox.Process }

func (p process) Wait() pool.Exit { return pool.Exit(p.Process.Wait()) }

// startGateway loads every function, then listens. All it started is ended
// again if it fails.
func startGateway(ctx context.Context, s settings) (*gateway, error) {
	g, m := newGateway(s), metrics.New(prometheus.NewRegistry())
	b := readBuild()
	m.Build(b.Version, b.Commit, b.Go)
	err := g.load(ctx, m, func() error { return server.Check(g.serverConfig(nil)) })
	if err == nil {
		err = g.startServer(m)
	}
	if err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

func newGateway(s settings) *gateway {
	g := &gateway{set: s, done: make(chan error, 1), begun: time.Now()}
	if g.set.workers == 0 {
		g.set.workers = g.set.cores
	}
	return g
}

// load starts the pool and makes the table of its functions. check is asked
// before anything is loaded whether the rest could work.
func (g *gateway) load(ctx context.Context, m *metrics.Metrics, check func() error) error {
	files, err := findServed(g.set.paths)
	if err != nil {
		return err
	}
	python, err := findPython(ctx, g.set.python)
	if err != nil {
		return err
	}
	if err := check(); err != nil {
		return notListening(err)
	}
	if err := g.startPool(ctx, files, python, m); err != nil {
		return err
	}
	if g.set.strict {
		if err := g.set.config.unknownFunctions(g.pool); err != nil {
			return err
		}
	}
	var list []server.Served
	for _, f := range g.pool.Functions() {
		list = append(list, server.Served{Function: f, Backend: g.pool})
	}
	if g.table, err = server.NewCatalog(list); err != nil {
		return &failure{code: exitNoGate, what: "serve", err: err}
	}
	return nil
}

func (g *gateway) startPool(ctx context.Context, files *served, python string, m *metrics.Metrics) error {
	p, err := pool.New(ctx, pool.Config{
		Name: poolDefault, Launcher: launcher{}, Python: python, Files: files.modules, Path: files.path,
		Overrides: g.set.config.overrides(), WorkersMax: g.set.workers,
		Timeout: g.set.timeout, QueueTimeout: g.set.queueTimeout, StartTimeout: g.set.startTimeout, QueueLenMax: g.set.maxQueue,
		AnswerBytesMax: g.set.messageBytesMax, SlotLimitBytes: g.set.inflightBytesMax, SlotLimitName: "--max-inflight-bytes",
		PrivateArenas: g.set.debug.privateArenas, BillOff: g.set.debug.billOff,
		Logger: g.set.log, Observer: m,
	})
	if err != nil {
		return notStarted(err, python, files)
	}
	g.pool = p
	m.Pool(poolDefault, func() metrics.PoolState {
		s := p.Stats()
		return metrics.PoolState{
			Idle: s.Idle, Busy: s.Busy, Starting: s.Starting, QueueDepth: s.QueueLen,
			BusySeconds: s.BusyTime.Seconds(), WorkerSeconds: s.WorkerTime.Seconds(),
			MemoryBytes: s.MemoryBytes, PinnedBytes: s.PinnedBytes,
		}
	})
	return nil
}

func (g *gateway) startServer(m *metrics.Metrics) error {
	s, err := server.New(g.serverConfig(m), g.table)
	if err != nil {
		return notListening(err)
	}
	g.server = s
	g.table.SetReady(true)
	go func() { g.done <- s.Serve() }()
	return nil
}

func (g *gateway) serverConfig(m *metrics.Metrics) server.Config {
	return server.Config{
		Listen: g.set.listen, HTTP: g.set.http, Insecure: g.set.insecure,
		MessageBytesMax: g.set.messageBytesMax, BatchRowsMax: g.set.batchRowsMax, InflightBytesMax: g.set.inflightBytesMax,
		QueueTimeout: g.set.queueTimeout, DrainTimeout: cmp.Or(g.set.drainTimeout, server.DrainNow), // 0s was asked for
		Window: min(g.set.workers, server.WindowDefault), ConnectionsMax: g.set.connectionsMax, OpenStreamsMax: g.set.openStreamsMax,
		BillOff: g.set.debug.billOff,
		Logger:  g.set.log, Metrics: m,
	}
}

// notStarted is a pool that did not come up: a file that does not load, or an
// interpreter that does not start.
func notStarted(err error, python string, files *served) error {
	f := &failure{code: exitNoGate, err: err}
	if e, ok := errors.AsType[*udfgate.Error](err); ok {
		f.detail = e.Detail
	}
	if e, ok := errors.AsType[*pool.LoadError](err); ok {
		f.what, f.err = "load", loadProblem(e)
		if e.File != "" {
			f.what += " " + filepath.Base(e.File)
		}
		f.hint = loadHint(e, python, files)
	}
	return f
}

// loadHint is what to do about a file or module that does not load; empty if
// its error says all.
func loadHint(e *pool.LoadError, python string, files *served) string {
	switch {
	case files.named(e.File):
		return "it is no file or folder here, and as a module it is looked for in this folder and in " + python
	case strings.Contains(e.Message, "attempted relative import"):
		return "a file is loaded on its own; a module of a package is served by its name: udfgate serve pkg.module"
	case e.Class == "ModuleNotFoundError":
		return "workers run " + python + "; --python PATH takes the environment that has it"
	case e.Class == "FileNotFoundError":
		return "workers run in an empty folder of their own; Path(__file__).with_name(NAME) is a file beside this one"
	case e.Class == "KeyError" && strings.Contains(e.Traceback, "environ["):
		return "of the gateway's environment, workers see PATH, LANG and TZ alone"
	}
	return ""
}

// refused is the class of what a worker itself finds wrong with a file; the
// message alone says it.
const refused = "LoadError"

// loadProblem is "SyntaxError: invalid syntax (geo.py, line 3)".
func loadProblem(e *pool.LoadError) error {
	text := e.Class
	switch {
	case e.Class == refused:
		text = e.Message
	case e.Message != "":
		text += ": " + e.Message
	}
	if e.Line <= 0 {
		return errors.New(text)
	}
	// Python puts the place into a SyntaxError's own text.
	place := fmt.Sprintf("(%s, line %d)", filepath.Base(e.File), e.Line)
	return fmt.Errorf("%s %s", strings.TrimSuffix(text, " "+place), place)
}

// notListening tells an address that is taken or not there, which is the
// machine's state, from one that may not be asked for.
func notListening(err error) error {
	f := &failure{code: exitUsage, err: err}
	switch e, system := errors.AsType[syscall.Errno](err); {
	case system && (e == syscall.EINVAL || e == syscall.ENOENT || e == syscall.ENOTDIR):
		// A socket's path that is too long or leads nowhere.
	case system, errors.Is(err, server.ErrTaken):
		f.code = exitNoGate
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		f.hint = "another gateway may be running; --listen 127.0.0.1:0 --http 127.0.0.1:0 picks free ports"
	}
	return f
}

// announce writes the start-up lines: what is served, by how many workers,
// where.
func (g *gateway) announce(log *slog.Logger) {
	if d := g.set.debug; d.text != "" {
		log.Warn("set for measuring only, not for a service", slog.String(strings.ToLower(debugVariable), d.text))
	}
	if text := platformLacks(); text != "" {
		log.Warn(text) //nolint:sloglint // one sentence per system, for people
	}
	for _, f := range g.pool.Functions() {
		log.Info("serving", slog.String("function", f.Canonical()), slog.String("signature", f.Signature()),
			slog.String("version", f.Version))
	}
	log.Info("workers", slog.String("pool", poolDefault), slog.Int("warm", 1), slog.Int("max", g.set.workers),
		slog.Int("cores", g.set.cores), slog.String("inflight_bytes_max", bytesText(g.set.inflightBytesMax)))
	http := g.server.HTTPAddr()
	if http == "" {
		http = "off"
	}
	log.Info("ready", slog.String("flight", strings.Join(g.server.Addrs(), ",")), slog.String("http", http),
		slog.Duration("after", time.Since(g.begun).Round(time.Millisecond)))
}

// drain ends the service: no new calls, the ones in flight may finish.
func (g *gateway) drain(ctx context.Context) error {
	if g.table != nil {
		g.table.SetReady(false)
	}
	return g.server.Drain(ctx)
}

// closeTime bounds how long close waits for what should end at once.
const closeTime = 5 * time.Second

// close ends everything, whatever state it is in. Calls in flight are cut off;
// drain first if they should not be.
func (g *gateway) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if g.server != nil {
		now, cut := context.WithCancel(ctx)
		cut()
		_ = g.server.Drain(now) // no call is worth waiting for here
	}
	if g.pool != nil {
		g.pool.Close(ctx)
	}
}
