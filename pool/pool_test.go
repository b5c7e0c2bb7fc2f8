package pool

import (
	"slices"
	"strings"
	"testing"

	"github.com/udfgate/udfgate"
)

func TestInvoke_values(t *testing.T) {
	h := newHarness(t, "")
	for _, c := range []struct {
		name    string
		columns []any
		want    []any
	}{
		{"same", []any{[]int64{1, -2, 3}}, []any{int64(1), int64(-2), int64(3)}},
		{"add", []any{[]int64{1, 2}, []any{int64(5), nil}}, []any{int64(6), nil}},
		{"even", []any{[]any{int64(1), nil, int64(4)}}, []any{false, nil, true}},
		{"shout", []any{[]any{"a", nil, "", "grüße"}}, []any{"A!", nil, "!", "GRÜSSE!"}},
		{"seven", []any{rows(3)}, []any{int64(7), int64(7), int64(7)}},
		{"bytewise", []any{[]int64{9}}, []any{int64(9)}},
		{"talkative", []any{[]int64{9}}, []any{int64(9)}},
		{"spam", []any{[]int64{9}}, []any{int64(9)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "shout" {
				c.want[3] = strings.ToUpper("grüße") + "!"
			}
			got, call := h.must(c.name, c.columns...)
			if !slices.Equal(got, c.want) {
				t.Errorf("want %v, got %v", c.want, got)
			}
			if call.Attempts != 1 || call.Crossings != 1 || call.Cold {
				t.Errorf("want one attempt, one crossing, not cold, got %d, %d, %v", call.Attempts, call.Crossings, call.Cold)
			}
			if call.ResultBytes == 0 || call.WorkerPeakBytes != 1<<20 || call.Worker == "" {
				t.Errorf("call lacks facts: %+v", call)
			}
		})
	}
	if got := h.launcher.launched.Load(); got != 1 {
		t.Errorf("workers: want the one of the start, got %d", got)
	}
}

func TestInvoke_zeroRowsDoNotCross(t *testing.T) {
	h := newHarness(t, "")
	got, call := h.must("shout", []string{})
	if len(got) != 0 || call.Attempts != 0 || call.Crossings != 0 {
		t.Errorf("want no value and no crossing, got %v, %d attempts, %d crossings", got, call.Attempts, call.Crossings)
	}
}

func TestInvoke_bodyErrors(t *testing.T) {
	h := newHarness(t, "")
	for _, c := range []struct {
		value     int64
		reason    udfgate.Reason
		row       int64
		exception string
		message   string
		detail    string
	}{
		{7, udfgate.UserError, 2, "ValueError", "ValueError: bad literal: 7", "Traceback: line 1\nValueError: bad literal:\n7"},
		{8, udfgate.UserError, 2, "TypeError", "TypeError: result: wanted int64, got str 'x'", ""},
		{9, udfgate.UserError, udfgate.NoRow, "KeyError", "KeyError: over all rows", ""},
		{10, udfgate.UserError, 2, "StopIteration", "StopIteration", ""},
		{11, udfgate.Internal, udfgate.NoRow, "", "wanted 2 columns, got 1", ""},
	} {
		_, call, err := h.call("fail", []int64{1, 2, c.value, 4})
		e := wantError(t, err, c.reason, c.message)
		if e.Row != c.row || e.Exception != c.exception || e.Detail != c.detail || e.Function != "fail" || e.Retryable {
			t.Errorf("value %d: got %+v", c.value, e)
		}
		if call.Crossings != 1 {
			t.Errorf("value %d: want one crossing, got %d", c.value, call.Crossings)
		}
	}
	if got := h.launcher.launched.Load(); got != 1 {
		t.Errorf("workers: want the first to survive, got %d launched", got)
	}
}

func TestInvoke_workerLost(t *testing.T) {
	h := newHarness(t, "")
	for n, c := range []struct {
		function        string
		value           int64
		message, detail string
		reaped          string
	}{
		{"exit", 3, "worker lost: exit status 3", "last words of the body", ReapedExit},
		{"exit", 0, "worker lost: exit status 0", "last words of the body", ReapedExit},
		{"signal", 15, "worker lost: signal SIGTERM", "", ReapedSignal},
		{"signal", 9, "worker lost: signal SIGKILL", "killed from outside, perhaps out of memory", ReapedSignal},
		{"half_header", 1, "worker lost: exit status 1", "worker: half a header is all", ReapedExit},
	} {
		_, call, err := h.call(c.function, []int64{c.value})
		e := wantError(t, err, udfgate.WorkerLost, c.message)
		if !strings.Contains(e.Detail, c.detail) || !e.Retryable || e.Row != udfgate.NoRow || e.Function != c.function {
			t.Errorf("%s: got %+v", c.message, e)
		}
		if call.Attempts != 1 || call.Crossings != 0 {
			t.Errorf("%s: want 1 attempt and 0 crossings, got %d and %d", c.message, call.Attempts, call.Crossings)
		}
		if got, _ := h.must("same", []int64{5}); got[0] != int64(5) {
			t.Errorf("after %s: got %v", c.message, got)
		}
		h.reaped(n, c.reaped)
	}
}

