package pool

import (
	"path/filepath"
	"strings"

	pyworker "github.com/udfgate/udfgate/pool/runtime/python"
)

// program writes the Python worker into the pool's folder and returns its
// command line. -I keeps the gateway's environment and current folder out.
func (f folder) program(python string) ([]string, error) {
	if err := pyworker.Write(f.path); err != nil {
		return nil, err
	}
	return []string{python, "-I", filepath.Join(f.path, pyworker.Entry)}, nil
}

// withoutOurs cuts the worker program's own frames out of a stack: they lie
// below every body and say nothing about it.
func (f folder) withoutOurs(stack string) string {
	library, entry := `  File "`+filepath.Join(f.path, "lib")+"/", `  File "`+filepath.Join(f.path, pyworker.Entry)+`"`
	var kept strings.Builder
	for line := range strings.Lines(stack) {
		if !strings.HasPrefix(line, library) && !strings.HasPrefix(line, entry) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}
