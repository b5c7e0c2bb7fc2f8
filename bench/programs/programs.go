// Package programs starts the programs that benchmarks compare, each as a
// process of its own, and reads from /proc what they use. Linux only.
package programs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// Program is a started server.
type Program struct {
	Addr string // where it listens
	PID  int

	dir   string
	end   context.CancelFunc
	ended chan struct{} // closed once the process is gone
}

// Gateway says how to start `udfgate serve`.
type Gateway struct {
	Binary, Python, File string
	Workers              int      // most of them; 0 is the gateway's default
	Env                  []string // beside this process's own
}

// Start returns once every function is loaded. The gateway ends with ctx.
func (g Gateway) Start(ctx context.Context) (*Program, error) {
	args := []string{
		"serve", g.File, "--listen", "127.0.0.1:0", "--http", "off", "--python", g.Python, "--log-level", "warn",
	}
	if g.Workers > 0 {
		args = append(args, "--workers", strconv.Itoa(g.Workers))
	}
	return start(ctx, g.Binary, g.Env, args...)
}

// StartEcho starts a built bench/echo.
func StartEcho(ctx context.Context, binary string) (*Program, error) { return start(ctx, binary, nil) }

// start runs a program that writes the JSON of --ready-file once it listens.
func start(ctx context.Context, binary string, env []string, args ...string) (*Program, error) {
	dir, err := os.MkdirTemp("", "udfgate-bench-")
	if err != nil {
		return nil, err
	}
	ready := filepath.Join(dir, "ready.json")
	p := &Program{dir: dir, ended: make(chan struct{})}
	ctx, p.end = context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, binary, append(args, "--ready-file", ready)...)
	// Asked rather than killed, so that it can say goodbye to its workers.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = stopLimit
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		p.end()
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	p.PID = cmd.Process.Pid
	go func() {
		_ = cmd.Wait() // its status after an interrupt is of no use; before, stderr has said why
		close(p.ended)
	}()
	if p.Addr, err = p.awaitReady(ctx, ready); err != nil {
		p.Stop()
		return nil, fmt.Errorf("%s: %w", binary, err)
	}
	return p, nil
}

func (p *Program) awaitReady(ctx context.Context, file string) (addr string, err error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	look := time.NewTicker(readyPoll)
	defer look.Stop()
	for {
		select {
		case <-p.ended:
			return "", errors.New("ended before it was ready")
		case <-ctx.Done():
			return "", fmt.Errorf("not ready within %s", startLimit)
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

// Stop ends the program and waits for it. A nil Program is none.
func (p *Program) Stop() {
	if p == nil {
		return
	}
	p.end()
	<-p.ended
	_ = os.RemoveAll(p.dir)
}
