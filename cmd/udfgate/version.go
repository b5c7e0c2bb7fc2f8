package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version and commit are set by the Makefile (-ldflags -X); a plain go build
// or go install falls back to what Go itself recorded.
var version, commit string

type versionCmd struct {
	JSON bool `help:"Print it as JSON."`
}

// Help is kong's: it stands below the one line of the command.
func (*versionCmd) Help() string {
	return "Example: udfgate version --json"
}

type buildInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func readBuild() buildInfo {
	b := buildInfo{version, commit, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	if b.Version == "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && b.Commit == "" {
			b.Commit = s.Value[:min(12, len(s.Value))]
		}
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "devel"
	}
	if b.Commit == "" {
		b.Commit = "unknown"
	}
	return b
}

// Run prints the build.
func (v *versionCmd) Run(con *console) error {
	b := readBuild()
	if v.JSON {
		return printJSON(con.out, b)
	}
	_, err := fmt.Fprintf(con.out, "udfgate %s, commit %s, %s, %s\n", b.Version, b.Commit, b.Go, b.Platform)
	return err
}
