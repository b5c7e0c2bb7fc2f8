package pool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/udfgate/udfgate"
)

// headers is a Caller.
type headers []udfgate.KeyValue

func (h headers) Headers() []udfgate.KeyValue { return h }

// A body that asks is told who calls, and what the call is.
func TestContext(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 1 })
	call := h.newCall("who")
	call.Stream, call.Batch, call.Principal = 17, 3, "etl"
	call.Caller = headers{{Key: "x-tenant", Value: "größe"}, {Key: "x-other", Value: "b"}, {Key: "x-tenant", Value: "c"}}
	got, _, err := h.callWith(t.Context(), call, []string{"x-tenant", "x-none"})
	if want := "[17/3 etl cancelled=false cut=false größe c 17/3 etl cancelled=false cut=false]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("want %s, got %v, %v", want, got, err)
	}
	if got, _ := h.must("who", []string{"x-tenant"}); got[0] != "0/0  cancelled=false cut=false" {
		t.Errorf("nothing known: got %v", got)
	}
	call = h.newCall("table_who")
	call.Principal = "etl"
	parts, err := h.tableWith(t.Context(), call, []string{"x"}, nil)
	if all := whole(parts); err != nil || fmt.Sprint(all.values) != "[etl etl]" || len(parts) != 2 {
		t.Errorf("in a table: got %v, %v", all, err)
	}
}

// A body that asks finds out that its caller has gone, and its worker stays.
func TestContext_cancelled(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 1 })
	ctx, cancel := context.WithCancel(t.Context())
	call := h.newCall("until_gone")
	call.Caller = cancels{cancel}
	call.Stream = 1
	if got, _, err := h.callWith(ctx, call, []int64{1}); err != nil || len(got) != 1 {
		// until_gone ends by itself, and an answer in time is an answer.
		t.Errorf("got %v, %v", got, err)
	}
	if got := h.launcher.launched.Load(); got != 1 {
		t.Errorf("workers: want the first to survive, got %d launched", got)
	}
}

// cancels is a Caller that goes away when it is asked for.
type cancels struct{ cancel func() }

func (c cancels) Headers() []udfgate.KeyValue { c.cancel(); return nil }

// Headers are told up to a bound, and the frame is never too long.
func TestContext_headersBound(t *testing.T) {
	long := strings.Repeat("v", contextHeadersBytesMax-7)
	for _, c := range []struct {
		headers headers
		kept    int
		cut     bool
	}{
		{headers{{Key: "x-long", Value: long + "v"}}, 1, false},
		{headers{{Key: "x-long", Value: long + "vv"}}, 0, true},
		{headers{{Key: "a", Value: "b"}, {Key: "x-long", Value: long}, {Key: "c", Value: "d"}}, 1, true},
		{headers{{Key: "a", Value: "gr\xf6\xdfe"}, {Key: "c", Value: "größe"}}, 1, true}, // of another encoding: no text
		{nil, 0, false},
	} {
		got := contextOf(&udfgate.Call{Caller: c.headers}, false)
		if len(got.Headers) != c.kept || got.Cut != c.cut {
			t.Errorf("want %d headers, cut %v, got %d, %v", c.kept, c.cut, len(got.Headers), got.Cut)
		}
	}
	worst := make(headers, contextHeadersBytesMax)
	for i := range worst {
		worst[i].Key = "\x01"
	}
	text, err := json.Marshal(contextOf(&udfgate.Call{Caller: worst}, true))
	if err != nil || len(text) > frameBytesMax {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

// What a body counted comes with its answer, and is forgotten with an answer
// that is none.
func TestCounts(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 1 })
	_, call := h.must("tally", []int64{1, 2, 2})
	if want := map[string]int64{"n_1": 1, "n_2": 2, "all": 5}; !maps.Equal(call.Counts, want) {
		t.Errorf("want %v, got %v", want, call.Counts)
	}
	_, call, err := h.call("tally", []int64{1, 7})
	if wantError(t, err, udfgate.UserError, badText); call.Counts != nil {
		t.Errorf("of a failed call: got %v", call.Counts)
	}
	if _, call := h.must("same", []int64{1}); call.Counts != nil {
		t.Errorf("of another call: got %v", call.Counts)
	}
	// Each part has its own.
	parts, _, err := h.table("", "threes", []int64{7})
	if err != nil || len(parts) != 3 {
		t.Fatalf("got %v, %d parts", err, len(parts))
	}
	total := int64(0)
	for _, p := range parts {
		total += p.counts["steps"]
	}
	if first := parts[0].counts["steps"]; total != 7 || first != 4 { // one ahead, to know that there is more
		t.Errorf("want 7 steps, 4 of them in the first part, got %d, %d", total, first)
	}
}

