package codec

import (
	"encoding/binary"

	"github.com/udfgate/udfgate"
)

// Wire types of protobuf. Groups (3 and 4) died before proto3, and nothing
// that speaks Flight sends them.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

// protoWalk reads protobuf fields from a message that lies in pieces. It keeps
// the first fault it meets and reads nothing after it. All positions count
// from the start of the message.
type protoWalk struct {
	pieces [][]byte
	piece  []byte // pieces[0] of what is left; the walk stands in it
	at     int    // in piece
	base   int64  // position of piece[0]
	total  int64
	fault  string
}

func newProtoWalk(pieces [][]byte) protoWalk {
	total := 0 // in a register: a message of 512 KiB has 33 pieces
	for i := range pieces {
		total += len(pieces[i])
	}
	w := protoWalk{pieces: pieces, total: int64(total)}
	if len(pieces) > 0 {
		w.piece = pieces[0]
	}
	return w
}

func (w *protoWalk) pos() int64 { return w.base + int64(w.at) }

// more reports whether another field follows.
func (w *protoWalk) more() bool { return w.fault == "" && w.pos() < w.total }

// fail notes the first fault.
func (w *protoWalk) fail(fault string) {
	if w.fault == "" {
		w.fault = fault
	}
}

// err is the fault as an error about what, nil if there was none.
func (w *protoWalk) err(what string) error {
	if w.fault == "" {
		return nil
	}
	return udfgate.Invalidf(udfgate.ShapeMalformed, "malformed %s: %s at byte %d of %d", what, w.fault, w.pos(), w.total)
}

// tag reads a field's number and wire type. One and two bytes are spelled out
// because every field of FlightData has one of them.
func (w *protoWalk) tag() (number, wire uint32) {
	var v uint64
	switch b := w.piece[w.at:]; {
	case len(b) > 0 && b[0] < 0x80:
		v = uint64(b[0])
		w.at++
	case len(b) > 1 && b[1] < 0x80:
		v = uint64(b[0]&0x7f) | uint64(b[1])<<7
		w.at += 2
	default:
		v = w.varint()
	}
	if v > 1<<32-1 || v>>3 == 0 {
		w.fail("field number out of range")
	}
	return uint32(v >> 3), uint32(v & 7)
}

// varint reads a varint of at most 64 bits.
func (w *protoWalk) varint() uint64 {
	if b := w.piece[w.at:]; len(b) >= binary.MaxVarintLen64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			w.fail("varint of more than 64 bits")
			return 0
		}
		w.at += n
		return v
	}
	var v uint64
	for i := range binary.MaxVarintLen64 {
		b, ok := w.byte()
		if !ok {
			w.fail("truncated varint")
			return 0
		}
		if i == binary.MaxVarintLen64-1 && b > 1 {
			break
		}
		v |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			return v
		}
	}
	w.fail("varint of more than 64 bits")
	return 0
}

// byte reads one byte, from the next piece if need be.
func (w *protoWalk) byte() (byte, bool) {
	for w.at == len(w.piece) {
		if !w.next() {
			return 0, false
		}
	}
	b := w.piece[w.at]
	w.at++
	return b, true
}

// next moves to the start of the next piece; only at the end of one.
func (w *protoWalk) next() bool {
	if len(w.pieces) <= 1 {
		return false
	}
	w.base += int64(len(w.piece))
	w.pieces = w.pieces[1:]
	w.piece, w.at = w.pieces[0], 0
	return true
}

// length reads the length of a field and checks that it has that many bytes.
func (w *protoWalk) length() int64 {
	var n uint64
	if b := w.piece[w.at:]; len(b) > 0 && b[0] < 0x80 {
		n = uint64(b[0])
		w.at++
	} else {
		n = w.varint()
	}
	if w.fault != "" || n > uint64(w.total-w.pos()) {
		w.fail("field longer than its message")
		return 0
	}
	return int64(n)
}

// step moves n bytes on; the caller has checked that they are there. It stays
// at the end of a piece rather than moving to the start of the next.
func (w *protoWalk) step(n int64) {
	if n == w.total-w.pos() { // the body, nearly always: do not count its pieces
		w.pieces = w.pieces[len(w.pieces)-1:]
		w.piece = w.pieces[0]
		w.at = len(w.piece)
		w.base = w.total - int64(w.at)
		return
	}
	for n > int64(len(w.piece)-w.at) {
		n -= int64(len(w.piece) - w.at)
		w.at = len(w.piece)
		if !w.next() {
			return
		}
	}
	w.at += int(n)
}

// take steps over n bytes and returns them: a part of the piece if they lie in
// one, else a copy, which is never longer than what was received.
func (w *protoWalk) take(n int64) []byte {
	pieces, at := w.pieces, w.at
	w.step(n)
	if n <= int64(len(pieces[0])-at) {
		return pieces[0][at : at+int(n) : at+int(n)]
	}
	out := make([]byte, n)
	CopyBody(out, pieces, Range{Off: int64(at), Len: n})
	return out
}

// skip steps over a field that nobody asked for.
func (w *protoWalk) skip(wire uint32) {
	var n int64
	switch wire {
	case wireVarint:
		w.varint()
		return
	case wireBytes:
		n = w.length()
	case wireFixed64:
		n = 8
	case wireFixed32:
		n = 4
	default:
		w.fail("wire type that is not in use")
		return
	}
	if n > w.total-w.pos() {
		w.fail("truncated field")
		return
	}
	w.step(n)
}
