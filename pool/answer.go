package pool

import (
	"errors"
	"os"
	"time"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/codec"
	"github.com/udfgate/udfgate/internal/clock"
)

// accept checks that a RESULT answers the CALL, and books its times.
func (x *crossing) accept() error {
	r := &x.result
	switch {
	case len(r.segments) != len(x.chunk.segments):
		return broken("RESULT of %d segments, wanted %d", len(r.segments), len(x.chunk.segments))
	case r.outArena != x.out.arena:
		return broken("RESULT lies in arena %d, wanted %d", r.outArena, x.out.arena)
	case r.outBase != x.out.base:
		return broken("RESULT begins at %d, wanted %d", r.outBase, x.out.base)
	case r.outUsed > x.out.limit:
		return broken("RESULT uses %d bytes of %d", r.outUsed, x.out.limit)
	}
	if err := x.acceptPart(); err != nil {
		return err
	}
	for i := range r.segments {
		s, want := &r.segments[i], &x.chunk.segments[i]
		if s.status == statusTooLarge && x.refused == 0 {
			return broken("segment %d is too large, but nothing was refused", i)
		}
		if err := x.acceptShape(i); err != nil {
			return err
		}
		if s.status == statusFailed && x.chunk.keepsGoing && s.errors[0].kind != errorNoRow {
			return broken("segment %d ends with an error of row %d, the call keeps going", i, s.errors[0].row)
		}
		for j := range s.errors {
			e := &s.errors[j]
			if e.kind != errorNoRow && (e.row < want.lo || e.row >= want.hi) {
				return outOfRange(e.row, want.lo, want.hi)
			}
		}
	}
	if r.outUsed > outBytesLarge {
		x.w.outAt = x.ended
	}
	x.book()
	return nil
}

// acceptShape checks the rows and columns of a segment.
func (x *crossing) acceptShape(i int) error {
	s, want, columns := &x.result.segments[i], &x.chunk.segments[i], 1
	switch {
	case s.status != statusDone:
		return nil
	case x.chunk.function.Table:
		columns = 2
	case s.rows != want.hi-want.lo:
		return broken("segment %d: wanted %d rows, got %d", i, want.hi-want.lo, s.rows)
	}
	switch {
	case s.columns < columns || s.columns > columns+1:
		return broken("segment %d: wanted %d or %d columns, got %d", i, columns, columns+1, s.columns)
	case s.columns > columns && !x.chunk.keepsGoing:
		return broken("segment %d has a column of errors, the call ends with the first", i)
	}
	return nil
}

// book adds the crossing to the call's timeline and work. The worker's three
// durations are placed one after the other and end where it sent: their sums
// are exact, their order within is a convention.
func (x *crossing) book() {
	r, call := &x.result, x.call
	decode, body, encode := r.decode, r.body, r.encode
	busy := decode + body + encode
	recv, send := r.recv, r.send
	if !x.w.nests || recv < x.began || send > x.ended || send-recv < busy {
		// Durations alone can be used, in the gateway's own interval.
		whole := x.ended - x.began
		if busy > whole {
			decode, body = scale(decode, whole, busy), scale(body, whole, busy)
			encode = min(scale(encode, whole, busy), whole-decode-body)
			busy = decode + body + encode
		}
		recv = x.began + (whole-busy)/2
		send = recv + busy
	}
	x.booked = true
	t := &call.Timeline
	at := send - busy // before it: on its way, or unaccounted for by the worker
	t.Add(udfgate.StateCrossingOut, x.began, at)
	t.Add(udfgate.StateConversionWorker, at, at+decode)
	at += decode
	t.Add(udfgate.StateBody, at, at+body)
	at += body
	t.Add(udfgate.StateConversionWorker, at, send)
	t.Add(udfgate.StateCrossingBack, send, x.ended)
	call.Work.Add(udfgate.Work{
		BodyNS: body, BodyCPUNS: r.bodyCPU, ConversionWorkerNS: decode + encode,
		CrossingNS: x.ended - x.began - busy,
	})
	call.WorkerPeakBytes = max(call.WorkerPeakBytes, r.peak)
	call.Worker = x.w.pid
}

// scale is part·whole/sum without overflow, rounded down.
func scale(part, whole, sum int64) int64 {
	return int64(float64(part) / float64(sum) * float64(whole))
}

// take copies the answer out of the output arena, which is free for the next
// call after it. Segments are answered one by one; a chunk has one today.
func (x *crossing) take() (*codec.Answer, error) {
	s, want := &x.result.segments[0], &x.chunk.segments[0]
	limits := codec.AnswerLimits{BytesMax: x.w.pool.config.AnswerBytesMax, BytesName: answerBytesName}
	x.call.Crossings++ // each part of a table is a trip of its own
	if err := x.excessName(); err != nil && (s.status == statusDone || x.chunk.keepsGoing) {
		return nil, err
	}
	switch s.status {
	case statusFailed:
		return x.failed(&s.errors[0], want.hi-want.lo, limits)
	case statusTooLarge:
		if x.noRoom != nil {
			return nil, udfgate.Errorf(udfgate.Internal, "result of %d bytes: %w", x.refused, x.noRoom)
		}
		if x.chunk.function.Table {
			return nil, limits.TooLarge(x.refused + partSlack(limits.BytesMax))
		}
		return nil, limits.TooLarge(x.refused)
	}
	region := x.w.out.Bytes()[x.out.base : x.out.base+x.result.outUsed]
	take := x.copyOut
	if x.chunk.function.Table {
		take = x.copyPart
	}
	answer, err := take(s, want.hi-want.lo, region, limits)
	bookGateway(x.call, x.ended, clock.Now())
	if err != nil {
		if _, ours := errors.AsType[*udfgate.Error](err); ours {
			return nil, err
		}
		if _, tag := errors.AsType[*codec.TagError](err); tag {
			return nil, err
		}
		return nil, broken("answer: %v", err)
	}
	x.call.ResultBytes += int64(len(answer.Body.Bytes()))
	return answer, nil
}

