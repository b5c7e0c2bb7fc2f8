package main

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/internal/metrics"
	"github.com/udfgate/udfgate/server"
)

// dryFunction is a function as `serve --dry-run --json` prints it.
type dryFunction struct {
	server.Description
	TimeoutNS int64   `json:"timeout_ns"`
	File      *string `json:"file"` // null for a module without one
}

// dryRun loads everything in a real worker and prints what would be served. It
// binds no address and touches no ready file, so it may run beside a gateway.
func (s *serveCmd) dryRun(con *console, log *slog.Logger) error {
	ctx, stop := interruptible()
	defer stop()
	g := newGateway(s.settings(con, log))
	defer g.close()
	if err := g.load(ctx, metrics.New(prometheus.NewRegistry()), func() error { return nil }); err != nil {
		if ctx.Err() != nil {
			return errInterrupted
		}
		return err
	}
	functions := g.pool.Functions()
	if s.JSON {
		list := make([]dryFunction, 0, len(functions))
		for _, f := range functions {
			list = append(list, g.describe(f))
		}
		return printJSON(con.out, list)
	}
	t := grid{head: []string{"function", "kind", "mode", "on_error", "timeout", "path", "version", "pool", "file"}}
	for _, f := range functions {
		d := g.describe(f)
		file := ""
		if d.File != nil {
			file = *d.File
		}
		t.add(printableWhole(d.Name+d.Signature[len(f.Name):]), d.Kind, d.Mode, d.OnError,
			time.Duration(d.TimeoutNS).String(), d.Path, d.Version, d.Pool, dash(printableWhole(file)))
	}
	return t.write(con.out)
}

func (g *gateway) describe(f *udfgate.Function) dryFunction {
	d := dryFunction{Description: server.Describe(g.table, f), TimeoutNS: int64(g.pool.FunctionTimeout(f))}
	if file := g.pool.FunctionFile(f); file != "" {
		d.File = &file
	}
	return d
}
