package server

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/internal/clock"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// serveCall calls a function over the rows of a request's JSON.
func (s *Server) serveCall(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	// How long a call takes is bounded by the call's own limits.
	_ = control.SetWriteDeadline(time.Time{})
	ctx := callContext(r)
	route, err := s.resolve(r.PathValue("name"))
	if err != nil {
		discardBody(w, r)
		s.refuseHTTP(w, &refusal{err: udfgate.AsError(err)})
		return
	}
	if refused := checkContent(r.Header); refused != nil {
		discardBody(w, r)
		s.refuseHTTP(w, refused)
		return
	}
	body, refused := s.readBody(ctx, w, r)
	if refused != nil {
		if refused.status != http.StatusRequestTimeout {
			discardBody(w, r)
		}
		s.refuseHTTP(w, refused)
		return
	}
	defer body.release()
	stream := &httpStream{ctx: ctx, route: route, body: body, came: clock.Now(), rowsMax: s.config.BatchRowsMax, bytesMax: s.config.MessageBytesMax}
	stream.tableMax, stream.tableMaxName = s.bytesMax()
	x, err := s.newExchange(stream, dialectHTTP)
	if err != nil {
		s.refuseHTTP(w, &refusal{err: udfgate.AsError(err)})
		return
	}
	defer s.leave(x)
	ended := x.serve()
	s.answerCall(w, x, stream, ended)
}

// answerCall writes how the call ended. The trailers of a Flight call are
// headers here.
func (s *Server) answerCall(w http.ResponseWriter, x *exchange, stream *httpStream, ended error) {
	x.mu.Lock()
	failed := x.failed
	x.mu.Unlock() // nothing changes once the call is over
	for key, values := range stream.trailer {
		for _, v := range values {
			w.Header().Add(key, v)
		}
	}
	switch {
	case failed != nil:
		s.setWriteDeadline(w, 0)
		s.writeError(w, failed)
		return
	case ended != nil: // it cannot be: there is no grpc that could have answered
		s.setWriteDeadline(w, 0)
		s.writeError(w, s.fail(udfgate.AsError(ended), noBatch))
		return
	}
	held := s.budget.resize(0, int64(cap(stream.rows)))
	defer s.budget.release(held)
	s.setWriteDeadline(w, len(stream.rows))
	parts := [][]byte{[]byte(`{"rows":[`), stream.rows, []byte(`]`)}
	if !s.config.BillOff {
		parts = append(parts, []byte(`,"bill":`), x.bill.JSON())
	}
	parts = append(parts, []byte("}\n"))
	size := 0
	for _, part := range parts {
		size += len(part)
	}
	w.Header().Set("Content-Type", contentJSON)
	w.Header().Set("Content-Length", strconv.Itoa(size))
	for _, part := range parts {
		if _, err := w.Write(part); err != nil {
			return // that the client has gone is nobody's news
		}
	}
}

// setWriteDeadline bounds how slowly a client may take n bytes.
func (s *Server) setWriteDeadline(w http.ResponseWriter, n int) {
	limit := httpWriteTimeout + time.Duration(n)*time.Second/bodyRateMin
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(limit))
}

// refuseHTTP answers a call that got no further.
func (s *Server) refuseHTTP(w http.ResponseWriter, r *refusal) {
	s.countRefused(r.err.Reason)
	f := s.fail(r.err, noBatch)
	s.setWriteDeadline(w, 0)
	if r.status == 0 {
		s.writeError(w, f)
		return
	}
	s.writeErrorAs(w, r.status, f)
}

// callContext is the request's as a stream's: its headers are the metadata of a
// Flight call under the same names.
func callContext(r *http.Request) context.Context {
	md := make(metadata.MD, len(r.Header))
	for key, values := range r.Header {
		md[strings.ToLower(key)] = values
	}
	from := &peer.Peer{Addr: &net.UnixAddr{Net: "unix"}}
	if at, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		from.Addr = net.TCPAddrFromAddrPort(at)
	}
	return peer.NewContext(metadata.NewIncomingContext(r.Context(), md), from)
}
