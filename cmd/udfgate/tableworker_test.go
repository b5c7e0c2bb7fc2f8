package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/udfgate/udfgate"
	client "github.com/udfgate/udfgate/clients/go"
)

const tableSource = `
from typing import Iterator
import udfgate
from udfgate import udf, udtf

@udtf
def series(n: int) -> Iterator[int]:
    rows = udfgate.counter("rows")
    for i in range(n):
        rows.add()
        yield i

@udtf
def endless(path: str) -> Iterator[int]:
    try:
        while True:
            yield 1
    finally:
        open(path, "w").close()

@udf
def tenant(n: int) -> str:
    c = udfgate.context()
    return f"{c.batch} {c.headers.get('x-tenant')} {c.headers.get('authorization')}"
`

// exact says how the phases of a bill miss its wall; empty if they do not.
func exact(b *udfgate.Bill) string {
	sum := b.QueueNS + b.CoalesceNS + b.StartNS + b.ConversionNS + b.CrossingNS + b.BodyNS + b.ReplyNS + b.OtherNS
	if sum == b.WallNS && b.ConversionNS == b.ConvGatewayNS+b.ConvWorkerNS && b.CrossingNS == b.CrossingOutNS+b.CrossingBackNS {
		return ""
	}
	return fmt.Sprintf("phases add up to %d: %s", sum, b.JSON())
}

// A table of several batches and many parts through a real worker: all rows in
// order, and bills that add up to the nanosecond.
func TestTableBillsOfAWorker(t *testing.T) {
	g := open(t, tableSource, timeoutDefault)
	c := dialed(t, g)
	s, err := c.StreamTable(t.Context(), "series", ints().Schema())
	if err != nil {
		t.Fatal(err)
	}
	batches := [][]int64{{5000, 0, 1}, {3000, 3000}, {}, {1}}
	for i, values := range batches {
		if err := s.SendWithAppMetadata(ints(values...), fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	got := make([][]int64, len(batches)) // rows per input row
	for i, values := range batches {
		got[i] = make([]int64, len(values))
	}
	var wall, crossings int64
	for part, err := range s.Parts() {
		if err != nil {
			t.Fatal(err)
		}
		values, _ := part.Values.(*array.Int64)
		for i, row := range part.Rows.Int32Values() {
			if values.Value(i) != got[part.Input][row] {
				t.Fatalf("batch %d, row %d: wanted %d, got %d", part.Input, row, got[part.Input][row], values.Value(i))
			}
			got[part.Input][row]++
		}
		if string(part.AppMetadata) != fmt.Sprint(part.Input) || part.Batch.NumRows() > udfgate.TableRowsMax {
			t.Errorf("part of %d rows with app_metadata %q of batch %d", part.Batch.NumRows(), part.AppMetadata, part.Input)
		}
		if part.Last {
			if wrong := exact(part.Bill); wrong != "" {
				t.Errorf("batch %d: %s", part.Input, wrong)
			}
			wall += part.Bill.WallNS
			crossings += part.Bill.Crossings
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(batches) {
		t.Errorf("wanted %v rows, got %v", batches, got)
	}
	b := s.Bill()
	if wrong := exact(b); wrong != "" || b.Rows != 6 || b.Batches != 4 || b.Attempts != 3 || b.Crossings != crossings || crossings < 5+6+1 ||
		b.WallNS < wall || b.BodyNS == 0 || b.Counters["rows"] != 11002 {
		t.Errorf("%s; batches took %d; bill %s", wrong, wall, b.JSON())
	}
	if _, text := get(t, "http://"+g.server.HTTPAddr()+"/metrics"); !strings.Contains(text, `udfgate_counter_total{function="series",name="rows"} 11002`) {
		t.Error("the metrics do not count the rows")
	}
}

// A caller that leaves the loop ends the body, whose finally runs.
func TestTableBodyEndsWithItsCaller(t *testing.T) {
	c := gate(t, tableSource)
	mark := filepath.Join(t.TempDir(), "closed")
	b := array.NewStringBuilder(memory.DefaultAllocator)
	b.Append(mark)
	column := b.NewArray()
	batch := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "path", Type: arrow.BinaryTypes.String}}, nil), []arrow.Array{column}, 1)
	parts := 0
	for _, err := range c.CallTable(t.Context(), "endless", batch) {
		if err != nil {
			t.Fatal(err)
		}
		if parts++; parts == 20 {
			break
		}
	}
	for from := time.Now(); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(mark); err == nil {
			return
		}
		if time.Since(from) > 10*time.Second {
			t.Fatal("the body goes on")
		}
	}
}

func TestBodyKnowsItsCaller(t *testing.T) {
	c := gate(t, tableSource)
	result, err := c.Call(t.Context(), "tenant", ints(1), client.WithMetadata("X-Tenant", "a"), client.WithMetadata("authorization", "Bearer secret"))
	if err != nil {
		t.Fatal(err)
	}
	if got := result.Batch.Column(0).ValueStr(0); got != "0 a None" {
		t.Errorf("the body was told %q", got)
	}
}
