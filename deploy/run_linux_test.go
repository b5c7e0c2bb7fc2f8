package deploy

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const userID = 65532 // of both images

// runStatic runs the entry point with the unpacked image as its root, as the
// image's user, with the image's environment.
func runStatic(t *testing.T, config v1.Config, dir string) {
	t.Helper()
	asRoot := os.Getuid() == 0
	if !asRoot {
		t.Log("not root: the entry point runs without chroot and under this user")
	}
	// Something to serve, for the answer that there is no Python here.
	if err := os.WriteFile(filepath.Join(dir, "tmp", "f.py"), []byte("from udfgate import udf\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   string
		status int
		text   string
	}{
		{"version", 0, versionBuilt},
		{"--help", 0, "functions"},
		{"functions --addr 127.0.0.1:1", 3, "gateway not reached"},
		{"serve /tmp/f.py", 3, "python3"},
		{"serve /nowhere.py", 2, "/nowhere.py"},
		{"nonsense", 2, "nonsense"},
	} {
		args := strings.Fields(c.args)
		cmd := exec.CommandContext(t.Context(), config.Entrypoint[0], append(config.Entrypoint[1:], args...)...)
		cmd.Env = append([]string{}, config.Env...) // never nil, which would be the tester's
		if asRoot {
			cmd.Dir = config.WorkingDir
			cmd.SysProcAttr = &syscall.SysProcAttr{
				Chroot:     dir,
				Credential: &syscall.Credential{Uid: userID, Gid: userID},
			}
		} else {
			cmd.Path, cmd.Dir = filepath.Join(dir, config.Entrypoint[0]), dir
			if strings.Contains(c.args, "/tmp/") {
				continue // this machine's /tmp
			}
		}
		var text bytes.Buffer
		cmd.Stdout, cmd.Stderr = &text, &text
		err := cmd.Run()
		status := 0
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			status = exit.ExitCode()
		} else if err != nil {
			t.Fatalf("%s: %v", c.args, err)
		}
		if status != c.status || !strings.Contains(text.String(), c.text) {
			t.Errorf("%s: wanted status %d and %q, got %d and\n%s", c.args, c.status, c.text, status, text.String())
		}
	}
}
