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
	if got.Bill.StartNS < int64(200*time.Millisecond) || !got.Bill.Cold {
		t.Errorf("wanted most of the 300 ms as start, and cold; got %s", got.Bill.JSON())
	}
}
