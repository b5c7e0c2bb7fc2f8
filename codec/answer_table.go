package codec

import (
	"errors"
	"fmt"
	"math"

	"github.com/udfgate/udfgate"
)

// TableColumns are the columns of one part of a table function's answer as a
// RESULT frame describes them: the values, the index of the input row that each
// came of, and with it the texts of failed rows, nil if it has none.
type TableColumns struct {
	Values, Rows, Errors *ResultColumn
}

// RowRange is the input rows that a part may name: from is never below the last
// that an earlier part has named.
type RowRange struct{ From, To int64 }

// TakeTable takes a part of rows rows: an answer with the columns RowField and
// field, and Errors as of TakeFailing. It also returns the last input row that
// the part names, of an empty one in.From.
//
// # Errors
//
// As of TakeAnswer and TakeFailing. Rows that fall, or lie outside in, are the
// worker's fault too.
func TakeTable(field udfgate.Field, rows int64, blockRows int, columns TableColumns, in RowRange, region []byte, limits AnswerLimits) (*Answer, int64, error) {
	if rows > udfgate.TableRowsMax {
		return nil, 0, fmt.Errorf("part of %d rows, the most is %d", rows, udfgate.TableRowsMax)
	}
	if columns.Rows.Form != FormArrow {
		return nil, 0, fmt.Errorf("row indices in value form %d, wanted %d", columns.Rows.Form, FormArrow)
	}
	index, err := TakeAnswer(udfgate.RowField(), rows, blockRows, columns.Rows, region, limits)
	if err != nil {
		return nil, 0, fmt.Errorf("row indices: %w", err)
	}
	last, err := checkRows(index, in)
	if err != nil {
		index.Release()
		return nil, 0, err
	}
	var answer *Answer
	if columns.Errors == nil {
		answer, err = TakeAnswer(field, rows, blockRows, columns.Values, region, limits)
	} else {
		answer, err = TakeFailing(field, rows, blockRows, columns.Values, columns.Errors, region, limits)
	}
	if err != nil {
		index.Release()
		return nil, 0, err
	}
	if err := answer.prepend(index, limits); err != nil {
		answer.Release()
		return nil, 0, err
	}
	return answer, last, nil
}

// EmptyTable is a part of zero rows of a table function whose value is field.
func EmptyTable(field udfgate.Field) *Answer {
	a := EmptyAnswer(field)
	if err := a.prepend(EmptyAnswer(udfgate.RowField()), AnswerLimits{BytesMax: math.MaxInt64}); err != nil {
		panic(err) // nothing is longer than that
	}
	return a
}

// checkRows checks the indices of a part in the gateway's copy, and returns the
// last of them.
func checkRows(index *Answer, in RowRange) (int64, error) {
	last := in.From
	for i, row := range int32s(index.bytes(1)) {
		switch row := int64(row); {
		case row < 0 || row >= in.To:
			return 0, fmt.Errorf("value %d came of row %d, the rows run are below %d", i, row, in.To)
		case row < last:
			return 0, fmt.Errorf("value %d came of row %d, after one of row %d", i, row, last)
		default:
			last = row
		}
	}
	return last, nil
}

// prepend makes first, which it releases, the answer's first column; Errors
// stays beside it. Nobody else may hold the answer's body.
//
// # Errors
//
// *udfgate.Error Invalid if both together are over the limit; first is released
// then too.
func (a *Answer) prepend(first *Answer, limits AnswerLimits) error {
	defer first.Release()
	if first.Rows != a.Rows {
		return errors.New("columns of different lengths")
	}
	var front []byte
	if first.Body != nil {
		front = first.Body.Bytes()
	}
	if a.Body == nil {
		a.Body = NewBlock(0)
	}
	old := len(a.Body.Bytes())
	room := roundUp(int64(len(front)), answerAlign)
	size := room + int64(old)
	if size > limits.BytesMax {
		return limits.TooLarge(size)
	}
	a.Body.Resize(int(size))
	body := a.Body.Bytes()
	copy(body[room:], body[:old])
	clear(body[copy(body, front):room])
	buffers := append(make([]Buffer, 0, len(first.Buffers)+len(a.Buffers)+3), first.Buffers...) // errors may come behind
	for _, b := range a.Buffers {
		buffers = append(buffers, Buffer{Offset: room + b.Offset, Length: b.Length})
	}
	a.Nodes = append(append(make([]Node, 0, len(first.Nodes)+len(a.Nodes)+1), first.Nodes...), a.Nodes...)
	a.Buffers = buffers
	return nil
}
