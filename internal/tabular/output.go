package tabular

import (
	"encoding/json"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/udfgate/udfgate"
)

// AppendFieldJSON is AppendJSON for a column whose field may say more of its
// values than their type: that text is JSON already, or bytes a UUID.
func AppendFieldJSON(dst []byte, f arrow.Field, a arrow.Array, i int) []byte {
	if extension, ok := f.Metadata.GetValue(udfgate.ExtensionKey); ok && !IsNull(a, i) {
		return appendExtended(dst, extension, a, i)
	}
	return AppendJSON(dst, a, i)
}

// AppendFieldText is AppendText for a column of a field, as AppendFieldJSON is
// AppendJSON.
func AppendFieldText(dst []byte, f arrow.Field, a arrow.Array, i int) []byte {
	switch extension, _ := f.Metadata.GetValue(udfgate.ExtensionKey); {
	case IsNull(a, i):
	case overJSON(extension):
		if text, ok := variantOf(a, i); ok && json.Valid([]byte(text)) {
			return append(dst, text...)
		}
	case extension == udfgate.ExtensionUUID:
		if id, ok := bareArray(a).(*array.FixedSizeBinary); ok && len(id.Value(i)) == uuidBytes {
			return appendUUID(dst, id.Value(i))
		}
	}
	return AppendText(dst, a, i)
}

// variantOf is the text in a column of bytes that are JSON.
func variantOf(a arrow.Array, i int) (string, bool) {
	switch a := bareArray(a).(type) {
	case *array.Binary:
		return a.ValueString(i), true
	case *array.LargeBinary:
		return a.ValueString(i), true
	case *array.BinaryView:
		return a.ValueString(i), true
	}
	return "", false
}

// appendExtended appends a value with an extension over its type.
func appendExtended(dst []byte, extension string, a arrow.Array, i int) []byte {
	switch {
	case overJSON(extension):
		if text, ok := textOf(a, i); ok {
			if out, err := appendJSONText(dst, text); err == nil {
				return out
			}
			return appendQuoted(dst, text) // what should be JSON and is not stays what it is: text
		}
		if text, ok := variantOf(a, i); ok {
			if out, err := appendJSONText(dst, text); err == nil {
				return out
			} // or base64
		}
	case extension == udfgate.ExtensionUUID:
		if id, ok := bareArray(a).(*array.FixedSizeBinary); ok && len(id.Value(i)) == uuidBytes {
			return append(appendUUID(append(dst, '"'), id.Value(i)), '"')
		}
	}
	return AppendJSON(dst, bareArray(a), i)
}

// appendInterval appends an interval; false if a is none.
func appendInterval(dst []byte, a arrow.Array, i int) ([]byte, bool) {
	switch a := a.(type) {
	case *array.MonthInterval:
		return append(strconv.AppendInt(append(dst, 'P'), int64(a.Value(i)), 10), 'M'), true
	case *array.DayTimeInterval:
		v := a.Value(i)
		return appendSpan(dst, 0, int64(v.Days), int64(v.Milliseconds), arrow.Millisecond), true
	case *array.MonthDayNanoInterval:
		v := a.Value(i)
		return appendSpan(dst, int64(v.Months), int64(v.Days), v.Nanoseconds, arrow.Nanosecond), true
	}
	return dst, false
}

// appendMomentText appends a date, time, timestamp or duration; false if a is none.
func appendMomentText(dst []byte, a arrow.Array, i int) ([]byte, bool) {
	switch a := a.(type) {
	case *array.Date32:
		return appendDate(dst, int64(a.Value(i))), true
	case *array.Date64:
		ms := int64(a.Value(i))
		days := floorDiv(ms, day.Milliseconds())
		dst = appendDate(dst, days)
		if rest := ms - days*day.Milliseconds(); rest != 0 {
			dst = appendTimeOfDay(append(dst, 'T'), rest, arrow.Millisecond)
		}
		return dst, true
	case *array.Time32:
		t, _ := a.DataType().(*arrow.Time32Type)
		return appendTimeOfDay(dst, int64(a.Value(i)), t.Unit), true
	case *array.Time64:
		t, _ := a.DataType().(*arrow.Time64Type)
		return appendTimeOfDay(dst, int64(a.Value(i)), t.Unit), true
	case *array.Timestamp:
		t, _ := a.DataType().(*arrow.TimestampType)
		return appendTimestamp(dst, int64(a.Value(i)), t), true
	case *array.Duration:
		t, _ := a.DataType().(*arrow.DurationType)
		return appendSpan(dst, 0, 0, int64(a.Value(i)), t.Unit), true
	}
	return appendInterval(dst, a, i)
}

// Bytes is how many bytes the arguments hold.
func (r *Rows) Bytes() int64 { return heldAll(r.Args.Columns()) }
