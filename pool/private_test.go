package pool

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/codec"
)

// arenasVar makes every pool of these tests use private arenas, which a few of
// them do in any case: UDFGATE_TEST_ARENAS=private go test ./pool
const arenasVar = "UDFGATE_TEST_ARENAS"

// testPrivate reports whether pools use private arenas unless a test says so.
func testPrivate() bool { return os.Getenv(arenasVar) == privateArenas }

// eachArenas runs a test over both kinds, where there are both.
func eachArenas(t *testing.T, test func(t *testing.T, private bool)) {
	if codec.SharedArenas {
		t.Run(sharedArenas, func(t *testing.T) { test(t, false) })
	}
	t.Run(privateArenas, func(t *testing.T) { test(t, true) })
}

// private is a Config with private arenas.
func private(c *Config) { c.PrivateArenas = true }

// checkArenas skips the rules of arenas that the -worker does not take.
func (d *drive) checkArenas() {
	d.t.Helper()
	p := &Pool{config: Config{PrivateArenas: d.private}}
	err := p.checkArenas(&d.hello)
	if err == nil {
		return
	}
	if *workerProgram != "" {
		d.t.Skip(err)
	}
	d.t.Fatal(err)
}

// dataBytes are the DATA frames that a CALL of the chunk needs before it, in
// pieces that end anywhere.
func (d *drive) dataBytes(c *chunk) []byte {
	var b []byte
	if !d.private {
		return nil
	}
	for r := range c.data() {
		for len(r.bytes) > 0 {
			n := min(len(r.bytes), 10_007)
			b = appendData(b, d.lastID, r.arena, r.offset, r.bytes[:n])
			r.offset, r.bytes = r.offset+int64(n), r.bytes[n:]
		}
	}
	return b
}

// span is n numbers from from on.
func span(from, n int) []int64 {
	column := make([]int64, n)
	for i := range column {
		column[i] = int64(from + i)
	}
	return column
}

// Columns longer than many DATA frames, text, nulls and an answer that needs a
// larger arena, over both workers of this repository.
func TestPrivate_values(t *testing.T) {
	python := newPython(t, bigText+"\n@udf\ndef add(a: int, b: int) -> int:\n    return a + b\n"+
		"\n@udf\ndef shout(s: Optional[str]) -> Optional[str]:\n    return None if s is None else s.upper() + '!'\n", private)
	for name, h := range map[string]*harness{"go": newHarness(t, "", private), "python": python} {
		t.Run(name, func(t *testing.T) {
			h.t = t
			for _, n := range []int{1, 7, 4096, 100_000} {
				got, call := h.must("add", span(0, n), span(5, n))
				for i := range got {
					if got[i] != int64(2*i+5) {
						t.Fatalf("%d rows: row %d: want %d, got %v", n, i, 2*i+5, got[i])
					}
				}
				wantIdentity(t, call)
				in, want := many(n)
				if got, _ := h.must("shout", in); !slices.Equal(got, want) {
					t.Errorf("%d texts: wrong answer", n)
				}
			}
			big, call := h.must("big", []int64{3, 6 << 20})
			if big[1] != strings.Repeat("x", 6<<20) {
				t.Errorf("wrong text")
			}
			wantIdentity(t, call)
		})
	}
}

// wantIdentity checks that the phases of a call add up to its wall time, and
// that its worker's stamps were used: sending and receiving is crossing.
func wantIdentity(t *testing.T, call *udfgate.Call) {
	t.Helper()
	p := call.Timeline.Partition()
	if p.Wall() != call.Timeline.To-call.Timeline.From {
		t.Errorf("phases sum to %d, the wall is %d", p.Wall(), call.Timeline.To-call.Timeline.From)
	}
	if out, back := p[udfgate.StateCrossingOut], p[udfgate.StateCrossingBack]; out <= 0 || back <= 0 || out+back != call.Work.CrossingNS {
		t.Errorf("want a crossing out and back that add up to %d, got %d and %d", call.Work.CrossingNS, out, back)
	}
}

// The time that DATA takes on its way there is crossing_out, on its way back
// crossing_back, and neither is the body's.
func TestPrivate_booking(t *testing.T) {
	h, p := stopped(t, func(*Config) {})
	go func() {
		eventually(t, "the socket is full", func() bool { return socketFull(p) })
		time.Sleep(slowLie)
		_ = p.cmd.Process.Signal(unix.SIGCONT)
	}()
	_, call := h.must("data_slow", span(0, moreThanASocketHolds))
	wantIdentity(t, call)
	phases := call.Timeline.Partition()
	for _, s := range []udfgate.State{udfgate.StateCrossingOut, udfgate.StateCrossingBack} {
		if phases[s] < int64(slowLie) {
			t.Errorf("want %v or more in state %d, got %v", slowLie, s, phases)
		}
	}
	if phases[udfgate.StateBody] != call.Work.BodyNS {
		t.Errorf("want a body of %d, got %v", call.Work.BodyNS, phases)
	}
}

