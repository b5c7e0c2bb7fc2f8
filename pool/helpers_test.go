package pool

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/codec"
	"github.com/udfgate/udfgate/internal/clock"
)

// soon bounds every wait of these tests; none is expected to last, and on a busy
// machine some do.
const soon = 30 * time.Second

// leftovers is where the pools of the tests make their folders.
var leftovers string

func TestMain(m *testing.M) {
	if os.Getenv(workerVar) != "" {
		os.Exit(runGoWorker())
	}
	flag.Parse()
	var err error
	if leftovers, err = os.MkdirTemp("", "pool-test-"); err != nil {
		panic(err)
	}
	_ = os.Setenv("TMPDIR", leftovers)
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := leftBehind(); err != nil {
			fmt.Fprintln(os.Stderr, "FAIL:", err)
			code = max(code, 1)
		}
		_ = os.RemoveAll(leftovers)
		os.Exit(code)
	}))
}

// leftBehind looks for child processes and folders that no test may leave.
func leftBehind() error {
	var errs []error
	if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
		errs = append(errs, fmt.Errorf("a child process is left: pid %d", pid), err)
	}
	entries, err := os.ReadDir(leftovers)
	for _, e := range entries {
		errs = append(errs, fmt.Errorf("folder %s is left", e.Name()))
	}
	return errors.Join(append(errs, err)...)
}

// testLauncher starts workers by os/exec: pool may not import sandbox, not even
// in its tests. launched counts; override replaces the command line.
type testLauncher struct {
	launched atomic.Int64
	override []string
	env      []string
	refuse   atomic.Pointer[string]

	mu    sync.Mutex
	procs []*testProcess
	at    []time.Time // of the launches
}

func (l *testLauncher) Launch(s Spec) (Process, error) {
	if why := l.refuse.Load(); why != nil {
		return nil, errors.New(*why)
	}
	argv := s.Argv
	if l.override != nil {
		argv = l.override
	}
	at := time.Now()
	fds, err := closingPair()
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	defer ours.Close()
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer outW.Close()
	defer errW.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = append(slices.Clone(s.Env), l.env...), s.Dir
	cmd.Stdout, cmd.Stderr = outW, errW
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, conn.Close(), outR.Close(), errR.Close())
	}
	p := &testProcess{cmd: cmd, conn: conn.(*net.UnixConn), stdout: outR, stderr: errR}
	l.mu.Lock()
	l.procs, l.at = append(l.procs, p), append(l.at, at)
	l.launched.Store(int64(len(l.procs)))
	l.mu.Unlock()
	return p, nil
}

// process is the nth process launched, from 0.
func (l *testLauncher) process(n int) *testProcess {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.procs[n]
}

// instants are those of the launches.
func (l *testLauncher) instants() []time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.at)
}

// testProcessUsage stands in for the resident set of a process.
const testProcessUsage = 1 << 20

type testProcess struct {
	cmd            *exec.Cmd
	conn           *net.UnixConn
	stdout, stderr *os.File
	once           sync.Once
	exit           Exit
}

func (p *testProcess) Pid() int            { return p.cmd.Process.Pid }
func (p *testProcess) Conn() *net.UnixConn { return p.conn }
func (p *testProcess) Stdout() io.Reader   { return closing{p.stdout} }
func (p *testProcess) Stderr() io.Reader   { return closing{p.stderr} }
func (p *testProcess) Usage() int64        { return testProcessUsage }
func (p *testProcess) Interrupt() error    { return p.cmd.Process.Signal(syscall.SIGUSR1) }
func (p *testProcess) Kill() error {
	err := p.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	return err
}

func (p *testProcess) Wait() Exit {
	p.once.Do(func() {
		_ = p.cmd.Wait()
		status := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
		p.exit = Exit{Code: p.cmd.ProcessState.ExitCode()}
		if status.Signaled() {
			p.exit.Signal = unix.SignalName(status.Signal())
		}
		end := time.Now().Add(100 * time.Millisecond)
		_ = p.stdout.SetReadDeadline(end)
		_ = p.stderr.SetReadDeadline(end)
	})
	return p.exit
}

// closing is a reader that frees its file with the first error.
type closing struct{ f *os.File }

func (c closing) Read(b []byte) (int, error) {
	n, err := c.f.Read(b)
	if err != nil {
		_ = c.f.Close()
	}
	return n, err
}

