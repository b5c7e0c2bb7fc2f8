package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/udfgate/udfgate/pool"
)

// The defaults of serve, which embedded gateways share. kong reads them from
// the tags below; TestDefaults keeps the two alike.
const (
	timeoutDefault         = 30 * time.Second
	queueTimeoutDefault    = 10 * time.Second
	startTimeoutDefault    = 30 * time.Second
	drainTimeoutDefault    = 25 * time.Second
	maxQueueDefault        = pool.QueueLenDefault
	messageBytesMaxDefault = 256 << 20
	batchRowsMaxDefault    = 16777216
	openStreamsMaxDefault  = 16384
)

// connectionsMax is the most that --max-connections takes.
const connectionsMax = 1 << 20

type serveCmd struct {
	Paths []string `arg:"" optional:"" name:"file" help:"Python files, folders of them, or modules by name."`

	Listen   []string `default:"127.0.0.1:8815" placeholder:"ADDR" help:"Flight address: host:port or unix:/path; port 0 picks one (${default}). Repeatable."`
	HTTP     string   `name:"http" default:"127.0.0.1:8816" placeholder:"ADDR" help:"HTTP address, or off (${default})."`
	Insecure bool     `help:"Allow addresses beyond loopback without TLS and tokens."`
	Python   string   `default:"python3" placeholder:"PATH" help:"Interpreter or virtual environment (${default})."`

	Workers      int           `placeholder:"N" help:"Most workers (default: one per core)."`
	MaxQueue     int           `default:"4096" placeholder:"N" help:"Most chunks that wait for a worker (${default})."`
	Timeout      time.Duration `default:"30s" placeholder:"D" help:"Time limit of a chunk (${default})."`
	QueueTimeout time.Duration `default:"10s" placeholder:"D" help:"Longest wait for a worker (${default})."`
	StartTimeout time.Duration `default:"30s" placeholder:"D" help:"Longest start of a worker, its imports included (${default})."`
	DrainTimeout time.Duration `default:"25s" placeholder:"D" help:"Longest wait for calls in flight at the end (${default})."`

	MaxMessageBytes  size `default:"256MiB" placeholder:"SIZE" help:"Largest message (${default})."`
	MaxBatchRows     int  `default:"16777216" placeholder:"N" help:"Most rows of a batch (${default})."`
	MaxInflightBytes size `placeholder:"SIZE" help:"Most bytes of batches and answers at once (default: a quarter of the memory)."`

	MaxConnections int `placeholder:"N" help:"Most open connections (default: as many as fit, at most 4096)."`
	MaxStreams     int `default:"16384" placeholder:"N" help:"Most open calls of all connections (${default})."`

	DryRun bool `help:"Load the functions, print what would be served, and end."`
	JSON   bool `help:"With --dry-run: print them as JSON."`

	ReadyFile string `placeholder:"PATH" help:"JSON file written once all functions are loaded."`
	LogFormat string `default:"text" enum:"text,json" placeholder:"F" help:"Form of the log lines: text or json (${default})."`
	LogLevel  string `default:"info" enum:"debug,info,warn,error" placeholder:"L" help:"Least level that is logged: debug, info, warn or error (${default})."`
}

// Help is kong's: it stands below the one line of the command.
func (*serveCmd) Help() string {
	return "Example: udfgate serve fares.py --workers 4"
}

// Validate is kong's: it runs before Run, and its error is wrong use.
func (s *serveCmd) Validate() error {
	switch {
	case s.Workers < 0:
		return fmt.Errorf("--workers: wanted at least 1, got %d", s.Workers)
	case s.MaxQueue < 1:
		return fmt.Errorf("--max-queue: wanted at least 1, got %d", s.MaxQueue)
	case s.MaxConnections < 0 || s.MaxConnections > connectionsMax:
		return fmt.Errorf("--max-connections: wanted 1 to %d, got %d", connectionsMax, s.MaxConnections)
	case s.MaxStreams < 1:
		return fmt.Errorf("--max-streams: wanted at least 1, got %d", s.MaxStreams)
	case s.MaxBatchRows < 1:
		return fmt.Errorf("--max-batch-rows: wanted at least 1, got %d", s.MaxBatchRows)
	case s.Timeout <= 0:
		return fmt.Errorf("--timeout: wanted more than 0s, got %s", s.Timeout)
	case s.StartTimeout <= 0:
		return fmt.Errorf("--start-timeout: wanted more than 0s, got %s", s.StartTimeout)
	case s.QueueTimeout <= 0:
		return fmt.Errorf("--queue-timeout: wanted more than 0s, got %s", s.QueueTimeout)
	case s.DrainTimeout < 0:
		return fmt.Errorf("--drain-timeout: wanted at least 0s, got %s", s.DrainTimeout)
	}
	return nil
}

