package tabular

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/internal/arrowtype"
)

// valueBuilder takes values of the types that one word of text does not always
// stand for: dates, decimals, JSON, and everything nested.
type valueBuilder struct {
	array.Builder
	field arrow.Field
	name  string // of the type, for errors
	blank int64  // bytes of a null
	used  *int   // bytes that nulls took, beside the text that is counted already
	nulls int64  // bytes that nulls took within this value
}

// nullBytesMax bounds what nulls take within one value, and one null by itself:
// a null in a list of fixed size is five letters in JSON and may be any number
// of bytes.
const nullBytesMax = 64 << 20

func newValueBuilder(b array.Builder, f arrow.Field, used *int) *valueBuilder {
	return &valueBuilder{Builder: b, field: f, name: arrowtype.Name(f), blank: blankBytes(f.Type), used: used}
}

func nameOf(t arrow.DataType) string { return arrowtype.Name(arrow.Field{Type: t}) }

// AppendNull appends a null.
func (b *valueBuilder) AppendNull() {
	*b.used += int(b.blank)
	b.Builder.AppendNull()
}

// blankBytes is how many bytes a null takes, offsets and bits left out; more
// than nullBytesMax is as bad.
func blankBytes(t arrow.DataType) int64 {
	switch t := t.(type) {
	case arrow.ExtensionType:
		return blankBytes(t.StorageType())
	case *arrow.FixedSizeListType:
		if n := blankBytes(t.Elem()); n <= nullBytesMax && int64(t.Len()) <= nullBytesMax {
			return n * int64(t.Len())
		}
		return nullBytesMax + 1
	case *arrow.StructType:
		total := int64(1)
		for _, f := range t.Fields() {
			total += blankBytes(f.Type)
		}
		return total
	case arrow.FixedWidthDataType:
		return int64(t.BitWidth()+7) / 8
	}
	return 1
}

func (b *valueBuilder) readText(text string) error {
	b.nulls = 0
	return b.text(b.Builder, b.field, text)
}

func (b *valueBuilder) readJSON(raw json.RawMessage) error {
	if !utf8.Valid(raw) {
		return fmt.Errorf("wanted %s, got text that is not valid Unicode: %s", b.name, clip(string(raw)))
	}
	b.nulls = 0
	return b.json(b.Builder, b.field, raw)
}

// storage is the builder below an extension type.
func storage(b array.Builder) (array.Builder, string) {
	e, ok := b.(interface{ StorageBuilder() array.Builder })
	if !ok {
		return b, ""
	}
	t, _ := b.Type().(arrow.ExtensionType)
	return e.StorageBuilder(), t.ExtensionName()
}

// below is the builder of a field's storage and the name of its extension,
// which arrow-go may not know.
func below(b array.Builder, f arrow.Field) (array.Builder, string) {
	b, extension := storage(b)
	if extension == "" {
		extension, _ = f.Metadata.GetValue(udfgate.ExtensionKey)
	}
	return b, extension
}

// text reads a field of CSV.
func (b *valueBuilder) text(to array.Builder, f arrow.Field, text string) error {
	storage, extension := below(to, f)
	switch {
	case overJSON(extension):
		return appendJSONValue(storage, text)
	case arrow.IsNested(bare(f.Type).ID()):
		raw := json.RawMessage(strings.TrimSpace(text))
		if !utf8.Valid(raw) {
			return notUTF8(text)
		}
		if !json.Valid(raw) {
			return fmt.Errorf("wanted %s as JSON, got %s", b.name, quote(text))
		}
		if raw[0] == 'n' {
			return b.null(to, f)
		}
		return b.json(to, f, raw)
	}
	return b.scalar(storage, f, extension, text, quote)
}

// overJSON is true for extensions over text that is JSON, or for Databend's over
// its bytes.
func overJSON(extension string) bool {
	switch extension {
	case udfgate.ExtensionJSON, udfgate.ExtensionUDFJSON, udfgate.ExtensionVariant:
		return true
	}
	return false
}

// jsonDepthMax bounds the nesting of a value that stays JSON: what reads it next
// follows it level by level.
const jsonDepthMax = 500

// appendJSONValue appends text that is JSON, as it stands.
func appendJSONValue(b array.Builder, text string) error {
	switch {
	case !utf8.ValidString(text):
		return notUTF8(text)
	case !json.Valid([]byte(text)):
		return fmt.Errorf("wanted JSON, got %s", quote(text))
	case jsonDepth(text) > jsonDepthMax:
		return fmt.Errorf("wanted JSON nested at most %d deep (jsonDepthMax), got more", jsonDepthMax)
	}
	return appendPlain(b, text)
}

// jsonDepth is how deep valid JSON is nested.
func jsonDepth(text string) (most int) {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[', c == '{':
			depth++
			most = max(most, depth)
		case c == ']', c == '}':
			depth--
		}
	}
	return most
}

