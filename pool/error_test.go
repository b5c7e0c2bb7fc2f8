package pool

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/udfgate/udfgate"
)

// What a body raised goes to terminals, and must not act there.
func TestErrBody_isInert(t *testing.T) {
	for _, c := range []struct{ name, in, line, lines string }{
		{"plain", "größe 7 \U0001F600 \u200d", "größe 7 \U0001F600 \u200d", "größe 7 \U0001F600 \u200d"},
		{"breaks", "a\nb\r\nc\rd\te", `a b c d\x09e`, "a\nb\nc\\x0dd\te"},
		{"escape", "\x1b[2J\x1b]0;title\x07", `\x1b[2J\x1b]0;title\x07`, `\x1b[2J\x1b]0;title\x07`},
		{"nul and del", "\x00\x7f", `\x00\x7f`, `\x00\x7f`},
		{"c1", "\u0080\u009b31m\u009f\u00a0", "\\x80\\x9b31m\\x9f\u00a0", "\\x80\\x9b31m\\x9f\u00a0"},
		{"bidi", "\u202a\u202e\u2066\u2069\u202f\u2065", "\\u202a\\u202e\\u2066\\u2069\u202f\u2065", "\\u202a\\u202e\\u2066\\u2069\u202f\u2065"},
		{"not UTF-8", "a\xff\xfeb\x9b", "a\uFFFDb\uFFFD", "a\uFFFDb\uFFFD"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := errBody(&rowError{row: 3, kind: errorRaised, class: []byte(c.in), text: []byte(c.in), trace: []byte(c.in)}, udfgate.ModeRow)
			if e.Exception != c.line || e.Message != c.line+": "+c.line || e.Detail != c.lines {
				t.Errorf("want %q and %q, got %q %q %q", c.line, c.lines, e.Exception, e.Message, e.Detail)
			}
			if got := linesText(c.in); got != c.lines {
				t.Errorf("lines: want %q, got %q", c.lines, got)
			}
		})
	}
	e := errBody(&rowError{kind: errorRaised, class: []byte(strings.Repeat("\x1b", errorClassBytesMax))}, udfgate.ModeRow)
	if want := errorClassBytesMax + len("..."); len(e.Exception) != want {
		t.Errorf("class: want %d bytes, got %d", want, len(e.Exception))
	}
}

func TestLoadError_isInert(t *testing.T) {
	_, err := parseLoaded([]byte(`{"error":{"class":"\u001bE","message":"a\nb\u0007","file":"/srv/\u001b.py","line":1,"traceback":"x\n\ty\u001b"}}`))
	e, ok := errors.AsType[*LoadError](err)
	if !ok || e.Error() != `/srv/\x1b.py:1: \x1bE: a b\x07` || e.Traceback != "x\n\ty\\x1b" {
		t.Errorf("got %q, %q", err, e.Traceback)
	}
}

func TestLastWords_areInert(t *testing.T) {
	r := newRing()
	_, _ = r.Write([]byte("one\x1b[2J\r\ntwo\x00\n"))
	if got, want := r.tail(stderrDetailBytes), `one\x1b[2J`+"\ntwo\\x00"; got != want {
		t.Errorf("want %q, got %q", want, got)
	}
}

// A module that ends the process is named, though the worker cannot say more.
func TestPython_exitAtImport(t *testing.T) {
	c := Config{Launcher: pythonLauncher(t), WorkersMax: 1}
	for _, name := range []string{"one", "two", "three"} {
		file := t.TempDir() + "/" + name + ".py"
		text := "def f(n: int) -> int: return n\n"
		if name == "two" {
			text = "import os\nos._exit(0)\n"
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c.Files = append(c.Files, Module{name, file})
	}
	_, err := New(t.Context(), c)
	wantError(t, err, udfgate.StartFailed, "worker ended before the loading of two.py: exit status 0")
}