// What a worker may not send, and that the next one serves.
func TestPrivate_garbage(t *testing.T) {
	h := newHarness(t, "", private)
	size := h.only().out.Size()
	outside := func(at uint64) string {
		return "DATA of 16 bytes at " + itoa(at) + " lies outside the answer's room, 0 to " + itoa(uint64(size))
	}
	for _, c := range []struct{ function, want string }{
		{"data_arena", "DATA of arena 1, wanted 2147483648"},
		{"data_far", outside(1 << 40)},
		{"data_wrap", outside(1<<64 - 8)},
		{"data_past", outside(uint64(size) - 8)},
		{"data_short", "DATA of 3 bytes, wanted at least 16"},
	} {
		_, call, err := h.call(c.function, []int64{1})
		wantError(t, err, udfgate.WorkerLost, "worker lost: broke the protocol: "+c.want)
		if call.Attempts != 1 {
			t.Errorf("%s: want one attempt, got %d", c.function, call.Attempts)
		}
		h.must("same", []int64{1})
	}
	_, call, err := h.call("data_call", []int64{1})
	wantError(t, err, udfgate.WorkerLost, "worker lost: broke the protocol: DATA names call "+itoa(call.ID+1)+", wanted "+itoa(call.ID))
	_, _, err = h.call("data_exit", []int64{1})
	wantError(t, err, udfgate.WorkerLost, "worker lost: exit status 7")
	h.must("same", []int64{1})
}

// DATA has no place where memory is shared.
func TestPrivate_dataOfASharedArena(t *testing.T) {
	if !codec.SharedArenas {
		t.Skip("no shared arenas on this system")
	}
	h := newHarness(t, "", func(c *Config) { c.PrivateArenas = false })
	_, _, err := h.call("data_past", []int64{1})
	wantError(t, err, udfgate.WorkerLost, "worker lost: broke the protocol: DATA of a shared arena")
}

// Half a frame, and frames without end, are over with the time limit.
func TestPrivate_timeout(t *testing.T) {
	h := newHarness(t, "", private, func(c *Config) { c.Timeout = 100 * time.Millisecond })
	h.serves()
	for _, function := range []string{"data_stops", "data_endless"} {
		_, call, err := h.call(function, []int64{1})
		wantError(t, err, udfgate.Timeout, "timeout after 100ms (--timeout)")
		if p := call.Timeline.Partition(); p.Wall() != call.Timeline.To-call.Timeline.From {
			t.Errorf("%s: phases sum to %d", function, p.Wall())
		}
		h.serves()
	}
}

// stopped has a pool whose only worker does not read, and calls it with more
// than a socket holds.
func stopped(t *testing.T, change func(*Config)) (*harness, *testProcess) {
	t.Helper()
	h := newHarness(t, "", private, func(c *Config) { c.WorkersMax = 1 }, change)
	h.must("same", []int64{1})
	p := h.launcher.process(0)
	if err := p.cmd.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	return h, p
}

const moreThanASocketHolds = 500_000 // rows of int64

// A worker that does not read its DATA is ended by the time limit.
func TestPrivate_timeoutWhileWriting(t *testing.T) {
	h, _ := stopped(t, func(*Config) {})
	call := h.newCall("same")
	call.TimeoutNS, call.TimeoutName = int64(100*time.Millisecond), "udfgate-timeout"
	_, _, err := h.callWith(t.Context(), call, span(0, moreThanASocketHolds))
	wantError(t, err, udfgate.Timeout, "timeout after 100ms (udfgate-timeout)")
	if call.Attempts != 0 {
		t.Errorf("want no attempt, got %d", call.Attempts)
	}
	h.reaped(0, ReapedTimeout)
	h.must("same", []int64{1})
}

// The caller may go away while DATA is written.
func TestPrivate_cancelWhileWriting(t *testing.T) {
	h, p := stopped(t, func(*Config) {})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		eventually(t, "the socket is full", func() bool { return socketFull(p) })
	}()
	_, _, err := h.callWith(ctx, h.newCall("same"), span(0, moreThanASocketHolds))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("want the caller gone, got %v", err)
	}
	h.reaped(0, ReapedCancelled)
	h.must("same", []int64{1})
}

