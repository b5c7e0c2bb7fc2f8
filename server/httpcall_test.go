package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/codec"
	"github.com/udfgate/udfgate/internal/clock"
)

// ask sends a request and returns the status, the headers and the body.
func (g *gateway) ask(method, path string, body io.Reader, headers ...string) (int, http.Header, string) {
	g.t.Helper()
	r, err := http.NewRequestWithContext(g.t.Context(), method, "http://"+g.HTTPAddr()+path, body)
	if err != nil {
		g.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	if headers := r.Header["Host"]; len(headers) > 0 {
		r.Host = headers[0]
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
	a, err := client.Do(r)
	if err != nil {
		g.t.Fatal(err)
	}
	defer func() { _ = a.Body.Close() }()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return a.StatusCode, a.Header, string(text)
}

// post calls a function over HTTP.
func (g *gateway) post(name, body string, headers ...string) (int, http.Header, string) {
	g.t.Helper()
	return g.ask(http.MethodPost, "/v1/call/"+name, strings.NewReader(body), append([]string{"Content-Type", "application/json"}, headers...)...)
}

// httpAnswer is the answer of /v1/call.
type httpAnswer struct {
	Rows []json.RawMessage
	Bill udfgate.Bill
}

func parseAnswer(t *testing.T, text string) httpAnswer {
	t.Helper()
	var a httpAnswer
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&a); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	checkIdentity(t, &a.Bill)
	return a
}

func TestHTTPCall(t *testing.T) {
	g := start(t, Config{}, map[string]body{"echo": echo})
	code, header, text := g.post("echo", `{"rows":[[12],[-9223372036854775808],[9223372036854775807]]}`)
	if code != 200 || !strings.HasPrefix(text, `{"rows":[12,-9223372036854775808,9223372036854775807],"bill":{`) {
		t.Fatalf("got %d %s", code, text)
	}
	b := parseAnswer(t, text).Bill
	if b.Rows != 3 || b.Batches != 1 || b.Dialect != "http" || b.Function != "echo" || b.Principal != "127.0.0.1" ||
		b.ConvGatewayNS <= 0 || b.BytesIn == 0 || b.BytesOut == 0 || b.Crossings != 1 {
		t.Errorf("bill %s", b.JSON())
	}
	if header.Get("Content-Type") != "application/json" || header.Get("Udfgate-Bill") == "" {
		t.Errorf("headers %v", header)
	}
	for name, body := range map[string]string{"geo.echo": `{"rows":[]}`, "echo": " {\n\"rows\" : [ ] }\n"} {
		if code, _, text := g.post(name, body); code != 200 || !strings.HasPrefix(text, `{"rows":[],"bill":{`) {
			t.Errorf("no rows: %d %s", code, text)
		}
	}
	_, text = g.get("/metrics", "")
	if !strings.Contains(text, `udfgate_calls_total{dialect="http",function="echo",outcome="ok",path="python"} 3`) {
		t.Errorf("metrics:\n%s", grep(text, "udfgate_calls_total"))
	}
}

// A long body is what conversion_gateway is made of: the JSON that comes and
// the JSON that goes are both on the bill.
func TestHTTPBillHasTheConversion(t *testing.T) {
	g := start(t, Config{}, map[string]body{"echo": echo})
	const rows = 200_000
	body := `{"rows":[` + strings.Repeat("[1234567],", rows-1) + `[1]]}`
	from := time.Now()
	code, _, text := g.post("echo", body)
	took := time.Since(from)
	if code != 200 {
		t.Fatalf("got %d %s", code, text)
	}
	a := parseAnswer(t, text)
	if len(a.Rows) != rows || string(a.Rows[rows-1]) != "1" || a.Bill.Rows != rows {
		t.Errorf("%d rows, bill %s", len(a.Rows), a.Bill.JSON())
	}
	if b := a.Bill; b.WallNS > int64(took) || b.ConvGatewayNS*2 < b.WallNS || b.ConvGatewayNS < int64(time.Millisecond) {
		t.Errorf("%v outside, bill %s", took, b.JSON())
	}
}

// twoRows is the body of a call that is right.
const twoRows = `{"rows":[[1],[2]]}`

// callErrors are calls over HTTP that fail, with what their answer has to hold.
var callErrors = []struct {
	name, body string
	code       int
	text       string
}{
	{"user_error", twoRows, 400, `"reason":"USER_ERROR","message":"user_error: row 1: because\nTraceback","row":1`},
	{"worker_lost", twoRows, 500, `"reason":"WORKER_LOST","message":"worker_lost: because","row":null,"error_id":""`},
	{"timeout", twoRows, 504, `"reason":"TIMEOUT"`},
	{"memory_budget", twoRows, 429, `"reason":"MEMORY_BUDGET"`},
	{"start_failed", twoRows, 503, `"reason":"START_FAILED"`},
	{"queue_full", twoRows, 429, `"reason":"QUEUE_FULL"`},
	{"internal", twoRows, 500, `"reason":"INTERNAL"`},
	{"panics", twoRows, 500, `the gateway panicked: oh`},
	{"ecko", twoRows, 404, `"reason":"NOT_FOUND","message":"no function \"ecko\": nearest names are \"echo\"`},
	{"echo", ``, 400, `body: JSON ends too early`},
	{"echo", `{`, 400, `body: JSON ends too early`},
	{"echo", `{"rows":[[1]]`, 400, `body: JSON ends too early`},
	{"echo", `{"rows":[[1]`, 400, `body: JSON ends too early`},
	{"echo", `[[1]]`, 400, `wanted an object such as {\"rows\": [[1, 2]]}, got an array`},
	{"echo", `null`, 400, `wanted an object such as {\"rows\": [[1, 2]]}, got null`},
	{"echo", `{}`, 400, `wanted a member rows, an array with an array of values per row","row":null`},
	{"echo", `{"rows":null}`, 400, `wanted an array of rows`},
	{"echo", `{"rows":{}}`, 400, `wanted an array of rows`},
	{"echo", `{"rows":[[1]],"rows":[[2]]}`, 400, `member rows is there twice`},
	{"echo", `{"Rows":[[1]]}`, 400, `unknown member \"Rows\": wanted rows alone`},
	{"echo", `{"rows":[[1]],"x":1}`, 400, `unknown member \"x\"`},
	{"echo", `{"rows":[[1]]} {}`, 400, `wanted nothing after the object`},
	{"echo", `{"rows":[[1]]}x`, 400, `wanted nothing after the object`},
	{"echo", `{"rows":[[1,2]]}`, 400, `"message":"echo: row 0: wanted 1 value, got 2","row":0,`},
	{"echo", `{"rows":[1]}`, 400, `row 0: wanted an array of 1 value, got 1`},
	{"echo", `{"rows":[[1],["x"]]}`, 400, `"message":"echo: row 1: column 0 \"a\": wanted int64, got string \"x\"","row":1,`},
	{"echo", `{"rows":[[1.5]]}`, 400, `wanted int64, got`},
	{"echo", `{"rows":[[1e999]]}`, 400, `wanted int64, got`},
	{"echo", `{"rows":[[9223372036854775808]]}`, 400, `out of its range`},
	{"echo", `{"rows":[[{"a":1}]]}`, 400, `got object`},
	{"echo", `{"rows":[[NaN]]}`, 400, `not JSON`},
	{"echo", "{\"rows\":[[\"\xff\"]]}", 400, `wanted JSON in UTF-8`},
	{"echo", `{"rows":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`, 400, `max depth`},
	{"echo", strings.Repeat(`{"rows":`, 100_000), 400, `max depth`},
	{"echo", `{"rows":[` + strings.Repeat("[1],", 1000) + `[1]]}`, 400, `batch of more than 1000 rows is over --max-batch-rows 1000`},
	{"echo", `{"rows":[` + strings.Repeat(" ", 1<<20) + `]}`, 400, `body of 1048587 bytes is over --max-message-bytes 1048576`},
}

func TestHTTPCallErrors(t *testing.T) {
	reason := func(r udfgate.Reason) body {
		return func(context.Context, *udfgate.Call, *codec.Batch) (*codec.Answer, error) {
			err := udfgate.Errorf(r, "because")
			if r == udfgate.UserError {
				err.Row, err.Exception, err.Detail = 1, "ValueError", "Traceback"
			}
			return nil, err
		}
	}
	bodies := map[string]body{"echo": echo, "panics": func(context.Context, *udfgate.Call, *codec.Batch) (*codec.Answer, error) { panic("oh") }}
	for _, r := range []udfgate.Reason{
		udfgate.UserError, udfgate.WorkerLost, udfgate.Timeout, udfgate.MemoryBudget, udfgate.StartFailed, udfgate.QueueFull, udfgate.Internal,
	} {
		bodies[strings.ToLower(string(r))] = reason(r)
	}
	g := start(t, Config{Logger: quiet, MessageBytesMax: 1 << 20, BatchRowsMax: 1000}, bodies)
	for _, c := range callErrors {
		code, header, text := g.post(c.name, c.body)
		if code != c.code || !strings.Contains(text, c.text) || header.Get("Content-Type") != "application/json" {
			t.Errorf("%s of %.60q: got %d %s\nwanted %d %s", c.name, c.body, code, text, c.code, c.text)
		}
	}
	// Chunked: nobody says how long it is.
	code, _, text := g.ask(http.MethodPost, "/v1/call/echo", io.MultiReader(strings.NewReader(`{"rows":[`), strings.NewReader(strings.Repeat(" ", 2<<20)+`]}`)),
		"Content-Type", "application/json")
	if code != 400 || !strings.Contains(text, "body of more than 1048576 bytes is over --max-message-bytes 1048576") {
		t.Errorf("chunked: %d %s", code, text)
	}
	code, _, text = g.ask(http.MethodPost, "/v1/call/echo", io.MultiReader(strings.NewReader(`{"rows":[[`), strings.NewReader(`7]]}`)),
		"Content-Type", "application/json; charset=UTF-8")
	if code != 200 || !strings.HasPrefix(text, `{"rows":[7]`) {
		t.Errorf("chunked: %d %s", code, text)
	}
	_, text = g.get("/v1/bills", "")
	if !strings.Contains(text, `"function":"user_error","canonical":"geo.user_error","version":"0123456789ab","calls":1,"calls_cold":0,"outcomes":{"USER_ERROR":1},"sum":{"rows":1,"rows_native":0,"rows_failed":1,`) {
		t.Errorf("bills: %s", text)
	}
}

func TestHTTPProtocolErrors(t *testing.T) {
	g := start(t, Config{}, map[string]body{"echo": echo})
	one := `{"rows":[[1]]}`
	for _, c := range []struct {
		method, path string
		headers      []string
		code         int
		text         string
	}{
		{"POST", "/v1/call/echo", nil, 415, `content-type: wanted application/json, got \"\"`},
		{"POST", "/v1/call/echo", []string{"Content-Type", "text/plain"}, 415, `"reason":"INVALID"`},
		{"POST", "/v1/call/echo", []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, `"reason":"INVALID"`},
		{"POST", "/v1/call/echo", []string{"Content-Type", "application/json; charset=utf-16"}, 415, `wanted charset utf-8, got \"utf-16\"`},
		{"POST", "/v1/call/echo", []string{"Content-Type", "application/json", "Content-Encoding", "gzip"}, 415, `content-encoding: wanted none, got \"gzip\"`},
		{"POST", "/v1/call/echo", []string{"Content-Type", "application/json", "Host", "evil.example"}, 403, `"reason":"PERMISSION"`},
		{"POST", "/v1/call/echo", []string{"Content-Type", "application/json", "udfgate-errors", "inline"}, 400, `udfgate-errors is not built yet`},
		{"POST", "/v1/call/", nil, 404, `no POST /v1/call/ here`},
		{"GET", "/v1/call/echo", nil, 405, `GET /v1/call/echo: wanted method POST`},
		{"PUT", "/v1/call/echo", []string{"Content-Type", "application/json"}, 405, `wanted method POST`},
		{"OPTIONS", "/v1/call/echo", nil, 405, `wanted method POST`},
		{"POST", "/v1/functions", nil, 405, `wanted method GET, HEAD`},
		{"POST", "/v1/bills", nil, 405, `wanted method GET, HEAD`},
		{"DELETE", "/metrics", nil, 405, `wanted method GET, HEAD`},
		{"HEAD", "/v1/functions", nil, 200, ``},
		{"HEAD", "/v1/bills", nil, 200, ``},
	} {
		code, header, text := g.ask(c.method, c.path, strings.NewReader(one), c.headers...)
		if code != c.code || !strings.Contains(text, c.text) {
			t.Errorf("%s %s %v: got %d %s\nwanted %d %s", c.method, c.path, c.headers, code, text, c.code, c.text)
		}
		allowed := ""
		if code == http.StatusMethodNotAllowed {
			_, allowed, _ = strings.Cut(c.text, "wanted method ")
		}
		if allow := header.Get("Allow"); allow != allowed {
			t.Errorf("%s %s: Allow %q with %d", c.method, c.path, allow, code)
		}
	}
}

// A header without end is not read to its end, and the next request is served.
func TestHTTPHugeHeader(t *testing.T) {
	g := start(t, Config{}, map[string]body{"echo": echo})
	conn, err := net.Dial("tcp", g.HTTPAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	go func() { // until the gateway has had enough
		_, err := io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: ")
		for err == nil {
			_, err = io.WriteString(conn, strings.Repeat("x", 4096))
		}
	}()
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "HTTP/1.1 431 ") {
		t.Errorf("got %q, %v", line, err)
	}
	if code, _ := g.get("/healthz", ""); code != 200 {
		t.Errorf("afterwards: %d", code)
	}
}

// Requests whose headers do not come hold connections for a moment, and no
// others up.
func TestHTTPSlowHeaders(t *testing.T) {
	g := start(t, Config{}, map[string]body{"echo": echo})
	for range 50 {
		conn, err := net.Dial("tcp", g.HTTPAddr())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := io.WriteString(conn, "POST /v1/call/echo HTTP/1.1\r\nHost: local"); err != nil {
			t.Fatal(err)
		}
	}
	if code, _, text := g.post("echo", `{"rows":[[1]]}`); code != 200 {
		t.Errorf("got %d %s", code, text)
	}
}

func TestHTTPFunctions(t *testing.T) {
	g := start(t, Config{}, map[string]body{"echo": echo, "more": echo})
	code, text := g.get("/v1/functions", "")
	want := `{"name":"echo","canonical":"geo.echo","signature":"echo(a int64) -> int64?","args":[{"name":"a","type":"int64","nullable":false}],` +
		`"result":{"name":"echo","type":"int64","nullable":true},"kind":"scalar","mode":"row","on_error":"fail","volatility":"volatile","elementwise":false,` +
		`"idempotent":false,"path":"python","version":"0123456789ab","pool":"default"}`
	if code != 200 || !strings.HasPrefix(text, `{"functions":[`+want+`,{"name":"more"`) {
		t.Errorf("got %d %s", code, text)
	}
}

// rawHTTP opens a connection, writes, and returns what comes back until its end.
func (g *gateway) rawHTTP(text string) string {
	g.t.Helper()
	conn, err := net.Dial("tcp", g.HTTPAddr())
	if err != nil {
		g.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, text); err != nil {
		g.t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(callMax)); err != nil {
		g.t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		g.t.Errorf("%v after %q", err, answer)
	}
	return string(answer)
}

// A body that does not come is given up; until then it holds next to nothing,
// whatever it has announced.
func TestHTTPSlowBody(t *testing.T) {
	g := start(t, Config{NotReadingTimeout: 500 * time.Millisecond}, map[string]body{"echo": echo})
	const announced = "POST /v1/call/echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 200000000\r\n\r\n{"
	s := g.Server
	var held int64
	answered := make(chan string, 1)
	go func() { answered <- g.rawHTTP(announced) }()
	g.until("the body to begin", func() bool {
		held = s.budget.bytes()
		return held > 0
	})
	if held > 64<<10 {
		t.Errorf("one byte of a body holds %d bytes", held)
	}
	if code, _, text := g.post("echo", `{"rows":[[1]]}`); code != 200 { // others are served meanwhile
		t.Errorf("got %d %s", code, text)
	}
	if text := <-answered; !strings.HasPrefix(text, "HTTP/1.1 408 ") || !strings.Contains(text, "body comes too slowly: wanted 262144 bytes a second") {
		t.Errorf("got %q", text)
	}
}

// A body that breaks off is nobody's call, and gives its bytes back.
func TestHTTPBodyBreaksOff(t *testing.T) {
	g := start(t, Config{}, map[string]body{"echo": echo})
	conn, err := net.Dial("tcp", g.HTTPAddr())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "POST /v1/call/echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2000\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	g.until("the body to begin", func() bool { return g.budget.bytes() > 0 })
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	g.until("the bytes to be given back", func() bool { return g.budget.bytes() == 0 })
}

// A caller over HTTP that goes away ends its call.
func TestHTTPCallerGoesAway(t *testing.T) {
	started, ended := make(chan struct{}), make(chan struct{})
	g := start(t, Config{}, map[string]body{"hold": func(ctx context.Context, _ *udfgate.Call, _ *codec.Batch) (*codec.Answer, error) {
		close(started)
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+g.HTTPAddr()+"/v1/call/hold", bytes.NewReader([]byte(`{"rows":[[1]]}`)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	gone := make(chan error, 1)
	go func() {
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		a, err := client.Do(r)
		if err == nil {
			_ = a.Body.Close()
			err = fmt.Errorf("answered %d", a.StatusCode)
		}
		gone <- err
	}()
	<-started
	cancel()
	<-ended
	if err := <-gone; err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("the caller got %v", err)
	}
	g.awaitStreams(0)
}

// Calls over HTTP end with the others when the gateway drains.
func TestHTTPDrains(t *testing.T) {
	started := make(chan struct{})
	g := start(t, Config{DrainTimeout: 50 * time.Millisecond}, map[string]body{"hold": func(ctx context.Context, _ *udfgate.Call, _ *codec.Batch) (*codec.Answer, error) {
		close(started)
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	answered := make(chan string, 1)
	go func() {
		_, _, text := g.post("hold", `{"rows":[[1]]}`)
		answered <- text
	}()
	<-started
	if err := g.drain(); err == nil {
		t.Error("Drain says that nothing was cut off")
	}
	if text := <-answered; !strings.Contains(text, `"reason":"DRAINING"`) {
		t.Errorf("got %s", text)
	}
}

// The answer of a call over HTTP is written before the gateway has drained.
func TestHTTPDrainWaitsForAnswers(t *testing.T) {
	g := start(t, Config{}, map[string]body{"echo": echo})
	conn, err := net.Dial("tcp", g.HTTPAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.(*net.TCPConn).SetReadBuffer(256 << 10)
	body := `{"rows":[` + strings.Repeat("[1234567890123456789],", 500_000) + `[1]]}`
	if _, err := fmt.Fprintf(conn, "POST /v1/call/echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	drained := make(chan error, 1)
	go func() { drained <- g.drain() }()
	g.draining()
	if open := len(g.watch.open()); open != 1 {
		t.Errorf("%d calls are open while an answer is being written", open)
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil || int64(len(text)) != answer.ContentLength {
		t.Errorf("got %d of %d bytes: %v", len(text), answer.ContentLength, err)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

// A call that is cut off while its JSON is still being read leaves the body to
// whoever reads it, and gives its bytes back once.
func TestHTTPCutOffWhileReading(t *testing.T) {
	g := start(t, Config{DrainTimeout: DrainNow}, map[string]body{"echo": echo})
	answered := make(chan string, 1)
	go func() {
		_, _, text := g.post("echo", `{"rows":[`+strings.Repeat("[1],", 2_000_000)+`[1]]}`)
		answered <- text
	}()
	g.await("the JSON to be read", func(x *exchange) bool { return x.route != nil })
	_ = g.drain() // the batch may have been answered by now
	text := <-answered
	if !strings.Contains(text, `"reason":"DRAINING"`) && !strings.HasPrefix(text, `{"rows":[`) {
		t.Errorf("got %s", cut(text, 200))
	}
}

// While the gateway drains, a stream that is silent ends. A call over HTTP has
// said all that it has to say.
func TestHTTPCallIsNeverIdle(t *testing.T) {
	later := clock.Now() + 2*int64(drainIdle)
	for dialect, want := range map[string]bool{dialectFlight: true, dialectHTTP: false} {
		x := &exchange{dialect: dialect}
		x.came.Store(clock.Now())
		if got := x.idle(later); got != want {
			t.Errorf("%s: idle is %v", dialect, got)
		}
	}
}
