package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/udfgate/udfgate"
	client "github.com/udfgate/udfgate/clients/go"
	"github.com/udfgate/udfgate/internal/tabular"
)

type callCmd struct {
	clientFlags
	Name         string   `arg:"" help:"Function to call, as udfgate functions lists it."`
	Args         string   `placeholder:"ROWS" help:"Rows as JSON, e.g. '[[12,18],[7,null]]'."`
	Input        string   `placeholder:"FILE" help:"Rows from a Parquet, Arrow, JSONL or CSV file, by its extension (- for stdin, told by its first bytes; .gz of the last two is unpacked)."`
	InputFormat  string   `enum:"csv,jsonl,arrow,parquet," default:"" placeholder:"FORMAT" help:"What --input is, whatever its name: csv, jsonl, arrow or parquet."`
	Columns      []string `placeholder:"A,B" help:"Columns of --input to take, in the order of the arguments."`
	CSVNull      string   `name:"csv-null" placeholder:"TEXT" help:"A further spelling of null in CSV, e.g. NA."`
	BatchRows    int      `default:"65536" placeholder:"N" help:"Rows sent in one batch (${default})."`
	Output       string   `placeholder:"FILE" help:"Write the input's columns and the result to a Parquet, Arrow, JSONL or CSV file, by its extension, instead of printing."`
	OutputFormat string   `enum:"csv,jsonl,arrow,arrows,parquet," default:"" placeholder:"FORMAT" help:"What --output is, whatever its name: csv, jsonl, arrow, arrows (a stream) or parquet. With --output - the rows go to stdout."`
	Header       []string `sep:"none" placeholder:"KEY=VALUE" help:"Request metadata for the function's context().headers. Repeatable."`
	OnError      string   `enum:"fail,null,reject," default:"" placeholder:"HOW" help:"What a row that raises becomes: fail ends the call, null makes it null, reject answers its error beside it. Default: the function's own."`
	JSON         bool     `help:"Print one JSON array with an element per row."`
	Bill         bool     `help:"Print where the time went."`
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
	headers, err := headersOf(c.Header)
	if err != nil {
		return usage("call "+c.Name, err, "")
	}
	var file *outputFile
	if c.Output != "" {
		if file, err = newOutputFile(c.Output, tabular.Format(c.OutputFormat), c.Input, con.out); err != nil {
			return err
		}
		defer file.discard()
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
	in, err := c.open(ctx, con, function, file)
	if ctx.Err() != nil {
		err = errInterrupted
	}
	if err != nil {
		return err
	}
	defer in.close()
	out := bufio.NewWriter(con.out)
	var answers printer = file
	if file == nil {
		answers = c.printer(out, function)
	} else if err := file.open(in.Kept(), c.answers(function)); err != nil {
		return err
	}
	o, err := c.run(ctx, con, job{
		gate: gate, function: function, source: in, letGo: in.letGo,
		batchRows: c.BatchRows, onError: udfgate.OnError(c.OnError), headers: headers,
	}, answers)
	if err != nil && ctx.Err() != nil {
		err = errInterrupted
	}
	if c.Bill && o.bill != nil {
		err = errors.Join(err, c.printBill(con, out, o))
	}
	return errors.Join(err, out.Flush())
}

// run does the job to the end of its output, and says which rows failed.
func (c *callCmd) run(ctx context.Context, con *console, j job, answers printer) (outcome, error) {
	var failed failures
	j.each = func(out *reply) error {
		if out.errors != nil {
			failed.each(out)
		}
		return answers.each(out)
	}
	// Rows that run over the same screen need no bar, and would be broken by it.
	bar := newProgress(con.err)
	if (c.JSON && c.Output == "" || c.Output == "-") && isTerminal(con.out) {
		bar = nil
	}
	if bar != nil {
		j.progress = bar.show
	}
	o, err := j.run(ctx)
	bar.clear()
	if err != nil {
		return o, err
	}
	if err := answers.end(); err != nil {
		return o, err
	}
	if !failed.told && o.bill != nil {
		failed.failed = o.bill.RowsFailed // without their texts
	}
	_, err = io.WriteString(con.err, failed.line(j.function.Name, o.rows))
	return o, err
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
	case c.Args != "" && c.InputFormat != "":
		return usage(what, errors.New("--input-format says what --input is, and there are only --args"), "")
	case c.OutputFormat != "" && c.Output == "":
		return usage(what, errors.New("--output-format says what --output is, and there is none"), "--output - writes to stdout")
	case c.BatchRows < 1:
		return usage(what, fmt.Errorf("--batch-rows: wanted at least 1, got %d", c.BatchRows), "")
	}
	return nil
}

