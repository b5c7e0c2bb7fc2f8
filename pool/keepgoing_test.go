package pool

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/internal/clock"
	"github.com/udfgate/udfgate/internal/seed"
)

// keep calls a function with an on_error and returns its values and, of each
// row, the error text; errors is nil where the answer has no error column.
func (h *harness) keep(how udfgate.OnError, name string, columns ...any) (values, errors []any, call *udfgate.Call, err error) {
	h.t.Helper()
	in, err := batchOf(h.Slots(), columns...)
	if err != nil {
		h.t.Fatal(err)
	}
	defer in.Release()
	call = h.newCall(name)
	call.OnError = how
	answer, err := h.Invoke(h.t.Context(), call, in)
	call.Timeline.To = clock.Now()
	if err != nil {
		return nil, nil, call, err
	}
	defer answer.Release()
	if answer.Errors != nil {
		errors = valuesOf(udfgate.Utf8, answer.Errors)
	}
	return valuesOf(call.Function.Result.Type.Kind, answer), errors, call, nil
}

const (
	badText = "ValueError: bad literal: 7"
	nullInt = "TypeError: result: wanted int64, got None"
	xForInt = "TypeError: result: wanted int64, got str 'x'"
)

func TestInvoke_keepsGoing(t *testing.T) {
	h := newHarness(t, "")
	for _, c := range []struct {
		name           string
		column         []any
		values, errors []any
	}{
		{"fail", []any{int64(1), int64(7), nil, int64(8), int64(10), int64(5)}, []any{int64(1), nil, nil, nil, nil, int64(5)}, []any{nil, badText, nil, xForInt, "StopIteration", nil}},
		{"fail", []any{int64(1), nil}, []any{int64(1), nil}, nil},
		{"whole", []any{int64(1), nil, int64(7)}, []any{int64(1), nil, nil}, []any{nil, nullInt, badText}},
		{"label", []any{int64(1), nil, int64(7), int64(8)}, []any{"éx", nil, nil, nil}, []any{nil, strings.Replace(nullInt, "int64", "utf8", 1), badText, "TypeError: result: wanted utf8, got int 8"}},
		{"list_fail", []any{int64(1), int64(8), nil}, []any{int64(1), nil, nil}, []any{nil, xForInt, nil}},
		{"list_fail", []any{int64(1), int64(7), nil}, []any{nil, nil, nil}, []any{badText, badText, badText}},
		{"list_parse", []any{int64(1), int64(7), int64(8), nil, int64(7)}, []any{int64(1), nil, nil, nil, nil}, []any{nil, badText, xForInt, nil, badText}},
	} {
		failed := int64(0)
		for _, e := range c.errors {
			if e != nil {
				failed++
			}
		}
		for _, how := range []udfgate.OnError{udfgate.OnErrorNull, udfgate.OnErrorReject} {
			values, errors, call, err := h.keep(how, c.name, c.column)
			if err != nil {
				t.Errorf("%s %s %v: %v", c.name, how, c.column, err)
				continue
			}
			want := c.errors
			if how == udfgate.OnErrorNull {
				want = nil // nobody asked
			}
			if !slices.Equal(values, c.values) || !slices.Equal(errors, want) {
				t.Errorf("%s %s %v: got %v %q", c.name, how, c.column, values, errors)
			}
			if call.RowsFailed != failed || call.Crossings != 1 || call.Attempts != 1 {
				t.Errorf("%s %s %v: want %d rows failed in one crossing, got %d in %d", c.name, how, c.column, failed, call.RowsFailed, call.Crossings)
			}
		}
	}
	if got := h.launcher.launched.Load(); got != 1 {
		t.Errorf("workers: want the first to survive, got %d launched", got)
	}
}

// What is no row's own failure ends a call that keeps going as it ends any.
func TestInvoke_keepsGoingButEnds(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 1 })
	for _, c := range []struct {
		name    string
		value   int64
		reason  udfgate.Reason
		message string
	}{
		{"fail", 11, udfgate.Internal, "wanted 2 columns, got 1"},
		{"list_fail", 9, udfgate.UserError, "wanted 2 results, got 1"},
		{"brief", 1, udfgate.Timeout, "timeout after 50ms (the function's timeout)"},
		{"exit", 3, udfgate.WorkerLost, "worker lost: exit status 3"},
	} {
		for _, how := range []udfgate.OnError{udfgate.OnErrorFail, udfgate.OnErrorNull, udfgate.OnErrorReject} {
			_, _, call, err := h.keep(how, c.name, []int64{c.value, 0})
			e := wantError(t, err, c.reason, c.message)
			if e.Row != udfgate.NoRow || e.Function != c.name || call.RowsFailed != 0 {
				t.Errorf("%s %s: got %+v, %d rows failed", c.name, how, e, call.RowsFailed)
			}
		}
	}
}

