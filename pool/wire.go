package pool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

// frameType numbers the frames of docs/worker-protocol.md.
type frameType uint16

const (
	frameHello   frameType = 1
	frameArena   frameType = 2
	frameDrop    frameType = 3
	frameLoad    frameType = 4
	frameLoaded  frameType = 5
	frameCall    frameType = 6
	frameResult  frameType = 7
	frameNeed    frameType = 8
	frameRefuse  frameType = 9
	frameRecode  frameType = 10
	framePing    frameType = 11
	framePong    frameType = 12
	frameLog     frameType = 13
	frameStats   frameType = 14
	frameBye     frameType = 15
	frameAST     frameType = 16
	frameData    frameType = 17
	frameNext    frameType = 18
	frameContext frameType = 19
	frameCounts  frameType = 20
)

var frameNames = [...]string{
	"0", "HELLO", "ARENA", "DROP", "LOAD", "LOADED", "CALL", "RESULT", "NEED",
	"REFUSE", "RECODE", "PING", "PONG", "LOG", "STATS", "BYE", "AST", "DATA",
	"NEXT", "CONTEXT", "COUNTS",
}

// String is the name on the protocol page.
func (t frameType) String() string {
	if int(t) < len(frameNames) && t > 0 {
		return frameNames[t]
	}
	return fmt.Sprintf("frame type %d", uint16(t))
}

const (
	headerBytes   = 16
	frameBytesMax = 1 << 20  // of every frame but the next
	jsonBytesMax  = 16 << 20 // of LOAD, LOADED, LOG, STATS and AST
	flagSkippable = 1 << 15  // who does not know the type skips the frame
	flagPrivate   = 1        // of ARENA: no descriptor, the worker makes its own

	// linkBytes is what a worker's read buffer starts with and returns to.
	linkBytes = 4 << 10
	// linkBytesKept is how large it may stay after a long frame.
	linkBytesKept = 64 << 10
)

// known reports whether the page lists the type.
func (t frameType) known() bool { return t >= frameHello && t <= frameCounts }

// bytesMax is the most bytes after the header of such a frame.
func (t frameType) bytesMax() uint32 {
	switch t {
	case frameLoad, frameLoaded, frameLog, frameStats, frameAST:
		return jsonBytesMax
	default:
		return frameBytesMax
	}
}

// frame is one received frame. Its payload is good until the next read.
type frame struct {
	kind    frameType
	call    uint64
	payload []byte
}

// protocolError says which rule of the worker protocol a worker broke.
type protocolError struct{ text string }

func (e *protocolError) Error() string { return "broke the protocol: " + e.text }

func broken(format string, args ...any) error {
	return &protocolError{fmt.Sprintf(format, args...)}
}

// appendHeader appends the header of a frame whose payload of length bytes
// follows.
func appendHeader(dst []byte, kind frameType, call uint64, length int) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(length))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(kind))
	dst = binary.LittleEndian.AppendUint16(dst, 0)
	return binary.LittleEndian.AppendUint64(dst, call)
}

// appendFrame appends a whole frame.
func appendFrame(dst []byte, kind frameType, call uint64, payload []byte) []byte {
	return append(appendHeader(dst, kind, call, len(payload)), payload...)
}

// link is the gateway's end of one worker's socket. One goroutine at a time
// uses it: the one that starts the worker or holds its lease.
type link struct {
	conn *net.UnixConn
	in   []byte // received and not consumed: in[head:tail]
	head int
	tail int
	out  []byte // frame being built; reused
}

func newLink(conn *net.UnixConn) link {
	return link{conn: conn, in: make([]byte, linkBytes), out: make([]byte, 0, linkBytes)}
}

// read returns the next frame. After an error that is a passed deadline it may
// be called again: nothing is lost. Frames that the gateway does not know and
// may skip are skipped.
func (l *link) read() (frame, error) {
	for {
		f, size, err := l.parse()
		if err != nil {
			return frame{}, err
		}
		if size > 0 && l.tail-l.head >= size {
			f.payload = l.in[l.head+headerBytes : l.head+size]
			l.head += size
			if f.kind.known() {
				return f, nil
			}
			continue
		}
		if err := l.fill(max(size, headerBytes)); err != nil {
			return frame{}, err
		}
	}
}