// answers are the columns that a call adds to the input's.
func (c *callCmd) answers(f *client.Function) []arrow.Field {
	result := f.Result
	if udfgate.OnError(c.OnError).KeepsGoing() {
		result.Nullable = true
	}
	if udfgate.OnError(c.OnError) != udfgate.OnErrorReject {
		return []arrow.Field{result}
	}
	return []arrow.Field{result, {Name: "error", Type: arrow.BinaryTypes.String, Nullable: true}}
}

// input is the rows of a call, and what they are read from.
type input struct {
	named
	close func()
	// letGo makes a Next that waits for rows return; nil where none ever waits.
	letGo func()
}

// open opens what --args or --input names, as rows of the function's types.
// Waiting for them ends with ctx.
func (c *callCmd) open(ctx context.Context, con *console, f *client.Function, out *outputFile) (*input, error) {
	o := tabular.Options{Columns: c.Columns, Null: c.CSVNull, File: c.Input}
	if out != nil {
		o.Keep = tabular.KeepColumns
		for _, field := range c.answers(f) {
			o.Adds = append(o.Adds, field.Name)
		}
	}
	in := &input{named: named{hint: signatureHint(f)}, close: func() {}}
	if c.Args != "" {
		rows, err := tabular.NewJSONRows(strings.NewReader(c.Args), f.Args, o)
		if err != nil {
			return nil, usage("--args", err, in.hint)
		}
		in.Source, in.name = rows, "--args"
		return in, nil
	}
	format, err := c.format(&o)
	if err != nil {
		return nil, usage(c.Input, err, "--input-format says what it is, whatever its name")
	}
	r, size, err := in.reader(con.in, c.Input)
	if err != nil {
		return nil, usage(c.Input, cause(err), "")
	}
	o.Size = size
	if in.letGo != nil {
		context.AfterFunc(ctx, in.letGo)
	}
	if format == "" {
		if format, r, err = tabular.Sniff(r); err != nil {
			return nil, usage(in.name, cause(err), "")
		}
		in.hint += "\nstdin is taken as " + string(format) + " by its first bytes; --input-format says otherwise"
	}
	// A file of text that becomes one of its own kind stays as it is written.
	if out != nil && out.format == format && (format == tabular.FormatCSV || format == tabular.FormatJSONL) {
		o.Keep = tabular.KeepText
	}
	if in.Source, err = tabular.Open(r, format, f.Args, o); err != nil {
		in.close()
		return nil, usage(in.name, cause(err), in.hint)
	}
	if note := in.Note(); note != "" {
		// The answers do not depend on it, so a stderr that cannot be written is no error.
		_, _ = fmt.Fprintf(con.err, "udfgate: %s: %s (--columns names them)\n", in.name, note)
	}
	return in, nil
}

// reader opens the file of that name, or takes stdin. size is 0 where it is
// not known.
func (in *input) reader(stdin io.Reader, name string) (r io.Reader, size int64, err error) {
	if name == "-" {
		in.name = "stdin"
		r, in.letGo = letGo(stdin)
		return r, 0, nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, 0, err
	}
	in.name = name
	in.close = func() { _ = file.Close() } // only read: nothing can be lost
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
		return file, info.Size(), nil
	}
	in.letGo = in.close // a pipe, in which somebody may wait
	return file, 0, nil
}

// format is what --input is; empty for stdin whose first bytes have to say it.
func (c *callCmd) format(o *tabular.Options) (tabular.Format, error) {
	switch {
	case c.InputFormat != "":
		o.File = "" // the name says nothing
		return tabular.Format(c.InputFormat), nil
	case c.Input == "-":
		o.File = ""
		return "", nil
	}
	format, _, err := tabular.FormatOf(c.Input)
	return format, err
}

func signatureHint(f *client.Function) string { return "the function is " + f.Signature() }

// printer is the form of output asked for.
func (c *callCmd) printer(w io.Writer, f *client.Function) printer {
	if c.JSON {
		return &jsonPrinter{w: w}
	}
	return newTablePrinter(w, f, c.answers(f))
}

func (c *callCmd) printBill(con *console, out io.Writer, o outcome) error {
	if c.JSON {
		_, err := fmt.Fprintf(con.err, "%s\n", o.bill.JSON())
		return err
	}
	if c.Output == "-" {
		out = con.err
	}
	if _, err := fmt.Fprintf(out, "\n%s\n\n", speed(o)); err != nil {
		return err
	}
	return writeBill(out, o.bill, o.table)
}

// usage is a failure of exit status 2.
func usage(what string, err error, hint string) error {
	return &failure{code: exitUsage, what: what, err: err, hint: hint}
}

// usageOf is nil for no error.
func usageOf(what string, err error) error {
	if err == nil {
		return nil
	}
	return usage(what, cause(err), "")
}

// cause strips what a path error repeats: the operation and the path, which
// our own text names already.
func cause(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	return err
}
