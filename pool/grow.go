package pool

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/internal/clock"
)

const (
	// backoffMin is the pause after the first failed start; it doubles with
	// each further one, up to backoffMax.
	backoffMin = 100 * time.Millisecond
	backoffMax = 10 * time.Second
)

// grow starts one more worker in the background, if there may be one more.
// After a failed start only one is tried at a time. The caller holds mu.
func (p *Pool) grow() {
	if p.closed || len(p.live)+p.starts >= p.config.WorkersMax {
		return
	}
	if p.failures > 0 && p.starts > 0 {
		return
	}
	p.starts++
	p.running.Go(p.startOne)
}

// startOne starts a worker, with pauses between failures, until there is one
// or none is needed.
func (p *Pool) startOne() {
	for {
		if !p.pause() {
			return
		}
		w, err := p.start(p.ctx)
		if err == nil {
			p.join(w)
			return
		}
		p.logger.Warn("worker start failed", "pool", p.config.Name, "error", err)
		if !p.retryStart(err) {
			return
		}
	}
}

// pause waits until the next start is due; false if the pool closes first.
func (p *Pool) pause() bool {
	p.mu.Lock()
	due := p.nextStart
	p.mu.Unlock()
	if due.IsZero() {
		return p.ctx.Err() == nil
	}
	t := time.NewTimer(time.Until(due))
	defer t.Stop()
	select {
	case <-t.C:
		return p.ctx.Err() == nil
	case <-p.ctx.Done():
		return false
	}
}

// retryStart notes a failed start and says whether this goroutine tries again:
// as long as nothing else works on it and somebody needs it.
func (p *Pool) retryStart(err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nextStart = time.Now().Add(backoff(p.failures))
	p.failures++
	p.lastFailure = udfgate.AsError(err)
	if p.closed || p.starts > 1 || (p.ready > 0 && p.queue.length == 0) {
		p.starts--
		return false
	}
	return true
}

// backoff is the pause after n failures before the last.
func backoff(n int) time.Duration {
	wait := backoffMin
	for ; n > 0 && wait < backoffMax; n-- {
		wait *= 2
	}
	return min(wait, backoffMax)
}

// dud notes a worker that was ready and died by itself before it had answered a
// call. One may be an accident and is replaced at once; a row of them would be
// started and lost as fast as the machine can, so pauses grow as for failed
// starts. One that died in a call is none: there is no more than one per call.
// The caller holds mu.
func (p *Pool) dud() {
	if p.duds > 0 {
		p.nextStart = time.Now().Add(backoff(p.duds - 1))
	}
	p.duds++
}

// join adds a started worker to the pool and gives it to the call that has
// waited longest. The caller's hold ends here.
func (p *Pool) join(w *worker) {
	if !p.enlist(w) {
		w.end(ReapedClosed) // unless it died in the moment it was ready
	}
	w.release()
}

// enlist is join under the lock; false if the pool is closed or the worker dead.
func (p *Pool) enlist(w *worker) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starts--
	if p.closed || w.state.to(stateIdle) != nil {
		p.dud()
		p.grow()
		return false
	}
	p.failures, p.nextStart, p.lastFailure = 0, time.Time{}, nil
	now := clock.Now()
	p.live[w] = struct{}{}
	w.readyAt = now
	if p.ready == 0 {
		for q := p.queue.first; q != nil; q = q.next {
			q.chill(p.coldSince, now)
		}
	}
	p.ready++
	p.offer(w, now)
	if p.queue.length > 0 {
		p.grow() // after failures only one was on its way, whoever waited
	}
	return true
}

// fail ends a leased worker that did something wrong, or too slowly, and keeps
// the slots that it may still read until it is dead.
func (p *Pool) fail(w *worker, reason string, c *chunk) {
	if c != nil {
		w.pin(c)
	}
	p.mu.Lock()
	p.unready(w)
	p.mu.Unlock()
	w.end(reason)
}

// unready takes a worker out of those that calls can count on, because it is
// about to end; false if it was none. The caller holds mu.
func (p *Pool) unready(w *worker) bool {
	s := w.state.get()
	if s != stateIdle && s != stateBusy {
		return false
	}
	w.become(stateEnding)
	p.lost()
	return true
}

// lost counts a ready worker out. The caller holds mu.
func (p *Pool) lost() {
	p.ready--
	if p.ready == 0 {
		p.coldSince = clock.Now()
	}
}

// bury takes a worker that has been reaped out of the pool.
func (p *Pool) bury(w *worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := w.state.get()
	if was == stateStarting {
		why := ReapedStartFailed
		w.ended.CompareAndSwap(nil, &why)
	}
	w.become(stateDead)
	if _, joined := p.live[w]; !joined {
		return // whoever starts it sees to the rest
	}
	delete(p.live, w)
	now := clock.Now()
	p.aliveNS += now - w.readyAt
	p.stopClock(w, now) // its lease may last until its last words are read
	if i := slices.Index(p.idle, w); i >= 0 {
		p.idle = slices.Delete(p.idle, i, i+1)
	}
	if was == stateIdle || was == stateBusy {
		p.lost()
	}
	if was == stateIdle && !w.served {
		p.dud()
	}
	p.grow()
}

// mourn tells the world about it, without the lock.
func (p *Pool) mourn(w *worker) {
	reason := w.reaped()
	p.observer.WorkerExited(p.config.Name, reason)
	level := slog.LevelWarn
	if reason == ReapedClosed || reason == ReapedStartFailed { // whoever started it tells why it failed
		level = slog.LevelDebug
	}
	p.logger.Log(context.Background(), level, "worker ended",
		"pool", p.config.Name, "worker", w.pid, "reason", reason, "exit", w.exit.String())
}
