package deploy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long the test waits for something that takes milliseconds.
const patience = 30 * time.Second

const functions = `
import subprocess
import time

from udfgate import udf


@udf
def double(n: int) -> int:
    return 2 * n


@udf
def leave(n: int) -> int:
    # The sleeping process has no parent from the moment sh ends.
    subprocess.run(["sh", "-c", "sleep 0.05 >/dev/null 2>&1 & exit 0"], check=True)
    return n


@udf
def slow(n: int) -> int:
    open("STARTED", "w").close()
    time.sleep(n / 1000)
    return n
`

// container stands for one: a gateway as the stage python starts it, with this
// machine's Python.
type container struct {
	t      *testing.T
	cmd    *exec.Cmd
	pid    int // of the gateway, seen from here
	log    *logged
	binary string
	flight string
	asRoot bool
}

// The gateway runs as process 1 of its own, under the user of the image, with
// no HOME, in a folder it cannot write to: it answers, is found healthy, and a
// SIGTERM drains it.
func TestProcessOne(t *testing.T) {
	c := start(t)
	answer := c.client("call", "fares.double", "--args", "[[21]]", "--addr", c.flight)
	if !strings.Contains(answer, "42") {
		t.Errorf("call: wanted 42, got %s", answer)
	}
	health := readPython(t).healthcheck
	if text := c.client(append(health[1:], "--addr", c.flight)...); !strings.Contains(text, "double") {
		t.Errorf("health check: wanted the functions, got %s", text)
	}
	c.orphan()

	// A call in flight is answered although the signal came before its end.
	type result struct{ text string }
	answered := make(chan result, 1)
	go func() {
		answered <- result{c.client("call", "fares.slow", "--args", "[[700]]", "--addr", c.flight)}
	}()
	c.awaitFile("started")
	c.signal(syscall.SIGTERM)
	if r := <-answered; !strings.Contains(r.text, "700") {
		t.Errorf("call during the drain: wanted 700, got %s", r.text)
	}
	if err := c.cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: wanted exit status 0, got %v\n%s", err, c.log)
	}
	if text := c.log.String(); !strings.Contains(text, "stopped") || strings.Contains(text, "cut off") {
		t.Errorf("after SIGTERM: wanted a drain to its end, got\n%s", text)
	}
	left, err := os.ReadDir(filepath.Join(filepath.Dir(c.binary), "tmp"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		if e.Name() == "started" {
			continue // the body's own
		}
		t.Errorf("the temporary folder: wanted it empty after the end, got %s", e.Name())
	}
}

// A second signal cuts off what is in flight, also as process 1, for which the
// kernel drops signals that have their default action.
func TestSecondSignal(t *testing.T) {
	c := start(t)
	called := make(chan error, 1)
	go func() {
		called <- exec.Command(c.binary, "call", "fares.slow", "--args", "[[20000]]", "--addr", c.flight).Run()
	}()
	c.awaitFile("started")
	c.signal(syscall.SIGTERM)
	c.log.wait(t, "drain")
	c.signal(syscall.SIGTERM)
	if err := c.cmd.Wait(); err != nil {
		t.Errorf("after two signals: wanted exit status 0, got %v", err)
	}
	if err := <-called; err == nil { // the body would have slept to its end
		t.Error("the call in flight was answered: wanted it cut off")
	}
}

func start(t *testing.T) *container {
	t.Helper()
	c := &container{t: t, log: &logged{grown: make(chan struct{}, 1)}, asRoot: os.Getuid() == 0}
	dir, err := os.MkdirTemp(work, "container-") //nolint:usetesting // t.TempDir is closed to the image's user
	if err != nil {
		t.Fatal(err)
	}
	served, temp := filepath.Join(dir, "functions"), filepath.Join(dir, "tmp")
	c.binary = filepath.Join(dir, "udfgate")
	// A config map is mounted like this: a link to a link to a folder.
	hidden := filepath.Join(served, "..2026")
	for _, err := range []error{
		os.Chmod(work, 0o755), os.Chmod(dir, 0o755), os.MkdirAll(hidden, 0o755),
		os.Mkdir(temp, 0o755), os.Chmod(temp, 0o777),
		os.WriteFile(filepath.Join(hidden, "fares.py"), []byte(strings.ReplaceAll(functions, "STARTED", filepath.Join(temp, "started"))), 0o644),
		os.Symlink("..2026", filepath.Join(served, "..data")),
		os.Symlink("..data/fares.py", filepath.Join(served, "fares.py")),
		os.Chmod(served, 0o555), copyFile(filepath.Join(built(t), "udfgate"), c.binary),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	p := readPython(t)
	ready := filepath.Join(temp, "ready")
	args := []string{
		"env", "-i", "PATH=/usr/local/bin:/usr/bin:/bin", "TMPDIR=" + temp,
		"UDFGATE_LISTEN=127.0.0.1:0", "UDFGATE_HTTP=127.0.0.1:0", // as in ENV, but for ports that others may hold
		"UDFGATE_READY_FILE=" + ready, "UDFGATE_PYTHON=" + findPython(t, c.asRoot), "UDFGATE_WORKERS=1",
		c.binary, p.cmd[0], served,
	}
	args = append(c.inNamespace(), args...)
	// Not the test's context: that is cancelled before the cleanup below.
	c.cmd = exec.CommandContext(context.Background(), args[0], args[1:]...)
	c.cmd.Dir, c.cmd.Stdout, c.cmd.Stderr = served, c.log, c.log
	c.cmd.WaitDelay = time.Second // what holds its pipes must not hold the test
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.cmd.ProcessState == nil {
			if c.pid > 0 { // a change of user ends what --kill-child promises
				_ = syscall.Kill(c.pid, syscall.SIGKILL)
			}
			_ = c.cmd.Process.Kill()
			_ = c.cmd.Wait()
		}
	})
	c.awaitReady(ready)
	return c
}

