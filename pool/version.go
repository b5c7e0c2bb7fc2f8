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
	files [][sha256.Size]byte // of each file alone, in order
}

// hashFiles reads the files in order. Each is preceded by its length, so that
// moving a line from one to the next is another version.
func hashFiles(files []Module) (sources, error) {
	s := sources{sum: sha256.New()}
	for _, m := range files {
		text, err := os.ReadFile(m.File)
		if err != nil {
			return sources{}, fmt.Errorf("module %s: %w", m.Name, err)
		}
		s.add(string(text))
		s.files = append(s.files, sha256.Sum256(text))
	}
	return s, nil
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
	for i, m := range p.config.Files {
		text, err := os.ReadFile(m.File)
		if err != nil || sha256.Sum256(text) == p.sources.files[i] || p.edited[i].Swap(true) {
			continue // a file that is gone now was there when the worker read it
		}
		message := fmt.Sprintf("%s changed since the gateway started; this worker runs the new text under version %s; restart the gateway",
			filepath.Base(m.File), p.version)
		p.logger.Warn(message, "pool", p.config.Name) //nolint:sloglint // people read this sentence, no program counts it
	}
}
