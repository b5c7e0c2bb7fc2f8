package tabular

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/udfgate/udfgate"
)

// The columns of a file that are no arguments may have any type. This file
// turns the values of those types into JSON, as format.go those of arguments.

// appendOther appends a value that is not null and of none of the types of
// arguments: dates and times as ISO 8601, decimals as text, bytes as base64.
func appendOther(dst []byte, a arrow.Array, i int) []byte {
	switch a := a.(type) {
	case *array.Null: // it has no bits that say so
		return append(dst, "null"...)
	case *array.LargeString:
		return appendQuoted(dst, a.Value(i))
	case *array.StringView:
		return appendQuoted(dst, a.Value(i))
	case *array.LargeBinary:
		return appendBytes(dst, a.Value(i))
	case *array.BinaryView:
		return appendBytes(dst, a.Value(i))
	case *array.FixedSizeBinary:
		return appendBytes(dst, a.Value(i))
	case *array.Float16:
		return appendFloatJSON(dst, halfFloat(a.Value(i)), 32)
	case *array.Dictionary:
		return AppendJSON(dst, a.Dictionary(), a.GetValueIndex(i))
	case *array.RunEndEncoded:
		return AppendJSON(dst, a.Values(), a.GetPhysicalIndex(i))
	case array.ExtensionArray:
		return appendExtended(dst, a.ExtensionType().ExtensionName(), a.Storage(), i)
	case *array.Struct:
		return appendStruct(dst, a, i)
	case *array.Map:
		return appendMap(dst, a, i)
	case array.ListLike:
		return appendList(dst, a, i)
	case *array.Decimal32:
		return appendDecimal(dst, big.NewInt(int64(a.Value(i))), a.DataType())
	case *array.Decimal64:
		return appendDecimal(dst, big.NewInt(int64(a.Value(i))), a.DataType())
	case *array.Decimal128:
		return appendDecimal(dst, a.Value(i).BigInt(), a.DataType())
	case *array.Decimal256:
		return appendDecimal(dst, a.Value(i).BigInt(), a.DataType())
	}
	return appendTime(dst, a, i)
}

// appendDecimal writes all digits that the scale has: 1.50 stays 1.50. The
// library's own text drops zeros at the end.
func appendDecimal(dst []byte, v *big.Int, t arrow.DataType) []byte {
	dst = append(dst, '"')
	scale := 0
	if d, ok := t.(arrow.DecimalType); ok {
		scale = int(d.GetScale())
	}
	if v.Sign() < 0 {
		dst = append(dst, '-')
	}
	digits := new(big.Int).Abs(v).String()
	switch {
	case scale <= 0 && v.Sign() != 0:
		digits += strings.Repeat("0", -scale)
	case scale > 0:
		if missing := scale + 1 - len(digits); missing > 0 {
			digits = strings.Repeat("0", missing) + digits
		}
		point := len(digits) - scale
		digits = digits[:point] + "." + digits[point:]
	}
	return append(append(dst, digits...), '"')
}

func appendBytes(dst, value []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, value)
	return append(dst, '"')
}

func appendStruct(dst []byte, a *array.Struct, i int) []byte {
	fields, _ := a.DataType().(*arrow.StructType)
	named, open, shut := !positional(fields), byte('{'), byte('}')
	if !named {
		open, shut = '[', ']'
	}
	dst = append(dst, open)
	for f := range a.NumField() {
		if f > 0 {
			dst = append(dst, ',')
		}
		if named {
			dst = append(appendQuoted(dst, fields.Field(f).Name), ':')
		}
		dst = AppendFieldJSON(dst, fields.Field(f), a.Field(f), i)
	}
	return append(dst, shut)
}

// positional is true of a struct that cannot be an object, as that of a table
// function with several results: a member has no name, or another's.
func positional(t *arrow.StructType) bool {
	for i := range t.NumFields() {
		name := t.Field(i).Name
		if first, _ := t.FieldIdx(name); name == "" || first != i {
			return true
		}
	}
	return false
}

