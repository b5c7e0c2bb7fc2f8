package pool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/internal/clock"
)

func TestNew_failures(t *testing.T) {
	for _, c := range []struct {
		name, directives string
		hello            string
		message, detail  string // patterns
	}{
		{name: "load error", directives: "fail=now", message: `^.*/m\.txt:3: SyntaxError: invalid syntax$`, detail: "^Traceback: invalid syntax$"},
		{name: "exit", directives: "exit-at-import", message: `^worker ended before the loading of m.txt: exit status 4$`, detail: "^no licence found$"},
		{name: "hang", directives: "hang-at-import", message: `^worker not ready after %v \(--start-timeout\): still waiting for the loading of m.txt$`, detail: "hangAtImport"},
		{name: "protocol", hello: `{"protocol":2}`, message: `^worker broke the protocol: HELLO: wanted protocol 1, got 2$`},
		{name: "slots", hello: `{"protocol":1,"slots":0}`, message: `^worker broke the protocol: HELLO: wanted 1 slot or more, got 0$`},
		{name: "forms", hello: `{"protocol":1,"slots":1,"forms":["flat"]}`, message: `^worker broke the protocol: HELLO: forms \["flat"\] lack the mandatory arrow$`},
		{name: "json", hello: `{`, message: `^worker broke the protocol: HELLO: unexpected end of JSON input$`},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := goLauncher()
			l.env = append(l.env, "TEST_HELLO="+c.hello)
			fails := func(timeout time.Duration) (*udfgate.Error, error) {
				p, err := New(t.Context(), goConfig(t, l, c.directives, func(config *Config) { config.StartTimeout = timeout }))
				if err == nil {
					p.Close(t.Context())
					t.Fatal("want an error, got a pool")
				}
				e, ok := errors.AsType[*udfgate.Error](err)
				if !ok || e.Reason != udfgate.StartFailed {
					t.Fatalf("want StartFailed, got %T %v", err, err)
				}
				return e, err
			}
			var e *udfgate.Error
			var err error
			if c.name != "hang" {
				e, err = fails(0)
			} else {
				patiently(t, 300*time.Millisecond, func(timeout time.Duration) bool { // it must have come to the loading by then, and be heard
					e, err = fails(timeout)
					c.message = fmt.Sprintf(c.message, timeout)
					return !strings.HasSuffix(e.Message, "for the loading of m.txt") || !strings.Contains(e.Detail, c.detail)
				})
			}
			if !regexp.MustCompile(c.message).MatchString(e.Message) {
				t.Errorf("message: want %s, got %q", c.message, e.Message)
			}
			if !regexp.MustCompile(c.detail).MatchString(e.Detail) {
				t.Errorf("detail: want %s, got %q", c.detail, brief(e.Detail))
			}
			if _, ok := errors.AsType[*LoadError](err); ok != (c.name == "load error") {
				t.Errorf("wraps a LoadError: %v", ok)
			}
		})
	}
}

func TestNew_launchFails(t *testing.T) {
	l := goLauncher()
	why := `start worker: interpreter "python9" not found in PATH`
	l.refuse.Store(&why)
	_, err := New(t.Context(), goConfig(t, l, ""))
	wantError(t, err, udfgate.StartFailed, why)
}

func TestNew_missingModule(t *testing.T) {
	c := goConfig(t, goLauncher(), "")
	c.Files[0].File = filepath.Join(t.TempDir(), "missing.py")
	_, err := New(t.Context(), c)
	wantError(t, err, udfgate.StartFailed, "module m: open "+c.Files[0].File+": no such file or directory")
}

func TestNew_givenUp(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := New(ctx, goConfig(t, goLauncher(), "hang-at-import"))
	wantError(t, err, udfgate.StartFailed, "start given up: context deadline exceeded")
}

func TestConfig_validate(t *testing.T) {
	_, err := New(t.Context(), Config{WorkersMax: -1, QueueLenMax: -5})
	want := "pool \"default\": launcher: wanted one, got none\nworkers: wanted more than 0, got -1\nmax queue: wanted more than 0, got -5"
	if err == nil || err.Error() != want {
		t.Errorf("want %q, got %v", want, err)
	}
}

// A later worker must have what the first one had.
func TestStart_differs(t *testing.T) {
	h := newHarness(t, "rename=add", func(c *Config) { c.QueueTimeout = 250 * time.Millisecond })
	free := h.occupy()
	defer free()
	_, _, err := h.call("same", []int64{1})
	wantError(t, err, udfgate.QueueFull, "no worker was free for 250ms (--queue-timeout)")
	eventually(t, "a start fails", func() bool { return h.lastFailureText() != "" })
	want := "modules changed since the first worker: function 1: wanted m.add add(a int64?, b int64?) -> int64?, got m.renamed renamed(a int64?, b int64?) -> int64?"
	if got := h.lastFailureText(); got != want {
		t.Errorf("last failure: want %q, got %q", want, got)
	}
}

