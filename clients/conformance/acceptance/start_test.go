package acceptance

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/udfgate/udfgate"
	client "github.com/udfgate/udfgate/clients/go"
)

// TestImportBooksStart ends the only worker of a module that takes 300 ms to
// import: the next call waits for the new one, and its bill says start.
func TestImportBooksStart(t *testing.T) {
	g := startServing(t, "testdata/slowimport.py", "--workers", "1")
	b := array.NewInt64Builder(memory.DefaultAllocator)
	defer b.Release()
	b.Append(21)
	column := b.NewArray()
	defer column.Release()
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int64}}, nil)
	batch := array.NewRecordBatch(schema, []arrow.Array{column}, 1)
	defer batch.Release()

	// The start goes on while the call is on its way to the gateway, which on a
	// busy machine may take most of it.
	var bill *udfgate.Bill
	for tries := 0; (bill == nil || bill.StartNS < int64(200*time.Millisecond)) && tries < 20; tries++ {
		bill = billOfStart(t, g, batch)
		if !bill.Cold {
			t.Errorf("wanted it cold; got %s", bill.JSON())
		}
	}
	if bill.StartNS < int64(200*time.Millisecond) {
		t.Errorf("wanted most of the 300 ms as start; got %s", bill.JSON())
	}
}

// billOfStart is the bill of a call that comes when the only worker has just
// been killed.
func billOfStart(t *testing.T, g *gateway, batch arrow.RecordBatch) *udfgate.Bill {
	t.Helper()
	for _, pid := range g.workers(t) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	from := time.Now()
	got, err := g.client.Call(t.Context(), "twice", batch)
	var remote *client.Error
	if errors.As(err, &remote) && remote.Reason == udfgate.WorkerLost {
		// The call was quicker than the news of the death; the next one waits.
		from = time.Now()
		got, err = g.client.Call(t.Context(), "twice", batch)
	}
	took := time.Since(from)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Batch.Release()
	if v := got.Batch.Column(0).(*array.Int64).Value(0); v != 42 {
		t.Errorf("wanted 42, got %d", v)
	}
	if err := checkBill(got.Bill, 1, took); err != nil {
		t.Error(err)
	}
	return got.Bill
}
