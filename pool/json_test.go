package pool

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestLoadError_isCut: an exception that carries megabytes does not travel on.
func TestLoadError_isCut(t *testing.T) {
	long := strings.Repeat("é", 1<<20)
	payload, err := json.Marshal(loaded{Error: &LoadError{Class: long, Message: long, File: "/srv/geo.py", Line: 3, Traceback: long}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = parseLoaded(payload)
	e, ok := errors.AsType[*LoadError](err)
	if !ok {
		t.Fatalf("want a LoadError, got %T", err)
	}
	if len(e.Class) > errorClassBytesMax+3 || len(e.Message) > errorTextBytesMax+3 || len(e.Traceback) > errorTraceBytesMax+3 {
		t.Errorf("want it cut, got %d, %d and %d bytes", len(e.Class), len(e.Message), len(e.Traceback))
	}
	if !utf8.ValidString(e.Error()) || !strings.HasPrefix(e.Error(), "/srv/geo.py:3: éé") {
		t.Errorf("got %q", brief(e.Error()))
	}
}

// What LOADED says of kinds and bounds arrives in the function, or is refused.
func TestParseLoaded_kindsAndBounds(t *testing.T) {
	const whole = `{"functions":[{"number":0,"module":"m","name":"f","mode":"row","kind":"table","args":[],"result":{"name":"f","type":"int64"},` +
		`"volatility":"volatile","timeout_ns":5,"concurrency":4,"concurrency_wait_ns":7,"max_batch_rows":9}]}`
	set, err := parseLoaded([]byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	if f := set.functions[0]; !f.Table || f.Concurrency != 4 || f.ConcurrencyWaitNS != 7 || f.BatchRowsMax != 9 {
		t.Errorf("got %+v", f)
	}
	scalar, err := parseLoaded([]byte(strings.Replace(whole, `"table"`, `"scalar"`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	if err := scalar.differs(set); err == nil {
		t.Error("a function that has become scalar does not differ")
	}
	for _, c := range []struct{ old, new, text string }{
		{`"table"`, `"aggregate"`, `wanted kind scalar or table, got "aggregate"`},
		{`"row"`, `"list"`, `wanted mode row of a table function, got "list"`},
		{`:5`, `:-5`, "wanted a timeout of 0 or more, got -5"},
		{`:4`, `:-4`, "wanted a concurrency of 0 or more, got -4"},
		{`:7`, `:-7`, "wanted a concurrency_wait_ns of 0 or more, got -7"},
		{`:9`, `:-9`, "wanted a max_batch_rows of 0 or more, got -9"},
	} {
		_, err := parseLoaded([]byte(strings.Replace(whole, c.old, c.new, 1)))
		if want := `broke the protocol: LOADED: function 0 "f": ` + c.text; err == nil || err.Error() != want {
			t.Errorf("want %s, got %v", want, err)
		}
	}
}

// FuzzJSONFrames: no HELLO or LOADED makes its reader panic, and what is
// accepted can be used: functions are numbered in order, have names and known
// types, and are equal to themselves when a later worker loads them.
func FuzzJSONFrames(f *testing.F) {
	f.Add([]byte(`{"protocol":1,"runtime":"python","version":"3.11.2","pid":41,"slots":1,"forms":["arrow","flat","marshal"],"site":["/venv/site-packages"]}`))
	f.Add([]byte(`{"functions":[{"number":0,"module":"geo","name":"gcd","mode":"row","kind":"scalar","args":[{"name":"a","type":"int64","nullable":false}],` +
		`"result":{"name":"gcd","type":"utf8","nullable":true},"volatility":"stable","elementwise":true,"idempotent":false,"timeout_ns":5,"on_error":"null"}]}`))
	f.Add([]byte(`{"error":{"class":"SyntaxError","message":"invalid syntax","file":"/srv/geo.py","line":3,"traceback":"…"}}`))
	f.Add([]byte(`{"functions":[{"number":0,"module":"geo","name":"t","mode":"row","kind":"table","args":[],"result":{"name":"t","type":"int64"},` +
		`"volatility":"volatile","concurrency":4,"concurrency_wait_ns":5,"max_batch_rows":6}]}`))
	f.Add([]byte(`{"functions":null,"error":null}`))
	f.Add([]byte(`{"level":"warning","message":"m","function":"f"}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		if h, err := parseHello(payload); err == nil {
			if h.Protocol != protocolVersion || h.Slots < 1 || len(h.Forms) == 0 {
				t.Fatalf("accepted %+v", h)
			}
		} else if _, ok := errors.AsType[*protocolError](err); !ok {
			t.Fatalf("HELLO: want a broken protocol, got %T", err)
		}
		set, err := parseLoaded(payload)
		if err != nil {
			if e, ok := errors.AsType[*LoadError](err); ok && len(e.Message) > errorTextBytesMax+3 {
				t.Fatalf("message of %d bytes", len(e.Message))
			} else if _, broke := errors.AsType[*protocolError](err); !ok && !broke {
				t.Fatalf("LOADED: want a broken protocol or a load error, got %T", err)
			}
			return
		}
		for i, fn := range set.functions {
			if int(fn.Number) != i || fn.Name == "" || fn.Module == "" || !served(fn.Mode) || set.timeouts[i].length < 0 || fn.Concurrency < 0 || fn.ConcurrencyWaitNS < 0 || fn.BatchRowsMax < 0 {
				t.Fatalf("accepted function %d: %+v", i, fn)
			}
			if strings.Contains(fn.Signature(), "invalid") && !strings.Contains(string(payload), "invalid") {
				t.Fatalf("accepted a type that is none: %s", fn.Signature())
			}
		}
		if err := set.differs(set); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzLink: no bytes of a worker make the reader of frames panic, hand out a
// frame over its limit, or keep more memory than has arrived.
func FuzzLink(f *testing.F) {
	f.Add(goFrameBytes(7, 0, 5, []byte("result")), uint8(3))
	f.Add(append(goFrameBytes(999, 1<<15, 0, []byte("future")), goFrameBytes(12, 0, 1, make([]byte, 8))...), uint8(1))
	f.Add([]byte("HTTP/1.1 200 OK\r\n\r\n"), uint8(7))
	f.Fuzz(func(t *testing.T, stream []byte, step uint8) {
		if len(stream) > 64<<10 {
			return
		}
		l, far := socketPair(t)
		go func() {
			for at, n := 0, int(step)*16+1; at < len(stream); at += n {
				_, _ = far.Write(stream[at:min(at+n, len(stream))])
			}
			_ = far.Close()
		}()
		for read := 0; ; {
			f, err := l.read()
			if err != nil {
				break
			}
			if read += headerBytes + len(f.payload); read > len(stream) || !f.kind.known() || len(f.payload) > int(f.kind.bytesMax()) {
				t.Fatalf("got %v of %d bytes after %d of %d", f.kind, len(f.payload), read, len(stream))
			}
		}
		if len(l.in) > max(linkBytes, 2*len(stream)+2*headerBytes) {
			t.Fatalf("buffer of %d bytes for %d that arrived", len(l.in), len(stream))
		}
	})
}
