package pool

import (
	"fmt"
	"time"
)

// goColumn is a column of a CALL, read: one value per row of the batch.
type goColumn struct {
	valid []bool
	ints  []int64
	texts []string
}

// goRaise is what a body raises.
type goRaise struct {
	kind              uint16
	class, text, more string
}

// goBody is one function. run gives the value of a row: nil, int64, bool or
// string. special replaces the whole answer to a CALL.
type goBody struct {
	name        string
	args        []string
	result      string
	notNull     bool
	elementwise bool // of mode list; of mode row every function is
	onError     string
	timeout     time.Duration
	run         func(args []any) (any, *goRaise)
	list        func(lists [][]any) ([]any, *goRaise)             // instead of run: mode list
	table       func(args []any, yield func(v any) bool) *goRaise // instead of run: a table function
	partRows    int                                               // of a table function; 0: as many as may be
	more        map[string]any                                    // in LOADED
	special     func(w *goWorker, c *goCall) error
}

// goCall is a decoded CALL.
type goCall struct {
	id         uint64
	at         int64 // read
	function   uint32
	outArena   uint32
	base       uint64
	limit      uint64
	flags      uint16
	segments   []goSegment
	body       *goBody
	remaining  uint64
	generation uint32
}

type goSegment struct {
	rows, lo, hi uint64
	columns      []goColumn
}

// goResult is a RESULT about to be written; specials change it before.
type goResult struct {
	recv, send, decode, body, encode uint64
	arena                            uint32
	base, used                       uint64
	segments                         []goResultSegment
	tail                             []byte
	more                             bool // of a table function
}

type goResultSegment struct {
	status uint8
	rows   uint64
	goResultColumn
	index  *goResultColumn // of a part: input rows
	failed *goResultColumn // texts of failed rows; nil: none
	good   goResultColumn  // what a lie may put in the place of the values
	errors []goRowError
}

type goResultColumn struct {
	form    uint16
	nulls   uint64
	buffers [][2]uint64
}

type goRowError struct {
	row uint64
	goRaise
}

func (w *goWorker) call(f goFrame, at int64) error {
	c, err := w.decodeCall(f, at)
	if err != nil {
		return err
	}
	w.calls++
	goNow.worker, goNow.call, goNow.counts = w, c, map[string]int64{}
	if c.body.special != nil {
		return c.body.special(w, c)
	}
	if c.body.table != nil {
		return w.table(c)
	}
	r, err := w.answer(c)
	if err != nil {
		return err
	}
	return w.reply(c, r)
}

func (w *goWorker) reply(c *goCall, r *goResult) error {
	if err := w.sendCounts(c); err != nil {
		return err
	}
	r.send = uint64(monotonic())
	if err := w.sendData(c, r); err != nil {
		return err
	}
	return w.send(7, 0, c.id, r.bytes())
}

func (w *goWorker) decodeCall(f goFrame, at int64) (*goCall, error) {
	b := f.payload
	c := &goCall{
		id: f.call, at: at, function: le.Uint32(b), generation: le.Uint32(b[4:]), remaining: le.Uint64(b[8:]),
		outArena: le.Uint32(b[16:]), base: le.Uint64(b[24:]), limit: le.Uint64(b[32:]), flags: le.Uint16(b[42:]),
	}
	if int(c.function) >= len(goBodies) {
		return nil, fmt.Errorf("no function %d", c.function)
	}
	c.body = &goBodies[c.function]
	nseg := le.Uint16(b[40:])
	b = b[48:]
	for range nseg {
		s := goSegment{rows: le.Uint64(b), lo: le.Uint64(b[8:]), hi: le.Uint64(b[16:])}
		ncols := le.Uint16(b[40:])
		b = b[48:]
		for i := range ncols {
			form, nbuf, arena := le.Uint16(b), le.Uint16(b[2:]), le.Uint32(b[4:])
			b = b[16:]
			if form != 1 {
				return nil, fmt.Errorf("form %d was not offered", form)
			}
			a, ok := w.arenas[arena]
			if !ok {
				return nil, fmt.Errorf("arena %d was not handed over", arena)
			}
			var buffers [][]byte
			for range nbuf {
				off, n := le.Uint64(b), le.Uint64(b[8:])
				buffers = append(buffers, a.bytes[off:off+n])
				b = b[16:]
			}
			s.columns = append(s.columns, goColumnOf(c.body.args[i], &s, buffers))
		}
		c.segments = append(c.segments, s)
	}
	if len(b) != 0 {
		return nil, fmt.Errorf("CALL has %d bytes too many", len(b))
	}
	return c, nil
}

