package server

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/udfgate/udfgate"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// errorDomain marks the gateway's own ErrorInfo.
const errorDomain = "udfgate"

// All trailers of a call together must stay under 8 KiB, or Java and C clients
// see only a reset stream. grpc sends the message twice: percent-encoded, and
// in the details.
const (
	messageBytesMax   = 1536 // percent-encoded
	lineBytesMax      = 1024 // percent-encoded, where a traceback follows
	infoBytesMax      = 1024 // of the ErrorInfo
	infoValueBytesMax = 256  // of one metadata value
)

// noBatch is the batch of an error that belongs to none.
const noBatch = int64(-1)

// codeOf is the one place that maps reasons to gRPC codes.
func codeOf(e *udfgate.Error) codes.Code {
	switch e.Reason {
	case udfgate.UserError:
		return codes.InvalidArgument
	case udfgate.WorkerLost:
		return codes.Aborted
	case udfgate.Timeout:
		return codes.DeadlineExceeded
	case udfgate.MemoryBudget, udfgate.QueueFull:
		return codes.ResourceExhausted
	case udfgate.StartFailed, udfgate.Draining:
		return codes.Unavailable
	case udfgate.NotReading:
		return codes.FailedPrecondition
	case udfgate.NotFound:
		return codes.NotFound
	case udfgate.Unauthenticated:
		return codes.Unauthenticated
	case udfgate.Permission:
		return codes.PermissionDenied
	case cancelled:
		return codes.Canceled
	case udfgate.Invalid:
		switch e.Shape {
		case udfgate.ShapeUnsupported:
			return codes.Unimplemented
		case udfgate.ShapeTooLarge:
			return codes.ResourceExhausted
		default:
			return codes.InvalidArgument
		}
	default:
		return codes.Internal
	}
}

// httpStatusOf maps reasons to HTTP, where the shape of an invalid request makes
// no difference: sending it again does not help.
func httpStatusOf(e *udfgate.Error) int {
	if e.Reason == udfgate.Invalid {
		return http.StatusBadRequest
	}
	switch codeOf(e) {
	case codes.ResourceExhausted:
		return http.StatusTooManyRequests
	case codes.DeadlineExceeded:
		return http.StatusGatewayTimeout
	case codes.Unavailable:
		return http.StatusServiceUnavailable
	case codes.NotFound:
		return http.StatusNotFound
	case codes.Unauthenticated:
		return http.StatusUnauthorized
	case codes.PermissionDenied:
		return http.StatusForbidden
	case codes.Aborted, codes.Internal:
		return http.StatusInternalServerError
	default:
		return http.StatusBadRequest
	}
}

// failure is how a call or request ended that did not go well.
type failure struct {
	err   *udfgate.Error
	batch int64  // noBatch if it belongs to none
	id    string // finds the whole text in the error store; empty if nothing more is kept
}

// cancelled is the reason of a call whose caller went away. Nobody reads the
// status, and CANCELLED is never answered to anybody who is there.
const cancelled udfgate.Reason = "CANCELLED"

// asError is udfgate.AsError, but for the end of the call's own context: that
// the caller went away or ran out of time is no fault of the gateway's. A
// backend may dress the cancellation up as an error of its own; one that it
// reports while the caller is still there is not the caller's.
func asError(ctx context.Context, err error) *udfgate.Error {
	_, own := errors.AsType[*udfgate.Error](err)
	switch {
	case ctx.Err() == nil, own && !errors.Is(err, context.Canceled):
		return udfgate.AsError(err)
	default:
		return ended(ctx)
	}
}

// ended is the error of a call whose context has ended.
func ended(ctx context.Context) *udfgate.Error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return udfgate.Errorf(udfgate.Timeout, "timeout: %s has passed", callersDeadline)
	}
	return udfgate.Errorf(cancelled, "the caller went away")
}

// fail makes the failure of an error, and keeps what does not fit into a
// status in the error store.
func (s *Server) fail(err *udfgate.Error, batch int64) *failure {
	f := &failure{err: err, batch: batch}
	if text := err.Error(); err.Detail != "" || encodedLen(text) > messageBytesMax {
		f.id = s.errors.keep(err, batch)
	}
	return f
}

