// Package sandbox starts one worker process: a socket pair as descriptor 3,
// drained pipes for its output, its own process group, an environment that
// says only what it was told, and an end that no child of it survives.
//
// It knows nothing of pools, frames or Arrow.
package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Spec is one process to start.
type Spec struct {
	// Argv is the program and its arguments. A name without a slash is looked
	// up in the PATH of the gateway.
	Argv []string
	// Env is the whole environment: nothing of the gateway's own is added.
	Env []string
	// Dir is the working directory; empty means the gateway's.
	Dir string
}

// Exit is how a process ended.
type Exit struct {
	Code   int
	Signal string // "SIGSEGV"; empty if it exited by itself
}

// String is "signal SIGSEGV" or "exit status 3".
func (e Exit) String() string {
	if e.Signal != "" {
		return "signal " + e.Signal
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

// Start starts a process as s says.
//
// # Errors
//
// The error names the program and what is wrong with it: not found, not
// executable, not a program of this machine; or the directory; or the limit
// that the fork met.
func Start(s Spec) (*Process, error) {
	program, err := find(s.Argv)
	if err != nil {
		return nil, err
	}
	if err := checkDir(s.Dir); err != nil {
		return nil, err
	}
	p, err := launch(program, s)
	if err != nil {
		return nil, explain(program, err)
	}
	return p, nil
}

// find resolves the program, and tells the ways in which one is missing apart:
// execve has a single ENOENT for the program, its interpreter line and the
// working directory.
func find(argv []string) (string, error) {
	if len(argv) == 0 || argv[0] == "" {
		return "", errors.New("start worker: no program given")
	}
	name := argv[0]
	program, err := exec.LookPath(name)
	switch {
	case err == nil || errors.Is(err, exec.ErrDot):
		// execve would look from the working directory of the new process.
		return filepath.Abs(program)
	case errors.Is(err, fs.ErrPermission):
		return "", fmt.Errorf("start worker: %q is not executable: %w", name, fs.ErrPermission)
	case !strings.Contains(name, "/"):
		return "", fmt.Errorf("start worker: interpreter %q not found in PATH: %w", name, fs.ErrNotExist)
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("start worker: interpreter %q not found: %w", name, fs.ErrNotExist)
	default:
		return "", fmt.Errorf("start worker: interpreter %q: %w", name, cause(err))
	}
}

func checkDir(dir string) error {
	if dir == "" {
		return nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("start worker: working directory %q: %w", dir, cause(err))
	}
	if !info.IsDir() {
		return fmt.Errorf("start worker: working directory %q: %w", dir, syscall.ENOTDIR)
	}
	return nil
}

// explain turns the errno of fork and exec into what the operator can act on.
func explain(program string, err error) error {
	err = cause(err)
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("start worker: %q is not a program of this machine: %w", program, err)
	case errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("start worker: %q names an interpreter or loader that does not exist: %w", program, err)
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM):
		return fmt.Errorf("start worker: fork failed (limit of processes or memory reached): %w", err)
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return fmt.Errorf("start worker: out of file descriptors: %w", err)
	default:
		return fmt.Errorf("start worker: %q: %w", program, err)
	}
}

// cause strips the operation and path that os and exec put around an errno:
// the texts here name them already.
func cause(err error) error {
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return e
	}
	return err
}
