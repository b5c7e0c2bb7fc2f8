package pool

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// socketPair is a link and the far end of its socket.
func socketPair(t *testing.T) (*link, *net.UnixConn) {
	t.Helper()
	fds, err := closingPair()
	if err != nil {
		t.Fatal(err)
	}
	var conns [2]*net.UnixConn
	for i, fd := range fds {
		if err := unix.SetNonblock(fd, true); err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(fd), "end")
		c, err := net.FileConn(f)
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		conns[i] = c.(*net.UnixConn)
		t.Cleanup(func() { _ = c.Close() })
	}
	l := newLink(conns[0])
	return &l, conns[1]
}

func TestLink_framesInPieces(t *testing.T) {
	l, far := socketPair(t)
	long := bytes.Repeat([]byte("long "), 100_000)
	stream := goFrameBytes(7, 0, 5, []byte("result"))
	stream = append(stream, goFrameBytes(999, 1<<15, 0, []byte("from the future"))...)
	stream = append(stream, goFrameBytes(8, 0, 6, nil)...)
	stream = append(stream, goFrameBytes(13, 1<<15, 0, long)...)
	stream = append(stream, goFrameBytes(12, 0, 1<<60, []byte("last"))...)
	go func() {
		for _, b := range stream[:100] {
			_, _ = far.Write([]byte{b})
		}
		_, _ = far.Write(stream[100:])
		_ = far.Close()
	}()
	for _, want := range []frame{
		{frameResult, 5, []byte("result")}, {frameNeed, 6, nil}, {frameLog, 0, long}, {framePong, 1 << 60, []byte("last")},
	} {
		got, err := l.read()
		if err != nil {
			t.Fatal(err)
		}
		if got.kind != want.kind || got.call != want.call || !bytes.Equal(got.payload, want.payload) {
			t.Errorf("want %v of call %d, got %v of call %d, %d bytes", want.kind, want.call, got.kind, got.call, len(got.payload))
		}
	}
	if _, err := l.read(); !errors.Is(err, io.EOF) {
		t.Errorf("want EOF, got %v", err)
	}
	l.relax()
	if len(l.in) != linkBytes {
		t.Errorf("want the buffer back at %d, got %d", linkBytes, len(l.in))
	}
}

// A passed deadline loses nothing of a frame that has arrived in part.
func TestLink_readsOnAfterADeadline(t *testing.T) {
	l, far := socketPair(t)
	b := goFrameBytes(7, 0, 5, []byte("result"))
	if _, err := far.Write(b[:20]); err != nil {
		t.Fatal(err)
	}
	_ = l.conn.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
	if _, err := l.read(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("want a passed deadline, got %v", err)
	}
	_ = l.conn.SetReadDeadline(time.Now().Add(soon))
	if _, err := far.Write(b[20:]); err != nil {
		t.Fatal(err)
	}
	if f, err := l.read(); err != nil || string(f.payload) != "result" {
		t.Errorf("got %q, %v", f.payload, err)
	}
}

func TestLink_refuses(t *testing.T) {
	for _, c := range []struct{ name, stream, want string }{
		{"end within a header", "0100", "unexpected EOF within a frame"},
		{"end within a payload", "0400000007000000050000000000000001", "unexpected EOF within a frame"},
		{"too long", "01001000070000000500000000000000", "broke the protocol: RESULT of 1048577 bytes, the most is 1048576"},
		{"much too long", "ffffffff050000000000000000000000", "broke the protocol: LOADED of 4294967295 bytes, the most is 16777216"},
		{"unknown", "00000000150000000000000000000000", "broke the protocol: unknown frame type 21 of 0 bytes"},
		{"unknown and too long", "01001000150000800000000000000000", "broke the protocol: frame type 21 of 1048577 bytes, the most is 1048576"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, far := socketPair(t)
			stream, err := hex.DecodeString(c.stream)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := far.Write(stream); err != nil {
				t.Fatal(err)
			}
			_ = far.Close()
			if _, err := l.read(); err == nil || err.Error() != c.want {
				t.Errorf("want %q, got %v", c.want, err)
			}
			if len(l.in) > 2*linkBytes {
				t.Errorf("buffer grew to %d bytes on the word of a header", len(l.in))
			}
		})
	}
}

