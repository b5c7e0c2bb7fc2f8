package pool

import "strings"

// How the test worker runs the rows of a segment: row by row or as lists, and
// to the first failed row or, with bit 1 of a CALL, to the last.

// goMisfit is a value that does not fit the result of its function.
type goMisfit struct{ wanted, got string }

func (m goMisfit) raise() *goRaise {
	return &goRaise{2, "TypeError", "result: wanted " + m.wanted + ", got " + m.got, ""}
}

// text is the error as the column of errors has it.
func (r *goRaise) line() string {
	if r.text == "" {
		return r.class
	}
	return r.class + ": " + r.text
}

// run gives the values of a segment and, keeping going, the texts of its failed
// rows: nil where none failed. raised ends the segment.
func (c *goCall) run(s *goSegment) (values, failed []any, raised *goRowError) {
	var raises map[uint64]*goRaise
	if c.body.list != nil {
		values, raises, raised = c.runList(s, s.lo, s.hi)
	} else {
		values, raises, raised = c.runRows(s)
	}
	if raised != nil {
		return nil, nil, raised
	}
	for i, v := range values {
		row := s.lo + uint64(i)
		if raises[row] == nil {
			if m, wrong := v.(goMisfit); wrong {
				raises[row] = m.raise()
			} else if v == nil && c.body.notNull {
				raises[row] = goMisfit{c.body.result, "None"}.raise()
			}
		}
		raise := raises[row]
		if raise == nil {
			continue
		}
		if c.flags&2 == 0 {
			return nil, nil, &goRowError{row, *raise}
		}
		if failed == nil {
			failed = make([]any, len(values))
		}
		values[i], failed[i] = nil, raise.line()
	}
	return values, failed, nil
}

func (c *goCall) runRows(s *goSegment) (values []any, raises map[uint64]*goRaise, raised *goRowError) {
	raises = map[uint64]*goRaise{}
	for row := s.lo; row < s.hi; row++ {
		var args []any
		for i := range s.columns {
			args = append(args, s.columns[i].value(row))
		}
		v, raise := c.body.run(args)
		switch {
		case raise == nil:
		case c.flags&2 == 0, raise.kind == 3:
			return nil, nil, &goRowError{row, *raise}
		default:
			raises[row] = raise
		}
		values = append(values, v)
	}
	return values, raises, nil
}

// runList runs rows [lo, hi) at once, and halves of them if that is how to find
// the row that is to blame.
func (c *goCall) runList(s *goSegment, lo, hi uint64) (values []any, raises map[uint64]*goRaise, raised *goRowError) {
	lists := make([][]any, len(s.columns))
	for i := range lists {
		for row := lo; row < hi; row++ {
			lists[i] = append(lists[i], s.columns[i].value(row))
		}
	}
	values, raise := c.body.list(lists)
	switch {
	case raise == nil && uint64(len(values)) != hi-lo:
		return nil, nil, &goRowError{lo, goRaise{3, "", "wanted " + itoa(hi-lo) + " results, got " + itoa(uint64(len(values))), ""}}
	case raise == nil:
		return values, map[uint64]*goRaise{}, nil
	case !c.body.elementwise:
		return nil, nil, &goRowError{lo, goRaise{3, raise.class, raise.text, raise.more}}
	case hi-lo == 1:
		return []any{nil}, map[uint64]*goRaise{lo: raise}, nil
	}
	middle := lo + (hi-lo)/2
	raises = map[uint64]*goRaise{}
	for _, half := range [][2]uint64{{lo, middle}, {middle, hi}} {
		part, wrong, raised := c.runList(s, half[0], half[1])
		if raised != nil {
			return nil, nil, raised
		}
		values = append(values, part...)
		for row, raise := range wrong {
			raises[row] = raise
		}
	}
	return values, raises, nil
}

// badLiteral is what the bodies below raise over the value 7.
func badLiteral() *goRaise {
	return &goRaise{1, "ValueError", "bad literal:\n7", "Traceback: line 1\nValueError: bad literal:\n7"}
}

// goFailing are the functions whose rows fail, and those of mode list.
var goFailing = []goBody{
	{name: "whole", args: one, result: "int64", notNull: true, run: func(args []any) (any, *goRaise) {
		if args[0] == int64(7) {
			return nil, badLiteral()
		}
		return args[0], nil
	}},
	{name: "label", args: one, result: "utf8", notNull: true, run: func(args []any) (any, *goRaise) {
		switch args[0] {
		case nil:
			return nil, nil
		case int64(7):
			return nil, badLiteral()
		case int64(8):
			return goMisfit{"utf8", "int 8"}, nil
		}
		return "é" + strings.Repeat("x", int(args[0].(int64))), nil
	}},
	{name: "list_add", args: two, result: "int64", list: func(lists [][]any) ([]any, *goRaise) {
		values := make([]any, len(lists[0]))
		for i := range values {
			values[i], _ = add([]any{lists[0][i], lists[1][i]})
		}
		return values, nil
	}},
	{name: "list_fail", args: one, result: "int64", list: listFail},
	{name: "list_parse", args: one, result: "int64", elementwise: true, list: listFail},
	{name: "list_null", args: one, result: "int64", onError: "null", list: listFail},
	{name: "row_null", args: one, result: "int64", notNull: true, onError: "null", run: func(args []any) (any, *goRaise) {
		if args[0] == int64(7) {
			return nil, badLiteral()
		}
		return args[0], nil
	}},
	{name: "row_reject", args: one, result: "int64", onError: "reject", run: same},
	lie("lie_extra_column", func(_ *goCall, r *goResult) { r.segments[0].failed = &r.segments[0].goResultColumn }),
	keepLie("lie_row_error", func(r *goResult) {
		r.segments[0] = goResultSegment{status: 1, errors: []goRowError{{0, goRaise{1, "E", "", ""}}}}
	}),
	keepLie("lie_failed_value", func(r *goResult) { r.segments[0].goResultColumn = r.segments[0].good }),
	keepLie("lie_failed_form", func(r *goResult) { r.segments[0].failed.form = 3 }),
	keepLie("lie_failed_offset", func(r *goResult) { r.segments[0].failed.buffers[2][0] = 1 << 40 }),
	keepLie("lie_failed_nulls", func(r *goResult) { r.segments[0].failed.nulls++ }),
}

// listFail raises over 7, gives 8 a value that does not fit, and leaves 9 out.
func listFail(lists [][]any) ([]any, *goRaise) {
	var values []any
	for _, v := range lists[0] {
		switch v {
		case int64(7):
			return nil, badLiteral()
		case int64(8):
			values = append(values, goMisfit{"int64", "str 'x'"})
		case int64(9):
		default:
			values = append(values, v)
		}
	}
	return values, nil
}

// keepLie is a function that fails for 7, whose RESULT is changed before it is sent.
func keepLie(name string, change func(r *goResult)) goBody {
	body := lie(name, func(_ *goCall, r *goResult) { change(r) })
	body.run = func(args []any) (any, *goRaise) {
		if args[0] == int64(7) {
			return nil, badLiteral()
		}
		return args[0], nil
	}
	return body
}
