package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/udfgate/udfgate"
)

// cost is one phase of a bill with what helps against it.
type cost struct {
	name  string
	ns    int64
	parts []cost // indented below it; they add up to ns
	cure  string
}

// costs are the phases in the order of a call's life. Their ns add up to the
// wall.
func costs(b *udfgate.Bill, table bool) []cost {
	perBatch := "paid per batch; more rows in each cost less"
	if table {
		// Larger batches save nothing where the answers are cut: only fewer of them do.
		perBatch = fmt.Sprintf("paid per part of at most %s answered rows (TableRowsMax), and at least once per batch; fewer rows answered, or several results in one row as a list, cost less", humanize.Comma(udfgate.TableRowsMax))
	}
	return []cost{
		{name: "queue", ns: b.QueueNS, cure: "calls wait for a free worker; more workers (--workers) shorten it"},
		{name: "coalesce", ns: b.CoalesceNS, cure: "calls wait to be sent together; a smaller fill delay shortens it"},
		{name: "start", ns: b.StartNS, cure: "a worker had to be started; the next call finds it warm"},
		{
			name: "conversion", ns: b.ConversionNS, parts: []cost{{name: "gateway", ns: b.ConvGatewayNS}, {name: "worker", ns: b.ConvWorkerNS}},
			cure: "Arrow columns become Python values and back; fewer or narrower columns cost less",
		},
		{
			name: "crossing", ns: b.CrossingNS, parts: []cost{{name: "out", ns: b.CrossingOutNS}, {name: "back", ns: b.CrossingBackNS}},
			cure: "it is " + perBatch,
		},
		{name: "body", ns: b.BodyNS, cure: bodyCure(b, table)},
		{name: "reply", ns: b.ReplyNS, cure: "answers wait for the caller to read them, or for an earlier one"},
		{name: "other", ns: b.OtherNS, cure: "receiving, checking and routing are " + perBatch},
	}
}

// bodyCure tells a body that computes from one that waits. The processor time
// is of the body's thread, and 0 where batches were too small to measure it.
func bodyCure(b *udfgate.Bill, table bool) string {
	more := "more workers (--workers)"
	if table {
		more += " and calls side by side (the batches of one call run one after the other)"
	} else {
		more = "io_threads or async def let a worker wait for many rows at once; " + more
	}
	switch cpu := b.Work.BodyCPUNS; {
	case cpu == 0 && !table:
		return "it is the function's own code; make it do less, or run it on more workers. If it waits, io_threads or async def let a worker wait for many rows at once"
	case 2*cpu < b.Work.BodyNS && cpu > 0:
		return fmt.Sprintf("it waits, as only %s of it is processor time; %s help too", shareText(cpu, b.Work.BodyNS), more)
	case table:
		return "it is the function's own code; make it do less, or run it in several calls on more workers"
	}
	return "it is the function's own code; make it do less, or run it on more workers"
}

// writeBill prints the phases with time and share, then the sentence that says
// which cost dominates.
func writeBill(w io.Writer, b *udfgate.Bill, table bool) error {
	g := grid{head: []string{"phase", "time", "share", "per row"}, right: []bool{false, true, true, true}}
	row := func(name string, ns int64) {
		g.add(name, durationText(ns), shareText(ns, b.WallNS), perRow(ns, b.Rows))
	}
	for _, c := range costs(b, table) {
		if c.ns == 0 && c.parts == nil {
			continue // rare phases would only make the table longer
		}
		row(c.name, c.ns)
		for _, p := range c.parts {
			row("  "+p.name, p.ns)
		}
	}
	row("wall", b.WallNS)
	if err := g.write(w); err != nil {
		return err
	}
	if err := writeCounters(w, b.Counters); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%s\n", dominant(b, table))
	return err
}

// writeCounters prints what bodies counted, by name.
func writeCounters(w io.Writer, counters map[string]int64) error {
	if len(counters) == 0 {
		return nil
	}
	g := grid{head: []string{"counter", "count"}, right: []bool{false, true}}
	for _, name := range slices.Sorted(maps.Keys(counters)) {
		g.add(printable(name), humanize.Comma(counters[name]))
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	if err := g.write(w); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}

// dominant is the sentence: the largest phase, how large, and its cure.
func dominant(b *udfgate.Bill, table bool) string {
	if b.WallNS == 0 {
		return "No time was spent: the call had no rows."
	}
	all := costs(b, table)
	top := all[0]
	for _, c := range all[1:] {
		if c.ns > top.ns {
			top = c
		}
	}
	share := shareText(top.ns, b.WallNS)
	if 2*top.ns >= b.WallNS {
		return fmt.Sprintf("The %s dominates, with %s of the time: %s.", top.name, share, top.cure)
	}
	return fmt.Sprintf("No cost dominates; the largest is the %s, with %s of the time: %s.", top.name, share, top.cure)
}

// speed is "336,776 rows in 6 batches, 1.20 s, 281,000 rows/s", for a table
// function "2 rows in 1 batch gave 7 rows, 1.20 ms, 5,833 rows/s". A call that
// failed also says what it was given: "5 rows in 1 batch sent, 0 rows answered".
func speed(o outcome) string {
	var b strings.Builder
	switch failed := o.sentBatches > o.batches; {
	case failed && o.table:
		fmt.Fprintf(&b, "%s in %s sent, %s given", plural(o.sent, "row"), plural(o.sentBatches, "batch"), plural(o.answered, "row"))
	case failed:
		fmt.Fprintf(&b, "%s in %s sent, %s answered", plural(o.sent, "row"), plural(o.sentBatches, "batch"), plural(o.answered, "row"))
	default:
		fmt.Fprintf(&b, "%s in %s", plural(o.rows, "row"), plural(o.batches, "batch"))
	}
	if o.table && o.sentBatches <= o.batches {
		fmt.Fprintf(&b, " gave %s", plural(o.answered, "row"))
	}
	fmt.Fprintf(&b, ", %s", durationText(int64(o.took)))
	if o.took > 0 && o.answered > 0 {
		fmt.Fprintf(&b, ", %s rows/s", humanize.Comma(int64(float64(o.answered)/o.took.Seconds())))
	}
	return b.String()
}

func plural(n int64, noun string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "ch"):
		noun += "es"
	default:
		noun += "s"
	}
	return humanize.Comma(n) + " " + noun
}

// durationText has three significant digits, which is what a clock on a busy
// machine can tell.
func durationText(ns int64) string {
	switch v := float64(ns); {
	case v >= 1e9:
		return fmt.Sprintf("%s s", digits(v/1e9))
	case v >= 1e6:
		return fmt.Sprintf("%s ms", digits(v/1e6))
	case v >= 1e3:
		return fmt.Sprintf("%s µs", digits(v/1e3))
	default:
		return fmt.Sprintf("%d ns", ns)
	}
}

func digits(v float64) string {
	switch {
	case v >= 99.95:
		return fmt.Sprintf("%.0f", v)
	case v >= 9.995:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

func shareText(ns, wall int64) string {
	if wall == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(ns)/float64(wall))
}

func perRow(ns, rows int64) string {
	if rows == 0 {
		return "–"
	}
	if v := float64(ns) / float64(rows); v < 99.95 && v > 0 {
		return fmt.Sprintf("%.1f ns", v)
	}
	return durationText(ns / rows)
}
