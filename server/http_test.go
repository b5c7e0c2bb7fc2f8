package server

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/codec"
)

// get fetches a path with a Host header of its own ("" is the address).
func (g *gateway) get(path, host string) (int, string) {
	g.t.Helper()
	r, err := http.NewRequestWithContext(g.t.Context(), http.MethodGet, "http://"+g.HTTPAddr()+path, nil)
	if err != nil {
		g.t.Fatal(err)
	}
	r.Host = host
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	a, err := client.Do(r)
	if err != nil {
		g.t.Fatal(err)
	}
	defer func() { _ = a.Body.Close() }()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return a.StatusCode, string(text)
}

// grep is the lines of a text that match.
func grep(text, pattern string) string {
	return strings.Join(regexp.MustCompile("(?m)^.*(?:"+pattern+").*$").FindAllString(text, -1), "\n")
}

func TestHTTPEndpoints(t *testing.T) {
	g := start(t, Config{}, map[string]body{"echo": echo})
	c := g.open("echo")
	c.send(ints(1, 2, 3))
	c.want(1, 2, 3)
	c.finish()
	c = g.open("ecko")
	c.send(ints(1))
	c.failure("NotFound", udfgate.NotFound, "echo")
	g.until("receivers to end", func() bool { return g.budget.bytes() == 0 }) // they do so after the status has gone
	for _, e := range []struct {
		path string
		code int
		text string
	}{
		{"/", 200, "/metrics"},
		{"/healthz", 200, "ok"},
		{"/readyz", 200, "ready"},
		{"/metrics", 200, `udfgate_rows_total{function="echo",outcome="ok",path="python"} 3`},
		{"/metrics", 200, `udfgate_calls_total{dialect="flight",function="echo",outcome="ok",path="python"} 1`},
		{"/metrics", 200, `udfgate_wall_seconds_total{function="echo",phase="body"} 0`},
		{"/metrics", 200, `udfgate_rejected_total{reason="not_found"} 1`},
		{"/metrics", 200, `udfgate_chunk_rows_bucket{function="echo",le="4"} 1`},
		{"/metrics", 200, "udfgate_inflight_bytes 0"},
		{"/nothing", 404, `{"error":{"reason":"NOT_FOUND","message":"no GET /nothing here","row":null,"error_id":""}}`},
		{"/v1/errors/0123", 404, `"message":"no error \"0123\": the last 1024 are kept until the gateway ends"`},
	} {
		if code, text := g.get(e.path, ""); code != e.code || !strings.Contains(text, e.text) {
			t.Errorf("%s: got %d %s\nwanted %d %s", e.path, code, text, e.code, e.text)
		}
	}
	g.table.SetReady(false)
	if code, text := g.get("/readyz", ""); code != 503 || !strings.Contains(text, "START_FAILED") {
		t.Errorf("not ready: got %d %s", code, text)
	}
	if code, _ := g.get("/healthz", ""); code != 200 {
		t.Errorf("healthz of a gateway that is not ready: %d", code)
	}
}

func TestHTTPErrorsAreTheWholeText(t *testing.T) {
	detail := "Traceback (most recent call last):\n" + strings.Repeat("  <img src=x onerror=alert(1)>\n", 200)
	g := start(t, Config{}, map[string]body{"f": func(context.Context, *udfgate.Call, *codec.Batch) (*codec.Answer, error) {
		return nil, &udfgate.Error{Reason: udfgate.UserError, Function: "f", Row: 3, Exception: "ValueError", Message: "ValueError: x", Detail: detail}
	}})
	c := g.open("f")
	c.send(ints(1, 2, 3, 4))
	c.failure("InvalidArgument", udfgate.UserError, "f: row 3: ValueError: x")
	id := c.rpc.Trailer().Get("udfgate-error-id")[0]
	code, text := g.get("/v1/errors/"+id, "")
	var got struct {
		Error struct {
			Reason, Message, Function, Exception, Detail string
			ErrorID                                      string `json:"error_id"`
			Row, Batch                                   int64
		}
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	e := got.Error
	if code != 200 || e.Reason != "USER_ERROR" || e.Message != "f: row 3: ValueError: x" || e.Row != 3 || e.Batch != 0 || e.ErrorID != id ||
		e.Function != "f" || e.Exception != "ValueError" || e.Detail != detail {
		t.Errorf("got %d %s", code, text)
	}
	if strings.Contains(text, "<img") {
		t.Error("markup of an exception's text comes unescaped")
	}
}

func TestHTTPChecksHost(t *testing.T) {
	g := start(t, Config{}, map[string]body{"echo": echo})
	if code, text := g.get("/metrics", "evil.example"); code != 403 || !strings.Contains(text, `"reason":"PERMISSION"`) {
		t.Errorf("got %d %s", code, text)
	}
	for _, c := range []struct {
		host, configured string
		loopback, want   bool
	}{
		{"127.0.0.1:8816", "127.0.0.1", true, true},
		{"localhost:8816", "127.0.0.1", true, true},
		{"LocalHost", "127.0.0.1", true, true},
		{"[::1]:8816", "127.0.0.1", true, true},
		{"evil.example:8816", "127.0.0.1", true, false},
		{"10.0.0.7:8816", "127.0.0.1", true, false},
		{"", "127.0.0.1", true, false},
		{"10.0.0.7:8816", "0.0.0.0", false, true},
		{"gate.internal:8816", "gate.internal", false, true},
		{"evil.example", "0.0.0.0", false, false},
		{"evil.example", "", false, false},
	} {
		if got := hostAllowed(c.host, c.configured, c.loopback); got != c.want {
			t.Errorf("host %q with --http %q: allowed %v, wanted %v", c.host, c.configured, got, c.want)
		}
	}
}

func TestHTTPOff(t *testing.T) {
	g := start(t, Config{HTTP: "off"}, map[string]body{"echo": echo})
	if g.HTTPAddr() != "" {
		t.Errorf("listens on %s", g.HTTPAddr())
	}
}
