package pool

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// goColumn is a column of a CALL, read: one value per row of the batch.
type goColumn struct {
	valid []bool
	ints  []int64
	texts []string
}

// goRaise is what a body raises.
type goRaise struct {
	kind              uint16
	class, text, more string
}

// goBody is one function. run gives the value of a row: nil, int64, bool or
// string. special replaces the whole answer to a CALL.
type goBody struct {
	name    string
	args    []string
	result  string
	timeout time.Duration
	run     func(args []any) (any, *goRaise)
	special func(w *goWorker, c *goCall) error
}

// goCall is a decoded CALL.
type goCall struct {
	id         uint64
	at         int64 // read
	function   uint32
	outArena   uint32
	base       uint64
	limit      uint64
	flags      uint16
	segments   []goSegment
	body       *goBody
	remaining  uint64
	generation uint32
}

type goSegment struct {
	rows, lo, hi uint64
	columns      []goColumn
}

// goResult is a RESULT about to be written; specials change it before.
type goResult struct {
	recv, send, decode, body, encode uint64
	arena                            uint32
	base, used                       uint64
	segments                         []goResultSegment
	tail                             []byte
}

type goResultSegment struct {
	status  uint8
	rows    uint64
	form    uint16
	nulls   uint64
	buffers [][2]uint64
	errors  []goRowError
}

type goRowError struct {
	row uint64
	goRaise
}

func (w *goWorker) call(f goFrame, at int64) error {
	c, err := w.decodeCall(f, at)
	if err != nil {
		return err
	}
	w.calls++
	if c.body.special != nil {
		return c.body.special(w, c)
	}
	r, err := w.answer(c)
	if err != nil {
		return err
	}
	return w.reply(c, r)
}

func (w *goWorker) reply(c *goCall, r *goResult) error {
	r.send = uint64(monotonic())
	return w.send(7, 0, c.id, r.bytes())
}

func (w *goWorker) decodeCall(f goFrame, at int64) (*goCall, error) {
	b := f.payload
	c := &goCall{
		id: f.call, at: at, function: le.Uint32(b), generation: le.Uint32(b[4:]), remaining: le.Uint64(b[8:]),
		outArena: le.Uint32(b[16:]), base: le.Uint64(b[24:]), limit: le.Uint64(b[32:]), flags: le.Uint16(b[42:]),
	}
	if int(c.function) >= len(goBodies) {
		return nil, fmt.Errorf("no function %d", c.function)
	}
	c.body = &goBodies[c.function]
	nseg := le.Uint16(b[40:])
	b = b[48:]
	for range nseg {
		s := goSegment{rows: le.Uint64(b), lo: le.Uint64(b[8:]), hi: le.Uint64(b[16:])}
		ncols := le.Uint16(b[40:])
		b = b[48:]
		for i := range ncols {
			form, nbuf, arena := le.Uint16(b), le.Uint16(b[2:]), le.Uint32(b[4:])
			b = b[16:]
			if form != 1 {
				return nil, fmt.Errorf("form %d was not offered", form)
			}
			a, ok := w.arenas[arena]
			if !ok {
				return nil, fmt.Errorf("arena %d was not handed over", arena)
			}
			var buffers [][]byte
			for range nbuf {
				off, n := le.Uint64(b), le.Uint64(b[8:])
				buffers = append(buffers, a.bytes[off:off+n])
				b = b[16:]
			}
			s.columns = append(s.columns, goColumnOf(c.body.args[i], int(s.rows), buffers))
		}
		c.segments = append(c.segments, s)
	}
	if len(b) != 0 {
		return nil, fmt.Errorf("CALL has %d bytes too many", len(b))
	}
	return c, nil
}

