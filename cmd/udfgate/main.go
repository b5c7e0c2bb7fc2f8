// Command udfgate is the gateway and every tool around it. It is the only
// place where the rooms meet: it reads flags, variables and files, builds the
// rooms from them, and prints.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

func main() {
	dropEmptyVariables()
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// dropEmptyVariables makes a flag's variable that is set to nothing one that is
// not set, which is what UDFGATE_WORKERS= in a service file means. kong would
// parse the empty text.
func dropEmptyVariables() {
	for _, pair := range os.Environ() {
		if name, value, _ := strings.Cut(pair, "="); value == "" && strings.HasPrefix(name, "UDFGATE_") {
			_ = os.Unsetenv(name) // fails only for names that no environment has
		}
	}
}

// commands is the command line. Precedence of every value: flag, then
// variable, then default.
type commands struct {
	Serve     serveCmd     `cmd:"" help:"Start the gateway over Python files."`
	Call      callCmd      `cmd:"" help:"Call one function with rows from the command line or a file."`
	Functions functionsCmd `cmd:"" help:"List what a gateway serves."`
	Demo      demoCmd      `cmd:"" help:"Run the example functions over a file and print the bill."`
	Version   versionCmd   `cmd:"" help:"Print version, commit, Go and platform."`
}

// console is where a command reads and prints.
type console struct {
	in       io.Reader
	out, err io.Writer
}

// exited carries kong's wish to end the program (after --help) up to run.
type exited int

// run is the whole program but for os.Exit, so that tests can call it.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	switch {
	case len(args) == 0:
		run([]string{"--help"}, stdin, stderr, stderr)
		return exitUsage
	case args[0] == "--version":
		args = append([]string{"version"}, args[1:]...)
	}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case exited:
			code = int(r)
		default:
			panic(r)
		}
	}()
	parser, err := kong.New(&commands{},
		kong.Name("udfgate"),
		kong.Description("A gateway for user-defined functions that itemises what every call cost."),
		kong.DefaultEnvars("UDFGATE"),
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { panic(exited(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.TypeMapper(sizeType, kong.MapperFunc(decodeSize)),
	)
	if err != nil {
		panic(err) // the struct above is wrong: no input can cause this
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		return report(stderr, wrongUse(parsed, err))
	}
	return report(stderr, parsed.Run(&console{in: stdin, out: stdout, err: stderr}))
}

// wrongUse adds to kong's one-line error where the flags are listed.
func wrongUse(parsed *kong.Context, err error) error {
	command := "udfgate"
	var parse *kong.ParseError
	if errors.As(err, &parse) {
		parsed = parse.Context
	}
	if parsed != nil {
		if node := parsed.Selected(); node != nil {
			command += " " + node.Name
		}
	}
	return &failure{code: exitUsage, err: err, hint: "see " + command + " --help"}
}

// interruptible is a context that ends at SIGINT or SIGTERM, so that a client
// command still ends its embedded gateway.
func interruptible() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
}

// The exit statuses.
const (
	exitDone   = 0
	exitFailed = 1 // the work failed
	exitUsage  = 2 // wrong use
	exitNoGate = 3 // the gateway could not be reached or did not start
)

// failure is an error that knows its exit status. What is printed is
// "udfgate: what: why", then the hint, then the detail.
type failure struct {
	code   int
	what   string // may be empty
	err    error
	hint   string
	detail string
}

func (f *failure) Error() string {
	if f.what == "" {
		return f.err.Error()
	}
	return f.what + ": " + f.err.Error()
}

func (f *failure) Unwrap() error { return f.err }

// report prints an error and returns the exit status.
func report(stderr io.Writer, err error) int {
	if err == nil {
		return exitDone
	}
	f, ok := errors.AsType[*failure](err)
	if !ok {
		f = &failure{code: exitFailed, err: err}
	}
	lines := []string{"udfgate: " + oneLine(f.Error())}
	if f.hint != "" {
		lines = append(lines, f.hint)
	}
	if f.detail != "" {
		lines = append(lines, strings.TrimRight(f.detail, "\n"))
	}
	// Nothing is left to be done if stderr cannot be written.
	_, _ = fmt.Fprintln(stderr, strings.Join(lines, "\n"))
	return f.code
}

// oneLine keeps the promise that an error is one line whatever a library put
// into its text.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), " | ")
}
