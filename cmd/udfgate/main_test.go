package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	// Scripts run this test binary under the command's name, as processes.
	testscript.Main(m, map[string]func(){"udfgate": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			python, err := findPython(t.Context(), "python3")
			if err != nil {
				return err
			}
			// Start scripts such as pyenv's would cost each worker a shell.
			env.Setenv("UDFGATE_PYTHON", python)
			env.Setenv("UDFGATE_HTTP", "off")
			env.Setenv("TMPDIR", env.WorkDir)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":     scriptExits,
			"waitfile":  scriptWaitFile,
			"hold":      scriptHold,
			"terminate": scriptTerminate,
			"hangup":    scriptHangUp,
			"tables":    scriptTables,
		},
	})
}

// scriptExits is "exits STATUS command…": it runs the command and wants that
// exit status.
func scriptExits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// scriptWaitFile is "waitfile NAME": it waits until the file is there.
func scriptWaitFile(ts *testscript.TestScript, _ bool, args []string) {
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
			return
		}
	}
	ts.Fatalf("%s did not come", args[0])
}

// scriptHold is "hold VARIABLE": it takes a port and puts its address there.
func scriptHold(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { l.Close() })
	ts.Setenv(args[0], l.Addr().String())
}

// scriptTerminate is "terminate READY-FILE": it sends SIGTERM to the gateway
// that wrote the file. testscript's own kill knows INT and KILL only.
func scriptTerminate(ts *testscript.TestScript, _ bool, args []string) {
	var r ready
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &r))
	ts.Check(syscall.Kill(r.PID, syscall.SIGTERM))
}

// scriptHangUp is "hangup READY-FILE": it sends SIGHUP to the gateway.
func scriptHangUp(ts *testscript.TestScript, _ bool, args []string) {
	var r ready
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &r))
	ts.Check(syscall.Kill(r.PID, syscall.SIGHUP))
}

// The defaults that embedded gateways take are those of serve's flags.
func TestDefaults(t *testing.T) {
	var c commands
	parser := newParser(&c, &config{}, io.Discard, io.Discard)
	if _, err := parser.Parse([]string{"serve", "f.py"}); err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse([]string{"demo"}); err != nil {
		t.Fatal(err)
	}
	got := []any{c.Demo.Data, c.Serve.Timeout, c.Serve.QueueTimeout, c.Serve.StartTimeout, c.Serve.DrainTimeout, c.Serve.MaxQueue, int64(c.Serve.MaxMessageBytes), c.Serve.MaxBatchRows, c.Serve.MaxStreams}
	want := []any{demoData, timeoutDefault, queueTimeoutDefault, startTimeoutDefault, drainTimeoutDefault, maxQueueDefault, int64(messageBytesMaxDefault), batchRowsMaxDefault, openStreamsMaxDefault}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("flags %v, constants %v", got, want)
	}
}

// Every error is one line, then the hint, then the detail.
func TestReport(t *testing.T) {
	var out strings.Builder
	code := report(&out, &failure{code: 3, what: "load f.py", err: fmt.Errorf("two\nlines"), hint: "do this", detail: "Traceback\n  x\n"})
	if want := "udfgate: load f.py: two | lines\ndo this\nTraceback\n  x\n"; out.String() != want || code != 3 {
		t.Errorf("%d %q", code, out.String())
	}
	if report(&out, io.ErrUnexpectedEOF) != exitFailed || report(&out, nil) != exitDone {
		t.Error("wrong status")
	}
}

func TestLimitFiles(t *testing.T) {
	for line, want := range map[string]string{
		"0::/a/b":     "/sys/fs/cgroup/a/b/memory.max /sys/fs/cgroup/a/memory.max /sys/fs/cgroup/memory.max",
		"0::/":        "/sys/fs/cgroup/memory.max",
		"7:memory:/x": "/sys/fs/cgroup/memory/x/memory.limit_in_bytes /sys/fs/cgroup/memory/memory.limit_in_bytes",
		"6:cpu:/x":    "",
		"":            "",
	} {
		if got := strings.Join(limitFiles(line), " "); got != want {
			t.Errorf("%q: %s, want %s", line, got, want)
		}
	}
	if memoryLimit() < 1<<20 {
		t.Errorf("memory limit = %d", memoryLimit())
	}
}
