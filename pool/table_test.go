package pool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/codec"
	"github.com/udfgate/udfgate/internal/clock"
)

// partOf is what a part of a table function's answer says.
type partOf struct {
	rows   []int32
	values []any
	errors []any // nil if no row failed
	counts map[string]int64
	last   bool
}

// readPart reads the columns of a part, and checks that they are whole Arrow
// columns.
func readPart(t testing.TB, kind udfgate.Kind, a *codec.Answer) (p partOf) {
	t.Helper()
	if len(a.Nodes) < 2 || a.Nodes[0].Nulls != 0 || a.Nodes[0].Length != a.Rows || a.Rows > udfgate.TableRowsMax {
		t.Fatalf("part of %d rows with nodes %+v", a.Rows, a.Nodes)
	}
	body := a.Body.Bytes()
	index := body[a.Buffers[1].Offset : a.Buffers[1].Offset+a.Buffers[1].Length]
	for i := range int(a.Rows) {
		p.rows = append(p.rows, int32(le.Uint32(index[4*i:])))
	}
	p.values = valuesOf(kind, &codec.Answer{Rows: a.Rows, Nodes: a.Nodes[1:], Buffers: a.Buffers[2:], Body: a.Body})
	if a.Errors != nil {
		p.errors = valuesOf(udfgate.Utf8, a.Errors)
	}
	return p
}

// tableWith calls a table function. each is asked after every part; nil takes
// them all.
func (h *harness) tableWith(ctx context.Context, call *udfgate.Call, column any, each func(p partOf) error) ([]partOf, error) {
	h.t.Helper()
	in, err := batchOf(h.Slots(), column)
	if err != nil {
		h.t.Fatal(err)
	}
	defer in.Release()
	var parts []partOf
	err = h.InvokeTable(ctx, call, in, func(part *codec.Answer, last bool) error {
		defer part.Release()
		if n := len(parts); n > 0 && parts[n-1].last {
			h.t.Error("a part after the last")
		}
		p := readPart(h.t, call.Function.Result.Type.Kind, part)
		p.last, p.counts = last, call.Counts
		parts = append(parts, p)
		if each == nil {
			return nil
		}
		return each(p)
	})
	call.Timeline.To = clock.Now()
	if err == nil && (len(parts) == 0 || !parts[len(parts)-1].last) {
		h.t.Errorf("%d parts without a last one", len(parts))
	}
	return parts, err
}

func (h *harness) table(how udfgate.OnError, name string, column any) ([]partOf, *udfgate.Call, error) {
	h.t.Helper()
	call := h.newCall(name)
	call.OnError = how
	parts, err := h.tableWith(h.t.Context(), call, column, nil)
	return parts, call, err
}

// whole joins parts.
func whole(parts []partOf) (p partOf) {
	for _, part := range parts {
		if part.errors != nil && p.errors == nil {
			p.errors = make([]any, len(p.values))
		}
		if p.errors != nil {
			p.errors = append(p.errors, slices.Concat(part.errors, make([]any, len(part.values)-len(part.errors)))...)
		}
		p.rows, p.values = append(p.rows, part.rows...), append(p.values, part.values...)
	}
	return p
}

