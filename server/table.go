package server

import (
	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/codec"
	"github.com/udfgate/udfgate/internal/clock"
)

// runTable walks a batch of a table function to its end: its answer goes out in
// parts, as the body makes them.
func (w *walk) runTable() {
	x := w.x
	if !x.await(w) {
		return
	}
	w.batchHeld = w.held
	err := w.invokeTable()
	if err == nil || w.answered { // what a backend finds wrong after the last part is no fault of the answer's
		return
	}
	w.waiting = clock.Now()
	x.fail(w.number, err, w.number, w)
}

// invokeTable runs the function over the batch, delivering what it answers.
func (w *walk) invokeTable() *udfgate.Error {
	x := w.x
	var err error
	if w.batch.Rows == 0 { // no crossing: there is nothing to run
		err = w.deliver(codec.EmptyTable(x.route.function.Result), true)
	} else {
		err = x.route.backend.InvokeTable(x.ctx, w.begin(), w.batch, w.deliver)
	}
	switch {
	case err != nil:
		return asError(x.ctx, err)
	case !w.answered:
		return udfgate.Errorf(udfgate.Internal, "the backend has answered no last part")
	}
	return nil
}

// deliver hands a part over and releases it. It returns once the client's
// connection has taken the part, or has room for it; until then the body rests.
func (w *walk) deliver(part *codec.Answer, last bool) error {
	defer part.Release()
	x, budget := w.x, w.x.server.budget
	w.waiting = clock.Now()
	switch {
	case x.ctx.Err() != nil:
		return ended(x.ctx)
	case w.answered:
		return udfgate.Errorf(udfgate.Internal, "the backend has answered a part after the last one")
	}
	if err := w.shape(part); err != nil {
		return err
	}
	// Between the parts the batch holds the bytes of its slot, and those of an
	// answer that its client gets as one.
	between := w.batchHeld
	if r, ok := x.stream.(renderer); ok {
		defer func() { w.held = budget.resize(w.held, between+r.kept()) }()
	} else {
		defer func() { w.held = budget.resize(w.held, between) }()
	}
	w.partHeld = int64(len(part.Body.Bytes()))
	w.held = budget.resize(w.held, w.held+w.partHeld)
	if x.await(w) {
		if err := w.send(part, last); err != nil {
			return err
		}
	}
	return x.dropped(w)
}

// dropped is why nobody wants a batch any more; nil if it is wanted, or answered.
func (x *exchange) dropped(w *walk) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.failed != nil && (x.over || x.failedAt <= w.number) {
		return x.failed.err
	}
	return nil
}
