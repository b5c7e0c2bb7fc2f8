package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/udfgate/udfgate"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// errorDomain marks the ErrorInfo details that are the gateway's own.
const errorDomain = "udfgate"

// Sentinels for errors.Is.
var (
	// ErrUnreachable is matched by errors that came about because no gateway
	// answered: nobody listens, or the connection broke.
	ErrUnreachable = errors.New("gateway not reached")
	// ErrNotReady is matched by what Ready returns while calls may not come.
	ErrNotReady = errors.New("not ready")
)

// ReasonOf is the reason of an *Error within err, for a switch over
// udfgate.UserError and the others; empty if no gateway gave one.
func ReasonOf(err error) udfgate.Reason {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return ""
}

// Retryable reports whether the same call may succeed later: the gateway said
// so, or it was not reached. The body may have run for some rows all the same,
// unless the reason is QUEUE_FULL or START_FAILED, where the batch found no
// worker: repeat calls of functions that bear it.
func Retryable(err error) bool {
	if e, ok := errors.AsType[*Error](err); ok && e.Retryable {
		return true
	}
	return errors.Is(err, ErrUnreachable) || errors.Is(err, ErrNotReady)
}

// Error is what the gateway answered instead of a batch.
type Error struct {
	Code   codes.Code
	Reason udfgate.Reason // empty if the answer did not come from a gateway
	// Function is the short name; empty if none was resolved.
	Function string
	// Row is counted from 0 within its input batch, Batch from 0 within the
	// stream; udfgate.NoRow if the error belongs to none.
	Row, Batch int64
	// Exception is the class that the body raised, e.g. ValueError.
	Exception string
	// ErrorID finds the full traceback in the gateway, for a while: over HTTP,
	// GET /v1/errors/ID. Empty if Message and Detail are all there is.
	ErrorID string
	// Retryable says that the same call may succeed later.
	Retryable bool
	// Message is one line, e.g. "gcd: row 17: ValueError: bad literal".
	Message string
	// Detail is the rest: a traceback's tail, a stack or last stderr lines.
	Detail string
}

// Error is the message without the detail.
func (e *Error) Error() string { return e.Message }

// Is makes a lost connection match ErrUnreachable, an ended context its own
// error, and every time limit context.DeadlineExceeded, so that callers need not
// know gRPC codes. When the caller's own limit passes, the gateway's answer and
// the end of the wait race: both must match.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrUnreachable:
		return e.Reason == "" && e.Code == codes.Unavailable
	case context.Canceled:
		return e.Code == codes.Canceled
	case context.DeadlineExceeded:
		return e.Code == codes.DeadlineExceeded
	}
	return false
}

// Format prints the detail too under %+v.
func (e *Error) Format(f fmt.State, verb rune) {
	text := e.Message
	if verb == 'v' && f.Flag('+') && e.Detail != "" {
		text += "\n" + e.Detail
	}
	if verb == 'q' {
		text = strconv.Quote(text)
	}
	// A Formatter has nobody to report a failed write to.
	_, _ = io.WriteString(f, text)
}

// parseError reads a gRPC error and the call's trailer. ErrorInfo is the
// authority; the plain trailers fill in what it lacks.
func parseError(err error, trailer metadata.MD) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	st, ok := status.FromError(err)
	if !ok {
		st = status.FromContextError(err)
	}
	e := &Error{Code: st.Code(), Row: udfgate.NoRow, Batch: udfgate.NoRow}
	e.Message, e.Detail, _ = strings.Cut(st.Message(), "\n")
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == errorDomain {
			e.Reason = udfgate.Reason(info.GetReason())
			e.fill(func(key string) string { return info.GetMetadata()[key] })
		}
	}
	e.fill(func(key string) string { return first(trailer, "udfgate-"+strings.ReplaceAll(key, "_", "-")) })
	if e.Reason == "" {
		e.Reason = udfgate.Reason(first(trailer, "udfgate-reason"))
	}
	return e
}

// fill takes the fields that are still unset from a look-up by ErrorInfo's
// metadata keys.
func (e *Error) fill(get func(string) string) {
	if e.Function == "" {
		e.Function = get("function")
	}
	if e.Exception == "" {
		e.Exception = get("exception")
	}
	if e.ErrorID == "" {
		e.ErrorID = get("error_id")
	}
	e.Retryable = e.Retryable || get("retryable") == "true"
	e.Row = number(e.Row, get("row"))
	e.Batch = number(e.Batch, get("batch"))
}

// number is old, or text as a number where old is unset and text is one.
func number(old int64, text string) int64 {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && old == udfgate.NoRow {
		return n
	}
	return old
}

func first(md metadata.MD, key string) string {
	if v := md.Get(key); len(v) > 0 {
		return v[0]
	}
	return ""
}

func isEOF(err error) bool { return errors.Is(err, io.EOF) }
