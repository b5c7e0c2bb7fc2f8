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

	timeout, queueTimeout, drainTimeout time.Duration

	maxQueue                                        int
	messageBytesMax, batchRowsMax, inflightBytesMax int64

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
func startGateway(ctx context.Context, s settings) (_ *gateway, err error) {
	g := &gateway{set: s, done: make(chan error, 1), begun: time.Now()}
	if g.set.workers == 0 {
		g.set.workers = g.set.cores
	}
	defer func() {
		if err != nil {
			g.close()
		}
	}()
	files, err := findServed(s.paths)
	if err != nil {
		return nil, err
	}
	python, err := findPython(ctx, s.python)
	if err != nil {
		return nil, err
	}
	m := metrics.New(prometheus.NewRegistry())
	if err := server.Check(g.serverConfig(nil)); err != nil {
		return nil, notListening(err) // before anything is loaded
	}
	b := readBuild()
	m.Build(b.Version, b.Commit, b.Go)
	if err := g.startPool(ctx, files, python, m); err != nil {
		return nil, err
	}
	return g, g.startServer(m)
}

func (g *gateway) startPool(ctx context.Context, files *served, python string, m *metrics.Metrics) error {
	p, err := pool.New(ctx, pool.Config{
		Name: poolDefault, Launcher: launcher{}, Python: python, Files: files.modules, Path: files.path,
		WorkersMax: g.set.workers,
		Timeout:    g.set.timeout, QueueTimeout: g.set.queueTimeout, QueueLenMax: g.set.maxQueue,
		AnswerBytesMax: g.set.messageBytesMax, SlotLimitBytes: g.set.inflightBytesMax, SlotLimitName: "--max-inflight-bytes",
		Logger: g.set.log, Observer: m,
	})
	if err != nil {
		return notStarted(err, python)
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
	var list []server.Served
	for _, f := range g.pool.Functions() {
		list = append(list, server.Served{Function: f, Backend: g.pool})
	}
	table, err := server.NewCatalog(list)
	if err != nil {
		return &failure{code: exitNoGate, what: "serve", err: err}
	}
	s, err := server.New(g.serverConfig(m), table)
	if err != nil {
		return notListening(err)
	}
	g.table, g.server = table, s
	table.SetReady(true)
	go func() { g.done <- s.Serve() }()
	return nil
}

func (g *gateway) serverConfig(m *metrics.Metrics) server.Config {
	return server.Config{
		Listen: g.set.listen, HTTP: g.set.http, Insecure: g.set.insecure,
		MessageBytesMax: g.set.messageBytesMax, BatchRowsMax: g.set.batchRowsMax, InflightBytesMax: g.set.inflightBytesMax,
		QueueTimeout: g.set.queueTimeout, DrainTimeout: cmp.Or(g.set.drainTimeout, server.DrainNow), // 0s was asked for
		Window: min(g.set.workers, server.WindowDefault), Logger: g.set.log, Metrics: m,
	}
}

// notStarted is a pool that did not come up: a file that does not load, or an
// interpreter that does not start.
func notStarted(err error, python string) error {
	f := &failure{code: exitNoGate, err: err}
	if e, ok := errors.AsType[*udfgate.Error](err); ok {
		f.detail = e.Detail
	}
	if e, ok := errors.AsType[*pool.LoadError](err); ok {
		f.what, f.err = "load", loadProblem(e)
		if e.File != "" {
			f.what += " " + filepath.Base(e.File)
		}
		if e.Class == "ModuleNotFoundError" {
			f.hint = "workers run " + python + "; --python PATH takes the environment that has it"
		}
	}
	return f
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
