package server

import (
	"encoding/base64"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/codec"
	"github.com/udfgate/udfgate/internal/clock"
)

// walk is one batch on its way through the gateway, forward only: decoded by
// the receiver, run by the backend, sent when its turn has come.
type walk struct {
	x      *exchange
	number int64 // within the stream, from 0
	call   udfgate.Call
	batch  *codec.Batch
	app    []byte // app_metadata of the request, nil if there was none

	messageBytes int64 // as received
	sentBytes    int64 // as sent, of the part that goes now
	waiting      int64 // since when its answer, or its error, waits
	held         int64 // of the budget, in flight
	track        bool  // whether a small answer has been sent is of interest
	message      rawMsg

	batchHeld int64 // of held, what the batch itself takes
	partHeld  int64 // of held, what the part that goes now takes
	booked    booked
	counts    map[string]int64 // what its body has counted, of what was handed over
	partBytes int64            // as sent, of the parts before
	answered  bool             // all of it has been handed over
}

// run walks the batch to its end.
func (w *walk) run() {
	defer w.x.server.running.Done()
	defer w.drop()
	defer w.x.catch(w)
	if w.x.route.function.Table {
		w.runTable()
		return
	}
	answer, err := w.invoke()
	w.waiting = clock.Now()
	if err != nil {
		w.x.fail(w.number, err, w.number, w)
		return
	}
	defer answer.Release()
	w.held = w.x.server.budget.resize(w.held, int64(len(answer.Body.Bytes())))
	if !w.x.await(w) {
		return
	}
	if err := w.send(answer, true); err != nil {
		w.x.fail(w.number, err, w.number, w)
	}
}

// invoke runs the function over the batch and gives the slot back.
func (w *walk) invoke() (*codec.Answer, *udfgate.Error) {
	x := w.x
	defer w.batch.Release()
	if w.batch.Rows == 0 { // no crossing: there is nothing to run
		answer := codec.EmptyAnswer(x.route.function.Result)
		return answer, w.shape(answer)
	}
	answer, err := x.route.backend.Invoke(x.ctx, w.begin(), w.batch)
	if err != nil {
		return nil, asError(x.ctx, err)
	}
	if err := w.shape(answer); err != nil {
		answer.Release()
		return nil, err
	}
	return answer, nil
}

// begin is the call of the batch, ready for the backend.
func (w *walk) begin() *udfgate.Call {
	x, c := w.x, &w.call
	if !x.server.config.BillOff {
		x.route.series.ChunkRows(w.batch.Rows)
	}
	c.ID = x.server.calls.Add(1)
	c.Stream, c.Batch = x.number, w.number
	c.Function = x.route.function
	c.Principal, c.Caller = x.headers.principal, x
	x.headers.limits(c)
	return c
}

// shape gives the answer, or a part of one, the columns of the call's schema.
func (w *walk) shape(answer *codec.Answer) *udfgate.Error {
	if !w.x.headers.rejects() {
		answer.ForgetErrors()
		return nil
	}
	from := clock.Now()
	err := answer.JoinErrors(codec.AnswerLimits{BytesMax: w.x.server.config.MessageBytesMax, BytesName: messageBytesName})
	w.addConversion(from, clock.Now())
	if err != nil {
		return udfgate.AsError(err)
	}
	return nil
}

