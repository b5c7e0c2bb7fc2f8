package server

import (
	"bytes"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/codec"
	"github.com/udfgate/udfgate/internal/clock"
)

// reserveBytesMax is the most that a stream reserves while it waits for a
// message; what it has learned from the messages so far may be less.
const reserveBytesMax = 64 << 10

// The flags that the errors of this room quote.
const (
	messageBytesName  = "--max-message-bytes"
	batchRowsName     = "--max-batch-rows"
	inflightBytesName = "--max-inflight-bytes"
	queueTimeoutName  = "--queue-timeout"
)

// incoming is what the receiver of a stream knows. Nobody else touches it.
type incoming struct {
	descriptor []byte // of the first message that had one
	schema     bool   // the schema has come
	peak       int64  // of message sizes, slowly forgotten

	pieces [][]byte
	data   codec.FlightData
	header codec.Message
}

// receive reads the stream to its end. What comes once the call has failed is
// thrown away, so that a client that is still writing gets to its status.
func (x *exchange) receive() {
	defer x.server.running.Done()
	defer close(x.received)
	defer x.catch(nil)
	for x.waitForRoom() {
		if !x.receiveOne() {
			return
		}
	}
	for {
		var m rawMsg
		if err := x.stream.RecvMsg(&m); err != nil {
			x.ended(err)
			return
		}
		m.free()
	}
}

// catch ends the call INTERNAL if its goroutine panicked.
func (x *exchange) catch(w *walk) {
	p := recover()
	if p == nil {
		return
	}
	at, batch := int64(0), noBatch
	if w != nil {
		at, batch = w.number, w.number
	}
	x.fail(at, x.server.recovered(p), batch, nil)
}

// recovered logs a panic and returns what the caller is told of it.
func (s *Server) recovered(p any) *udfgate.Error {
	err := udfgate.Errorf(udfgate.Internal, "the gateway panicked: %s", cut(fmt.Sprint(p), nameBytesMax))
	s.logger.Error("recovered from a panic", slog.String("panic", err.Message), slog.String("stack", string(debug.Stack())))
	return err
}

// receiveOne reserves bytes, receives a message and sees to it; false if no
// more will come.
func (x *exchange) receiveOne() bool {
	w := &walk{x: x}
	walks := false
	defer func() { // also when something panics: bytes must not get lost
		if !walks {
			w.drop()
		}
	}()
	if err := x.reserve(w); err != nil {
		x.failNext(err)
		return true
	}
	var m rawMsg
	if err := x.stream.RecvMsg(&m); err != nil {
		x.ended(err)
		return false
	}
	defer m.free()
	w.call.Timeline.From = x.arrive()
	w.messageBytes = int64(m.data.Len())
	x.in.learn(w.messageBytes)
	if err := x.admit(w); err != nil {
		x.failNext(err)
		return true
	}
	batch, err := x.take(&m, w)
	switch {
	case err != nil:
		x.failNext(udfgate.AsError(err))
	case !batch:
		x.depart()
	case x.begin(w):
		walks = true
		x.server.running.Add(1)
		go w.run()
	}
	return true
}

// failNext fails the call at the batch that would come next.
func (x *exchange) failNext(err *udfgate.Error) {
	batch := noBatch
	if x.in.schema {
		batch = x.next // only the receiver changes it
	}
	x.fail(x.next, err, batch, nil)
}

// reservation is what the next message will probably need, within
// reserveBytesMax. A peak that decays by a 64th per message lies above the 99th
// percentile of sizes that vary little, and costs nothing to keep.
func (in *incoming) reservation() int64 {
	if in.peak == 0 {
		return reserveBytesMax
	}
	return min(in.peak, reserveBytesMax)
}

func (in *incoming) learn(size int64) {
	in.peak = max(size, in.peak-in.peak/64)
}

// reserve takes the bytes for a message before grpc may buffer it.
func (x *exchange) reserve(w *walk) *udfgate.Error {
	n := x.in.reservation()
	if !x.server.budget.reserve(n, x.server.config.QueueTimeout, x.finished, x.ctx.Done()) {
		return x.inflightFull("for the next message")
	}
	w.reserved = n
	return nil
}

// admit checks the size of a message and turns the reservation into it.
func (x *exchange) admit(w *walk) *udfgate.Error {
	config := &x.server.config
	size := w.messageBytes
	limit, name := config.MessageBytesMax, messageBytesName
	if config.InflightBytesMax < limit {
		limit, name = config.InflightBytesMax, inflightBytesName
	}
	if size > limit {
		return udfgate.Invalidf(udfgate.ShapeTooLarge, "message of %d bytes is over %s %d; send smaller batches", size, name, limit)
	}
	reserved := w.reserved
	w.reserved = 0 // it is gone whether settling succeeds or not
	granted, waited := x.server.budget.settle(reserved, size, config.QueueTimeout, x.finished, x.ctx.Done())
	if !granted {
		return x.inflightFull(fmt.Sprintf("for a message of %d bytes", size))
	}
	if waited {
		w.admitted = clock.Now()
	}
	w.held = size
	return nil
}