// appendPlain appends text to a column of text or bytes in either size.
func appendPlain(b array.Builder, text string) error {
	switch b := b.(type) {
	case *array.StringBuilder:
		b.Append(text)
	case *array.LargeStringBuilder:
		b.Append(text)
	case *array.BinaryBuilder: // large_binary too
		b.Append([]byte(text))
	default:
		return fmt.Errorf("wanted text below an extension, got %s", nameOf(b.Type()))
	}
	return nil
}

// json reads a value that is not null from valid JSON.
func (b *valueBuilder) json(to array.Builder, f arrow.Field, raw json.RawMessage) error {
	storage, extension := below(to, f)
	kind := jsonKind(raw)
	switch storage := storage.(type) {
	case *array.BooleanBuilder, *array.Float32Builder, *array.Float64Builder:
		return appendJSON(storage, raw)
	case *array.StringBuilder, *array.LargeStringBuilder:
		if overJSON(extension) {
			return appendJSONValue(storage, string(raw))
		}
		if extension == udfgate.ExtensionUDFDecimal && kind == "number" {
			return appendPlain(storage, string(raw))
		}
	case *array.BinaryBuilder:
		if overJSON(extension) {
			return appendJSONValue(storage, string(raw))
		}
	case *array.ListBuilder, *array.LargeListBuilder, *array.FixedSizeListBuilder:
		return b.list(storage, bare(f.Type), raw)
	case *array.StructBuilder:
		return b.members(storage, bare(f.Type), raw)
	case *array.MapBuilder:
		return b.entries(storage, bare(f.Type), raw)
	case *array.Float16Builder:
		if kind == "string" {
			switch text := string(raw[1 : len(raw)-1]); text {
			case "NaN", "Infinity", "-Infinity":
				return b.scalar(storage, f, extension, text, clip)
			}
		}
	}
	if id := bare(f.Type).ID(); arrow.IsInteger(id) || id == arrow.FLOAT16 || arrow.IsDecimal(id) && kind == "number" {
		if kind != "number" {
			return wrongKind(bare(f.Type), kind, raw)
		}
		return b.scalar(storage, f, extension, string(raw), clip)
	}
	text, err := jsonText(f.Type, kind, raw)
	if err != nil {
		return err
	}
	return b.scalar(storage, f, extension, text, quote)
}

// null appends a null within a value.
func (b *valueBuilder) null(to array.Builder, f arrow.Field) error {
	n := blankBytes(f.Type)
	if b.nulls += n; b.nulls > nullBytesMax {
		return fmt.Errorf("wanted a value whose nulls take at most %d MiB (nullBytesMax), got more", nullBytesMax>>20)
	}
	*b.used += int(n)
	to.AppendNull()
	return nil
}

// value appends what is an item or member, null or not.
func (b *valueBuilder) value(to array.Builder, f arrow.Field, raw json.RawMessage) error {
	if raw[0] == 'n' {
		return b.null(to, f)
	}
	return b.json(to, f, raw)
}

// scalar reads a value that one text stands for; show is how an error repeats
// the text.
func (b *valueBuilder) scalar(to array.Builder, f arrow.Field, extension, text string, show func(string) string) error {
	form, err := "", error(nil)
	switch to := to.(type) {
	case *array.NullBuilder:
		err = errSyntax
	case *array.Float16Builder:
		err = put(to.Append)(parseHalf(text))
	case *array.StringBuilder, *array.LargeStringBuilder:
		if !utf8.ValidString(text) {
			return notUTF8(text)
		}
		if extension == udfgate.ExtensionUDFDecimal {
			form, err = " such as 12.50", checkDecimal(text)
		}
		if err == nil {
			return appendPlain(to, text)
		}
	case *array.BinaryBuilder:
		form = " as base64"
		var data []byte
		if data, err = base64.StdEncoding.DecodeString(text); err == nil {
			to.Append(data)
			return nil
		}
		err = errSyntax
	case *array.FixedSizeBinaryBuilder:
		return appendFixed(to, f, extension, text)
	case *array.Date32Builder, *array.Date64Builder, *array.Time32Builder, *array.Time64Builder, *array.TimestampBuilder:
		form, err = appendMoment(to, text)
	case *array.DurationBuilder, *array.MonthIntervalBuilder, *array.DayTimeIntervalBuilder, *array.MonthDayNanoIntervalBuilder:
		form, err = appendSpanText(to, text)
	default:
		var decimal bool
		if decimal, err = appendDecimalText(to, text); !decimal {
			return appendNumber(to, text, show)
		}
	}
	if err == nil {
		return nil
	}
	return misfit(arrowtype.Name(f), form, text, err, show)
}

// misfit says what is wrong with a text that a parser has refused.
func misfit(name, form, text string, err error, show func(string) string) error {
	which := ""
	switch {
	case errors.Is(err, errNotExact):
		return fmt.Errorf("%s is not exact in %s", clip(text), name)
	case errors.Is(err, errLong):
		return fmt.Errorf("wanted %s of at most %d characters (decimalTextMax), got %d", name, decimalTextMax, len(text))
	case errors.Is(err, strconv.ErrRange):
		form, which = "", ", which is out of its range"
	case errors.Is(err, errOffset):
		form = " with an offset such as Z or +01:00"
	case errors.Is(err, errNoOffset):
		form = " without an offset"
	case errors.Is(err, errOutOfDate):
		form, which = "", ", which is no day of the calendar"
	case errors.Is(err, errScale), errors.Is(err, errPrecision):
		form, which = "", ", which has "+err.Error()
	}
	if which != "" {
		show = clip
	}
	return fmt.Errorf("wanted %s%s, got %s%s", name, form, show(text), which)
}

