package tabular

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// quotedMax bounds how much of a wrong value an error repeats.
const quotedMax = 40

func got(t arrow.DataType, text string) error {
	return fmt.Errorf("wanted %s, got %s", nameOf(t), quote(text))
}

// quote, like clip, copies: what it is given may then stay where it lies, and
// the fields of a file need no memory of their own.
func quote(text string) string {
	if len(text) > quotedMax {
		cut := quotedMax
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		return strconv.Quote(text[:cut]) + "…"
	}
	return strconv.Quote(text)
}

// appendText reads a value of b's type from a CSV field.
func appendText(b array.Builder, text string) error {
	switch b := b.(type) {
	case *array.BooleanBuilder:
		switch strings.ToLower(text) {
		case "true", "1":
			b.Append(true)
		case "false", "0":
			b.Append(false)
		default:
			return got(b.Type(), text)
		}
		return nil
	case *array.StringBuilder:
		if !utf8.ValidString(text) {
			return fmt.Errorf("wanted utf8, got bytes that are not UTF-8: %s", quote(text))
		}
		b.Append(text)
		return nil
	case *valueBuilder:
		return b.readText(text)
	case *array.BinaryBuilder:
		return appendBase64(b, text)
	}
	return appendNumber(b, text, quote)
}

// appendJSON reads a value of b's type from JSON text. Numbers are taken from
// their digits, so that no integer passes through a float.
func appendJSON(b array.Builder, raw json.RawMessage) error {
	kind := jsonKind(raw)
	switch b := b.(type) {
	case *array.BooleanBuilder:
		if kind != "boolean" {
			return wrongKind(b.Type(), kind, raw)
		}
		b.Append(raw[0] == 't')
		return nil
	case *array.StringBuilder:
		text, err := jsonText(b.Type(), kind, raw)
		if err == nil {
			b.Append(text)
		}
		return err
	case *array.BinaryBuilder:
		text, err := jsonText(b.Type(), kind, raw)
		if err != nil {
			return err
		}
		return appendBase64(b, text)
	case *valueBuilder:
		return b.readJSON(raw)
	case *array.Float32Builder, *array.Float64Builder:
		if kind == "string" { // NaN and the infinities have no JSON number
			switch text := string(raw[1 : len(raw)-1]); text {
			case "NaN", "Infinity", "-Infinity":
				return appendNumber(b, text, clip)
			}
		}
	}
	if kind != "number" {
		return wrongKind(b.Type(), kind, raw)
	}
	return appendNumber(b, string(raw), clip) // JSON gives a number no quotes
}

func jsonKind(raw json.RawMessage) string {
	switch raw[0] {
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	case '[':
		return "array"
	case '{':
		return "object"
	}
	return "number"
}

func wrongKind(t arrow.DataType, kind string, raw json.RawMessage) error {
	if kind == "string" {
		return fmt.Errorf("wanted %s, got string %s", nameOf(t), clip(string(raw)))
	}
	return fmt.Errorf("wanted %s, got %s %s", nameOf(t), kind, clip(string(raw)))
}

func clip(text string) string {
	if len(text) > quotedMax {
		return strings.ToValidUTF8(text[:quotedMax], "") + "…"
	}
	return strings.Clone(text)
}

// jsonText unquotes a string. encoding/json puts U+FFFD for half a surrogate
// pair and for bytes that are not UTF-8; here that is an error, because the
// text would not be the one that was given.
func jsonText(t arrow.DataType, kind string, raw json.RawMessage) (string, error) {
	if kind != "string" {
		return "", wrongKind(t, kind, raw)
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return "", err
	}
	given := strings.Count(string(raw), "\uFFFD") + strings.Count(strings.ToLower(string(raw)), `\ufffd`)
	if strings.Count(text, "\uFFFD") > given || !utf8.Valid(raw) {
		return "", fmt.Errorf("wanted %s, got text that is not valid Unicode: %s", nameOf(t), clip(string(raw)))
	}
	return text, nil
}

func appendBase64(b *array.BinaryBuilder, text string) error {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return fmt.Errorf("wanted binary as base64, got %s", quote(text))
	}
	b.Append(data)
	return nil
}

