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
	"regexp"
	"slices"
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
// variable, then the file of --config, then default.
type commands struct {
	Config string `placeholder:"FILE" help:"YAML file with values of flags and options of functions."`

	Serve     serveCmd     `cmd:"" help:"Start the gateway over Python files."`
	Call      callCmd      `cmd:"" help:"Call one function with rows from the command line or a file."`
	Functions functionsCmd `cmd:"" help:"List what a gateway serves."`
	Demo      demoCmd      `cmd:"" help:"Run the example functions over a file and print the bill."`
	Version   versionCmd   `cmd:"" help:"Print version, commit, Go and platform."`

	Completion completionCmd `cmd:"" help:"Print the completion script of a shell."`
}

// console is where a command reads and prints, and what was said to all of
// them.
type console struct {
	in       io.Reader
	out, err io.Writer
	config   *config
	debug    debugSettings
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
	file := &config{}
	parser := newParser(&commands{}, file, stdout, stderr)
	parsed, err := parser.Parse(args)
	if err != nil {
		return report(stderr, wrongUse(parsed, file, err))
	}
	d, err := parseDebug(os.Getenv(debugVariable))
	if err != nil {
		return report(stderr, err)
	}
	return report(stderr, parsed.Run(&console{in: stdin, out: stdout, err: stderr, config: file, debug: d}))
}

// newParser puts the command line into c and what --config names into file.
func newParser(c *commands, file *config, stdout, stderr io.Writer) *kong.Kong {
	parser, err := kong.New(c,
		kong.Name("udfgate"),
		kong.Description("A gateway for user-defined functions that itemises what every call cost."),
		kong.DefaultEnvars("UDFGATE"),
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { panic(exited(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.TypeMapper(sizeType, kong.MapperFunc(decodeSize)),
		kong.Bind(file),
	)
	if err != nil {
		panic(err) // a command's struct is wrong: no input can cause this
	}
	return parser
}

// flagNamed is a flag as the first word of an error names it.
var flagNamed = regexp.MustCompile(`^(?:[a-z]+: )?--([a-z][a-z-]*)`)

// wrongUse adds to kong's one-line error where the flags are listed, and where
// a value came from if it does not stand on the command line.
func wrongUse(parsed *kong.Context, file *config, err error) error {
	if f, ok := errors.AsType[*failure](err); ok {
		return f // the file of --config
	}
	command := "udfgate"
	var parse *kong.ParseError
	if errors.As(err, &parse) {
		parsed = parse.Context
	}
	if parsed == nil {
		return &failure{code: exitUsage, err: err, hint: "see udfgate --help"}
	}
	flags := parsed.Model.Flags
	if node := parsed.Selected(); node != nil {
		command += " " + node.Name
		flags = slices.Concat(node.Flags, flags)
	}
	if named := flagNamed.FindStringSubmatch(err.Error()); named != nil && !strings.Contains(err.Error(), "(from ") {
		for _, flag := range flags {
			if flag.Name == named[1] {
				err = fmt.Errorf("%w%s", err, file.from(parsed, flag))
			}
		}
	}
	return &failure{code: exitUsage, err: plainWords(err), hint: "see " + command + " --help"}
}

// wholeNumber is how kong asks for one.
var wholeNumber = regexp.MustCompile(`expected a valid \d+ bit u?int but got`)

// plainWords is kong's text without what only its own code knows: the choice ""
// that stands for a flag that is not set, and the widths of its integers.
func plainWords(err error) error {
	text := strings.Replace(err.Error(), `,"" but got`, " but got", 1)
	return errors.New(wholeNumber.ReplaceAllString(text, "wanted a whole number, got"))
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
// "udfgate: what: why", such a line for each of also, then the hint, then the
// detail.
type failure struct {
	code   int
	what   string // may be empty
	err    error
	also   []error // more of the same kind
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
	for _, err := range f.also {
		more := failure{what: f.what, err: err}
		lines = append(lines, "udfgate: "+oneLine(more.Error()))
	}
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
