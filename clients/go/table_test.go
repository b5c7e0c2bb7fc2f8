package client_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/udfgate/udfgate"
	client "github.com/udfgate/udfgate/clients/go"
	"go.uber.org/goleak"
)

func openTable(t *testing.T, c *client.Client, name string, opts ...client.Option) *client.TableStream {
	t.Helper()
	s, err := c.StreamTable(t.Context(), name, schema, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func results(p *client.Part) []int64 { return p.Values.(*array.Int64).Int64Values() }

func TestTable_function(t *testing.T) {
	c := connect(t, shared.addr)
	f, err := c.Function(t.Context(), "series")
	if err != nil {
		t.Fatal(err)
	}
	if !f.Table || f.Kind() != "table" || len(f.Args) != 1 || f.Result.Name != "series" || f.Signature() != "series(a int64) -> table of int64" {
		t.Errorf("%+v: %s", f, f.Signature())
	}
	all, err := c.Functions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		table := slices.Contains([]string{"series", "halves", "naps"}, all[i].Name)
		if all[i].Table != table || (all[i].Kind() == "table") != table {
			t.Errorf("%s: table = %t", all[i].Name, all[i].Table)
		}
	}
}

func TestCallTable(t *testing.T) {
	c := connect(t, shared.addr)
	var rows []int32
	var values []int64
	var bill, handed *udfgate.Bill
	for p, err := range c.CallTable(t.Context(), "series", batch(3, 0, 3000, 1), client.WithBill(func(b *udfgate.Bill) { handed = b })) {
		if err != nil {
			t.Fatal(err)
		}
		if bill != nil || p.Rows.Len() > udfgate.TableRowsMax || p.Last != (p.Bill != nil) || p.Input != 0 {
			t.Errorf("a part of %d rows after the last one, or %+v", p.Rows.Len(), p)
		}
		rows, values, bill = append(rows, p.Rows.Int32Values()...), append(values, results(p)...), p.Bill
	}
	want := slices.Concat(slices.Repeat([]int32{0}, 3), slices.Repeat([]int32{2}, 3000), []int32{3})
	if !slices.Equal(rows, want) || values[2] != 2 || values[3] != 0 || values[3002] != 2999 {
		t.Errorf("%d rows, %d of them wanted", len(rows), len(want))
	}
	if bill == nil || bill != handed || bill.Rows != 4 || bill.Batches != 1 || bill.WallNS == 0 {
		t.Errorf("bill %+v, handed over %+v", bill, handed)
	}
	parts := 0
	for p, err := range c.CallTable(t.Context(), "series", batch()) {
		if err != nil || p.Rows.Len() != 0 || !p.Last {
			t.Errorf("no rows: %+v, %v", p, err)
		}
		parts++
	}
	if parts != 1 {
		t.Errorf("%d parts for no rows", parts)
	}
}

// What a call of either kind cannot do is an error.
func TestCallTable_errors(t *testing.T) {
	c := connect(t, shared.addr)
	last := func(parts iter.Seq2[*client.Part, error]) (n int, err error) {
		for _, err = range parts {
			n++
		}
		return n, err
	}
	if _, err := c.Call(t.Context(), "series", batch(3)); err == nil || client.ReasonOf(err) != "" {
		t.Errorf("Call: %v", err)
	}
	if _, err := last(c.CallTable(t.Context(), "double", batch(3))); err == nil || client.ReasonOf(err) != "" {
		t.Errorf("a scalar function: %v", err)
	}
	if _, err := last(c.CallTable(t.Context(), "serious", batch(3))); client.ReasonOf(err) != udfgate.NotFound {
		t.Errorf("no function: %v", err)
	}
	_, err := last(c.CallTable(t.Context(), "halves", batch(8, 20)))
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Reason != udfgate.UserError || e.Row != 1 || e.Batch != 0 || e.Exception != "ValueError" {
		t.Errorf("the body: %v", err)
	}
	n := 0
	for limit := 300 * time.Millisecond; n < 2 && limit < time.Minute; limit *= 4 { // on a busy machine parts take longer
		n, err = last(c.CallTable(t.Context(), "naps", batch(20), client.WithTimeout(limit)))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a time limit: %v", err)
		}
	}
	if n < 2 {
		t.Errorf("a time limit: no part before it")
	}
	n, err = last(c.CallTable(t.Context(), "naps", batch(600_000), client.WithChunkTimeout(time.Second))) // hangs in its second part
	if client.ReasonOf(err) != udfgate.Timeout || n != 2 {
		t.Errorf("a part's time limit: %v after %d parts", err, n)
	}
}

