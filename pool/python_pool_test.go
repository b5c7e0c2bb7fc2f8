package pool

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/internal/clock"
)

// newPython is a pool on the embedded worker that serves a module.
func newPython(t *testing.T, source string, change ...func(*Config)) *harness {
	t.Helper()
	l := pythonLauncher(t)
	c := Config{
		Name: "test", Launcher: l, Files: []Module{{"m", pythonModule(t, "from typing import Optional\nfrom udfgate import udf\n"+source)}},
		WorkersMax: 1, Timeout: soon, QueueTimeout: soon, Observer: &recorder{}, PrivateArenas: testPrivate(),
	}
	for _, f := range change {
		f(&c)
	}
	p, err := New(t.Context(), c)
	if err != nil {
		t.Fatalf("%v\n%s", err, brief(udfgate.AsError(err).Detail))
	}
	t.Cleanup(func() {
		p.Close(context.Background())
		if s := p.Slots().Stats(); s.Slots != 0 {
			t.Errorf("slots: want none left, got %d of %d bytes", s.Slots, s.UsedBytes)
		}
	})
	return &harness{p, t, l, c.Observer.(*recorder)}
}

const oddText = `
ODD = {1: "\ud800", 2: 5, 3: None, 4: b"bytes", 5: ["list"], 6: 2.5, 7: True, 8: ("a", "b"), 9: "\udcff" * 50}

@udf
def text(n: int) -> str:
    if n == 99:
        raise ValueError("no")
    return ODD.get(n, f"text {n}")

@udf
def maybe(n: int) -> Optional[str]:
    return ODD.get(n, f"text {n}")

@udf
def raw(n: int) -> bytes:
    return ODD.get(n, b"raw")
`

// What does not fit a text result is found in the copy of the answer, and the
// worker is asked to say which value it was. It is as good as before after that.
func TestPython_recode(t *testing.T) {
	h := newPython(t, oddText)
	for _, c := range []struct {
		function string
		value    int64
		message  string
	}{
		{"text", 1, `ValueError: result: wanted utf8, got str '\ud800' with a lone surrogate`},
		{"text", 2, "TypeError: result: wanted utf8, got int 5"},
		{"text", 3, "TypeError: result: wanted utf8, got None"},
		{"text", 4, "TypeError: result: wanted utf8, got bytes b'bytes'"},
		{"text", 5, "TypeError: result: wanted utf8, got list ['list']"},
		{"text", 6, "TypeError: result: wanted utf8, got float 2.5"},
		{"text", 7, "TypeError: result: wanted utf8, got bool True"},
		{"text", 8, "TypeError: result: wanted utf8, got tuple ('a', 'b')"},
		{"maybe", 1, `ValueError: result: wanted utf8, got str '\ud800' with a lone surrogate`},
		{"maybe", 2, "TypeError: result: wanted utf8, got int 5"},
		{"raw", 2, "TypeError: result: wanted binary, got int 5"},
		{"raw", 3, "TypeError: result: wanted binary, got None"},
		{"raw", 1, `TypeError: result: wanted binary, got str '\ud800'`},
	} {
		for _, at := range [][2]int{{1, 0}, {2, 1}, {300, 7}, {9000, 4096}, {9000, 8999}} { // rows, row
			column := make([]int64, at[0])
			column[at[1]] = c.value
			_, call, err := h.call(c.function, column)
			e := wantError(t, err, udfgate.UserError, c.message)
			if e.Row != int64(at[1]) || e.Function != c.function {
				t.Errorf("%s of %d: want row %d, got %+v", c.function, c.value, at[1], e)
			}
			if p := call.Timeline.Partition(); p.Wall() != call.Timeline.To-call.Timeline.From || call.Attempts != 1 {
				t.Errorf("%s of %d: phases do not add up to the wall, or %d attempts", c.function, c.value, call.Attempts)
			}
		}
	}
	if got, _ := h.must("maybe", []int64{3, 0}); got[0] != nil || got[1] != "text 0" {
		t.Errorf("want null and text 0, got %v", got)
	}
	if got := h.launcher.launched.Load(); got != 1 {
		t.Errorf("want the first worker to survive, got %d launched", got)
	}
}

// Of several rows that fail, the smallest is named, whichever way it fails.
func TestPython_smallestRowWins(t *testing.T) {
	h := newPython(t, oddText)
	for _, c := range []struct {
		rows, misfit, raise int
	}{{20, 3, 10}, {20, 10, 3}, {9000, 10, 8000}, {9000, 8000, 10}, {9000, 4095, 4096}} {
		column := make([]int64, c.rows)
		column[c.misfit], column[c.raise] = 1, 99
		_, _, err := h.call("text", column)
		if e := udfgate.AsError(err); e.Row != int64(min(c.misfit, c.raise)) || e.Reason != udfgate.UserError {
			t.Errorf("misfit in row %d, raise in row %d: got %v", c.misfit, c.raise, err)
		}
	}
}

