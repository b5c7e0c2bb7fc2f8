package pool

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/codec"
	"github.com/udfgate/udfgate/internal/clock"
)

const (
	// armAfter is when a crossing begins, at the latest, to watch for a caller
	// that goes away: most are over by then and need not pay for it.
	armAfter = 20 * time.Millisecond
	// cancelGrace is how long a call that nobody waits for may go on. A shorter
	// rest costs less than a new worker.
	cancelGrace = 100 * time.Millisecond
	// listenWait is how long the few bytes that answer a NEED, or name arenas,
	// may take to be accepted. A worker that waits for them reads at once.
	listenWait = time.Second
	// logTextBytesMax is how much of a worker's log line is passed on.
	logTextBytesMax = 4 << 10
)

// crossing is one trip of a chunk to a worker and back. It is part of its
// worker and used again; the goroutine that holds the lease does everything.
type crossing struct {
	w      *worker
	call   *udfgate.Call
	chunk  *chunk
	own    limit // the function's own, of length 0 for none
	limit  limit
	out    outRange
	began  int64 // instant of the CALL, of NEXT, or of the RECODE
	ended  int64 // instant at which the RESULT had been read
	result result
	booked bool // the last RESULT came, and its times are booked

	progress progress         // of a table function
	counts   map[string]int64 // what the body counted for the answer to come
	excess   string           // a name that it counted under and that is one too many

	refused int64 // bytes that a NEED asked for in vain
	noRoom  error // why an output arena could not be made, if that was the reason
	// only: the CALL is the last thing that was sent. What the worker left
	// unread when it died is then the end of the CALL.
	only bool
	// callAt is where the CALL begins in what is being written; DATA frames may
	// come before it.
	callAt int

	// mu orders the callback of a context that ends with the end of the
	// crossing, after which the socket belongs to the next one.
	mu       sync.Mutex
	ctx      context.Context
	disarm   func() bool // set once the context is watched, by the lease holder
	turn     uint64      // of the crossings that were watched; an old callback sees another
	cancelAt int64       // the caller went away: the worker is killed then
	wakeAt   int64       // the deadline of the socket; 0 if its two directions differ
}

// run does one crossing in a lease that began at the instant at. own is the
// function's own time limit, of length 0 for none. The answer of a table
// function goes to deliver, part by part.
//
// # Errors
//
// *notTaken: the worker got nothing of it. *udfgate.Error: everything else;
// where the worker is to blame it has been ended. *undelivered: one of deliver.
func (x *crossing) run(ctx context.Context, call *udfgate.Call, c *chunk, own limit, at int64, deliver Deliver) (*codec.Answer, error) {
	x.begin(ctx, call, c, own, at)
	defer x.finish()
	if x.limit.at <= at { // the caller's: no reason to end a worker
		return nil, errTimeout(x.limit, "")
	}
	if err := x.dispatch(); err != nil {
		return nil, x.settle(err)
	}
	call.Attempts++
	if deliver != nil {
		return nil, x.table(deliver)
	}
	answer, err := x.answer()
	return answer, x.settle(err)
}

// answer waits for the RESULT, or the next of a table function, and takes what
// it answers.
func (x *crossing) answer() (*codec.Answer, error) {
	for recoded := false; ; recoded = true {
		if err := x.await(); err != nil {
			return nil, err
		}
		answer, err := x.take()
		tag, wrong := errors.AsType[*codec.TagError](err)
		switch {
		case err == nil:
			x.call.Counts, x.counts = x.counts, nil
			return answer, nil
		case !wrong:
			return nil, err
		case recoded || !x.w.hello.marshal():
			return nil, broken("answer: %v", tag)
		}
		x.renew(clock.Now())
		if err := x.write(appendHeader(x.w.link.out[:0], frameRecode, x.call.ID, 0)); err != nil {
			return nil, err
		}
	}
}

// renew is for a frame, sent at the instant now, that another RESULT answers.
func (x *crossing) renew(now int64) {
	x.began, x.booked, x.only, x.callAt, x.result.more = now, false, false, 0, false
}

// begin sets up the crossing.
func (x *crossing) begin(ctx context.Context, call *udfgate.Call, c *chunk, own limit, now int64) {
	x.ctx, x.call, x.chunk, x.own, x.refused, x.noRoom, x.booked = ctx, call, c, own, 0, nil, false
	x.progress, x.result.more = progress{lastRow: c.segments[0].lo}, false
	x.forgetCounts()
	x.restrict(now)
	x.began = now
}