func goColumnOf(kind string, rows int, buffers [][]byte) goColumn {
	col := goColumn{valid: make([]bool, rows)}
	for i := range rows {
		col.valid[i] = len(buffers[0]) == 0 || buffers[0][i>>3]&(1<<(i&7)) != 0
		switch kind {
		case "int64":
			col.ints = append(col.ints, int64(le.Uint64(buffers[1][8*i:])))
		case "utf8":
			from, to := le.Uint32(buffers[1][4*i:]), le.Uint32(buffers[1][4*i+4:])
			col.texts = append(col.texts, string(buffers[2][from:to]))
		}
	}
	return col
}

func (c *goColumn) value(row uint64) any {
	switch {
	case !c.valid[row]:
		return nil
	case c.ints != nil:
		return c.ints[row]
	default:
		return c.texts[row]
	}
}

// answer runs every segment and writes the values into the output arena.
func (w *goWorker) answer(c *goCall) (*goResult, error) {
	r := &goResult{recv: uint64(c.at), arena: c.outArena, base: c.base}
	for i := range c.segments {
		s := &c.segments[i]
		start := monotonic()
		values, raised := c.run(s)
		r.body += uint64(monotonic() - start)
		rs := goResultSegment{rows: s.hi - s.lo, form: 1}
		if raised != nil {
			r.segments = append(r.segments, goResultSegment{status: 1, errors: []goRowError{*raised}})
			continue
		}
		validity, parts := goEncode(c.body.result, values)
		for _, v := range values {
			if v == nil {
				rs.nulls++
			}
		}
		if rs.nulls == 0 {
			validity = nil
		}
		for _, part := range append([][]byte{validity}, parts...) {
			r.used = (r.used + 7) &^ 7
			if r.used+uint64(len(part)) > c.limit {
				refused, err := w.more(c, r, r.used+uint64(len(part)))
				if err != nil {
					return nil, err
				}
				if refused {
					r.segments = append(r.segments, goResultSegment{status: 2})
					r.used = 0
					return r, nil
				}
			}
			copy(w.arenas[r.arena].bytes[r.base+r.used:], part)
			rs.buffers = append(rs.buffers, [2]uint64{r.used, uint64(len(part))})
			r.used += uint64(len(part))
		}
		r.segments = append(r.segments, rs)
	}
	return r, nil
}

// more asks for a larger output arena.
func (w *goWorker) more(c *goCall, r *goResult, bytes uint64) (refused bool, err error) {
	old := append([]byte(nil), w.arenas[r.arena].bytes[r.base:r.base+r.used]...)
	if err := w.send(8, 0, c.id, le.AppendUint64(nil, bytes)); err != nil {
		return false, err
	}
	f, err := w.next()
	switch {
	case err != nil:
		return false, err
	case f.kind == 9:
		return true, nil
	case f.kind != 2:
		return false, fmt.Errorf("wanted ARENA or REFUSE, got %d", f.kind)
	}
	if err := w.arena(f); err != nil {
		return false, err
	}
	r.arena, r.base = le.Uint32(f.payload), 0
	c.limit = le.Uint64(f.payload[8:])
	copy(w.arenas[r.arena].bytes, old)
	return false, nil
}

func (c *goCall) run(s *goSegment) (values []any, raised *goRowError) {
	for row := s.lo; row < s.hi; row++ {
		var args []any
		for i := range s.columns {
			args = append(args, s.columns[i].value(row))
		}
		v, raise := c.body.run(args)
		if raise != nil {
			return nil, &goRowError{row, *raise}
		}
		values = append(values, v)
	}
	return values, nil
}

func goEncode(kind string, values []any) (validity []byte, parts [][]byte) {
	validity = make([]byte, (len(values)+7)/8)
	bits := make([]byte, len(validity))
	var words, offsets, data []byte
	offsets = le.AppendUint32(offsets, 0)
	for i, v := range values {
		if v != nil {
			validity[i>>3] |= 1 << (i & 7)
		}
		switch v := v.(type) {
		case int64:
			words = le.AppendUint64(words, uint64(v))
		case bool:
			if v {
				bits[i>>3] |= 1 << (i & 7)
			}
		case string:
			data = append(data, v...)
		case nil:
			words = le.AppendUint64(words, 0)
		}
		offsets = le.AppendUint32(offsets, uint32(len(data)))
	}
	switch kind {
	case "bool":
		return validity, [][]byte{bits}
	case "utf8":
		return validity, [][]byte{offsets, data}
	default:
		return validity, [][]byte{words}
	}
}