func TestInvokeTable(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 1 })
	if f := h.function("series"); !f.Table || f.Signature() != "series(a int64?) -> table of int64?" {
		t.Errorf("got %+v %s", f, f.Signature())
	}
	for _, c := range []struct {
		name   string
		column any
		want   string
		parts  int
	}{
		{"series", []int64{2, 0, 3}, "[0 0 2 2 2] [0 1 0 1 2]", 1},
		{"series", []any{int64(0), nil}, "[] []", 1},
		{"words", []int64{1, 2}, "[0 1 1] [é é éx]", 1},
		{"threes", []int64{2, 3, 2}, "[0 0 1 1 1 2 2] [0 1 0 1 2 0 1]", 3},
		{"threes", []int64{3, 3}, "[0 0 0 1 1 1] [0 1 2 0 1 2]", 2},
	} {
		parts, call, err := h.table("", c.name, c.column)
		if err != nil {
			t.Fatalf("%s%v: %v", c.name, c.column, err)
		}
		got := whole(parts)
		if s := fmt.Sprint(got.rows, got.values); s != c.want || len(parts) != c.parts || got.errors != nil {
			t.Errorf("%s%v: want %s in %d parts, got %s in %d", c.name, c.column, c.want, c.parts, s, len(parts))
		}
		if call.Attempts != 1 || call.Crossings != int64(c.parts) || call.Worker == "" || len(call.Timeline.Spans) == 0 {
			t.Errorf("%s%v: got %+v", c.name, c.column, call)
		}
	}
	if _, err := h.Invoke(t.Context(), h.newCall("series"), emptyBatch(1)); udfgate.AsError(err).Reason != udfgate.Internal {
		t.Errorf("a table function as a scalar one: got %v", err)
	}
	err := h.InvokeTable(t.Context(), h.newCall("same"), emptyBatch(1), nil)
	if udfgate.AsError(err).Reason != udfgate.Internal {
		t.Errorf("a scalar function as one of tables: got %v", err)
	}
	if got := h.launcher.launched.Load(); got != 1 {
		t.Errorf("workers: want the first to survive, got %d launched", got)
	}
}

// A batch without rows has one part without rows, and needs no worker.
func TestInvokeTable_noRows(t *testing.T) {
	h := newHarness(t, "")
	for _, name := range []string{"series", "words"} {
		call, parts := h.newCall(name), 0
		err := h.InvokeTable(t.Context(), call, emptyBatch(0), func(part *codec.Answer, last bool) error {
			defer part.Release()
			parts++
			if p := readPart(t, call.Function.Result.Type.Kind, part); len(p.rows) != 0 || !last {
				t.Errorf("%s: got %+v, last %v", name, p, last)
			}
			return nil
		})
		if err != nil || parts != 1 || call.Attempts != 0 {
			t.Errorf("%s: %v, %d parts, %d attempts", name, err, parts, call.Attempts)
		}
	}
}

// Many rows come in order, in parts of at most TableRowsMax; figures grow, and
// deliver may take the timeline away.
func TestInvokeTable_many(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 1 })
	call := h.newCall("series")
	var rows, spans int
	var bytes, body int64
	parts, err := h.tableWith(t.Context(), call, []int64{1500, 0, 2600}, func(partOf) error {
		if call.ResultBytes <= bytes || call.Work.BodyNS < body {
			t.Errorf("figures do not grow: %+v", call)
		}
		bytes, body = call.ResultBytes, call.Work.BodyNS
		spans += len(call.Timeline.Spans)
		call.Timeline = udfgate.Timeline{From: clock.Now()}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		for i, row := range p.rows {
			wantRow, wantValue := int32(0), int64(rows)
			if rows >= 1500 {
				wantRow, wantValue = 2, int64(rows-1500)
			}
			if row != wantRow || p.values[i] != wantValue {
				t.Fatalf("value %d: got %v of row %d", rows, p.values[i], row)
			}
			rows++
		}
	}
	if rows != 4100 || len(parts) != 5 || spans < 5*3 || len(call.Timeline.Spans) != 0 {
		t.Errorf("got %d rows in %d parts, %d spans, and %d of the last", rows, len(parts), spans, len(call.Timeline.Spans))
	}
}

// Failed rows are null, once, where they stand; what they had answered before stays.
func TestInvokeTable_failedRows(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 1 })
	column := []int64{1, 7, 8, 3}
	parts, call, err := h.table(udfgate.OnErrorReject, "parse", column)
	if err != nil {
		t.Fatal(err)
	}
	got := whole(parts)
	want := fmt.Sprint([]int{0, 0, 1, 1, 2, 2, 3, 3}, []any{1, 2, 7, nil, 8, nil, 3, 4}, []any{nil, nil, nil, badText, nil, xForInt, nil, nil})
	if s := fmt.Sprint(got.rows, got.values, got.errors); s != want || call.RowsFailed != 2 {
		t.Errorf("want %s, got %s, %d failed", want, s, call.RowsFailed)
	}
	parts, call, err = h.table(udfgate.OnErrorNull, "parse", column)
	if got := whole(parts); err != nil || got.errors != nil || got.values[3] != nil || call.RowsFailed != 2 {
		t.Errorf("null: got %v %+v, %d failed", err, got, call.RowsFailed)
	}
	_, _, err = h.table(udfgate.OnErrorFail, "parse", column)
	if e := wantError(t, err, udfgate.UserError, badText); e.Row != 1 || e.Function != "parse" {
		t.Errorf("fail: got %+v", e)
	}
	if got := h.launcher.launched.Load(); got != 1 {
		t.Errorf("workers: want the first to survive, got %d launched", got)
	}
}