func TestRing(t *testing.T) {
	r := newRing()
	if got := r.tail(10); got != "" {
		t.Errorf("empty: got %q", got)
	}
	_, _ = r.Write([]byte("first\nsecond\n"))
	mark := r.mark()
	_, _ = r.Write([]byte("third\n"))
	for n, want := range map[int]string{100: "first\nsecond\nthird", 13: "second\nthird", 12: "third", 4: "ird"} {
		if got := r.tail(n); got != want {
			t.Errorf("tail(%d): want %q, got %q", n, want, got)
		}
	}
	if got := string(r.since(mark)); got != "third\n" {
		t.Errorf("since: got %q", got)
	}
	// Every way of passing the end, against the plain concatenation.
	var all []byte
	r = newRing()
	for i, n := range []int{10, ringBytes - 20, 30, 1, ringBytes, ringBytes + 7, 3 * ringBytes, 5, ringBytes - 1} {
		part := bytes.Repeat([]byte{byte('a' + i)}, n)
		all = append(all, part...)
		_, _ = r.Write(part)
		kept := min(len(all), ringBytes)
		if got := r.since(0); !bytes.Equal(got, all[len(all)-kept:]) {
			t.Fatalf("after write %d of %d bytes: the last %d bytes differ", i, n, kept)
		}
	}
	if got := r.tail(8); got != strings.Repeat("i", 8) {
		t.Errorf("got %q", got)
	}
	if len(r.buf) != ringBytes || cap(r.buf) > 2*ringBytes {
		t.Errorf("ring of %d bytes, capacity %d", len(r.buf), cap(r.buf))
	}
}

func TestLifecycle(t *testing.T) {
	allowed := map[[2]state]bool{}
	for from, tos := range transitions {
		for _, to := range tos {
			allowed[[2]state{state(from), to}] = true
		}
	}
	for from := range stateCount {
		for to := range stateCount {
			var l lifecycle
			l.v.Store(uint32(from))
			err := l.to(to)
			if ok := allowed[[2]state{from, to}]; ok != (err == nil) {
				t.Errorf("%v to %v: %v", from, to, err)
			}
			if err != nil && l.get() != from {
				t.Errorf("%v to %v: refused, and yet %v", from, to, l.get())
			}
		}
		if strings.HasPrefix(from.String(), "state(") {
			t.Errorf("state %d has no name", from)
		}
	}
	var l lifecycle
	l.v.Store(uint32(stateDead))
	if err := l.to(stateIdle); err == nil || err.Error() != "worker is dead and cannot become idle" {
		t.Errorf("got %v", err)
	}
	if got := stateCount.String(); got != "state(5)" {
		t.Errorf("got %q", got)
	}
}

func TestQueue_leavesFromAnywhere(t *testing.T) {
	var q queue
	w := make([]*waiter, 4)
	for i := range w {
		w[i] = &waiter{}
		q.push(w[i])
	}
	q.remove(w[1])
	q.remove(w[3])
	q.push(w[1])
	for _, want := range []*waiter{w[0], w[2], w[1], nil} {
		if got := q.pop(); got != want {
			t.Errorf("want %p, got %p", want, got)
		}
	}
	if q.length != 0 || q.first != nil || q.last != nil {
		t.Errorf("want it empty, got %+v", q)
	}
}

func TestBackoff(t *testing.T) {
	for n, want := range map[int]time.Duration{0: 100e6, 1: 200e6, 5: 3200e6, 6: 6400e6, 7: 10e9, 1000: 10e9} {
		if got := backoff(n); got != want {
			t.Errorf("after %d failures: want %v, got %v", n, want, got)
		}
	}
}
