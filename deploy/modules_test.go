package deploy

import (
	"debug/buildinfo"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write modules.allow anew")

// Every module in the binary, with the licence that lies beside it, is in
// modules.allow, and nothing else is: a new one is a decision somebody reads.
func TestModules(t *testing.T) {
	info, err := buildinfo.ReadFile(filepath.Join(built(t), "udfgate"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range info.Deps {
		dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", m.Path).Output()
		if err != nil {
			t.Fatalf("%s: %v", m.Path, err)
		}
		got = append(got, m.Path+" "+licence(t, strings.TrimSpace(string(dir))))
	}
	slices.Sort(got)
	const head = "# Modules in bin/udfgate and their licences. go test ./deploy -run TestModules -update writes this anew.\n"
	text := head + strings.Join(got, "\n") + "\n"
	if *update {
		if err := os.WriteFile("modules.allow", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	allowed, err := os.ReadFile("modules.allow")
	if err != nil {
		t.Fatal(err)
	}
	if string(allowed) != text {
		t.Errorf("modules.allow: wanted what is in the binary,\n%sgot\n%s", text, allowed)
	}
}

func licence(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "[Ll][Ii][Cc][Ee][Nn][SsCc][Ee]*"))
	if err == nil && len(files) == 0 {
		files, err = filepath.Glob(filepath.Join(dir, "COPYING*"))
	}
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no licence file (%v)", dir, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Join(strings.Fields(string(text)), " ")
	for _, l := range [][2]string{
		{"Apache License Version 2.0", "Apache-2.0"},
		{"Permission is hereby granted, free of charge", "MIT"},
		{"Redistribution and use in source and binary forms", "BSD"},
	} {
		if strings.Contains(words, l[0]) {
			return l[1]
		}
	}
	t.Fatalf("%s: wanted Apache-2.0, MIT or BSD, got another licence", files[0])
	return ""
}