func appendList(dst []byte, a array.ListLike, i int) []byte {
	t, _ := a.DataType().(arrow.ListLikeType)
	from, to := a.ValueOffsets(i)
	dst = append(dst, '[')
	for v := from; v < to; v++ {
		if v > from {
			dst = append(dst, ',')
		}
		dst = AppendFieldJSON(dst, t.ElemField(), a.ListValues(), int(v))
	}
	return append(dst, ']')
}

// appendMap writes pairs: a map's keys need not be text, nor differ.
func appendMap(dst []byte, a *array.Map, i int) []byte {
	t, _ := a.DataType().(*arrow.MapType)
	from, to := a.ValueOffsets(i)
	dst = append(dst, '[')
	for v := from; v < to; v++ {
		if v > from {
			dst = append(dst, ',')
		}
		dst = append(AppendFieldJSON(append(dst, `{"key":`...), t.KeyField(), a.Keys(), int(v)), `,"value":`...)
		dst = append(AppendFieldJSON(dst, t.ItemField(), a.Items(), int(v)), '}')
	}
	return append(dst, ']')
}

const day = 24 * time.Hour

// appendTime appends dates and times, and what is left in its own text.
func appendTime(dst []byte, a arrow.Array, i int) []byte {
	from := len(dst)
	if dst, ok := appendMomentText(append(dst, '"'), a, i); ok {
		return append(dst, '"')
	}
	return appendQuoted(dst[:from], a.ValueStr(i))
}

// perSecond is how many of a unit make a second.
func perSecond(unit arrow.TimeUnit) int64 { return int64(time.Second / unit.Multiplier()) }

// seconds is a duration as a decimal number of seconds.
func seconds(v int64, unit arrow.TimeUnit) string {
	per := perSecond(unit)
	text := strconv.FormatInt(v/per, 10)
	rest := v % per
	if v < 0 && v > -per {
		text = "-0"
	}
	if rest == 0 {
		return text
	}
	digits := fmt.Sprintf("%0*d", len(strconv.FormatInt(per, 10))-1, max(rest, -rest))
	return text + "." + strings.TrimRight(digits, "0")
}

// isJSON is true for a column whose text is JSON: one that JSONL kept, or that
// a file calls so.
func isJSON(f arrow.Field) bool {
	if e, ok := f.Type.(arrow.ExtensionType); ok {
		return overJSON(e.ExtensionName())
	}
	name, _ := f.Metadata.GetValue(udfgate.ExtensionKey)
	return overJSON(name)
}

// textOf is the value of a column of text in any form.
func textOf(a arrow.Array, i int) (string, bool) {
	switch a := a.(type) {
	case *array.String:
		return a.Value(i), true
	case *array.LargeString:
		return a.Value(i), true
	case *array.StringView:
		return a.Value(i), true
	case array.ExtensionArray:
		return textOf(a.Storage(), i)
	case *array.Dictionary:
		return textOf(a.Dictionary(), a.GetValueIndex(i))
	case *array.RunEndEncoded:
		return textOf(a.Values(), a.GetPhysicalIndex(i))
	}
	return "", false
}

// appendJSONText appends what is JSON already, on one line.
func appendJSONText(dst []byte, text string) ([]byte, error) {
	if !utf8.ValidString(text) {
		return dst, notUTF8(text)
	}
	if !json.Valid([]byte(text)) {
		return dst, fmt.Errorf("wanted JSON, as the column's type says, got %s", quote(text))
	}
	if !strings.ContainsAny(text, "\n\r") {
		return append(dst, text...), nil
	}
	var line bytes.Buffer
	if err := json.Compact(&line, []byte(text)); err != nil {
		return dst, err
	}
	return append(dst, line.Bytes()...), nil
}

// IsNull is true if row i has no value, in whatever form the column lies: a
// dictionary and runs may have a null among their values.
func IsNull(a arrow.Array, i int) bool {
	if a.IsNull(i) {
		return true
	}
	switch a := a.(type) {
	case *array.Dictionary:
		return IsNull(a.Dictionary(), a.GetValueIndex(i))
	case *array.RunEndEncoded:
		return IsNull(a.Values(), a.GetPhysicalIndex(i))
	case array.ExtensionArray:
		return IsNull(a.Storage(), i)
	case *array.Null:
		return true
	}
	return false
}
