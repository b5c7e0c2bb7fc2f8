package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A call whose standard input stays open and says nothing more ends all the
// same when its function raises, and at a signal.
func TestCallLeavesAnIdleInput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f.py")
	if err := os.WriteFile(file, []byte("def f(a: int) -> int: return 1 // a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		input, batchRows string
		signal           os.Signal
		want             string
	}{
		"an error": {"a\n0\n1\n", "1", nil, "udfgate: f: row 0: ZeroDivisionError: "},
		// A pipe has not room for this: once it is written, the call is reading.
		"a signal":                 {"a\n" + strings.Repeat("1\n", 1<<20), "4096", syscall.SIGTERM, "udfgate: interrupted\n"},
		"a signal before the rows": {strings.Repeat("a", 1<<20), "4096", syscall.SIGINT, "udfgate: interrupted\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			call := exec.CommandContext(t.Context(), "udfgate", "call", "f", "--serve", file, "--input", "-", "--batch-rows", test.batchRows)
			var said bytes.Buffer
			call.Stderr = &said
			input, err := call.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer input.Close()
			if err := call.Start(); err != nil {
				t.Fatal(err)
			}
			guard := time.AfterFunc(time.Minute, func() { _ = call.Process.Kill() })
			defer guard.Stop()
			if _, err := io.WriteString(input, test.input); err != nil {
				t.Fatal(err)
			}
			if test.signal != nil {
				_ = call.Process.Signal(test.signal)
			}
			exit, ok := errors.AsType[*exec.ExitError](call.Wait())
			if !ok || exit.ExitCode() != exitFailed || !strings.HasPrefix(said.String(), test.want) {
				t.Errorf("%v, said %s", exit, said.String())
			}
		})
	}
}
