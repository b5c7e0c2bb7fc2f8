package client_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The program of the README runs as it stands, but for the address, and prints
// what it says.
func TestReadme_program(t *testing.T) {
	_, program, _ := strings.Cut(readme(t), "```go\n")
	program, _, found := strings.Cut(program, "```\n")
	const addr = `"127.0.0.1:8815"`
	if !found || !strings.Contains(program, addr) {
		t.Fatalf("no program that connects to %s: %q", addr, program)
	}
	_, want, _ := strings.Cut(program, ") // ")
	want, _, _ = strings.Cut(want, "\n")
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(strings.Replace(program, addr, `"`+shared.addr+`"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := exec.Command("go", "run", file).CombinedOutput()
	if err != nil || want == "" || strings.TrimSpace(string(got)) != want {
		t.Errorf("wanted %q, got %q, %v", want, got, err)
	}
}

// Every option has a row.
func TestReadme_options(t *testing.T) {
	page := readme(t)
	f, err := parser.ParseFile(token.NewFileSet(), "option.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(fn.Name.Name, "With") {
			found++
			if !strings.Contains(page, "\n| `"+fn.Name.Name+"(") {
				t.Errorf("README.md: no row for %s", fn.Name.Name)
			}
		}
	}
	if found == 0 {
		t.Fatal("option.go has no options: have they moved?")
	}
}
