package deploy

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

const versionBuilt = "v0.0.0-deploy-test"

// out is what the stage build leaves in /out. Tests share it; it goes with the
// process, see TestMain.
var (
	work    string
	outOnce sync.Once
	out     string
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "udfgate-deploy-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	work = dir
	return m.Run()
}

// built carries out the stage build once: the files that .dockerignore leaves
// are copied as COPY does, and each RUN runs, with the temporary folder in the
// place of /out.
func built(t *testing.T) string {
	t.Helper()
	outOnce.Do(func() {
		dir := filepath.Join(work, "out")
		source := filepath.Join(work, "src")
		env := append(os.Environ(), "TARGETOS=linux", "TARGETARCH="+runtime.GOARCH, "VERSION="+versionBuilt, "COMMIT=0123456789ab")
		for _, i := range stages(t)["build"].instructions {
			switch i.name {
			case "ARG": // given above
				if name, _, _ := strings.Cut(i.rest, "="); !strings.Contains(strings.Join(env, "\n"), "\n"+name+"=") {
					t.Fatalf("%v: the test has no value for it", i)
				}
			case "ENV":
				for _, p := range i.pairs(t) {
					env = append(env, p[0]+"="+p[1])
				}
			case "WORKDIR":
				if i.rest != "/src" {
					t.Fatalf("%v: wanted /src", i)
				}
			case "COPY":
				if i.rest != ". ." || len(i.flags) != 0 {
					t.Fatalf("%v: wanted COPY . .", i)
				}
				copyContext(t, source)
			case "RUN":
				for _, f := range i.flags {
					if !strings.HasPrefix(f, "--mount=type=cache,") {
						t.Fatalf("%v: wanted no flag but cache mounts, got %s", i, f)
					}
				}
				// The umask is that of a container, whatever the tester's.
				cmd := exec.Command("sh", "-euc", "umask 022; "+strings.ReplaceAll(i.rest, "/out", dir))
				cmd.Dir, cmd.Env = source, env
				if text, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%v: %v\n%s", i, err, text)
				}
			}
		}
		out = dir
	})
	if out == "" {
		t.Fatal("the stage build failed in another test")
	}
	return out
}

func copyContext(t *testing.T, to string) {
	t.Helper()
	isOut := ignored(t)
	err := filepath.WalkDir(repository, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(repository, name)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && strings.HasPrefix(rel, ".") && rel != ".":
			return filepath.SkipDir // .git and the environments are large, and out
		case d.IsDir() || !d.Type().IsRegular() || isOut(filepath.ToSlash(rel)):
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		return os.WriteFile(target, text, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}
