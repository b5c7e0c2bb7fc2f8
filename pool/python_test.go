package pool

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// pythonLauncher starts the embedded Python worker; the test is skipped where
// there is no interpreter.
func pythonLauncher(t *testing.T) *testLauncher {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 on PATH")
	}
	// The interpreter itself: a shim of a version manager takes longer to start.
	out, err := exec.Command(python, "-c", "import sys; print(sys.executable, end='')").Output()
	if err != nil {
		t.Skipf("python3 does not run: %v", err)
	}
	f := folder{t.TempDir()}
	argv, _, err := f.program(string(out))
	if err != nil {
		t.Fatal(err)
	}
	return &testLauncher{override: argv}
}

// pythonModule writes a module file.
func pythonModule(t *testing.T, source string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "conformance.py")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
