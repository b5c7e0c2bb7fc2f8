package deploy

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// python is what the stage python tells a runtime.
type python struct {
	env         []string
	entrypoint  []string
	cmd         []string
	healthcheck []string
	ports       []string
	user        string
	workdir     string
}

// readPython reads the stage and checks what can be checked without its base.
func readPython(t *testing.T) python {
	t.Helper()
	s := stages(t)["python"]
	if !regexp.MustCompile(`^python:3\.\d+\.\d+-slim-[a-z]+$`).MatchString(s.base) {
		t.Errorf("stage python: wanted a slim base pinned to a release, got %s", s.base)
	}
	var p python
	for _, i := range s.instructions {
		switch i.name {
		case "COPY":
			// TestStatic has made exactly this file.
			if from := i.flag(t, "from"); from != "static" || i.rest != "/udfgate /usr/local/bin/udfgate" {
				t.Fatalf("%v: wanted the binary of static, got --from=%s", i, from)
			}
		case "ENV":
			for _, pair := range i.pairs(t) {
				p.env = append(p.env, pair[0]+"="+pair[1])
			}
		case "LABEL":
			i.pairs(t)
		case "WORKDIR":
			p.workdir = i.rest
		case "USER":
			p.user = i.rest
		case "EXPOSE":
			p.ports = strings.Fields(i.rest)
		case "ENTRYPOINT":
			p.entrypoint = i.list(t)
		case "CMD":
			p.cmd = i.list(t)
		case "HEALTHCHECK":
			command, ok := strings.CutPrefix(i.rest, "CMD ")
			if err := json.Unmarshal([]byte(command), &p.healthcheck); !ok || err != nil {
				t.Fatalf("%v: wanted CMD and a JSON list (%v)", i, err)
			}
		}
	}
	return p
}

// What the image listens on, exposes and runs fit together.
func TestPythonStage(t *testing.T) {
	p := readPython(t)
	if p.user != "65532:65532" || p.workdir != "/functions" {
		t.Errorf("wanted user 65532:65532 in /functions, got %q in %q", p.user, p.workdir)
	}
	var ports []string
	for _, v := range p.env {
		name, address, _ := strings.Cut(v, "=")
		port, ok := strings.CutPrefix(address, "0.0.0.0:")
		if !ok || (name != "UDFGATE_LISTEN" && name != "UDFGATE_HTTP") {
			t.Errorf("ENV %s: wanted UDFGATE_LISTEN and UDFGATE_HTTP on 0.0.0.0", v)
		}
		ports = append(ports, port)
	}
	if !slices.Equal(ports, p.ports) {
		t.Errorf("EXPOSE: wanted the ports of ENV, %v, got %v", ports, p.ports)
	}
	if want := []string{"/usr/local/bin/udfgate"}; !slices.Equal(p.entrypoint, want) {
		t.Errorf("ENTRYPOINT: wanted %v, got %v", want, p.entrypoint)
	}
	if want := []string{"serve", p.workdir}; !slices.Equal(p.cmd, want) {
		t.Errorf("CMD: wanted %v, got %v", want, p.cmd)
	}
	if want := append(p.entrypoint, "functions"); !slices.Equal(p.healthcheck, want) {
		t.Errorf("HEALTHCHECK: wanted %v, which TestProcessOne runs, got %v", want, p.healthcheck)
	}
}
