package server

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"sync"
	"sync/atomic"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/internal/clock"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// WindowMax bounds Config.Window.
const WindowMax = 16

// exchange is one DoExchange: a stream of batches through one function. Its
// receiver reads messages; each batch then walks forward in a goroutine of its
// own, up to Window of them, and waits for its turn before it answers. The
// handler only waits for the outcome, so that it can end the call whatever the
// others wait for.
type exchange struct {
	server  *Server
	stream  grpc.ServerStream
	number  uint64 // of the stream, unique in the process
	dialect string
	ctx     context.Context
	headers headers

	finished chan struct{} // closed once the outcome is settled

	// For the watch: when the SendMsg that runs now began, 0 if none runs, and
	// when a message last came, or an answer last went.
	sending, came atomic.Int64
	out           outgoing

	in *incoming // the receiver's own

	mu    sync.Mutex
	route *route // set with the first descriptor

	greeting rawMsg    // answers the schema
	trailers [1]string // the bill

	next    int64 // number of the batch that comes next
	arrived bool  // a message that may be it has come: from has its instant
	turn    int64 // number of the batch whose answer is due
	from    [WindowMax]int64
	turns   [WindowMax]chan struct{} // batches that wait for their turn
	room    chan struct{}            // the receiver waits for a turn to pass
	sender  *walk                    // is in SendMsg

	ahead      bool // the client has written a batch while one was unanswered
	halfClosed bool
	received   chan struct{} // closed once the receiver has ended, if anybody asks
	ended      bool          // the receiver has ended
	failed     *failure
	failedAt   int64 // answers of the batches before it still go out
	failedWalk *walk // the batch that failed, if it had begun to walk
	gone       error // what grpc said and has already answered
	over       bool

	ledger udfgate.Ledger
	bill   udfgate.Bill
	work   udfgate.Work
}

// handle is the stream handler of DoExchange.
func (s *Server) handle(_ any, stream grpc.ServerStream) error {
	x, err := s.newExchange(stream, dialectFlight)
	if err != nil {
		return s.refuse(stream.Context(), err)
	}
	defer s.leave(x)
	return x.serve()
}

// newExchange admits a call, which must then be served, and leave once its
// client has all of it: a drain waits for that.
func (s *Server) newExchange(stream grpc.ServerStream, dialect string) (*exchange, error) {
	x := &exchange{
		server: s, stream: stream, number: s.streams.Add(1), dialect: dialect, ctx: stream.Context(), finished: make(chan struct{}),
	}
	var err error
	if x.headers, err = readHeaders(x.ctx); err != nil {
		return nil, err
	}
	if x.headers.billPerBatch && s.config.BillOff {
		return nil, malformed("%s: no bills are written here, by %s; leave the header out (clients that tell the end of a table by its bill cannot call one here)", headerBill, billOffName)
	}
	x.headers.principal = s.principals.of(x.ctx)
	if err := s.enter(x); err != nil {
		return nil, err
	}
	return x, nil
}

// serve runs the call to its end and returns its status.
func (x *exchange) serve() error {
	x.came.Store(clock.Now())
	x.server.crew.start(x)
	<-x.finished
	x.linger()
	return x.end()
}

// end sends the trailers and returns the status.
func (x *exchange) end() error {
	x.mu.Lock()
	route, failed, gone, bill := x.route, x.failed, x.gone, &x.bill
	x.mu.Unlock() // nothing below changes once the call is over
	md := make(metadata.MD, 5)
	var reason udfgate.Reason
	if failed != nil {
		reason = failed.err.Reason
		failed.trailer(md)
		x.server.countRefused(reason)
	}
	if route != nil && !x.server.config.BillOff {
		x.trailers[0] = bill.Trailer()
		md["udfgate-bill"] = x.trailers[:]
		route.observe(bill, reason)
	}
	x.stream.SetTrailer(md)
	switch {
	case gone != nil:
		return gone
	case failed != nil:
		return failed.status()
	}
	return nil
}