// A process that the body left behind holds the socket open: there is no end
// of file, and still the loss is noticed.
func TestInvoke_workerLostWithOrphan(t *testing.T) {
	h := newHarness(t, "")
	_, _, err := h.call("orphan", []int64{1})
	e := wantError(t, err, udfgate.WorkerLost, "worker lost: exit status 5")
	var pid int
	for line := range strings.Lines(e.Detail) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "orphan "); ok {
			pid = atoi(t, rest)
		}
	}
	kill(t, pid)
	h.must("same", []int64{1})
}

// What a worker has answered counts, even if it dies right after.
func TestInvoke_answerOfDyingWorker(t *testing.T) {
	h := newHarness(t, "")
	for n := range 5 {
		if got, _ := h.must("exit_after", []int64{5}); got[0] != int64(5) {
			t.Fatalf("got %v", got)
		}
		h.launcher.process(n).Wait()
		eventually(t, "the worker is replaced", func() bool {
			return h.launcher.launched.Load() == int64(n+2) && h.Stats().Idle == 1
		})
	}
}

func TestInvoke_protocolBroken(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 1 })
	for function, want := range map[string]string{
		"garbage":          "broke the protocol: unknown frame type 12591 of 1347703880 bytes",
		"huge_frame":       "broke the protocol: RESULT of 1073741824 bytes, the most is 1048576",
		"unknown_frame":    "broke the protocol: unknown frame type 999 of 0 bytes",
		"unexpected_frame": "broke the protocol: PONG within a call",
		"close_socket":     "closed its socket and did not exit",
		"need_small":       "broke the protocol: NEED of 8 bytes, the output arena has 4194304",
		"need_short":       "broke the protocol: NEED of 4 bytes, wanted 8",
		"lie_offset":       "broke the protocol: segment 0: buffer 1 of 24 bytes at 1099511627776 lies outside the 24 bytes used",
		"lie_length":       "broke the protocol: segment 0: buffer 1 of 9223372036854775808 bytes at 0 lies outside the 24 bytes used",
		"lie_short":        "broke the protocol: answer: wanted at least 24 bytes of values for 3 rows of int64, got 1",
		"lie_unaligned":    "broke the protocol: segment 0: buffer 1 at 1 is not a multiple of 8",
		"lie_rows":         "broke the protocol: segment 0: wanted 3 rows, got 4",
		"lie_nulls":        "broke the protocol: answer: answer says 1 nulls, its values have 0",
		"lie_arena":        "broke the protocol: RESULT lies in arena 1, wanted 2147483648",
		"lie_base":         "broke the protocol: RESULT begins at 64, wanted 0",
		"lie_used":         "broke the protocol: RESULT uses 1073741824 bytes of 4194304",
		"lie_form":         "broke the protocol: answer: value form 9 does not carry int64",
		"lie_status":       "broke the protocol: segment 0: unknown status 7",
		"lie_refused":      "broke the protocol: segment 0 is too large, but nothing was refused",
		"lie_no_error":     "broke the protocol: segment 0 failed without an error",
		"lie_error_row":    "broke the protocol: error of row 1000, the rows run are 0 to 2",
		"lie_error_kind":   "broke the protocol: segment 0: unknown kind 8 of error",
		"lie_trace":        "broke the protocol: segment 0: error of 1, 0 and 17408 bytes, the most is 256, 4096 and 16384",
		"lie_segments":     "broke the protocol: RESULT of 2 segments, wanted 1",
		"lie_tail":         "broke the protocol: RESULT has 1 bytes too many",
		"lie_stamp":        "broke the protocol: RESULT: recv of 9223372036854775808 is out of range",
	} {
		t.Run(function, func(t *testing.T) {
			h.t = t
			_, _, err := h.call(function, []int64{1, 2, 3})
			wantError(t, err, udfgate.WorkerLost, "worker lost: "+want)
			h.must("same", []int64{1})
		})
	}
	t.Run("wrong_call", func(t *testing.T) {
		h.t = t
		_, call, err := h.call("wrong_call", []int64{1})
		first := frameResult
		if testPrivate() {
			first = frameData
		}
		wantError(t, err, udfgate.WorkerLost, "worker lost: broke the protocol: "+first.String()+" names call "+
			itoa(call.ID+1)+", wanted "+itoa(call.ID))
	})
	for n := range int(h.launcher.launched.Load()) - 1 {
		h.reaped(n, ReapedProtocol)
	}
}