func (p *Pool) lastFailureText() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lastFailure == nil {
		return ""
	}
	return p.lastFailure.Message
}

// While no worker lives and none starts, calls get the reason after their
// queue timeout, and starts are tried with growing pauses.
func TestStart_failsLater(t *testing.T) {
	patiently(t, 350*time.Millisecond, func(timeout time.Duration) (slow bool) {
		h := newHarness(t, "fail=later", func(c *Config) { c.WorkersMax, c.QueueTimeout = 1, timeout })
		_, _, err := h.call("exit", []int64{1})
		wantError(t, err, udfgate.WorkerLost, "worker lost: exit status 1")
		_, call, err := h.call("same", []int64{1})
		if h.launcher.launched.Load() < 3 || h.lastFailureText() == "" {
			return true // the starts take longer
		}
		e, ok := errors.AsType[*udfgate.Error](err)
		if !ok || e.Reason != udfgate.StartFailed || !e.Retryable ||
			!strings.HasPrefix(e.Message, fmt.Sprintf("no worker could be started for %v (--queue-timeout): ", timeout)) ||
			!strings.HasSuffix(e.Message, "m.txt:3: SyntaxError: invalid syntax") {
			t.Fatalf("got %+v", err)
		}
		wait, start := waitOf(call)
		if !call.Cold || start.From != wait.From || start.To < wait.From+int64(timeout) {
			t.Errorf("want all of the wait %+v booked as start, got %+v, cold %v", wait, start, call.Cold)
		}
		// The first at once, the next after a pause, and each pause is twice the
		// last: not one start per call or instant.
		at, pause := h.launcher.instants(), backoffMin
		for i := 2; i < len(at); i, pause = i+1, 2*pause {
			if got := at[i].Sub(at[i-1]); got < pause {
				t.Errorf("worker %d: want a pause of %v, got one of %v", i, pause, got)
			}
		}
		return false
	})
}

// Once starts succeed again, every call that waits gets a worker of its own,
// though after a failure only one was tried at a time.
func TestStart_catchesUpAfterFailures(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 4 })
	why := "out of processes"
	h.launcher.refuse.Store(&why)
	free := h.occupy()
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	for range 3 {
		waiting.Go(func() { _, _, _ = h.callWith(ctx, h.newCall("sleep"), []int64{3_600_000}) })
	}
	eventually(t, "starts fail", func() bool { return h.Stats().QueueLen == 3 && h.lastFailureText() == why })
	h.launcher.refuse.Store(nil)
	eventually(t, "all run", func() bool { return h.Stats().Busy == 4 })
	cancel()
	waiting.Wait()
	free()
}

// Workers that die one after the other with nothing to do are not started as
// fast as the machine can; those that calls kill are no reason to wait.
func TestStart_pausesAfterDuds(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 1 })
	for range 6 {
		_, _, err := h.call("exit", []int64{1})
		wantError(t, err, udfgate.WorkerLost, "worker lost: exit status 1")
	}
	launched := int64(7)
	idle := func() bool { return h.launcher.launched.Load() == launched && h.Stats().Idle == 1 }
	eventually(t, "the last is replaced", idle)
	if got := h.dudCount(); got != 0 {
		t.Errorf("want no dud among those that calls ended, got %d", got)
	}
	var took [3]time.Duration
	for i := range took {
		from := time.Now()
		if err := h.only().process.Kill(); err != nil {
			t.Fatal(err)
		}
		launched++
		eventually(t, "another worker is idle", idle)
		took[i] = time.Since(from)
	}
	if took[1] < backoffMin || took[2] < 2*backoffMin {
		t.Errorf("want pauses of %v and %v after the first, got %v", backoffMin, 2*backoffMin, took)
	}
	h.must("same", []int64{1})
	if got := h.dudCount(); got != 0 {
		t.Errorf("want duds forgotten with the first answer, got %d", got)
	}
}

func (p *Pool) dudCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.duds
}

// A worker that dies in the moment it is ready is no success: what is known of
// failed starts stays.
func TestStart_diesWhenReady(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 1 })
	w, err := h.start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-w.dead
	h.mu.Lock()
	h.starts, h.failures, h.lastFailure = h.starts+1, 3, udfgate.Errorf(udfgate.StartFailed, "no licence")
	h.mu.Unlock()
	h.join(w)
	if h.failures != 3 || h.lastFailureText() != "no licence" || h.dudCount() != 1 {
		t.Errorf("want 3 failures and a dud, got %d, %q, %d duds", h.failures, h.lastFailureText(), h.dudCount())
	}
}

