package pool

import (
	"context"
	"time"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/internal/clock"
)

// gate lets a function's chunks pass while no more than its concurrency of them
// run; the others wait in front of it, in the order they came, and hold no
// worker meanwhile.
type gate struct {
	passed int // chunks that have not come out again
	queue  queue
}

// waiting is how many calls wait, for a gate or a worker. The caller holds mu.
func (p *Pool) waiting() int { return p.queue.length + p.gated }

// enter waits until the function may run one more chunk, books that on the
// call, and says how long it took. exit must follow.
func (p *Pool) enter(ctx context.Context, call *udfgate.Call) (waited time.Duration, err error) {
	f := call.Function
	if f.Concurrency == 0 {
		return 0, nil
	}
	p.mu.Lock()
	g := &p.gates[f.Number]
	switch {
	case p.closed:
		err = errClosed()
	case g.passed < f.Concurrency:
		g.passed++ // nobody waits then: exit gives the place to who does
	case p.waiting() >= p.config.QueueLenMax:
		err = p.errQueueFull()
	default:
		q := &waiter{granted: make(chan *worker, 1), since: clock.Now()}
		g.queue.push(q)
		p.gated++
		p.mu.Unlock()
		err = p.waitAtGate(ctx, g, q, call)
		now := clock.Now()
		call.Timeline.Add(udfgate.StateQueue, q.since, now)
		if waited = time.Duration(now - q.since); err != nil {
			p.observeGate(waited)
		}
		return waited, err
	}
	p.mu.Unlock()
	return 0, err
}

// observeGate tells of a wait that none for a worker follows.
func (p *Pool) observeGate(waited time.Duration) {
	if waited > 0 {
		p.observer.QueueWait(p.config.Name, waited)
	}
}

// waitAtGate blocks until the call passes or gives up.
func (p *Pool) waitAtGate(ctx context.Context, g *gate, q *waiter, call *udfgate.Call) error {
	f := call.Function
	patience := p.config.QueueTimeout
	if f.ConcurrencyWaitNS > 0 {
		patience = time.Duration(f.ConcurrencyWaitNS)
	}
	gaveUp := errGate(patience, f.Concurrency)
	if call.Deadline != 0 {
		if left := time.Duration(call.Deadline - q.since); left < patience {
			patience = left
			gaveUp = errTimeout(limitOf(call), "the call was still waiting for one of the function's chunks at once (concurrency)")
		}
	}
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case _, ok := <-q.granted:
		if !ok {
			return errClosed()
		}
		return nil
	case <-ctx.Done():
		gaveUp = errContext(ctx, call)
	case <-t.C:
	}
	return p.leaveGate(g, q, f, gaveUp)
}

// leaveGate takes a call out of a gate's queue. If it was let pass at the same
// instant, the next one passes in its place.
func (p *Pool) leaveGate(g *gate, q *waiter, f *udfgate.Function, gaveUp error) error {
	p.mu.Lock()
	if q.queued {
		g.queue.remove(q)
		p.gated--
		p.mu.Unlock()
		return gaveUp
	}
	p.mu.Unlock()
	if _, ok := <-q.granted; !ok {
		return errClosed()
	}
	p.exit(f)
	return gaveUp
}

// exit lets the chunk that has waited longest pass in the place of one that is
// done.
func (p *Pool) exit(f *udfgate.Function) {
	if f.Concurrency == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	g := &p.gates[f.Number]
	if q := g.queue.pop(); q != nil {
		p.gated--
		q.granted <- nil
		return
	}
	g.passed--
}

// closeGates sends home who waits. The caller holds mu.
func (p *Pool) closeGates() {
	for i := range p.gates {
		g := &p.gates[i]
		for q := g.queue.pop(); q != nil; q = g.queue.pop() {
			p.gated--
			close(q.granted)
		}
	}
}

// patience is how long a call may wait for a worker if it has waited so long at
// its gate: there is one QueueTimeout for both, but for the wait that the
// function's author has set by itself.
func (p *Pool) patience(f *udfgate.Function, gated time.Duration) time.Duration {
	if f.ConcurrencyWaitNS > 0 {
		return p.config.QueueTimeout
	}
	return p.config.QueueTimeout - gated
}

func errGate(waited time.Duration, most int) error {
	return retryable(udfgate.Errorf(udfgate.QueueFull, "waited %v for one of %d chunks at once (concurrency)", waited, most))
}
