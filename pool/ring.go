package pool

import (
	"bytes"
	"io"
	"sync"
)

// ringBytes is how much of each output of a worker is kept.
const ringBytes = 64 << 10

// ring keeps the last bytes that a worker wrote to one of its outputs.
type ring struct {
	mu    sync.Mutex
	buf   []byte // grows to ringBytes, then wraps at total
	total int64  // bytes ever written
	grew  chan struct{}
}

func newRing() *ring { return &ring{grew: make(chan struct{}, 1)} }

// Write never fails.
func (r *ring) Write(b []byte) (int, error) {
	n := len(b)
	r.mu.Lock()
	b = b[max(0, len(b)-ringBytes):]
	skipped := int64(n - len(b))
	if skipped > 0 { // everything kept is about to be replaced
		r.total += skipped
		if len(r.buf) < ringBytes {
			r.buf = make([]byte, ringBytes)
		}
	}
	for len(b) > 0 && len(r.buf) < ringBytes {
		took := min(len(b), ringBytes-len(r.buf))
		r.buf = append(r.buf, b[:took]...)
		r.total += int64(took)
		b = b[took:]
	}
	for len(b) > 0 {
		took := copy(r.buf[r.total%ringBytes:], b)
		r.total += int64(took)
		b = b[took:]
	}
	r.mu.Unlock()
	select {
	case r.grew <- struct{}{}:
	default: // somebody is told already
	}
	return n, nil
}

// drain copies everything from an output of a worker until it ends.
func (r *ring) drain(output io.Reader) {
	_, _ = io.Copy(r, output) // its end is its only news
}

// mark is a position for since.
func (r *ring) mark() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total
}

// since returns what was written after the mark, as far as it is still kept.
func (r *ring) since(mark int64) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last(r.total - mark)
}

// tail returns the last whole lines that fit n bytes, without the last line
// break; of one longer line, its end.
func (r *ring) tail(n int) string {
	r.mu.Lock()
	text := r.last(int64(n) + 1) // one more, to see whether a line begins at n
	r.mu.Unlock()
	if len(text) > n {
		if at := bytes.IndexByte(text, '\n'); at >= 0 && at+1 < len(text) {
			text = text[at+1:]
		} else {
			text = text[1:]
		}
	}
	return linesText(string(bytes.TrimRight(text, "\r\n")))
}

// last copies the last n bytes kept. The caller holds mu.
func (r *ring) last(n int64) []byte {
	n = min(n, int64(len(r.buf)))
	out := make([]byte, n)
	if int64(len(r.buf)) < ringBytes {
		copy(out, r.buf[int64(len(r.buf))-n:])
		return out
	}
	at := (r.total - n) % ringBytes
	took := copy(out, r.buf[at:])
	copy(out[took:], r.buf)
	return out
}
