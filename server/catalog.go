package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/agnivade/levenshtein"
	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/codec"
)

// Backend runs functions: a pool of workers, or native code. It is the only
// door out of this room.
type Backend interface {
	// Invoke runs call.Function over the batch and returns its result, which
	// the caller releases. It adds to call's timeline and work and keeps
	// neither call nor the batch's struct beyond its return; a slot that
	// somebody may still read is retained. The error is an *udfgate.Error.
	Invoke(ctx context.Context, call *udfgate.Call, in *codec.Batch) (*codec.Answer, error)
	// InvokeTable is Invoke for a table function, whose answer comes in parts:
	// rows of the input row's index and the value, each part to be delivered
	// in order, and nothing to be made of the next before deliver has
	// returned, which has the part then. The last one says so; it may be
	// empty. What call counts grows from part to part, but for Counts, which
	// are a part's own; deliver takes them, and begins a new Timeline. An error
	// of deliver ends the function and is returned as it is.
	InvokeTable(ctx context.Context, call *udfgate.Call, in *codec.Batch, deliver func(part *codec.Answer, last bool) error) error
	// Slots is where the batches for this backend must lie.
	Slots() *codec.Store
}

// Catalog knows the functions that are served. Its methods are called for
// every stream, from many goroutines.
type Catalog interface {
	// Lookup finds a function by its canonical name, or by its short name
	// while that is unique. The error is an *udfgate.Error: NotFound with the
	// near names, or Invalid for an ambiguous short name.
	Lookup(name string) (*udfgate.Function, Backend, error)
	// Functions lists all of them, in the order served.
	Functions() []*udfgate.Function
	// Ready says that every function can be called now.
	Ready() bool
}

// Served is a function and the backend that runs it.
type Served struct {
	Function *udfgate.Function
	Backend  Backend
}

// Table is a Catalog that does not change, but for its readiness.
type Table struct {
	functions []*udfgate.Function
	byName    map[string]Served   // canonical names and unique short names
	ambiguous map[string][]string // short name → canonical names
	ready     atomic.Bool
}

// NewCatalog makes a Table that is not ready yet. Two functions of one
// canonical name are an error.
func NewCatalog(served []Served) (*Table, error) {
	t := &Table{byName: make(map[string]Served, 2*len(served)), ambiguous: map[string][]string{}}
	short := map[string][]Served{}
	for _, s := range served {
		name := s.Function.Canonical()
		if _, twice := t.byName[name]; twice {
			return nil, fmt.Errorf("function %q is served twice: module names must differ", name)
		}
		t.byName[name] = s
		t.functions = append(t.functions, s.Function)
		short[s.Function.Name] = append(short[s.Function.Name], s)
	}
	for name, all := range short {
		if len(all) > 1 {
			for _, s := range all {
				t.ambiguous[name] = append(t.ambiguous[name], s.Function.Canonical())
			}
			slices.Sort(t.ambiguous[name])
		} else if _, taken := t.byName[name]; !taken {
			t.byName[name] = all[0]
		}
	}
	return t, nil
}

// SetReady tells whether calls may come.
func (t *Table) SetReady(ready bool) { t.ready.Store(ready) }

// Ready implements Catalog.
func (t *Table) Ready() bool { return t.ready.Load() }

// Functions implements Catalog.
func (t *Table) Functions() []*udfgate.Function { return t.functions }

// Lookup implements Catalog.
func (t *Table) Lookup(name string) (*udfgate.Function, Backend, error) {
	if s, ok := t.byName[name]; ok {
		return s.Function, s.Backend, nil
	}
	if names := t.ambiguous[name]; len(names) > 0 {
		return nil, nil, udfgate.Invalidf(udfgate.ShapeMalformed,
			"function name %q is ambiguous: wanted one of %s", name, quoted(names))
	}
	if near := nearest(name, t.names()); len(near) > 0 {
		return nil, nil, udfgate.Errorf(udfgate.NotFound, "no function %q: nearest names are %s", cut(name, nameBytesMax), quoted(near))
	}
	return nil, nil, udfgate.Errorf(udfgate.NotFound, "no function %q: none of the %d that are served has a similar name",
		cut(name, nameBytesMax), len(t.functions))
}

// names is what a caller may use, sorted.
func (t *Table) names() []string {
	names := make([]string, 0, len(t.byName))
	for _, f := range t.functions {
		names = append(names, f.Canonical())
		if _, ok := t.byName[f.Name]; ok {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Bounds of the search for near names, so that a long wrong name costs little.
const (
	nearNamesMax = 3
	nameBytesMax = 256
)

// nearest returns up to nearNamesMax candidates within max(2, n/3) edits of
// name, the nearest first, one spelling per function.
func nearest(name string, candidates []string) []string {
	if len(name) > nameBytesMax {
		return nil
	}
	type near struct {
		name     string
		distance int
	}
	folded := strings.ToLower(name)
	limit := max(2, len([]rune(name))/3)
	var found []near
	for _, c := range candidates {
		if d := levenshtein.ComputeDistance(folded, strings.ToLower(c)); d <= limit {
			found = append(found, near{c, d})
		}
	}
	slices.SortFunc(found, func(a, b near) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), strings.Compare(a.name, b.name))
	})
	var names []string
	for _, n := range found[:min(len(found), nearNamesMax)] {
		names = append(names, n.name)
	}
	return names
}

// quoted is `"a", "b"`.
func quoted(names []string) string {
	var b strings.Builder
	for i, n := range names {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", n)
	}
	return b.String()
}

// shownName is the name that a function goes by in answers, bills and metrics:
// the short one where it is unique.
func shownName(c Catalog, f *udfgate.Function) string {
	for _, other := range c.Functions() {
		if other != f && other.Name == f.Name && other.Module != f.Module {
			return f.Canonical()
		}
	}
	return f.Name
}
