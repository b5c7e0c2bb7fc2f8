package server

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/codec"
	"github.com/udfgate/udfgate/internal/clock"
)

// reserveBytesMax is the most that a stream reserves while it waits for a
// message; what it has learned from the messages so far may be less. Of a small
// budget it is never more than a share, so that reservations alone do not fill
// it.
const (
	reserveBytesMax   = 64 << 10
	reserveShareOfAll = 16
)

// The flags that the errors of this room quote.
const (
	messageBytesName  = "--max-message-bytes"
	batchRowsName     = "--max-batch-rows"
	inflightBytesName = "--max-inflight-bytes"
	queueTimeoutName  = "--queue-timeout"
	connectionsName   = "--max-connections"
	openStreamsName   = "--max-streams"
)

// incoming is what the receiver of a stream knows. Nobody else touches it.
type incoming struct {
	descriptor string             // the name in the first one that came
	decoder    *codec.Decoder     // of the schema, once it has come
	known      codec.Dictionaries // of the stream
	knownHeld  int64              // of the budget, for them
	peak       int64              // of message sizes, slowly forgotten

	message rawMsg
	arrival
	batch *codec.Batch // of the message, until it walks

	pieces [][]byte
	data   codec.FlightData
	header codec.Message
}

// arrival is what a message brings to its walk.
type arrival struct {
	at       int64 // when it came
	bytes    int64
	asked    int64 // when its bytes were asked for
	admitted int64 // when they were granted, if they had to be waited for
	reserved int64 // of the budget, for a message to come
	held     int64 // of the budget, in flight
}

// incomings are kept for the room that their slices have.
var incomings = sync.Pool{New: func() any { return new(incoming) }}

// Bounds of what is kept of an incoming: a hostile sender can cut a message
// into a piece per byte.
const (
	piecesKeptMax  = 1024
	columnsKeptMax = 1024
)

// recycle forgets all but the slices.
func (in *incoming) recycle() {
	if cap(in.pieces) > piecesKeptMax || cap(in.header.Nodes) > columnsKeptMax || cap(in.header.Buffers) > columnsKeptMax {
		return
	}
	clear(in.pieces[:cap(in.pieces)])
	*in = incoming{pieces: in.pieces[:0], header: codec.Message{Nodes: in.header.Nodes[:0], Buffers: in.header.Buffers[:0]}}
	incomings.Put(in)
}

// run receives: it reads the stream to its end. What comes once the call has
// failed is thrown away, so that a client that is still writing gets to its
// status.
func (x *exchange) run() {
	defer x.server.running.Done()
	defer x.endReceiving()
	defer x.catch(nil)
	x.in, _ = incomings.Get().(*incoming)
	defer x.in.recycle()
	defer func() { x.server.budget.release(x.in.knownHeld) }()
	for x.waitForRoom() {
		if !x.receiveOne() {
			return
		}
	}
	for x.discardOne() {
	}
}

// discardOne receives a message and throws it away; false if no more will come
// or if there is no room: the client then waits in its writing until its status
// breaks it off, which is better than memory that nobody counts. A message that
// is larger than the reservation is over it for a moment, one per stream.
func (x *exchange) discardOne() bool {
	x.in.arrival = arrival{}
	defer x.giveBack()
	if x.reserve() != nil {
		return false
	}
	if err := x.stream.RecvMsg(&x.in.message); err != nil {
		x.endOfMessages(err)
		return false
	}
	x.discarded()
	return true
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
	in := x.in
	in.arrival = arrival{}
	defer x.giveBack() // also when something panics: bytes must not get lost
	if err := x.reserve(); err != nil {
		x.failNext(err)
		return true
	}
	if err := x.stream.RecvMsg(&in.message); err != nil {
		x.endOfMessages(err)
		return false
	}
	in.at = x.arrive(in.message.came)
	in.bytes = int64(in.message.data.Len())
	in.peak = max(in.bytes, in.peak-in.peak/64) // see reservation
	if err := x.admit(); err != nil {
		x.failNext(err)
		return true
	}
	w, err := x.take()
	switch {
	case err != nil:
		x.failNext(udfgate.AsError(err))
	case w == nil:
		x.depart()
	case x.begin(w):
		in.batch, in.held = nil, 0 // they are the walk's now
		x.server.running.Add(1)
		x.server.crew.start(w)
	}
	return true
}

// giveBack returns what a message held and no walk has taken over.
func (x *exchange) giveBack() {
	in, budget := x.in, x.server.budget
	in.message.free()
	if in.batch != nil {
		in.batch.Release()
		in.batch = nil
	}
	if in.reserved > 0 {
		budget.unreserve(in.reserved)
	}
	if in.held > 0 {
		budget.release(in.held)
	}
}

// failNext fails the call at the batch that would come next.
func (x *exchange) failNext(err *udfgate.Error) {
	batch := noBatch
	if x.in.decoder != nil {
		batch = x.next // only the receiver changes it
	}
	x.fail(x.next, err, batch, nil)
}

// reservation is what the next message will probably need, within
// reserveBytesMax. A peak that decays by a 64th per message lies above the 99th
// percentile of sizes that vary little, and costs nothing to keep.
func (in *incoming) reservation(budget int64) int64 {
	most := min(reserveBytesMax, budget/reserveShareOfAll)
	if in.peak == 0 {
		return most
	}
	return min(in.peak, most)
}

// reserve takes the bytes for a message before grpc may buffer it.
func (x *exchange) reserve() *udfgate.Error {
	n := x.in.reservation(x.server.config.InflightBytesMax)
	if !x.server.budget.reserve(n, x.server.config.QueueTimeout, x.finished, x.ctx.Done()) {
		return x.server.inflightFull(x.ctx, "for the next message")
	}
	x.in.reserved = n
	return nil
}

