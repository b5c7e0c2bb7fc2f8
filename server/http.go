package server

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/udfgate/udfgate"
)

// Bounds of the HTTP endpoints. A call has its own for reading and writing.
const (
	httpConnectionsMax    = 1024
	httpHeaderBytesMax    = 16 << 10
	httpReadHeaderTimeout = 5 * time.Second
	httpReadTimeout       = 10 * time.Second
	httpWriteTimeout      = 30 * time.Second
	httpIdleTimeout       = time.Minute
)

// indexPage lists the endpoints.
const indexPage = `<!doctype html>
<meta charset="utf-8">
<title>udfgate</title>
<h1>udfgate</h1>
<ul>
<li><a href="/metrics">/metrics</a>: numbers for Prometheus
<li><a href="/healthz">/healthz</a>: the process answers
<li><a href="/readyz">/readyz</a>: calls may come
<li><a href="/v1/functions">/v1/functions</a>: what is served
<li><a href="/v1/bills">/v1/bills</a>: where the time of all calls went, by function
<li>/v1/call/NAME: POST {"rows":[[12,18]]} calls a function
<li>/v1/errors/ID: the whole text of an error, by the id in its status
</ul>
`

func (s *Server) newHTTP() *http.Server {
	mux := http.NewServeMux()
	get := func(pattern string, h http.HandlerFunc) {
		mux.HandleFunc(pattern, s.only(h, http.MethodGet, http.MethodHead))
	}
	get("/metrics", s.metrics.Handler().ServeHTTP)
	get("/healthz", func(w http.ResponseWriter, _ *http.Request) { s.write(w, "text/plain", []byte("ok\n")) })
	get("/readyz", s.serveReady)
	get("/v1/functions", s.serveFunctions)
	get("/v1/bills", s.serveBills)
	get("/v1/errors/{id}", s.serveError)
	get("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		s.write(w, "text/html; charset=utf-8", []byte(indexPage))
	})
	mux.HandleFunc("/v1/call/{name}", s.only(s.serveCall, http.MethodPost))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.writeError(w, &failure{err: udfgate.Errorf(udfgate.NotFound, "no %s %s here", r.Method, cut(r.URL.Path, nameBytesMax))})
	})
	return &http.Server{
		Handler:           s.catchPanics(s.checkHost(mux)),
		ReadHeaderTimeout: httpReadHeaderTimeout,
		ReadTimeout:       httpReadTimeout,
		WriteTimeout:      httpWriteTimeout,
		IdleTimeout:       httpIdleTimeout,
		MaxHeaderBytes:    httpHeaderBytesMax,
		ErrorLog:          slog.NewLogLogger(s.logger.Handler(), slog.LevelDebug),
	}
}

// only refuses other methods.
func (s *Server) only(next http.HandlerFunc, methods ...string) http.HandlerFunc {
	allowed := strings.Join(methods, ", ")
	return func(w http.ResponseWriter, r *http.Request) {
		if slices.Contains(methods, r.Method) {
			next(w, r)
			return
		}
		w.Header().Set("Allow", allowed)
		s.writeErrorAs(w, http.StatusMethodNotAllowed, &failure{err: malformed(
			"%s %s: wanted method %s", cut(r.Method, nameBytesMax), cut(r.URL.Path, nameBytesMax), allowed)})
	}
}

// catchPanics answers a panic of a handler as the error that it is; net/http
// would only break the connection off.
func (s *Server) catchPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil {
				s.writeError(w, s.fail(s.recovered(p), noBatch))
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// checkHost refuses requests that a web page of another site makes a browser
// send: those name the site's host, whatever address it resolves to.
func (s *Server) checkHost(next http.Handler) http.Handler {
	configured, _, err := net.SplitHostPort(s.config.HTTP)
	if err != nil {
		configured = ""
	}
	loopback := true
	if tcp, ok := s.httpListn.Addr().(*net.TCPAddr); ok {
		loopback = tcp.IP.IsLoopback()
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !hostAllowed(r.Host, configured, loopback) {
			s.writeError(w, &failure{err: udfgate.Errorf(udfgate.Permission,
				"host %q is not this gateway's: wanted a loopback name or the host of --http", cut(r.Host, nameBytesMax))})
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

// hostAllowed says whether a Host header names this gateway. On a listener
// beyond loopback any literal address does: only names can be made to point
// here by somebody else.
func hostAllowed(host, configured string, loopback bool) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.Trim(name, "[]")
	if strings.EqualFold(name, "localhost") || configured != "" && strings.EqualFold(name, configured) {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && (ip.IsLoopback() || !loopback)
}

func (s *Server) serveReady(w http.ResponseWriter, _ *http.Request) {
	if s.ready() {
		s.write(w, "text/plain", []byte("ready\n"))
		return
	}
	err := errDraining()
	if !s.watch.draining.Load() {
		err = udfgate.Errorf(udfgate.StartFailed, "not ready: functions are being loaded")
	}
	s.writeError(w, &failure{err: err})
}

// errorBody is the one form of errors over HTTP; the members of a kept error
// come on top of those of every error.
type errorBody struct {
	Reason  udfgate.Reason `json:"reason"`
	Message string         `json:"message"`
	Row     *int64         `json:"row"`
	ErrorID string         `json:"error_id"`

	Function  string     `json:"function,omitempty"`
	Batch     *int64     `json:"batch,omitempty"`
	Exception string     `json:"exception,omitempty"`
	Detail    string     `json:"detail,omitempty"`
	Time      *time.Time `json:"time,omitempty"`
}

// numberOrNull is nil for a number below 0, which means none.
func numberOrNull(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

// serveError answers the whole text of an error that was kept.
func (s *Server) serveError(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	kept := s.errors.find(id)
	if kept == nil {
		s.writeError(w, &failure{err: udfgate.Errorf(udfgate.NotFound,
			"no error %q: the last %d are kept until the gateway ends", cut(id, nameBytesMax), errorsKeptMax)})
		return
	}
	s.writeJSON(w, http.StatusOK, errorBody{
		Reason: kept.err.Reason, Message: kept.err.Error(), Row: numberOrNull(kept.err.Row), ErrorID: kept.id,
		Function: kept.err.Function, Batch: numberOrNull(kept.batch), Exception: kept.err.Exception,
		Detail: kept.err.Detail, Time: &kept.when,
	})
}

func (s *Server) writeError(w http.ResponseWriter, f *failure) {
	s.writeErrorAs(w, httpStatusOf(f.err), f)
}

// writeErrorAs is for what HTTP has a status of its own for.
func (s *Server) writeErrorAs(w http.ResponseWriter, code int, f *failure) {
	s.writeJSON(w, code, errorBody{
		Reason: f.err.Reason, Message: message(f.err), Row: numberOrNull(f.err.Row), ErrorID: f.id,
	})
}

// writeJSON answers an error, whose text is escaped for pages too: it may hold
// anything.
func (s *Server) writeJSON(w http.ResponseWriter, code int, e errorBody) {
	s.writeMembers(w, code, map[string]errorBody{"error": e}, true)
}

func (s *Server) writeMembers(w http.ResponseWriter, code int, members any, forPages bool) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(forPages)
	if err := enc.Encode(members); err != nil { // no member can fail to
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", contentJSON)
	w.WriteHeader(code)
	s.write(w, contentJSON, text.Bytes())
}

// write sends a body. That the client has gone is nobody's news.
func (s *Server) write(w http.ResponseWriter, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	_, _ = w.Write(body)
}
