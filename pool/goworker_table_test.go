package pool

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Table functions, CONTEXT and COUNTS of the test worker.

// goNow is the call that bodies are in, and what they count in it.
var goNow struct {
	worker *goWorker
	call   *goCall
	counts map[string]int64
}

// goCount adds to a counter.
func goCount(name string, n int64) { goNow.counts[name] += n }

// goAsk asks the gateway who calls.
func goAsk(what uint32) (map[string]any, error) {
	w, id := goNow.worker, goNow.call.id
	if err := w.send(19, 0, id, le.AppendUint32(nil, what)); err != nil {
		return nil, err
	}
	f, err := w.next()
	if err == nil && (f.kind != 19 || f.call != id) {
		err = fmt.Errorf("wanted CONTEXT of call %d, got type %d of call %d", id, f.kind, f.call)
	}
	if err != nil {
		return nil, err
	}
	var answer map[string]any
	return answer, json.Unmarshal(f.payload, &answer)
}

// sendCounts sends what has been counted since the last time.
func (w *goWorker) sendCounts(c *goCall) error {
	if len(goNow.counts) == 0 {
		return nil
	}
	text, err := json.Marshal(goNow.counts)
	goNow.counts = map[string]int64{}
	return errors.Join(err, w.send(20, 1<<15, c.id, text))
}

// goPart is what a table function has answered and not sent.
type goPart struct {
	w              *goWorker
	c              *goCall
	values, failed []any // failed nil: no row did
	rows           []any
	most           int
	change         func(c *goCall, r *goResult) // what makes it a lie
	ended          bool                         // by NEXT
	over           bool                         // refused: that was the last part
	err            error                        // of the socket
}

// table runs a table function: whenever a part is full it waits for NEXT.
func (w *goWorker) table(c *goCall) error { return w.tableAs(c, nil) }

func (w *goWorker) tableAs(c *goCall, change func(c *goCall, r *goResult)) error {
	p := &goPart{w: w, c: c, most: c.body.partRows, change: change}
	if p.most == 0 {
		p.most = 1024
	}
	s := &c.segments[0]
	for row := s.lo; row < s.hi && !p.ended; row++ {
		var args []any
		for i := range s.columns {
			args = append(args, s.columns[i].value(row))
		}
		raise := c.body.table(args, func(v any) bool { return p.add(row, v, nil) })
		switch {
		case p.err != nil || p.over:
			return p.err
		case raise == nil || p.ended:
		case c.flags&2 == 0:
			r := &goResult{recv: uint64(c.at), arena: c.outArena, base: c.base}
			r.segments = []goResultSegment{{status: 1, errors: []goRowError{{row, *raise}}}}
			return w.reply(c, r)
		default:
			p.add(row, nil, raise)
		}
	}
	if p.err != nil || p.over {
		return p.err
	}
	if p.ended {
		p.values, p.rows, p.failed = nil, nil, nil
	}
	return p.send(false)
}

// add takes a value, or a failed row. It sends a full part first, so that there
// is more to come when it says so.
func (p *goPart) add(row uint64, v any, raise *goRaise) bool {
	if len(p.rows) == p.most && !p.pause() {
		return false
	}
	text := any(nil)
	if raise != nil {
		v, text = nil, raise.line()
		if p.failed == nil {
			p.failed = make([]any, len(p.rows))
		}
	}
	p.values, p.rows = append(p.values, v), append(p.rows, int32(row))
	if p.failed != nil {
		p.failed = append(p.failed, text)
	}
	return true
}

// pause sends a part and waits for NEXT; false ends the body.
func (p *goPart) pause() bool {
	if p.err = p.send(true); p.err != nil || p.over {
		return false
	}
	f, err := p.w.next()
	switch {
	case err != nil:
		p.err = err
	case f.kind != 18 || f.call != p.c.id || len(f.payload) != 16 || le.Uint64(f.payload) == 0:
		p.err = fmt.Errorf("wanted NEXT of call %d, got type %d of call %d, % x", p.c.id, f.kind, f.call, f.payload)
	case le.Uint32(f.payload[8:])&1 != 0:
		p.ended = true
	}
	p.c.at = monotonic()
	return p.err == nil && !p.ended
}

func (p *goPart) send(more bool) error {
	r := &goResult{recv: uint64(p.c.at), arena: p.c.outArena, base: p.c.base, more: more}
	s := goResultSegment{rows: uint64(len(p.rows)), index: &goResultColumn{}}
	var refused bool
	var err error
	s.goResultColumn, refused, err = p.w.column(p.c, r, p.c.body.result, p.values)
	if err == nil && !refused {
		*s.index, refused, err = p.w.column(p.c, r, "int32", p.rows)
	}
	if p.failed != nil && err == nil && !refused {
		s.failed = &goResultColumn{}
		*s.failed, refused, err = p.w.column(p.c, r, "utf8", p.failed)
	}
	if err != nil {
		return err
	}
	if refused {
		s = goResultSegment{status: 2}
		r.used, r.more, p.over = 0, false, true
	}
	r.segments = []goResultSegment{s}
	if p.change != nil {
		p.change(p.c, r)
	}
	p.c.outArena, p.c.base = r.arena, r.base
	p.values, p.rows, p.failed = nil, nil, nil
	return p.w.reply(p.c, r)
}

// upTo yields the numbers below the first argument.
func upTo(args []any, yield func(v any) bool) *goRaise {
	n, _ := args[0].(int64)
	for i := range n {
		goCount("steps", 1)
		if !yield(i) {
			goCount("closed", 1)
			return nil
		}
	}
	return nil
}