// A table without an end ends with the loop or its context, and frees its worker.
func TestCallTable_left(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	c, err := client.Connect(t.Context(), shared.addr)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 { // more than there are workers
		n := 0
		for p, err := range c.CallTable(t.Context(), "naps", batch(0)) {
			if err != nil || p.Last {
				t.Fatal(p, err)
			}
			if n++; n == 3 {
				break
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var last error
		parts := 0
		for _, err := range c.CallTable(ctx, "naps", batch(0)) {
			if parts++; parts == 2 {
				cancel()
			}
			last = err
		}
		if !errors.Is(last, context.Canceled) || parts < 3 {
			t.Errorf("cancelled: %v after %d parts", last, parts-1)
		}
		cancel()
	}
	if r, err := c.Call(t.Context(), "double", batch(21)); err != nil || values(r.Batch)[0] != 42 {
		t.Errorf("afterwards: %v, %v", r, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// Many batches through one call: their parts in order, each with what was sent
// along, while more is sent than any window holds.
func TestTableStream_exchange(t *testing.T) {
	const inputs, rows = 40, 1 << 15 // 10 MiB to send, 15 to read
	c := connect(t, shared.addr)
	s := openTable(t, c, "series")
	var input, answers int64
	for p, err := range s.Exchange(func(yield func(arrow.RecordBatch, error) bool) {
		for range inputs {
			if !yield(batch(slices.Repeat([]int64{1}, rows)...), nil) {
				return
			}
		}
	}) {
		if err != nil {
			t.Fatal(err)
		}
		if p.Input != input || p.Rows.Len() > 0 && int64(p.Rows.Value(0)) != answers%rows {
			t.Fatalf("batch %d from row %d, wanted %d from %d", p.Input, p.Rows.Value(0), input, answers%rows)
		}
		answers += int64(p.Rows.Len())
		if p.Last {
			input++
			if answers != input*rows || p.Bill.Rows != rows {
				t.Fatalf("batch %d: %d answers, bill %+v", input, answers, p.Bill)
			}
		}
	}
	if input != inputs || s.Bill() == nil || s.Bill().Batches != inputs {
		t.Errorf("%d batches, bill %+v", input, s.Bill())
	}
}

func TestTableStream_parts(t *testing.T) {
	s := openTable(t, connect(t, shared.addr), "halves", client.WithOnError(udfgate.OnErrorReject))
	for i, b := range []arrow.RecordBatch{batch(4, 20, 0), batch(2)} {
		if err := s.SendWithAppMetadata(b, fmt.Append(nil, "tag ", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	fields, err := s.Schema()
	if err != nil || fields.NumFields() != 3 || fields.Field(0).Name != "row" || fields.Field(1).Name != "halves" || fields.Field(2).Name != "error" {
		t.Fatalf("schema = %v, %v", fields, err)
	}
	var got string
	counted := int64(0)
	for p, err := range s.Parts() {
		if err != nil {
			t.Fatal(err)
		}
		if string(p.AppMetadata) != fmt.Sprint("tag ", p.Input) {
			t.Errorf("app_metadata = %q", p.AppMetadata)
		}
		for i, row := range p.Rows.Int32Values() {
			got += fmt.Sprintln(p.Input, row, p.Values.ValueStr(i), p.Errors.ValueStr(i))
		}
		if p.Last {
			got += fmt.Sprintln("failed", p.Bill.RowsFailed)
			counted += p.Bill.Counters["started"]
		}
	}
	want := `0 0 4 (null)
0 0 2 (null)
0 0 1 (null)
0 1 20 (null)
0 1 (null) ValueError: -20 is negative
failed 1
1 0 2 (null)
1 0 1 (null)
failed 0
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if counted != 4 || s.Bill().Counters["started"] != 4 || s.Bill().RowsFailed != 1 {
		t.Errorf("counted %d, bill %+v", counted, s.Bill())
	}
}

// A call of no batches is a good one.
func TestTableStream_noBatches(t *testing.T) {
	s := openTable(t, connect(t, shared.addr), "series")
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	for p, err := range s.Parts() {
		t.Errorf("part %+v, %v", p, err)
	}
	if s.Bill() == nil || s.Bill().Rows != 0 {
		t.Errorf("bill = %+v", s.Bill())
	}
}
