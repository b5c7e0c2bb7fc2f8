package pool

import (
	"path/filepath"

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
