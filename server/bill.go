package server

import (
	"maps"
	"math"

	"github.com/udfgate/udfgate"
)

// What every bill of this part says of itself.
const (
	dialectFlight = "flight"
	dialectHTTP   = "http"
	pathPython    = "python"
)

// billOffName is how errors quote Config.BillOff.
const billOffName = "UDFGATE_DEBUG=bill=off"

// counterSumMax is where the sums of a counter stop. One part may add up to 2^53,
// and how many parts a table has is for its body to say.
const counterSumMax = math.MaxInt64

// severalWorkers is the worker of a call whose batches ran in more than one.
const severalWorkers = "several"

// booked is what of a batch is in the call's books: of one that is answered in
// parts, what a backend had counted when the last part went. It is nothing of
// all others until their end.
type booked struct {
	work                                        udfgate.Work
	attempts, crossings, slotBytes, resultBytes int64
	partition                                   udfgate.Partition // of the timelines of those parts
}

// book adds a batch that has ended, or a part of one that has been sent, to the
// call's books. Called with mu held.
func (x *exchange) book(w *walk) {
	c, old := &w.call, &w.booked
	x.ledger.Add(&c.Timeline)
	x.work.Add(c.Work.Since(old.work))
	addCall(&x.bill, c, old)
}

// bookPart books a part that has been sent, and begins the time of the next one:
// however many there are, the books hold the spans of one. Called with mu held.
func (x *exchange) bookPart(w *walk) {
	x.book(w)
	c, old := &w.call, &w.booked
	if w.x.headers.billPerBatch {
		old.add(&c.Timeline)
	}
	old.work = c.Work
	old.attempts, old.crossings, old.slotBytes, old.resultBytes = c.Attempts, c.Crossings, c.SlotBytes, c.ResultBytes
	w.partBytes += w.sentBytes
	now := c.Timeline.To
	c.Timeline = udfgate.Timeline{From: now, Off: c.Timeline.Off}
	x.from[w.number%WindowMax] = now
	x.ledger.Settle(now)
}

// add adds the phases of a timeline. It adds up: no instant is in two of them.
func (b *booked) add(t *udfgate.Timeline) {
	p := t.Partition()
	for i := range p {
		b.partition[i] += p[i]
	}
}

// addCall adds what a backend counted since old.
func addCall(b *udfgate.Bill, c *udfgate.Call, old *booked) {
	b.Attempts += c.Attempts - old.attempts
	b.Crossings += c.Crossings - old.crossings
	b.SlotBytes += c.SlotBytes - old.slotBytes
	b.ResultBytes += c.ResultBytes - old.resultBytes
	b.WorkerPeakBytes = max(b.WorkerPeakBytes, c.WorkerPeakBytes)
	b.Cold = b.Cold || c.Cold
	switch {
	case c.Worker == "" || c.Worker == b.Worker:
	case b.Worker == "":
		b.Worker = c.Worker
	default:
		b.Worker = severalWorkers
	}
}

// countFailedRow counts the row that the call failed for: it was answered, with
// an error. Rows behind it are not known to be good or bad. Called with mu held.
func (x *exchange) countFailedRow() {
	if f := x.failed; f != nil && f.err.Reason == udfgate.UserError && f.err.Row != udfgate.NoRow {
		x.bill.Rows++
		x.bill.RowsFailed++
	}
}

// writeBill completes the call's bill. Called with mu held, once.
func (x *exchange) writeBill(b *udfgate.Bill) {
	x.describe(b)
	b.SetPartition(&x.ledger.Booked)
	b.IdleNS = x.ledger.IdleNS
	b.SetWork(x.work)
}

// describe fills in what is the same in all bills of the call.
func (x *exchange) describe(b *udfgate.Bill) {
	b.Dialect, b.Path = x.dialect, pathPython
	b.Trace, b.Principal = x.headers.trace, x.headers.principal
	if x.route != nil {
		b.Function, b.Version = x.route.name, x.route.function.Version
	}
}

// batchBill is the bill of one batch as of now: it ends when its answer, or the
// last part of it, is handed over, so its reply is waiting in order, and the
// sending of earlier parts.
func (x *exchange) batchBill(w *walk, now int64) *udfgate.Bill {
	b := &udfgate.Bill{
		Rows: w.batch.Rows, RowsFailed: w.rowsFailed(), Batches: 1,
		BytesIn: w.messageBytes, BytesOut: w.partBytes + w.sentBytes,
	}
	x.describe(b)
	addCall(b, &w.call, &booked{})
	timeline := w.call.Timeline
	timeline.To = now
	all := w.booked
	all.add(&timeline)
	b.SetPartition(&all.partition)
	b.SetWork(w.call.Work)
	b.Counters = addCounts(maps.Clone(w.counts), w.call.Counts)
	return b
}

// rowsFailed is how many rows of the batch have failed. A worker of somebody
// else's may let one row of a table fail more than once.
func (w *walk) rowsFailed() int64 { return min(w.call.RowsFailed, w.batch.Rows) }

// count takes what the body counted for an answer, or a part of one, that has
// been handed over. Over HTTP parts become one answer, which a failure takes
// with it, so there they count with the last. Called with mu held.
func (x *exchange) count(w *walk, last bool) {
	told := w.call.Counts
	w.counts = addCounts(w.counts, told)
	w.call.Counts = nil
	if x.dialect == dialectHTTP {
		if !last {
			return
		}
		told = w.counts
	}
	x.bill.Counters = addCounts(x.bill.Counters, told)
	for name, n := range told {
		x.route.series.Count(name, n)
	}
}

// addCounts adds what is counted in more to sum, which is made if there is none
// and something to add, up to counterSumMax. A backend keeps no more than 32
// names per function, and numbers from 1.
func addCounts(sum, more map[string]int64) map[string]int64 {
	if sum == nil && len(more) > 0 {
		sum = make(map[string]int64, len(more))
	}
	for name, n := range more {
		sum[name] += min(n, counterSumMax-sum[name])
	}
	return sum
}
