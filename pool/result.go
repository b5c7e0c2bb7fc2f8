package pool

import (
	"encoding/binary"
	"math"

	"github.com/udfgate/udfgate/codec"
)

// Sizes and bounds of RESULT, as on the protocol page.
const (
	resultBytes        = 88
	resultSegmentBytes = 16
	resultColumnBytes  = 16
	resultBufferBytes  = 16
	resultErrorBytes   = 24
	resultBufferAlign  = 8
	resultColumnsMax   = 3       // of a segment
	resultBuffersMax   = 1 << 14 // of a column and those below it
	errorClassBytesMax = 256
	errorTextBytesMax  = codec.ErrorTextBytesMax
	errorTraceBytesMax = 16 << 10
	resultMore         = 1 // flag: a table function has more to come
)

// Statuses of a result segment.
const (
	statusDone     = 0
	statusFailed   = 1
	statusTooLarge = 2
)

// Kinds of an error in a result.
const (
	errorRaised = 1
	errorMisfit = 2
	errorNoRow  = 3
)

// result is a decoded RESULT. Its slices are reused from one decode to the
// next; the texts of errors alias the frame.
type result struct {
	recv, send           int64 // instants
	decode, body, encode int64 // durations
	bodyCPU, peak        int64
	outArena             uint32
	outBase, outUsed     int64
	more                 bool // a table function has more to come
	segments             []resultSegment
}

type resultSegment struct {
	status  uint8
	rows    int64
	columns int // of statusDone
	// The values; then, of a table, the rows that they came of; last, if rows
	// failed, their texts.
	column, second, third codec.ResultColumn
	errors                []rowError
}

type rowError struct {
	row                int64
	kind               uint16
	class, text, trace []byte
}

// reader takes integers off a payload and remembers whether it ran out.
type reader struct {
	b     []byte
	short bool
}

