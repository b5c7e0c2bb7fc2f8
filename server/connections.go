package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/udfgate/udfgate"
	"golang.org/x/net/http2"
)

const (
	// connectionPatience is how long a new connection waits for one of those
	// that are open to end: a burst must not fail for a moment's overlap.
	connectionPatience = time.Second
	// fullLogEvery is the least time between two lines about too many.
	fullLogEvery = time.Minute
	// turnAwayMax bounds how long a client has to read that it was turned away,
	// turnAwaysMax how many are told at once; the others are closed on.
	turnAwayMax  = time.Second
	turnAwaysMax = 64
)

// connections counts the open connections of several listeners together. One
// too many waits a moment and is then told the limit. To leave it in the
// kernel's queue would cost nothing, but its client would see a connection that
// never answers, and nobody would know why.
type connections struct {
	free    chan struct{} // one token per connection that may still be opened
	limit   string        // as errors quote it
	refusal []byte        // what a client that is turned away gets to read
	asked   bool          // it gets that once it has asked something
	logger  *slog.Logger
	counted func() // is called for each that is turned away

	full    atomic.Bool // the last one waited in vain, and none has ended since
	telling chan struct{}

	mu     sync.Mutex
	logged time.Time
}

func newConnections(limit int, name string, refusal func(text string) []byte, logger *slog.Logger, counted func()) *connections {
	c := &connections{
		free: make(chan struct{}, limit), limit: fmt.Sprintf("%s %d", name, limit),
		logger: logger, counted: counted, telling: make(chan struct{}, turnAwaysMax),
	}
	c.refusal = refusal("every connection is taken: " + c.limit)
	for range limit {
		c.free <- struct{}{}
	}
	return c
}

// on makes l turn clients away while too many connections are open.
func (c *connections) on(l net.Listener) net.Listener {
	return &limitedListener{Listener: l, connections: c, closed: make(chan struct{})}
}

// take takes a place for a connection; false if there is none.
func (c *connections) take(closed <-chan struct{}) bool {
	select {
	case <-c.free:
		return true
	default:
	}
	c.noteFull()
	if c.full.Load() {
		return false
	}
	timer := time.NewTimer(connectionPatience)
	defer timer.Stop()
	select {
	case <-c.free:
		return true
	case <-timer.C:
		c.full.Store(true)
	case <-closed:
	}
	return false
}

// give gives a place back.
func (c *connections) give() {
	c.full.Store(false)
	c.free <- struct{}{}
}

// noteFull logs that there is no place, once per burst.
func (c *connections) noteFull() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.logged) < fullLogEvery {
		return
	}
	c.logged = time.Now()
	c.logger.Warn("every connection is taken: new ones wait a moment and are then turned away",
		slog.String("limit", c.limit), slog.Duration("wait", connectionPatience))
}

// turnAway tells a client why and closes its connection, without keeping the
// next one waiting.
func (c *connections) turnAway(conn net.Conn) {
	c.counted()
	select {
	case c.telling <- struct{}{}:
	default:
		_ = conn.Close()
		return
	}
	go func() {
		defer func() { <-c.telling }()
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(turnAwayMax))
		if c.asked { // an answer before the question is none to HTTP/1 clients
			if _, err := conn.Read(make([]byte, 1)); err != nil {
				return
			}
		}
		if _, err := conn.Write(c.refusal); err != nil {
			return
		}
		// Closed on unread bytes, the system would throw the refusal away.
		if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(conn, headerListBytesMax))
		}
	}()
}

// refusalHTTP2 ends a connection with the reason in it. There are no SETTINGS
// before it, though there should be: with them a client takes the connection
// for a good one that has ended, and comes back at once, again and again;
// without them it backs off.
func refusalHTTP2(text string) []byte {
	var b bytes.Buffer
	// Neither the debug data nor a buffer can fail.
	_ = http2.NewFramer(&b, nil).WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, []byte(text))
	return b.Bytes()
}

// refusalHTTP1 is the same for the HTTP endpoints.
func refusalHTTP1(text string) []byte {
	err := udfgate.Errorf(udfgate.QueueFull, "%s", text)
	body, _ := json.Marshal(map[string]errorBody{"error": {Reason: err.Reason, Message: err.Message}}) // no member can fail to
	code := httpStatusOf(err)
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nRetry-After: 1\r\nConnection: close\r\n\r\n%s\n",
		code, http.StatusText(code), contentJSON, len(body)+1, body)
}

type limitedListener struct {
	net.Listener
	connections *connections
	once        sync.Once
	closed      chan struct{}
}

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.connections.take(l.closed) {
			return &limitedConn{Conn: conn, connections: l.connections}, nil
		}
		l.connections.turnAway(conn)
	}
}

// Close implements net.Listener.
func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn
	once        sync.Once
	connections *connections
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.connections.give)
	return err
}
