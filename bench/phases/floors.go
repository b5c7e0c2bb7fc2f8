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
	"strconv"
)

// mallocEnv are the variables that the gateway gives to its Python workers;
// the floor must not lose to them.
var mallocEnv = []string{"MALLOC_MMAP_THRESHOLD_=67108864", "MALLOC_TRIM_THRESHOLD_=268435456"}

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
