package server

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestNewRefusesWithTheFlagsName(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for text, c := range map[string]Config{
		"--listen 0.0.0.0:0: wanted a loopback address or --insecure":    {Listen: []string{"0.0.0.0:0"}},
		"--listen :0: wanted a loopback address or --insecure":           {Listen: []string{":0"}},
		"--http 0.0.0.0:0: wanted a loopback address or --insecure":      {HTTP: "0.0.0.0:0"},
		"--listen nonsense: wanted host:port or unix:/path":              {Listen: []string{"nonsense"}},
		"address already in use":                                         {Listen: []string{taken.Addr().String()}},
		"--listen unix:" + file + ": the file is there and is no socket": {Listen: []string{"unix:" + file}},
		"--listen unix:: wanted unix:/path":                              {Listen: []string{"unix:"}},
		"--max-message-bytes: wanted more than 0, got -1":                {MessageBytesMax: -1},
		"window: wanted 1 to 16 batches":                                 {Window: 17},

		"--max-connections: wanted more than 0, got -1": {ConnectionsMax: -1},
		"--max-streams: wanted more than 0, got -1":     {OpenStreamsMax: -1},

		"--max-connections 1000 × 1.2 MiB of HTTP/2 window and buffers each are more than --max-inflight-bytes 100 MiB: wanted at most 84 connections": {
			ConnectionsMax: 1000, InflightBytesMax: 100 << 20,
		},
	} {
		if c.Listen == nil {
			c.Listen = []string{"127.0.0.1:0"}
		}
		if c.HTTP == "" {
			c.HTTP = "off"
		}
		if err := Check(c); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("Check: got %v\nwanted %s", err, text)
		}
		s, err := New(c, &Table{})
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v\nwanted %s", err, text)
		}
		if err == nil {
			s.unbind()
		}
	}
	c := Config{Window: -1, DrainTimeout: -2, Listen: []string{"127.0.0.1:0"}}
	if _, err := New(c, &Table{}); err == nil || !strings.Contains(err.Error(), "window") || !strings.Contains(err.Error(), "--drain-timeout") {
		t.Errorf("wanted every fault at once, got %v", err)
	}
}

func TestConnectionsFollowTheBudget(t *testing.T) {
	for budget, want := range map[int64]int{1 << 30: 862, 8 << 30: 4096, 256 << 20: 215, 1 << 20: 64} {
		c := Config{InflightBytesMax: budget}
		c.ensureDefaults()
		if err := c.validate(); err != nil || c.ConnectionsMax != want {
			t.Errorf("budget of %d: %d connections, %v; wanted %d", budget, c.ConnectionsMax, err, want)
		}
	}
}

func TestUnixSockets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gate.sock")
	stale, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = stale.Close() // the file stays, as after a crash
	g := start(t, Config{Listen: []string{"unix:" + path, "127.0.0.1:0"}}, map[string]body{"echo": echo})
	if got := g.Addrs(); got[0] != "unix:"+path || !strings.HasPrefix(got[1], "127.0.0.1:") {
		t.Errorf("bound %v", got)
	}
	c := g.open("echo")
	c.send(ints(1))
	c.want(1)
	if b := c.finish(); b.Principal != "unix" {
		t.Errorf("principal %q", b.Principal)
	}
	if _, err := New(Config{Listen: []string{"unix:" + path}, HTTP: "off"}, &Table{}); err == nil || !errors.Is(err, ErrTaken) || !strings.Contains(err.Error(), "another process listens there") {
		t.Errorf("a second gateway on one socket: %v", err)
	}
	_ = g.drain()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left behind: %v", err)
	}
}

// Check leaves nothing bound behind.
func TestCheckLetsGo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gate.sock")
	c := Config{Listen: []string{"unix:" + path, "127.0.0.1:0"}, HTTP: "127.0.0.1:0"}
	for range 2 {
		if err := Check(c); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left behind: %v", err)
	}
}

// lockedBuffer is a log that a test may read while others write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