// The body goes no further than the part that was asked for: it counts its
// steps, and what it counts comes with each part.
func TestInvokeTable_pausesTheBody(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 1 })
	h.spared(func() {
		steps, rows, enough := int64(0), int64(0), errors.New("enough")
		call := h.newCall("endless")
		parts, err := h.tableWith(t.Context(), call, []int64{1}, func(p partOf) error {
			steps, rows = steps+p.counts["steps"], rows+int64(len(p.rows))
			if steps > rows+1 || p.counts["steps"] == 0 {
				t.Errorf("%d steps for %d rows", steps, rows)
			}
			if rows >= 5*udfgate.TableRowsMax {
				return enough
			}
			return nil
		})
		if err != enough { //nolint:errorlint // as it is
			t.Errorf("want deliver's error as it is, got %v", err)
		}
		if len(parts) != 5 || call.Counts != nil {
			t.Errorf("got %d parts, counts %v after the end", len(parts), call.Counts)
		}
	})
}

// A body that does not end when it is told to ends with its worker.
func TestInvokeTable_stubbornBody(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 1 })
	enough := errors.New("enough")
	from := time.Now()
	_, err := h.tableWith(t.Context(), h.newCall("stubborn"), []int64{1}, func(partOf) error { return enough })
	if err != enough { //nolint:errorlint // as it is
		t.Errorf("got %v", err)
	}
	if took := time.Since(from); took < cancelGrace {
		t.Errorf("gave up after %v", took)
	}
	h.reaped(0, ReapedCancelled)
	h.must("same", []int64{1})
}

// A caller that has gone ends the body, not the worker.
func TestInvokeTable_callerGoes(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 1 })
	h.spared(func() {
		ctx, cancel := context.WithCancel(t.Context())
		parts, err := h.tableWith(ctx, h.newCall("endless"), []int64{1}, func(partOf) error { cancel(); return nil })
		if e := wantError(t, err, udfgate.Timeout, "the caller went away"); !errors.Is(e, context.Canceled) || len(parts) != 1 {
			t.Errorf("got %+v after %d parts", e, len(parts))
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := h.tableWith(ctx, h.newCall("endless"), []int64{1}, nil)
	if e := udfgate.AsError(err); e.Reason != udfgate.Timeout || errors.Is(err, context.Canceled) {
		t.Errorf("deadline: got %v", err)
	}
	h.must("same", []int64{1})
	ctx, cancel = context.WithCancel(t.Context())
	_, err = h.tableWith(ctx, h.newCall("third_hangs"), []int64{1}, func(p partOf) error {
		if p.values[0] == int64(1) { // the next part does not come
			time.AfterFunc(time.Millisecond, cancel) // while the body runs
		}
		return nil
	})
	wantError(t, err, udfgate.Timeout, "the caller went away")
	h.must("same", []int64{1})
}

// A caller may go while the limit of the next part is set: the watch of its
// context, which a slow part begins, reads the limit too. Only the race
// detector tells.
func TestInvokeTable_callerGoesMeanwhile(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 1 })
	h.spared(func() {
		w := h.only()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		told := toldContext{ctx, make(chan struct{}, 1)}
		_, err := h.tableWith(told, h.newCall("strolls"), []int64{1}, func(partOf) error {
			if w.cross.disarm != nil {
				cancel()
				<-told.asked
			}
			return nil
		})
		wantError(t, err, udfgate.Timeout, "the caller went away")
	})
}

// toldContext tells when it is first asked why it has ended.
type toldContext struct {
	context.Context
	asked chan struct{}
}

func (c toldContext) Err() error {
	err := c.Context.Err()
	if err != nil {
		select {
		case c.asked <- struct{}{}:
		default:
		}
	}
	return err
}

