package pool

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// folder is the temporary directory of a pool: the private HOME and TMPDIR of
// its workers, and the worker program.
type folder struct{ path string }

func newFolder() (folder, error) {
	path, err := os.MkdirTemp("", "udfgate-pool-")
	if err != nil {
		return folder{}, fmt.Errorf("pool folder: %w", err)
	}
	f := folder{path}
	for _, dir := range []string{f.home(), f.temp()} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return folder{}, errors.Join(fmt.Errorf("pool folder: %w", err), f.remove())
		}
	}
	return f, nil
}

func (f folder) home() string { return filepath.Join(f.path, "home") }
func (f folder) temp() string { return filepath.Join(f.path, "tmp") }

func (f folder) remove() error { return os.RemoveAll(f.path) }

// environment is the whole environment of a worker: nothing of the gateway's
// own but what names programs, language and time zone. added wins.
func environment(f folder, added []string) []string {
	env := []string{
		"HOME=" + f.home(),
		"TMPDIR=" + f.temp(),
		"PATH=" + cmp.Or(os.Getenv("PATH"), "/usr/local/bin:/usr/bin:/bin"),
		"LANG=" + cmp.Or(os.Getenv("LANG"), "C.UTF-8"),
		// Without both, a list of text that is marshalled gets fresh pages from
		// the kernel for every block: glibc gives memory over 128 KiB back.
		"MALLOC_MMAP_THRESHOLD_=67108864",
		"MALLOC_TRIM_THRESHOLD_=268435456",
		// Workers are the parallelism; a pool of threads in each fights over
		// the same cores.
		"OMP_NUM_THREADS=1",
		"OPENBLAS_NUM_THREADS=1",
		"MKL_NUM_THREADS=1",
	}
	if tz, ok := os.LookupEnv("TZ"); ok {
		env = append(env, "TZ="+tz)
	}
	for _, v := range added {
		key, _, _ := strings.Cut(v, "=")
		// getenv finds the first of two, so the other one has to go.
		env = slices.DeleteFunc(env, func(e string) bool { return strings.HasPrefix(e, key+"=") })
		env = append(env, v)
	}
	return env
}