// goColumnOf reads the rows to run and no others: those need not be there.
func goColumnOf(kind string, s *goSegment, buffers [][]byte) goColumn {
	col := goColumn{valid: make([]bool, s.rows)}
	switch kind {
	case "int64":
		col.ints = make([]int64, s.rows)
	case "utf8":
		col.texts = make([]string, s.rows)
	}
	for i := s.lo; i < s.hi; i++ {
		col.valid[i] = len(buffers[0]) == 0 || buffers[0][i>>3]&(1<<(i&7)) != 0
		switch kind {
		case "int64":
			col.ints[i] = int64(le.Uint64(buffers[1][8*i:]))
		case "utf8":
			from, to := le.Uint32(buffers[1][4*i:]), le.Uint32(buffers[1][4*i+4:])
			col.texts[i] = string(buffers[2][from:to])
		}
	}
	return col
}

func (c *goColumn) value(row uint64) any {
	switch {
	case !c.valid[row]:
		return nil
	case c.ints != nil:
		return c.ints[row]
	default:
		return c.texts[row]
	}
}

// answer runs every segment and writes the values into the output arena.
func (w *goWorker) answer(c *goCall) (*goResult, error) {
	r := &goResult{recv: uint64(c.at), arena: c.outArena, base: c.base}
	for i := range c.segments {
		s := &c.segments[i]
		start := monotonic()
		values, failed, raised := c.run(s)
		r.body += uint64(monotonic() - start)
		if raised != nil {
			r.segments = append(r.segments, goResultSegment{status: 1, errors: []goRowError{*raised}})
			continue
		}
		rs := goResultSegment{rows: s.hi - s.lo}
		column, refused, err := w.column(c, r, c.body.result, values)
		rs.goResultColumn = column
		if failed != nil && err == nil && !refused {
			rs.failed = &goResultColumn{}
			*rs.failed, refused, err = w.column(c, r, "utf8", failed)
			rs.good = goResultColumn{form: 1, buffers: [][2]uint64{{}, column.buffers[1]}}
		}
		if err != nil {
			return nil, err
		}
		if refused {
			r.segments = append(r.segments, goResultSegment{status: 2})
			r.used = 0
			return r, nil
		}
		r.segments = append(r.segments, rs)
	}
	return r, nil
}

// column writes a column behind what there is.
func (w *goWorker) column(c *goCall, r *goResult, kind string, values []any) (col goResultColumn, refused bool, err error) {
	col.form = 1
	validity, parts := goEncode(kind, values)
	for _, v := range values {
		if v == nil {
			col.nulls++
		}
	}
	if col.nulls == 0 {
		validity = nil
	}
	for _, part := range append([][]byte{validity}, parts...) {
		r.used = (r.used + 7) &^ 7
		if r.used+uint64(len(part)) > c.limit {
			if refused, err = w.more(c, r, r.used+uint64(len(part))); refused || err != nil {
				return col, refused, err
			}
		}
		copy(w.arenas[r.arena].bytes[r.base+r.used:], part)
		col.buffers = append(col.buffers, [2]uint64{r.used, uint64(len(part))})
		r.used += uint64(len(part))
	}
	return col, false, nil
}