// goLauncher starts this test binary as a worker.
func goLauncher() *testLauncher {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	// The race detector otherwise waits a second before the worker exits.
	return &testLauncher{override: []string{self}, env: []string{workerVar + "=1", "GORACE=atexit_sleep_ms=0"}}
}

// harness is a pool on Go workers, and what it was told.
type harness struct {
	*Pool
	t        testing.TB
	launcher *testLauncher
	told     *recorder
}

// goConfig is a pool's configuration for a module file with the directives.
func goConfig(t testing.TB, l *testLauncher, directives string, change ...func(*Config)) Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "m.txt")
	if err := os.WriteFile(file, []byte(directives), 0o600); err != nil {
		t.Fatal(err)
	}
	c := Config{
		Name: "test", Launcher: l, Files: []Module{{"m", file}}, WorkersMax: 2,
		Timeout: soon, QueueTimeout: soon, Observer: &recorder{}, PrivateArenas: testPrivate(),
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

func newHarness(t testing.TB, directives string, change ...func(*Config)) *harness {
	t.Helper()
	l := goLauncher()
	c := goConfig(t, l, directives, change...)
	p, err := New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Close(context.Background())
		if s := p.Slots().Stats(); s.Slots != 0 {
			t.Errorf("slots: want none left, got %d of %d bytes", s.Slots, s.UsedBytes)
		}
	})
	return &harness{p, t, l, c.Observer.(*recorder)}
}

// recorder is an Observer that remembers.
type recorder struct {
	mu      sync.Mutex
	started int
	exits   []string
	retried []string
	waits   []time.Duration
}

