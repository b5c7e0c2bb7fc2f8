package pool

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// This is a worker written from docs/worker-protocol.md alone: it shares no
// code with the package it tests, speaks the neutral arrow form only, and
// misbehaves on request. The test binary becomes it when workerVar is set.

const workerVar = "UDFGATE_TEST_WORKER"

var le = binary.LittleEndian

type goFrame struct {
	kind    uint16
	flags   uint16
	call    uint64
	payload []byte
	fd      int // of ARENA
}

type goArena struct {
	bytes   []byte
	out     bool
	private bool
}

type goWorker struct {
	buf    []byte
	fds    []int // received, in the order of their ARENA frames
	arenas map[uint32]goArena
	names  []string // of functions, by number
	// set by the directives of the module file
	directives map[string]string
	calls      int
}

func runGoWorker() int {
	syscall.CloseOnExec(3)
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, syscall.SIGUSR1)
	go func() {
		for range interrupted {
			stacks := make([]byte, 1<<16)
			stacks = stacks[:runtime.Stack(stacks, true)]
			fmt.Fprintf(os.Stderr, "%s\n", stacks)
		}
	}()
	w := &goWorker{arenas: map[uint32]goArena{}, directives: map[string]string{}}
	err := w.serve()
	switch {
	case err == nil, errors.Is(err, io.EOF):
		return 0
	default:
		fmt.Fprintln(os.Stderr, "worker:", err)
		return 1
	}
}

func (w *goWorker) serve() error {
	hello := `{"protocol":1,"runtime":"go","version":"1","pid":%d,"slots":1,"forms":["arrow"],"site":[],"arenas":["shared","private"]}`
	if text := os.Getenv("TEST_HELLO"); text != "" {
		hello = text
	}
	if strings.Contains(hello, "%d") {
		hello = fmt.Sprintf(hello, os.Getpid())
	}
	if err := w.send(1, 0, 0, []byte(hello)); err != nil {
		return err
	}
	for {
		f, err := w.next()
		if err != nil {
			return err
		}
		at := monotonic()
		switch f.kind {
		case 2:
			err = w.arena(f)
		case 3:
			id := le.Uint32(f.payload)
			err = syscall.Munmap(w.arenas[id].bytes)
			delete(w.arenas, id)
		case 17:
			err = w.data(f)
		case 4:
			err = w.load(f)
		case 6:
			err = w.call(f, at)
		case 11:
			if w.directives["clock"] == "other" || os.Getenv("TEST_CLOCK") == "other" {
				at += int64(time.Hour)
			}
			err = w.send(12, 0, f.call, le.AppendUint64(nil, uint64(at)))
		case 14:
			err = w.send(14, 0, f.call, fmt.Appendf(nil, `{"peak_bytes":0,"calls":%d,"rows":0}`, w.calls))
		case 15:
			if w.directives["bye"] == "ignored" {
				select {}
			}
			return nil
		default:
			err = fmt.Errorf("frame of type %d is not expected here", f.kind)
		}
		if err != nil {
			return err
		}
	}
}

func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(workerClock, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}

// next reads one frame. Everything is read by recvmsg: a descriptor may come
// with any byte.
func (w *goWorker) next() (goFrame, error) {
	if err := w.need(16); err != nil {
		return goFrame{}, err
	}
	f := goFrame{kind: le.Uint16(w.buf[4:]), flags: le.Uint16(w.buf[6:]), call: le.Uint64(w.buf[8:]), fd: -1}
	length, most := le.Uint32(w.buf), uint32(1<<20)
	if f.kind == 4 || f.kind == 14 {
		most = 16 << 20
	}
	if length > most {
		return goFrame{}, fmt.Errorf("frame of type %d has %d bytes, the most is %d", f.kind, length, most)
	}
	if err := w.need(16 + int(length)); err != nil {
		return goFrame{}, err
	}
	f.payload = append([]byte(nil), w.buf[16:16+length]...)
	w.buf = w.buf[16+length:]
	if f.kind == 2 && f.flags&1 == 0 {
		if len(w.fds) == 0 {
			return goFrame{}, errors.New("ARENA without a descriptor")
		}
		f.fd, w.fds = w.fds[0], w.fds[1:]
	}
	if f.kind == 0 || f.kind > 20 {
		if f.flags&(1<<15) == 0 {
			return goFrame{}, fmt.Errorf("unknown frame type %d", f.kind)
		}
		return w.next()
	}
	return f, nil
}

func (w *goWorker) need(n int) error {
	for len(w.buf) < n {
		data, oob := make([]byte, 64<<10), make([]byte, 64)
		n, oobn, _, _, err := syscall.Recvmsg(3, data, oob, receiveFlags)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return err
		case n == 0:
			return io.EOF
		}
		w.buf = append(w.buf, data[:n]...)
		messages, err := syscall.ParseSocketControlMessage(oob[:oobn])
		if err != nil {
			return err
		}
		for _, m := range messages {
			fds, err := syscall.ParseUnixRights(&m)
			if err != nil {
				return err
			}
			w.fds = append(w.fds, fds...)
		}
	}
	return nil
}

