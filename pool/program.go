package pool

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	pyworker "github.com/udfgate/udfgate/pool/runtime/python"
)

// program returns the command line of a worker, and the folder in which its
// program lies. -I keeps the gateway's environment and current folder out.
//
// The program is kept in the user's cache, in a folder named after its
// contents, because Python compiles it there once: that takes longer than all
// the rest of a start. Where there is no such folder to be had it goes into the
// pool's own, and is compiled anew by each gateway.
func (f folder) program(python string) (argv []string, dir string, err error) {
	dir = cachedProgram()
	if dir == "" {
		dir = f.path
		if err := pyworker.Write(dir); err != nil {
			return nil, "", err
		}
	}
	return []string{python, "-I", filepath.Join(dir, pyworker.Entry)}, dir, nil
}

// cachedProgram is the folder of the worker program in the user's cache, made
// if need be; "" if it cannot be made or is not exactly ours.
func cachedProgram() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	parent := filepath.Join(cache, "udfgate")
	dir := filepath.Join(parent, "python-"+pyworker.Hash())
	if sound(dir) {
		return dir
	}
	if os.MkdirAll(parent, 0o700) != nil {
		return ""
	}
	// Written aside and renamed, so that nobody starts half a program.
	fresh, err := os.MkdirTemp(parent, "new-")
	if err != nil {
		return ""
	}
	err = pyworker.Write(fresh)
	if err == nil {
		err = os.Rename(fresh, dir)
	}
	if err != nil { // another gateway may have been faster
		_ = os.RemoveAll(fresh)
	}
	if !sound(dir) {
		return ""
	}
	return dir
}

// sound reports whether dir is a folder that only its owner can enter, with
// every file of the program as it is embedded.
func sound(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o077 != 0 {
		return false
	}
	err = fs.WalkDir(pyworker.Files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		want, err := pyworker.Files.ReadFile(name)
		if err != nil {
			return err
		}
		got, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err == nil && string(got) != string(want) {
			err = errors.New("changed")
		}
		return err
	})
	return err == nil
}

// withoutOurs cuts the worker program's own frames out of a stack: they lie
// below every body and say nothing about it.
func withoutOurs(dir, stack string) string {
	library, entry := `  File "`+filepath.Join(dir, "lib")+"/", `  File "`+filepath.Join(dir, pyworker.Entry)+`"`
	var kept strings.Builder
	for line := range strings.Lines(stack) {
		if !strings.HasPrefix(line, library) && !strings.HasPrefix(line, entry) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}
