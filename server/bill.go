package server

import "github.com/udfgate/udfgate"

// What every bill of this part says of itself.
const (
	dialectFlight = "flight"
	dialectHTTP   = "http"
	pathPython    = "python"
)

// billOffName is how errors quote Config.BillOff.
const billOffName = "UDFGATE_DEBUG=bill=off"

// severalWorkers is the worker of a call whose batches ran in more than one.
const severalWorkers = "several"

// book adds a batch that has ended to the call's books. Called with mu held.
func (x *exchange) book(w *walk) {
	x.ledger.Add(&w.call.Timeline)
	x.work.Add(w.call.Work)
	addCall(&x.bill, &w.call)
}

// addCall adds what a backend counted.
func addCall(b *udfgate.Bill, c *udfgate.Call) {
	b.Attempts += c.Attempts
	b.Crossings += c.Crossings
	b.SlotBytes += c.SlotBytes
	b.ResultBytes += c.ResultBytes
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

// batchBill is the bill of one batch as of now: it ends when its answer is
// handed over, so its reply is waiting in order alone.
func (x *exchange) batchBill(w *walk, now int64) *udfgate.Bill {
	b := &udfgate.Bill{
		Rows: w.batch.Rows, RowsFailed: w.call.RowsFailed, Batches: 1,
		BytesIn: w.messageBytes, BytesOut: w.sentBytes,
	}
	x.describe(b)
	addCall(b, &w.call)
	timeline := w.call.Timeline
	timeline.To = now
	p := timeline.Partition()
	b.SetPartition(&p)
	b.SetWork(w.call.Work)
	return b
}
