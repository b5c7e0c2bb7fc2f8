package main

import (
	"bufio"
	"math"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"

	"github.com/shirou/gopsutil/v4/mem"
)

// takeCores returns how many cores this process may use, and keeps Go itself
// to one of them where there are only two or fewer: with a worker on the other
// core, every hand-over of a small call between two of Go's own threads costs
// 40–50 µs, which is more than the second core gives back. Who sets the
// GOMAXPROCS variable has decided otherwise. An embedded gateway does without:
// its caller's own work, such as reading a file, would keep it off the one
// core, and the wait would stand in the bill as crossing.
func takeCores() int {
	cores := runtime.GOMAXPROCS(0) // knows affinity and cgroup quota
	if cores <= 2 && os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
	return cores
}

// inflightDefault is a quarter of the memory that this process may use.
func inflightDefault() int64 { return memoryLimit() / 4 }

// memoryUnknown stands in where neither a cgroup nor the system tells.
const memoryUnknown = 4 << 30

// memoryLimit is the least of the machine's memory and the limits of the
// cgroups above this process.
func memoryLimit() int64 {
	limit := int64(memoryUnknown)
	if ram, err := mem.VirtualMemory(); err == nil && ram.Total > 0 && ram.Total < math.MaxInt64 {
		limit = int64(ram.Total)
	}
	groups, err := os.Open("/proc/self/cgroup")
	if err != nil { // not Linux
		return limit
	}
	defer groups.Close()
	for s := bufio.NewScanner(groups); s.Scan(); {
		for _, name := range limitFiles(s.Text()) {
			if n, ok := readLimit(name); ok {
				limit = min(limit, n)
			}
		}
	}
	return limit
}

// limitFiles are the files that bound the memory of a cgroup, from a line of
// /proc/self/cgroup: its own and those above it, in version 2 or 1. Inside a
// container the group may be mounted as the root; the walk ends there.
func limitFiles(line string) []string {
	part := strings.SplitN(line, ":", 3)
	if len(part) != 3 {
		return nil
	}
	root, file := "/sys/fs/cgroup", "memory.max"
	if part[0] != "0" || part[1] != "" {
		if part[1] != "memory" {
			return nil
		}
		root, file = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
	}
	var names []string
	for group := path.Clean("/" + part[2]); ; group = path.Dir(group) {
		names = append(names, path.Join(root, group, file))
		if group == "/" {
			return names
		}
	}
}

// readLimit is false for a file that is not there, for "max", and for the huge
// number that version 1 writes for it.
func readLimit(name string) (int64, bool) {
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil && n > 0
}
