package server

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/internal/clock"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// callersDeadline names the gRPC deadline in the text of a timeout, as
// "--timeout" names the pool's.
const callersDeadline = "the caller's deadline"

// headers is what a call's request metadata asks for.
type headers struct {
	billPerBatch bool
	trace        string // trace id of traceparent
	principal    string
	onError      udfgate.OnError // empty: as the function's own option says
	timeout      time.Duration   // of a chunk, 0 for none
	// deadline is the caller's, in clock nanoseconds, 0 for none; limit is how
	// long it was when the call came.
	deadline, limit int64
}

// readHeaders reads the request metadata. A value of a known key that is not
// built is refused: it must not be ignored in silence. Unknown keys are legal.
func readHeaders(ctx context.Context) (headers, error) {
	var h headers
	if at, ok := ctx.Deadline(); ok {
		left := time.Until(at)
		h.deadline = max(clock.Now()+int64(left), 1)
		// The caller said whole milliseconds or more; the way here took some.
		h.limit = int64((left + time.Millisecond - 1).Truncate(time.Millisecond))
	}
	for _, key := range knownHeaders {
		// Key by key: the other way copies all that a client sends, per call.
		values := metadata.ValueFromIncomingContext(ctx, key)
		if len(values) == 0 {
			continue
		}
		if err := h.set(key, values[0]); err != nil {
			return h, err
		}
	}
	return h, nil
}

const (
	headerTrace   = "traceparent"
	headerBill    = "udfgate-bill"
	headerTimeout = "udfgate-timeout"
	headerOnError = "udfgate-on-error"
	headerErrors  = "udfgate-errors"
)

var knownHeaders = [...]string{headerTrace, headerBill, headerTimeout, headerOnError, headerErrors}

func (h *headers) set(key, value string) error {
	switch key {
	case headerTrace:
		h.trace = traceID(value)
	case headerBill:
		if value != "batch" {
			return udfgate.Invalidf(udfgate.ShapeMalformed, "%s: wanted batch, got %q", key, cut(value, nameBytesMax))
		}
		h.billPerBatch = true
	case headerOnError:
		h.onError = udfgate.OnError(value)
		if h.onError != udfgate.OnErrorFail && !h.onError.KeepsGoing() {
			return udfgate.Invalidf(udfgate.ShapeMalformed, "%s: wanted fail, null or reject, got %q", key, cut(value, nameBytesMax))
		}
	case headerTimeout:
		var err error
		if h.timeout, err = time.ParseDuration(value); err != nil || h.timeout <= 0 {
			return udfgate.Invalidf(udfgate.ShapeMalformed, "%s: wanted a duration of more than 0 such as 500ms or 5s, got %q",
				key, cut(value, nameBytesMax))
		}
	default:
		return udfgate.Invalidf(udfgate.ShapeMalformed, "%s is not built yet; leave it out", key)
	}
	return nil
}

// traceID is the second field of a W3C traceparent; empty if it is none.
func traceID(parent string) string {
	const versionLen, traceLen, parentLen = 2, 32, 16
	parts := strings.Split(cut(parent, nameBytesMax), "-")
	if len(parts) < 4 || parts[0] == "ff" || len(parts[0]) != versionLen || len(parts[1]) != traceLen || len(parts[2]) != parentLen {
		return ""
	}
	id := parts[1]
	if strings.Trim(id, "0123456789abcdef") != "" || strings.Trim(id, "0") == "" {
		return ""
	}
	return id
}

// principals names who calls. It remembers the last name that it has written
// out: nearly always the next call comes from there too.
type principals struct{ last atomic.Pointer[principal] }

type principal struct {
	addr netip.Addr
	name string
}

// of is who calls: today the peer's address, without the port, which says
// nothing about who it is.
func (p *principals) of(ctx context.Context) string {
	peer, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	tcp, ok := peer.Addr.(*net.TCPAddr)
	if !ok {
		return peer.Addr.Network()
	}
	addr := tcp.AddrPort().Addr().Unmap()
	if last := p.last.Load(); last != nil && last.addr == addr {
		return last.name
	}
	now := &principal{addr: addr, name: addr.String()}
	p.last.Store(now)
	return now.name
}

// limits passes on what the caller asks of the backend. Only its deadline is an
// instant: what else bounds a chunk begins when the chunk does. Counted from the
// receipt of its batch, waiting for a worker would eat it up, and a gateway that
// has too much to do would blame the bodies.
func (h *headers) limits(call *udfgate.Call) {
	if h.deadline > 0 {
		call.Deadline, call.Limit, call.LimitNS = h.deadline, callersDeadline, h.limit
	}
	if h.timeout > 0 {
		call.TimeoutNS, call.TimeoutName = int64(h.timeout), headerTimeout
	}
	call.OnError = cmp.Or(h.onError, call.Function.OnError)
	if call.OnError == udfgate.OnErrorReject && !h.rejects() {
		call.OnError = udfgate.OnErrorNull // nobody would see the texts
	}
}

// rejects reports whether the answers of the call have an error column. The
// function's own option alone gives none: its callers know the schema of its
// FlightInfo, and did not ask for another.
func (h *headers) rejects() bool { return h.onError == udfgate.OnErrorReject }
