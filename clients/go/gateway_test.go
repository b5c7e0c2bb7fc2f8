package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	client "github.com/udfgate/udfgate/clients/go"
	"go.uber.org/goleak"
)

const startMax = 30 * time.Second

// The tests call real gateways: processes of the binary that UDFGATE_BINARY
// names, or of one built for this run. shared serves testdata/functions.py to
// all tests that do not end it.
var (
	scratch string // folder of this run
	shared  *gateway
)

func TestMain(m *testing.M) {
	code := 1
	// Before goleak looks, so that a gateway's end is part of the run.
	goleak.VerifyTestMain(runner(func() int {
		var err error
		if scratch, err = os.MkdirTemp("", "udfgate-client-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return code
		}
		defer os.RemoveAll(scratch)
		if shared, err = startGateway("testdata/functions.py", "127.0.0.1:0"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return code
		}
		code = m.Run()
		if err := shared.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "the shared gateway:", err)
			code = 1
		}
		return code
	}))
}

// runner is what goleak takes for a testing.M.
type runner func() int

func (r runner) Run() int { return r() }

var binary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("UDFGATE_BINARY"); path != "" {
		return path, nil
	}
	path := filepath.Join(scratch, "udfgate")
	build := exec.Command("go", "build", "-o", path, "github.com/udfgate/udfgate/cmd/udfgate")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

// gateway is a process of its own.
type gateway struct {
	cmd  *exec.Cmd
	addr string
}

// startGateway returns once the functions of a file are loaded.
func startGateway(file, listen string, flags ...string) (*gateway, error) {
	program, err := binary()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(scratch, "")
	if err != nil {
		return nil, err
	}
	ready := filepath.Join(dir, "ready.json")
	g := &gateway{cmd: exec.Command(program, append([]string{
		"serve", file, "--listen", listen, "--http", "off",
		"--ready-file", ready, "--log-level", "error", "--workers", "2",
	}, flags...)...)}
	g.cmd.Stderr = os.Stderr
	if err := g.cmd.Start(); err != nil {
		return nil, err
	}
	if g.addr, err = awaitReady(ready); err != nil {
		return nil, errors.Join(err, g.cmd.Process.Kill(), g.cmd.Wait())
	}
	return g, nil
}

func awaitReady(file string) (addr string, err error) {
	for from := time.Now(); time.Since(from) < startMax; time.Sleep(2 * time.Millisecond) {
		text, err := os.ReadFile(file) // the file is all there is to look at
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var told struct{ Flight []string }
		if err == nil {
			err = json.Unmarshal(text, &told)
		}
		if err != nil {
			return "", err
		}
		return told.Flight[0], nil
	}
	return "", fmt.Errorf("the gateway was not ready within %s", startMax)
}

// drain asks the gateway to end once its calls have.
func (g *gateway) drain() error { return g.cmd.Process.Signal(syscall.SIGTERM) }

// stop drains and waits for the end.
func (g *gateway) stop() error { return errors.Join(g.drain(), g.cmd.Wait()) }

// serve starts a gateway that ends with the test, if the test has not ended it.
func serve(t *testing.T, file, listen string, flags ...string) *gateway {
	t.Helper()
	g, err := startGateway(file, listen, flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if g.cmd.ProcessState != nil {
			return
		}
		if err := g.stop(); err != nil {
			t.Errorf("the gateway ended with %v", err)
		}
	})
	return g
}

// connect dials an address until the test ends.
func connect(t *testing.T, addr string, opts ...client.ConnectOption) *client.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startMax)
	defer cancel()
	c, err := client.Connect(ctx, addr, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

var schema = arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int64}}, nil)

func batch(values ...int64) arrow.RecordBatch {
	b := array.NewInt64Builder(memory.DefaultAllocator)
	b.AppendValues(values, nil)
	return array.NewRecordBatch(schema, []arrow.Array{b.NewArray()}, int64(len(values)))
}

// batches are what a file might hold.
var batches = []arrow.RecordBatch{batch(1, 2), batch(3)}

func values(b arrow.RecordBatch) []int64 { return b.Column(0).(*array.Int64).Int64Values() }
