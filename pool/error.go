package pool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/internal/clock"
)

const (
	// answerBytesName is the flag behind Config.AnswerBytesMax.
	answerBytesName = "--max-message-bytes"
	// callersDeadline names a limit that is the context's.
	callersDeadline = "the caller's deadline"
)

// limit is what ends a chunk: an instant, its length, and the flag or option
// that set it.
type limit struct {
	at     int64 // internal/clock nanoseconds; 0: none
	length time.Duration
	name   string
}

// sooner returns the limit that binds first.
func (l limit) sooner(o limit) limit {
	if l.at == 0 || (o.at != 0 && o.at < l.at) {
		return o
	}
	return l
}

// limitOf is the caller's own limit.
func limitOf(call *udfgate.Call) limit {
	return limit{at: call.Deadline, length: time.Duration(call.LimitNS), name: call.Limit}
}

// notTaken says that the socket of a worker accepted nothing of a CALL, so the
// chunk may go to another worker whatever the function is.
type notTaken struct{ err error }

func (e *notTaken) Error() string { return "call not taken: " + e.err.Error() }
func (e *notTaken) Unwrap() error { return e.err }

// errCancelled and errExpired end the waiting of a crossing.
var (
	errCancelled = errors.New("the caller went away")
	errExpired   = errors.New("time limit passed")
)

// isIO reports an error of the socket itself, which means that the worker is
// gone or about to go.
func isIO(err error) bool {
	_, socket := errors.AsType[*net.OpError](err)
	return socket || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, os.ErrDeadlineExceeded)
}

// isReset reports a socket that was closed with bytes unread at its other end:
// it is the one error of a system call that a read from a socket pair brings.
// The rest are no system call's: end of file, a passed deadline, our own close.
func isReset(err error) bool {
	call, ok := errors.AsType[*os.SyscallError](err)
	return ok && call.Syscall == "read"
}

func retryable(e *udfgate.Error) *udfgate.Error {
	e.Retryable = true
	return e
}

func errClosed() error {
	return retryable(udfgate.Errorf(udfgate.Draining, "the pool is closed"))
}

// errQueueFull says what the calls wait for that fill the queue. The caller
// holds mu.
func (p *Pool) errQueueFull() error {
	const gate = "for a function's concurrency"
	free, gated := p.queue.length, p.gated
	var what string
	switch {
	case gated == 0:
		what = waitFor(free, "for a worker")
	case free == 0:
		what = waitFor(gated, gate)
	default:
		what = fmt.Sprintf("%s, %d %s", waitFor(free, "for a worker"), gated, gate)
	}
	return retryable(udfgate.Errorf(udfgate.QueueFull, "queue is full: %s (--max-queue)", what))
}

func waitFor(calls int, what string) string {
	if calls == 1 {
		return "1 call waits " + what
	}
	return fmt.Sprintf("%d calls wait %s", calls, what)
}

// errQueueTimeout says why no worker came within patience, which is what the
// function's gate has left of --queue-timeout. The caller holds mu.
func (p *Pool) errQueueTimeout(patience time.Duration) error {
	whole := p.config.QueueTimeout
	waited := fmt.Sprintf("%v (--queue-timeout)", whole)
	if patience < whole {
		left := patience.Round(time.Millisecond)
		waited = fmt.Sprintf("%v (--queue-timeout %v, %v of it for the function's concurrency)", left, whole, whole-left)
	}
	if p.ready > 0 || p.lastFailure == nil {
		return retryable(udfgate.Errorf(udfgate.QueueFull, "no worker was free for %s", waited))
	}
	e := udfgate.Errorf(udfgate.StartFailed, "no worker could be started for %s: %w", waited, p.lastFailure)
	e.Detail = p.lastFailure.Detail
	return retryable(e)
}

func errTimeout(l limit, detail string) error {
	e := udfgate.Errorf(udfgate.Timeout, "timeout after %v (%s)", l.length, l.name)
	e.Detail = detail
	return e
}

// errContext is the error of a call whose context has ended. It wraps
// context.Canceled only if the caller went away before its deadline: one that
// waits no longer than that may cancel before our clock says so.
func errContext(ctx context.Context, call *udfgate.Call) error {
	late := errors.Is(ctx.Err(), context.DeadlineExceeded)
	switch {
	case call.Deadline != 0 && (late || clock.Now() >= call.Deadline):
		return errTimeout(limitOf(call), "")
	case late:
		return udfgate.Errorf(udfgate.Timeout, "timeout: %s has passed", callersDeadline)
	}
	e := udfgate.Errorf(udfgate.Timeout, "the caller went away")
	e.Err = context.Canceled
	return e
}

// errLost is the loss of a worker: what happened, and its last output.
func errLost(what, detail string) error {
	e := udfgate.Errorf(udfgate.WorkerLost, "worker lost: %s", what)
	e.Detail = detail
	return retryable(e)
}

// errExit is the loss of a worker whose process has ended.
func errExit(exit Exit, words string) error {
	if exit.Signal == "SIGKILL" {
		// The kernel does not say why, and neither can we.
		words = strings.TrimSuffix("killed from outside, perhaps out of memory\n"+words, "\n")
	}
	return errLost(exit.String(), words)
}

// errBody is what the body did wrong, as the worker reported it. Without a row
// it is the body's doing if it raised, or answered a list that is too long or
// too short; else the gateway asked for something that is not there.
func errBody(e *rowError, mode udfgate.Mode) *udfgate.Error {
	class, text := cut(lineText(string(e.class)), errorClassBytesMax), lineText(string(e.text))
	out := &udfgate.Error{
		Reason: udfgate.UserError, Row: e.row, Exception: class, Message: class + text,
		Detail: linesText(string(e.trace)),
	}
	if class != "" && text != "" { // an error of no row may come without a class
		out.Message = class + ": " + text
	}
	if e.kind == errorNoRow {
		out.Row = udfgate.NoRow
		if class == "" && mode == udfgate.ModeRow {
			out.Reason = udfgate.Internal
		}
	}
	return out
}

// cut is at most n bytes of s, whole characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}

var (
	lineBreaks = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ")
	lineEnds   = strings.NewReplacer("\r\n", "\n")
)

// lineText is what a worker wrote as one line for clients and terminals; the
// trace has its lines as they were.
func lineText(s string) string { return inert(lineBreaks.Replace(s), "") }

// isPlain reports texts that lineText leaves as they are: printable ASCII.
func isPlain(texts []byte) bool {
	for _, c := range texts {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// linesText is what a worker wrote as lines for clients and terminals.
func linesText(s string) string { return inert(lineEnds.Replace(s), "\n\t") }

// inert is s as valid UTF-8 in which nothing makes a terminal act or reorder
// what it shows: controls, but those in keep, are spelled out.
func inert(s, keep string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	acts := func(r rune) bool { return (unicode.IsControl(r) || reorders(r)) && !strings.ContainsRune(keep, r) }
	if strings.IndexFunc(s, acts) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !acts(r):
			b.WriteRune(r)
		case r <= 0xFF:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// reorders reports Unicode's embeddings, overrides and isolates of a writing
// direction.
func reorders(r rune) bool { return r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069 }

// named puts the function's name on an error that leaves the room.
func named(err error, f *udfgate.Function) error {
	if err == nil {
		return nil
	}
	e := *udfgate.AsError(err) // a copy: the last start failure is shared
	e.Function = f.Name
	return &e
}

// outOfRange is the text of a row that an error may not have.
func outOfRange(row, lo, hi int64) error {
	return broken("error of row %d, the rows run are %d to %d", row, lo, hi-1)
}
