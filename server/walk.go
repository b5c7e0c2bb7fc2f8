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
	sentBytes    int64 // as sent
	waiting      int64 // since when its answer, or its error, waits
	held         int64 // of the budget, in flight
	track        bool  // whether a small answer has been sent is of interest
	message      rawMsg
}

// run walks the batch to its end.
func (w *walk) run() {
	defer w.x.server.running.Done()
	defer w.drop()
	defer w.x.catch(w)
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
	w.send(answer)
}

// invoke runs the function over the batch and gives the slot back.
func (w *walk) invoke() (*codec.Answer, *udfgate.Error) {
	x := w.x
	defer w.batch.Release()
	if w.batch.Rows == 0 { // no crossing: there is nothing to run
		return w.shape(codec.EmptyAnswer(x.route.function.Result))
	}
	if !x.server.config.BillOff {
		x.route.series.ChunkRows(w.batch.Rows)
	}
	c := &w.call
	c.ID = x.server.calls.Add(1)
	c.Function = x.route.function
	c.Principal = x.headers.principal
	x.headers.limits(c)
	answer, err := x.route.backend.Invoke(x.ctx, c, w.batch)
	if err != nil {
		return nil, asError(x.ctx, err)
	}
	return w.shape(answer)
}

// shape gives the answer the columns of the call's schema.
func (w *walk) shape(answer *codec.Answer) (*codec.Answer, *udfgate.Error) {
	if !w.x.headers.rejects() {
		answer.ForgetErrors()
		return answer, nil
	}
	from := clock.Now()
	err := answer.JoinErrors(codec.AnswerLimits{BytesMax: w.x.server.config.MessageBytesMax, BytesName: messageBytesName})
	w.addConversion(from, clock.Now())
	if err != nil {
		answer.Release()
		return nil, udfgate.AsError(err)
	}
	return answer, nil
}

// send hands the answer over. It is this batch's turn, so no other SendMsg runs.
func (w *walk) send(answer *codec.Answer) {
	x := w.x
	body := answer.Body.Bytes()
	var room [headerBytesTypical]byte
	header := codec.AppendBatchMessage(room[:0], answer)
	w.sentBytes = int64(len(header) + len(body))

	turn := clock.Now()
	w.addWaiting(turn)
	app := w.reply(turn)
	m := &w.message
	m.out, m.track = &x.out, w.track
	m.prefix = make([]byte, 0, len(header)+len(app)+prefixBytesTypical+min(len(body), inlineBytesMax))
	m.prefix = codec.AppendFlightData(m.prefix, nil, header, app, int64(len(body)))
	if len(body) <= inlineBytesMax {
		m.prefix = append(m.prefix, body...)
	} else {
		m.body, answer.Body = answer.Body, nil // SendMsg has it now
	}
	if r, ok := x.stream.(renderer); ok {
		r.render(m)
	}
	handed := clock.Now()
	w.addConversion(turn, handed)
	w.waiting = handed
	if !x.sends(w) {
		m.release()
		return
	}
	x.sending.Store(handed)
	err := x.stream.SendMsg(m)
	x.sending.Store(0)
	if err != nil {
		x.lost(err)
		return
	}
	x.answered(w)
}

// Sizes that save growing: a header of two or three buffers, and the tags and
// lengths around header, app_metadata and body.
const (
	headerBytesTypical = 192
	prefixBytesTypical = 32
)

// reply is the app_metadata of the answer: the request's own, or the batch's
// bill with the request's own inside.
func (w *walk) reply(now int64) []byte {
	if !w.x.headers.billPerBatch {
		return w.app
	}
	out := make([]byte, 0, udfgate.BillTrailerBytesMax+base64.StdEncoding.EncodedLen(len(w.app)))
	out = append(out, `{"bill":`...)
	out = w.x.batchBill(w, now).AppendJSON(out)
	if w.app != nil {
		out = append(out, `,"app":"`...)
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
