package acceptance

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/udfgate/udfgate"
	client "github.com/udfgate/udfgate/clients/go"
	"github.com/udfgate/udfgate/internal/seed"
)

const (
	identityCalls   = 100_000
	identityCallers = 4
	identityRowsMax = 300 // mostly small, now and then 40 times as many
)

var weighSchema = arrow.NewSchema([]arrow.Field{
	{Name: "a", Type: arrow.PrimitiveTypes.Int64},
	{Name: "b", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	{Name: "s", Type: arrow.BinaryTypes.String},
}, nil)

// randomBatch is a batch for weigh and the texts it must answer ("" is null).
func randomBatch(rng *rand.Rand, rows int) (arrow.RecordBatch, []string) {
	b := array.NewRecordBuilder(memory.DefaultAllocator, weighSchema)
	defer b.Release()
	want := make([]string, rows)
	for i := range rows {
		x, y, s := rng.Int64N(1<<20), rng.Int64N(1000), fmt.Sprint("t", rng.IntN(1000))
		b.Field(0).(*array.Int64Builder).Append(x)
		b.Field(2).(*array.StringBuilder).Append(s)
		if rng.IntN(10) == 0 {
			b.Field(1).AppendNull()
			continue
		}
		b.Field(1).(*array.Int64Builder).Append(y)
		want[i] = fmt.Sprint(x*y, s)
	}
	return b.NewRecordBatch(), want
}

func checkTexts(got arrow.RecordBatch, want []string) error {
	texts, ok := got.Column(0).(*array.String)
	if !ok || texts.Len() != len(want) {
		return fmt.Errorf("wanted %d texts, got %d of %s", len(want), got.NumRows(), got.Column(0).DataType())
	}
	for i, w := range want {
		if texts.IsNull(i) != (w == "") || !texts.IsNull(i) && texts.Value(i) != w {
			return fmt.Errorf("row %d: wanted %q, got %q", i, w, texts.ValueStr(i))
		}
	}
	return nil
}

func checkBill(b *udfgate.Bill, rows int, client time.Duration) error {
	sum := b.QueueNS + b.CoalesceNS + b.StartNS + b.ConversionNS + b.CrossingNS + b.BodyNS + b.ReplyNS + b.OtherNS
	switch {
	case sum != b.WallNS:
		return fmt.Errorf("phases add up to %d, wall is %d", sum, b.WallNS)
	case b.ConversionNS != b.ConvGatewayNS+b.ConvWorkerNS, b.CrossingNS != b.CrossingOutNS+b.CrossingBackNS:
		return fmt.Errorf("parts do not add up: %s", b.JSON())
	case b.WallNS > int64(client):
		return fmt.Errorf("wall %d is longer than the client's %d", b.WallNS, int64(client))
	case b.Rows != int64(rows) || b.Batches != 1:
		return fmt.Errorf("wanted %d rows in 1 batch, got %d in %d", rows, b.Rows, b.Batches)
	case rows > 0 && (b.BodyNS <= 0 || b.CrossingNS <= 0 || b.Crossings != 1):
		return fmt.Errorf("a crossing without body or crossing: %s", b.JSON())
	}
	return nil
}

// TestBillsAddUp makes a hundred thousand calls of mixed sizes from several
// callers: the answers are right, and the phases of every bill add up to its
// wall exactly, which is never longer than what the client saw.
func TestBillsAddUp(t *testing.T) {
	g := start(t, "--workers", "2")
	var wg sync.WaitGroup
	rng := seed.Rand(t)
	calls := identityCalls
	if testing.Short() {
		calls /= 20
	}
	for range identityCallers {
		own := rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64()))
		wg.Go(func() {
			for range calls / identityCallers {
				if err := oneBill(t, g.client, own); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func oneBill(t *testing.T, c *client.Client, rng *rand.Rand) error {
	rows := rng.IntN(identityRowsMax) * rng.IntN(2)
	if rng.IntN(500) == 0 {
		rows *= 40
	}
	batch, want := randomBatch(rng, rows)
	defer batch.Release()
	from := time.Now()
	got, err := c.Call(t.Context(), "weigh", batch)
	took := time.Since(from)
	if err != nil {
		return err
	}
	defer got.Batch.Release()
	if err := checkTexts(got.Batch, want); err != nil {
		return err
	}
	return checkBill(got.Bill, rows, took)
}
