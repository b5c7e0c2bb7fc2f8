package programs

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of times in /proc/PID/stat; Linux shows 100 per second to
// every program, whatever the kernel counts in.
const tick = 10 * time.Millisecond

// CPU is processor time, user and system.
type CPU struct {
	Own      time.Duration // of the process, all its threads, ended ones too
	Children time.Duration // of its living children: a gateway's workers
}

// Sub is the time used since before.
func (c CPU) Sub(before CPU) CPU { return CPU{c.Own - before.Own, c.Children - before.Children} }

// CPU is what the program has used so far.
func (p *Program) CPU() (CPU, error) {
	own, err := cpuOf(p.PID)
	if err != nil {
		return CPU{}, err
	}
	c := CPU{Own: own}
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.PID))
	if err != nil {
		return CPU{}, err
	}
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if err != nil {
			continue // a thread that ended meanwhile
		}
		for word := range strings.FieldsSeq(string(text)) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				return CPU{}, fmt.Errorf("%s: %w", task, err)
			}
			if used, err := cpuOf(pid); err == nil { // else it ended meanwhile
				c.Children += used
			}
		}
	}
	return c, nil
}

func cpuOf(pid int) (time.Duration, error) {
	const utime, stime = 11, 12 // fields after the command's name, from 0
	file := fmt.Sprintf("/proc/%d/stat", pid)
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	// The name may hold blanks and parentheses.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) <= stime {
		return 0, fmt.Errorf("%s: wanted more than %d fields, got %d", file, stime, len(fields))
	}
	var ticks int64
	for _, field := range []int{utime, stime} {
		n, err := strconv.ParseInt(fields[field], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * tick, nil
}

// Memory is what a process has of the machine's, in bytes.
type Memory struct {
	RSS     int64 // pages shared with other processes count in full
	PSS     int64 // they count in part
	Private int64 // anonymous pages alone: heap and stacks, neither files nor arenas
}

// Memory is that of the program alone, without its children.
func (p *Program) Memory() (Memory, error) {
	file := fmt.Sprintf("/proc/%d/smaps_rollup", p.PID)
	text, err := os.ReadFile(file)
	if err != nil {
		return Memory{}, err
	}
	kib := map[string]int64{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Scan() // the range of addresses
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ":")
		n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return Memory{}, fmt.Errorf("%s: %w", file, err)
		}
		kib[key] = n
	}
	m := Memory{RSS: kib["Rss"] << 10, PSS: kib["Pss"] << 10, Private: kib["Anonymous"] << 10}
	if m.RSS == 0 || m.PSS == 0 || m.Private == 0 {
		return m, fmt.Errorf("%s: wanted Rss, Pss and Anonymous, got %v", file, kib)
	}
	return m, nil
}
