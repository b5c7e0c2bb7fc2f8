package pool

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

	var echoed, crossed, invoked []float64 // p50 of each round, µs
	for b.Loop() {
		echo.round(calls / 10) // warm
		row.round(calls / 10)
		for n := range rounds {
			if n%2 == 0 {
				echoed = append(echoed, echo.round(calls))
			}
			crossing, invoke := row.round(calls)
			crossed, invoked = append(crossed, crossing), append(invoked, invoke)
			if n%2 == 1 {
				echoed = append(echoed, echo.round(calls))
			}
		}
	}
	b.Logf("p50 of each round of %d, µs:\necho      %s\ncrossing  %s\ninvoke    %s",
		calls, microseconds(echoed), microseconds(crossed), microseconds(invoked))
	ratio := slices.Min(crossed) / slices.Min(echoed)
	result := "pass"
	if ratio > crossingGoal {
		result = "miss"
	}
	b.Logf("least p50: crossing %.1f µs, echo %.1f µs, ratio %.2f, goal ≤ %g: %s",
		slices.Min(crossed), slices.Min(echoed), ratio, crossingGoal, result)
	b.ReportMetric(slices.Min(echoed), "echo-µs")
	b.ReportMetric(slices.Min(crossed), "crossing-µs")
	b.ReportMetric(slices.Min(invoked), "invoke-µs")
	b.ReportMetric(ratio, "ratio")
	b.ReportMetric(0, "ns/op") // of all rounds together: says nothing
}

func microseconds(v []float64) string {
	var s strings.Builder
	for _, x := range v {
		fmt.Fprintf(&s, "%7.1f", x)
	}
	return s.String()
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

func newOneRow(b *testing.B, python string) *oneRow {
	b.Helper()
	file := filepath.Join(b.TempDir(), "one.py")
	if err := os.WriteFile(file, []byte(oneRowModule), 0o600); err != nil {
		b.Fatal(err)
	}
	p, err := New(b.Context(), Config{
		Name: "bench", Launcher: &testLauncher{}, Python: python,
		Files: []Module{{"one", file}}, WorkersMax: 1,
	})
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

// round is the p50 of n calls: the crossing from CALL written to RESULT read,
// and the whole of Invoke.
func (o *oneRow) round(n int) (crossing, invoke float64) {
	crossed, invoked := make([]int64, n), make([]int64, n)
	for i := range n {
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
		crossed[i] = at[udfgate.StateCrossingOut] + at[udfgate.StateConversionWorker] +
			at[udfgate.StateBody] + at[udfgate.StateCrossingBack]
		invoked[i] = at.Wall()
	}
	return p50(crossed), p50(invoked)
}
