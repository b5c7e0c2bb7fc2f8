package pool

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// versionDigits is how much of the digest names a version.
const versionDigits = 12

// sources is the digest of the modules' files, to which the interpreter and
// its packages are added once a worker has named them.
type sources struct {
	sum   hash.Hash
	files []source // of each module alone, in order
}

// source is the file of one module and its digest.
type source struct {
	file string // empty until a worker has found the module
	sum  [sha256.Size]byte
}

// hashFiles reads the files in order. Each is preceded by its length, so that
// moving a line from one to the next is another version. Modules that are
// imported by name are left to find.
func hashFiles(files []Module) (sources, error) {
	s := sources{sum: sha256.New()}
	s.files = make([]source, len(files))
	for i, m := range files {
		if m.File == "" {
			continue
		}
		if err := s.read(i, m.Name, m.File); err != nil {
			return sources{}, err
		}
	}
	return s, nil
}

func (s *sources) read(i int, name, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("module %s: %w", name, err)
	}
	s.add(string(text))
	s.files[i] = source{file, sha256.Sum256(text)}
	return nil
}

// find reads the modules that were imported by name, which only a worker can
// find. One without a file, built into the interpreter, changes with that.
func (s *sources) find(modules []Module, set *loadedSet) error {
	for i, m := range modules {
		if m.File != "" {
			continue
		}
		for n, f := range set.functions {
			if f.Module != m.Name || set.files[n] == "" {
				continue
			}
			if err := s.read(i, m.Name, set.files[n]); err != nil {
				return err
			}
			break
		}
	}
	return nil
}

func (s sources) add(text string) {
	_, _ = io.WriteString(s.sum, fmt.Sprintf("%d\n%s", len(text), text)) // a hash takes everything
}

// version is the version of every function that a worker with this HELLO has
// loaded: source, interpreter, installed packages.
func (s sources) version(h *hello) string {
	s.add(h.Runtime + " " + h.Version)
	var packages []string
	for _, dir := range h.Site {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // a folder that is not there has no packages
		}
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), ".dist-info") {
				packages = append(packages, e.Name())
			}
		}
	}
	slices.Sort(packages)
	s.add(strings.Join(packages, "\n"))
	return hex.EncodeToString(s.sum.Sum(nil))[:versionDigits]
}

// warnEdited says, once per file, that a worker which has just loaded runs
// another text than the version was made of.
func (p *Pool) warnEdited() {
	for i, f := range p.sources.files {
		text, err := os.ReadFile(f.file)
		if err != nil || sha256.Sum256(text) == f.sum || p.edited[i].Swap(true) {
			continue // a file that is gone now was there when the worker read it
		}
		message := fmt.Sprintf("%s changed since the gateway started; this worker runs the new text under version %s; restart the gateway",
			filepath.Base(f.file), p.version)
		p.logger.Warn(message, "pool", p.config.Name) //nolint:sloglint // people read this sentence, no program counts it
	}
}
