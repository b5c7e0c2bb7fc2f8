package pool

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"
	"strings"
)

// versionDigits is how much of the digest names a version.
const versionDigits = 12

// sources is the digest of the modules' files, to which the interpreter and
// its packages are added once a worker has named them.
type sources struct{ sum hash.Hash }

// hashFiles reads the files in order. Each is preceded by its length, so that
// moving a line from one to the next is another version.
func hashFiles(files []Module) (sources, error) {
	s := sources{sha256.New()}
	for _, m := range files {
		text, err := os.ReadFile(m.File)
		if err != nil {
			return sources{}, fmt.Errorf("module %s: %w", m.Name, err)
		}
		s.add(string(text))
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