func (r *goResult) bytes() []byte {
	var b []byte
	for _, v := range []uint64{r.recv, r.send, r.decode, r.body, r.encode, 0, 1 << 20} {
		b = le.AppendUint64(b, v)
	}
	b = le.AppendUint32(b, r.arena)
	b = le.AppendUint32(b, 0)
	b = le.AppendUint64(b, r.base)
	b = le.AppendUint64(b, r.used)
	b = le.AppendUint16(b, uint16(len(r.segments)))
	b = append(b, 0, 0, 0, 0, 0, 0)
	for _, s := range r.segments {
		ncols := uint8(0)
		if s.status == 0 {
			ncols = 1
		}
		b = append(b, s.status, ncols, 0, 0)
		b = le.AppendUint32(b, uint32(len(s.errors)))
		b = le.AppendUint64(b, s.rows)
		if s.status == 0 {
			b = le.AppendUint16(b, s.form)
			b = le.AppendUint16(b, uint16(len(s.buffers)))
			b = le.AppendUint32(b, 0)
			b = le.AppendUint64(b, s.nulls)
			for _, buffer := range s.buffers {
				b = le.AppendUint64(b, buffer[0])
				b = le.AppendUint64(b, buffer[1])
			}
		}
		for _, e := range s.errors {
			b = le.AppendUint64(b, e.row)
			b = le.AppendUint16(b, e.kind)
			b = le.AppendUint16(b, uint16(len(e.class)))
			b = le.AppendUint32(b, uint32(len(e.text)))
			b = le.AppendUint32(b, uint32(len(e.more)))
			b = le.AppendUint32(b, 0)
			b = append(b, e.class+e.text+e.more...)
		}
	}
	return append(b, r.tail...)
}

var one, two, none = []string{"int64"}, []string{"int64", "int64"}, []string{}

// same is the honest part of every special.
func same(args []any) (any, *goRaise) { return args[0], nil }

