package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/udfgate/udfgate"
	client "github.com/udfgate/udfgate/clients/go"
	"github.com/udfgate/udfgate/examples"
	"github.com/udfgate/udfgate/internal/tabular"
)

const (
	demoData       = ".data/flights.csv" // where make demo puts it
	demoFunctions  = "flights.py"        // in package examples
	demoSampleRows = 5
	demoBatchRows  = 65536
)

type demoCmd struct {
	Data      string `default:".data/flights.csv" placeholder:"FILE.csv" help:"Rows to run over (${default}, the flights of 2013, which make demo fetches)."`
	Functions string `placeholder:"FILE.py" help:"Functions to run instead of the built-in examples/flights.py."`
	Python    string `default:"python3" placeholder:"PATH" help:"Interpreter or virtual environment (${default})."`
	JSON      bool   `help:"Print one JSON array with an element per function."`
}

// Help is kong's: it stands below the one line of the command.
func (*demoCmd) Help() string {
	return "Example: udfgate demo --data flights.csv --functions flights.py"
}

// demoResult is one function's run as `demo --json` prints it.
type demoResult struct {
	Function      string        `json:"function"`
	Signature     string        `json:"signature"`
	Rows          int64         `json:"rows"`
	Batches       int64         `json:"batches"`
	Seconds       float64       `json:"seconds"`
	RowsPerSecond float64       `json:"rows_per_s"`
	Bill          *udfgate.Bill `json:"bill"`
}

// Run runs every function over the file, one after the other.
func (d *demoCmd) Run(con *console) (err error) {
	err = readable(d.Data)
	if d.Data == demoData && errors.Is(err, fs.ErrNotExist) {
		return usage("demo", errors.New("no "+demoData+" below this folder: make demo fetches it, or give --data FILE.csv"), "")
	}
	if err != nil {
		return usage("--data "+d.Data, err, "")
	}
	ctx, stop := interruptible()
	defer stop()
	file, done, err := d.functionsFile()
	if err != nil {
		return err
	}
	defer done()
	flags := clientFlags{Serve: []string{file}, Python: d.Python, StartTimeout: startTimeoutDefault}
	gate, end, err := flags.connect(ctx, con)
	if err != nil {
		return err
	}
	defer end()
	functions, err := gate.Functions(ctx)
	if err != nil {
		return callFailed(err)
	}
	out := bufio.NewWriter(con.out)
	defer func() { err = errors.Join(err, out.Flush()) }()
	results := make([]demoResult, 0, len(functions))
	for i := range functions {
		r, err := d.one(ctx, out, gate, &functions[i])
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	if d.JSON {
		return printJSON(out, results)
	}
	return nil
}

// functionsFile is the file to serve: the given one, or the embedded example
// written to a folder of its own.
func (d *demoCmd) functionsFile() (name string, done func(), err error) {
	if d.Functions != "" {
		return d.Functions, func() {}, nil
	}
	text, err := examples.Files.ReadFile(demoFunctions)
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "udfgate-demo-")
	if err != nil {
		return "", nil, err
	}
	name = filepath.Join(dir, demoFunctions)
	if err := os.WriteFile(name, text, 0o600); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return name, func() { _ = os.RemoveAll(dir) }, nil // a temporary folder
}

// one runs a function over the whole file, by the same path as `call`.
func (d *demoCmd) one(ctx context.Context, out io.Writer, gate *client.Client, f *client.Function) (demoResult, error) {
	data, err := os.Open(d.Data)
	if err != nil {
		return demoResult{}, usage("--data "+d.Data, cause(err), "")
	}
	defer data.Close()
	rows, err := tabular.NewCSV(data, f.Args, tabular.Options{Null: "NA", File: d.Data})
	if err != nil {
		return demoResult{}, usage(d.Data, err, signatureHint(f))
	}
	sample := newTablePrinter(out, f, []arrow.Field{f.Result})
	sample.max = demoSampleRows
	each := sample.each
	if d.JSON {
		each = func(*reply) error { return nil }
	}
	o, err := (&job{gate: gate, function: f, source: named{rows, d.Data, signatureHint(f)}, batchRows: demoBatchRows, each: each}).run(ctx)
	if err != nil {
		return demoResult{}, err
	}
	r := demoResult{f.Name, f.Signature(), o.rows, o.batches, o.took.Seconds(), float64(o.rows) / o.took.Seconds(), o.bill}
	if d.JSON {
		return r, nil
	}
	return r, showRun(out, f, sample, o)
}

func showRun(out io.Writer, f *client.Function, sample *tablePrinter, o outcome) error {
	if _, err := fmt.Fprintf(out, "── %s\n\n", f.Signature()); err != nil {
		return err
	}
	if err := sample.end(); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "\n%s, reading the file included\n\n", speed(o)); err != nil {
		return err
	}
	if o.bill != nil {
		if err := writeBill(out, o.bill, o.table); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(out)
	return err
}