func (x *exchange) inflightFull(what string) *udfgate.Error {
	config := &x.server.config
	err := udfgate.Errorf(udfgate.QueueFull, "no room %s within %s %s: %s %d is in use",
		what, queueTimeoutName, config.QueueTimeout, inflightBytesName, config.InflightBytesMax)
	err.Retryable = true
	return err
}

// take looks into a message: a batch is decoded into w; a descriptor or schema
// is dealt with at once; metadata alone is legal and of no use to a function.
func (x *exchange) take(m *rawMsg, w *walk) (batch bool, err error) {
	in := &x.in
	in.pieces = in.pieces[:0]
	for _, b := range m.data {
		in.pieces = append(in.pieces, b.ReadOnlyData())
	}
	if err := codec.ParseFlightData(in.pieces, &in.data); err != nil {
		return false, err
	}
	if len(in.data.Descriptor) > 0 {
		if err := x.describeTo(in.data.Descriptor); err != nil {
			return false, err
		}
	}
	if len(in.data.Header) == 0 {
		if in.data.HasBody && in.data.Body.Len > 0 {
			return false, malformed("message with a body of %d bytes and no header", in.data.Body.Len)
		}
		return false, nil
	}
	if x.route == nil {
		return false, malformed("no flight descriptor: wanted one of type PATH, naming the function, in the first message")
	}
	if err := codec.ReadMessage(in.data.Header, &in.header); err != nil {
		return false, err
	}
	switch {
	case in.header.Kind == codec.KindSchema && !in.schema:
		in.schema = true
		return false, x.checkSchema()
	case in.header.Kind == codec.KindSchema:
		return false, malformed("wanted a record batch, got a second schema: a call has one")
	case in.header.Kind != codec.KindRecordBatch:
		return false, malformed("wanted a record batch, got a message of another kind")
	case !in.schema:
		return false, malformed("wanted a schema before the first record batch")
	}
	w.batch, err = x.route.decoder.Decode(&in.data, &in.header, in.pieces, x.route.backend.Slots())
	if err != nil {
		return false, err
	}
	if len(in.data.AppMetadata) > 0 {
		w.app = bytes.Clone(in.data.AppMetadata) // it lies in buffers that are freed
	}
	w.decoded()
	return true, nil
}

func (x *exchange) checkSchema() error {
	schema, err := codec.ReadSchema(x.in.data.Header)
	if err != nil {
		return err
	}
	return codec.CheckArgs(x.route.function, schema)
}

// describeTo takes the descriptor of a message: the first one names the
// function, whose schema is answered at once; further ones must say the same.
func (x *exchange) describeTo(raw []byte) error {
	if x.route != nil && bytes.Equal(raw, x.in.descriptor) {
		return nil
	}
	name, err := pathOf(raw)
	if err != nil {
		return err
	}
	if x.route != nil {
		first, err := pathOf(x.in.descriptor)
		if err == nil && name != first {
			return malformed("flight descriptor: wanted %q as in the first message, got %q", cut(first, nameBytesMax), cut(name, nameBytesMax))
		}
		return err
	}
	route, err := x.server.resolve(name)
	if err != nil {
		return err
	}
	x.in.descriptor = bytes.Clone(raw)
	x.mu.Lock()
	x.route = route
	x.mu.Unlock()
	if err := x.stream.SendMsg(&rawMsg{prefix: route.schema}); err != nil {
		x.lost(err)
	}
	return nil
}

// pathOf reads the function's name from a descriptor.
func pathOf(raw []byte) (string, error) {
	d, err := codec.ParseDescriptor(raw)
	if err != nil {
		return "", err
	}
	return functionName(d.Type, d.Path)
}

// functionName is the name in a descriptor of type PATH with one element.
func functionName(kind int32, path []string) (string, error) {
	const typePath, typeCmd = 1, 2
	switch {
	case kind == typeCmd:
		return "", malformed("flight descriptor: wanted type PATH, got CMD")
	case kind != typePath:
		return "", malformed("flight descriptor: wanted type PATH (1), got %d", kind)
	case len(path) != 1:
		return "", malformed("flight descriptor: wanted a path of one element, the function's name, got %d elements", len(path))
	}
	return path[0], nil
}

func malformed(format string, args ...any) *udfgate.Error {
	return udfgate.Invalidf(udfgate.ShapeMalformed, format, args...)
}
