package main

import (
	"strings"
	"testing"
	"time"

	"github.com/udfgate/udfgate"
)

func TestWriteBill(t *testing.T) {
	b := &udfgate.Bill{
		Rows: 1000, WallNS: 2_000_000, QueueNS: 1_000, ConversionNS: 300_000, ConvGatewayNS: 100_000, ConvWorkerNS: 200_000,
		CrossingNS: 99_000, CrossingOutNS: 50_000, CrossingBackNS: 49_000, BodyNS: 1_500_000, OtherNS: 100_000,
	}
	var out strings.Builder
	if err := writeBill(&out, b, false); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"queue", "  gateway", "  worker", "  out", "  back", "body", "reply", "other", "wall",
	} {
		if has := strings.Contains(out.String(), "\n"+line+" "); has == (line == "reply") {
			t.Errorf("line %q: %v in\n%s", line, has, out.String())
		}
	}
	if !strings.Contains(out.String(), "1.50 ms   75.0 %  1.50 µs") {
		t.Errorf("body's line:\n%s", out.String())
	}
	if last := "The body dominates, with 75.0 % of the time: it is the function's own code; make it do less, or run it on more workers. If it waits, io_threads or async def let a worker wait for many rows at once.\n"; !strings.HasSuffix(out.String(), last) {
		t.Errorf("sentence:\n%s", out.String())
	}
}

func TestDominant(t *testing.T) {
	waits := udfgate.Bill{WallNS: 10, BodyNS: 10, Work: udfgate.BillWork{BodyNS: 20, BodyCPUNS: 2}}
	works := udfgate.Bill{WallNS: 10, BodyNS: 10, Work: udfgate.BillWork{BodyNS: 20, BodyCPUNS: 20}}
	for _, c := range []struct {
		bill  udfgate.Bill
		table bool
		want  string
	}{
		{udfgate.Bill{WallNS: 10, CrossingNS: 6, BodyNS: 4}, false, "The crossing dominates, with 60.0 % of the time: it is paid per batch; more rows in each cost less."},
		{udfgate.Bill{WallNS: 10, CrossingNS: 6, BodyNS: 4}, true, "The crossing dominates, with 60.0 % of the time: it is paid per part of at most 1,024 answered rows (TableRowsMax), and at least once per batch; "},
		{udfgate.Bill{WallNS: 10, OtherNS: 6, BodyNS: 4}, true, "The other dominates, with 60.0 % of the time: receiving, checking and routing are paid per part"},
		{udfgate.Bill{WallNS: 10, CrossingNS: 3, BodyNS: 4, ConversionNS: 3}, false, "No cost dominates; the largest is the body, with 40.0 % of the time: "},
		{waits, false, "The body dominates, with 100.0 % of the time: it waits, as only 10.0 % of it is processor time; io_threads or async def let a worker wait for many rows at once; more workers (--workers) help too."},
		{waits, true, "The body dominates, with 100.0 % of the time: it waits, as only 10.0 % of it is processor time; more workers (--workers) and calls side by side"},
		{works, false, "The body dominates, with 100.0 % of the time: it is the function's own code; make it do less, or run it on more workers."},
		{works, true, "The body dominates, with 100.0 % of the time: it is the function's own code; make it do less, or run it in several calls on more workers."},
		{udfgate.Bill{}, false, "No time was spent"},
	} {
		if got := dominant(&c.bill, c.table); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

// The phases of the table are those of the bill: they add up to the wall.
func TestCosts_addUp(t *testing.T) {
	var p udfgate.Partition
	for i := range p {
		p[i] = int64(1) << i
	}
	var b udfgate.Bill
	b.SetPartition(&p)
	sum := int64(0)
	for _, c := range costs(&b, false) {
		sum += c.ns
		parts := int64(0)
		for _, part := range c.parts {
			parts += part.ns
		}
		if c.parts != nil && parts != c.ns {
			t.Errorf("%s: parts are %d, want %d", c.name, parts, c.ns)
		}
	}
	if sum != b.WallNS {
		t.Errorf("sum = %d, wall = %d", sum, b.WallNS)
	}
}

func TestTexts(t *testing.T) {
	for got, want := range map[string]string{
		durationText(999):           "999 ns",
		durationText(1_000):         "1.00 µs",
		durationText(12_345):        "12.3 µs",
		durationText(999_400):       "999 µs",
		durationText(2_500_000_000): "2.50 s",
		perRow(500, 1000):           "0.5 ns",
		perRow(5, 0):                "–",
		speed(outcome{rows: 336776, answered: 336776, batches: 6, took: 1200 * time.Millisecond}): "336,776 rows in 6 batches, 1.20 s, 280,646 rows/s",
		speed(outcome{rows: 1, answered: 1, batches: 1}):                                          "1 row in 1 batch, 0 ns",
		speed(outcome{rows: 2, answered: 7, batches: 1, took: 2 * time.Second, table: true}):      "2 rows in 1 batch gave 7 rows, 2.00 s, 3 rows/s",
		speed(outcome{sent: 5, sentBatches: 1, took: time.Second}):                                "5 rows in 1 batch sent, 0 rows answered, 1.00 s",
		speed(outcome{sent: 5, sentBatches: 1, answered: 2, took: time.Second, table: true}):      "5 rows in 1 batch sent, 2 rows given, 1.00 s, 2 rows/s",
		printable("a\x1b[31m\n\"q\""):                                                             `a\x1b[31m\n"q"`,
		printable(strings.Repeat("日", 30)):                                                        strings.Repeat("日", 23) + "…",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