// parse reads the header of the next frame; size is 0 until that is complete.
func (l *link) parse() (f frame, size int, err error) {
	b := l.in[l.head:l.tail]
	if len(b) < headerBytes {
		return frame{}, 0, nil
	}
	length := binary.LittleEndian.Uint32(b)
	f.kind = frameType(binary.LittleEndian.Uint16(b[4:]))
	f.call = binary.LittleEndian.Uint64(b[8:])
	if !f.kind.known() && binary.LittleEndian.Uint16(b[6:])&flagSkippable == 0 {
		return frame{}, 0, broken("unknown %s of %d bytes", f.kind, length)
	}
	if most := f.kind.bytesMax(); length > most {
		return frame{}, 0, broken("%s of %d bytes, the most is %d", f.kind, length, most)
	}
	return f, headerBytes + int(length), nil
}

// fill reads once, with room made for a frame of size bytes. The room grows
// with what has arrived, not with what a header claims.
func (l *link) fill(size int) error {
	if l.head == l.tail {
		l.head, l.tail = 0, 0
	}
	if l.head > 0 && len(l.in)-l.head < size {
		l.tail = copy(l.in, l.in[l.head:l.tail])
		l.head = 0
	}
	if l.tail == len(l.in) {
		l.in = append(l.in, make([]byte, len(l.in))...)
	}
	n, err := l.conn.Read(l.in[l.tail:])
	l.tail += n
	if n > 0 {
		return nil // an error that came with bytes comes again
	}
	if errors.Is(err, io.EOF) && l.tail > l.head {
		return fmt.Errorf("%w within a frame", io.ErrUnexpectedEOF)
	}
	return err
}

// write sends b and says how much of it the socket took.
func (l *link) write(b []byte) (int, error) { return l.conn.Write(b) }

// send sends one frame without a payload buffer of its own.
func (l *link) send(kind frameType, call uint64, payload []byte) error {
	l.out = appendFrame(l.out[:0], kind, call, payload)
	_, err := l.write(l.out)
	return err
}

// sendArena hands an arena over: the descriptor travels with the first byte.
// Without rights the worker is told to make a private one.
func (l *link) sendArena(call uint64, id uint32, role uint32, size int64, rights []byte) error {
	l.out = appendHeader(l.out[:0], frameArena, call, 16)
	if rights == nil {
		binary.LittleEndian.PutUint16(l.out[6:], flagPrivate)
	}
	l.out = binary.LittleEndian.AppendUint32(l.out, id)
	l.out = binary.LittleEndian.AppendUint32(l.out, role)
	l.out = binary.LittleEndian.AppendUint64(l.out, uint64(size))
	n, _, err := l.conn.WriteMsgUnix(l.out, rights, nil)
	if err == nil && n < len(l.out) {
		_, err = l.write(l.out[n:])
	}
	return err
}

// sendDrop tells the worker to unmap an arena.
func (l *link) sendDrop(id uint32) error {
	l.out = appendHeader(l.out[:0], frameDrop, 0, 8)
	l.out = binary.LittleEndian.AppendUint32(l.out, id)
	l.out = binary.LittleEndian.AppendUint32(l.out, 0)
	_, err := l.write(l.out)
	return err
}

// relax gives back what a long frame made the buffers grow to.
func (l *link) relax() {
	if cap(l.out) > linkBytesKept {
		l.out = make([]byte, 0, linkBytes)
	}
	if len(l.in) > linkBytesKept && l.tail-l.head <= linkBytes {
		small := make([]byte, linkBytes)
		l.tail = copy(small, l.in[l.head:l.tail])
		l.in, l.head = small, 0
	}
}

// ahead is the type of the next frame as far as it has been read already,
// which is left where it is; 0 if there is none.
func (l *link) ahead() frameType {
	f, _, err := l.parse()
	if err != nil {
		return 0 // the next read says so
	}
	return f.kind
}