func TestInvoke_modeList(t *testing.T) {
	h := newHarness(t, "")
	if f := h.function("list_add"); f.Mode != udfgate.ModeList || f.OnError != udfgate.OnErrorFail {
		t.Errorf("got %+v", f)
	}
	got, _ := h.must("list_add", []any{int64(1), nil, int64(3)}, []int64{4, 5, 6})
	if !slices.Equal(got, []any{int64(5), nil, int64(9)}) {
		t.Errorf("got %v", got)
	}
	_, _, err := h.call("list_fail", []int64{1, 7})
	if e := wantError(t, err, udfgate.UserError, badText); e.Row != udfgate.NoRow || e.Exception != "ValueError" || !strings.HasPrefix(e.Detail, "Traceback") {
		t.Errorf("raised over all rows: got %+v", e)
	}
	_, _, err = h.call("list_parse", []int64{1, 2, 3, 4, 7, 6})
	if e := wantError(t, err, udfgate.UserError, badText); e.Row != 4 {
		t.Errorf("elementwise: got %+v", e)
	}
	_, _, err = h.call("list_fail", []int64{1, 8})
	if e := wantError(t, err, udfgate.UserError, xForInt); e.Row != 1 {
		t.Errorf("misfit: got %+v", e)
	}
}

// A function's own option shows in what it answers, also a NOT NULL one.
func TestFunctions_onError(t *testing.T) {
	h := newHarness(t, "", func(c *Config) {
		c.Overrides = map[string]Override{"m.fail": {OnError: udfgate.OnErrorReject}, "whole": {OnError: udfgate.OnErrorNull, Timeout: time.Second}}
	})
	for name, want := range map[string]udfgate.OnError{
		"row_null": udfgate.OnErrorNull, "list_null": udfgate.OnErrorNull, "row_reject": udfgate.OnErrorReject, "same": udfgate.OnErrorFail,
		"fail": udfgate.OnErrorReject, "whole": udfgate.OnErrorNull,
	} {
		if got := h.function(name).OnError; got != want {
			t.Errorf("%s: want %s, got %s", name, want, got)
		}
	}
	if got := h.function("row_null").Signature(); got != "row_null(a int64?) -> int64?" {
		t.Errorf("got %s", got)
	}
	// A request's fail puts the declared NOT NULL back in force.
	_, _, _, err := h.keep(udfgate.OnErrorFail, "row_null", []any{int64(1), nil})
	if e := wantError(t, err, udfgate.UserError, nullInt); e.Row != 1 {
		t.Errorf("got %+v", e)
	}
}

func TestInvoke_requestsTimeout(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 1 })
	call := h.newCall("sleep")
	call.TimeoutNS, call.TimeoutName = int64(50*time.Millisecond), "udfgate-timeout"
	_, _, err := h.callWith(t.Context(), call, []int64{60_000})
	wantError(t, err, udfgate.Timeout, "timeout after 50ms (udfgate-timeout)")
	call = h.newCall("brief")
	call.TimeoutNS, call.TimeoutName = 1<<63-1, "udfgate-timeout"
	_, _, err = h.callWith(t.Context(), call, []int64{1})
	wantError(t, err, udfgate.Timeout, "timeout after 50ms (the function's timeout)")
}

