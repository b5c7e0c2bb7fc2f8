package pool

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/codec"
	"github.com/udfgate/udfgate/internal/clock"
)

const (
	nextBytes = 16
	nextEnd   = 1 // flag of NEXT: the body is to end

	// partSlackRow is how much longer than its value form the Arrow body of a
	// part can be, per row: offsets and validity of values and error texts.
	partSlackRow = 12
	outAlign     = 64
)

// partSlack is what is kept free of a limit of most bytes.
func partSlack(most int64) int64 { return min(partSlackRow*udfgate.TableRowsMax, most/4) }

// Deliver takes a part of a table function's answer, which it owns and
// releases, and hands it to the caller. last says that no other follows. Its
// error ends the body.
type Deliver = func(part *codec.Answer, last bool) error

// InvokeTable is Invoke for a table function: deliver is called with each part
// of the answer, in order, at least once unless there is an error. A part has
// at most TableRowsMax rows and the columns RowField and the value. The body
// goes no further while deliver runs; the worker stays with the call.
//
// call's figures grow from part to part, and Counts is the part's own. deliver
// may replace call.Timeline by one that begins anew.
//
// # Errors
//
// Those of Invoke, and an error of deliver as it is. Parts that were delivered
// before stay so.
//
// # Time limits
//
// Timeout, the function's own limit and call.TimeoutNS count for each part anew,
// from the instant at which it is asked for.
func (p *Pool) InvokeTable(ctx context.Context, call *udfgate.Call, in *codec.Batch, deliver Deliver) error {
	if !call.Function.Table {
		return named(udfgate.Errorf(udfgate.Internal, "wanted a table function, got a scalar one"), call.Function)
	}
	if in.Rows == 0 {
		return deliver(codec.EmptyTable(call.Function.Result), true)
	}
	_, err := p.invoke(ctx, call, in, deliver)
	if theirs, ok := errors.AsType[*undelivered](err); ok {
		return theirs.err
	}
	return named(err, call.Function)
}

// undelivered is an error of the caller's, and none of the crossing's.
type undelivered struct{ err error }

func (e *undelivered) Error() string { return e.err.Error() }
func (e *undelivered) Unwrap() error { return e.err }

// progress is how far the answer of a table function has come.
type progress struct {
	asked   int64 // instant of the last NEXT
	parts   int   // accepted so far
	lastRow int64 // of the last of them
	ending  bool  // the body is to end; a part may not bring anything
}

// table takes the parts of a table function's answer, one after the other, and
// delivers each. The worker runs on only when the last one has been.
func (x *crossing) table(deliver Deliver) error {
	for {
		part, err := x.answer()
		more := x.result.more
		if err == nil {
			x.progress.parts++
			if err = deliver(part, !more); err != nil {
				err = &undelivered{err}
			}
		} else if _, ours := errors.AsType[*udfgate.Error](err); !ours {
			return x.settle(err) // no RESULT, or none to go on from
		}
		switch {
		case !more:
			return err
		case err == nil:
			err = x.unwanted()
		}
		if err != nil {
			x.endBody()
			return err
		}
		if err := x.next(0); err != nil {
			return x.settle(err)
		}
	}
}

// unwanted says why no further part is wanted, and sets the limit of one that is.
func (x *crossing) unwanted() error {
	now := clock.Now()
	x.mu.Lock() // the context may be watched already
	x.restrict(now)
	x.mu.Unlock()
	switch {
	case x.limit.at <= now:
		return errTimeout(x.limit, "")
	case x.ctx.Err() != nil:
		return errContext(x.ctx, x.call)
	}
	return nil
}

// next sends NEXT: the worker runs on to the next part, or ends the body.
func (x *crossing) next(flags uint32) error {
	if kind := x.w.link.ahead(); kind == frameResult || kind == frameData || kind == frameNeed || kind == frameCounts {
		return broken("%s before it was asked for", kind)
	}
	now := clock.Now()
	x.renew(now)
	x.progress.asked, x.refused, x.noRoom = now, 0, nil
	x.forgetCounts()
	x.mu.Lock()
	x.wake(now)
	x.mu.Unlock()
	b := appendHeader(x.w.link.out[:0], frameNext, x.call.ID, nextBytes)
	b = binary.LittleEndian.AppendUint64(b, uint64(max(x.limit.at-now, 1))) // 0 would mean no limit
	b = binary.LittleEndian.AppendUint32(b, flags)
	x.w.link.out = binary.LittleEndian.AppendUint32(b, 0)
	return x.write(x.w.link.out)
}

// endBody ends the body of a table function whose next part nobody wants, or
// its worker if that does not do it soon. What went wrong before is the call's
// error, so there is none to return.
func (x *crossing) endBody() {
	x.unwatch()
	x.ctx, x.progress.ending = context.Background(), true
	x.limit = limit{at: clock.Now() + int64(cancelGrace), length: cancelGrace, name: "the end of a table function"}
	err := x.next(nextEnd)
	if err == nil {
		err = x.await()
	}
	if err == nil {
		return
	}
	if errors.Is(err, errExpired) || errors.Is(err, errCancelled) {
		x.w.pool.fail(x.w, ReapedCancelled, x.chunk)
		x.bookLost()
		return
	}
	err = x.settle(err)
	x.w.pool.logger.Warn("worker lost at the end of a table function", "pool", x.w.pool.config.Name, "worker", x.w.pid,
		"function", x.chunk.function.Canonical(), "error", err)
}

// acceptPart checks what only parts of a table function's answer have.
func (x *crossing) acceptPart() error {
	r := &x.result
	s := &r.segments[0]
	switch {
	case !x.chunk.function.Table:
		if r.more {
			return broken("RESULT of a scalar function says that there is more")
		}
		return nil
	case x.progress.parts > 0 && x.w.nests && r.recv < x.progress.asked:
		return broken("RESULT before it was asked for")
	case r.more && s.status != statusDone:
		return broken("RESULT of status %d says that there is more", s.status)
	case s.rows > udfgate.TableRowsMax:
		return broken("part of %d rows, the most is %d", s.rows, udfgate.TableRowsMax)
	case x.progress.ending && (r.more || s.status != statusDone || s.rows != 0):
		return broken("RESULT of status %d with %d rows after the end of the body", s.status, s.rows)
	}
	return nil
}

// copyPart takes the columns of a part.
func (x *crossing) copyPart(s *resultSegment, _ int64, region []byte, limits codec.AnswerLimits) (*codec.Answer, error) {
	columns := codec.TableColumns{Values: &s.column, Rows: &s.second}
	if s.columns > 2 {
		columns.Errors = &s.third
	}
	in := codec.RowRange{From: x.progress.lastRow, To: x.chunk.segments[0].hi}
	part, last, err := codec.TakeTable(x.chunk.function.Result, s.rows, x.chunk.blockRows, columns, in, region, limits)
	if err != nil {
		return nil, err
	}
	x.progress.lastRow = last
	if columns.Errors == nil {
		return part, nil
	}
	return x.settleErrors(part, limits)
}
