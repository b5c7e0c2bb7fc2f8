package deploy

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const repository = ".." // seen from this package

// instruction is one of a Dockerfile, its flags (--from=build) taken off.
type instruction struct {
	line  int
	name  string
	flags []string
	rest  string
}

func (i instruction) String() string {
	return fmt.Sprintf("Dockerfile line %d: %s %s", i.line, i.name, i.rest)
}

// flag is the value of the only flag an instruction may have here, "" if it
// has none. Any other flag fails: its meaning would be lost.
func (i instruction) flag(t *testing.T, name string) string {
	t.Helper()
	value := ""
	for _, f := range i.flags {
		v, ok := strings.CutPrefix(f, "--"+name+"=")
		if !ok {
			t.Fatalf("%v: wanted no flag but --%s, got %s", i, name, f)
		}
		value = v
	}
	return value
}

// list is the JSON form of ENTRYPOINT and CMD. The other form needs a shell,
// which the images do not have or do not want as process 1.
func (i instruction) list(t *testing.T) []string {
	t.Helper()
	var words []string
	if err := json.Unmarshal([]byte(i.rest), &words); err != nil {
		t.Fatalf("%v: wanted a JSON list: %v", i, err)
	}
	return words
}

var pairPattern = regexp.MustCompile(`^([A-Za-z0-9_.]+)=(?:"([^"\\$]*)"|([^"\\$\s]*))(?:\s+|$)`)

// pairs are the KEY=VALUE of ENV and LABEL, in their order.
func (i instruction) pairs(t *testing.T) (pairs [][2]string) {
	t.Helper()
	for rest := i.rest; rest != ""; {
		m := pairPattern.FindStringSubmatch(rest)
		if m == nil {
			t.Fatalf("%v: wanted KEY=VALUE, got %q", i, rest)
		}
		pairs = append(pairs, [2]string{m[1], m[2] + m[3]})
		rest = rest[len(m[0]):]
	}
	return pairs
}

type stage struct {
	base, name   string
	instructions []instruction
}

// stages reads the Dockerfile. known names the instructions of each stage that
// the tests carry out or check; another one fails, so that neither the images
// nor the tests get ahead of the other.
func stages(t *testing.T) map[string]stage {
	t.Helper()
	known := map[string]string{
		"build":  "ARG ENV WORKDIR COPY RUN",
		"static": "LABEL ENV WORKDIR COPY USER ENTRYPOINT",
		"python": "LABEL ENV WORKDIR COPY USER ENTRYPOINT CMD EXPOSE HEALTHCHECK",
	}
	text, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	all, last := map[string]stage{}, ""
	for _, i := range parse(t, string(text)) {
		if i.name == "FROM" {
			words := strings.Fields(i.rest)
			if len(words) != 3 || words[1] != "AS" || known[words[2]] == "" {
				t.Fatalf("%v: wanted FROM image AS one of %v", i, known)
			}
			last = words[2]
			all[last] = stage{base: words[0], name: last}
			continue
		}
		s, ok := all[last]
		if !ok || !slices.Contains(strings.Fields(known[last]), i.name) {
			t.Fatalf("%v: stage %q: no test knows this instruction", i, last)
		}
		s.instructions = append(s.instructions, i)
		all[last] = s
	}
	if len(all) != len(known) || last != "python" {
		t.Fatalf("wanted the stages build, static and, as the default, python; got %d, the last %q", len(all), last)
	}
	return all
}

// parse joins continued lines and takes comments out, also those in between.
func parse(t *testing.T, text string) (list []instruction) {
	t.Helper()
	var joined strings.Builder
	start := 0
	for n, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if joined.Len() == 0 {
			start = n + 1
		}
		head, more := strings.CutSuffix(line, `\`)
		joined.WriteString(head)
		if more {
			continue
		}
		name, rest, _ := strings.Cut(joined.String(), " ")
		joined.Reset()
		i := instruction{line: start, name: name}
		// HEALTHCHECK has flags of its own, and a command behind them.
		for rest = strings.TrimSpace(rest); strings.HasPrefix(rest, "--"); rest = strings.TrimSpace(rest) {
			var flag string
			flag, rest, _ = strings.Cut(rest, " ")
			i.flags = append(i.flags, flag)
		}
		i.rest = rest
		list = append(list, i)
	}
	if joined.Len() > 0 {
		t.Fatalf("Dockerfile line %d: the last line is continued", start)
	}
	return list
}

// ignored reads .dockerignore and tells which paths stay out of the build. The
// last pattern that names a path or a folder above it decides.
func ignored(t *testing.T) func(name string) bool {
	t.Helper()
	text, err := os.ReadFile(repository + "/.dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	var patterns []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			if rest := strings.TrimPrefix(strings.TrimPrefix(line, "!"), "**/"); strings.Contains(rest, "**") {
				t.Fatalf(".dockerignore: %q: ** is known at the beginning only", line)
			}
			patterns = append(patterns, line)
		}
	}
	return func(name string) bool {
		out := false
		for _, p := range patterns {
			p, in := strings.CutPrefix(p, "!")
			if names(p, name) {
				out = !in
			}
		}
		return out
	}
}

func names(pattern, name string) bool {
	base, anywhere := strings.CutPrefix(pattern, "**/")
	for ; name != "."; name = path.Dir(name) {
		subject := name
		if anywhere {
			subject = path.Base(name)
		}
		if ok, err := path.Match(base, subject); err == nil && ok {
			return true
		}
	}
	return false
}

// The build of the image and that of the Makefile are one.
func TestSameBuild(t *testing.T) {
	makefile, err := os.ReadFile(repository + "/Makefile")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^LDFLAGS := (.*)$`).FindSubmatch(makefile)
	if m == nil {
		t.Fatal("Makefile: wanted a line LDFLAGS := ...")
	}
	ldflags := strings.NewReplacer("$(", "$", ")", "").Replace(string(m[1]))
	var run string
	for _, i := range stages(t)["build"].instructions {
		if i.name == "RUN" && strings.Contains(i.rest, "go build") {
			run = i.rest
		}
	}
	for _, want := range []string{`-ldflags "` + ldflags + `"`, "-trimpath", "./cmd/udfgate"} {
		if !strings.Contains(run, want) {
			t.Errorf("Dockerfile: wanted %s as in the Makefile, got RUN %s", want, run)
		}
	}
	for _, want := range []string{"CGO_ENABLED=0 $(GO) build -trimpath", "GOFLAGS := -buildvcs=false"} {
		if !strings.Contains(string(makefile), want) {
			t.Errorf("Makefile: wanted %q, which the Dockerfile does", want)
		}
	}
}