// Names are bounded per function, over the lives of its workers.
func TestCounts_names(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 1 })
	for i := range int64(counterNamesMax - 1) { // and all
		h.must("tally", []int64{100 + i})
	}
	h.must("tally", []int64{100, 120})
	text := func(name string) string {
		return fmt.Sprintf("ValueError: counter: %q is one name too many: a function has at most 32 (COUNTER_NAMES_MAX)", name)
	}
	excess := func(how udfgate.OnError, name string) {
		t.Helper()
		call := h.newCall("tally")
		call.OnError = how
		_, _, err := h.callWith(t.Context(), call, []int64{201, 200, 100})
		e := wantError(t, err, udfgate.UserError, text(name))
		if e.Row != udfgate.NoRow || e.Exception != "ValueError" || e.Retryable || call.Counts != nil || call.ResultBytes != 0 {
			t.Errorf("got %+v, %+v", e, call)
		}
		if _, call := h.must("tally", []int64{100}); !maps.Equal(call.Counts, map[string]int64{"n_100": 1, "all": 100}) {
			t.Errorf("after it: got %v", call.Counts)
		}
	}
	excess(udfgate.OnErrorFail, "n_200")
	excess(udfgate.OnErrorNull, "n_200")
	_, _, err := h.call("tally", []int64{300, 7}) // what the body says itself comes first
	wantError(t, err, udfgate.UserError, badText)
	if got := h.launcher.launched.Load(); got != 1 {
		t.Errorf("workers: want the first to survive, got %d launched", got)
	}
	if err := h.only().process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another worker is idle", func() bool { return h.launcher.launched.Load() == 2 && h.Stats().Idle == 1 })
	excess(udfgate.OnErrorFail, "n_200") // the next worker is not blamed for what the last has counted
	excess(udfgate.OnErrorFail, "n_200")
	if got := h.launcher.launched.Load(); got != 2 {
		t.Errorf("workers: want the second to survive, got %d launched", got)
	}
}

// A part with a name too many ends the body of a table function, not its worker.
func TestCounts_namesOfTables(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 1 })
	for i := range counterNamesMax {
		h.counters[h.function("endless").Number].add(fmt.Sprint("n_", i))
	}
	h.spared(func() {
		parts, err := h.tableWith(t.Context(), h.newCall("endless"), []int64{1}, nil)
		wantErrorPrefix(t, err, udfgate.UserError, `ValueError: counter: "steps" is one name too many`)
		if len(parts) != 0 {
			t.Errorf("got %d parts", len(parts))
		}
	})
}

// An answer that cannot be told leaves a body that waits for it: no other call
// may have its worker.
func TestTell_unsaid(t *testing.T) {
	err := (&crossing{}).tell(frameContext, make(chan int))
	if _, ours := errors.AsType[*udfgate.Error](err); err == nil || ours {
		t.Errorf("want an error that is the worker's end, got %T %v", err, err)
	}
}

// Frames that break the rules end their worker.
func TestTelling_lies(t *testing.T) {
	h := newHarness(t, "", func(c *Config) { c.WorkersMax = 1 })
	const badName = "COUNTS: wanted a name of 1 to 64 letters, digits and _, no digit first, got "
	for name, text := range map[string]string{
		"counts_name":     badName + `"9lives"`,
		"counts_long":     badName,
		"counts_empty":    badName + `""`,
		"counts_zero":     "COUNTS: a: wanted 1 to 9007199254740992, got 0",
		"counts_large":    "COUNTS: a: wanted 1 to 9007199254740992, got 9007199254740993",
		"counts_fraction": "COUNTS: ",
		"counts_list":     "COUNTS: ",
		"context_what":    "CONTEXT asks for 9, wanted 1 or 2",
		"context_short":   "CONTEXT of 1 bytes, wanted 4",
		"context_call":    "CONTEXT names call ",
	} {
		_, _, err := h.call(name, []int64{1})
		wantErrorPrefix(t, err, udfgate.WorkerLost, "worker lost: broke the protocol: "+text)
	}
	h.must("same", []int64{1})
}