// restrict sets the limit of an answer that is asked for at the instant now. The
// caller holds mu if the context is watched.
func (x *crossing) restrict(now int64) {
	config, own, call := &x.w.pool.config, x.own, x.call
	x.limit = limit{at: now + int64(config.Timeout), length: config.Timeout, name: "--timeout"}
	if own.length > 0 {
		own.at = now + int64(own.length)
		x.limit = x.limit.sooner(own)
	}
	if call.TimeoutNS > 0 && call.TimeoutNS < int64(config.Timeout) { // a longer one changes nothing, and its end could overflow
		x.limit = x.limit.sooner(limit{at: now + call.TimeoutNS, length: time.Duration(call.TimeoutNS), name: call.TimeoutName})
	}
	if call.Deadline != 0 {
		x.limit = x.limit.sooner(limitOf(call))
	} else if at, ok := x.ctx.Deadline(); ok {
		left := time.Until(at)
		x.limit = x.limit.sooner(limit{at: now + int64(left), length: left.Round(time.Millisecond), name: callersDeadline})
	}
}

// finish leaves nothing of the call behind.
func (x *crossing) finish() {
	x.unwatch()
	x.ctx, x.call, x.chunk, x.counts, x.excess = nil, nil, nil, nil, ""
}

// unwatch ends the watching of the context, if that has begun.
func (x *crossing) unwatch() {
	if x.disarm != nil {
		x.mu.Lock()
		x.disarm()
		x.turn++
		x.disarm, x.cancelAt = nil, 0
		x.mu.Unlock()
	}
}

// dispatch brings the worker's mappings up to date and writes the CALL.
func (x *crossing) dispatch() error {
	w, now := x.w, x.began
	if w.untidy(now) {
		x.setDeadline(now + int64(listenWait))
		if err := w.tidy(now); err != nil {
			return &notTaken{err}
		}
	}
	x.wake(now)
	x.useOut()
	x.only, x.callAt = true, 0
	w.link.out = w.link.out[:0]
	if w.out.Private() {
		if err := x.sendData(); err != nil {
			return err
		}
		now = clock.Now()
	}
	remaining := max(x.limit.at-now, 1) // 0 would mean no limit
	w.link.out = x.chunk.appendCall(w.link.out, x.call.ID, remaining, x.out)
	if n := len(w.link.out) - x.callAt - headerBytes; n > frameBytesMax {
		return udfgate.Errorf(udfgate.Internal, "CALL of %d bytes, the most is %d", n, frameBytesMax)
	}
	return x.write(w.link.out)
}

// wake sets the instant at which patience is first asked. A deadline that the
// last call has left behind does as well, and spares the timer: that it wakes
// this one early is no harm.
func (x *crossing) wake(now int64) {
	until := min(x.limit.at, now+int64(armAfter))
	if x.wakeAt < now+int64(armAfter)/2 || x.wakeAt > until {
		x.setDeadline(until)
	}
}

// write writes whole frames; *notTaken if the CALL is the last of them, or
// still to come, and the socket accepted nothing of it.
func (x *crossing) write(b []byte) error {
	for sent := 0; ; {
		n, err := x.w.link.write(b[sent:])
		sent += n
		switch {
		case err == nil:
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded) && (sent > x.callAt || !x.w.isDead()):
			if err := x.patience(); err != nil {
				return err
			}
		case sent <= x.callAt && x.only:
			return &notTaken{err}
		default:
			return err
		}
	}
}

// await reads frames until the RESULT, which it decodes, checks and books.
func (x *crossing) await() error {
	for {
		f, err := x.w.link.read()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			if err := x.patience(); err != nil {
				return err
			}
			continue
		case x.only && isReset(err):
			x.call.Attempts-- // not handed over after all
			return &notTaken{err}
		case err != nil:
			return err
		case f.kind == frameLog:
			x.w.log(f.payload)
			continue
		case f.kind == frameAST:
			continue // native execution will want it; until then nobody does
		case f.call != x.call.ID:
			return broken("%s names call %d, wanted %d", f.kind, f.call, x.call.ID)
		}
		if f.kind == frameResult {
			x.ended = clock.Now()
			if err := x.result.decodeFrom(f.payload); err != nil {
				return err
			}
			return x.accept()
		}
		if err := x.interlude(f); err != nil {
			return err
		}
	}
}

// interlude does what a frame of the call asks for that is no RESULT.
func (x *crossing) interlude(f frame) error {
	switch f.kind {
	case frameData:
		return x.takeData(f.payload)
	case frameNeed:
		return x.need(f.payload)
	case frameContext:
		return x.tellContext(f.payload)
	case frameCounts:
		return x.count(f.payload)
	default:
		return broken("%s within a call", f.kind)
	}
}