// put appends what a parser has made, unless it is an error.
func put[T any](add func(T)) func(T, error) error {
	return func(v T, err error) error {
		if err == nil {
			add(v)
		}
		return err
	}
}

// The forms that errors name.
const (
	dateText    = " as YYYY-MM-DD"
	timeText    = " as HH:MM:SS"
	stampText   = " as YYYY-MM-DDTHH:MM:SS"
	instantText = " as YYYY-MM-DDTHH:MM:SSZ"
	spanText    = " as an ISO 8601 duration such as "
)

func appendMoment(to array.Builder, text string) (form string, err error) {
	switch to := to.(type) {
	case *array.Date32Builder:
		days, err := parseDate(text)
		if err == nil {
			var fits int32
			if fits, err = small(days); err == nil {
				to.Append(arrow.Date32(fits))
			}
		}
		return dateText, err
	case *array.Date64Builder:
		days, err := parseDate(text)
		if err == nil {
			days, err = timesPlus(days, day.Milliseconds(), 0)
		}
		return dateText, put(func(ms int64) { to.Append(arrow.Date64(ms)) })(days, err)
	case *array.Time32Builder:
		unit, _ := to.Type().(*arrow.Time32Type)
		return timeText, put(func(v int64) { to.Append(arrow.Time32(v)) })(parseTime(text, unit.Unit))
	case *array.Time64Builder:
		unit, _ := to.Type().(*arrow.Time64Type)
		return timeText, put(func(v int64) { to.Append(arrow.Time64(v)) })(parseTime(text, unit.Unit))
	case *array.TimestampBuilder:
		t, _ := to.Type().(*arrow.TimestampType)
		form = stampText
		if t.TimeZone != "" {
			form = instantText
		}
		return form, put(func(v int64) { to.Append(arrow.Timestamp(v)) })(parseTimestamp(text, t))
	}
	return "", errSyntax
}

func appendSpanText(to array.Builder, text string) (form string, err error) {
	switch to := to.(type) {
	case *array.DurationBuilder:
		unit, _ := to.Type().(*arrow.DurationType)
		return spanText + "PT1.5S", put(func(v int64) { to.Append(arrow.Duration(v)) })(parseDuration(text, unit.Unit))
	case *array.MonthIntervalBuilder:
		return spanText + "P1Y2M", put(to.Append)(parseMonths(text))
	case *array.DayTimeIntervalBuilder:
		return spanText + "P1DT2H", put(to.Append)(parseDayTime(text))
	case *array.MonthDayNanoIntervalBuilder:
		return spanText + "P1M2DT3H", put(to.Append)(parseMonthDayNano(text))
	}
	return "", errSyntax
}

// checkDecimal is an error if text is none that a decimal as text may be.
func checkDecimal(text string) error {
	switch text {
	case "NaN", "Infinity", "-Infinity":
		return nil
	}
	_, _, _, err := splitDecimal(text)
	return err
}

// uuidBytes and uuidDashes are how a UUID is written: 8-4-4-4-12.
const uuidBytes = 16

var uuidDashes = [...]int{8, 13, 18, 23}

func parseUUID(text string) (id [uuidBytes]byte, ok bool) {
	if len(text) != 2*uuidBytes+len(uuidDashes) {
		return id, false
	}
	for _, at := range uuidDashes {
		if text[at] != '-' {
			return id, false
		}
	}
	digits := strings.ReplaceAll(text, "-", "")
	if len(digits) != 2*uuidBytes {
		return id, false
	}
	_, err := hex.Decode(id[:], []byte(digits))
	return id, err == nil
}

func appendUUID(dst, id []byte) []byte {
	for i, from := range []int{0, 4, 6, 8, 10} {
		if i > 0 {
			dst = append(dst, '-')
		}
		to := []int{4, 6, 8, 10, uuidBytes}[i]
		dst = hex.AppendEncode(dst, id[from:to])
	}
	return dst
}

func appendFixed(b *array.FixedSizeBinaryBuilder, f arrow.Field, extension, text string) error {
	t, _ := b.Type().(*arrow.FixedSizeBinaryType)
	if extension == udfgate.ExtensionUUID && t.ByteWidth == uuidBytes {
		id, ok := parseUUID(text)
		if !ok {
			return fmt.Errorf("wanted a UUID such as 123e4567-e89b-12d3-a456-426614174000, got %s", quote(text))
		}
		b.Append(id[:])
		return nil
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return fmt.Errorf("wanted %s as base64, got %s", arrowtype.Name(f), quote(text))
	}
	if len(data) != t.ByteWidth {
		return fmt.Errorf("wanted %s, got %s", arrowtype.Name(f), count(len(data), "byte"))
	}
	b.Append(data)
	return nil
}
