package pool

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/codec"
)

// protocolVersion is the version of docs/worker-protocol.md that is spoken.
const protocolVersion = 1

// hello is the payload of HELLO.
type hello struct {
	Protocol int      `json:"protocol"`
	Runtime  string   `json:"runtime"`
	Version  string   `json:"version"`
	PID      int      `json:"pid"`
	Slots    int      `json:"slots"`
	Forms    []string `json:"forms"`
	Site     []string `json:"site"`
	Arenas   []string `json:"arenas"` // none means shared ones
}

// parseHello reads a HELLO and refuses a worker that this gateway cannot use.
func parseHello(payload []byte) (hello, error) {
	var h hello
	if err := json.Unmarshal(payload, &h); err != nil {
		return hello{}, broken("HELLO: %v", err)
	}
	switch {
	case h.Protocol != protocolVersion:
		return hello{}, broken("HELLO: wanted protocol %d, got %d", protocolVersion, h.Protocol)
	case h.Slots < 1:
		return hello{}, broken("HELLO: wanted 1 slot or more, got %d", h.Slots)
	case !slices.Contains(h.Forms, "arrow"):
		return hello{}, broken("HELLO: forms %q lack the mandatory arrow", h.Forms)
	}
	return h, nil
}

// marshal reports whether text may be sent as marshal blocks.
func (h *hello) marshal() bool { return slices.Contains(h.Forms, "marshal") }

// takes reports whether the worker takes arenas of the kind.
func (h *hello) takes(kind string) bool {
	return slices.Contains(h.Arenas, kind) || h.Arenas == nil && kind == sharedArenas
}

// load is the payload of LOAD.
type load struct {
	Modules    []loadModule `json:"modules"`
	Path       []string     `json:"path"`
	Generation uint32       `json:"generation"`
}

type loadModule struct {
	Name string `json:"name"`
	File string `json:"file"`
}

// loaded is the payload of LOADED: functions or an error.
type loaded struct {
	Functions []loadedFunction  `json:"functions"`
	Skipped   []skippedFunction `json:"skipped"`
	Error     *LoadError        `json:"error"`
}

// skippedFunction is one that its author may have meant to serve.
type skippedFunction struct {
	Module string `json:"module"`
	Name   string `json:"name"`
	Why    string `json:"why"`
}

type loadedFunction struct {
	Number      uint32        `json:"number"`
	Module      string        `json:"module"`
	Name        string        `json:"name"`
	Mode        string        `json:"mode"`
	Kind        string        `json:"kind"`
	Args        []loadedField `json:"args"`
	Result      loadedField   `json:"result"`
	Volatility  string        `json:"volatility"`
	Elementwise bool          `json:"elementwise"`
	Idempotent  bool          `json:"idempotent"`
	TimeoutNS   int64         `json:"timeout_ns"`
	File        string        `json:"file"`
	OnError     string        `json:"on_error"`

	Concurrency       int   `json:"concurrency"`
	ConcurrencyWaitNS int64 `json:"concurrency_wait_ns"`
	BatchRowsMax      int64 `json:"max_batch_rows"`
}

// Kinds of a function.
const (
	kindScalar = "scalar"
	kindTable  = "table"
)

type loadedField struct {
	Name     string     `json:"name"`
	Type     loadedType `json:"type"`
	Nullable bool       `json:"nullable"`
}

// LoadError is what a worker met when it imported the modules.
type LoadError struct {
	Class     string `json:"class"`
	Message   string `json:"message"`
	File      string `json:"file"`
	Line      int    `json:"line"`
	Traceback string `json:"traceback"`
}

// Error is "/srv/geo.py:3: SyntaxError: invalid syntax", with the parts that
// are known.
func (e *LoadError) Error() string {
	text := e.Class
	if e.Message != "" {
		text += ": " + e.Message
	}
	switch {
	case e.File != "" && e.Line > 0:
		return fmt.Sprintf("%s:%d: %s", e.File, e.Line, text)
	case e.File != "":
		return e.File + ": " + text
	default:
		return text
	}
}

// loadedSet is the functions of one LOADED, with what the vocabulary has no
// place for.
type loadedSet struct {
	functions []*udfgate.Function
	timeouts  []limit  // the functions' own, length 0: none; by number
	files     []string // where their modules came from, as far as known; by number
	skipped   []skippedFunction
}

