package layering

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	module = "github.com/udfgate/udfgate"
	root   = "../.." // of the repository, seen from this package
)

// A room is a top-level folder. It may import the vocabulary (the root
// package), internal/, itself, and the rooms named in may. Nothing else.
type room struct {
	may []string
	why string
}

// rooms is the whole map. A folder with Go files that is not listed fails the
// test: opening a room is a design decision, so it is written down here first.
var rooms = map[string]room{
	"codec":    {nil, "turns bytes into verified layouts and back; knows no process and no socket"},
	"native":   {[]string{"codec"}, "evaluates kernels in this process; knows no worker"},
	"sandbox":  {nil, "starts one confined process; knows nothing of Arrow"},
	"pool":     {[]string{"codec"}, "keeps workers warm; is handed a launcher, never picks one"},
	"server":   {[]string{"codec"}, "speaks Flight; is handed backends, never builds one"},
	"cmd":      {[]string{"codec", "native", "pool", "sandbox", "server", "clients", "loadtest", "examples"}, "is the only place where rooms meet"},
	"clients":  {nil, "sees the wire only"},
	"loadtest": {[]string{"clients"}, "measures from outside"},
	"bench":    {[]string{"clients"}, "rivals and comparisons, measured from outside"},
	"deploy":   {nil, "holds images and checks them by running the binary"},
	"examples": {[]string{"clients"}, "shows what a user writes"},
	"internal": {nil, "holds leaf packages only"},
}

// only names the rooms that may use an outside package (matched by path
// prefix), so that a capability lives in one place. Tests are exempt.
var only = map[string]room{
	"os/exec":                     {[]string{"sandbox", "cmd", "bench"}, "one room starts workers; commands run tools"},
	"syscall":                     {[]string{"sandbox", "codec", "cmd"}, "processes in sandbox, memfd and mmap in codec, signals in cmd"},
	"golang.org/x/sys":            {[]string{"sandbox", "codec", "internal"}, "processes in sandbox, memfd and mmap in codec, the clock in internal"},
	"unsafe":                      {[]string{"codec", "native"}, "only where bytes become columns"},
	"google.golang.org/grpc":      {[]string{"server", "clients", "cmd", "bench"}, "one room speaks gRPC"},
	"github.com/prometheus/":      {[]string{"internal", "cmd"}, "one package names the metrics"},
	"github.com/apache/arrow-go/": {[]string{"codec", "native", "server", "clients", "loadtest", "bench", "internal", "cmd"}, "pool and sandbox move bytes, not columns"},
}

func TestRooms(t *testing.T) {
	// Parsing here rather than running "go list" has two uses: files of every
	// build tag are seen, and the test cache knows which files it depends on.
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if b := d.Name(); name != root && (b == "testdata" || strings.HasPrefix(b, ".")) {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(name, ".go") {
			checkFile(t, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func checkFile(t *testing.T, name string) {
	t.Helper()
	rel, err := filepath.Rel(root, name)
	if err != nil {
		t.Fatal(err)
	}
	rel = filepath.ToSlash(rel)
	from := top(path.Dir(rel))
	r, known := rooms[from]
	if !known && from != "." {
		t.Errorf("%s: %q is not a known room; add it to rooms with a reason", rel, from)
		return
	}
	f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, imp := range f.Imports {
		p, err := strconv.Unquote(imp.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if p != module && !strings.HasPrefix(p, module+"/") {
			checkOutside(t, rel, from, p)
			continue
		}
		to := top(strings.TrimPrefix(strings.TrimPrefix(p, module), "/"))
		switch {
		case to == from:
		case from == ".":
			t.Errorf("%s: the vocabulary imports nothing of ours, not %s", rel, to)
		case to == "." || to == "internal":
			// Everyone speaks the vocabulary and may use the leaf helpers.
		case !slices.Contains(r.may, to):
			t.Errorf("%s: %s may not import %s: it %s", rel, from, to, r.why)
		}
	}
}

// Python's imports are not parsed; the one that matters is looked for.
func TestBenchKnowsNoWorker(t *testing.T) {
	seen := 0
	err := filepath.WalkDir(filepath.Join(root, "bench"), func(name string, d fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".py" {
			return err
		}
		seen++
		text, err := os.ReadFile(name)
		if strings.Contains(string(text), "udfgate_worker") {
			t.Errorf("%s: bench %s, and not with the worker's insides", name, rooms["bench"].why)
		}
		return err
	})
	if err != nil || seen == 0 {
		t.Errorf("%d files seen, %v", seen, err)
	}
}

func checkOutside(t *testing.T, file, from, imp string) {
	t.Helper()
	if strings.HasSuffix(file, "_test.go") {
		return
	}
	for prefix, r := range only {
		if strings.HasPrefix(imp, prefix) && !slices.Contains(r.may, from) {
			t.Errorf("%s: %s may not import %s: %s", file, from, imp, r.why)
		}
	}
}

// top returns the first element of a slash path, "." for the root package.
func top(p string) string {
	first, _, _ := strings.Cut(p, "/")
	if first == "" {
		return "."
	}
	return first
}