// admit checks the size of a message and turns the reservation into it.
func (x *exchange) admit() *udfgate.Error {
	in, config := x.in, &x.server.config
	limit, name := x.server.bytesMax()
	if in.bytes > limit {
		return udfgate.Invalidf(udfgate.ShapeTooLarge, "message of %d bytes is over %s %d; send smaller batches", in.bytes, name, limit)
	}
	reserved := in.reserved
	in.asked = in.at
	if in.message.came > 0 {
		in.asked = clock.Now() // its stream has worked on it until now
	}
	in.reserved = 0 // it is gone whether settling succeeds or not
	granted, waited := x.server.budget.settle(reserved, in.bytes, config.QueueTimeout, x.finished, x.ctx.Done())
	if !granted {
		return x.server.inflightFull(x.ctx, fmt.Sprintf("for a message of %d bytes", in.bytes))
	}
	if waited {
		in.admitted = clock.Now()
	}
	in.held = in.bytes
	return nil
}

// inflightFull says why bytes were not granted.
func (s *Server) inflightFull(ctx context.Context, what string) *udfgate.Error {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	config := &s.config
	err := udfgate.Errorf(udfgate.QueueFull, "no room %s within %s %s: %s %d is in use",
		what, queueTimeoutName, config.QueueTimeout, inflightBytesName, config.InflightBytesMax)
	err.Retryable = true
	return err
}

// take looks into a message: a batch is decoded and gets its walk; a descriptor
// or schema is dealt with at once; metadata alone is legal and of no use here.
func (x *exchange) take() (*walk, error) {
	in := x.in
	in.pieces = in.pieces[:0]
	for _, b := range in.message.data {
		in.pieces = append(in.pieces, b.ReadOnlyData())
	}
	if err := codec.ParseFlightData(in.pieces, &in.data); err != nil {
		return nil, err
	}
	if len(in.data.Descriptor) > 0 {
		if err := x.describeTo(in.data.Descriptor); err != nil {
			return nil, err
		}
	}
	if len(in.data.Header) == 0 {
		if in.data.HasBody && in.data.Body.Len > 0 {
			return nil, malformed("message with a body of %d bytes and no header", in.data.Body.Len)
		}
		return nil, nil
	}
	if x.route == nil {
		return nil, errNoDescriptor()
	}
	if in.decoder == nil {
		if in.decoder = x.route.knownSchema(in.data.Header); in.decoder != nil {
			return nil, nil
		}
	}
	if err := codec.ReadMessage(in.data.Header, &in.header); err != nil {
		return nil, err
	}
	switch {
	case in.header.Kind == codec.KindSchema && in.decoder == nil:
		var err error
		in.decoder, err = x.route.checkSchema(in.data.Header)
		return nil, err
	case in.header.Kind == codec.KindSchema:
		return nil, malformed("wanted a record batch, got a second schema: a call has one")
	case in.header.Kind != codec.KindRecordBatch && in.header.Kind != codec.KindDictionary:
		return nil, malformed("wanted a record batch, got a message of another kind")
	case in.decoder == nil:
		return nil, malformed("wanted a schema before the first record batch")
	}
	if err := x.admitUnpacked(); err != nil {
		return nil, err
	}
	if in.header.Kind == codec.KindDictionary {
		return nil, x.addDictionary()
	}
	return x.decode()
}

// describeTo takes the descriptor of a message: the first one names the
// function, whose schema is answered at once; further ones must say the same.
func (x *exchange) describeTo(raw []byte) error {
	if x.route != nil {
		return x.sameDescriptor(raw)
	}
	name, err := x.server.names.of(raw)
	if err != nil {
		return err
	}
	route, err := x.server.resolve(name)
	if err != nil {
		return err
	}
	x.in.descriptor = name
	x.mu.Lock()
	x.route = route
	x.mu.Unlock()
	x.greeting.whole = route.schema(&x.headers)
	if err := x.stream.SendMsg(&x.greeting); err != nil {
		x.lost(err)
	}
	return nil
}

func (x *exchange) sameDescriptor(raw []byte) error {
	name, err := x.server.names.of(raw)
	if err == nil && name != x.in.descriptor {
		return malformed("flight descriptor: wanted %q as in the first message, got %q",
			cut(x.in.descriptor, nameBytesMax), cut(name, nameBytesMax))
	}
	return err
}

// descriptorNames remembers which descriptors name which functions: the same
// few bytes come with every call, and some clients send them with every message.
type descriptorNames struct {
	mu    sync.RWMutex
	known map[string]string // descriptor as it came → name
}

// Bounds of descriptorNames: a caller can write one name in many ways.
const (
	descriptorsKnownMax     = 1024
	descriptorKnownBytesMax = 256
)

// of reads the function's name from a descriptor.
func (d *descriptorNames) of(raw []byte) (string, error) {
	d.mu.RLock()
	name, ok := d.known[string(raw)]
	d.mu.RUnlock()
	if ok {
		return name, nil
	}
	descriptor, err := codec.ParseDescriptor(raw)
	if err != nil {
		return "", err
	}
	name, err = functionName(descriptor.Type, descriptor.Path)
	if err != nil || len(raw) > descriptorKnownBytesMax {
		return name, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil {
		d.known = map[string]string{}
	}
	if len(d.known) < descriptorsKnownMax {
		d.known[string(raw)] = name
	}
	return name, nil
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

func errNoDescriptor() *udfgate.Error {
	return malformed("no flight descriptor: wanted one of type PATH, naming the function, in the first message")
}

func malformed(format string, args ...any) *udfgate.Error {
	return udfgate.Invalidf(udfgate.ShapeMalformed, format, args...)
}
