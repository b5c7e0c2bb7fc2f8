package codec

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/udfgate/udfgate"
)

// ErrorTextBytesMax bounds the text of one failed row in an error column.
const ErrorTextBytesMax = 4 << 10

// errorField is an error column as a worker answers it.
var errorField = udfgate.Field{Name: "error", Type: udfgate.Type{Kind: udfgate.Utf8}, Nullable: true}

// TakeFailing is TakeAnswer for a segment in which rows failed: values are null
// there, whatever the field says, and errs has the text of each. The answer's
// Errors is that column, verified like any other and against the values; nil if
// it names no row.
//
// # Errors
//
// As of TakeAnswer. A null that is no failed row's, in a field that is not
// nullable, is a *TagError where the values came as marshal blocks.
func TakeFailing(field udfgate.Field, rows int64, blockRows int, values, errs *ResultColumn, region []byte, limits AnswerLimits) (*Answer, error) {
	loose := field
	loose.Nullable = true
	answer, err := TakeAnswer(loose, rows, blockRows, values, region, limits)
	if err != nil {
		return nil, err
	}
	answer.Errors, err = takeErrors(rows, blockRows, errs, region, limits)
	if err == nil {
		err = answer.checkFailed(field.Nullable, values.Form == FormMarshal)
	}
	if err != nil {
		answer.Release()
		return nil, err
	}
	if answer.Failed() == 0 {
		answer.ForgetErrors()
	}
	return answer, nil
}

// ForgetErrors gives the error column back, if there is one.
func (a *Answer) ForgetErrors() {
	if a.Errors != nil {
		a.Errors.Release()
		a.Errors = nil
	}
}

// takeErrors takes an error column. Its texts are the worker's own, so one that
// cannot be taken breaks the protocol; there is nothing to encode once more.
func takeErrors(rows int64, blockRows int, rc *ResultColumn, region []byte, limits AnswerLimits) (*Answer, error) {
	errs, err := TakeAnswer(errorField, rows, blockRows, rc, region, limits)
	if tag, wrong := errors.AsType[*TagError](err); wrong {
		return nil, errors.New("error column: " + tag.Error())
	}
	if err != nil {
		return nil, fmt.Errorf("error column: %w", err)
	}
	starts := int32s(errs.bytes(1))
	for row := range rows {
		if n := starts[row+1] - starts[row]; n > ErrorTextBytesMax {
			errs.Release()
			return nil, fmt.Errorf("error column: row %d: text of %d bytes, the most is %d", row, n, ErrorTextBytesMax)
		}
	}
	return errs, nil
}

// checkFailed compares the nulls with the failed rows: each of these is null,
// and in a column that is not nullable no other is.
func (a *Answer) checkFailed(nullable, marshal bool) error {
	for at := range bitmapLen(a.Rows) {
		valid, failed := a.validByte(at), a.Errors.validByte(at)
		if both := valid & failed; both != 0 {
			return fmt.Errorf("row %d failed, and has a value", 8*at+int64(bits.TrailingZeros8(both)))
		}
		if nullable || valid|failed == rowBits(a.Rows-8*at) {
			continue
		}
		row := 8*at + int64(bits.TrailingZeros8(^(valid | failed)))
		if marshal {
			return &TagError{Row: row, Tag: 'N'}
		}
		return fmt.Errorf("row %d is null, did not fail, and the result is not nullable", row)
	}
	return nil
}

// validByte is eight rows of a column's validity; bits beyond the rows are 0.
func (a *Answer) validByte(at int64) byte {
	switch {
	case a.Nodes[0].Nulls == 0:
		return rowBits(a.Rows - 8*at)
	case len(a.Buffers) == 0: // of type null
		return 0
	}
	return a.bytes(0)[at]
}

// rowBits is a bit for each of the next eight rows that there are.
func rowBits(rows int64) byte {
	if rows >= 8 {
		return 0xff
	}
	return byte(1<<rows - 1)
}

// bytes is buffer i of the answer's first column.
func (a *Answer) bytes(i int) []byte {
	b := a.Buffers[i]
	return a.Body.Bytes()[b.Offset : b.Offset+b.Length]
}

// Failed is how many rows the error column names.
func (a *Answer) Failed() int64 {
	if a.Errors == nil {
		return 0
	}
	return a.Errors.Rows - a.Errors.Nodes[0].Nulls
}

// EditErrors replaces each text of the error column by what edit makes of it.
// edit is not called where plain says of all texts together that nothing would
// change.
func (a *Answer) EditErrors(plain func(texts []byte) bool, edit func(text string) string, limits AnswerLimits) error {
	if a.Failed() == 0 || plain(a.Errors.bytes(2)) {
		return nil
	}
	texts := make([]string, 0, a.Failed())
	size := int64(0)
	old, starts := a.Errors.bytes(2), int32s(a.Errors.bytes(1))
	for row := range a.Rows {
		if a.Errors.validByte(row>>3)&(1<<(row&7)) == 0 {
			continue
		}
		text := edit(string(old[starts[row]:starts[row+1]]))
		size += int64(len(text))
		texts = append(texts, text)
	}
	edited, err := newTexts(a.Errors, size, limits)
	if err != nil {
		return err
	}
	next, at, data := int32s(edited.bytes(1)), int32(0), edited.bytes(2)
	next[0] = 0
	for row := range a.Rows {
		if edited.validByte(row>>3)&(1<<(row&7)) != 0 {
			at += int32(copy(data[at:], texts[0]))
			texts = texts[1:]
		}
		next[row+1] = at
	}
	a.Errors.Release()
	a.Errors = edited
	return nil
}

