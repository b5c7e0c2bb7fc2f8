package udfgate

import (
	"errors"
	"fmt"
)

// Reason is the machine-readable family of an error, as in google.rpc.ErrorInfo
// of domain "udfgate". The server maps reasons to gRPC codes in one table.
type Reason string

// The reasons. UserError is the body's doing; WorkerLost to NotReading are the
// worker's, the gateway's or a limit's; the rest is the caller's mistake.
const (
	UserError       Reason = "USER_ERROR"
	WorkerLost      Reason = "WORKER_LOST"
	Timeout         Reason = "TIMEOUT"
	MemoryBudget    Reason = "MEMORY_BUDGET"
	StartFailed     Reason = "START_FAILED"
	QueueFull       Reason = "QUEUE_FULL"
	NotReading      Reason = "NOT_READING"
	Invalid         Reason = "INVALID"
	NotFound        Reason = "NOT_FOUND"
	Unauthenticated Reason = "UNAUTHENTICATED"
	Permission      Reason = "PERMISSION"
	Draining        Reason = "DRAINING"
	Internal        Reason = "INTERNAL"
)

// Shape refines Invalid where the status code differs: malformed or mistaken
// input, a type that is not built, or a message over its own limit.
type Shape uint8

// The shapes of an Invalid error.
const (
	ShapeMalformed   Shape = iota // INVALID_ARGUMENT
	ShapeUnsupported              // UNIMPLEMENTED
	ShapeTooLarge                 // RESOURCE_EXHAUSTED
)

// NoRow is Error.Row where the error belongs to no row.
const NoRow = int64(-1)

// Error is the one error type that crosses rooms.
type Error struct {
	Reason Reason
	Shape  Shape // of Invalid only
	// Function is the short name; empty before a function was resolved.
	Function string
	// Row is counted from 0 in its input batch; NoRow if there is none.
	Row int64
	// Exception is the class that the body raised, e.g. ValueError.
	Exception string
	// Message is one line without the function and row, e.g.
	// "ValueError: bad literal" or "worker lost: signal SIGSEGV".
	Message string
	// Detail is the traceback, Python stack or last stderr lines.
	Detail string
	// Retryable says that the same call may succeed later.
	Retryable bool
	// Err is the cause within the gateway, if any.
	Err error
}

// Error is "f: row 17: ValueError: text", with the parts that are known.
func (e *Error) Error() string {
	s := e.Message
	if e.Row >= 0 {
		s = fmt.Sprintf("row %d: %s", e.Row, s)
	}
	if e.Function != "" {
		s = e.Function + ": " + s
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an Error of a reason that belongs to no row.
func Errorf(r Reason, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Reason: r, Row: NoRow, Message: err.Error(), Err: errors.Unwrap(err)}
}

// Invalidf is Errorf(Invalid, …) of a shape.
func Invalidf(shape Shape, format string, args ...any) *Error {
	e := Errorf(Invalid, format, args...)
	e.Shape = shape
	return e
}

// AsError returns err as an *Error: itself if it is one or wraps one, else a
// new one of reason Internal.
func AsError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Reason: Internal, Row: NoRow, Message: err.Error(), Err: err}
}