// inNamespace is the command that makes the gateway process 1 of a namespace
// under the image's user; nothing where the machine does not allow it.
func (c *container) inNamespace() []string {
	if !c.asRoot {
		c.t.Log("not root: the gateway is not process 1, and runs under this user")
		return nil
	}
	prefix := []string{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc"}
	if text, err := exec.Command(prefix[0], append(prefix[1:], "setpriv", "--version")...).CombinedOutput(); err != nil {
		c.t.Logf("no process namespace (%v: %s): the gateway is not process 1", err, bytes.TrimSpace(text))
		return nil
	}
	id := strconv.Itoa(userID)
	return append(prefix, "setpriv", "--reuid="+id, "--regid="+id, "--clear-groups", "--no-new-privs", "--inh-caps=-all")
}

// findPython is an interpreter that the user of the image can run: root's own
// may lie in its home.
func findPython(t *testing.T, asRoot bool) string {
	t.Helper()
	tried := []string{os.Getenv("UDFGATE_PYTHON"), "/usr/local/bin/python3", "/usr/bin/python3"}
	if found, err := exec.LookPath("python3"); err == nil {
		tried = append(tried, found)
	}
	for _, name := range tried {
		cmd := exec.Command(name, "-I", "-c", "import sys; sys.exit(sys.version_info < (3, 9))")
		cmd.Env, cmd.Dir = []string{}, "/"
		if asRoot {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: userID, Gid: userID}}
		}
		if name != "" && cmd.Run() == nil {
			return name
		}
	}
	t.Skipf("no Python 3.9 or later that user %d can run; tried %q", userID, tried)
	return ""
}

func (c *container) awaitReady(name string) {
	c.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		text, err := os.ReadFile(name)
		if err == nil {
			var r struct {
				Flight []string
				HTTP   string
				PID    int
			}
			if err := json.Unmarshal(text, &r); err != nil {
				c.t.Fatal(err)
			}
			if _, _, err := net.SplitHostPort(r.Flight[0]); err != nil {
				c.t.Fatal(err)
			}
			c.flight, c.pid = r.Flight[0], c.cmd.Process.Pid
			if c.cmd.Args[0] == "unshare" {
				if r.PID != 1 {
					c.t.Errorf("wanted the gateway to be process 1, got %d", r.PID)
				}
				c.pid = children(c.t, c.pid)[0]
			}
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("not ready after %s:\n%s", patience, c.log)
		}
	}
}

// orphan has a body leave a process behind, and looks what becomes of it.
func (c *container) orphan() {
	c.t.Helper()
	if c.cmd.Args[0] != "unshare" {
		return // this machine's process 1 takes it
	}
	before := len(children(c.t, c.pid))
	c.client("call", "fares.leave", "--args", "[[1]]", "--addr", c.flight)
	// It is the gateway's child now. Its end is awaited, not slept for.
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		now := children(c.t, c.pid)
		ended := 0
		for _, pid := range now {
			if state(c.t, pid) == "Z" {
				ended++
			}
		}
		switch {
		case len(now) == before+1 && ended == 1:
			return // as docs/container.md says: kept until the gateway ends
		case len(now) == before:
			c.t.Error("process 1 reaps orphans now: say so in docs/container.md, and take init and shareProcessNamespace out of the examples")
			return
		case time.Now().After(end):
			c.t.Fatalf("wanted %d children of process 1 and one that has ended, got %v, %d ended", before+1, now, ended)
		}
	}
}

// awaitFile waits for a file that a body writes when it begins.
func (c *container) awaitFile(name string) {
	c.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(filepath.Dir(c.binary), "tmp", name)); err == nil {
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("%s did not come:\n%s", name, c.log)
		}
	}
}

func (c *container) signal(s syscall.Signal) {
	c.t.Helper()
	if err := syscall.Kill(c.pid, s); err != nil {
		c.t.Fatal(err)
	}
}

// client runs the binary on this side, as a caller from outside.
func (c *container) client(args ...string) string {
	text, err := exec.Command(c.binary, args...).CombinedOutput()
	if err != nil {
		c.t.Errorf("%v: %v\n%s", args, err, text)
	}
	return string(text)
}

func children(t *testing.T, pid int) (pids []int) {
	t.Helper()
	// Children hang on the thread that started them.
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil || len(files) == 0 {
		t.Fatalf("children of %d: none told (%v)", pid, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // a thread that has ended
		}
		for _, word := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

// state is Z for a process that has ended and was not reaped, "" for none.
func state(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The name in front may hold anything, and ends with the last bracket.
	return strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))[0]
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o755)
}
