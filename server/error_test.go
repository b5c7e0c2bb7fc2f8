package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/udfgate/udfgate"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// checkFailure compares a status with what is wanted: code, reason in details
// and trailer alike, and a part of the message.
func checkFailure(t *testing.T, err error, trailer metadata.MD, code string, reason udfgate.Reason, text string) *status.Status {
	t.Helper()
	st, ok := status.FromError(err)
	if !ok {
		if st, ok = status.FromError(errors.Unwrap(err)); !ok {
			t.Fatalf("wanted a status, got %v", err)
		}
	}
	if st.Code().String() != code || !strings.Contains(st.Message(), text) {
		t.Errorf("wanted %s: …%s…\ngot    %s: %s", code, text, st.Code(), st.Message())
	}
	var info *errdetails.ErrorInfo
	for _, d := range st.Details() {
		info, _ = d.(*errdetails.ErrorInfo)
	}
	if info.GetDomain() != "udfgate" || info.GetReason() != string(reason) {
		t.Errorf("wanted ErrorInfo of domain udfgate with reason %s, got %v", reason, info)
	}
	if trailer != nil && !cmp.Equal(trailer.Get("udfgate-reason"), []string{string(reason)}) {
		t.Errorf("wanted trailer udfgate-reason %s, got %v", reason, trailer)
	}
	return st
}

var allErrors = []udfgate.Error{
	{Reason: udfgate.UserError},
	{Reason: udfgate.WorkerLost},
	{Reason: udfgate.Timeout},
	{Reason: udfgate.MemoryBudget},
	{Reason: udfgate.StartFailed},
	{Reason: udfgate.QueueFull},
	{Reason: udfgate.NotReading},
	{Reason: udfgate.Invalid, Shape: udfgate.ShapeMalformed},
	{Reason: udfgate.Invalid, Shape: udfgate.ShapeUnsupported},
	{Reason: udfgate.Invalid, Shape: udfgate.ShapeTooLarge},
	{Reason: udfgate.NotFound},
	{Reason: udfgate.Unauthenticated},
	{Reason: udfgate.Permission},
	{Reason: udfgate.Draining},
	{Reason: udfgate.Internal},
	{Reason: "SOMETHING_NEW"},
}

// TestCodesGolden pins the whole table; UDFGATE_REWRITE=1 writes it anew.
func TestCodesGolden(t *testing.T) {
	var b strings.Builder
	for _, e := range allErrors {
		name := string(e.Reason)
		if e.Reason == udfgate.Invalid {
			name += [...]string{" malformed", " unsupported", " too large"}[e.Shape]
		}
		fmt.Fprintf(&b, "%-20s %-18s %d\n", name, codeOf(&e), httpStatusOf(&e))
	}
	golden(t, "codes.txt", b.String())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UDFGATE_REWRITE") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (UDFGATE_REWRITE=1 accepts it):\n%s", path, diff)
	}
}

func TestMessageKeepsLineAndTheTracebacksEnd(t *testing.T) {
	e := &udfgate.Error{
		Reason: udfgate.UserError, Function: "f", Row: 17, Message: "ValueError: bad",
		Detail: "Traceback (most recent call last):\n" + strings.Repeat("  File \"geo.py\", line 3, in g\n    deep()\n", 100) +
			"  File \"geo.py\", line 9, in f\n    raise ValueError(\"bad\")\nValueError: bad\n",
	}
	got := message(e)
	if !strings.HasPrefix(got, "f: row 17: ValueError: bad\n...\n  ") || !strings.HasSuffix(got, "    raise ValueError(\"bad\")\nValueError: bad") {
		t.Errorf("got %q", got)
	}
	if n := encodedLen(got); n > messageBytesMax || n < messageBytesMax-100 {
		t.Errorf("%d bytes encoded, wanted nearly %d", n, messageBytesMax)
	}
	e.Detail = "short\n"
	if got := message(e); got != "f: row 17: ValueError: bad\nshort" {
		t.Errorf("got %q", got)
	}
}

func TestMessageIsBoundedAndKeepsBothEnds(t *testing.T) {
	for _, unit := range []string{"A", "é", "日", "😀", "%", "\x00", "a\n", "\xff"} {
		for _, detail := range []string{"", strings.Repeat(unit, 100_000), "Traceback\n" + strings.Repeat(unit, 5000) + "\nlast"} {
			e := &udfgate.Error{
				Reason: udfgate.UserError, Function: "f", Row: 1, Detail: detail,
				Message: "ValueError: " + strings.Repeat(unit, 100_000/len(unit)) + "THE-END",
			}
			got := message(e)
			if n := encodedLen(got); n > messageBytesMax {
				t.Errorf("%q: %d bytes encoded, wanted at most %d", unit, n, messageBytesMax)
			}
			if !strings.HasPrefix(got, "f: row 1: ValueError: ") || !strings.Contains(got, "THE-END") {
				t.Errorf("%q: an end is missing: %q", unit, got)
			}
			if !utf8.ValidString(got) {
				t.Errorf("%q: not UTF-8: %q", unit, got)
			}
		}
	}
}

func TestErrorInfoIsBounded(t *testing.T) {
	long := strings.Repeat("日", 5000)
	f := &failure{batch: 1 << 60, id: strings.Repeat("f", 16), err: &udfgate.Error{
		Reason: udfgate.UserError, Function: long, Exception: long, Row: 1 << 60, Message: long,
	}}
	st, _ := status.FromError(f.status())
	info, _ := st.Details()[0].(*errdetails.ErrorInfo)
	if n := proto.Size(info); n > infoBytesMax {
		t.Errorf("ErrorInfo has %d bytes, wanted at most %d", n, infoBytesMax)
	}
	for _, key := range []string{"function", "row", "batch", "exception", "retryable", "error_id"} {
		if info.GetMetadata()[key] == "" {
			t.Errorf("no %s in %v", key, info.GetMetadata())
		}
	}
}

func TestAsErrorTellsTheCallersEndFromOurs(t *testing.T) {
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want udfgate.Reason
	}{
		{gone, context.Canceled, cancelled},
		{context.Background(), context.Canceled, udfgate.Internal}, // a bug of ours, and never CANCELLED
		{gone, udfgate.Errorf(udfgate.Timeout, "x"), udfgate.Timeout},
		{context.Background(), errors.New("x"), udfgate.Internal},
	} {
		if got := asError(c.ctx, c.err).Reason; got != c.want {
			t.Errorf("%v: got %s, wanted %s", c.err, got, c.want)
		}
	}
}

func TestErrorStoreIsBounded(t *testing.T) {
	var s errorStore
	first := s.keep(&udfgate.Error{Detail: "x"}, noBatch)
	for range errorsKeptMax {
		s.keep(&udfgate.Error{Detail: "x"}, noBatch)
	}
	if s.find(first) != nil || len(s.byID) != errorsKeptMax {
		t.Errorf("%d entries, the first is kept: %v; wanted %d", len(s.byID), s.find(first) != nil, errorsKeptMax)
	}
	for range 150 {
		s.keep(&udfgate.Error{Detail: strings.Repeat("y", 128<<10)}, noBatch)
	}
	if s.bytes > errorsKeptBytesMax {
		t.Errorf("%d bytes kept, wanted at most %d", s.bytes, errorsKeptBytesMax)
	}
	id := s.keep(&udfgate.Error{Detail: "last", Row: 3}, 4)
	if k := s.find(id); k == nil || k.err.Detail != "last" || k.batch != 4 {
		t.Errorf("the latest error is not there: %+v", k)
	}
}
