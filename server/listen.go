package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"
)

const (
	unixPrefix      = "unix:"
	staleDialMax    = time.Second     // to find out whether a socket still has a listener
	listenLookupMax = 5 * time.Second // to resolve a listen address
)

// ErrTaken is an address that another process listens on, where the system
// itself would not say so.
var ErrTaken = errors.New("another process listens there")

// listen binds an address of a flag: host:port, or unix:/path.
func listen(flag, addr string, insecure bool) (net.Listener, error) {
	if path, ok := strings.CutPrefix(addr, unixPrefix); ok {
		return listenUnix(flag, path)
	}
	ctx, cancel := context.WithTimeout(context.Background(), listenLookupMax)
	defer cancel()
	ip, port, err := resolveListen(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", flag, addr, err)
	}
	if !ip.IsLoopback() && !insecure {
		return nil, fmt.Errorf("%s %s: wanted a loopback address or --insecure: TLS and tokens are not built yet, so anybody who reaches the port could call", flag, addr)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(ip.String(), port))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", flag, addr, err)
	}
	return l, nil
}

// resolveListen returns the one address to bind: what was checked to be
// loopback must be what is bound. An empty host is every interface.
func resolveListen(ctx context.Context, addr string) (net.IP, string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, "", fmt.Errorf("wanted host:port or unix:/path: %w", err)
	}
	if host == "" {
		return net.IPv6unspecified, port, nil
	}
	found, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil {
		return nil, "", err
	}
	for _, a := range found { // localhost: clients try IPv4 first more often than not
		if a.IP.To4() != nil {
			return a.IP, port, nil
		}
	}
	return found[0].IP, port, nil
}

// listenUnix binds a socket. A file left behind by a process that is gone is
// replaced; one with somebody behind it is not.
func listenUnix(flag, path string) (net.Listener, error) {
	if path == "" {
		return nil, fmt.Errorf("%s %s: wanted unix:/path", flag, unixPrefix)
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("%s %s%s: %w", flag, unixPrefix, path, err)
	case info.Mode()&fs.ModeSocket == 0:
		return nil, fmt.Errorf("%s %s%s: the file is there and is no socket", flag, unixPrefix, path)
	default:
		if !stale(path) {
			return nil, fmt.Errorf("%s %s%s: %w", flag, unixPrefix, path, ErrTaken)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("%s %s%s: remove stale socket: %w", flag, unixPrefix, path, err)
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("%s %s%s: %w", flag, unixPrefix, path, err)
	}
	return l, nil
}

// stale tells a socket that nobody listens on. One that is too busy to answer,
// or not ours to ask, has somebody behind it.
func stale(path string) bool {
	c, err := net.DialTimeout("unix", path, staleDialMax)
	if err == nil {
		_ = c.Close()
		return false
	}
	busy, ok := errors.AsType[net.Error](err)
	return (!ok || !busy.Timeout()) && !errors.Is(err, fs.ErrPermission)
}

// addrOf is a listener's address as users write it.
func addrOf(l net.Listener) string {
	if l.Addr().Network() == "unix" {
		return unixPrefix + l.Addr().String()
	}
	return l.Addr().String()
}