// status is the failure as gRPC says it.
func (f *failure) status() error {
	st := status.New(codeOf(f.err), message(f.err))
	info := &errdetails.ErrorInfo{Domain: errorDomain, Reason: string(f.err.Reason), Metadata: f.metadata()}
	if proto.Size(info) > infoBytesMax { // cannot happen: every value is cut
		info.Metadata = nil
	}
	if detailed, err := st.WithDetails(info); err == nil {
		st = detailed
	}
	return st.Err()
}

func (f *failure) metadata() map[string]string {
	m := map[string]string{"retryable": strconv.FormatBool(f.err.Retryable)}
	put := func(key, value string) {
		if value != "" {
			m[key] = cut(value, infoValueBytesMax)
		}
	}
	put("function", f.err.Function)
	put("exception", f.err.Exception)
	put("error_id", f.id)
	if f.err.Row >= 0 {
		put("row", strconv.FormatInt(f.err.Row, 10))
	}
	if f.batch >= 0 {
		put("batch", strconv.FormatInt(f.batch, 10))
	}
	return m
}

// trailer is the same as plain trailers, for clients that cannot read details.
func (f *failure) trailer(md metadata.MD) {
	md.Set("udfgate-reason", string(f.err.Reason))
	if f.err.Row >= 0 {
		md.Set("udfgate-row", strconv.FormatInt(f.err.Row, 10))
	}
	if f.batch >= 0 {
		md.Set("udfgate-batch", strconv.FormatInt(f.batch, 10))
	}
	if f.id != "" {
		md.Set("udfgate-error-id", f.id)
	}
}

// message is the error's line and as much of its detail's end as has room: of
// a traceback the last lines say most.
func message(e *udfgate.Error) string {
	line := strings.ToValidUTF8(e.Error(), "\ufffd")
	detail := strings.ToValidUTF8(strings.TrimRight(e.Detail, "\n"), "\ufffd")
	if detail == "" {
		return elide(line, messageBytesMax)
	}
	line = elide(line, lineBytesMax)
	room := messageBytesMax - encodedLen(line) - encodedLen("\n")
	if encodedLen(detail) <= room {
		return line + "\n" + detail
	}
	const dots = "..."
	if tail := lastLines(detail, room-encodedLen(dots+"\n")); tail != "" {
		return line + "\n" + dots + "\n" + tail
	}
	return line + "\n" + elide(detail[strings.LastIndexByte(detail, '\n')+1:], room)
}

// encodedWidth is the bytes that one byte takes in a grpc-message header.
func encodedWidth(c byte) int {
	if c < ' ' || c > '~' || c == '%' {
		return 3
	}
	return 1
}

// encodedLen is the length of s in a grpc-message header.
func encodedLen(s string) int {
	n := 0
	for i := range len(s) {
		n += encodedWidth(s[i])
	}
	return n
}

// elide cuts s in the middle so that it encodes to at most limit bytes. The
// beginning has the row and class, the end is where texts put what matters.
func elide(s string, limit int) string {
	if encodedLen(s) <= limit {
		return s
	}
	const dots = " ... "
	head := prefixLen(s, (limit-len(dots))*2/3)
	tail := suffixStart(s, limit-len(dots)-encodedLen(s[:head]))
	return s[:head] + dots + s[tail:]
}

// prefixLen is the length of the longest prefix of whole runes that encodes to
// at most limit bytes.
func prefixLen(s string, limit int) int {
	at := 0
	for at < len(s) {
		_, n := utf8.DecodeRuneInString(s[at:])
		if limit -= encodedLen(s[at : at+n]); limit < 0 {
			break
		}
		at += n
	}
	return at
}

// suffixStart is the same for the longest suffix.
func suffixStart(s string, limit int) int {
	at := len(s)
	for at > 0 {
		_, n := utf8.DecodeLastRuneInString(s[:at])
		if limit -= encodedLen(s[at-n : at]); limit < 0 {
			break
		}
		at -= n
	}
	return at
}

// lastLines is the longest run of whole last lines of s that encodes to at most
// limit bytes; empty if not even one fits.
func lastLines(s string, limit int) string {
	at := suffixStart(s, limit)
	if at == 0 || s[at-1] == '\n' {
		return s[at:]
	}
	_, rest, _ := strings.Cut(s[at:], "\n")
	return rest
}

// cut is the first n bytes of s, without half a rune at the end.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
