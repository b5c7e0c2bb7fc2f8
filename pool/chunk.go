package pool

import (
	"encoding/binary"
	"slices"
	"sync"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/codec"
	"github.com/udfgate/udfgate/internal/clock"
)

// chunk is what crosses to a worker at once: segments of slots, described. It
// owns what it rendered, and nothing else; the bytes of batches stay where
// they are, so the same chunk can go to another worker as it is.
type chunk struct {
	function   *udfgate.Function
	blockRows  int
	keepsGoing bool // after a failed row
	unmeasured bool // nobody wants to know what the body costs
	segments   []segment
}

// segment is rows [lo, hi) of one batch.
type segment struct {
	batch    *codec.Batch
	lo, hi   int64
	columns  []column
	ranges   []codec.Range // room to list the buffers of a column
	rendered *codec.Slot   // value forms that are not the batch's own; may be nil
}

// column is one column of a segment's batch as CALL describes it. Offsets
// count from the start of the arena.
type column struct {
	form    uint16
	arena   uint32
	nulls   int64
	buffers []codec.Buffer
}

func (c *column) add(slot *codec.Slot, r codec.Range) {
	if r.Len == 0 {
		r.Off = 0 // an absent buffer lies nowhere
	}
	c.buffers = append(c.buffers, codec.Buffer{Offset: slot.Offset() + r.Off, Length: r.Len})
}

var chunks = sync.Pool{New: func() any { return &chunk{} }}

// checkBatchRowsMax refuses a batch that the body does not take, and that nobody
// cuts.
func checkBatchRowsMax(f *udfgate.Function, rows int64) error {
	if f.BatchRowsMax == 0 || rows <= f.BatchRowsMax || f.Elementwise || f.Mode == udfgate.ModeRow {
		return nil
	}
	return udfgate.Invalidf(udfgate.ShapeTooLarge, "batch of %d rows is over max_batch_rows %d; declare elementwise=True to have it cut, or send smaller batches",
		rows, f.BatchRowsMax)
}

// newChunk describes the whole of a batch as one segment, renders text in the
// form that the pool's workers read fastest, and books that on the call. Where
// the slots have no room for that it crosses as it lies: the room is owed to
// batches, and who holds one must not wait for another.
func (p *Pool) newChunk(call *udfgate.Call, in *codec.Batch) (*chunk, error) {
	c, ok := chunks.Get().(*chunk)
	if !ok {
		c = &chunk{}
	}
	c.function, c.blockRows = call.Function, codec.BlockRows(in)
	c.keepsGoing, c.unmeasured = call.OnError.KeepsGoing(), call.Timeline.Off
	if c.segments == nil {
		c.segments = make([]segment, 1)
	}
	s := &c.segments[0]
	s.batch, s.lo, s.hi, s.rendered = in, 0, in.Rows, nil
	s.columns = s.columns[:0]
	var size int64
	if p.firstHello.marshal() && !call.Function.Mode.Vector() {
		size = s.renderedBytes()
	}
	from := clock.Now()
	if m := call.Function.Mode; m != udfgate.ModeArrow && m != udfgate.ModePolars { // which have no dicts
		if err := codec.CheckMaps(in); err != nil {
			c.release()
			return nil, err
		}
	}
	if size == 0 {
		s.describe(c.blockRows)
		return c, nil
	}
	err := p.admit()
	if err == nil {
		if s.rendered, err = p.slots.Get(size); err != nil && udfgate.AsError(err).Reason == udfgate.QueueFull && s.plainText() {
			err = nil
		}
	}
	if err != nil {
		c.release()
		return nil, err
	}
	s.describe(c.blockRows)
	bookGateway(call, from, clock.Now())
	return c, nil
}

// bookGateway books a conversion of the gateway's own.
func bookGateway(call *udfgate.Call, from, to int64) {
	call.Timeline.Add(udfgate.StateConversionGateway, from, to)
	call.Work.ConversionGatewayNS += to - from
}

// release gives back what was rendered. Whoever may still read it has retained
// it (pin).
func (c *chunk) release() {
	for i := range c.segments {
		s := &c.segments[i]
		if s.rendered != nil {
			s.rendered.Release()
		}
		s.batch, s.rendered = nil, nil
	}
	c.function = nil
	chunks.Put(c)
}

// pin retains every slot of the chunk and appends it to pins.
func (c *chunk) pin(pins []*codec.Slot) []*codec.Slot {
	for i := range c.segments {
		for _, slot := range []*codec.Slot{c.segments[i].batch.Slot, c.segments[i].rendered} {
			if slot != nil {
				slot.Retain()
				pins = append(pins, slot)
			}
		}
	}
	return pins
}

// slotBytes is what the chunk holds in slots, the batches included.
func (c *chunk) slotBytes() int64 {
	var n int64
	for i := range c.segments {
		for _, slot := range [...]*codec.Slot{c.segments[i].batch.Slot, c.segments[i].rendered} {
			if slot != nil {
				n += int64(len(slot.Bytes()))
			}
		}
	}
	return n
}