// newTexts is a utf8 column with the validity of like and room for size bytes
// of text; its offsets and text are undefined.
func newTexts(like *Answer, size int64, limits AnswerLimits) (*Answer, error) {
	if size > TextBytesMax {
		return nil, textTooLarge(udfgate.Utf8, size)
	}
	t := &taker{kind: udfgate.Utf8, rows: like.Rows, nulls: like.Nodes[0].Nulls, limits: limits}
	if t.nulls > 0 {
		t.validity = t.place(bitmapLen(t.rows))
	}
	t.offsets = t.place(4 * (t.rows + 1))
	t.data = t.place(size)
	if err := t.allocate(); err != nil {
		return nil, err
	}
	if t.nulls > 0 {
		copy(t.in(t.validity), like.bytes(0))
	}
	return t.answer(), nil
}

// AllFailed is the answer of a segment whose rows all failed alike: nulls. With
// a text it has an error column that says so of each row.
//
// # Errors
//
// *udfgate.Error Invalid if it is over a limit.
func AllFailed(field udfgate.Field, rows int64, text string, limits AnswerLimits) (*Answer, error) {
	answer, err := nulls(&field.Type, rows, limits)
	if err != nil || text == "" {
		return answer, err
	}
	none := &Answer{Rows: rows, Nodes: []Node{{Length: rows}}}
	if answer.Errors, err = newTexts(none, rows*int64(len(text)), limits); err != nil {
		answer.Release()
		return nil, err
	}
	starts, data := int32s(answer.Errors.bytes(1)), answer.Errors.bytes(2)
	starts[0] = 0
	for row := range rows {
		starts[row+1] = starts[row] + int32(copy(data[starts[row]:], text))
	}
	return answer, nil
}

// nulls is a column of nothing else.
func nulls(typ *udfgate.Type, rows int64, limits AnswerLimits) (*Answer, error) {
	kind := typ.Kind
	if Rendered(typ) && kind != udfgate.Utf8 && kind != udfgate.Binary {
		return nullTree(typ, rows, limits)
	}
	t := &taker{kind: kind, rows: rows, nulls: rows, limits: limits}
	if rows > 0 {
		t.validity = t.place(bitmapLen(rows))
	}
	switch kind {
	case udfgate.Utf8, udfgate.Binary:
		t.offsets = t.place(4 * (rows + 1))
		t.data = Buffer{Offset: t.size}
	case udfgate.Bool:
		t.values = t.place(bitmapLen(rows))
	default:
		t.values = t.place(rows * int64(kind.Width()))
	}
	if err := t.allocate(); err != nil {
		return nil, err
	}
	clear(t.body.Bytes())
	return t.answer(), nil
}

// nullTree is nulls of a type that has more buffers, or none.
func nullTree(typ *udfgate.Type, rows int64, limits AnswerLimits) (*Answer, error) {
	n := newTree(&udfgate.Field{Type: *typ, Nullable: true}, limits.BytesMax)
	defer n.release()
	if err := n.appendNulls(rows); err != nil {
		if long, ok := errors.AsType[*tooLarge](err); ok {
			return nil, limits.TooLarge(long.size)
		}
		return nil, err
	}
	answer := n.answer(rows)
	if size := int64(len(answer.Body.Bytes())); size > limits.BytesMax {
		answer.Release()
		return nil, limits.TooLarge(size)
	}
	return answer, nil
}

// JoinErrors makes the error column the answer's second one, all null where no
// row failed. Nobody else may hold the answer's body.
//
// # Errors
//
// *udfgate.Error Invalid if both together are over the limit.
func (a *Answer) JoinErrors(limits AnswerLimits) error {
	errs := a.Errors
	if errs == nil {
		var err error
		if errs, err = nulls(&udfgate.Type{Kind: udfgate.Utf8}, a.Rows, limits); err != nil {
			return err
		}
	}
	defer errs.Release()
	a.Errors = nil
	end := len(a.Body.Bytes())
	at := roundUp(int64(end), answerAlign)
	size := at + int64(len(errs.Body.Bytes()))
	if size > limits.BytesMax {
		return limits.TooLarge(size)
	}
	a.Body.Resize(int(size))
	body := a.Body.Bytes()
	clear(body[end:at])
	copy(body[at:], errs.Body.Bytes())
	a.Nodes = append(a.Nodes, errs.Nodes...)
	for _, b := range errs.Buffers {
		a.Buffers = append(a.Buffers, Buffer{Offset: at + b.Offset, Length: b.Length})
	}
	return nil
}
