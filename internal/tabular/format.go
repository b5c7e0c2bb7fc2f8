package tabular

import (
	"encoding/base64"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// AppendJSON appends row i of a as JSON: integers exact, NaN and infinities as
// strings, binary as base64.
func AppendJSON(dst []byte, a arrow.Array, i int) []byte {
	if a.IsNull(i) {
		return append(dst, "null"...)
	}
	switch a := a.(type) {
	case *array.String:
		return appendQuoted(dst, a.Value(i))
	case *array.Binary:
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, a.Value(i))
		return append(dst, '"')
	case *array.Float32:
		return appendFloatJSON(dst, float64(a.Value(i)), 32)
	case *array.Float64:
		return appendFloatJSON(dst, a.Value(i), 64)
	}
	return appendExact(dst, a, i)
}

// AppendText appends row i of a as people read it in a table; null must be
// told apart by the caller.
func AppendText(dst []byte, a arrow.Array, i int) []byte {
	switch a := a.(type) {
	case *array.String:
		return append(dst, a.Value(i)...)
	case *array.Binary:
		return base64.StdEncoding.AppendEncode(dst, a.Value(i))
	case *array.Float32:
		return append(dst, strings.Trim(string(appendFloatJSON(nil, float64(a.Value(i)), 32)), `"`)...)
	case *array.Float64:
		return append(dst, strings.Trim(string(appendFloatJSON(nil, a.Value(i), 64)), `"`)...)
	}
	if text, ok := textOf(a, i); ok {
		return append(dst, text...)
	}
	at := len(dst)
	dst = appendExact(dst, a, i)
	// Dates, decimals and bytes are JSON strings of which nothing is escaped.
	if n := len(dst); n > at+1 && dst[at] == '"' && dst[n-1] == '"' {
		return append(dst[:at], dst[at+1:n-1]...)
	}
	return dst
}

// appendExact appends bool and the integers, whose text and JSON are alike, and
// leaves the rest to appendOther.
func appendExact(dst []byte, a arrow.Array, i int) []byte {
	switch a := a.(type) {
	case *array.Boolean:
		return strconv.AppendBool(dst, a.Value(i))
	case *array.Int8:
		return strconv.AppendInt(dst, int64(a.Value(i)), 10)
	case *array.Int16:
		return strconv.AppendInt(dst, int64(a.Value(i)), 10)
	case *array.Int32:
		return strconv.AppendInt(dst, int64(a.Value(i)), 10)
	case *array.Int64:
		return strconv.AppendInt(dst, a.Value(i), 10)
	case *array.Uint8:
		return strconv.AppendUint(dst, uint64(a.Value(i)), 10)
	case *array.Uint16:
		return strconv.AppendUint(dst, uint64(a.Value(i)), 10)
	case *array.Uint32:
		return strconv.AppendUint(dst, uint64(a.Value(i)), 10)
	case *array.Uint64:
		return strconv.AppendUint(dst, a.Value(i), 10)
	}
	return appendOther(dst, a, i)
}

// appendFloatJSON writes the shortest digits that read back as the same float.
// Like ECMAScript it leaves the exponent out between 1e-6 and 1e21.
func appendFloatJSON(dst []byte, v float64, bits int) []byte {
	switch {
	case math.IsNaN(v):
		return append(dst, `"NaN"`...)
	case math.IsInf(v, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(v, -1):
		return append(dst, `"-Infinity"`...)
	}
	if abs := math.Abs(v); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		return strconv.AppendFloat(dst, v, 'e', -1, bits)
	}
	return strconv.AppendFloat(dst, v, 'f', -1, bits)
}

// appendQuoted writes a JSON string without escaping what need not be: the
// output is for people and programs, not for a page.
func appendQuoted(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(append(dst, s[from:i]...), "\uFFFD"...)
				from = i + 1
			}
			i += size
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' && c != 0x7f {
			i++
			continue
		}
		dst = append(dst, s[from:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		from = i
	}
	return append(append(dst, s[from:]...), '"')
}
