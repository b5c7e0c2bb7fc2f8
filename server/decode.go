package server

import (
	"bytes"
	"fmt"
	"time"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/codec"
	"github.com/udfgate/udfgate/internal/clock"
)

// admitUnpacked has the bytes of a packed body granted before it is unpacked.
func (x *exchange) admitUnpacked() error {
	in, config := x.in, &x.server.config
	if in.header.Compression == codec.CompressionNone {
		return nil
	}
	more, err := in.decoder.UnpackedBytes(&in.data, &in.header, in.pieces)
	if err != nil {
		return err
	}
	if granted, _ := x.server.budget.settle(0, more, config.QueueTimeout, x.finished, x.ctx.Done()); !granted {
		return x.server.inflightFull(x.ctx, fmt.Sprintf("for a body of %d bytes unpacked", more))
	}
	in.held += more
	return nil
}

// addDictionary takes a dictionary; it stays in the budget until the stream ends.
func (x *exchange) addDictionary() error {
	in := x.in
	err := in.decoder.AddDictionary(&in.data, &in.header, in.pieces, &in.known)
	in.knownHeld = x.server.budget.resize(in.knownHeld, in.known.Bytes())
	return err
}

// decode copies the batch of a message into a slot.
func (x *exchange) decode() (*walk, error) {
	in := x.in
	batch, err := x.decodeInRoom()
	if err != nil {
		return nil, err
	}
	in.batch = batch
	w := &walk{x: x, batch: batch, messageBytes: in.bytes, held: in.held}
	if len(in.data.AppMetadata) > 0 {
		w.app = bytes.Clone(in.data.AppMetadata) // it lies in buffers that are freed
	}
	from := in.at
	w.call.Timeline.From, w.call.Timeline.Off = from, x.server.config.BillOff
	if in.admitted > 0 {
		w.addConversion(from, in.asked)
		w.call.Timeline.Add(udfgate.StateQueue, in.asked, in.admitted)
		from = in.admitted
	}
	w.addConversion(from, clock.Now())
	return w, nil
}

// decodeInRoom waits for room among the slots, at most as long as for the
// budget. That has let the message in, but slots are a little larger than
// messages, lie in pieces, and hold rendered text as well.
func (x *exchange) decodeInRoom() (*codec.Batch, error) {
	in, slots := x.in, x.route.backend.Slots()
	batch, err := in.decoder.Decode(&in.data, &in.header, in.pieces, &in.known, slots)
	if !slotsFull(err) {
		return batch, err
	}
	if in.admitted == 0 {
		in.asked = clock.Now()
	}
	timer := time.NewTimer(x.server.config.QueueTimeout)
	defer timer.Stop()
	for {
		freed := slots.Freed()
		in.admitted = clock.Now()
		if err := codec.ReadMessage(in.data.Header, &in.header); err != nil { // anew: unpacking moves the buffers
			return nil, err
		}
		batch, err = in.decoder.Decode(&in.data, &in.header, in.pieces, &in.known, slots)
		if !slotsFull(err) {
			return batch, err
		}
		select {
		case <-freed:
		case <-timer.C:
			return nil, err
		case <-x.finished:
			return nil, err
		case <-x.ctx.Done():
			return nil, ended(x.ctx)
		}
	}
}

// slotsFull says whether a slot that comes back may help.
func slotsFull(err error) bool {
	if err == nil {
		return false
	}
	e := udfgate.AsError(err)
	return e.Reason == udfgate.QueueFull && e.Retryable
}
