// Package python carries the Python worker: a program for CPython 3.9 or newer
// that needs nothing but its standard library. It follows docs/worker-protocol.md.
package python

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Entry is the script to start, relative to the folder given to Write, as
// `python -I DIR/worker.py`. With -I the sources stay off the module path but
// for lib, and site still adds the packages of the environment.
const Entry = "worker.py"

// Files are the worker's sources. The tests beside them are not embedded.
//
//go:embed worker.py lib/arrow_udf/*.py lib/databend_udf/*.py lib/udfgate/*.py lib/udfgate_worker/*.py
var Files embed.FS

// Write puts the worker's sources into dir, which must exist and be private to
// the gateway: whoever can write there runs code in every worker. Python keeps
// its compiled form beside them if it may write, and starts faster from then on.
func Write(dir string) error {
	err := fs.WalkDir(Files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(dir, filepath.FromSlash(name))
		if d.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		data, err := Files.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, 0o644)
	})
	if err != nil {
		return fmt.Errorf("write python worker: %w", err)
	}
	return nil
}

// Hash is 16 hex digits that change whenever a file of the worker does.
func Hash() string {
	sum := sha256.New()
	err := fs.WalkDir(Files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := Files.ReadFile(name)
		fmt.Fprintf(sum, "%s %d ", name, len(data))
		sum.Write(data)
		return err
	})
	if err != nil { // embedded files can be read
		panic(err)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}