const bigText = `
@udf
def big(n: int) -> str:
    return "x" * n
`

func TestPython_needAndRefuse(t *testing.T) {
	const most = 9 << 20
	h := newPython(t, bigText, func(c *Config) { c.AnswerBytesMax = most })
	column := func(each int64, rows int) []int64 { return slices.Repeat([]int64{each}, rows) }
	for _, c := range []struct {
		name   string
		column []int64
		fits   bool
	}{
		{"the first arena", column(1000, 3000), true},
		{"one large value", []int64{3, outBytes + 1000, 0}, true},
		{"many blocks", column(1000, 8500), true},
		{"just under the limit, asking for more first", column(most/8700, 8600), true},
		{"over the limit in one value", []int64{most + 1}, false},
		{"over the limit in many", column(2000, 9000), false},
		{"after a refusal", []int64{1, 2}, true},
	} {
		got, _, err := h.call("big", c.column)
		if !c.fits {
			e := udfgate.AsError(err)
			if e.Reason != udfgate.Invalid || e.Shape != udfgate.ShapeTooLarge || !strings.Contains(e.Message, "is over --max-message-bytes 9437184") {
				t.Errorf("%s: got %v", c.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for i, n := range c.column {
			if s, ok := got[i].(string); !ok || s != strings.Repeat("x", int(n)) {
				t.Errorf("%s: row %d: wrong text, wanted %d bytes", c.name, i, n)
				break
			}
		}
	}
	if got := h.launcher.launched.Load(); got != 1 {
		t.Errorf("want the first worker to survive, got %d launched", got)
	}
}

// Text that leaves no room for its rendered form crosses as it lies.
func TestPython_noRoomToRender(t *testing.T) {
	h := newPython(t, "@udf\ndef same(a: Optional[str]) -> Optional[str]:\n    return a\n",
		func(c *Config) { c.SlotLimitBytes = 1 << 20 })
	for _, size := range []int{700_000, 1_000_000, 10} {
		in := []any{strings.Repeat("x", size-1) + "é", nil, "", "z"}
		got, _ := h.must("same", in)
		if len(got) != len(in) || got[0] != in[0] || got[1] != nil || got[2] != "" || got[3] != "z" {
			t.Errorf("%d bytes: got %s", size, brief(got))
		}
	}
}

func TestPython_noRowsNoColumns(t *testing.T) {
	h := newPython(t, "@udf\ndef seven() -> int:\n    return 7\n\n@udf\ndef same(a: Optional[str]) -> Optional[str]:\n    return a\n")
	for _, n := range []int{1, 2, 300, 9000} {
		got, _ := h.must("seven", rows(n))
		if len(got) != n || slices.ContainsFunc(got, func(v any) bool { return v != int64(7) }) {
			t.Errorf("%d rows: got %d values", n, len(got))
		}
	}
	for _, name := range []string{"seven", "same"} {
		if got, call, err := h.call(name, []string{}); err != nil || len(got) != 0 || call.Attempts != 0 {
			t.Errorf("%s of no rows: got %v, %v, %d attempts", name, got, err, call.Attempts)
		}
	}
	if got, _ := h.must("same", []any{"", nil}); got[0] != "" || got[1] != nil {
		t.Errorf("want the empty text and null, got %q", got)
	}
}

func TestPython_timeoutBringsTheStack(t *testing.T) {
	h := newPython(t, "import time\n\ndef napping():\n    time.sleep(3600)\n\n@udf\ndef nap(a: int) -> int:\n    napping()\n\n"+
		"@udf\ndef spin(a: int) -> int:\n    while True:\n        pass\n\n@udf\ndef same(a: int) -> int:\n    return a\n",
		func(c *Config) { c.Timeout = 100 * time.Millisecond })
	for _, name := range []string{"nap", "spin"} {
		h.stackInTime(100*time.Millisecond, "in "+name, "timeout after 100ms (--timeout)", func() (*udfgate.Call, error) {
			w := h.only()
			_, call, err := h.call(name, []int64{1})
			if !w.awaitDead(soon) {
				t.Errorf("%s: the core is not free", name)
			}
			if e := udfgate.AsError(err); strings.Contains(e.Detail, "in "+name) && !strings.Contains(e.Detail, "conformance.py") {
				t.Errorf("%s: the stack lacks the file: %q", name, brief(e.Detail))
			}
			if p := call.Timeline.Partition(); p[udfgate.StateBody] < int64(100*time.Millisecond) {
				t.Errorf("%s: want 100ms of body, got %v", name, p)
			}
			return call, err
		})
	}
}

// Nobody sees that an idle worker was killed: what it has not read goes to the
// next worker, whose start is booked.
func TestPython_killedBetweenCalls(t *testing.T) {
	const slow = 200 * time.Millisecond
	h := newPython(t, "import time\ntime.sleep(0.2)\nballast = bytearray(30 << 20)\n\n@udf\ndef add(a: int, b: int) -> int:\n    return a + b\n")
	h.must("add", []int64{1}, []int64{2})
	for i := range 3 {
		w, killed := h.only(), clock.Now()
		if err := w.process.Kill(); err != nil {
			t.Fatal(err)
		}
		if i == 2 {
			<-w.dead
		}
		got, call := h.must("add", []int64{1}, []int64{2})
		if got[0] != int64(3) || call.Attempts != 1 || call.Crossings != 1 {
			t.Errorf("want 3 at one attempt, got %v, %d attempts, %d crossings", got, call.Attempts, call.Crossings)
		}
		p := call.Timeline.Partition()
		if _, start := waitOf(call); !call.Cold || start.To < killed+int64(slow) || p[udfgate.StateBody] != call.Work.BodyNS {
			t.Errorf("want %v from %d on booked as start, got %v, cold %v", slow, killed, call.Timeline, call.Cold)
		}
		if p.Wall() != call.Timeline.To-call.Timeline.From {
			t.Error("phases do not add up to the wall")
		}
	}
}

func TestPython_manyQuickCalls(t *testing.T) {
	h := newPython(t, "@udf\ndef show(a: int, s: Optional[str]) -> Optional[str]:\n    return None if s is None else f'{a} {s}'\n",
		func(c *Config) { c.WorkersMax = 2 })
	const callers, calls = 16, 63 // a thousand and a few
	var done sync.WaitGroup
	for g := range callers {
		done.Go(func() {
			for i := range calls {
				n := 1 + (g*calls+i)%40
				ints, texts, want := make([]int64, n), make([]any, n), make([]any, n)
				for k := range n {
					ints[k], texts[k] = int64(g*1000+i), fmt.Sprintf("é%d", k)
					want[k] = fmt.Sprintf("%d é%d", ints[k], k)
					if k%5 == 4 {
						texts[k], want[k] = nil, nil
					}
				}
				got, _, err := h.call("show", ints, texts)
				if err != nil || !slices.Equal(got, want) {
					t.Errorf("caller %d, call %d: want %s, got %s, %v", g, i, brief(want), brief(got), err)
					return
				}
			}
		})
	}
	done.Wait()
	if s := h.Stats(); s.Busy != 0 || s.QueueLen != 0 || h.launcher.launched.Load() > 2 {
		t.Errorf("want nothing left, and 2 workers at most, got %+v, %d launched", s, h.launcher.launched.Load())
	}
	eventually(t, "every slot is free", func() bool { return h.Slots().Stats().Slots == 0 })
}

// A body that is edited under a running pool is run by the next worker: the
// log says so, once.
func TestPython_editedFile(t *testing.T) {
	var log lockedText
	h := newPython(t, "@udf\ndef f(n: int) -> int:\n    import os\n    if n < 0: os._exit(3)\n    return n\n", func(c *Config) {
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	file := h.config.Files[0].File
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, []byte(strings.Replace(string(text), "return n", "return n + 1", 1)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, _, err := h.call("f", []int64{-1})
		wantError(t, err, udfgate.WorkerLost, "worker lost: exit status 3")
		h.must("f", []int64{1}) // by the worker that has come since
	}
	want := "changed since the gateway started; this worker runs the new text under version " + h.Functions()[0].Version + "; restart the gateway"
	if got := strings.Count(log.String(), want); got != 1 {
		t.Errorf("want one warning, got %d in %s", got, log.String())
	}
}

// A warm-up that does not end is named, not the loading of its file.
func TestPython_hangingWarmup(t *testing.T) {
	source := "from udfgate import udf\n@udf(warmup=[(1,)])\ndef f(n: int) -> int:\n    import time\n    time.sleep(3600)\n"
	patiently(t, time.Second, func(timeout time.Duration) bool { // it must have come to the warm-up by then
		p, err := New(t.Context(), Config{
			Name: "test", Launcher: pythonLauncher(t), Files: []Module{{"m", pythonModule(t, source)}},
			WorkersMax: 1, Timeout: soon, QueueTimeout: soon, StartTimeout: timeout, Observer: &recorder{}, PrivateArenas: testPrivate(),
		})
		if err == nil {
			p.Close(t.Context())
			t.Fatal("want an error, got a pool")
		}
		got := err.Error()
		if strings.HasSuffix(got, "still waiting for the loading of m.py") {
			return true
		}
		if !strings.HasSuffix(got, "(--start-timeout): still waiting for the warm-up of m.f") {
			t.Errorf("got %s", got)
		}
		return false
	})
}

// lockedText is a log that several goroutines write.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