func (r *recorder) note(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

func (r *recorder) WorkerStarted(string, time.Duration) { r.note(func() { r.started++ }) }
func (r *recorder) WorkerExited(_, reason string) {
	r.note(func() { r.exits = append(r.exits, reason) })
}

func (r *recorder) QueueWait(_ string, d time.Duration) {
	r.note(func() { r.waits = append(r.waits, d) })
}
func (r *recorder) Retried(f string) { r.note(func() { r.retried = append(r.retried, f) }) }

// reaped waits for the nth exit to be told, from 0, and checks its reason.
func (h *harness) reaped(n int, reason string) {
	h.t.Helper()
	var got []string
	eventually(h.t, "the exit is told", func() bool {
		h.told.note(func() { got = slices.Clone(h.told.exits) })
		return len(got) > n
	})
	if got[n] != reason {
		h.t.Errorf("worker %d: want it reaped as %q, got %q", n, reason, got)
	}
}

func (h *harness) function(name string) *udfgate.Function {
	h.t.Helper()
	for _, f := range h.Functions() {
		if f.Name == name {
			return f
		}
	}
	h.t.Fatalf("no function %q", name)
	return nil
}

var callIDs atomic.Uint64

// newCall is a call of a function that has just been received.
func (h *harness) newCall(name string) *udfgate.Call {
	c := &udfgate.Call{ID: callIDs.Add(1), Function: h.function(name)}
	c.Timeline.From = clock.Now()
	return c
}

// call runs a function over columns and checks the timeline of the call.
func (h *harness) call(name string, columns ...any) ([]any, *udfgate.Call, error) {
	h.t.Helper()
	return h.callWith(h.t.Context(), h.newCall(name), columns...)
}

func (h *harness) callWith(ctx context.Context, call *udfgate.Call, columns ...any) ([]any, *udfgate.Call, error) {
	h.t.Helper()
	in, err := batchOf(h.Slots(), columns...)
	if err != nil {
		h.t.Fatal(err)
	}
	defer in.Release()
	answer, err := h.Invoke(ctx, call, in)
	call.Timeline.To = clock.Now()
	for _, s := range call.Timeline.Spans {
		if s.From < call.Timeline.From || s.To > call.Timeline.To {
			h.t.Errorf("%s: span %+v lies outside [%d, %d)", call.Function.Name, s, call.Timeline.From, call.Timeline.To)
		}
	}
	if err != nil {
		return nil, call, err
	}
	defer answer.Release()
	return valuesOf(call.Function.Result.Type.Kind, answer), call, nil
}

// must is call for functions that are expected to answer.
func (h *harness) must(name string, columns ...any) ([]any, *udfgate.Call) {
	h.t.Helper()
	values, call, err := h.call(name, columns...)
	if err != nil {
		h.t.Fatalf("%s: %v\n%s", name, err, brief(udfgate.AsError(err).Detail))
	}
	return values, call
}

// rows is a column that only says how many rows there are.
type rows int

// batchOf puts columns into a slot: []int64, []any of int64 or nil, []string,
// []any of string or nil.
func batchOf(store *codec.Store, columns ...any) (*codec.Batch, error) {
	b := &codec.Batch{}
	var body []byte
	add := func(part []byte) codec.Range {
		for len(body)%64 != 0 {
			body = append(body, 0)
		}
		r := codec.Range{Off: int64(len(body)), Len: int64(len(part))}
		body = append(body, part...)
		return r
	}
	for _, column := range columns {
		var values []any
		text := false
		switch column := column.(type) {
		case rows:
			b.Rows = int64(column)
			continue
		case []int64:
			for _, v := range column {
				values = append(values, v)
			}
		case []string:
			text = true
			for _, v := range column {
				values = append(values, v)
			}
		case []any:
			values = column
			_, text = column[0].(string)
		}
		kind := "int64"
		c := codec.Column{Type: &udfgate.Type{Kind: udfgate.Int64}, Length: int64(len(values))}
		if text {
			kind, c.Type.Kind, c.ASCII = "utf8", udfgate.Utf8, true
		}
		for _, v := range values {
			if v == nil {
				c.Nulls++
			}
			if s, ok := v.(string); ok && len(s) != len([]rune(s)) {
				c.ASCII = false
			}
		}
		validity, parts := goEncode(kind, values)
		if c.Nulls > 0 {
			c.Validity = add(validity)
		}
		if text {
			c.Offsets = add(parts[0])
		}
		c.Values = add(parts[len(parts)-1])
		b.Rows = int64(len(values))
		b.Columns = append(b.Columns, c)
	}
	slot, err := store.Get(int64(len(body)))
	if err != nil {
		return nil, err
	}
	copy(slot.Bytes(), body)
	b.Slot = slot
	return b, nil
}

// valuesOf reads an answer: nil, int64, bool or string per row.
func valuesOf(kind udfgate.Kind, a *codec.Answer) []any {
	body := a.Body.Bytes()
	part := func(i int) []byte {
		b := a.Buffers[i]
		return body[b.Offset : b.Offset+b.Length]
	}
	bit := func(b []byte, i int) bool { return b[i>>3]&(1<<(i&7)) != 0 }
	values := []any{}
	for i := range int(a.Rows) {
		switch {
		case a.Nodes[0].Nulls > 0 && !bit(part(0), i):
			values = append(values, nil)
		case kind == udfgate.Bool:
			values = append(values, bit(part(1), i))
		case kind == udfgate.Utf8:
			values = append(values, string(part(2)[le.Uint32(part(1)[4*i:]):le.Uint32(part(1)[4*i+4:])]))
		default:
			values = append(values, int64(le.Uint64(part(1)[8*i:])))
		}
	}
	return values
}

// eventually waits for a condition that another goroutine brings about, and
// that nothing signals to a test.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	end := time.Now().Add(soon)
	for !condition() {
		if time.Now().After(end) {
			t.Fatalf("waited %v in vain: %s", soon, what)
		}
		time.Sleep(time.Millisecond)
	}
}

// wantError checks reason and message, and returns the error.
func wantError(t testing.TB, err error, reason udfgate.Reason, message string) *udfgate.Error {
	t.Helper()
	if err == nil {
		t.Fatalf("want %s %q, got no error", reason, message)
	}
	e, ok := errors.AsType[*udfgate.Error](err)
	if !ok {
		t.Fatalf("want *udfgate.Error, got %T %v", err, err)
	}
	if e.Reason != reason || e.Message != message {
		t.Fatalf("want %s %q, got %s %q\n%s", reason, message, e.Reason, brief(e.Message), brief(e.Detail))
	}
	return e
}

// brief is what a failing test prints of a value that may be long.
func brief(v any) string { return cut(fmt.Sprint(v), stderrDetailBytes) }

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func itoa(n uint64) string { return strconv.FormatUint(n, 10) }

// kill ends a process that is no worker of a pool.
func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

// emptyBatch has rows and no column.
func emptyBatch(rows int64) *codec.Batch { return &codec.Batch{Rows: rows} }