func forever(_ []any, yield func(v any) bool) *goRaise { return upTo([]any{int64(1) << 40}, yield) }

var goTables = []goBody{
	{name: "series", args: one, result: "int64", table: upTo},
	{name: "threes", args: one, result: "int64", table: upTo, partRows: 3},
	{name: "endless", args: one, result: "int64", table: forever},
	{name: "words", args: one, result: "utf8", table: func(args []any, yield func(v any) bool) *goRaise {
		n, _ := args[0].(int64)
		for i := range n {
			if !yield("é" + strings.Repeat("x", int(i))) {
				return nil
			}
		}
		return nil
	}},
	{name: "parse", args: one, result: "int64", table: func(args []any, yield func(v any) bool) *goRaise {
		v, _ := args[0].(int64)
		if !yield(v) {
			return nil
		}
		switch v {
		case 7:
			return badLiteral()
		case 8:
			return goMisfit{"int64", "str 'x'"}.raise()
		}
		yield(v + 1)
		return nil
	}},
	{name: "wide", args: one, result: "utf8", partRows: 1, table: func(args []any, yield func(v any) bool) *goRaise {
		n, _ := args[0].(int64)
		for range 3 {
			if !yield(strings.Repeat("x", int(n))) {
				return nil
			}
		}
		return nil
	}},
	{name: "strolls", args: one, result: "int64", partRows: 1, table: func(_ []any, yield func(v any) bool) *goRaise {
		for i := int64(0); ; i++ {
			time.Sleep(armAfter + armAfter/2)
			if !yield(i) {
				return nil
			}
		}
	}},
	{name: "third_hangs", args: one, result: "int64", partRows: 1, table: func(args []any, yield func(v any) bool) *goRaise {
		for i := range int64(5) {
			if i == 3 { // the third part goes when there is more
				time.Sleep(time.Hour)
			}
			if !yield(i) {
				return nil
			}
		}
		return nil
	}},
	{name: "stubborn", args: one, result: "int64", partRows: 1, table: func(_ []any, yield func(v any) bool) *goRaise {
		for i := int64(0); ; i++ {
			if !yield(i) {
				time.Sleep(time.Hour)
			}
		}
	}},
	tableLie("lie_part_rows", func(_ *goCall, r *goResult) { r.segments[0].rows = 1025 }),
	tableLie("lie_part_falls", func(c *goCall, r *goResult) { c.setIndex(r, 1, 0) }),
	tableLie("lie_part_falls_back", func(c *goCall, r *goResult) {
		c.body.partRows++ // of this worker, which will not live long
		c.setIndex(r, int32(4-c.body.partRows), 1)
	}),
	tableLie("lie_part_row", func(c *goCall, r *goResult) { c.setIndex(r, 0, 9) }),
	tableLie("lie_part_negative", func(c *goCall, r *goResult) { c.setIndex(r, -1, 0) }),
	tableLie("lie_part_form", func(_ *goCall, r *goResult) { r.segments[0].index.form = 3 }),
	tableLie("lie_part_nulls", func(_ *goCall, r *goResult) { r.segments[0].index.nulls = 1 }),
	tableLie("lie_part_columns", func(_ *goCall, r *goResult) { r.segments[0].index = nil }),
	tableLie("lie_part_errors", func(_ *goCall, r *goResult) { r.segments[0].failed = r.segments[0].index }),
	tableLie("lie_part_base", func(_ *goCall, r *goResult) { r.base = 64 }),
	tableLie("lie_part_failed", func(_ *goCall, r *goResult) {
		r.segments[0] = goResultSegment{status: 1, errors: []goRowError{{0, goRaise{1, "E", "", ""}}}}
	}),
	{name: "lie_part_twice", args: one, result: "int64", table: upTo, special: func(w *goWorker, c *goCall) error {
		r := &goResult{recv: uint64(c.at), send: uint64(monotonic()), arena: c.outArena, base: c.base, more: true}
		empty := goResultColumn{form: 1, buffers: [][2]uint64{{}, {}}}
		r.segments = []goResultSegment{{goResultColumn: empty, index: &empty}}
		return w.write(append(goFrameBytes(7, 0, c.id, r.bytes()), goFrameBytes(7, 0, c.id, r.bytes())...))
	}},
	{name: "lie_part_early", args: one, result: "int64", table: upTo, partRows: 1, special: func(w *goWorker, c *goCall) error {
		at := c.at
		return w.tableAs(c, func(_ *goCall, r *goResult) { r.recv = uint64(at) })
	}},
	{name: "lie_part_unending", args: one, result: "int64", table: upTo, partRows: 1, special: func(w *goWorker, c *goCall) error {
		return w.tableAs(c, func(_ *goCall, r *goResult) { r.more = true })
	}},
	lie("lie_more", func(_ *goCall, r *goResult) { r.more = true }),
	lie("lie_three_columns", func(_ *goCall, r *goResult) {
		s := &r.segments[0]
		s.index, s.failed = &s.goResultColumn, &s.goResultColumn
	}),
}

// setIndex overwrites the row indices of a part of two rows.
func (c *goCall) setIndex(r *goResult, rows ...int32) {
	at := r.base + r.segments[0].index.buffers[1][0]
	for i, row := range rows {
		le.PutUint32(goNow.worker.arenas[r.arena].bytes[at+4*uint64(i):], uint32(row))
	}
}

// tableLie is a function of tables whose parts, of two rows, are changed before
// they are sent.
func tableLie(name string, change func(c *goCall, r *goResult)) goBody {
	return goBody{name: name, args: one, result: "int64", table: upTo, partRows: 2, special: func(w *goWorker, c *goCall) error {
		return w.tableAs(c, change)
	}}
}
