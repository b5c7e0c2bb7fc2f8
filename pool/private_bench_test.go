package pool

import (
	"cmp"
	"context"
	"os"
	"testing"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/codec"
	"github.com/udfgate/udfgate/internal/clock"
)

// transportRows are the batches of BenchmarkTransport: two columns of int64,
// one row and 1 MiB of arguments.
var transportRows = []int{1, 1 << 16}

// BenchmarkTransport puts the same batches through shared and private arenas
// of the Python worker, in rounds that alternate, and prints the p50 of the
// crossing alone (conversion and body are the same on both sides), of all of
// Invoke, and their ratios. Run with -benchtime 1x; -short makes it a smoke test.
func BenchmarkTransport(b *testing.B) {
	if !codec.SharedArenas {
		b.Skip("no shared arenas on this system to compare with")
	}
	python := cmp.Or(os.Getenv("UDFGATE_TEST_PYTHON"), "python3")
	pools := [2]*oneRow{newOneRow(b, python), newOneRow(b, python, private)}
	for _, rows := range transportRows {
		rounds, calls := 6, 1000
		if rows > 1 {
			calls = 40
		}
		if testing.Short() {
			rounds, calls = 2, 5
		}
		var least [2]transportRound
		for n := range 2 * rounds * b.N {
			kind := n % 2
			r := pools[kind].transport(rows, calls)
			if least[kind].invoke == 0 || r.crossing < least[kind].crossing {
				least[kind] = r
			}
		}
		b.Logf("%6d rows, least p50 µs: crossing shared %.1f, private %.1f, ratio %.2f; invoke shared %.1f, private %.1f, ratio %.2f",
			rows, least[0].crossing, least[1].crossing, least[1].crossing/least[0].crossing,
			least[0].invoke, least[1].invoke, least[1].invoke/least[0].invoke)
	}
	b.ReportMetric(0, "ns/op") // of all rounds together: says nothing
}

// transportRound is the p50 of one round in microseconds: crossing out and
// back, and all of Invoke.
type transportRound struct{ crossing, invoke float64 }

// transport makes n calls of as many rows.
func (o *oneRow) transport(rows, n int) transportRound {
	in, err := batchOf(o.pool.Slots(), make([]int64, rows), make([]int64, rows))
	if err != nil {
		o.b.Fatal(err)
	}
	defer in.Release()
	crossing, invoke := make([]int64, n), make([]int64, n)
	for i := range n {
		call := &udfgate.Call{ID: callIDs.Add(1), Function: o.function}
		call.Timeline.From = clock.Now()
		answer, err := o.pool.Invoke(context.Background(), call, in)
		call.Timeline.To = clock.Now()
		if err != nil {
			o.b.Fatal(err)
		}
		answer.Release()
		p := call.Timeline.Partition()
		crossing[i], invoke[i] = p[udfgate.StateCrossingOut]+p[udfgate.StateCrossingBack], p.Wall()
	}
	return transportRound{p50(crossing), p50(invoke)}
}
