package pool

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/udfgate/udfgate"
)

const twoOptions = `
@udf(timeout="3s", on_error="reject")
def own(v: int) -> int: return v

@udf
def plain(v: int) -> int: return v
`

// The owner's options are over the author's; what is left out stays.
func TestOverrides(t *testing.T) {
	h := newPython(t, twoOptions, func(c *Config) {
		c.Timeout = 10 * time.Second
		c.Overrides = map[string]Override{
			"m.own":   {OnError: udfgate.OnErrorFail},
			"plain":   {Timeout: 2 * time.Second, OnError: udfgate.OnErrorNull},
			"m.other": {Timeout: 1},
		}
	})
	own, plain := h.Functions()[0], h.Functions()[1]
	if own.OnError != udfgate.OnErrorFail || h.FunctionTimeout(own) != 3*time.Second || own.Signature() != "own(v int64) -> int64" {
		t.Errorf("%s: on_error %s, timeout %v", own.Signature(), own.OnError, h.FunctionTimeout(own))
	}
	if plain.OnError != udfgate.OnErrorNull || h.FunctionTimeout(plain) != 2*time.Second || plain.Signature() != "plain(v int64) -> int64?" {
		t.Errorf("%s: on_error %s, timeout %v", plain.Signature(), plain.OnError, h.FunctionTimeout(plain))
	}
}

// A limit of the owner's is named as the owner's when it is passed.
func TestOverrides_timeoutName(t *testing.T) {
	h := newPython(t, `
import time
@udf(timeout="1m")
def sleep(v: int) -> int: time.sleep(v)
`, func(c *Config) {
		c.Overrides = map[string]Override{"sleep": {Timeout: 50 * time.Millisecond, TimeoutName: "timeout of sleep in gate.yaml"}}
	})
	_, _, err := h.call("sleep", []int64{3600})
	wantError(t, err, udfgate.Timeout, "timeout after 50ms (timeout of sleep in gate.yaml)")
}

// The least limit binds, and a short name of two functions means neither.
func TestOverrides_ambiguous(t *testing.T) {
	set := &loadedSet{
		functions: []*udfgate.Function{{Module: "a", Name: "f"}, {Module: "b", Name: "f"}},
		timeouts:  make([]limit, 2),
	}
	c := Config{Overrides: map[string]Override{"f": {Timeout: 1}, "b.f": {Timeout: 2}}}
	c.override(set)
	if set.timeouts[0].length != 0 || set.timeouts[1].length != 2 {
		t.Errorf("timeouts %v", set.timeouts)
	}
}

// A module is imported by its name from the path, and its file is part of the
// version, as that of a served file is.
func TestModuleByName(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "shop", "price.py")
	write := func(text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	versions := map[string]bool{}
	for _, text := range []string{"def f(v: int) -> int: return v\n", "def f(v: int) -> int: return 2 * v\n"} {
		write(text)
		p, err := New(t.Context(), Config{Launcher: pythonLauncher(t), Files: []Module{{Name: "shop.price"}}, Path: []string{dir}, PrivateArenas: testPrivate()})
		if err != nil {
			t.Fatal(err)
		}
		f := p.Functions()[0]
		if f.Canonical() != "shop.price.f" || p.FunctionFile(f) != file {
			t.Errorf("%s from %s, want shop.price.f from %s", f.Canonical(), p.FunctionFile(f), file)
		}
		versions[f.Version] = true
		p.Close(context.Background())
	}
	if len(versions) != 2 {
		t.Errorf("versions %v, want two", versions)
	}
	_, err := New(t.Context(), Config{Launcher: pythonLauncher(t), Files: []Module{{Name: "shop.nowhere"}}, Path: []string{dir}, PrivateArenas: testPrivate()})
	e, ok := errors.AsType[*LoadError](err)
	if !ok || e.Class != "ModuleNotFoundError" || e.File != "shop.nowhere" || !strings.Contains(e.Message, "shop.nowhere") {
		t.Errorf("error %v", err)
	}
}