// fail settles that the call ends with err once the answers of the batches
// before number at have gone out. Later batches are dropped. The first batch
// to fail decides, whenever it is found out. w is the batch, if it walked.
func (x *exchange) fail(at int64, err *udfgate.Error, batch int64, w *walk) {
	f := x.server.fail(x.named(err), batch)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over || x.failed != nil && x.failedAt <= at {
		return
	}
	x.failed, x.failedAt, x.failedWalk = f, at, w
	x.wakeAll()
	x.check()
}

// cutOff ends the call now, whatever it is doing; false if it had ended.
func (x *exchange) cutOff(err *udfgate.Error) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		return false
	}
	x.failed, x.failedAt, x.failedWalk = x.server.fail(x.named(err), noBatch), x.turn, nil
	x.finish()
	return true
}

// named is err with the function's name, if it has none and one is known. It is
// a copy: whoever made the error may hold on to it.
func (x *exchange) named(err *udfgate.Error) *udfgate.Error {
	if err.Function != "" || x.route == nil {
		return err
	}
	named := *err
	named.Function = x.route.function.Name
	return &named
}

// lost notes an error of the stream itself, which grpc has answered already.
func (x *exchange) lost(err error) {
	st, _ := status.FromError(err)
	var e *udfgate.Error
	switch st.Code() {
	case codes.Canceled, codes.Unavailable, codes.Unknown:
		e = udfgate.Errorf(cancelled, "%s", st.Message())
	case codes.DeadlineExceeded:
		e = udfgate.Errorf(udfgate.Timeout, "%s", st.Message())
	case codes.ResourceExhausted:
		e = udfgate.Invalidf(udfgate.ShapeTooLarge, "%s", st.Message())
	default:
		e = udfgate.Invalidf(udfgate.ShapeMalformed, "%s", st.Message())
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.over {
		x.failed, x.failedAt, x.failedWalk, x.gone = &failure{err: e, batch: noBatch}, x.turn, nil, err
		x.finish()
	}
}

// check ends the call if all that it waits for has happened. Called with mu held.
func (x *exchange) check() {
	switch {
	case x.over:
	case x.failed != nil && x.turn >= x.failedAt, x.failed == nil && x.halfClosed && x.turn == x.next:
		x.finish()
	}
}

// finish closes the books and lets everybody go. Called with mu held.
func (x *exchange) finish() {
	x.over = true
	now := clock.Now()
	for n := x.turn; n < x.next; n++ {
		switch {
		case x.failedWalk != nil && x.failedWalk.number == n:
			x.failedWalk.addWaiting(now)
			x.book(x.failedWalk)
		case x.sender != nil && x.sender.number == n:
			x.sender.addWaiting(now)
			x.book(x.sender)
		default: // its own spans are still being written
			x.ledger.Add(&udfgate.Timeline{From: x.from[n%WindowMax], To: now, Off: x.server.config.BillOff})
		}
	}
	x.ledger.Settle(math.MaxInt64)
	x.countFailedRow()
	x.writeBill(&x.bill)
	x.wakeAll()
	close(x.finished)
}

// wakeAll makes everybody who waits look again. Called with mu held.
func (x *exchange) wakeAll() {
	for _, turn := range x.turns {
		wake(turn)
	}
	wake(x.room)
}

// wake puts a token into a channel of capacity 1; nil is legal.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// await blocks until it is w's turn to answer; false if w is dropped.
func (x *exchange) await(w *walk) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for {
		switch {
		case x.over, x.failed != nil && w.number >= x.failedAt:
			return false
		case x.turn == w.number:
			w.track = x.bill.BytesOut > trackBytes
			return true
		}
		turn := &x.turns[w.number%WindowMax]
		if *turn == nil {
			*turn = make(chan struct{}, 1)
		}
		c := *turn
		x.mu.Unlock()
		<-c
		x.mu.Lock()
	}
}

