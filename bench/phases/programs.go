package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

const (
	startLimit = 30 * time.Second
	stopLimit  = 10 * time.Second
	readyPoll  = 5 * time.Millisecond
)

// mallocEnv are the variables that the gateway gives to its Python workers;
// the floor must not lose to them.
var mallocEnv = []string{"MALLOC_MMAP_THRESHOLD_=67108864", "MALLOC_TRIM_THRESHOLD_=268435456"}

// gateway is a started `udfgate serve` with one worker.
type gateway struct {
	dir  string
	addr string
	done chan struct{} // closed once the process is gone
}

// startGateway returns once every function is loaded. The gateway ends with
// ctx.
func startGateway(ctx context.Context, binary, python, file string) (*gateway, error) {
	dir, err := os.MkdirTemp("", "bench-phases-")
	if err != nil {
		return nil, err
	}
	ready := filepath.Join(dir, "ready.json")
	cmd := exec.CommandContext(ctx, binary, "serve", file, "--listen", "127.0.0.1:0",
		"--http", "off", "--workers", "1", "--ready-file", ready, "--python", python, "--log-level", "warn")
	// Asked rather than killed, so that it can say goodbye to its worker.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = stopLimit
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	g := &gateway{dir: dir, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // its status after an interrupt is of no use; before, stderr has said why
		close(g.done)
	}()
	if g.addr, err = g.awaitReady(ctx, ready); err != nil {
		return g, err
	}
	return g, nil
}

func (g *gateway) awaitReady(ctx context.Context, file string) (addr string, err error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	look := time.NewTicker(readyPoll)
	defer look.Stop()
	for {
		select {
		case <-g.done:
			return "", errors.New("the gateway ended before it was ready")
		case <-ctx.Done():
			return "", fmt.Errorf("the gateway was not ready within %s", startLimit)
		case <-look.C:
		}
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		var ready struct {
			Flight []string `json:"flight"`
		}
		if err := json.Unmarshal(text, &ready); err != nil || len(ready.Flight) == 0 {
			return "", fmt.Errorf("ready file: wanted an address, got %q", text)
		}
		return ready.Flight[0], nil
	}
}

// stop waits for the gateway, whose context has ended.
func (g *gateway) stop() {
	if g == nil {
		return
	}
	<-g.done
	_ = os.RemoveAll(g.dir)
}

// floor is one pass of floors.py, nanoseconds for all rows.
type floor struct{ Decode, Body, Encode float64 }

// floors is a running floors.py.
type floors struct {
	in  io.WriteCloser
	out *bufio.Reader
	cmd *exec.Cmd
}

func startFloors(ctx context.Context, python, script string, rows int) (*floors, error) {
	f := &floors{cmd: exec.CommandContext(ctx, python, "-I", "-S", script, strconv.Itoa(rows))}
	f.cmd.Env = mallocEnv
	f.cmd.Stderr = os.Stderr
	out, err := f.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	f.out = bufio.NewReader(out)
	if f.in, err = f.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return f, f.cmd.Start()
}

// pass runs the steps of one case once.
func (f *floors) pass(name string) (floor, error) {
	if _, err := fmt.Fprintln(f.in, name); err != nil {
		return floor{}, err
	}
	line, err := f.out.ReadBytes('\n')
	if err != nil {
		return floor{}, fmt.Errorf("floors.py: %w", err)
	}
	var got floor
	return got, json.Unmarshal(line, &got)
}

func (f *floors) stop() error {
	return errors.Join(f.in.Close(), f.cmd.Wait())
}
