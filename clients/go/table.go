package client

import (
	"context"
	"fmt"
	"iter"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/udfgate/udfgate"
)

// Part is a piece of a table function's answer to one batch: at most
// udfgate.TableRowsMax rows, in order. Release Batch when done with it, or leave
// it to the garbage collector: its memory is Go's own.
type Part struct {
	// Batch is what the gateway answered. The other columns here live as long.
	Batch arrow.RecordBatch
	// Rows is column 0: of each row of the part, which row of the batch sent it
	// came of, counted from 0. It never falls, also from one part to the next.
	// A row without results does not appear.
	Rows *array.Int32
	// Values is column 1, the results.
	Values arrow.Array
	// Errors is the column "error" of Batch, as in Result: a row that failed
	// adds one row with its text and a null value to what it had answered
	// before. Nil unless WithOnError(OnErrorReject) asked for it.
	Errors *array.String
	// Input is the number of the batch that this answers, counted from 0 in the
	// order sent.
	Input int64
	// Last says that this part, which may be empty, is the end of the answer to
	// the batch.
	Last bool
	// Bill is on last parts: from CallTable the whole call's, from StreamTable
	// the batch's own. Nil otherwise.
	Bill *udfgate.Bill
	// AppMetadata is what SendWithAppMetadata gave with the batch, on each of
	// its parts; empty if nothing.
	AppMetadata []byte
}

// CallTable sends one batch to a table function and ranges over the parts of
// its answer as they come; there is at least one. The gateway runs the function
// on only as parts are read, and so may a table have no end: leaving the loop
// gives the call up.
//
//	for part, err := range gate.CallTable(ctx, "series", batch) {
//
// The batch is sent as the loop begins, and may be released within it. An error
// is the last thing that is yielded; parts that came before it are good.
//
// # Errors
//
// Those of Call. A function that is no table function is one too.
func (c *Client) CallTable(ctx context.Context, name string, batch arrow.RecordBatch, opts ...Option) iter.Seq2[*Part, error] {
	return func(yield func(*Part, error) bool) {
		t, err := c.StreamTable(ctx, name, batch.Schema(), opts...)
		if err != nil {
			yield(nil, err)
			return
		}
		defer t.Close()
		if err := t.s.sendOnly(batch); err != nil {
			yield(nil, err)
			return
		}
		for part, err := range t.only() {
			if !yield(part, err) || err != nil {
				return
			}
		}
	}
}

// only are the parts of a call's single batch. The last one waits for the end
// of the call, which brings its bill.
func (t *TableStream) only() iter.Seq2[*Part, error] {
	return func(yield func(*Part, error) bool) {
		var last *Part
		for part, err := range t.Parts() {
			switch {
			case err == nil && last != nil:
				err = fmt.Errorf("%s: wanted the answer to one batch, got more", t.s.name)
			case err == nil && part.Last:
				last = part
				continue
			}
			if !yield(part, err) || err != nil {
				return
			}
		}
		if last == nil {
			yield(nil, fmt.Errorf("%s: wanted the answer to one batch, got none", t.s.name))
			return
		}
		last.Bill = t.Bill()
		yield(last, nil)
	}
}

// TableStream is one call of many batches to a table function. Each batch sent
// gets one or more parts, batch by batch in order. One goroutine may send while
// another receives; neither side is safe for concurrent use with itself.
//
// Whoever only sends will block once the parts fill the connection, and the
// gateway ends the call after a while: use Exchange, read while you write, or
// wait for each last part.
type TableStream struct {
	s       *Stream
	batches int64 // whose last part has come
	within  bool  // some parts of the next have
}

// StreamTable opens a call to a table function, as Stream does to others. Close
// the TableStream, unless it is read to its end.
//
// Where the answer to a batch ends is known from the batch's bill, which is
// always asked for: WithBatchBill changes nothing here.
func (c *Client) StreamTable(ctx context.Context, name string, schema *arrow.Schema, opts ...Option) (*TableStream, error) {
	s, err := c.stream(ctx, name, schema, true, opts)
	if err != nil {
		return nil, err
	}
	return &TableStream{s: s}, nil
}

// Send is as Stream.Send.
func (t *TableStream) Send(batch arrow.RecordBatch) error { return t.s.Send(batch) }

// SendWithAppMetadata is Send with bytes of the caller's own, which come back
// in the AppMetadata of each part of the answer.
func (t *TableStream) SendWithAppMetadata(batch arrow.RecordBatch, appMetadata []byte) error {
	return t.s.SendWithAppMetadata(batch, appMetadata)
}

// CloseSend says that no batch follows. Parts still come.
func (t *TableStream) CloseSend() error { return t.s.CloseSend() }

// Recv waits for the next part; io.EOF once the call is done.
func (t *TableStream) Recv() (*Part, error) {
	if err := t.s.start(); err != nil {
		return nil, t.ended(err)
	}
	batch, appMetadata, err := t.s.next()
	if err != nil {
		return nil, t.ended(err)
	}
	rows, _ := batch.Column(0).(*array.Int32) // start has seen its type
	if rows.NullN() > 0 {
		batch.Release()
		return nil, t.s.finish(fmt.Errorf("wanted column %q without nulls, got %d", udfgate.RowField().Name, rows.NullN()))
	}
	part := &Part{Batch: batch, Rows: rows, Values: batch.Column(1), Input: t.batches, Errors: t.s.errors(batch)}
	part.Bill, part.AppMetadata = batchBill(appMetadata)
	part.Last = part.Bill != nil
	t.within = !part.Last
	if part.Last {
		t.batches++
	}
	return part, nil
}

// ended is the end of the call, which is an error in the midst of a batch.
func (t *TableStream) ended(err error) error {
	if isEOF(err) && t.within {
		t.s.end = fmt.Errorf("%s: the call ended before the last part for batch %d", t.s.name, t.batches)
		return t.s.end
	}
	return err
}

// Parts ranges over the parts that are still to come, up to the end of the
// call. An error is the last thing it yields. Leaving the loop leaves the
// stream open.
func (t *TableStream) Parts() iter.Seq2[*Part, error] { return untilEOF(t.Recv) }

// Exchange sends batches and ranges over the parts of their answers, both at
// once, as Stream.Exchange does.
func (t *TableStream) Exchange(batches iter.Seq2[arrow.RecordBatch, error]) iter.Seq2[*Part, error] {
	return exchange(t.s, batches, t.Parts())
}

// Schema is that of the parts: the column "row", one named after the function,
// and with WithOnError(OnErrorReject) the column "error". It waits for the
// gateway's first message, which comes no sooner than a batch or CloseSend has gone.
func (t *TableStream) Schema() (*arrow.Schema, error) { return t.s.Schema() }

// Bill is the whole call's, once Recv has returned io.EOF or an *Error; nil
// before, and if the gateway sent none.
func (t *TableStream) Bill() *udfgate.Bill { return t.s.Bill() }

// Close gives the call up if it is not over: the gateway ends the function. It
// may be called at any time, by any goroutine, and more than once.
func (t *TableStream) Close() { t.s.Close() }

// isTable tells the fields of a table function's answer. A scalar function
// named row is none: its answer is one column, or nullable beside its errors.
func isTable(fields []arrow.Field) bool {
	row := udfgate.RowField()
	return len(fields) > 1 && fields[0].Name == row.Name && fields[0].Type.ID() == arrow.INT32 && !fields[0].Nullable
}