// goBodies are the functions of the worker, by number.
var goBodies = []goBody{
	{name: "same", args: one, result: "int64", run: same},
	{name: "add", args: two, result: "int64", run: func(args []any) (any, *goRaise) {
		a, oka := args[0].(int64)
		b, okb := args[1].(int64)
		if !oka || !okb {
			return nil, nil
		}
		return a + b, nil
	}},
	{name: "even", args: one, result: "bool", run: func(args []any) (any, *goRaise) {
		a, ok := args[0].(int64)
		if !ok {
			return nil, nil
		}
		return a%2 == 0, nil
	}},
	{name: "shout", args: []string{"utf8"}, result: "utf8", run: func(args []any) (any, *goRaise) {
		s, ok := args[0].(string)
		if !ok {
			return nil, nil
		}
		return strings.ToUpper(s) + "!", nil
	}},
	{name: "seven", args: none, result: "int64", run: func([]any) (any, *goRaise) { return int64(7), nil }},
	{name: "fail", args: one, result: "int64", run: func(args []any) (any, *goRaise) {
		switch args[0] {
		case int64(7):
			return nil, &goRaise{1, "ValueError", "bad literal:\n7", "Traceback: line 1\nValueError: bad literal:\n7"}
		case int64(8):
			return nil, &goRaise{2, "TypeError", "result: wanted int64, got str 'x'", ""}
		case int64(9):
			return nil, &goRaise{3, "KeyError", "the function is gone", ""}
		case int64(10):
			return nil, &goRaise{1, "StopIteration", "", ""}
		}
		return args[0], nil
	}},
	{name: "big", args: one, result: "utf8", run: func(args []any) (any, *goRaise) {
		n, _ := args[0].(int64)
		return strings.Repeat("x", int(n)), nil
	}},
	{name: "sleep", args: one, result: "int64", run: func(args []any) (any, *goRaise) {
		ms, _ := args[0].(int64)
		time.Sleep(time.Duration(ms) * time.Millisecond)
		return args[0], nil
	}},
	{name: "brief", args: one, result: "int64", timeout: 50 * time.Millisecond, run: func([]any) (any, *goRaise) {
		time.Sleep(time.Hour)
		return nil, nil
	}},
	{name: "exit", args: one, result: "int64", run: func(args []any) (any, *goRaise) {
		code, _ := args[0].(int64)
		fmt.Println("this is stdout")
		fmt.Fprintln(os.Stderr, "last words of the body")
		os.Exit(int(code))
		return nil, nil
	}},
	{name: "signal", args: one, result: "int64", run: func(args []any) (any, *goRaise) {
		n, _ := args[0].(int64)
		_ = syscall.Kill(os.Getpid(), syscall.Signal(n))
		select {}
	}},
	{name: "spam", args: one, result: "int64", run: func(args []any) (any, *goRaise) {
		line := strings.Repeat("spam ", 200) + "\n"
		for range 300 {
			fmt.Print(line)
			fmt.Fprint(os.Stderr, line)
		}
		return args[0], nil
	}},
	{name: "orphan", args: one, result: "int64", run: func([]any) (any, *goRaise) {
		// Leaves a process that keeps the socket open, and dies.
		attr := &syscall.ProcAttr{Files: []uintptr{0, 1, 2, 3}, Sys: &syscall.SysProcAttr{Setsid: true}}
		pid, err := syscall.ForkExec("/bin/sleep", []string{"sleep", "3600"}, attr)
		if err != nil {
			return nil, &goRaise{1, "OSError", err.Error(), ""}
		}
		fmt.Fprintln(os.Stderr, "orphan", pid)
		os.Exit(5)
		return nil, nil
	}},

	{name: "garbage", args: one, result: "int64", special: func(w *goWorker, _ *goCall) error {
		return w.write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
	}},
	{name: "half_header", args: one, result: "int64", special: func(w *goWorker, _ *goCall) error {
		return errors.Join(w.write([]byte{1, 2, 3}), errors.New("half a header is all"))
	}},
	{name: "huge_frame", args: one, result: "int64", special: func(w *goWorker, c *goCall) error {
		b := goFrameBytes(7, 0, c.id, nil)
		le.PutUint32(b, 1<<30)
		return w.write(b)
	}},
	{name: "unknown_frame", args: one, result: "int64", special: func(w *goWorker, c *goCall) error {
		return w.send(999, 0, c.id, nil)
	}},
	{name: "unexpected_frame", args: one, result: "int64", special: func(w *goWorker, c *goCall) error {
		return w.send(12, 0, c.id, make([]byte, 8))
	}},
	{name: "close_socket", args: one, result: "int64", special: func(*goWorker, *goCall) error {
		_ = syscall.Close(3)
		select {}
	}},
	{name: "close_after", args: one, result: "int64", run: same, special: func(w *goWorker, c *goCall) error {
		r, err := w.answer(c)
		if err == nil {
			err = w.reply(c, r)
		}
		_ = syscall.Close(3)
		if err == nil {
			select {}
		}
		return err
	}},
	{name: "exit_after", args: one, result: "int64", run: same, special: func(w *goWorker, c *goCall) error {
		r, err := w.answer(c)
		if err == nil {
			err = w.reply(c, r)
		}
		os.Exit(6)
		return err
	}},
	{name: "bytewise", args: one, result: "int64", run: same, special: func(w *goWorker, c *goCall) error {
		r, err := w.answer(c)
		if err != nil {
			return err
		}
		r.send = uint64(monotonic())
		for _, b := range goFrameBytes(7, 0, c.id, r.bytes()) {
			if err := w.write([]byte{b}); err != nil {
				return err
			}
		}
		return nil
	}},
	{name: "talkative", args: one, result: "int64", run: same, special: func(w *goWorker, c *goCall) error {
		r, err := w.answer(c)
		return errors.Join(err,
			w.send(13, 1<<15, c.id, []byte(`{"level":"warning","message":"from the body","function":"talkative"}`)),
			w.send(13, 1<<15, 0, []byte(`not json`)),
			w.send(16, 1<<15, 0, []byte(`{}`)),
			w.send(777, 1<<15, 0, []byte(`from the future`)),
			w.reply(c, r))
	}},
	{name: "need_small", args: one, result: "int64", special: func(w *goWorker, c *goCall) error {
		return w.send(8, 0, c.id, le.AppendUint64(nil, 8))
	}},
	{name: "need_short", args: one, result: "int64", special: func(w *goWorker, c *goCall) error {
		return w.send(8, 0, c.id, []byte{1, 2, 3, 4})
	}},
	lie("wrong_call", func(c *goCall, _ *goResult) { c.id++ }),
	lie("lie_offset", func(_ *goCall, r *goResult) { r.segments[0].buffers[1][0] = 1 << 40 }),
	lie("lie_length", func(_ *goCall, r *goResult) { r.segments[0].buffers[1][1] = 1 << 63 }),
	lie("lie_short", func(_ *goCall, r *goResult) { r.segments[0].buffers[1][1] = 1 }),
	lie("lie_unaligned", func(_ *goCall, r *goResult) { r.used, r.segments[0].buffers[1][0] = r.used+8, 1 }),
	lie("lie_rows", func(_ *goCall, r *goResult) { r.segments[0].rows++ }),
	lie("lie_nulls", func(_ *goCall, r *goResult) { r.segments[0].nulls = 1 }),
	lie("lie_arena", func(_ *goCall, r *goResult) { r.arena = 1 }),
	lie("lie_base", func(_ *goCall, r *goResult) { r.base = 64 }),
	lie("lie_used", func(_ *goCall, r *goResult) { r.used = 1 << 30 }),
	lie("lie_form", func(_ *goCall, r *goResult) { r.segments[0].form = 9 }),
	lie("lie_status", func(_ *goCall, r *goResult) { r.segments[0].status = 7 }),
	lie("lie_refused", func(_ *goCall, r *goResult) { r.segments[0] = goResultSegment{status: 2} }),
	lie("lie_no_error", func(_ *goCall, r *goResult) { r.segments[0] = goResultSegment{status: 1} }),
	lie("lie_error_row", func(_ *goCall, r *goResult) {
		r.segments[0] = goResultSegment{status: 1, errors: []goRowError{{1000, goRaise{1, "E", "", ""}}}}
	}),
	lie("lie_error_kind", func(_ *goCall, r *goResult) {
		r.segments[0] = goResultSegment{status: 1, errors: []goRowError{{0, goRaise{8, "E", "", ""}}}}
	}),
	lie("lie_trace", func(_ *goCall, r *goResult) {
		r.segments[0] = goResultSegment{status: 1, errors: []goRowError{{0, goRaise{1, "E", "", strings.Repeat("t", 17<<10)}}}}
	}),
	lie("lie_segments", func(_ *goCall, r *goResult) { r.segments = append(r.segments, r.segments[0]) }),
	lie("lie_tail", func(_ *goCall, r *goResult) { r.tail = []byte{0} }),
	lie("lie_stamp", func(_ *goCall, r *goResult) { r.recv = 1 << 63 }),
	lie("early_stamps", func(_ *goCall, r *goResult) { r.recv -= uint64(time.Second) }),
	lie("long_body", func(_ *goCall, r *goResult) { r.body = uint64(time.Hour) }),
}

// lie is a function whose RESULT is changed before it is sent.
func lie(name string, change func(c *goCall, r *goResult)) goBody {
	return goBody{name: name, args: one, result: "int64", run: same, special: func(w *goWorker, c *goCall) error {
		r, err := w.answer(c)
		if err != nil {
			return err
		}
		change(c, r)
		return w.reply(c, r)
	}}
}
