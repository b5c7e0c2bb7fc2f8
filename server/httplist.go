package server

import (
	"net/http"
	"time"

	"github.com/udfgate/udfgate"
)

// functionJSON is a function as /v1/functions shows it: what
// `udfgate functions --json` prints, and more.
type functionJSON struct {
	Name        string      `json:"name"`
	Canonical   string      `json:"canonical"`
	Signature   string      `json:"signature"`
	Args        []fieldJSON `json:"args"`
	Result      fieldJSON   `json:"result"`
	Mode        string      `json:"mode"`
	OnError     string      `json:"on_error"`
	Volatility  string      `json:"volatility"`
	Elementwise bool        `json:"elementwise"`
	Idempotent  bool        `json:"idempotent"`
	Path        string      `json:"path"`
	Version     string      `json:"version"`
	Pool        string      `json:"pool"`
}

type fieldJSON struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Nullable bool   `json:"nullable"`
}

func describeField(f udfgate.Field) fieldJSON { return fieldJSON{f.Name, f.Type.String(), f.Nullable} }

func describeFunction(f *udfgate.Function, name string) functionJSON {
	args := make([]fieldJSON, 0, len(f.Args))
	for _, a := range f.Args {
		args = append(args, describeField(a))
	}
	onError := f.OnError
	if onError == "" {
		onError = udfgate.OnErrorFail
	}
	return functionJSON{
		Name: name, Canonical: f.Canonical(), Signature: f.Signature(),
		Args: args, Result: describeField(f.ResultField(f.OnError)),
		Mode: string(f.Mode), OnError: string(onError), Volatility: string(f.Volatility),
		Elementwise: f.Elementwise, Idempotent: f.Idempotent,
		Path: pathPython, Version: f.Version, Pool: f.Pool,
	}
}

// serveFunctions lists what is served, in the order served.
func (s *Server) serveFunctions(w http.ResponseWriter, _ *http.Request) {
	functions := s.catalog.Functions()
	list := make([]functionJSON, 0, len(functions))
	for _, f := range functions {
		list = append(list, describeFunction(f, shownName(s.catalog, f)))
	}
	s.writeMembers(w, http.StatusOK, map[string][]functionJSON{"functions": list}, false)
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
