package pool

import (
	"encoding/binary"
	"iter"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/codec"
)

// Private arenas: where memory cannot be shared, gateway and worker each have
// a copy of every arena, and DATA frames carry over what the other side is to
// see. This is all that differs from shared ones.

const (
	// dataHeadBytes precede the bytes of a DATA frame: arena and offset.
	dataHeadBytes = 16
	// dataPieceBytes is how much is written at once, and the longest DATA frame
	// of ours: small enough for the buffers of an idle link to hold.
	dataPieceBytes = 32 << 10
	// dataBytesMin is the least of a longer range that is worth a frame.
	dataBytesMin = 512
)

// sharedArenas and privateArenas are what HELLO calls them.
const (
	sharedArenas  = "shared"
	privateArenas = "private"
)

// checkArenas refuses a worker that does not take the arenas of this pool.
func (p *Pool) checkArenas(h *hello) error {
	want := sharedArenas
	if p.config.PrivateArenas {
		want = privateArenas
	}
	if h.takes(want) {
		return nil
	}
	return broken("HELLO: arenas %q lack %s, the only ones that this gateway has", h.Arenas, want)
}

// dataRange is bytes of an input arena that a worker is to have.
type dataRange struct {
	arena  uint32
	offset int64 // from the start of the arena
	bytes  []byte
}

// data are the ranges that the rows of the chunk use, in the order of the CALL.
func (c *chunk) data() iter.Seq[dataRange] {
	return func(yield func(dataRange) bool) {
		for i := range c.segments {
			s := &c.segments[i]
			for j := range s.columns {
				for k := range s.columns[j].buffers {
					if r := s.used(j, k); len(r.bytes) > 0 && !yield(r) {
						return
					}
				}
			}
		}
	}
}

// used is what the rows of the segment use of buffer k of column j.
func (s *segment) used(j, k int) dataRange {
	col, slot := &s.columns[j], s.batch.Slot
	if col.form == codec.FormMarshal { // rendered for these rows alone
		slot = s.rendered
	}
	r := codec.Range{Off: col.buffers[k].Offset - slot.Offset(), Len: col.buffers[k].Length}
	if r.Len == 0 {
		return dataRange{}
	}
	if col.form == codec.FormArrow {
		r = usedRange(&s.batch.Columns[j], slot.Bytes(), k, r, s.lo, s.hi)
	}
	return dataRange{col.arena, slot.Offset() + r.Off, slot.Room()[r.Off:r.End()]}
}

// usedRange is the part of buffer k of a column in arrow form that holds rows
// [lo, hi). A batch that goes to a worker in many chunks is so sent once.
func usedRange(bc *codec.Column, body []byte, k int, r codec.Range, lo, hi int64) codec.Range {
	from, to := lo/8, (hi+7)/8 // of validity and bools
	switch {
	case bc.Type.Kind.Nested(), bc.Type.Kind.Width() == 0 && !bc.Type.Kind.Variable() && bc.Type.Kind != udfgate.Bool, is64(bc.Type.Kind):
		return r // which part of what lies below is used takes longer to find out
	case k == 0 || bc.Type.Kind == udfgate.Bool:
	case bc.Type.Kind.Variable() && k == 1:
		from, to = lo*4, (hi+1)*4
	case bc.Type.Kind.Variable():
		end := func(row int64) int64 {
			return int64(binary.LittleEndian.Uint32(body[bc.Offsets.Off+4*row:]))
		}
		from, to = end(lo), end(hi)
	default:
		width := int64(bc.Type.Kind.Width())
		from, to = lo*width, hi*width
	}
	to = min(to, r.Len)
	return codec.Range{Off: r.Off + from, Len: to - from}
}

// is64 reports whether a kind has offsets of 64 bits.
func is64(k udfgate.Kind) bool { return k == udfgate.LargeUtf8 || k == udfgate.LargeBinary }

// appendData appends a DATA frame.
func appendData(dst []byte, call uint64, arena uint32, offset int64, b []byte) []byte {
	dst = appendHeader(dst, frameData, call, dataHeadBytes+len(b))
	dst = binary.LittleEndian.AppendUint32(dst, arena)
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(offset))
	return append(dst, b...)
}

// sendData writes the bytes that the CALL of the crossing names, and leaves the
// last of them in the link's buffer, to be written with the CALL.
func (x *crossing) sendData() error {
	out := x.w.link.out[:0]
	for r := range x.chunk.data() {
		for len(r.bytes) > 0 {
			room := dataPieceBytes - len(out) - headerBytes - dataHeadBytes
			if room < min(len(r.bytes), dataBytesMin) {
				x.callAt = len(out) // no byte of these is the CALL's
				if err := x.write(out); err != nil {
					return err
				}
				out = out[:0]
				continue
			}
			n := min(len(r.bytes), room)
			out = appendData(out, x.call.ID, r.arena, r.offset, r.bytes[:n])
			r.offset, r.bytes = r.offset+int64(n), r.bytes[n:]
		}
	}
	x.w.link.out, x.callAt = out, len(out)
	return nil
}

// takeData copies a DATA frame into the gateway's copy of the output arena.
func (x *crossing) takeData(payload []byte) error {
	if !x.w.out.Private() {
		return broken("DATA of a shared arena")
	}
	return receiveData(payload, x.w.out.Bytes(), x.out)
}

// receiveData copies the bytes of a DATA frame into an arena, if they lie in
// the part of it that the answer may use.
func receiveData(payload, arena []byte, out outRange) error {
	if len(payload) < dataHeadBytes {
		return broken("DATA of %d bytes, wanted at least %d", len(payload), dataHeadBytes)
	}
	id, offset := binary.LittleEndian.Uint32(payload), binary.LittleEndian.Uint64(payload[8:])
	b := payload[dataHeadBytes:]
	base, end := uint64(out.base), uint64(out.base+out.limit)
	switch {
	case id != out.arena:
		return broken("DATA of arena %d, wanted %d", id, out.arena)
	case offset < base || offset > end || uint64(len(b)) > end-offset:
		return broken("DATA of %d bytes at %d lies outside the answer's room, %d to %d", len(b), offset, base, end)
	}
	copy(arena[offset:], b)
	return nil
}
