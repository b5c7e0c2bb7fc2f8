package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A second signal does not wait for a body, and leaves neither the ready file
// nor a folder nor a worker behind.
func TestServeSecondSignal(t *testing.T) {
	dir, temp := t.TempDir(), t.TempDir()
	file, readyFile, started := filepath.Join(dir, "f.py"), filepath.Join(dir, "ready.json"), filepath.Join(dir, "pid")
	source := "import os, pathlib, time\ndef f(a: int) -> int:\n" +
		"    part = pathlib.Path(__file__).with_name('part')\n    part.write_text(str(os.getpid()))\n" +
		"    part.rename(part.with_name('pid'))\n    time.sleep(3600)\n    return a\n"
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	serve := exec.CommandContext(t.Context(), "udfgate", "serve", file, "--listen", "127.0.0.1:0", "--http", "off",
		"--timeout", "1h", "--drain-timeout", "1h", "--ready-file", readyFile)
	serve.Env = append(os.Environ(), "TMPDIR="+temp)
	said, err := serve.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	guard := time.AfterFunc(time.Minute, func() { _ = serve.Process.Kill() })
	defer guard.Stop()

	log := bufio.NewScanner(said)
	until := func(word string) {
		for log.Scan() {
			if strings.Contains(log.Text(), word) {
				return
			}
		}
		t.Fatalf("no %q in the log", word)
	}
	var r ready
	if err := json.Unmarshal([]byte(awaitFile(t, readyFile)), &r); err != nil {
		t.Fatal(err)
	}
	call := exec.CommandContext(t.Context(), "udfgate", "call", "f", "--args", "[[1]]", "--addr", r.Flight[0])
	call.WaitDelay = time.Minute
	answered := make(chan string, 1)
	go func() {
		out, _ := call.CombinedOutput()
		answered <- string(out)
	}()
	worker := awaitFile(t, started)
	_ = serve.Process.Signal(syscall.SIGTERM)
	until("msg=draining")
	_ = serve.Process.Signal(syscall.SIGTERM)
	until("calls were cut off")
	until("msg=stopped")
	if err := serve.Wait(); err != nil {
		t.Errorf("wanted exit status 0, got %v", err)
	}
	if got := <-answered; !strings.Contains(got, "the gateway is shutting down") {
		t.Errorf("the call: %s", got)
	}
	if _, err := os.Stat(readyFile); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the ready file: wanted none, got %v", err)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) != 0 {
		t.Errorf("temporary files: wanted none, got %v, %v", left, err)
	}
	if _, err := os.Stat("/proc/" + worker); err == nil {
		t.Errorf("worker %s is still there", worker)
	}
}

// awaitFile is the text of a file that is about to come.
func awaitFile(t *testing.T, name string) string {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if text, err := os.ReadFile(name); err == nil {
			return string(text)
		}
	}
	t.Fatalf("%s did not come", name)
	return ""
}
