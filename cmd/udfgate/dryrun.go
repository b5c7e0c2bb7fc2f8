package main

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/internal/metrics"
)

// dryFunction is a function as `serve --dry-run --json` prints it.
type dryFunction struct {
	Name       string     `json:"name"` // as callers list it
	Canonical  string     `json:"canonical"`
	Signature  string     `json:"signature"`
	Args       []dryField `json:"args"`
	Result     dryField   `json:"result"`
	Mode       string     `json:"mode"`
	OnError    string     `json:"on_error"`
	TimeoutNS  int64      `json:"timeout_ns"`
	Volatility string     `json:"volatility"`
	Path       string     `json:"path"`
	Version    string     `json:"version"`
	Pool       string     `json:"pool"`
	File       *string    `json:"file"` // null for a module without one
}

type dryField struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Nullable bool   `json:"nullable"`
}

// pathPython is how a body runs that a worker runs.
const pathPython = "python"

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
	t := grid{head: []string{"function", "mode", "on_error", "timeout", "path", "version", "pool", "file"}}
	for _, f := range functions {
		d := g.describe(f)
		file := ""
		if d.File != nil {
			file = *d.File
		}
		t.add(printableWhole(d.Name+d.Signature[len(f.Name):]), d.Mode, d.OnError,
			time.Duration(d.TimeoutNS).String(), d.Path, d.Version, d.Pool, dash(printableWhole(file)))
	}
	return t.write(con.out)
}

// shortest is the name by which callers list a function: the short one while
// it is unique.
func (g *gateway) shortest(f *udfgate.Function) string {
	if found, _, err := g.table.Lookup(f.Name); err == nil && found == f {
		return f.Name
	}
	return f.Canonical()
}

func (g *gateway) describe(f *udfgate.Function) dryFunction {
	field := func(f udfgate.Field) dryField { return dryField{f.Name, f.Type.String(), f.Nullable} }
	d := dryFunction{
		Name: g.shortest(f), Canonical: f.Canonical(), Signature: f.Signature(), Args: []dryField{}, Result: field(f.ResultField(f.OnError)),
		Mode: string(f.Mode), OnError: string(udfgate.OnErrorFail), TimeoutNS: int64(g.pool.FunctionTimeout(f)),
		Volatility: string(f.Volatility), Path: pathPython, Version: f.Version, Pool: f.Pool,
	}
	if f.OnError != "" {
		d.OnError = string(f.OnError)
	}
	for _, a := range f.Args {
		d.Args = append(d.Args, field(a))
	}
	if file := g.pool.FunctionFile(f); file != "" {
		d.File = &file
	}
	return d
}
