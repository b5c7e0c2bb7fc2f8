package pool

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/codec"
	"github.com/udfgate/udfgate/internal/clock"
)

// crossingGoal is the most that a one-row crossing may cost in terms of a raw
// echo.
const crossingGoal = 1.5

// echoProgram is the floor: the least that a Python process can do with a
// message.
const echoProgram = `
import socket
s = socket.socket(fileno=3)
while True:
    data = s.recv(64)
    if not data:
        break
    s.send(data)
`

const oneRowModule = `
from udfgate import udf

@udf
def add(a: int, b: int) -> int:
    return a + b
`

// BenchmarkCrossing puts a one-row call through a warm worker, beside 64 bytes
// echoed by a bare Python loop over a socket pair of the same kind. Rounds of
// both alternate; read the least p50 of each side. When the scheduler keeps
// parent and child on different halted cores, a round is three to five times
// slower, on either side, so one round proves nothing.
//
// Run with -benchtime 1x; -short makes it a smoke test. UDFGATE_TEST_PYTHON
// names the interpreter.
func BenchmarkCrossing(b *testing.B) {
	rounds, calls := 8, 2000
	if testing.Short() {
		rounds, calls = 2, 100
	}
	python := cmp.Or(os.Getenv("UDFGATE_TEST_PYTHON"), "python3")
	echo, row := newEcho(b, python), newOneRow(b, python)

	var echoed []float64 // p50 of each round, µs
	var crossed []crossingRound
	for b.Loop() {
		echo.round(calls / 10) // warm
		row.round(calls / 10)
		for n := range rounds {
			if n%2 == 0 {
				echoed = append(echoed, echo.round(calls))
			}
			crossed = append(crossed, row.round(calls))
			if n%2 == 1 {
				echoed = append(echoed, echo.round(calls))
			}
		}
	}
	b.Logf("p50 of each round of %d, µs:", calls)
	b.Logf("echo     %7.1f", echoed)
	b.Logf("crossing %7.1f", crossed)
	least := slices.MinFunc(crossed, func(x, y crossingRound) int { return cmp.Compare(x.crossing, y.crossing) })
	ratio := least.crossing / slices.Min(echoed)
	result := "pass"
	if ratio > crossingGoal {
		result = "miss"
	}
	b.Logf("least p50: crossing %.1f µs, echo %.1f µs, ratio %.2f, goal ≤ %g: %s",
		least.crossing, slices.Min(echoed), ratio, crossingGoal, result)
	b.Logf("that round: out %.1f, decode, body and encode %.1f, back %.1f; all of Invoke %.1f µs",
		least.out, least.worker, least.back, least.invoke)
	b.ReportMetric(slices.Min(echoed), "echo-µs")
	b.ReportMetric(least.crossing, "crossing-µs")
	b.ReportMetric(least.invoke, "invoke-µs")
	b.ReportMetric(ratio, "ratio")
	b.ReportMetric(0, "ns/op") // of all rounds together: says nothing
}

// crossingRound is the p50 of each part over one round, in microseconds. The
// crossing is from CALL written to RESULT read: out, worker and back.
type crossingRound struct{ crossing, out, worker, back, invoke float64 }

// Format prints the crossing alone.
func (r crossingRound) Format(s fmt.State, verb rune) {
	fmt.Fprintf(s, fmt.FormatString(s, verb), r.crossing)
}

// p50 sorts ns and returns the median in microseconds.
func p50(ns []int64) float64 {
	slices.Sort(ns)
	return float64(ns[len(ns)/2]) / float64(time.Microsecond)
}

type echo struct {
	b    *testing.B
	conn io.ReadWriter
}

func newEcho(b *testing.B, python string) *echo {
	b.Helper()
	process, err := (&testLauncher{}).Launch(Spec{Argv: []string{python, "-I", "-S", "-c", echoProgram}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = process.Conn().Close() // ends the loop
		if exit := process.Wait(); exit.Code != 0 {
			text, _ := io.ReadAll(process.Stderr())
			b.Errorf("echo: %s: %s", exit, text)
		}
		_, _ = io.Copy(io.Discard, process.Stdout())
		_, _ = io.Copy(io.Discard, process.Stderr())
	})
	return &echo{b, process.Conn()}
}

// round is the p50 of n messages there and back.
func (e *echo) round(n int) float64 {
	took := make([]int64, n)
	var message [64]byte
	for i := range took {
		from := clock.Now()
		if _, err := e.conn.Write(message[:]); err != nil {
			e.b.Fatal(err)
		}
		if _, err := io.ReadFull(e.conn, message[:]); err != nil {
			e.b.Fatal(err)
		}
		took[i] = clock.Now() - from
	}
	return p50(took)
}

type oneRow struct {
	b        *testing.B
	pool     *Pool
	function *udfgate.Function
	in       *codec.Batch
}

func newOneRow(b *testing.B, python string, change ...func(*Config)) *oneRow {
	b.Helper()
	file := filepath.Join(b.TempDir(), "one.py")
	if err := os.WriteFile(file, []byte(oneRowModule), 0o600); err != nil {
		b.Fatal(err)
	}
	c := Config{
		Name: "bench", Launcher: &testLauncher{}, Python: python,
		Files: []Module{{"one", file}}, WorkersMax: 1,
	}
	for _, f := range change {
		f(&c)
	}
	p, err := New(b.Context(), c)
	if err != nil {
		b.Fatal(err)
	}
	in, err := batchOf(p.Slots(), []int64{12}, []int64{30})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Release()
		p.Close(context.Background())
	})
	return &oneRow{b, p, p.Functions()[0], in}
}

// round makes n calls.
func (o *oneRow) round(n int) crossingRound {
	parts := make([][5]int64, n)
	for i := range parts {
		call := &udfgate.Call{ID: callIDs.Add(1), Function: o.function}
		call.Timeline.From = clock.Now()
		answer, err := o.pool.Invoke(o.b.Context(), call, o.in)
		call.Timeline.To = clock.Now()
		if err != nil {
			o.b.Fatal(err)
		}
		if answer.Rows != 1 {
			o.b.Fatalf("wanted 1 row, got %d", answer.Rows)
		}
		answer.Release()
		at := call.Timeline.Partition()
		out, back := at[udfgate.StateCrossingOut], at[udfgate.StateCrossingBack]
		worker := at[udfgate.StateConversionWorker] + at[udfgate.StateBody]
		parts[i] = [...]int64{out + worker + back, out, worker, back, at.Wall()}
	}
	of := func(k int) float64 {
		ns := make([]int64, n)
		for i := range parts {
			ns[i] = parts[i][k]
		}
		return p50(ns)
	}
	return crossingRound{of(0), of(1), of(2), of(3), of(4)}
}