// A worker that dies while DATA is written has been given no CALL, however much
// it has read: the call goes to another one.
func TestPrivate_deathWhileWriting(t *testing.T) {
	h, p := stopped(t, func(*Config) {})
	done := make(chan struct{})
	go func() {
		defer close(done)
		eventually(t, "the socket is full", func() bool { return socketFull(p) })
		_ = p.Kill()
	}()
	got, call := h.must("same", span(0, moreThanASocketHolds))
	<-done
	if len(got) != moreThanASocketHolds || call.Attempts != 1 || call.Crossings != 1 {
		t.Errorf("want one attempt that counts, got %d, %d crossings", call.Attempts, call.Crossings)
	}
	if len(h.told.retried) != 1 {
		t.Errorf("want one retry told, got %q", h.told.retried)
	}
	if p := call.Timeline.Partition(); p[udfgate.StateQueue]+p[udfgate.StateStart] == 0 {
		t.Errorf("want the lost attempt in queue or start, got %v", p)
	}
	h.reaped(0, ReapedSignal)
}

// socketFull reports whether our end would block a writer.
func socketFull(p *testProcess) bool {
	raw, err := p.conn.SyscallConn()
	if err != nil {
		return false
	}
	full := false
	_ = raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		n, err := unix.Poll(fds, 0)
		full = err == nil && n == 0
	})
	return full
}

func TestPrivate_workerLacksThem(t *testing.T) {
	hello := `{"protocol":1,"runtime":"go","version":"1","pid":%d,"slots":1,"forms":["arrow"],"site":[]` // ends below
	for _, c := range []struct {
		arenas  string
		private bool
		want    string
	}{
		{`}`, true, "worker broke the protocol: HELLO: arenas [] lack private, the only ones that this gateway has"},
		{`,"arenas":["shared"]}`, true, `worker broke the protocol: HELLO: arenas ["shared"] lack private, the only ones that this gateway has`},
		{`,"arenas":["private"]}`, false, `worker broke the protocol: HELLO: arenas ["private"] lack shared, the only ones that this gateway has`},
	} {
		if !c.private && !codec.SharedArenas {
			continue // the gateway would have private ones
		}
		l := goLauncher()
		l.env = append(l.env, "TEST_HELLO="+hello+c.arenas)
		_, err := New(t.Context(), goConfig(t, l, "", func(conf *Config) { conf.PrivateArenas = c.private }))
		wantError(t, err, udfgate.StartFailed, c.want)
	}
}

// What is sent is what the rows use: of every buffer of every kind, the bytes
// of rows lo to hi and not many more.
func TestPrivate_onlyTheRowsAreSent(t *testing.T) {
	store := codec.NewStore(codec.StoreConfig{Private: true})
	defer func() { _ = store.Close() }()
	in, _ := many(1000)
	b, err := batchOf(store, in, span(0, 1000))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	whole := b.Slot.Bytes()
	for _, rows := range [][2]int64{{0, 1000}, {8, 9}, {992, 1000}, {400, 480}} {
		c := &chunk{blockRows: 64, segments: []segment{{batch: b, lo: rows[0], hi: rows[1]}}}
		c.segments[0].describe(64)
		sent := make([]byte, len(whole)) // the worker's copy, of this slot
		var n int64
		for r := range c.data() {
			n += int64(copy(sent[r.offset-b.Slot.Offset():], r.bytes))
		}
		if most := 40*(rows[1]-rows[0]) + 100; n > most {
			t.Errorf("rows %v: sent %d bytes, want at most %d", rows, n, most)
		}
		read := func(body []byte, i int) string {
			col := &c.segments[0].columns[i]
			var buffers [][]byte
			for _, r := range col.buffers {
				buffers = append(buffers, body[max(0, r.Offset-b.Slot.Offset()):][:r.Length])
			}
			kind := []string{"utf8", "int64"}[i]
			column := goColumnOf(kind, &goSegment{rows: 1000, lo: uint64(rows[0]), hi: uint64(rows[1])}, buffers)
			var text bytes.Buffer
			for row := rows[0]; row < rows[1]; row++ {
				text.WriteString(brief(column.value(uint64(row))) + "\n")
			}
			return text.String()
		}
		for i := range c.segments[0].columns {
			if got, want := read(sent, i), read(whole, i); got != want {
				t.Errorf("rows %v of column %d: want %s, got %s", rows, i, brief(want), brief(got))
			}
		}
	}
}
