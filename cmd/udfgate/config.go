package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/udfgate/udfgate/pool"
	"go.yaml.in/yaml/v4"
)

// Bounds of the file of --config: its size, how many errors about it are
// printed, and how much of a word they quote.
const (
	configBytesMax  = 1 << 20
	configErrorsMax = 50
	configWordMax   = 64
)

// Keys of the file that stand for no flag.
const (
	filesKey     = "files"     // what serve is given as arguments
	functionsKey = "functions" // options of functions; as a text, demo's flag of that name
	configKey    = "config"    // the file's own flag, which it does not take
)

// keysUnbuilt are keys of the file that will mean something.
var keysUnbuilt = []string{"pools", "aliases", "access"}

// config is what --config came to. Without one it is empty.
type config struct {
	name      string
	nodes     map[string]*yaml.Node // values of flags, by key
	files     []string
	functions []functionOptions
}

// functionOptions is one entry of the section functions.
type functionOptions struct {
	name string
	at   place
	pool.Override
}

// place is where something stands in the file.
type place struct {
	file         string
	line, column int
}

func (p place) String() string {
	if p.line == 0 {
		return p.file
	}
	return fmt.Sprintf("%s:%d:%d", p.file, p.line, p.column)
}

// keyOf is the key of a flag: max_queue for --max-queue.
func keyOf(flag string) string { return strings.ReplaceAll(flag, "-", "_") }

// BeforeResolve is kong's: it reads the file once the command line is known,
// before anything is set from it.
func (c *commands) BeforeResolve(ctx *kong.Context, file *config) error {
	for _, flag := range ctx.Model.Flags {
		if flag.Name != configKey {
			continue
		}
		name, ok := ctx.FlagValue(flag).(string)
		if !ok || name == "" {
			return nil
		}
		if err := file.read(name, ctx.Model.Node); err != nil {
			return err
		}
		ctx.AddResolver(file)
	}
	return nil
}

// Validate is kong's: read has done it.
func (c *config) Validate(*kong.Application) error { return nil }

// Resolve is kong's: the value that the file has for a flag. kong puts what
// this answers over the environment, so it answers nothing where a variable is
// set.
func (c *config) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	node := c.nodes[keyOf(flag.Name)]
	if node == nil {
		return nil, nil
	}
	if _, set := variable(flag); set {
		return nil, nil
	}
	return flagValue(flag, node)
}

// variable is the variable that sets a flag.
func variable(flag *kong.Flag) (name string, set bool) {
	for _, name := range flag.Envs {
		if _, ok := os.LookupEnv(name); ok {
			return name, true
		}
	}
	return "", false
}

// read takes the whole file or nothing, and reports everything that is wrong
// with it at once.
func (c *config) read(name string, model *kong.Node) error {
	text, err := readBounded(name)
	if err != nil {
		return usage("--config "+name, err, "")
	}
	root, err := parseYAML(text)
	if err != nil {
		return usage("--config", yamlProblem(name, err), "")
	}
	c.name, c.nodes = name, map[string]*yaml.Node{}
	r := reader{config: c, flags: flagsByKey(model)}
	r.document(root)
	return configFailure(r.wrong, "docs/configuration.md lists the keys; each is a flag's name with underscores")
}

// configFailure is nil if nothing is wrong.
func configFailure(wrong []error, hint string) error {
	if len(wrong) == 0 {
		return nil
	}
	if more := len(wrong) - configErrorsMax; more > 0 {
		wrong = append(wrong[:configErrorsMax:configErrorsMax], fmt.Errorf("and %d more errors", more))
	}
	return &failure{code: exitUsage, what: "--config", err: wrong[0], also: wrong[1:], hint: hint}
}

// brief is a word of the file as errors quote it.
func brief(word string) string {
	if runes := []rune(word); len(runes) > configWordMax {
		return string(runes[:configWordMax]) + "…"
	}
	return word
}

func readBounded(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, cause(err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, configBytesMax+1))
	if err != nil {
		return nil, cause(err)
	}
	if len(text) > configBytesMax {
		return nil, fmt.Errorf("wanted a file of at most %s", bytesText(configBytesMax))
	}
	return text, nil
}