func (r *reader) bytes(n int) []byte {
	if n > len(r.b) {
		r.short = true
		r.b = nil
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

// decodeFrom reads the payload of a RESULT. The segments are as long as the
// frame says; what they must be for a given CALL is checked by the crossing.
func (r *result) decodeFrom(payload []byte) error {
	if len(payload) < resultBytes {
		return broken("RESULT of %d bytes, wanted at least %d", len(payload), resultBytes)
	}
	if err := r.decodeHead(payload); err != nil {
		return err
	}
	nseg := int(binary.LittleEndian.Uint16(payload[80:]))
	r.more = binary.LittleEndian.Uint16(payload[82:])&resultMore != 0
	in := reader{b: payload[resultBytes:]}
	if nseg*resultSegmentBytes > len(in.b) {
		return broken("RESULT of %d bytes says %d segments", len(payload), nseg)
	}
	if cap(r.segments) < nseg {
		r.segments = append(r.segments[:cap(r.segments)], make([]resultSegment, nseg-cap(r.segments))...)
	}
	r.segments = r.segments[:nseg]
	for i := range r.segments {
		if err := r.segments[i].decodeFrom(&in, i, r.outUsed); err != nil {
			return err
		}
	}
	if len(in.b) > 0 {
		return broken("RESULT has %d bytes too many", len(in.b))
	}
	return nil
}

func (r *result) decodeHead(b []byte) error {
	fields := [...]struct {
		name string
		at   int
		to   *int64
	}{
		{"recv", 0, &r.recv},
		{"send", 8, &r.send},
		{"decode", 16, &r.decode},
		{"body", 24, &r.body},
		{"encode", 32, &r.encode},
		{"body_cpu", 40, &r.bodyCPU},
		{"peak", 48, &r.peak},
		{"out_base", 64, &r.outBase},
		{"out_used", 72, &r.outUsed},
	}
	for _, f := range fields {
		v := binary.LittleEndian.Uint64(b[f.at:])
		// A quarter of the range leaves room for every sum of a few of them.
		if v > math.MaxInt64/4 {
			return broken("RESULT: %s of %d is out of range", f.name, v)
		}
		*f.to = int64(v)
	}
	r.outArena = binary.LittleEndian.Uint32(b[56:])
	return nil
}

func (s *resultSegment) decodeFrom(in *reader, i int, used int64) error {
	b := in.bytes(resultSegmentBytes)
	if in.short {
		return broken("RESULT ends within segment %d", i)
	}
	s.status = b[0]
	s.columns = int(b[1])
	nerr := int(binary.LittleEndian.Uint32(b[4:]))
	rows := binary.LittleEndian.Uint64(b[8:])
	s.errors = s.errors[:0]
	switch {
	case s.status > statusTooLarge:
		return broken("segment %d: unknown status %d", i, s.status)
	case s.status == statusDone && (s.columns < 1 || s.columns > resultColumnsMax):
		return broken("segment %d is done: wanted 1 to %d columns, got %d", i, resultColumnsMax, s.columns)
	case s.status != statusDone && s.columns != 0:
		return broken("segment %d of status %d: wanted no column, got %d", i, s.status, s.columns)
	case s.status == statusFailed && nerr == 0:
		return broken("segment %d failed without an error", i)
	case rows > codec.RowsMax:
		return broken("segment %d: %d rows, the most is %d", i, rows, int64(codec.RowsMax))
	}
	s.rows = int64(rows)
	columns := [...]*codec.ResultColumn{&s.column, &s.second, &s.third}
	for _, c := range columns[:s.columns] {
		if err := s.decodeColumn(c, in, i, used); err != nil {
			return err
		}
	}
	if nerr*resultErrorBytes > len(in.b) {
		return broken("segment %d says %d errors in %d bytes", i, nerr, len(in.b))
	}
	for range nerr {
		if err := s.decodeError(in, i); err != nil {
			return err
		}
	}
	return nil
}

func (s *resultSegment) decodeColumn(c *codec.ResultColumn, in *reader, i int, used int64) error {
	b := in.bytes(resultColumnBytes)
	if in.short {
		return broken("RESULT ends within a column of segment %d", i)
	}
	c.Buffers = c.Buffers[:0]
	c.Form = binary.LittleEndian.Uint16(b)
	nbuf := int(binary.LittleEndian.Uint16(b[2:]))
	c.Blocks = binary.LittleEndian.Uint32(b[4:])
	nulls := binary.LittleEndian.Uint64(b[8:])
	if nbuf > resultBuffersMax {
		return broken("segment %d: %d buffers, the most is %d", i, nbuf, resultBuffersMax)
	}
	if nulls > uint64(s.rows) {
		return broken("segment %d: %d nulls in %d rows", i, nulls, s.rows)
	}
	c.Nulls = int64(nulls)
	for n := range nbuf {
		b := in.bytes(resultBufferBytes)
		if in.short {
			return broken("RESULT ends within buffer %d of segment %d", n, i)
		}
		off, length := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
		if off > uint64(used) || length > uint64(used)-off {
			return broken("segment %d: buffer %d of %d bytes at %d lies outside the %d bytes used", i, n, length, off, used)
		}
		if off%resultBufferAlign != 0 {
			return broken("segment %d: buffer %d at %d is not a multiple of %d", i, n, off, resultBufferAlign)
		}
		c.Buffers = append(c.Buffers, codec.Buffer{Offset: int64(off), Length: int64(length)})
	}
	return nil
}

func (s *resultSegment) decodeError(in *reader, i int) error {
	b := in.bytes(resultErrorBytes)
	if in.short {
		return broken("RESULT ends within an error of segment %d", i)
	}
	e := rowError{kind: binary.LittleEndian.Uint16(b[8:])}
	row := binary.LittleEndian.Uint64(b)
	class := binary.LittleEndian.Uint16(b[10:])
	text := binary.LittleEndian.Uint32(b[12:])
	trace := binary.LittleEndian.Uint32(b[16:])
	switch {
	case e.kind < errorRaised || e.kind > errorNoRow:
		return broken("segment %d: unknown kind %d of error", i, e.kind)
	case class > errorClassBytesMax || text > errorTextBytesMax || trace > errorTraceBytesMax:
		return broken("segment %d: error of %d, %d and %d bytes, the most is %d, %d and %d", i,
			class, text, trace, errorClassBytesMax, errorTextBytesMax, errorTraceBytesMax)
	case row > codec.RowsMax && e.kind != errorNoRow:
		return broken("segment %d: error of row %d, the most is %d", i, row, int64(codec.RowsMax))
	}
	e.row = int64(row & math.MaxInt64)
	e.class, e.text, e.trace = in.bytes(int(class)), in.bytes(int(text)), in.bytes(int(trace))
	if in.short {
		return broken("RESULT ends within the texts of an error of segment %d", i)
	}
	s.errors = append(s.errors, e)
	return nil
}