// Answers that lie about which rows failed end their worker.
func TestInvoke_liesOfFailedRows(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 1 })
	for _, c := range []struct {
		name string
		how  udfgate.OnError
		text string
	}{
		{"lie_extra_column", udfgate.OnErrorFail, "segment 0 has a column of errors, the call ends with the first"},
		{"lie_row_error", udfgate.OnErrorNull, "segment 0 ends with an error of row 0, the call keeps going"},
		{"lie_failed_value", udfgate.OnErrorNull, "answer: row 1 failed, and has a value"},
		{"lie_failed_form", udfgate.OnErrorNull, "answer: error column: value form 3 does not carry utf8"},
		{"lie_failed_offset", udfgate.OnErrorNull, ""}, // buffer outside
		{"lie_failed_nulls", udfgate.OnErrorReject, "answer: error column: answer says 2 nulls, its values have 1"},
	} {
		_, _, _, err := h.keep(c.how, c.name, []int64{1, 7})
		e, ok := err.(*udfgate.Error) //nolint:errorlint // Invoke returns it as it is
		if !ok || e.Reason != udfgate.WorkerLost || !strings.Contains(e.Message, "broke the protocol: "+c.text) {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
	h.must("same", []int64{1})
}

// Random failing rows: which rows fail, and what they say, is the oracle's.
func TestInvoke_keepsGoingOverRandomRows(t *testing.T) {
	rng := seed.Rand(t)
	h := newHarness(t, "")
	for range 60 {
		n := 1 + rng.IntN(3000)
		share := []int{2, 20, 1000}[rng.IntN(3)]
		column, values, errors := randomRows(rng, n, share)
		for _, name := range []string{"whole", "label", "list_parse"} {
			got, texts, call, err := h.keep(udfgate.OnErrorReject, name, column)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			failed := 0
			for i := range column {
				want, text := values(name, column[i]), errors(name, column[i])
				told := any(nil)
				if texts != nil {
					told = texts[i]
				}
				if text != nil {
					failed++
				}
				if got[i] != want || told != text {
					t.Fatalf("%s: row %d of %d, %v: want %v %v, got %v %v", name, i, n, column[i], want, text, got[i], told)
				}
			}
			if call.RowsFailed != int64(failed) || (texts == nil) != (failed == 0) {
				t.Fatalf("%s: want %d rows failed, got %d", name, failed, call.RowsFailed)
			}
		}
	}
}

// randomRows is a column of which about one in share rows fails, and the oracle.
func randomRows(rng *rand.Rand, n, share int) (column []any, values, errors func(name string, v any) any) {
	for range n {
		switch rng.IntN(share) {
		case 0:
			column = append(column, []any{nil, int64(7), int64(8)}[rng.IntN(3)])
		default:
			column = append(column, int64(10+rng.IntN(20)))
		}
	}
	if column[0] == nil {
		column[0] = int64(7) // batchOf reads the type off it
	}
	errors = func(name string, v any) any {
		switch {
		case v == int64(7):
			return badText
		case v == nil && name == "label":
			return "TypeError: result: wanted utf8, got None"
		case v == nil && name == "whole":
			return nullInt
		case v == int64(8) && name == "label":
			return "TypeError: result: wanted utf8, got int 8"
		case v == int64(8) && name == "list_parse":
			return xForInt
		}
		return nil
	}
	values = func(name string, v any) any {
		switch {
		case v == nil || errors(name, v) != nil:
			return nil
		case name == "label":
			return "é" + strings.Repeat("x", int(v.(int64)))
		}
		return v
	}
	return column, values, errors
}

// Error columns over the limit of answers are refused by its name, and the call
// that only wants nulls is not.
func TestInvoke_manyLongErrorTexts(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.AnswerBytesMax = 8 << 10 })
	column := make([]int64, 400)
	column[9] = 7
	_, _, _, err := h.keep(udfgate.OnErrorReject, "list_fail", column)
	e := wantErrorPrefix(t, err, udfgate.Invalid, "result of ")
	if e.Shape != udfgate.ShapeTooLarge || !strings.Contains(e.Message, "--max-message-bytes 8192") {
		t.Errorf("got %+v", e)
	}
	values, _, call, err := h.keep(udfgate.OnErrorNull, "list_fail", column)
	if err != nil || call.RowsFailed != 400 || slices.ContainsFunc(values, func(v any) bool { return v != nil }) {
		t.Errorf("got %v, %d rows failed", err, call.RowsFailed)
	}
}

func wantErrorPrefix(t *testing.T, err error, reason udfgate.Reason, prefix string) *udfgate.Error {
	t.Helper()
	if err == nil {
		t.Fatalf("want %s %q, got no error", reason, prefix)
	}
	e := udfgate.AsError(err)
	if e.Reason != reason || !strings.HasPrefix(e.Message, prefix) {
		t.Fatalf("want %s %q, got %v", reason, prefix, err)
	}
	return e
}

// With BillOff nothing is noted down, and answers are the same.
func TestInvoke_billOff(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.BillOff = true })
	column := make([]int64, 2*measureRowsMin)
	values, call := h.must("same", column)
	if len(values) != len(column) || len(call.Timeline.Spans) != 0 || len(h.told.waits) != 0 || h.told.started == 0 {
		t.Errorf("got %d values, spans %v, %d waits, %d starts", len(values), call.Timeline.Spans, len(h.told.waits), h.told.started)
	}
	in, err := batchOf(h.Slots(), column)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Release()
	for off, want := range map[bool]uint16{true: callKeepGoing, false: callKeepGoing | callMeasureCPU} {
		call := h.newCall("same")
		call.Timeline.Off = off
		call.OnError = udfgate.OnErrorNull
		c, err := h.newChunk(call, in)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.flags(); got != want {
			t.Errorf("bill off %v: want flags %b, got %b", off, want, got)
		}
		c.release()
	}
	var off udfgate.Ledger
	off.Add(&udfgate.Timeline{From: 1, To: 5, Off: true})
	if off.Settle(9); off.Booked.Wall() != 0 {
		t.Errorf("got %v", off.Booked)
	}
}
