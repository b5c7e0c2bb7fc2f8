package tabular

import (
	"math"
	"math/big"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow/float16"
)

// Half floats have 10 bits after the point. arrow-go's own conversions cut what
// they should round, and lose the smallest numbers.
const (
	halfBits    = 10
	halfLeast   = -24 // power of two of the smallest
	halfNormal  = -14 // and of the smallest with all bits
	halfMost    = 15
	halfNaN     = 0x7e00
	halfInf     = 0x7c00
	halfSign    = 0x8000
	halfSubtext = 256 // bits of a number that decides a tie
)

// halfFloat is a half as the float64 that it is exactly.
func halfFloat(h float16.Num) float64 {
	b := h.Uint16()
	fraction, exponent := float64(b&(1<<halfBits-1)), int(b>>halfBits&0x1f)
	v := math.Ldexp(fraction, halfLeast)
	switch exponent {
	case 0:
	case 0x1f:
		if v = math.Inf(1); fraction != 0 {
			return math.NaN()
		}
	default:
		v = math.Ldexp(fraction+1<<halfBits, exponent-halfMost-halfBits)
	}
	if b&halfSign != 0 {
		v = -v
	}
	return v
}

// roundHalf is the half nearest to v, the even one of two; side says which way
// from v the number lies that v stands for. False if it is over the range.
func roundHalf(v float64, side int) (float16.Num, bool) {
	sign := uint16(0)
	if math.Signbit(v) {
		sign, v, side = halfSign, -v, -side
	}
	switch {
	case math.IsNaN(v):
		return float16.FromBits(halfNaN), true
	case math.IsInf(v, 0):
		return float16.FromBits(sign | halfInf), true
	}
	_, exponent := math.Frexp(v)
	step := max(exponent-1, halfNormal) - halfBits // power of two of the last bit
	scaled := math.Ldexp(v, -step)
	whole := math.Floor(scaled)
	switch rest := scaled - whole; {
	case rest > 0.5, rest == 0.5 && (side > 0 || side == 0 && math.Mod(whole, 2) == 1):
		whole++
	}
	v = math.Ldexp(whole, step)
	if v > 65504 {
		return float16.Num{}, false
	}
	if v < math.Ldexp(1, halfNormal) {
		return float16.FromBits(sign | uint16(math.Ldexp(v, -halfLeast))), true
	}
	_, exponent = math.Frexp(v)
	exponent--
	fraction := uint16(math.Ldexp(v, halfBits-exponent)) - 1<<halfBits
	return float16.FromBits(sign | uint16(exponent+halfMost)<<halfBits | fraction), true
}

// parseHalf reads a float to the nearest half, but no integer to one that it is
// not.
func parseHalf(text string) (h float16.Num, err error) {
	fits := true
	err = appendFloat(text, 64, func(v float64) { h, fits = roundHalf(v, sideOf(text, v)) })
	switch {
	case err != nil:
		return h, err
	case !fits:
		return h, strconv.ErrRange
	case !exact(text, halfFloat(h), 16):
		return h, errNotExact
	}
	return h, nil
}

// sideOf says on which side of v, its nearest float64, the number lies.
func sideOf(text string, v float64) int {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	whole, _, err := big.ParseFloat(text, 10, halfSubtext, big.ToNearestEven)
	if err != nil {
		return 0
	}
	return whole.Cmp(big.NewFloat(v))
}