// copyOut takes the columns of a segment that is done.
func (x *crossing) copyOut(s *resultSegment, rows int64, region []byte, limits codec.AnswerLimits) (*codec.Answer, error) {
	field, blockRows := x.chunk.function.Result, x.chunk.blockRows
	if s.columns == 1 {
		return codec.TakeAnswer(field, rows, blockRows, &s.column, region, limits)
	}
	answer, err := codec.TakeFailing(field, rows, blockRows, &s.column, &s.second, region, limits)
	if err != nil {
		return nil, err
	}
	return x.settleErrors(answer, limits)
}

// settleErrors counts the failed rows of an answer, and makes of its texts what
// the caller wants of them.
func (x *crossing) settleErrors(answer *codec.Answer, limits codec.AnswerLimits) (*codec.Answer, error) {
	failed := answer.Failed()
	var err error
	if x.call.OnError == udfgate.OnErrorReject {
		err = answer.EditErrors(isPlain, lineText, limits)
	} else {
		answer.ForgetErrors()
	}
	if err != nil {
		answer.Release()
		return nil, err
	}
	x.call.RowsFailed += failed
	return answer, nil
}

// failed is the outcome of a segment that an error ended. What the body raised
// over all its rows is each row's where failed rows do not end the call.
func (x *crossing) failed(e *rowError, rows int64, limits codec.AnswerLimits) (*codec.Answer, error) {
	err := errBody(e, x.chunk.function.Mode)
	if !x.chunk.keepsGoing || err.Exception == "" || x.chunk.function.Table {
		return nil, err
	}
	text := ""
	if x.call.OnError == udfgate.OnErrorReject {
		text = err.Message
	}
	from := clock.Now()
	answer, tooLarge := codec.AllFailed(x.chunk.function.Result, rows, text, limits)
	bookGateway(x.call, from, clock.Now())
	if tooLarge != nil {
		return nil, tooLarge
	}
	x.call.RowsFailed += rows
	x.call.ResultBytes += int64(len(answer.Body.Bytes()))
	return answer, nil
}

// settle turns what ended a crossing into an error that says who is to blame,
// and ends a worker that is.
func (x *crossing) settle(err error) error {
	if err == nil {
		return nil
	}
	var protocol *protocolError
	var untaken *notTaken
	_, ours := errors.AsType[*udfgate.Error](err)
	w := x.w
	switch {
	case ours:
		return err // the worker is as good as before
	case errors.As(err, &untaken):
		err = &notTaken{x.lost(untaken.err, untakenWait)}
		// The chunk still waits for a worker that takes it.
		x.call.Timeline.Add(udfgate.StateQueue, x.began, clock.Now())
		return err
	case errors.Is(err, errExpired):
		err = x.expired()
	case errors.Is(err, errCancelled):
		w.pool.fail(w, ReapedCancelled, x.chunk)
		err = errContext(x.ctx, x.call)
	case errors.As(err, &protocol):
		w.pool.fail(w, ReapedProtocol, x.chunk)
		err = errLost(protocol.Error(), w.lastWords())
	case errors.Is(err, os.ErrDeadlineExceeded) && !w.isDead() && clock.Now() >= x.limit.at:
		err = x.expired() // in the middle of an answer to NEED
	default:
		err = x.lost(err, exitWait)
	}
	x.bookLost()
	return err
}

// expired ends a worker whose chunk took too long, and brings the stack that
// it was in.
func (x *crossing) expired() error {
	stack := x.w.stacks()
	x.w.pool.fail(x.w, ReapedTimeout, x.chunk)
	return errTimeout(x.limit, stack)
}

// lost waits for a worker whose socket broke to say how it ended.
func (x *crossing) lost(err error, wait time.Duration) error {
	w := x.w
	if isIO(err) && w.awaitDead(wait) {
		if w.reaped() == ReapedClosed {
			return errClosed()
		}
		return errExit(w.exit, w.lastWords())
	}
	w.pool.fail(w, ReapedProtocol, x.chunk)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errLost("does not read its socket", w.lastWords())
	}
	if isIO(err) {
		return errLost("closed its socket and did not exit", w.lastWords())
	}
	return errLost(err.Error(), w.lastWords())
}

// bookLost books the time of a crossing that brought no stamps, its aftermath
// included. What the worker did in it is not known; most of the time it was in
// the body.
func (x *crossing) bookLost() {
	if x.booked {
		return
	}
	now := clock.Now()
	x.call.Timeline.Add(udfgate.StateBody, x.began, now)
	x.call.Work.BodyNS += now - x.began
	x.call.Worker = x.w.pid
}

// ownTimeout is the function's own time limit, of length 0 for none. When it
// ends depends on the crossing.
func (p *Pool) ownTimeout(f *udfgate.Function) limit {
	if int(f.Number) < len(p.first.timeouts) {
		return p.first.timeouts[f.Number]
	}
	return limit{}
}