// send hands an answer, or a part of one, over. It is this batch's turn, so no
// other SendMsg runs. An error is one that the call is to end with; that the
// call has ended meanwhile is none.
func (w *walk) send(answer *codec.Answer, last bool) *udfgate.Error {
	x := w.x
	body := answer.Body.Bytes()
	var room [headerBytesTypical]byte
	header := codec.AppendBatchMessage(room[:0], answer)
	w.sentBytes = int64(len(header) + len(body))

	turn := clock.Now()
	w.addWaiting(turn)
	app := w.reply(turn, last)
	m := &w.message
	if !last { // grpc may read on in each until its last byte is on the connection
		m = new(rawMsg)
	}
	m.out, m.track = &x.out, w.track
	m.prefix = make([]byte, 0, len(header)+len(app)+prefixBytesTypical+min(len(body), inlineBytesMax))
	m.prefix = codec.AppendFlightData(m.prefix, nil, header, app, int64(len(body)))
	if len(body) <= inlineBytesMax {
		m.prefix = append(m.prefix, body...)
	} else {
		m.body, answer.Body = answer.Body, nil // SendMsg has it now
	}
	var wrong error
	if r, ok := x.stream.(renderer); ok {
		wrong = r.render(m)
	}
	w.waiting = clock.Now()
	w.addConversion(turn, w.waiting)
	if wrong != nil {
		m.release()
		return udfgate.AsError(wrong)
	}
	if !x.sends(w) {
		m.release()
		return nil
	}
	if err := w.transmit(m); err != nil {
		x.lost(err)
		return nil
	}
	x.answered(w, last)
	return nil
}

// transmit is SendMsg. The body of a table function waits in here until its
// client has read on, and with it a worker, so there it ends with the call too:
// a client that does not read is given time to find that out. What the part
// takes of the budget goes with it, for as long as SendMsg has it. A renderer
// keeps nobody waiting.
func (w *walk) transmit(m *rawMsg) error {
	x := w.x
	x.sending.Store(w.waiting)
	if _, renders := x.stream.(renderer); renders || !x.route.function.Table {
		return x.transmit(m)
	}
	s := &sending{x: x, m: m, held: w.partHeld, done: make(chan error, 1)}
	w.held, w.partHeld = w.held-w.partHeld, 0
	x.server.running.Add(1)
	x.server.crew.start(s)
	select {
	case err := <-s.done:
		return err
	case <-x.finished:
		return nil
	}
}

func (x *exchange) transmit(m *rawMsg) error {
	err := x.stream.SendMsg(m)
	x.sending.Store(0)
	return err
}

// sending is a SendMsg on a goroutine of its own.
type sending struct {
	x    *exchange
	m    *rawMsg
	held int64 // of the budget, until it is sent
	done chan error
}

func (s *sending) run() {
	defer s.x.server.running.Done()
	defer s.x.catch(nil)
	s.done <- s.transmit()
}

func (s *sending) transmit() error {
	defer s.x.server.budget.release(s.held)
	return s.x.transmit(s.m)
}

// Sizes that save growing: a header of two or three buffers, and the tags and
// lengths around header, app_metadata and body.
const (
	headerBytesTypical = 192
	prefixBytesTypical = 32
)

// reply is the app_metadata of the answer: the request's own, or the batch's
// bill with the request's own inside. Of parts the last has the bill.
func (w *walk) reply(now int64, last bool) []byte {
	switch {
	case !w.x.headers.billPerBatch:
		return w.app
	case !last && w.app == nil:
		return nil
	}
	out := make([]byte, 0, udfgate.BillTrailerBytesMax+base64.StdEncoding.EncodedLen(len(w.app)))
	out = append(out, '{')
	if last {
		out = append(out, `"bill":`...)
		out = w.x.batchBill(w, now).AppendJSON(out)
	}
	if w.app != nil {
		if last {
			out = append(out, ',')
		}
		out = append(out, `"app":"`...)
		out = base64.StdEncoding.AppendEncode(out, w.app)
		out = append(out, '"')
	}
	return append(out, '}')
}

// addConversion books the gateway's own work on the batch or its answer.
func (w *walk) addConversion(from, to int64) {
	w.call.Timeline.Add(udfgate.StateConversionGateway, from, to)
	w.call.Work.ConversionGatewayNS += max(to-from, 0)
}

// addWaiting ends the timeline now: since the work was done, the batch has
// waited for its turn or for its client.
func (w *walk) addWaiting(now int64) {
	w.call.Timeline.Add(udfgate.StateReply, w.waiting, now)
	w.call.Timeline.To = now
}

// drop gives back what the walk still holds.
func (w *walk) drop() {
	w.batch.Release()
	w.x.server.budget.release(w.held)
}
