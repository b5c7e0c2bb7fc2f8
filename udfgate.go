// Package udfgate is the vocabulary of the gateway: the nouns that its rooms
// exchange. It holds types and tiny methods, does no I/O and imports none of
// the rooms. ARCHITECTURE.md is the map.
package udfgate

// KeyValue is one pair of schema or field metadata, in the order sent.
type KeyValue struct{ Key, Value string }

// Field is a named, typed column of a schema.
type Field struct {
	Name     string
	Type     Type
	Nullable bool
	Metadata []KeyValue
}

// Schema is an ordered list of fields.
type Schema struct {
	Fields   []Field
	Metadata []KeyValue
}

// Mode says how a body takes its input.
type Mode string

// The modes that are built.
const (
	ModeRow  Mode = "row"  // one call per row
	ModeList Mode = "list" // one call per chunk, with a Python list per argument

	// One call per chunk, with a library's own array per argument.
	ModeArrow  Mode = "arrow"
	ModeNumpy  Mode = "numpy"
	ModePandas Mode = "pandas"
	ModePolars Mode = "polars"
)

// Vector reports whether bodies of the mode take arrays of a library rather
// than Python's own values.
func (m Mode) Vector() bool {
	return m == ModeArrow || m == ModeNumpy || m == ModePandas || m == ModePolars
}

// OnError says what becomes of a row whose body raises or whose result does
// not fit its type.
type OnError string

// What can become of such a row. The zero OnError means OnErrorFail.
const (
	OnErrorFail   OnError = "fail"   // the call ends with the row's error
	OnErrorNull   OnError = "null"   // the row is null
	OnErrorReject OnError = "reject" // the row is null and its error is answered beside it
)

// KeepsGoing reports whether the rows after a failed one are still run.
func (o OnError) KeepsGoing() bool { return o == OnErrorNull || o == OnErrorReject }

// Volatility says how far a function's answer may be reused or repeated.
type Volatility string

// Volatilities, from the most to the least repeatable.
const (
	Immutable Volatility = "immutable"
	Stable    Volatility = "stable"
	Volatile  Volatility = "volatile"
)

// Function is one registered function of one generation of a pool. It is
// immutable once published: server, pool and metrics share the pointer.
type Function struct {
	Number      uint32 // names the function in CALL frames
	Generation  uint32 // loaded version of the pool's modules, from 1
	Name        string // short name, unique or not
	Module      string // module that served it; "module.name" is the canonical name
	Pool        string // pool that runs it
	Args        []Field
	Result      Field // as the author declared it; what is answered is ResultField
	Table       bool  // answers any number of rows per input row, with RowField in front
	Mode        Mode
	OnError     OnError // the function's own option; a request may say otherwise
	Volatility  Volatility
	Elementwise bool
	Idempotent  bool
	// Concurrency is how many chunks run at once in all workers, and
	// ConcurrencyWaitNS how long a further one may wait; BatchRowsMax is how
	// many rows a body that is not elementwise takes. 0: no bound of its own.
	Concurrency       int
	ConcurrencyWaitNS int64
	BatchRowsMax      int64

	Version string // 12 hex digits of sha256(source, interpreter, packages)
}

// Canonical is the name that is unique in a gateway: module.name.
func (f *Function) Canonical() string { return f.Module + "." + f.Name }

// Signature is the function as people write it: name(a int64, b utf8?) -> int64.
func (f *Function) Signature() string {
	s := f.Name + "("
	for i, a := range f.Args {
		if i > 0 {
			s += ", "
		}
		s += a.Name + " " + a.Type.String() + nullMark(a.Nullable)
	}
	arrow := ") -> "
	if f.Table {
		arrow = ") -> table of "
	}
	return s + arrow + f.Result.Type.String() + nullMark(f.ResultField(f.OnError).Nullable)
}

// ResultField is the column that a call answers: it bears the function's short
// name, and is nullable also where failed rows are.
func (f *Function) ResultField(how OnError) Field {
	field := f.Result
	field.Name = f.Name
	field.Nullable = field.Nullable || f.OnError.KeepsGoing() || how.KeepsGoing()
	return field
}

// RowField is the first column of what a table function answers: the index of
// the input row in its batch. The value, ResultField, follows.
func RowField() Field { return Field{Name: "row", Type: Type{Kind: Int32}} }

// TableRowsMax bounds the rows of one part of a table function's answer.
const TableRowsMax = 1024

func nullMark(nullable bool) string {
	if nullable {
		return "?"
	}
	return ""
}

// Caller says who makes a call, to bodies that ask.
type Caller interface {
	// Headers are those of the request that bodies may see, in the order sent,
	// keys in lower case: no credentials, none of the transport's own.
	Headers() []KeyValue
}

// Call is one batch on its way through a backend. The server fills it; the
// backend adds to Timeline and Work and never keeps it.
type Call struct {
	ID        uint64 // unique in the process; travels in the frame header
	Stream    uint64 // the caller's stream, unique in the process
	Batch     int64  // number of the batch in its stream, from 0
	Function  *Function
	Principal string
	Caller    Caller // nil: nothing more is known
	// Deadline is the latest instant (internal/clock nanoseconds) at which the
	// answer is of use; 0 means none. Limit names it in the error text, for
	// example "--timeout", and LimitNS is its whole length.
	Deadline int64
	Limit    string
	LimitNS  int64
	// TimeoutNS is the request's own time limit of a chunk, counted from its
	// lease like the backend's; 0 means none. TimeoutName names it.
	TimeoutNS   int64
	TimeoutName string
	// OnError is the request's, or else the function's.
	OnError OnError

	Timeline Timeline
	Work     Work
	Cold     bool
	// Attempts counts chunks handed to a worker, Crossings those answered.
	Attempts  int64
	Crossings int64
	// RowsFailed counts the rows that OnError made null.
	RowsFailed int64
	// Counts is what the body counted for the answer that is to be delivered,
	// by name; nil for nothing.
	Counts map[string]int64
	// SlotBytes and ResultBytes are the arena bytes held for the input (batch
	// and rendered value forms) and the body bytes of the answer.
	SlotBytes   int64
	ResultBytes int64
	// WorkerPeakBytes is the worker's peak resident set, 0 if unknown.
	WorkerPeakBytes int64
	// Worker is the process that ran the body, for the bill.
	Worker string
}
