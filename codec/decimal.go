package codec

import (
	"encoding/binary"
	"math/bits"
	"strconv"

	"github.com/udfgate/udfgate"
)

// decimalTextMax is the most text that stands for a decimal of so many bytes and
// such a scale: a sign, the digits of any number of that width, which a sender
// may put there whatever the precision, or a zero before the point and all that
// is after it, and an exponent.
func decimalTextMax(width int, scale int32) int64 {
	digits := map[int]int64{4: 10, 8: 19, 16: 39, 32: 77}[width]
	return 1 + max(digits, int64(scale)+1) + 1 + exponentBytes
}

// appendDecimal writes a little-endian two's complement number of 4 to 32 bytes
// with a point before its last scale digits; a negative scale as an exponent.
func appendDecimal(dst, b []byte, scale int32) []byte {
	from := len(dst)
	dst = appendUnscaled(dst, b)
	switch {
	case scale < 0:
		return strconv.AppendInt(append(dst, "E+"...), int64(-scale), 10)
	case scale == 0:
		return dst
	}
	if dst[from] == '-' {
		from++
	}
	const zeros = "0000000000000000000000000000000000000000000000000000000000000000000000000000000000"
	if short := int(scale) + 1 - (len(dst) - from); short > 0 { // leading zeros up to the one before the point
		dst = append(dst, zeros[:short]...)
		copy(dst[from+short:], dst[from:])
		copy(dst[from:], zeros[:short])
	}
	point := len(dst) - int(scale)
	dst = append(dst, 0)
	copy(dst[point+1:], dst[point:])
	dst[point] = '.'
	return dst
}

func appendUnscaled(dst, b []byte) []byte {
	le := binary.LittleEndian
	if len(b) == 4 {
		return strconv.AppendInt(dst, int64(int32(le.Uint32(b))), 10)
	}
	low := int64(le.Uint64(b))
	rest := b[8:]
	for len(rest) > 0 && int64(le.Uint64(rest)) == low>>63 {
		rest = rest[8:]
	}
	if len(rest) == 0 { // the usual case: it fits 64 bits
		return strconv.AppendInt(dst, low, 10)
	}
	return appendWide(dst, b)
}

// chunkDigits is how many digits always fit 64 bits.
const chunkDigits = 19

// appendWide writes a number of more than 64 bits, 19 digits at a time.
func appendWide(dst, b []byte) []byte {
	var words [4]uint64
	n := len(b) / 8
	for i := range n {
		words[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	if int64(words[n-1]) < 0 {
		dst = append(dst, '-')
		carry := uint64(1)
		for i := range n {
			words[i], carry = bits.Add64(^words[i], 0, carry)
		}
	}
	const chunk = 1e19
	var chunks [5]uint64 // of 19 digits, the lowest first: 77 digits at most
	count := 0
	for ; n > 0; count++ {
		rest := uint64(0)
		for i := n - 1; i >= 0; i-- {
			words[i], rest = bits.Div64(rest, words[i], chunk)
		}
		chunks[count] = rest
		for n > 0 && words[n-1] == 0 {
			n--
		}
	}
	dst = strconv.AppendUint(dst, chunks[count-1], 10)
	for i := count - 2; i >= 0; i-- {
		var digits [chunkDigits]byte
		for d, v := chunkDigits-1, chunks[i]; d >= 0; d, v = d-1, v/10 {
			digits[d] = byte('0' + v%10)
		}
		dst = append(dst, digits[:]...)
	}
	return dst
}

// Bounds of decimals as text: longer text or larger exponents are none of ours.
const (
	decimalReadMax     = 255
	decimalExponentMax = 1000
)

// parseDecimal reads "-12.34" or "1.2E+3" as the digits of a decimal type,
// little-endian in the first bytes of out; false if it is no number, has more
// digits after the point than the scale, or more in all than the precision. The
// text must not change meanwhile.
func parseDecimal(out *[32]byte, text []byte, t *udfgate.Type) bool {
	negative := len(text) > 0 && text[0] == '-'
	if negative {
		text = text[1:]
	}
	var room [decimalReadMax]byte
	digits, exponent, point := room[:0], 0, false
	for i, c := range text {
		switch {
		case c >= '0' && c <= '9':
			digits = append(digits, c)
			if point {
				exponent--
			}
		case c == '.' && !point:
			point = true
		case c == 'E' || c == 'e':
			power, err := strconv.Atoi(string(text[i+1:]))
			if err != nil || power > decimalExponentMax || power < -decimalExponentMax {
				return false
			}
			return len(digits) > 0 && scaleDecimal(out, digits, exponent+power, negative, t)
		default:
			return false
		}
	}
	return len(digits) > 0 && scaleDecimal(out, digits, exponent, negative, t)
}

// scaleDecimal is digits·10^exponent as the unscaled number of a type.
func scaleDecimal(out *[32]byte, digits []byte, exponent int, negative bool, t *udfgate.Type) bool {
	*out = [32]byte{}
	for len(digits) > 0 && digits[0] == '0' {
		digits = digits[1:]
	}
	if len(digits) == 0 {
		return true
	}
	shift := exponent + int(t.Scale) // zeros to append to reach the scale
	for ; shift < 0 && len(digits) > 0 && digits[len(digits)-1] == '0'; shift++ {
		digits = digits[:len(digits)-1]
	}
	if shift < 0 || len(digits)+shift > int(t.Precision) {
		return false
	}
	for range shift {
		digits = append(digits, '0')
	}
	var words [4]uint64
	for len(digits) > 0 { // 76 digits are less than 255 bits
		n := min(len(digits), chunkDigits)
		power, carry := uint64(1), uint64(0)
		for _, c := range digits[:n] {
			power, carry = power*10, carry*10+uint64(c-'0')
		}
		for i, w := range words {
			high, low := bits.Mul64(w, power)
			var over uint64
			words[i], over = bits.Add64(low, carry, 0)
			carry = high + over
		}
		digits = digits[n:]
	}
	carry := uint64(1)
	for i, w := range words {
		if negative {
			w, carry = bits.Add64(^w, 0, carry)
		}
		binary.LittleEndian.PutUint64(out[8*i:], w)
	}
	return true
}