// parseYAML returns the document's node; nil if there is nothing in it. Aliases
// stay nodes of their own, so that nothing grows.
func parseYAML(text []byte) (*yaml.Node, error) {
	loader, err := yaml.NewLoader(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	var document, second yaml.Node
	if err := loader.Load(&document); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if err := loader.Load(&second); err == nil {
		return nil, errors.New("wanted one document, got several")
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(document.Content) == 0 {
		return nil, nil
	}
	return document.Content[0], nil
}

// yamlProblem is a syntax error in the words of the other errors.
func yamlProblem(name string, err error) error {
	e, ok := errors.AsType[*yaml.LoadError](err)
	if !ok {
		return fmt.Errorf("%s: %w", name, err)
	}
	text := e.Message
	if e.ContextMsg != "" {
		text += " " + e.ContextMsg
	}
	return fmt.Errorf("%s: no YAML: %s", place{name, e.Mark.Line, e.Mark.Column}, text)
}

// flagsByKey are the flags of all commands by their keys: one file serves all
// of them.
func flagsByKey(model *kong.Node) map[string][]*kong.Flag {
	all := map[string][]*kong.Flag{}
	for _, node := range append([]*kong.Node{model}, model.Children...) {
		for _, flag := range node.Flags {
			if flag.Name != "help" && flag.Name != configKey {
				all[keyOf(flag.Name)] = append(all[keyOf(flag.Name)], flag)
			}
		}
	}
	return all
}

// unknownFunctions is an error for each entry of the file's functions that
// means none of those that are served, or the same as another entry.
func (c *config) unknownFunctions(p *pool.Pool) error {
	names, short := []string{}, map[string][]string{}
	for _, f := range p.Functions() {
		names = append(names, f.Canonical())
		short[f.Name] = append(short[f.Name], f.Canonical())
	}
	for name, of := range short {
		if len(of) == 1 {
			names = append(names, name)
		}
	}
	var wrong []error
	seen := map[string]functionOptions{}
	for _, o := range c.functions {
		meant := o.name
		of := short[o.name]
		switch {
		case len(of) > 1:
			wrong = append(wrong, fmt.Errorf("%s: functions: %q is ambiguous: wanted one of %s", o.at, brief(o.name), strings.Join(of, ", ")))
			continue
		case len(of) == 1:
			meant = of[0]
		case !slices.Contains(names, o.name):
			wrong = append(wrong, fmt.Errorf("%s: functions: no function %q is served%s", o.at, brief(o.name), near(o.name, names)))
			continue
		}
		if other, twice := seen[meant]; twice {
			wrong = append(wrong, fmt.Errorf("%s: functions: %q is the function %q of line %d", o.at, o.name, other.name, other.at.line))
		}
		seen[meant] = o
	}
	return configFailure(wrong, "")
}

// overrides are the file's functions as the pool takes them.
func (c *config) overrides() map[string]pool.Override {
	if c == nil {
		return nil
	}
	all := map[string]pool.Override{}
	for _, o := range c.functions {
		own := o.Override
		if own.Timeout != 0 {
			own.TimeoutName = fmt.Sprintf("timeout of %s in %s", o.name, c.name)
		}
		all[o.name] = own
	}
	return all
}

// from says where the value of a flag came from, if not from the command line:
// " (from envar UDFGATE_WORKERS="0")" or " (from udfgate.yaml:3:10)".
func (c *config) from(ctx *kong.Context, flag *kong.Flag) string {
	for _, path := range ctx.Path {
		if path.Flag == flag && !path.Resolved {
			return ""
		}
	}
	if name, set := variable(flag); set {
		return fmt.Sprintf(" (from envar %s=%q)", name, os.Getenv(name))
	}
	if node := c.nodes[keyOf(flag.Name)]; node != nil {
		return fmt.Sprintf(" (from %s)", place{c.name, node.Line, node.Column})
	}
	return ""
}

// got is a value as errors quote it.
func got(node *yaml.Node) string {
	switch {
	case node.Kind == yaml.MappingNode:
		return "a mapping"
	case node.Kind == yaml.SequenceNode:
		return "a list"
	case node.Tag == "!!null":
		return "nothing; leave the key out for the default"
	case node.Tag == "!!str":
		return fmt.Sprintf("%q", brief(node.Value))
	default:
		return cmp.Or(brief(node.Value), node.Tag)
	}
}
