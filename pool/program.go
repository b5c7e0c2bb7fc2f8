package pool

import "path/filepath"

// program is the command line of a worker.
func (f folder) program(python string) ([]string, error) {
	return []string{interpreter(python), "-I", filepath.Join(f.path, "worker.py")}, nil
}