// appendNumber reads an integer exactly, or a float to the nearest of its
// width, but no integer to one that it is not; over the range of the type is an error, as is a fraction for an
// integer. show is how an error repeats what is no number of the type.
func appendNumber(b array.Builder, text string, show func(string) string) error {
	var err error
	switch b := b.(type) {
	case *array.Int8Builder:
		err = appendInt(text, 8, func(v int64) { b.Append(int8(v)) })
	case *array.Int16Builder:
		err = appendInt(text, 16, func(v int64) { b.Append(int16(v)) })
	case *array.Int32Builder:
		err = appendInt(text, 32, func(v int64) { b.Append(int32(v)) })
	case *array.Int64Builder:
		err = appendInt(text, 64, b.Append)
	case *array.Uint8Builder:
		err = appendUint(text, 8, func(v uint64) { b.Append(uint8(v)) })
	case *array.Uint16Builder:
		err = appendUint(text, 16, func(v uint64) { b.Append(uint16(v)) })
	case *array.Uint32Builder:
		err = appendUint(text, 32, func(v uint64) { b.Append(uint32(v)) })
	case *array.Uint64Builder:
		err = appendUint(text, 64, b.Append)
	case *array.Float32Builder:
		err = appendFloat(text, 32, func(v float64) { b.Append(float32(v)) })
	case *array.Float64Builder:
		err = appendFloat(text, 64, b.Append)
	default:
		return fmt.Errorf("text cannot be read as %s yet", b.Type())
	}
	switch {
	case errors.Is(err, errNotExact):
		return fmt.Errorf("%s is not exact in %s", clip(text), b.Type())
	case errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("wanted %s, got %s, which is out of its range", b.Type(), clip(text))
	case err != nil:
		return fmt.Errorf("wanted %s, got %s", b.Type(), show(text))
	}
	return nil
}

func appendInt(text string, bits int, add func(int64)) error {
	v, err := strconv.ParseInt(text, 10, bits)
	if err == nil {
		add(v)
	}
	return err
}

func appendUint(text string, bits int, add func(uint64)) error {
	v, err := strconv.ParseUint(text, 10, bits)
	if err != nil && strings.HasPrefix(text, "-") {
		// ParseUint calls -1 a syntax error; to people it is out of range.
		if _, signed := strconv.ParseInt(text, 10, 64); signed == nil {
			return strconv.ErrRange
		}
	}
	if err == nil {
		add(v)
	}
	return err
}

// errNotExact is an integer that no float of the width is: an id, for instance,
// that would silently become its neighbour.
var errNotExact = errors.New("not exact")

// Any integer of so many digits is exact.
const (
	exactDigits16 = 3
	exactDigits32 = 7
	exactDigits64 = 15
)

// exact is false for an integer literal that v is not. Other literals round to
// the nearest float as everywhere, and so does an integer that is spelled as
// AppendJSON spells v: its shortest digits and zeros, as in 1152921504606847000
// for 2⁶⁰. What was printed has to be readable again.
func exact(text string, v float64, bits int) bool {
	digits := strings.TrimLeft(strings.TrimLeft(text, "+-"), "0")
	enough := exactDigits64
	switch bits {
	case 16:
		enough = exactDigits16
	case 32:
		enough = exactDigits32
	}
	if len(digits) <= enough || strings.Trim(digits, "0123456789") != "" {
		return true
	}
	v = math.Abs(v)
	if bits == 16 { // none is too large to be spelled out
		return digits == strconv.FormatFloat(v, 'f', -1, 64)
	}
	return digits == strconv.FormatFloat(v, 'f', 0, bits) || digits == strconv.FormatFloat(v, 'f', -1, bits)
}

func appendFloat(text string, bits int, add func(float64)) error {
	// ParseFloat also reads Go's hexadecimal floats and their underscores,
	// which no other reader of the file would take for a number.
	if strings.ContainsAny(text, "xX_") {
		return strconv.ErrSyntax
	}
	v, err := strconv.ParseFloat(text, bits)
	if err != nil {
		return err
	}
	if !exact(text, v, bits) {
		return errNotExact
	}
	add(v)
	return nil
}