// describe fills the columns of a segment, and renders those that workers read
// in marshal form into the slot that there is for it, if there is one.
func (s *segment) describe(blockRows int) {
	at := int64(0) // within the rendered slot
	for i := range s.batch.Columns {
		bc, col := &s.batch.Columns[i], s.nextColumn()
		if s.rendered == nil || !codec.Rendered(bc.Type) {
			s.arrow(col, bc)
			continue
		}
		col.form, col.arena, col.nulls = codec.FormMarshal, s.rendered.Arena(), bc.Nulls
		index, data := codec.Render(s.rendered.Room()[at:], s.batch, i, s.lo, s.hi, blockRows)
		index.Off += at
		data.Off += at
		col.add(s.rendered, index)
		col.add(s.rendered, data)
		at = alignUp(data.End())
	}
}

// nextColumn adds a column and keeps the room that an earlier chunk's had.
func (s *segment) nextColumn() *column {
	n := len(s.columns)
	s.columns = slices.Grow(s.columns, 1)[:n+1]
	col := &s.columns[n]
	col.buffers = col.buffers[:0]
	return col
}

// renderedBytes is the most that the text of the segment takes once rendered,
// 0 if it has none.
func (s *segment) renderedBytes() int64 {
	var size int64
	for i := range s.batch.Columns {
		if codec.Rendered(s.batch.Columns[i].Type) {
			size += alignUp(codec.RenderSize(s.batch, i, s.lo, s.hi))
		}
	}
	return size
}

// plainText reports whether the columns to render are text and binary, which
// workers of row and list functions also read in Arrow form.
func (s *segment) plainText() bool {
	for i := range s.batch.Columns {
		if t := s.batch.Columns[i].Type; codec.Rendered(t) && t.Kind != udfgate.Utf8 && t.Kind != udfgate.Binary {
			return false
		}
	}
	return true
}

// alignUp is the next start of a rendered column: an index is u64.
func alignUp(n int64) int64 { return (n + 63) &^ 63 }

// arrow describes a column as it lies in the batch's slot.
func (s *segment) arrow(col *column, bc *codec.Column) {
	col.form, col.arena, col.nulls = codec.FormArrow, s.batch.Slot.Arena(), bc.Nulls
	s.ranges = bc.AppendBuffers(s.ranges[:0])
	for _, r := range s.ranges {
		col.add(s.batch.Slot, r)
	}
}

// outRange is where a worker puts its answer.
type outRange struct {
	arena       uint32
	base, limit int64
}

// appendCall appends the whole CALL frame.
func (c *chunk) appendCall(dst []byte, id uint64, remaining int64, out outRange) []byte {
	le := binary.LittleEndian
	start := len(dst)
	dst = appendHeader(dst, frameCall, id, 0)
	dst = le.AppendUint32(dst, c.function.Number)
	dst = le.AppendUint32(dst, c.function.Generation)
	dst = le.AppendUint64(dst, uint64(remaining))
	dst = le.AppendUint32(dst, out.arena)
	dst = le.AppendUint32(dst, uint32(c.blockRows))
	dst = le.AppendUint64(dst, uint64(out.base))
	dst = le.AppendUint64(dst, uint64(out.limit))
	dst = le.AppendUint16(dst, uint16(len(c.segments)))
	dst = le.AppendUint16(dst, c.flags())
	dst = le.AppendUint32(dst, 0)
	for i := range c.segments {
		dst = c.segments[i].append(dst)
	}
	le.PutUint32(dst[start:], uint32(len(dst)-start-headerBytes))
	return dst
}

const (
	// callMeasureCPU asks for body_cpu, callKeepGoing for the rows after a
	// failed one.
	callMeasureCPU = 1
	callKeepGoing  = 2
	// measureRowsMin is where asking begins: reading the clock of a thread costs
	// a worker half a microsecond, much beside the body of a few rows.
	measureRowsMin = 256
)

func (c *chunk) flags() (flags uint16) {
	if c.keepsGoing {
		flags |= callKeepGoing
	}
	var rows int64
	for i := range c.segments {
		rows += c.segments[i].hi - c.segments[i].lo
	}
	if rows >= measureRowsMin && !c.unmeasured {
		flags |= callMeasureCPU
	}
	return flags
}

func (s *segment) append(dst []byte) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint64(dst, uint64(s.batch.Rows))
	dst = le.AppendUint64(dst, uint64(s.lo))
	dst = le.AppendUint64(dst, uint64(s.hi))
	dst = le.AppendUint64(dst, 0) // no selection
	dst = le.AppendUint64(dst, 0)
	dst = le.AppendUint16(dst, uint16(len(s.columns)))
	dst = append(dst, 0, 0, 0, 0, 0, 0)
	for i := range s.columns {
		col := &s.columns[i]
		dst = le.AppendUint16(dst, col.form)
		dst = le.AppendUint16(dst, uint16(len(col.buffers)))
		dst = le.AppendUint32(dst, col.arena)
		dst = le.AppendUint64(dst, uint64(col.nulls))
		for _, b := range col.buffers {
			dst = le.AppendUint64(dst, uint64(b.Offset))
			dst = le.AppendUint64(dst, uint64(b.Length))
		}
	}
	return dst
}