// A worker that is lost is replaced; what waits for it waits for its start.
func TestStart_isBookedAsStart(t *testing.T) {
	const slow = 200 * time.Millisecond
	h := newHarness(t, "import="+slow.String(), func(c *Config) { c.WorkersMax = 1 })
	lost := clock.Now() // at the earliest
	_, _, err := h.call("exit", []int64{1})
	wantError(t, err, udfgate.WorkerLost, "worker lost: exit status 1")
	_, call := h.must("same", []int64{1})
	wait, start := waitOf(call)
	if !call.Cold || start.From != wait.From || start.To < lost+int64(slow) {
		t.Errorf("want the wait %+v for what takes %v from %d on booked as start, got %+v, cold %v", wait, slow, lost, start, call.Cold)
	}
	if p := call.Timeline.Partition(); p.Wall() != call.Timeline.To-call.Timeline.From {
		t.Errorf("phases do not add up to the wall")
	}
}

// waitOf is what a call has waited for a worker in all, and the part of it in
// which none was alive. How long the rest is depends on the machine, as does the
// instant at which the wait begins.
func waitOf(call *udfgate.Call) (wait, start udfgate.Span) {
	for _, s := range call.Timeline.Spans {
		switch s.State {
		case udfgate.StateQueue:
			wait = s
		case udfgate.StateStart:
			start = s
		}
	}
	return wait, start
}

func TestEnvironment_isExact(t *testing.T) {
	t.Setenv("SECRET_OF_THE_GATEWAY", "1")
	t.Setenv("TZ", "Europe/Berlin")
	t.Setenv("LANG", "")
	f := folder{"/f"}
	got := environment(f, []string{"REGION=eu", "OMP_NUM_THREADS=4"})
	want := []string{
		"HOME=/f/home", "TMPDIR=/f/tmp", "PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8",
		"MALLOC_MMAP_THRESHOLD_=67108864", "MALLOC_TRIM_THRESHOLD_=268435456",
		"OPENBLAS_NUM_THREADS=1", "MKL_NUM_THREADS=1", "TZ=Europe/Berlin", "REGION=eu", "OMP_NUM_THREADS=4",
	}
	if !slices.Equal(got, want) {
		t.Errorf("want %q, got %q", want, got)
	}
}

func TestVersion(t *testing.T) {
	dir := t.TempDir()
	site := filepath.Join(dir, "site")
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	version := func(h hello, texts ...string) string {
		var files []Module
		for _, text := range texts {
			files = append(files, Module{"m", write("m"+itoa(uint64(len(files))), text)})
		}
		s, err := hashFiles(files)
		if err != nil {
			t.Fatal(err)
		}
		return s.version(&h)
	}
	if err := os.MkdirAll(filepath.Join(site, "b-1.dist-info"), 0o700); err != nil {
		t.Fatal(err)
	}
	base := hello{Runtime: "python", Version: "3.11.2", Site: []string{site, filepath.Join(dir, "none")}}
	first := version(base, "ab", "c")
	if !regexp.MustCompile("^[0-9a-f]{12}$").MatchString(first) {
		t.Errorf("want 12 hex digits, got %q", first)
	}
	seen := map[string]string{first: "first"}
	differs := func(what, v string) {
		t.Helper()
		if other, ok := seen[v]; ok {
			t.Errorf("%s: same version as %s", what, other)
		}
		seen[v] = what
	}
	if again := version(base, "ab", "c"); again != first {
		t.Errorf("same sources: %s and %s", first, again)
	}
	differs("a moved letter", version(base, "a", "bc"))
	differs("another order", version(base, "c", "ab"))
	newer := base
	newer.Version = "3.12.0"
	differs("another interpreter", version(newer, "ab", "c"))
	if err := os.MkdirAll(filepath.Join(site, "a-2.dist-info"), 0o700); err != nil {
		t.Fatal(err)
	}
	differs("another package", version(base, "ab", "c"))
}

func TestFunctions(t *testing.T) {
	h := newHarness(t, "")
	f := h.function("brief")
	if f.Pool != "test" || f.Module != "m" || f.Generation != 1 || len(f.Version) != versionDigits || f.Signature() != "brief(a int64?) -> int64?" {
		t.Errorf("got %+v", f)
	}
}

// A clock that is not the gateway's costs the split of the crossing, no more.
func TestStart_otherClock(t *testing.T) {
	l := goLauncher()
	l.env = append(l.env, "TEST_CLOCK=other")
	h := newHarness(t, "", func(c *Config) { c.Launcher = l })
	_, call := h.must("sleep", []int64{20})
	p := call.Timeline.Partition()
	if p[udfgate.StateBody] < int64(20*time.Millisecond) {
		t.Errorf("want 20ms of body, got %v", p)
	}
	if d := p[udfgate.StateCrossingOut] - p[udfgate.StateCrossingBack]; d < -1 || d > 1 {
		t.Errorf("want the crossing halved, got %v", p)
	}
}