// sends notes that w is about to be in SendMsg and no longer changes by
// itself; false if the call is over.
func (x *exchange) sends(w *walk) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		return false
	}
	x.sender = w
	return true
}

// answered books a batch whose answer has been sent, and passes the turn on; of
// a part that is not the last it books the part alone. False if the call was over.
func (x *exchange) answered(w *walk, last bool) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sender = nil
	if x.over { // it was booked as waiting
		return false
	}
	now := clock.Now()
	x.came.Store(now)
	w.addWaiting(now)
	x.bill.BytesOut += w.sentBytes
	x.count(w, last)
	if !last {
		x.bookPart(w)
		return true
	}
	w.answered = true
	x.book(w)
	x.bill.Rows += w.batch.Rows
	x.bill.RowsFailed += w.rowsFailed() // only of rows that were answered
	x.turn++
	x.ledger.Settle(x.horizon())
	wake(x.turns[x.turn%WindowMax])
	wake(x.room)
	x.check()
	return true
}

// horizon is the earliest instant that a batch still to be booked can have
// come from. Called with mu held.
func (x *exchange) horizon() int64 {
	if x.turn < x.next || x.arrived {
		return x.from[x.turn%WindowMax]
	}
	return clock.Now()
}

// waitForRoom blocks until one more batch may be in flight; false if no
// further batch is wanted.
func (x *exchange) waitForRoom() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for x.next-x.turn >= x.window() && !x.over && x.failed == nil {
		if x.room == nil {
			x.room = make(chan struct{}, 1)
		}
		c := x.room
		x.mu.Unlock()
		<-c
		x.mu.Lock()
	}
	return !x.over && x.failed == nil
}

// window is how many batches of the stream may be in flight. Those of a table
// function run one after the other: while the client is in no hurry to read the
// parts of one, a later one would hold a worker, perhaps the only one, and wait
// for its turn. More than the function's own concurrency would only have a
// stream wait for itself, and be refused for that. Called with mu held.
func (x *exchange) window() int64 {
	most := x.server.config.Window
	if x.route == nil {
		return int64(most)
	}
	f := x.route.function
	if f.Table {
		return 1
	}
	if f.Concurrency > 0 {
		most = min(most, f.Concurrency)
	}
	return int64(most)
}

// arrive stamps a message that may be the next batch: with now, or with when
// it came if its stream has worked on it since.
func (x *exchange) arrive(came int64) int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := clock.Now()
	from := cmp.Or(came, now)
	x.from[x.next%WindowMax] = from
	x.arrived = true
	x.ahead = x.ahead || x.unanswered() > 0
	x.came.Store(now)
	return from
}

// discarded notes that a client writes on after its call has failed.
func (x *exchange) discarded() {
	x.mu.Lock()
	x.ahead = true
	x.mu.Unlock()
	x.came.Store(clock.Now())
}

// unanswered is how many batches are in flight, but for the one whose answer is
// just being sent: its client may have it already. Called with mu held.
func (x *exchange) unanswered() int64 {
	n := x.next - x.turn
	if x.sender != nil {
		n--
	}
	return n
}

// depart says that the message was no batch.
func (x *exchange) depart() {
	x.mu.Lock()
	x.arrived = false
	x.mu.Unlock()
}

// begin gives the batch that arrived its number; false if it is not wanted.
func (x *exchange) begin(w *walk) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.arrived = false
	if x.over || x.failed != nil {
		return false
	}
	w.number = x.next
	x.next++
	x.bill.Batches++
	x.bill.BytesIn += w.held
	return true
}

// endOfMessages notes how RecvMsg ended. An error of ours is what a stream
// that makes its messages itself found wrong with them.
func (x *exchange) endOfMessages(err error) {
	if wrong, ok := errors.AsType[*udfgate.Error](err); ok {
		x.failNext(wrong)
		err = io.EOF
	}
	if !errors.Is(err, io.EOF) {
		x.lost(err)
		return
	}
	if x.route == nil {
		x.failNext(errNoDescriptor())
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.halfClosed = true
	x.check()
}
