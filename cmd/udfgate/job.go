package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/udfgate/udfgate"
	client "github.com/udfgate/udfgate/clients/go"
	"github.com/udfgate/udfgate/internal/tabular"
	"golang.org/x/sync/errgroup"
)

// windowBatches is how many batches may be sent without an answer: enough to
// keep a worker busy while the next batch is read; more would only hold memory.
const windowBatches = 4

// job streams a source through a function. It is what `call` and `demo` do.
type job struct {
	gate      *client.Client
	function  *client.Function
	source    tabular.Source // its errors are the job's, as they are
	batchRows int
	onError   udfgate.OnError // empty: the function's own
	headers   []client.Option
	// letGo, if not nil, makes a Next of source that waits for its input return.
	letGo func()
	// each is given every answer, in order. It is not valid after it returns.
	each func(*reply) error
	// progress, if not nil, is told how much is answered.
	progress func(rows int64, share float64)
}

// outcome is what a job did; the bill is nil if the gateway sent none. rows are
// those of the input that are answered, answered is how many rows these became,
// sent and sentBatches what the gateway was given, answered or not.
type outcome struct {
	rows, batches     int64
	sent, sentBatches int64
	answered          int64
	table             bool // of a table function
	took              time.Duration
	bill              *udfgate.Bill
}

// run streams to the end. The outcome is of use beside an error too: it has
// the bill of a call that failed.
func (j *job) run(ctx context.Context) (outcome, error) {
	o := outcome{table: j.function.Table}
	begin := time.Now()
	first, err := j.source.Next(j.batchRows)
	if err != nil && !errors.Is(err, io.EOF) {
		return o, err
	}
	// The rows carry the schema that the source made: it is nullable, whatever
	// the function declares.
	schema := j.function.Schema()
	if first != nil {
		schema = first.Args.Schema()
	}
	stream, err := j.open(ctx, schema)
	if err != nil {
		return o, callFailed(err)
	}
	defer stream.Close()

	f := &flow{job: j, stream: stream, pending: make(chan *tabular.Rows, windowBatches)}
	group, _ := errgroup.WithContext(ctx)
	group.Go(func() error { return f.send(first, &o) })
	group.Go(func() error { return f.receive(&o) })
	err = group.Wait()
	o.took, o.bill = time.Since(begin), stream.Bill()
	if f.inputErr != nil { // the cause; what the receiver saw is its effect
		return o, f.inputErr
	}
	return o, err
}

// flow is a job under way: one goroutine sends, one receives.
type flow struct {
	*job
	stream   *call
	pending  chan *tabular.Rows // sent, not yet answered; bounds the window
	current  *tabular.Rows      // of pending, some parts of whose answer have come
	share    float64            // of the input that is answered
	inputErr error
	over     atomic.Bool // the call has failed: what the source says is of no interest
}

func (f *flow) send(batch *tabular.Rows, o *outcome) error {
	defer close(f.pending)
	for batch != nil {
		rows := batch.Len() // it may be answered, and gone, before Send returns
		f.pending <- batch
		if err := f.stream.Send(batch.Args); err != nil {
			return nil // the receiver learns why the call ended
		}
		o.sent += rows
		o.sentBatches++
		var err error
		batch, err = f.source.Next(f.batchRows)
		if f.over.Load() {
			if batch != nil {
				batch.Release()
			}
			return nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			f.inputErr = err
			f.stream.Close()
			return err
		}
	}
	return f.stream.CloseSend()
}

func (f *flow) receive(o *outcome) error {
	err := f.answers(o)
	if err != nil {
		f.over.Store(true)
		f.stream.Close() // the sender may be waiting for the gateway to read
		if f.letGo != nil {
			f.letGo() // or for rows to come
		}
	}
	f.done()
	for batch := range f.pending { // frees the sender, which waits for room here
		batch.Release()
	}
	return err
}

func (f *flow) answers(o *outcome) error {
	for {
		out, err := f.stream.recv()
		if errors.Is(err, io.EOF) {
			return f.allAnswered()
		}
		if err != nil {
			return callFailed(f.located(err, o))
		}
		err = f.answer(out, o)
		out.batch.Release()
		if err != nil {
			return err
		}
	}
}

// answer hands over an answer, or a part of one, with the rows that it is for.
func (f *flow) answer(out *reply, o *outcome) error {
	if f.current == nil {
		in, sent := <-f.pending
		if !sent {
			return fmt.Errorf("%s: got an answer to no batch", f.function.Name)
		}
		f.current = in
	}
	out.in, out.first = f.current, o.rows
	err := out.fits()
	if err != nil {
		err = fmt.Errorf("%s: %w", f.function.Name, err)
	} else {
		err = f.each(out)
	}
	o.answered += out.len()
	if out.last {
		o.rows += f.current.Len()
		o.batches++
		f.share = f.current.Share
		f.done()
	}
	if f.progress != nil {
		f.progress(o.answered, f.share)
	}
	return err
}

// done gives back the rows whose answer is over.
func (f *flow) done() {
	if f.current != nil {
		f.current.Release()
		f.current = nil
	}
}

// located makes the row of an error the one in the whole input: the error
// counts within its batch. Only batches still unanswered can have failed, and
// these wait in order behind the rows answered so far.
func (f *flow) located(err error, o *outcome) error {
	e, ok := errors.AsType[*client.Error](err)
	if !ok || e.Row < 0 || e.Batch < o.batches {
		return err
	}
	row := e.Row + o.rows
	for range e.Batch - o.batches {
		if f.current != nil {
			row += f.current.Len()
			f.done()
			continue
		}
		select {
		case before, sent := <-f.pending:
			if !sent {
				return err
			}
			row += before.Len()
			before.Release()
		default: // a batch that was never sent: the gateway is mistaken
			return err
		}
	}
	whole := *e
	whole.Row = row
	// The gateway writes "f: row N: why"; only the why is not a field.
	if why, ok := strings.CutPrefix(e.Message, rowPrefix(e)); ok {
		whole.Message = rowPrefix(&whole) + why
	} else {
		whole.Message = fmt.Sprintf("%s (row %d of the input)", e.Message, row)
	}
	return &whole
}

func rowPrefix(e *client.Error) string { return fmt.Sprintf("%s: row %d: ", e.Function, e.Row) }

// allAnswered is called after a good end: nothing may be left unanswered.
func (f *flow) allAnswered() error {
	if batch, more := <-f.pending; more {
		batch.Release()
		return fmt.Errorf("%s: the gateway ended the call without answering every batch", f.function.Name)
	}
	return nil
}

// errInterrupted is the end of a client command by a signal.
var errInterrupted = &failure{code: exitFailed, err: errors.New("interrupted")}

// callFailed gives a gateway's error its exit status.
func callFailed(err error) error {
	if errors.Is(err, client.ErrUnreachable) {
		return &failure{code: exitNoGate, err: err}
	}
	if errors.Is(err, context.Canceled) {
		return errInterrupted
	}
	e, ok := errors.AsType[*client.Error](err)
	if !ok {
		return &failure{code: exitFailed, err: err}
	}
	f := &failure{code: exitFailed, err: errors.New(e.Message), detail: e.Detail}
	if e.Reason == udfgate.NotFound {
		f.hint = "udfgate functions lists what is served"
	}
	return f
}