// Run serves until a signal.
func (s *serveCmd) Run(con *console) error {
	if s.DryRun && s.LogLevel == "info" {
		s.LogLevel = "warn" // what is printed says the rest
	}
	log, err := newLogger(con.err, s.LogFormat, s.LogLevel)
	if err != nil {
		return usage("", err, "")
	}
	if len(s.Paths) == 0 {
		s.Paths = con.config.files
	}
	if len(s.Paths) == 0 {
		return usage("serve", errors.New("wanted something to serve, got nothing"),
			"give FILE.py, a folder or pkg.module, or files: in the file of --config; see udfgate serve --help")
	}
	if s.DryRun {
		return s.dryRun(con, log)
	}
	if err := prepareReady(s.ReadyFile); err != nil {
		return usage("--ready-file "+s.ReadyFile, cause(err), "")
	}
	defer ignoreHangups(log)()
	ctx, restore := interruptible()
	defer restore()
	g, err := startGateway(ctx, s.settings(con, log))
	if err != nil {
		if ctx.Err() != nil {
			log.Info("stopped before it was ready")
			return nil
		}
		return err
	}
	defer g.close()
	g.announce(log)
	if err := s.ready(g); err != nil {
		return err
	}
	defer func() { _ = removeReady(s.ReadyFile) }() // it may be gone already

	select {
	case err := <-g.done:
		if err == nil {
			err = errors.New("the listeners ended")
		}
		return &failure{code: exitFailed, what: "serve", err: err}
	case <-ctx.Done():
	}
	// A second signal cuts off what is in flight, so that workers, their folder
	// and the ready file go all the same; a third one kills.
	hurry, restoreHurry := interruptible()
	defer restoreHurry()
	context.AfterFunc(hurry, restoreHurry)
	restore()
	if err := g.drain(hurry); err != nil {
		log.Warn("calls were cut off", slog.Any("error", err))
	}
	log.Info("stopped")
	return nil
}

// ignoreHangups answers SIGHUP with a warning until the returned function is
// called: service managers send it for a reload, which must not end the service.
func ignoreHangups(log *slog.Logger) (stop func()) {
	hangups, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		for {
			select {
			case <-hangups:
				log.Warn("reload is not built yet; restart to serve changed files", slog.String("signal", "SIGHUP"))
			case <-done:
				return
			}
		}
	}()
	return func() {
		signal.Stop(hangups)
		close(done)
	}
}

func (s *serveCmd) settings(con *console, log *slog.Logger) settings {
	inflight := int64(s.MaxInflightBytes)
	if inflight == 0 {
		inflight = inflightDefault()
	}
	return settings{
		paths: s.Paths, python: s.Python, workers: s.Workers, cores: takeCores(), log: log,
		listen: s.Listen, http: s.HTTP, insecure: s.Insecure,
		timeout: s.Timeout, queueTimeout: s.QueueTimeout, startTimeout: s.StartTimeout, drainTimeout: s.DrainTimeout,
		maxQueue: s.MaxQueue, messageBytesMax: int64(s.MaxMessageBytes),
		batchRowsMax: int64(s.MaxBatchRows), inflightBytesMax: inflight,
		connectionsMax: s.MaxConnections, openStreamsMax: s.MaxStreams,
		config: con.config, strict: true, debug: con.debug,
	}
}

func (s *serveCmd) ready(g *gateway) error {
	if s.ReadyFile == "" {
		return nil
	}
	r := ready{Flight: g.server.Addrs(), PID: os.Getpid()}
	if addr := g.server.HTTPAddr(); addr != "" {
		r.HTTP = &addr
	}
	if err := writeReady(s.ReadyFile, r); err != nil {
		return usage("--ready-file "+s.ReadyFile, cause(err), "")
	}
	return nil
}
