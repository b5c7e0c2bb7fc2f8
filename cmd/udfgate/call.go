package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	client "github.com/udfgate/udfgate/clients/go"
	"github.com/udfgate/udfgate/internal/tabular"
)

type callCmd struct {
	clientFlags
	Name      string   `arg:"" help:"Function to call, as udfgate functions lists it."`
	Args      string   `placeholder:"ROWS" help:"Rows as JSON, e.g. '[[12,18],[7,null]]'."`
	Input     string   `placeholder:"FILE" help:"Rows from a CSV file with a header (- for stdin; .gz is unpacked)."`
	Columns   []string `placeholder:"A,B" help:"Columns of --input to take, in the order of the arguments."`
	CSVNull   string   `name:"csv-null" placeholder:"TEXT" help:"A further spelling of null in CSV, e.g. NA."`
	BatchRows int      `default:"65536" placeholder:"N" help:"Rows sent in one batch (${default})."`
	JSON      bool     `help:"Print one JSON array with an element per row."`
	Bill      bool     `help:"Print where the time went."`
}

// Help is kong's: it stands below the one line of the command.
func (*callCmd) Help() string {
	return "Example: udfgate call per_mile --serve fares.py --args '[[120.0, 300.0], [80.0, null]]' --bill"
}

// Run calls the function and prints the answers.
func (c *callCmd) Run(con *console) error {
	if err := c.consistent(); err != nil {
		return err
	}
	ctx, stop := interruptible()
	defer stop()
	gate, done, err := c.connect(ctx, con)
	if err != nil {
		return err
	}
	defer done()
	function, err := gate.Function(ctx, c.Name)
	if err != nil {
		return callFailed(err)
	}
	source, closeSource, err := c.source(con, function)
	if err != nil {
		return err
	}
	defer closeSource()

	out := bufio.NewWriter(con.out)
	answers := c.printer(out, function)
	j := job{gate: gate, function: function, source: source, batchRows: c.BatchRows, each: answers.each}
	o, err := j.run(ctx)
	if err == nil {
		err = answers.end()
	}
	if c.Bill && o.bill != nil {
		err = errors.Join(err, c.printBill(con, out, o))
	}
	return errors.Join(err, out.Flush())
}

// consistent refuses flags that contradict each other.
func (c *callCmd) consistent() error {
	what := "call " + c.Name
	switch {
	case c.Args == "" && c.Input == "":
		return usage(what, errors.New("wanted one of --args and --input"), "e.g. udfgate call "+c.Name+" --args '[[12,18]]'")
	case c.Args != "" && c.Input != "":
		return usage(what, errors.New("--args and --input exclude each other"), "")
	case c.Args != "" && len(c.Columns) > 0:
		return usage(what, errors.New("--columns names columns of --input, and there are only --args"), "")
	case c.Args != "" && c.CSVNull != "":
		return usage(what, errors.New("--csv-null is a spelling in --input, and there are only --args"), "")
	case c.BatchRows < 1:
		return usage(what, fmt.Errorf("--batch-rows: wanted at least 1, got %d", c.BatchRows), "")
	}
	return nil
}

// source opens what --args or --input names, as rows of the function's types.
func (c *callCmd) source(con *console, f *client.Function) (tabular.Source, func(), error) {
	nothing := func() {}
	if c.Args != "" {
		rows, err := tabular.NewJSONRows(strings.NewReader(c.Args), f.Args)
		if err != nil {
			return nil, nil, usage("--args", err, signatureHint(f))
		}
		return named{rows, "--args", signatureHint(f)}, nothing, nil
	}
	if c.Input == "-" {
		s, err := c.csv(con, con.in, "stdin", f)
		return s, nothing, err
	}
	switch ext := filepath.Ext(strings.TrimSuffix(c.Input, ".gz")); ext {
	case ".csv":
	case ".jsonl", ".arrow", ".parquet":
		return nil, nil, usage(c.Input, fmt.Errorf("%s input is not built yet; wanted .csv or -", ext), "")
	default:
		return nil, nil, usage(c.Input, fmt.Errorf("wanted a .csv or .csv.gz file, got %q", ext), "")
	}
	file, err := os.Open(c.Input)
	if err != nil {
		return nil, nil, usage(c.Input, cause(err), "")
	}
	s, err := c.csv(con, file, c.Input, f)
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return s, func() { _ = file.Close() }, nil // only read: nothing can be lost
}

func (c *callCmd) csv(con *console, r io.Reader, name string, f *client.Function) (tabular.Source, error) {
	file := c.Input
	if file == "-" {
		file = "" // no name, which says nothing
	}
	s, err := tabular.NewCSV(r, f.Args, tabular.CSVOptions{Columns: c.Columns, Null: c.CSVNull, File: file})
	if err != nil {
		return nil, usage(name, err, signatureHint(f))
	}
	if note := s.Note(); note != "" {
		// The answers do not depend on it, so a stderr that cannot be written is no error.
		_, _ = fmt.Fprintf(con.err, "udfgate: %s: %s (--columns names them)\n", name, note)
	}
	return named{s, name, signatureHint(f)}, nil
}

func signatureHint(f *client.Function) string { return "the function is " + f.Signature() }

// printer is the form of output asked for.
func (c *callCmd) printer(w io.Writer, f *client.Function) printer {
	if c.JSON {
		return &jsonPrinter{w: w}
	}
	return newTablePrinter(w, f)
}

func (c *callCmd) printBill(con *console, out io.Writer, o outcome) error {
	if c.JSON {
		_, err := fmt.Fprintf(con.err, "%s\n", o.bill.JSON())
		return err
	}
	if _, err := fmt.Fprintf(out, "\n%s\n\n", speed(o.rows, o.batches, o.took)); err != nil {
		return err
	}
	return writeBill(out, o.bill)
}

// usage is a failure of exit status 2.
func usage(what string, err error, hint string) error {
	return &failure{code: exitUsage, what: what, err: err, hint: hint}
}

// cause strips what a path error repeats: the operation and the path, which
// our own text names already.
func cause(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	return err
}
