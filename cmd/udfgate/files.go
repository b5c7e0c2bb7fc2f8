package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/udfgate/udfgate/pool"
)

// served is what the arguments of serve come to.
type served struct {
	modules []pool.Module
	path    []string          // folders of the files and modules, for sys.path
	from    map[string]string // the argument or file of each module, by its name
}

// named is whether a module is served that the worker imports by this name.
func (s *served) named(module string) bool {
	return slices.Contains(s.modules, pool.Module{Name: module})
}

// findServed resolves FILE.py…, DIR and pkg.module. Files are opened once here,
// so that a missing one is the caller's mistake and not a failing worker;
// modules can only be found by a worker.
func findServed(paths []string) (*served, error) {
	s := &served{from: map[string]string{}}
	for _, p := range paths {
		module, files, err := listServed(p)
		if err != nil {
			return nil, &failure{code: exitUsage, what: "serve " + p, err: err}
		}
		if module != "" {
			if err := s.add(pool.Module{Name: module}, p, "."); err != nil {
				return nil, err
			}
		}
		for _, file := range files {
			m, dir, err := fileModule(file)
			if err != nil {
				return nil, &failure{code: exitUsage, what: "serve " + file, err: err}
			}
			if err := s.add(m, file, dir); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// fileModule is the module of a file, and the folder that it needs on its
// path. The __init__.py of a package is the package, which only an import by
// name makes of it.
func fileModule(file string) (pool.Module, string, error) {
	whole, err := filepath.Abs(file)
	if err != nil {
		return pool.Module{}, "", err
	}
	dir := filepath.Dir(whole)
	if filepath.Base(whole) == "__init__.py" {
		return pool.Module{Name: filepath.Base(dir)}, filepath.Dir(dir), nil
	}
	return pool.Module{Name: strings.TrimSuffix(filepath.Base(whole), ".py"), File: whole}, dir, nil
}

// add notes a module that came from an argument or from a file.
func (s *served) add(m pool.Module, from, dir string) error {
	if other, twice := s.from[m.Name]; twice {
		return &failure{
			code: exitNoGate, what: "serve " + from, err: fmt.Errorf("module %q is already served from %s", m.Name, other),
			hint: "functions are named module.function: rename one of the files",
		}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return &failure{code: exitUsage, what: "serve " + from, err: err}
	}
	s.from[m.Name] = from
	s.modules = append(s.modules, m)
	if !slices.Contains(s.path, dir) {
		s.path = append(s.path, dir)
	}
	return nil
}

// moduleName is what Python writes for a module, within a package or not.
var moduleName = regexp.MustCompile(`^[\pL_][\pL\pN_]*(\.[\pL_][\pL\pN_]*)*$`)

// listServed is the file itself, or the *.py of a folder without a leading _
// or dot, in the order of their names, or a module. What lies there comes
// first: a module's name is only taken for one if no file or folder has it, or
// if the folder has nothing but a package's __init__.py.
func listServed(name string) (module string, files []string, err error) {
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) && moduleName.MatchString(name) && filepath.Ext(name) != ".py" {
		return name, nil, nil
	}
	if err != nil {
		return "", nil, cause(err)
	}
	if info.IsDir() {
		files, err = listFolder(name)
		return "", files, err
	}
	if filepath.Ext(name) != ".py" {
		return "", nil, errors.New("wanted a .py file or a folder of them")
	}
	return "", []string{name}, readable(name)
}

func listFolder(name string) ([]string, error) {
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, cause(err)
	}
	var files []string
	for _, e := range entries {
		if e.IsDir() || filepath.Ext(e.Name()) != ".py" || strings.HasPrefix(e.Name(), "_") || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		file := filepath.Join(name, e.Name())
		if err := readable(file); err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
		files = append(files, file)
	}
	if len(files) > 0 {
		return files, nil
	}
	if itself := filepath.Join(name, "__init__.py"); readable(itself) == nil {
		return []string{itself}, nil
	}
	return nil, errors.New("the folder has no *.py to serve")
}

func readable(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return cause(err)
	}
	return f.Close()
}

// probeTime bounds how long a start script may take to name its interpreter.
const probeTime = 10 * time.Second

// findPython turns --python into an interpreter: a program, or the folder of a
// virtual environment.
func findPython(ctx context.Context, name string) (string, error) {
	wrong := func(err error) error {
		return &failure{
			code: exitNoGate, what: "python " + name, err: err,
			hint: "--python takes an interpreter or the folder of a virtual environment",
		}
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		for _, program := range []string{"bin/python3", "bin/python"} {
			if found, err := exec.LookPath(filepath.Join(name, program)); err == nil {
				return filepath.Abs(found)
			}
		}
		return "", wrong(errors.New("the folder is no virtual environment: it has no bin/python3"))
	}
	found, err := exec.LookPath(name)
	if err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return "", wrong(errors.New("not executable"))
		}
		if strings.Contains(name, "/") {
			return "", wrong(errors.New("not found"))
		}
		return "", wrong(errors.New("not found in PATH"))
	}
	if found, err = filepath.Abs(found); err != nil {
		return "", wrong(err)
	}
	if found, err = behindScript(ctx, found); err != nil {
		return "", wrong(err)
	}
	return found, nil
}

// behindScript asks a start script, such as those of pyenv, for the
// interpreter behind it. Each worker would pay for the shell otherwise: about
// four times the start of Python itself.
func behindScript(ctx context.Context, program string) (string, error) {
	f, err := os.Open(program)
	if err != nil { // executable but not readable: no script, scripts are read
		return program, nil
	}
	defer f.Close()
	var magic [2]byte
	if _, err := io.ReadFull(f, magic[:]); err != nil || !bytes.Equal(magic[:], []byte("#!")) {
		return program, nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	probe := exec.CommandContext(ctx, program, "-c", "import sys; print(sys.executable)")
	// Workers get no variable of Python's, so none may decide here. The others
	// stay: PYENV_VERSION and its like are how the script is told what to start.
	probe.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "PYTHON") })
	out, err := probe.Output()
	if err != nil {
		return "", fmt.Errorf("the script did not start an interpreter: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
