package pool

import (
	"context"
	"time"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/internal/clock"
)

// waiter is a call that waits for a worker: an element of a queue.
type waiter struct {
	granted    chan *worker // gets one worker, or is closed with the pool
	next, prev *waiter
	queued     bool
	since      int64
	cold       []udfgate.Span // when no worker was alive
}

// queue is the calls that wait, in the order they came. It is intrusive so
// that a call which gives up leaves from the middle at once.
type queue struct {
	first, last *waiter
	length      int
}

func (q *queue) push(w *waiter) {
	w.queued, w.prev = true, q.last
	if q.last != nil {
		q.last.next = w
	} else {
		q.first = w
	}
	q.last = w
	q.length++
}

func (q *queue) remove(w *waiter) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		q.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		q.last = w.prev
	}
	w.next, w.prev, w.queued = nil, nil, false
	q.length--
}

func (q *queue) pop() *waiter {
	w := q.first
	if w != nil {
		q.remove(w)
	}
	return w
}

// acquire takes the lease of a worker, waiting for one if it must, and books
// the wait on the call. The lease is the call's from the instant at on. gated
// is how long the call has waited at its function's gate.
func (p *Pool) acquire(ctx context.Context, call *udfgate.Call, gated time.Duration) (w *worker, at int64, err error) {
	now := clock.Now()
	p.mu.Lock()
	if w := p.takeIdle(now); w != nil {
		p.mu.Unlock()
		p.observer.QueueWait(p.config.Name, gated)
		return w, now, nil
	}
	q, err := p.enqueue(now)
	p.mu.Unlock()
	if err != nil {
		return nil, 0, err
	}
	w, err = p.wait(ctx, q, call, gated)
	now = clock.Now()
	call.Timeline.Add(udfgate.StateQueue, q.since, now)
	for _, s := range q.cold { // outranks queue
		call.Timeline.Add(s.State, s.From, s.To)
		call.Cold = true
	}
	p.observer.QueueWait(p.config.Name, gated+time.Duration(now-q.since))
	return w, now, err
}

// admit refuses a call early, before work is spent on it, if the queue is full.
func (p *Pool) admit() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return errClosed()
	case len(p.idle) == 0 && p.waiting() >= p.config.QueueLenMax:
		return p.errQueueFull()
	default:
		return nil
	}
}

// takeIdle leases the worker that was idle for the shortest time: its caches
// are warm, and the others can be seen to be too many. The caller holds mu.
func (p *Pool) takeIdle(now int64) *worker {
	n := len(p.idle)
	if p.closed || n == 0 {
		return nil
	}
	w := p.idle[n-1]
	p.idle[n-1] = nil
	p.idle = p.idle[:n-1]
	p.lease(w, now)
	return w
}

// lease makes an idle worker busy: with a call since the instant at, or with
// none if that is 0. The caller holds mu.
func (p *Pool) lease(w *worker, at int64) {
	w.become(stateBusy)
	w.hold()
	w.leasedAt = at
	p.busy++
}

// busyFor is how long a call has had the worker. The caller holds mu.
func (w *worker) busyFor(now int64) int64 {
	if w.leasedAt == 0 {
		return 0
	}
	return now - w.leasedAt
}

// enqueue puts a call into the queue and asks for one more worker. The caller
// holds mu.
func (p *Pool) enqueue(now int64) (*waiter, error) {
	if p.closed {
		return nil, errClosed()
	}
	if p.waiting() >= p.config.QueueLenMax {
		return nil, p.errQueueFull()
	}
	q := &waiter{granted: make(chan *worker, 1), since: now}
	p.queue.push(q)
	p.grow()
	return q, nil
}

// wait blocks until the call gets a worker or gives up.
func (p *Pool) wait(ctx context.Context, q *waiter, call *udfgate.Call, gated time.Duration) (*worker, error) {
	rest := p.patience(call.Function, gated)
	patience, expires := rest, false
	if call.Deadline != 0 {
		if left := time.Duration(call.Deadline - q.since); left < patience {
			patience, expires = left, true
		}
	}
	t := time.NewTimer(patience)
	defer t.Stop()
	var gaveUp error
	select {
	case w, ok := <-q.granted:
		if !ok {
			return nil, errClosed()
		}
		return w, nil
	case <-ctx.Done():
		gaveUp = errContext(ctx, call)
	case <-t.C:
		if expires {
			gaveUp = errTimeout(limitOf(call), "the call was still waiting for a worker")
		}
	}
	return p.leave(q, rest, gaveUp)
}

// leave takes a call out of the queue. If it got a worker at the same instant
// it goes on, unless nobody wants the answer any more.
func (p *Pool) leave(q *waiter, patience time.Duration, gaveUp error) (*worker, error) {
	p.mu.Lock()
	if q.queued {
		p.queue.remove(q)
		if p.ready == 0 {
			q.chill(p.coldSince, clock.Now())
		}
		if gaveUp == nil {
			gaveUp = p.errQueueTimeout(patience)
		}
		p.mu.Unlock()
		return nil, gaveUp
	}
	p.mu.Unlock()
	w, ok := <-q.granted
	switch {
	case !ok:
		return nil, errClosed()
	case gaveUp != nil:
		p.release(w, false)
		return nil, gaveUp
	default:
		return w, nil
	}
}

// chill notes that no worker was alive from since to now.
func (q *waiter) chill(since, now int64) {
	q.cold = append(q.cold, udfgate.Span{State: udfgate.StateStart, From: max(since, q.since), To: now})
}

// release ends a lease: the worker goes to the call that has waited longest,
// or becomes idle. One that is ending or dead goes nowhere. served says that it
// has answered a call in this lease.
func (p *Pool) release(w *worker, served bool) {
	w.link.relax()
	now := clock.Now()
	p.mu.Lock()
	p.stopClock(w, now)
	p.busy--
	dismissed := p.closed && p.unready(w)
	if !p.closed && w.state.to(stateIdle) == nil {
		if served {
			w.served, p.duds = true, 0
		}
		p.offer(w, now)
	}
	p.mu.Unlock()
	if dismissed {
		w.bye()
	}
	w.release()
}

// stopClock books the time that a call has had the worker. The caller holds mu.
func (p *Pool) stopClock(w *worker, now int64) {
	p.busyNS += w.busyFor(now)
	w.leasedAt = 0
}

// offer gives a worker that has just become idle to the first call in the
// queue, or puts it on top of the idle ones. The caller holds mu.
func (p *Pool) offer(w *worker, now int64) {
	q := p.queue.pop()
	if q == nil {
		w.idleAt = now
		p.idle = append(p.idle, w)
		return
	}
	p.lease(w, now)
	q.granted <- w
}
