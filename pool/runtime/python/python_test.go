package python

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	if err := Write(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{Entry, "lib/udfgate/__init__.py", "lib/udfgate_worker/__init__.py"} {
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s differs from its source", name)
		}
	}
	if err := Write(dir); err != nil {
		t.Errorf("second write: %v", err)
	}
}

func TestFilesAreAllOfTheWorker(t *testing.T) {
	embedded := map[string]bool{}
	err := fs.WalkDir(Files, ".", func(name string, d fs.DirEntry, err error) error {
		embedded[name] = true
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir("lib", func(name string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".py") && !embedded[filepath.ToSlash(name)] {
			t.Errorf("%s is not embedded", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestWriteNamesWhatFailed(t *testing.T) {
	err := Write(filepath.Join(t.TempDir(), "missing", "\x00"))
	if err == nil || !strings.Contains(err.Error(), "python worker") {
		t.Errorf("wanted an error naming the python worker, got %v", err)
	}
}