// parseLoaded reads a LOADED.
//
// # Errors
//
// *LoadError if the modules could not be imported; any other error means that
// the worker broke the protocol.
func parseLoaded(payload []byte) (*loadedSet, error) {
	var l loaded
	if err := json.Unmarshal(payload, &l); err != nil {
		return nil, broken("LOADED: %v", err)
	}
	if e := l.Error; e != nil {
		e.Class, e.Message = cut(lineText(e.Class), errorClassBytesMax), cut(lineText(e.Message), errorTextBytesMax)
		e.File, e.Traceback = lineText(e.File), cut(linesText(e.Traceback), errorTraceBytesMax)
		return nil, e
	}
	set := &loadedSet{skipped: l.Skipped}
	for i, lf := range l.Functions {
		f, err := lf.function()
		if err == nil && lf.Number != uint32(i) {
			err = fmt.Errorf("wanted number %d, got %d", i, lf.Number)
		}
		if err != nil {
			return nil, broken("LOADED: function %d %q: %v", i, lf.Name, err)
		}
		set.functions = append(set.functions, f)
		set.timeouts = append(set.timeouts, limit{length: time.Duration(lf.TimeoutNS), name: "the function's timeout"})
		set.files = append(set.files, lf.File)
	}
	return set, nil
}

// served reports modes that a worker may serve a function in.
func served(m udfgate.Mode) bool {
	return m == udfgate.ModeRow || m == udfgate.ModeList || m.Vector()
}

func (lf *loadedFunction) function() (*udfgate.Function, error) {
	switch {
	case lf.Name == "" || lf.Module == "":
		return nil, fmt.Errorf("wanted a name and a module, got %q and %q", lf.Name, lf.Module)
	case !served(udfgate.Mode(lf.Mode)):
		return nil, fmt.Errorf("wanted mode row, list, arrow, numpy, pandas or polars, got %q", lf.Mode)
	case lf.Kind != kindScalar && lf.Kind != kindTable:
		return nil, fmt.Errorf("wanted kind scalar or table, got %q", lf.Kind)
	case lf.Kind == kindTable && lf.Mode != string(udfgate.ModeRow):
		return nil, fmt.Errorf("wanted mode row of a table function, got %q", lf.Mode)
	}
	for _, n := range []struct {
		name string
		got  int64
	}{
		{"timeout", lf.TimeoutNS},
		{"concurrency", int64(lf.Concurrency)},
		{"concurrency_wait_ns", lf.ConcurrencyWaitNS},
		{"max_batch_rows", lf.BatchRowsMax},
	} {
		if n.got < 0 {
			return nil, fmt.Errorf("wanted a %s of 0 or more, got %d", n.name, n.got)
		}
	}
	v := udfgate.Volatility(lf.Volatility)
	if v != udfgate.Immutable && v != udfgate.Stable && v != udfgate.Volatile {
		return nil, fmt.Errorf("unknown volatility %q", lf.Volatility)
	}
	onError := udfgate.OnError(cmp.Or(lf.OnError, string(udfgate.OnErrorFail)))
	if onError != udfgate.OnErrorFail && !onError.KeepsGoing() {
		return nil, fmt.Errorf("wanted on_error fail, null or reject, got %q", lf.OnError)
	}
	f := &udfgate.Function{
		Number: lf.Number, Name: lf.Name, Module: lf.Module, Mode: udfgate.Mode(lf.Mode), OnError: onError,
		Volatility: v, Elementwise: lf.Elementwise, Idempotent: lf.Idempotent, Table: lf.Kind == kindTable,
		Concurrency: lf.Concurrency, ConcurrencyWaitNS: lf.ConcurrencyWaitNS, BatchRowsMax: lf.BatchRowsMax,
	}
	var err error
	for i, a := range lf.Args {
		field, ferr := a.field(0)
		if ferr != nil && err == nil {
			err = fmt.Errorf("argument %d %q: %w", i, a.Name, ferr)
		}
		f.Args = append(f.Args, field)
	}
	if err != nil {
		return nil, err
	}
	if f.Result, err = lf.Result.field(0); err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	return f, nil
}

// differs says how the functions of a later worker differ from the first's, in
// what callers rely on; nil if they do not.
func (s *loadedSet) differs(first *loadedSet) error {
	if got, want := len(s.functions), len(first.functions); got != want {
		return fmt.Errorf("modules changed since the first worker: wanted %d functions, got %d", want, got)
	}
	for i, f := range s.functions {
		want := first.functions[i]
		if f.Canonical() != want.Canonical() || f.Signature() != want.Signature() || !sameTypes(f, want) {
			return fmt.Errorf("modules changed since the first worker: function %d: wanted %s %s, got %s %s",
				i, want.Canonical(), want.Signature(), f.Canonical(), f.Signature())
		}
	}
	return nil
}

// logLine is the payload of LOG.
type logLine struct {
	Level    string `json:"level"`
	Message  string `json:"message"`
	Function string `json:"function"`
}

// role is the number that an ARENA frame carries.
func role(a *codec.Arena) uint32 { return uint32(a.Role) }
