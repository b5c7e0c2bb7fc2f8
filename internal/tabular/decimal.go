package tabular

import (
	"errors"
	"math/big"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
)

// Bounds of decimals as text. No decimal needs as much, and what is longer
// would cost time that grows with its square.
const (
	decimalTextMax     = 1024
	decimalExponentMax = 1000
)

var (
	errScale     = errors.New("more digits after the point than its scale")
	errPrecision = errors.New("more digits than its precision")
	errLong      = errors.New("longer than decimalTextMax")
)

// splitDecimal reads "-12.34" or "1.2e3" as a sign, digits and how many of them are
// after the point, which may be fewer than none.
func splitDecimal(text string) (negative bool, digits string, scale int, err error) {
	if len(text) > decimalTextMax {
		return false, "", 0, errLong
	}
	if text != "" && (text[0] == '-' || text[0] == '+') {
		negative, text = text[0] == '-', text[1:]
	}
	number, power := text, ""
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		number, power = text[:at], text[at+1:]
	}
	whole, after, point := strings.Cut(number, ".")
	digits, scale = whole+after, len(after)
	if digits == "" || point && after == "" || strings.Trim(digits, "0123456789") != "" {
		return false, "", 0, errSyntax
	}
	if number == text {
		return negative, digits, scale, nil
	}
	exponent, err := smallInt(power)
	return negative, digits, scale - exponent, err
}

// smallInt reads an exponent.
func smallInt(text string) (int, error) {
	v, ok := new(big.Int).SetString(text, 10)
	if !ok || strings.Contains(text, "_") {
		return 0, errSyntax
	}
	if !v.IsInt64() || v.Int64() > decimalExponentMax || v.Int64() < -decimalExponentMax {
		return 0, errPrecision
	}
	return int(v.Int64()), nil
}

// parseDecimal is the number that text says, times ten to the scale: exactly,
// or an error.
func parseDecimal(text string, t arrow.DecimalType) (*big.Int, error) {
	negative, digits, scale, err := splitDecimal(text)
	if err != nil {
		return nil, err
	}
	digits = strings.TrimLeft(digits, "0")
	if digits == "" {
		return new(big.Int), nil
	}
	more := int(t.GetScale()) - scale
	if more < 0 {
		if more < -len(digits) || strings.Trim(digits[len(digits)+more:], "0") != "" {
			return nil, errScale
		}
		digits = digits[:len(digits)+more]
	}
	if len(digits)+max(more, 0) > int(t.GetPrecision()) {
		return nil, errPrecision
	}
	v, ok := new(big.Int).SetString(digits+strings.Repeat("0", max(more, 0)), 10)
	if !ok {
		return nil, errSyntax
	}
	if negative {
		v.Neg(v)
	}
	return v, nil
}

// appendDecimalText reads a decimal; false if b is of another type.
func appendDecimalText(b array.Builder, text string) (bool, error) {
	t, ok := b.Type().(arrow.DecimalType)
	if !ok {
		return false, nil
	}
	v, err := parseDecimal(text, t)
	if err != nil {
		return true, err
	}
	switch b := b.(type) {
	case *array.Decimal32Builder:
		b.Append(decimal.Decimal32(v.Int64()))
	case *array.Decimal64Builder:
		b.Append(decimal.Decimal64(v.Int64()))
	case *array.Decimal128Builder:
		b.Append(decimal128.FromBigInt(v))
	case *array.Decimal256Builder:
		b.Append(decimal256.FromBigInt(v))
	default:
		return false, nil
	}
	return true, nil
}
