package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	client "github.com/udfgate/udfgate/clients/go"
)

// connectTime bounds the first contact of a client command.
const connectTime = 5 * time.Second

// clientFlags are those of every command that calls a gateway.
type clientFlags struct {
	Addr         string        `default:"127.0.0.1:8815" placeholder:"ADDR" help:"Gateway to call: host:port or unix:/path (${default})."`
	Serve        []string      `placeholder:"FILE.py" help:"Serve these files for the run, instead of calling a gateway."`
	Python       string        `default:"python3" placeholder:"PATH" help:"With --serve: interpreter or virtual environment (${default})."`
	StartTimeout time.Duration `default:"30s" placeholder:"D" help:"With --serve: longest start of a worker, its imports included (${default})."`
}

// Validate is kong's: it runs before Run, and its error is wrong use.
func (c *clientFlags) Validate() error {
	if c.StartTimeout <= 0 {
		return fmt.Errorf("--start-timeout: wanted more than 0s, got %s", c.StartTimeout)
	}
	return nil
}

// connect reaches the gateway that the flags name, or starts one for the run.
// done ends both.
func (c *clientFlags) connect(ctx context.Context, con *console) (gate *client.Client, done func(), err error) {
	addr, end := c.Addr, func() {}
	if len(c.Serve) > 0 {
		if addr, end, err = embed(ctx, con, c.Serve, c.Python, c.StartTimeout); err != nil {
			if ctx.Err() != nil {
				err = errInterrupted
			}
			return nil, nil, err
		}
	}
	if gate, err = dial(ctx, addr); err != nil {
		end()
		return nil, nil, err
	}
	return gate, func() {
		_ = gate.Close() // every answer has been read
		end()
	}, nil
}

func dial(ctx context.Context, addr string) (*client.Client, error) {
	if err := checkAddr(addr); err != nil {
		return nil, usage("--addr "+addr, fmt.Errorf("wanted host:port or unix:/path: %w", err), "")
	}
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	gate, err := client.Connect(ctx, addr)
	if errors.Is(err, client.ErrUnreachable) {
		hint := "start one with udfgate serve FILE.py, or give --addr or --serve FILE.py"
		if strings.Contains(err.Error(), "HTTP/1.1") {
			hint = "HTTP is spoken there; --addr takes a Flight address, one of serve --listen"
		}
		return nil, &failure{code: exitNoGate, err: err, hint: hint}
	}
	if err != nil {
		return nil, callFailed(err)
	}
	return gate, nil
}

// checkAddr tells an address that cannot be one from a gateway that is not
// there. What it lets through may still fail when it is dialled.
func checkAddr(addr string) error {
	if scheme, rest, ok := strings.Cut(addr, "://"); ok && !strings.HasSuffix(scheme, "unix") {
		addr = strings.TrimSuffix(rest, "/")
	} else if strings.HasPrefix(addr, "unix:") || ok {
		return nil
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("got port %q", port)
	}
	return nil
}

// embed starts a gateway of this process over a private socket. It logs errors
// only: what the caller has to know is in the answer or in its error.
func embed(ctx context.Context, con *console, paths []string, python string, startTimeout time.Duration) (addr string, done func(), err error) {
	log, err := newLogger(con.err, "text", "error")
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "udfgate-")
	if err != nil {
		return "", nil, &failure{code: exitNoGate, what: "temporary folder", err: cause(err)}
	}
	remove := func() { _ = os.RemoveAll(dir) } // the system clears what is left
	addr = "unix:" + filepath.Join(dir, "flight.sock")
	g, err := startGateway(ctx, settings{
		paths: paths, python: python, cores: runtime.GOMAXPROCS(0), log: log, listen: []string{addr}, http: "off",
		timeout: timeoutDefault, queueTimeout: queueTimeoutDefault, startTimeout: startTimeout, drainTimeout: drainTimeoutDefault,
		maxQueue: maxQueueDefault, messageBytesMax: messageBytesMaxDefault, batchRowsMax: batchRowsMaxDefault,
		inflightBytesMax: inflightDefault(), openStreamsMax: openStreamsMaxDefault,
		config: con.config, debug: con.debug,
	})
	if err != nil {
		remove()
		return "", nil, err
	}
	return addr, func() {
		g.close()
		remove()
	}, nil
}