// more asks for a larger output arena.
func (w *goWorker) more(c *goCall, r *goResult, bytes uint64) (refused bool, err error) {
	old := append([]byte(nil), w.arenas[r.arena].bytes[r.base:r.base+r.used]...)
	if err := w.send(8, 0, c.id, le.AppendUint64(nil, bytes)); err != nil {
		return false, err
	}
	f, err := w.next()
	switch {
	case err != nil:
		return false, err
	case f.kind == 9:
		return true, nil
	case f.kind != 2:
		return false, fmt.Errorf("wanted ARENA or REFUSE, got %d", f.kind)
	}
	if err := w.arena(f); err != nil {
		return false, err
	}
	r.arena, r.base = le.Uint32(f.payload), 0
	c.limit = le.Uint64(f.payload[8:])
	copy(w.arenas[r.arena].bytes, old)
	return false, nil
}

func goEncode(kind string, values []any) (validity []byte, parts [][]byte) {
	validity = make([]byte, (len(values)+7)/8)
	bits := make([]byte, len(validity))
	var words, offsets, data []byte
	offsets = le.AppendUint32(offsets, 0)
	for i, v := range values {
		if v != nil {
			validity[i>>3] |= 1 << (i & 7)
		}
		switch v := v.(type) {
		case int64:
			words = le.AppendUint64(words, uint64(v))
		case int32:
			words = le.AppendUint32(words, uint32(v))
		case bool:
			if v {
				bits[i>>3] |= 1 << (i & 7)
			}
		case string:
			data = append(data, v...)
		case nil:
			words = le.AppendUint64(words, 0)
		}
		offsets = le.AppendUint32(offsets, uint32(len(data)))
	}
	switch kind {
	case "bool":
		return validity, [][]byte{bits}
	case "utf8":
		return validity, [][]byte{offsets, data}
	default: // of int32 too, which has no nulls
		return validity, [][]byte{words}
	}
}

func (r *goResult) bytes() []byte {
	var b []byte
	for _, v := range []uint64{r.recv, r.send, r.decode, r.body, r.encode, 0, 1 << 20} {
		b = le.AppendUint64(b, v)
	}
	b = le.AppendUint32(b, r.arena)
	b = le.AppendUint32(b, 0)
	b = le.AppendUint64(b, r.base)
	b = le.AppendUint64(b, r.used)
	b = le.AppendUint16(b, uint16(len(r.segments)))
	flags := uint16(0)
	if r.more {
		flags = 1
	}
	b = append(le.AppendUint16(b, flags), 0, 0, 0, 0)
	for _, s := range r.segments {
		var columns []*goResultColumn
		if s.status == 0 {
			columns = append(columns, &s.goResultColumn)
		}
		if s.status == 0 && s.index != nil {
			columns = append(columns, s.index)
		}
		if s.status == 0 && s.failed != nil {
			columns = append(columns, s.failed)
		}
		b = append(b, s.status, uint8(len(columns)), 0, 0)
		b = le.AppendUint32(b, uint32(len(s.errors)))
		b = le.AppendUint64(b, s.rows)
		for _, column := range columns {
			b = le.AppendUint16(b, column.form)
			b = le.AppendUint16(b, uint16(len(column.buffers)))
			b = le.AppendUint32(b, 0)
			b = le.AppendUint64(b, column.nulls)
			for _, buffer := range column.buffers {
				b = le.AppendUint64(b, buffer[0])
				b = le.AppendUint64(b, buffer[1])
			}
		}
		for _, e := range s.errors {
			b = le.AppendUint64(b, e.row)
			b = le.AppendUint16(b, e.kind)
			b = le.AppendUint16(b, uint16(len(e.class)))
			b = le.AppendUint32(b, uint32(len(e.text)))
			b = le.AppendUint32(b, uint32(len(e.more)))
			b = le.AppendUint32(b, 0)
			b = append(b, e.class+e.text+e.more...)
		}
	}
	return append(b, r.tail...)
}