// Each part has the time limit for itself; the one that it takes too long for
// ends the worker.
func TestInvokeTable_timeoutInThirdPart(t *testing.T) {
	patiently(t, 150*time.Millisecond, func(timeout time.Duration) (slow bool) {
		h := newHarness(t, "", func(c *Config) { c.WorkersMax, c.Timeout = 1, timeout })
		parts, err := h.tableWith(t.Context(), h.newCall("third_hangs"), []int64{1}, nil)
		e := wantError(t, err, udfgate.Timeout, fmt.Sprintf("timeout after %v (--timeout)", timeout))
		if len(parts) > 2 {
			t.Fatalf("got %d parts", len(parts))
		}
		h.reaped(0, ReapedTimeout)
		return len(parts) < 2 || !strings.Contains(e.Detail, "time.Sleep")
	})
}

// The caller's time is not the body's; a deadline is over all.
func TestInvokeTable_slowCaller(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 1 })
	patiently(t, 150*time.Millisecond, func(timeout time.Duration) (slow bool) {
		call := h.newCall("threes")
		call.TimeoutNS, call.TimeoutName = int64(timeout), "udfgate-timeout"
		until := int64(0)
		parts, err := h.tableWith(t.Context(), call, []int64{9}, func(partOf) error {
			until = clock.Now() + int64(timeout) + 1
			eventually(t, "more than the limit has passed", func() bool { return clock.Now() > until })
			return nil
		})
		if err == nil {
			if len(parts) != 3 {
				t.Errorf("a slow reader: got %d parts", len(parts))
			}
			return false
		}
		wantError(t, err, udfgate.Timeout, fmt.Sprintf("timeout after %v (udfgate-timeout)", timeout))
		if call.Timeline.To < until+int64(timeout) {
			t.Errorf("a slow reader: the limit was passed after %d parts within its time", len(parts))
		}
		return true
	})
	patiently(t, 150*time.Millisecond, func(timeout time.Duration) (slow bool) {
		call := h.newCall("threes")
		call.Deadline, call.Limit, call.LimitNS = clock.Now()+int64(timeout), "the caller's", int64(timeout)
		parts, err := h.tableWith(t.Context(), call, []int64{30}, func(partOf) error {
			eventually(t, "the deadline has passed", func() bool { return clock.Now() > call.Deadline })
			return nil
		})
		wantError(t, err, udfgate.Timeout, fmt.Sprintf("timeout after %v (the caller's)", timeout))
		if len(parts) > 1 {
			t.Errorf("a deadline over all: got %d parts", len(parts))
		}
		return len(parts) == 0
	})
}

// A worker that is lost between parts is the call's error; nothing is repeated.
func TestInvokeTable_workerLost(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 1 })
	parts, err := h.tableWith(t.Context(), h.newCall("endless"), []int64{1}, func(p partOf) error {
		p0 := h.launcher.process(0)
		if err := p0.Kill(); err != nil {
			t.Error(err)
		}
		eventually(t, "the worker is gone", func() bool { return socketClosed(p0) })
		return nil
	})
	if e := wantError(t, err, udfgate.WorkerLost, "worker lost: signal SIGKILL"); len(parts) != 1 || e.Function != "endless" {
		t.Errorf("got %+v after %d parts", e, len(parts))
	}
	h.must("same", []int64{1})
	_, err = h.tableWith(t.Context(), h.newCall("endless"), []int64{1}, func(partOf) error {
		if err := h.launcher.process(1).Kill(); err != nil {
			t.Error(err)
		}
		return context.Canceled
	})
	if err != context.Canceled { //nolint:errorlint // as it is
		t.Errorf("lost while it ends: got %v", err)
	}
	h.must("same", []int64{1})
}

