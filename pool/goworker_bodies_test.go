package pool

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

var one, two, none = []string{"int64"}, []string{"int64", "int64"}, []string{}

// slowLie is how long the function of that name takes.
const slowLie = 60 * time.Millisecond

// same is the honest part of every special.
func same(args []any) (any, *goRaise) { return args[0], nil }

func add(args []any) (any, *goRaise) {
	a, oka := args[0].(int64)
	b, okb := args[1].(int64)
	if !oka || !okb {
		return nil, nil
	}
	return a + b, nil
}

// goBodies are the functions of the worker, by number.
var goBodies = slices.Concat(goPlain, goFailing, goTables, goTelling)

var goPlain = []goBody{
	{name: "same", args: one, result: "int64", run: same},
	{name: "add", args: two, result: "int64", run: add},
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
			return nil, badLiteral()
		case int64(8):
			return nil, &goRaise{2, "TypeError", "result: wanted int64, got str 'x'", ""}
		case int64(9):
			return nil, &goRaise{3, "KeyError", "over all rows", ""}
		case int64(10):
			return nil, &goRaise{1, "StopIteration", "", ""}
		case int64(11):
			return nil, &goRaise{3, "", "wanted 2 columns, got 1", ""}
		}
		return args[0], nil
	}},
	{name: "big", args: one, result: "utf8", run: func(args []any) (any, *goRaise) {
		n, _ := args[0].(int64)
		return strings.Repeat("x", int(n)), nil
	}},
	{name: "sleep", args: one, result: "int64", run: func(args []any) (any, *goRaise) {
		ms, _ := args[0].(int64)
		fmt.Fprintln(os.Stderr, "asleep")
		time.Sleep(time.Duration(ms) * time.Millisecond)
		return args[0], nil
	}},
	{name: "slow_add", args: two, result: "int64", run: func(args []any) (any, *goRaise) {
		time.Sleep(3 * time.Millisecond)
		return add(args)
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
			_ = w.reply(c, r)
		}
		os.Exit(6)
		return nil
	}},
	{name: "bytewise", args: one, result: "int64", run: same, special: func(w *goWorker, c *goCall) error {
		r, err := w.answer(c)
		if err != nil {
			return err
		}
		r.send = uint64(monotonic())
		if err := w.sendData(c, r); err != nil {
			return err
		}
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
	{name: "slow_lie", args: one, result: "int64", special: func(w *goWorker, c *goCall) error {
		time.Sleep(slowLie)
		return w.send(12, 0, c.id, make([]byte, 8))
	}},
	odd("data_arena", func(w *goWorker, c *goCall) error { return w.sendWords(c, 1, 0) }),
	odd("data_far", func(w *goWorker, c *goCall) error { return w.sendWords(c, c.outArena, 1<<40) }),
	odd("data_wrap", func(w *goWorker, c *goCall) error { return w.sendWords(c, c.outArena, 1<<64-8) }),
	odd("data_past", func(w *goWorker, c *goCall) error { return w.sendWords(c, c.outArena, c.base+c.limit-8) }),
	odd("data_short", func(w *goWorker, c *goCall) error { return w.send(17, 0, c.id, []byte{1, 2, 3}) }),
	odd("data_call", func(w *goWorker, c *goCall) error { return w.send(17, 0, c.id+1, make([]byte, 16)) }),
	odd("data_exit", func(w *goWorker, c *goCall) error {
		_ = w.write(goFrameBytes(17, 0, c.id, make([]byte, 100))[:50])
		os.Exit(7)
		return nil
	}),
	odd("data_stops", func(w *goWorker, c *goCall) error {
		return w.write(goFrameBytes(17, 0, c.id, make([]byte, 100))[:50])
	}),
	odd("data_slow", func(w *goWorker, c *goCall) error {
		r, err := w.answer(c)
		if err != nil {
			return err
		}
		r.send = uint64(monotonic())
		if err := w.sendData(c, r); err != nil {
			return err
		}
		time.Sleep(slowLie)
		return w.send(7, 0, c.id, r.bytes())
	}),
	odd("data_endless", func(w *goWorker, c *goCall) error {
		for {
			if err := w.sendWords(c, c.outArena, c.base); err != nil {
				return err
			}
		}
	}),
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

// odd is a function that misbehaves in a way of its own.
func odd(name string, special func(w *goWorker, c *goCall) error) goBody {
	return goBody{name: name, args: one, result: "int64", run: same, special: special}
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
