package server

import (
	"cmp"
	"net/http"
	"time"

	"github.com/udfgate/udfgate"
)

// Description is a function as /v1/functions and `serve --dry-run --json` show
// it: what `functions --json` prints, and more.
type Description struct {
	Name        string             `json:"name"` // as callers list it: short while that is unique
	Canonical   string             `json:"canonical"`
	Signature   string             `json:"signature"`
	Args        []FieldDescription `json:"args"`
	Result      FieldDescription   `json:"result"`
	Kind        string             `json:"kind"`
	Mode        string             `json:"mode"`
	OnError     string             `json:"on_error"`
	Volatility  string             `json:"volatility"`
	Elementwise bool               `json:"elementwise"`
	Idempotent  bool               `json:"idempotent"`
	Path        string             `json:"path"`
	Version     string             `json:"version"`
	Pool        string             `json:"pool"`
}

// FieldDescription is an argument or the result of a Description.
type FieldDescription struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Nullable bool   `json:"nullable"`
}

// Describe describes a function of a catalog.
func Describe(c Catalog, f *udfgate.Function) Description {
	field := func(f udfgate.Field) FieldDescription { return FieldDescription{f.Name, f.Type.String(), f.Nullable} }
	d := Description{
		Name: shownName(c, f), Canonical: f.Canonical(), Signature: f.Signature(),
		Args: make([]FieldDescription, 0, len(f.Args)), Result: field(f.ResultField(f.OnError)),
		Kind: kindOf(f), Mode: string(f.Mode), OnError: string(cmp.Or(f.OnError, udfgate.OnErrorFail)), Volatility: string(f.Volatility),
		Elementwise: f.Elementwise, Idempotent: f.Idempotent,
		Path: pathPython, Version: f.Version, Pool: f.Pool,
	}
	for _, a := range f.Args {
		d.Args = append(d.Args, field(a))
	}
	return d
}

// serveFunctions lists what is served, in the order served.
func (s *Server) serveFunctions(w http.ResponseWriter, _ *http.Request) {
	functions := s.catalog.Functions()
	list := make([]Description, 0, len(functions))
	for _, f := range functions {
		list = append(list, Describe(s.catalog, f))
	}
	s.writeMembers(w, http.StatusOK, map[string][]Description{"functions": list}, false)
}

// billsJSON is the answer of /v1/bills.
type billsJSON struct {
	Since     time.Time    `json:"since"`
	Functions []totalsJSON `json:"functions"`
}

// serveBills tells what all calls since the gateway began have cost.
func (s *Server) serveBills(w http.ResponseWriter, _ *http.Request) {
	s.writeMembers(w, http.StatusOK, billsJSON{Since: s.tallies.since.UTC(), Functions: s.readTallies()}, false)
}
