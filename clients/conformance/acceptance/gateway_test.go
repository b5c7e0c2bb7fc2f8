package acceptance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	client "github.com/udfgate/udfgate/clients/go"
)

const startMax = 30 * time.Second

// gateway is a running udfgate process.
type gateway struct {
	cmd    *exec.Cmd
	client *client.Client
}

// binary is UDFGATE_BINARY, or one built for this test run.
func binary(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("UDFGATE_BINARY"); path != "" {
		return path
	}
	path := filepath.Join(t.TempDir(), "udfgate")
	build := exec.Command("go", "build", "-o", path, "github.com/udfgate/udfgate/cmd/udfgate")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

// start serves testdata/functions.py and ends the gateway with the test, which
// fails unless it exits with 0 and leaves no child behind.
func start(t *testing.T, flags ...string) *gateway {
	t.Helper()
	return startServing(t, "testdata/functions.py", flags...)
}

// startServing is start for another file.
func startServing(t *testing.T, file string, flags ...string) *gateway {
	t.Helper()
	ready := filepath.Join(t.TempDir(), "ready.json")
	args := append([]string{
		"serve", file, "--listen", "127.0.0.1:0", "--http", "off",
		"--ready-file", ready, "--log-level", "error",
	}, flags...)
	g := &gateway{cmd: exec.Command(binary(t), args...)}
	g.cmd.Stderr = os.Stderr
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.stop(t) })
	g.client = g.connect(t, ready)
	return g
}

func (g *gateway) connect(t *testing.T, ready string) *client.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startMax)
	defer cancel()
	for {
		text, err := os.ReadFile(ready)
		switch {
		case err == nil:
			var told struct{ Flight []string }
			if err := json.Unmarshal(text, &told); err != nil {
				t.Fatal(err)
			}
			c, err := client.Connect(ctx, told.Flight[0])
			if err != nil {
				t.Fatal(err)
			}
			return c
		case !errors.Is(err, fs.ErrNotExist):
			t.Fatal(err)
		}
		select {
		case <-ctx.Done():
			t.Fatal("the gateway did not get ready")
		case <-time.After(5 * time.Millisecond): // the file is all there is to look at
		}
	}
}

func (g *gateway) stop(t *testing.T) {
	if g.client != nil {
		if err := g.client.Close(); err != nil {
			t.Error(err)
		}
	}
	children := g.workers(t)
	if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := g.cmd.Wait(); err != nil {
		t.Errorf("the gateway ended with %v", err)
	}
	for _, pid := range children {
		if err := syscall.Kill(pid, 0); err == nil {
			t.Errorf("worker %d outlived the gateway", pid)
		}
	}
}

// workers are the pids of the gateway's children.
func (g *gateway) workers(t *testing.T) []int {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", g.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if err != nil {
			continue // a thread that ended meanwhile
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
