package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// roleVar makes the test binary play a child instead of running tests.
const roleVar = "SANDBOX_TEST_ROLE"

// patience bounds every wait of these tests; none is expected to last.
const patience = 10 * time.Second

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		os.Exit(play(role))
	}
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/udfgate/udfgate/sandbox.serveStarts"))
}

// play is the child's side: what it does is chosen by name.
func play(role string) int {
	switch role {
	case "environment":
		for _, v := range os.Environ() {
			fmt.Println(v)
		}
	case "echo":
		gateway := os.NewFile(3, "gateway")
		_, _ = io.Copy(gateway, gateway)
	case "output":
		fmt.Println("to stdout")
		fmt.Fprintln(os.Stderr, "to stderr")
		return 3
	case "sleep":
		fmt.Println("ready")
		time.Sleep(time.Hour)
	case "interrupt":
		got := make(chan os.Signal, 1)
		signal.Notify(got, syscall.SIGUSR1)
		fmt.Println("ready")
		<-got
		fmt.Fprintln(os.Stderr, "stacks")
	case "parent":
		return playParent(false)
	case "parent-exits":
		return playParent(true)
	case "gateway":
		return playGateway()
	}
	return 0
}

// playParent starts a grandchild in its own group, says its pid, and exits or
// sleeps.
func playParent(exit bool) int {
	grandchild, err := os.StartProcess("/bin/sleep", []string{"sleep", "3600"}, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(grandchild.Pid)
	if !exit {
		time.Sleep(time.Hour)
	}
	return 0
}

// playGateway is a gateway that starts a sleeping worker and then just waits
// to be killed.
func playGateway() int {
	p, err := Start(child("sleep"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(p.Pid())
	time.Sleep(time.Hour)
	return 0
}

func child(role string) Spec {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	// The race detector otherwise waits a second before the child exits.
	return Spec{Argv: []string{self}, Env: []string{roleVar + "=" + role, "GORACE=atexit_sleep_ms=0"}}
}

func start(t *testing.T, s Spec) *Process {
	t.Helper()
	p, err := Start(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Kill()
		p.Wait()
		_ = p.Conn().Close()
		_, _ = io.Copy(io.Discard, p.Stdout())
		_, _ = io.Copy(io.Discard, p.Stderr())
	})
	return p
}

func lines(t *testing.T, r io.Reader) []string {
	t.Helper()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

func TestStart_environmentIsExact(t *testing.T) {
	t.Setenv("SECRET_OF_THE_GATEWAY", "1")
	s := child("environment")
	s.Env = append(s.Env, "A=1", "B=two words")
	got := lines(t, start(t, s).Stdout())
	if want := s.Env; !slices.Equal(got, want) {
		t.Errorf("environment: want %q, got %q", want, got)
	}
}

func TestStart_emptyEnvironment(t *testing.T) {
	t.Setenv("SECRET_OF_THE_GATEWAY", "1")
	got := lines(t, start(t, Spec{Argv: []string{"/usr/bin/env"}}).Stdout())
	if !slices.Equal(got, []string{""}) {
		t.Errorf("environment: want none, got %q", got)
	}
}

func TestStart_descriptorsAreExact(t *testing.T) {
	// One that Go opened, and one as a careless parent would leave it.
	own, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	careless, err := unix.Open("/dev/zero", unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(careless)

	// A shell, because the runtime of a Go child opens files of its own.
	list := "cd /proc/$$/fd && for fd in *; do readlink $fd; done"
	got := lines(t, start(t, Spec{Argv: []string{"/bin/sh", "-c", list}, Env: []string{"PATH=/usr/bin:/bin"}}).Stdout())
	if len(got) != 4 {
		t.Fatalf("descriptors: want 0 to 3, got %q", got)
	}
	for i, want := range []string{"/dev/null", "pipe:", "pipe:", "socket:"} {
		if !strings.HasPrefix(got[i], want) {
			t.Errorf("descriptor %d: want %q, got %q", i, want, got[i])
		}
	}
}

func TestStart_socketCarriesBothWays(t *testing.T) {
	p := start(t, child("echo"))
	if _, err := p.Conn().Write([]byte("there and back")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len("there and back"))
	if _, err := io.ReadFull(p.Conn(), got); err != nil {
		t.Fatal(err)
	}
	if string(got) != "there and back" {
		t.Errorf("echo: got %q", got)
	}
	if err := p.Conn().CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got := p.Wait(); got != (Exit{}) {
		t.Errorf("after end of file: want exit status 0, got %v", got)
	}
}

func TestStart_outputAndExitStatus(t *testing.T) {
	p := start(t, child("output"))
	if got := lines(t, p.Stdout()); !slices.Equal(got, []string{"to stdout"}) {
		t.Errorf("stdout: got %q", got)
	}
	if got := lines(t, p.Stderr()); !slices.Equal(got, []string{"to stderr"}) {
		t.Errorf("stderr: got %q", got)
	}
	want := Exit{Code: 3}
	for range 2 { // once from the process, once remembered
		if got := p.Wait(); got != want {
			t.Errorf("exit: want %v, got %v", want, got)
		}
	}
	if got := want.String(); got != "exit status 3" {
		t.Errorf("text: got %q", got)
	}
	if got := p.Usage(); got != 0 {
		t.Errorf("usage after the end: want 0, got %d", got)
	}
}

func TestKill_namesTheSignal(t *testing.T) {
	p := start(t, child("sleep"))
	if _, err := bufio.NewReader(p.Stdout()).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if rss := p.Usage(); rss <= 0 {
		t.Errorf("usage: want some bytes, got %d", rss)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if got := p.Wait().String(); got != "signal SIGKILL" {
		t.Errorf("exit: want signal SIGKILL, got %s", got)
	}
	if err := errors.Join(p.Kill(), p.Interrupt()); err != nil {
		t.Errorf("signals to a reaped process: %v", err)
	}
}

func TestInterrupt(t *testing.T) {
	p := start(t, child("interrupt"))
	if _, err := bufio.NewReader(p.Stdout()).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := p.Interrupt(); err != nil {
		t.Fatal(err)
	}
	if got := lines(t, p.Stderr()); !slices.Equal(got, []string{"stacks"}) {
		t.Errorf("stderr: got %q", got)
	}
}

// A body's children die with the worker, whether it is killed or exits.
func TestGroupEndsWithTheProcess(t *testing.T) {
	for _, c := range []struct {
		role string
		kill bool
	}{{"parent", true}, {"parent-exits", false}} {
		t.Run(c.role, func(t *testing.T) {
			p := start(t, child(c.role))
			text, err := bufio.NewReader(p.Stdout()).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			grandchild, err := strconv.Atoi(strings.TrimSpace(text))
			if err != nil {
				t.Fatal(err)
			}
			if c.kill {
				if err := p.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			p.Wait()
			awaitGone(t, grandchild)
		})
	}
}

// A killed gateway leaves no worker behind.
func TestWorkerDiesWithItsGateway(t *testing.T) {
	gateway := start(t, child("gateway"))
	text, err := bufio.NewReader(gateway.Stdout()).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	worker, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		t.Fatal(err)
	}
	// The process alone: its worker has a group of its own.
	if err := syscall.Kill(gateway.Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	gateway.Wait()
	awaitGone(t, worker)
}

// awaitGone waits until a process that is no child of ours has ended.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, int(patience.Milliseconds()))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n != 1 {
			t.Fatalf("process %d is still there (%v)", pid, err)
		}
		return
	}
}

func TestStart_errors(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	garbage := filepath.Join(dir, "garbage")
	if err := os.WriteFile(garbage, []byte("\x00\x01\x02"), 0o755); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("#!/no/such/interpreter\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "missing")
	for _, c := range []struct {
		name, want string
		spec       Spec
	}{
		{"no program", "start worker: no program given", Spec{}},
		{"missing", fmt.Sprintf("start worker: interpreter %q not found: file does not exist", missing), Spec{Argv: []string{missing}}},
		{"not in path", `start worker: interpreter "no-such-python" not found in PATH: file does not exist`, Spec{Argv: []string{"no-such-python"}}},
		{"not executable", fmt.Sprintf("start worker: %q is not executable: permission denied", plain), Spec{Argv: []string{plain}}},
		{"not a program", fmt.Sprintf("start worker: %q is not a program of this machine: exec format error", garbage), Spec{Argv: []string{garbage}}},
		{"interpreter line", fmt.Sprintf("start worker: %q names an interpreter or loader that does not exist: no such file or directory", script), Spec{Argv: []string{script}}},
		{"directory", fmt.Sprintf("start worker: working directory %q: no such file or directory", missing), Spec{Argv: []string{"/bin/true"}, Dir: missing}},
		{"not a directory", fmt.Sprintf("start worker: working directory %q: not a directory", plain), Spec{Argv: []string{"/bin/true"}, Dir: plain}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := openDescriptors(t)
			p, err := Start(c.spec)
			if err == nil {
				_ = p.Kill()
				t.Fatalf("want %q, got no error", c.want)
			}
			if err.Error() != c.want {
				t.Errorf("want %q, got %q", c.want, err)
			}
			if after := openDescriptors(t); after != before {
				t.Errorf("descriptors: %d before, %d after", before, after)
			}
		})
	}
}

// A relative program is one of the gateway's folder, not of the process's.
func TestStart_relativeProgram(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "bin", "show")
	if err := os.Mkdir(filepath.Dir(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(script, []byte("#!/bin/sh\npwd -P\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, Spec{Argv: []string{"bin/show"}, Dir: home})
	if got := lines(t, p.Stdout()); len(got) != 1 || got[0] != home {
		t.Errorf("want %q, got %q", home, got)
	}
}

func TestStart_leaksNothing(t *testing.T) {
	run := func() {
		p, err := Start(child("output"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, p.Stdout())
		_, _ = io.Copy(io.Discard, p.Stderr())
		p.Wait()
		_ = p.Conn().Close()
	}
	run() // the poller of the runtime opens its own with the first
	before := openDescriptors(t)
	for range 5 {
		run()
	}
	if after := openDescriptors(t); after != before {
		t.Errorf("descriptors: %d before, %d after", before, after)
	}
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