func (w *goWorker) send(kind, flags uint16, call uint64, payload []byte) error {
	return w.write(goFrameBytes(kind, flags, call, payload))
}

func goFrameBytes(kind, flags uint16, call uint64, payload []byte) []byte {
	b := le.AppendUint32(nil, uint32(len(payload)))
	b = le.AppendUint16(b, kind)
	b = le.AppendUint16(b, flags)
	b = le.AppendUint64(b, call)
	return append(b, payload...)
}

func (w *goWorker) write(b []byte) error {
	for len(b) > 0 {
		n, err := syscall.Write(3, b)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func (w *goWorker) arena(f goFrame) error {
	id, role, size := le.Uint32(f.payload), le.Uint32(f.payload[4:]), le.Uint64(f.payload[8:])
	if role != 1 && role != 2 {
		return fmt.Errorf("ARENA of unknown role %d", role)
	}
	protection := syscall.PROT_READ
	if role == 2 {
		protection |= syscall.PROT_WRITE
		for old, a := range w.arenas {
			if a.out { // a new one replaces the last
				defer func() { _ = syscall.Munmap(a.bytes) }()
				delete(w.arenas, old)
			}
		}
	}
	if f.flags&1 != 0 {
		return w.privateArena(id, role, size)
	}
	bytes, err := syscall.Mmap(f.fd, 0, int(size), protection, syscall.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map arena %d: %w", id, err)
	}
	if err := syscall.Close(f.fd); err != nil {
		return err
	}
	w.arenas[id] = goArena{bytes: bytes, out: role == 2}
	return nil
}

// load reads the directives of the module files, one word each, name or
// name=value, and answers with the functions that goBodies has.
func (w *goWorker) load(f goFrame) error {
	var request struct {
		Modules []struct{ Name, File string }
		Path    []string
	}
	if err := json.Unmarshal(f.payload, &request); err != nil {
		return err
	}
	module := "builtin"
	for _, m := range request.Modules {
		module = m.Name
		text, err := os.ReadFile(m.File)
		if err != nil {
			return w.send(5, 0, f.call, goLoadError("FileNotFoundError", err.Error(), m.File, 0))
		}
		for _, word := range strings.Fields(string(text)) {
			key, value, _ := strings.Cut(word, "=")
			w.directives[key] = value
		}
		if answered, err := w.obey(f, m.File); answered || err != nil {
			return err
		}
	}
	functions := make([]map[string]any, 0, len(goBodies))
	for _, b := range goBodies {
		name := b.name
		if w.directives["rename"] == name && w.again() {
			name = "renamed"
		}
		w.names = append(w.names, b.name)
		args := []map[string]any{}
		for i, t := range b.args {
			args = append(args, map[string]any{"name": string(rune('a' + i)), "type": t, "nullable": true})
		}
		mode, kind := "row", "scalar"
		if b.table != nil {
			kind = "table"
		}
		if b.list != nil {
			mode = "list"
		}
		function := map[string]any{
			"number": len(functions), "module": module, "name": name, "mode": mode, "kind": kind, "args": args,
			"result":     map[string]any{"name": name, "type": b.result, "nullable": !b.notNull},
			"volatility": "volatile", "elementwise": b.elementwise || b.list == nil, "idempotent": false, "timeout_ns": b.timeout.Nanoseconds(),
		}
		if b.onError != "" {
			function["on_error"] = b.onError
		}
		maps.Copy(function, b.more)
		functions = append(functions, function)
	}
	payload, err := json.Marshal(map[string]any{"functions": functions})
	if err != nil {
		return err
	}
	return w.send(5, 0, f.call, payload)
}

func goLoadError(class, message, file string, line int) []byte {
	payload, err := json.Marshal(map[string]any{"error": map[string]any{
		"class": class, "message": message, "file": file, "line": line, "traceback": "Traceback: " + message,
	}})
	if err != nil {
		panic(err)
	}
	return payload
}

// obey does what the module file asks for at load time.
func (w *goWorker) obey(f goFrame, file string) (answered bool, err error) {
	if d, ok := w.directives["import"]; ok { // a slow one
		took, err := time.ParseDuration(d)
		if err != nil {
			return false, err
		}
		time.Sleep(took)
	}
	if when, ok := w.directives["fail"]; ok && (when != "later" || w.again()) {
		return true, w.send(5, 0, f.call, goLoadError("SyntaxError", "invalid syntax", file, 3))
	}
	if _, ok := w.directives["exit-at-import"]; ok {
		fmt.Fprintln(os.Stderr, "no licence found")
		os.Exit(4)
	}
	_, hangs := w.directives["hang-at-import"]
	if hangs || w.directives["hang"] == "later" && w.again() {
		hangAtImport()
	}
	return false, nil
}

//go:noinline
func hangAtImport() { time.Sleep(time.Hour) }

// again reports whether another worker of the pool has loaded before.
func (w *goWorker) again() bool {
	mark, err := os.OpenFile(os.Getenv("HOME")+"/loaded", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return true
	}
	_ = mark.Close()
	return false
}
