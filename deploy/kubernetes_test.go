package deploy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"
)

// What a cluster and compose are told fits the binary and the image: flags
// exist, ports are those exposed, and the grace is longer than the drain.
func TestKubernetes(t *testing.T) {
	text, err := os.ReadFile("kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]map[string]any{}
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var doc map[string]any
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		kinds[fmt.Sprint(doc["kind"])] = doc
	}
	pod := at[map[string]any](t, kinds["Deployment"], "spec", "template", "spec")
	box := at[map[string]any](t, pod, "containers", 0)
	grace := time.Duration(at[int](t, pod, "terminationGracePeriodSeconds")) * time.Second
	checkFlags(t, at[[]any](t, box, "args"), grace)
	p := readPython(t)
	for n, port := range p.ports {
		for _, list := range []any{at[int](t, box, "ports", n, "containerPort"), at[int](t, kinds["Service"], "spec", "ports", n, "port"), at[int](t, kinds["NetworkPolicy"], "spec", "ingress", 0, "ports", n, "port")} {
			if fmt.Sprint(list) != port {
				t.Errorf("port %d: wanted %s as in EXPOSE, got %v", n, port, list)
			}
		}
	}
	if user := fmt.Sprint(at[int](t, pod, "securityContext", "runAsUser")); !strings.HasPrefix(p.user, user+":") {
		t.Errorf("runAsUser: wanted %s, got %s", p.user, user)
	}
	for probe, want := range map[string]string{"readinessProbe": "/readyz", "livenessProbe": "/healthz"} {
		if got := at[string](t, box, probe, "httpGet", "path"); got != want {
			t.Errorf("%s: wanted %s, got %s", probe, want, got)
		}
	}

	text, err = os.ReadFile(repository + "/examples/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var compose map[string]any
	if err := yaml.Unmarshal(text, &compose); err != nil {
		t.Fatal(err)
	}
	service := at[map[string]any](t, compose, "services", "udfgate")
	grace, err = time.ParseDuration(at[string](t, service, "stop_grace_period"))
	if err != nil {
		t.Fatal(err)
	}
	checkFlags(t, at[[]any](t, service, "command"), grace)
}

func checkFlags(t *testing.T, args []any, grace time.Duration) {
	t.Helper()
	help, err := exec.Command(filepath.Join(built(t), "udfgate"), "serve", "--help").CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	drain := time.Duration(0)
	for _, a := range args {
		name, value, _ := strings.Cut(fmt.Sprint(a), "=")
		if strings.HasPrefix(name, "--") && !strings.Contains(string(help), " "+name+" ") && !strings.Contains(string(help), " "+name+"=") {
			t.Errorf("%s: udfgate serve has no such flag", name)
		}
		if name == "--drain-timeout" {
			if drain, err = time.ParseDuration(value); err != nil {
				t.Error(err)
			}
		}
	}
	if drain == 0 || grace <= drain {
		t.Errorf("wanted a grace longer than --drain-timeout, got %s and %s", grace, drain)
	}
}

// at follows keys and indices; what is missing or of another type fails.
func at[T any](t *testing.T, from any, keys ...any) T {
	t.Helper()
	for _, k := range keys {
		switch k := k.(type) {
		case string:
			m, _ := from.(map[string]any)
			from = m[k]
		case int:
			l, _ := from.([]any)
			if k >= len(l) {
				t.Fatalf("%v: wanted an entry %d, got %d", keys, k, len(l))
			}
			from = l[k]
		}
	}
	v, ok := from.(T)
	if !ok {
		t.Fatalf("%v: wanted %T, got %T", keys, v, from)
	}
	return v
}
