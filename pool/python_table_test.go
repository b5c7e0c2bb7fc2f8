package pool

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/udfgate/udfgate"
)

const pythonTables = `
import udfgate
from typing import Iterator
from udfgate import udtf

@udtf
def texts(n: int) -> Iterator[str]:
    for i in range(n):
        udfgate.counter("texts").add(1)
        yield "\ud800" if i == 1500 else f"text {i}"

@udtf
def forever(n: int) -> Iterator[int]:
    while True:
        yield udfgate.context().batch

@udf
def who(key: str) -> Optional[str]:
    c = udfgate.context()
    return f"{c.call_id}/{c.batch} {c.function} {c.principal} {c.headers.get(key)}"

@udf(concurrency=3)
def three(a: int) -> int:
    return a

@udf(mode="list", max_batch_rows=3)
def most(a: int) -> int:
    return a

@udf(mode="list", max_batch_rows=3, elementwise=True)
def most_each(a: int) -> int:
    assert len(a) <= 3
    return a
`

// A text that is none is found in the copy of the part that it is in; the worker
// says which value it was, and has lost nothing of what it counted.
func TestPythonTables(t *testing.T) {
	h := newPython(t, pythonTables)
	column := []int64{2, 2000, 1}
	_, call, err := h.table(udfgate.OnErrorFail, "texts", column)
	e := wantErrorPrefix(t, err, udfgate.UserError, "ValueError: result: ")
	if e.Row != 1 || call.Counts != nil {
		t.Errorf("fail: got %+v, counted %v", e, call.Counts)
	}
	parts, call, err := h.table(udfgate.OnErrorReject, "texts", column)
	if err != nil {
		t.Fatal(err)
	}
	all, counted := whole(parts), int64(0)
	for _, p := range parts {
		counted += p.counts["texts"]
	}
	// The generator ended with the value that did not fit.
	if n := len(all.values); n != 2+1501+1 || all.values[1502] != nil || all.errors[1502] == nil || all.values[n-1] != "text 0" || call.RowsFailed != 1 {
		t.Errorf("reject: got %d values, %d failed, the last %v", n, call.RowsFailed, all.values[n-3:])
	}
	if counted < 1504 || counted > 1504+udfgate.TableRowsMax { // it may have been ahead, within the part
		t.Errorf("reject: counted %d", counted)
	}
	enough := errors.New("enough")
	call = h.newCall("forever")
	call.Batch = 7
	parts, err = h.tableWith(t.Context(), call, []int64{1}, func(partOf) error { return enough })
	if err != enough || len(parts) != 1 || parts[0].values[9] != int64(7) { //nolint:errorlint // as it is
		t.Errorf("got %v, %d parts", err, len(parts))
	}
	if got := h.launcher.launched.Load(); got != 1 {
		t.Errorf("workers: want the first to survive, got %d launched", got)
	}
}

// Values that are too many for one answer come in several parts, also where the
// arena would hold them all; one that is too large by itself is an error that
// names the limit.
func TestPythonTables_large(t *testing.T) {
	for _, most := range []int64{6 << 20, 64 << 10, 1000} {
		h := newPython(t, `
from typing import Iterator
from udfgate import udtf

@udtf
def wide(n: int) -> Iterator[str]:
    for _ in range(5):
        yield "x" * n
`, func(c *Config) { c.AnswerBytesMax = most })
		for _, n := range []int64{most / 4, most / 3, most / 2} {
			parts, _, err := h.table("", "wide", []int64{n})
			if all := whole(parts); err != nil || len(parts) < 2 || len(all.values) != 5 || len(all.values[4].(string)) != int(n) {
				t.Errorf("5 times %d bytes of at most %d: got %v, %d parts", n, most, err, len(parts))
			}
		}
		_, _, err := h.table("", "wide", []int64{most})
		e := wantErrorPrefix(t, err, udfgate.Invalid, "result of ")
		if e.Shape != udfgate.ShapeTooLarge || !strings.Contains(e.Message, fmt.Sprintf("is over --max-message-bytes %d;", most)) {
			t.Errorf("got %+v", e)
		}
		if got := h.launcher.launched.Load(); got != 1 {
			t.Errorf("workers: want the first to survive, got %d launched", got)
		}
	}
}

func TestPythonOptions(t *testing.T) {
	h := newPython(t, pythonTables)
	call := h.newCall("who")
	call.Stream, call.Batch, call.Principal, call.Caller = 4, 2, "etl", headers{{Key: "x-tenant", Value: "a"}, {Key: "x-tenant", Value: "b"}}
	got, _, err := h.callWith(t.Context(), call, []string{"x-tenant"})
	if want := "[4/2 m.who etl a, b]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("want %s, got %v, %v", want, got, err)
	}
	if f := h.function("three"); f.Concurrency != 3 || f.ConcurrencyWaitNS != 0 {
		t.Errorf("three: got %+v", f)
	}
	h.must("three", []int64{1})
	_, _, err = h.call("most", []int64{1, 2, 3, 4})
	wantErrorPrefix(t, err, udfgate.Invalid, "batch of 4 rows is over max_batch_rows 3;")
	h.must("most", []int64{1, 2, 3})
	h.must("most_each", []int64{1, 2, 3, 4, 5, 6, 7})
}
