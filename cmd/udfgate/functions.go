package main

import (
	"github.com/apache/arrow-go/v18/arrow"
	client "github.com/udfgate/udfgate/clients/go"
	"github.com/udfgate/udfgate/internal/arrowtype"
)

type functionsCmd struct {
	clientFlags
	JSON bool `help:"Print them as JSON."`
}

// Help is kong's: it stands below the one line of the command.
func (*functionsCmd) Help() string {
	return "Example: udfgate functions --json"
}

// functionJSON is a function as `functions --json` prints it.
type functionJSON struct {
	Name       string      `json:"name"`
	Signature  string      `json:"signature"`
	Args       []fieldJSON `json:"args"`
	Result     fieldJSON   `json:"result"`
	Kind       string      `json:"kind"`
	Mode       string      `json:"mode"`
	Volatility string      `json:"volatility"`
	Path       string      `json:"path"`
	Version    string      `json:"version"`
	Pool       string      `json:"pool"`
}

type fieldJSON struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Nullable bool   `json:"nullable"`
}

// Run lists the functions.
func (f *functionsCmd) Run(con *console) error {
	ctx, stop := interruptible()
	defer stop()
	gate, done, err := f.connect(ctx, con)
	if err != nil {
		return err
	}
	defer done()
	functions, err := gate.Functions(ctx)
	if err != nil {
		return callFailed(err)
	}
	if f.JSON {
		list := make([]functionJSON, 0, len(functions))
		for i := range functions {
			list = append(list, describe(&functions[i]))
		}
		return printJSON(con.out, list)
	}
	g := grid{head: []string{"function", "kind", "mode", "path", "version", "pool"}}
	for i := range functions {
		p := &functions[i]
		g.add(printableWhole(p.Signature()), p.Kind(), dash(p.Mode), dash(p.Path), dash(p.Version), dash(p.Pool))
	}
	return g.write(con.out)
}

func describe(f *client.Function) functionJSON {
	args := make([]fieldJSON, 0, len(f.Args))
	for _, a := range f.Args {
		args = append(args, describeField(a))
	}
	return functionJSON{f.Name, f.Signature(), args, describeField(f.Result), f.Kind(), f.Mode, f.Volatility, f.Path, f.Version, f.Pool}
}

func describeField(f arrow.Field) fieldJSON { return fieldJSON{f.Name, arrowtype.Name(f), f.Nullable} }

// dash stands for what the gateway did not tell.
func dash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}