// A panic of deliver ends the worker, which is in the midst of a body, and the
// lease; the call's place at its gate and its slot are free again, and the next
// call has a worker.
func TestInvokeTable_panic(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 1 })
	for i, name := range []string{"endless", "table_alone"} {
		w := h.only()
		passes := func() (caught any) {
			defer func() { caught = recover() }()
			_, err := h.tableWith(t.Context(), h.newCall(name), []int64{9}, func(partOf) error { panic("a bug") })
			t.Errorf("%s: want the panic to pass, got %v", name, err)
			return nil
		}
		if caught := passes(); caught != "a bug" {
			t.Errorf("%s: want the panic as it was, got %v", name, caught)
		}
		h.reaped(i, ReapedProtocol)
		if got := w.process.Wait(); got.Signal != "SIGKILL" {
			t.Errorf("%s: want the worker killed, got %v", name, got)
		}
		eventually(t, "the slot that it could read is free", func() bool { return h.Stats().SlotBytes == 0 })
		if s := h.Stats(); s.Busy != 0 || s.QueueLen != 0 || s.PinnedBytes != 0 {
			t.Errorf("%s: left behind: %+v", name, s)
		}
		if g := h.gates[h.function(name).Number]; g.passed != 0 || h.gated != 0 {
			t.Errorf("%s: %d chunks at the gate, %d wait", name, g.passed, h.gated)
		}
		if _, call := h.must("same", []int64{5}); call.Attempts != 1 || call.Worker == w.pid {
			t.Errorf("%s: want the next call in another worker, got %d attempts in %s", name, call.Attempts, call.Worker)
		}
	}
}

// An answer over its limit, in some part, ends the body and not the worker.
func TestInvokeTable_tooLarge(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax, c.AnswerBytesMax = 1, 6<<20 })
	for _, n := range []int64{6<<20 - 100, 7 << 20} { // over it with the row, and by itself
		h.spared(func() {
			_, _, err := h.table("", "wide", []int64{n})
			e := wantErrorPrefix(t, err, udfgate.Invalid, "result of ")
			if e.Shape != udfgate.ShapeTooLarge || !strings.Contains(e.Message, "--max-message-bytes 6291456") {
				t.Errorf("%d: got %+v", n, e)
			}
		})
	}
	parts, _, err := h.table("", "wide", []int64{5 << 20}) // needs a larger arena
	if err != nil || len(parts) != 3 || len(parts[2].values[0].(string)) != 5<<20 {
		t.Errorf("got %v, %d parts", err, len(parts))
	}
}

// Parts that lie end their worker.
func TestInvokeTable_lies(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 1 })
	for _, c := range []struct{ name, text string }{
		{"lie_part_rows", "part of 1025 rows, the most is 1024"},
		{"lie_part_falls", "answer: value 1 came of row 0, after one of row 1"},
		{"lie_part_falls_back", "answer: value 0 came of row 0, after one of row 1"},
		{"lie_part_row", "answer: value 1 came of row 9, the rows run are below 3"},
		{"lie_part_negative", "answer: value 0 came of row -1, the rows run are below 3"},
		{"lie_part_form", "answer: row indices in value form 3, wanted 1"},
		{"lie_part_nulls", "answer: row indices: answer says 1 nulls, its values have 0"},
		{"lie_part_columns", "segment 0: wanted 2 or 3 columns, got 1"},
		{"lie_part_errors", "segment 0 has a column of errors, the call ends with the first"},
		{"lie_part_base", "RESULT begins at 64, wanted 0"},
		{"lie_part_failed", "RESULT of status 1 says that there is more"},
		{"lie_part_twice", "RESULT before it was asked for"},
		{"lie_part_early", "RESULT before it was asked for"},
	} {
		_, _, err := h.table("", c.name, []int64{2, 2, 2})
		wantError(t, err, udfgate.WorkerLost, "worker lost: broke the protocol: "+c.text)
	}
	for name, text := range map[string]string{
		"lie_more":          "RESULT of a scalar function says that there is more",
		"lie_three_columns": "segment 0: wanted 1 or 2 columns, got 3",
	} {
		_, _, err := h.call(name, []int64{1})
		wantError(t, err, udfgate.WorkerLost, "worker lost: broke the protocol: "+text)
	}
	enough := errors.New("enough")
	_, err := h.tableWith(t.Context(), h.newCall("lie_part_unending"), []int64{9}, func(partOf) error { return enough })
	if err != enough { //nolint:errorlint // as it is
		t.Errorf("got %v", err)
	}
	h.reaped(15, ReapedProtocol)
	h.must("same", []int64{1})
}