// patience is asked when a deadline of the socket has passed: nil says that
// the crossing goes on, with another one.
func (x *crossing) patience() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := clock.Now()
	switch {
	case x.w.isDead():
		if x.w.lastRead() {
			return nil
		}
		return os.ErrDeadlineExceeded
	case now >= x.limit.at:
		return errExpired
	case x.cancelAt != 0 && now >= x.cancelAt:
		return errCancelled
	}
	until := x.limit.at
	if x.cancelAt != 0 {
		until = min(until, x.cancelAt)
	}
	x.setDeadline(until)
	if x.disarm == nil {
		turn := x.turn
		x.disarm = context.AfterFunc(x.ctx, func() { x.cancelled(turn) })
	}
	if x.w.isDead() { // its watcher may have woken us before the deadline was set
		x.setDeadline(now)
	}
	return nil
}

// cancelled runs once the caller's context has ended.
func (x *crossing) cancelled(turn uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.turn != turn || !errors.Is(x.ctx.Err(), context.Canceled) {
		return // over, or a deadline, which limit knows
	}
	x.cancelAt = clock.Now() + int64(cancelGrace)
	x.setDeadline(min(x.limit.at, x.cancelAt))
}

// setDeadline wakes a blocked read or write at the instant.
func (x *crossing) setDeadline(at int64) {
	x.wakeAt = at
	// Only a closed socket refuses, and then no read blocks.
	_ = x.w.link.conn.SetDeadline(clock.Time(at))
}

// need answers a NEED: a larger output arena, or a refusal.
func (x *crossing) need(payload []byte) error {
	w := x.w
	if len(payload) != 8 {
		return broken("NEED of %d bytes, wanted 8", len(payload))
	}
	want := binary.LittleEndian.Uint64(payload)
	if want <= uint64(x.out.limit) {
		return broken("NEED of %d bytes, the output arena has %d", want, x.out.limit)
	}
	x.insist()
	most := x.outMost()
	if want > uint64(most) {
		return x.refuse(want, most)
	}
	// Twice the last size, so that a worker which learns what it needs as it
	// goes does not ask for every block.
	next, err := w.newOut(min(max(int64(want), 2*w.out.Size()), most))
	if err != nil {
		x.noRoom = err
		return x.refuse(want, x.out.limit)
	}
	if err := w.giveOut(x.call.ID, next); err != nil {
		return err
	}
	w.outAt = clock.Now()
	x.useOut()
	return nil
}

// useOut has the answer written into the worker's output arena. A table function
// is told how long a part may be, so that it makes a shorter one instead of one
// that is refused.
func (x *crossing) useOut() {
	x.out = outRange{arena: x.w.out.ID(), limit: x.w.out.Size()}
	if x.chunk.function.Table {
		x.out.limit = min(x.out.limit, x.outMost())
	}
}

// outMost is the most bytes of the arena that an answer may use.
func (x *crossing) outMost() int64 {
	most := x.w.pool.config.AnswerBytesMax
	if x.chunk.function.Table {
		return (most - partSlack(most)) &^ (outAlign - 1)
	}
	return most + x.chunk.formBytes()
}

// insist gives an answer to the worker its own limit: the deadline of the read
// before may pass between it and the write. The worker has read the CALL.
func (x *crossing) insist() {
	x.mu.Lock()
	_ = x.w.link.conn.SetWriteDeadline(time.Now().Add(listenWait)) // only a closed socket refuses
	x.wakeAt = 0
	x.mu.Unlock()
	x.only = false
}

func (x *crossing) refuse(want uint64, most int64) error {
	x.refused = int64(min(want, 1<<62))
	return x.w.link.send(frameRefuse, x.call.ID, binary.LittleEndian.AppendUint64(nil, uint64(most)))
}

// formBytes is how much longer than its Arrow body an answer's value form can
// be: two bytes per row, and what blocks and alignment add. Of a column of
// errors it is all but the texts.
func (c *chunk) formBytes() int64 {
	perRow := int64(2)
	if c.keepsGoing {
		perRow = 8
	}
	var n int64
	for i := range c.segments {
		n += perRow*(c.segments[i].hi-c.segments[i].lo) + linkBytes
	}
	return n
}

// logLevels are the names that runtimes give levels.
var logLevels = map[string]slog.Level{
	"debug": slog.LevelDebug, "info": slog.LevelInfo,
	"warn": slog.LevelWarn, "warning": slog.LevelWarn,
	"error": slog.LevelError, "critical": slog.LevelError,
}

// log passes a LOG frame on.
func (w *worker) log(payload []byte) {
	var line logLine
	if err := json.Unmarshal(payload, &line); err != nil {
		w.pool.logger.Warn("worker log unreadable", "worker", w.pid, "error", err)
		return
	}
	level, ok := logLevels[strings.ToLower(line.Level)]
	if !ok {
		level = slog.LevelInfo
	}
	w.pool.logger.Log(context.Background(), level, "worker log",
		"pool", w.pool.config.Name, "worker", w.pid, "function", cut(line.Function, errorClassBytesMax), "text", cut(line.Message, logTextBytesMax))
}
