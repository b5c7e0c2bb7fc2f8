package server

import (
	"time"

	"github.com/udfgate/udfgate/internal/clock"
)

// A call that has failed reads on for a moment before its status goes out, and
// throws away what comes. There are two kinds of clients for which that makes
// the difference. One writes ahead of its answers: the status would break off
// its writing, and some clients then lose the answers that came before. The
// other has not read its answers: the status waits behind them, and a client
// that is blocked in writing reads nothing. One that waits for each answer
// before it writes again gets its status at once.
const (
	// lingerQuiet is how long nobody may write before the status goes out to a
	// client whose answers have all left.
	lingerQuiet = 20 * time.Millisecond
	// lingerMax bounds the whole for a client that goes on writing.
	lingerMax = time.Second
	// lingerTimes is the bound in NotReadingTimeouts, for all clients.
	lingerTimes   = 2
	lingerLookMin = time.Millisecond
	lingerLookMax = 20 * time.Millisecond
	// trackBytes is how much a client certainly takes, read or not: half of
	// the smallest window in use (RFC 9113's default, 64 KiB). Whether small
	// answers have been sent is only looked at beyond it.
	trackBytes = 32 << 10
)

// lingering is lingerQuiet and lingerMax.
type lingering struct{ quiet, most time.Duration }

// linger waits until the client has written all, or is not writing and has
// been sent everything, or patience ends, or the gateway drains.
func (x *exchange) linger() {
	if !x.lingers() {
		return
	}
	received := x.receiverEnds()
	began := clock.Now()
	for look := lingerLookMin; ; look = min(2*look, lingerLookMax) {
		timer := time.NewTimer(look)
		select {
		case <-timer.C:
			if x.patient(began, clock.Now()) {
				continue
			}
		case <-received:
		case <-x.ctx.Done():
		}
		timer.Stop()
		return
	}
}

// lingers says whether the end of the call is one to linger over: somebody is
// there, has not written all, and either writes ahead or has unread answers.
func (x *exchange) lingers() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.failed != nil && x.gone == nil && !x.halfClosed && !x.server.watch.draining.Load() &&
		(x.ahead || x.blind() || x.out.unsent.Load() > 0)
}

// blind says that nobody has looked whether the client writes ahead: the batches
// of a table function are read one at a time. Called with mu held.
func (x *exchange) blind() bool { return x.route != nil && x.route.function.Table }

// patient says whether to wait any longer.
func (x *exchange) patient(began, now int64) bool {
	reading := int64(x.server.config.NotReadingTimeout)
	config := &x.server.config.linger
	quiet, most := int64(config.quiet), min(int64(config.most), lingerTimes*reading)
	if x.out.unsent.Load() > 0 {
		quiet, most = reading, lingerTimes*reading
	}
	return !x.server.watch.draining.Load() && now-began < most && now-max(x.came.Load(), began) < quiet
}

// receiverEnds is closed once the receiver has ended.
func (x *exchange) receiverEnds() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.received = make(chan struct{})
	if x.ended {
		close(x.received)
	}
	return x.received
}

// endReceiving is the receiver's last act.
func (x *exchange) endReceiving() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ended = true
	if x.received != nil {
		close(x.received)
	}
}
