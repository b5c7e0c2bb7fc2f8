package codec

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/udfgate/udfgate"
)

// This file looks at answers for values that their type does not have, though
// its bytes hold them: a time of day beyond a day, a date64 that is not a whole
// day, a decimal of more digits than its precision. Readers must not be handed
// what they take for granted. What is null or cannot be seen is let pass.
//
// Of an answer in flat form the worker is asked which value it is. In arrow form
// a worker looks first, and one that does not is broken.

// firstUnfit is the first of so many values that is none of the type's, has its
// bit in the validity, if there is one, and is seen; -1 if there is none.
func firstUnfit(t *udfgate.Type, values []byte, length int64, validity []byte, seen reach) int64 {
	if !anyUnfit(t, values) {
		return -1
	}
	width := int64(t.Kind.Width())
	for i := range length {
		if anyUnfit(t, values[i*width:][:width]) && bitSet(validity, i) && seen(i) {
			return i
		}
	}
	return -1
}

// unfit is firstUnfit of what has been copied.
func (t *taker) unfit(typ *udfgate.Type) int64 {
	return firstUnfit(typ, t.in(t.values), t.rows, t.in(t.validity), always)
}

func errUnfit(row int64, t *udfgate.Type) error {
	return fmt.Errorf("value %d is none of %s", row, t)
}

// ranged refuses such values in a verified column and in those below it.
func ranged(body []byte, c *Column, seen reach) error {
	validity := body[c.Validity.Off:c.Validity.End()]
	if row := firstUnfit(c.Type, body[c.Values.Off:c.Values.End()], c.Length, validity, seen); row >= 0 {
		return errUnfit(row, c.Type)
	}
	for i := range c.Children {
		if !hasRange(&c.Type.Children[i].Type) {
			continue
		}
		if err := ranged(body, &c.Children[i], seenBelow(body, c, seen)); err != nil {
			return fmt.Errorf("%s: %w", childName(c.Type, &c.Type.Children[i]), err)
		}
	}
	return nil
}

// hasRange reports whether bytes of a type, or of one below it, may be no value.
func hasRange(t *udfgate.Type) bool {
	switch t.Kind {
	case udfgate.Time32, udfgate.Time64, udfgate.Date64,
		udfgate.Decimal32, udfgate.Decimal64, udfgate.Decimal128, udfgate.Decimal256:
		return true
	}
	for i := range t.Children {
		if hasRange(&t.Children[i].Type) {
			return true
		}
	}
	return false
}

// anyUnfit reports whether any of the values, whose first byte lies at a
// multiple of their width or of 8, is none of the type's.
func anyUnfit(t *udfgate.Type, values []byte) bool {
	switch t.Kind {
	case udfgate.Time32:
		_, most := rangeOf(t)
		return anyBeyond(int32s(values), 0, uint32(most))
	case udfgate.Time64:
		_, most := rangeOf(t)
		return anyBeyond(offsetsIn[int64](values), 0, uint64(most))
	case udfgate.Date64:
		rest := int64(0)
		for _, v := range offsetsIn[int64](values) {
			rest |= v % dayMillis
		}
		return rest != 0
	case udfgate.Decimal32:
		most := int32(powerOfTen(t.Precision)[0] - 1)
		return anyBeyond(int32s(values), -most, uint32(2*most))
	case udfgate.Decimal64:
		most := int64(powerOfTen(t.Precision)[0] - 1)
		return anyBeyond(offsetsIn[int64](values), -most, uint64(2*most))
	case udfgate.Decimal128:
		return anyWide128(values, powerOfTen(t.Precision))
	case udfgate.Decimal256:
		return anyWide256(values, powerOfTen(t.Precision))
	default:
		return false
	}
}

// anyBeyond reports whether a value is less than least or more than least + span.
func anyBeyond[T int32 | int64, U uint32 | uint64](values []T, least T, span U) bool {
	beyond := false
	for _, v := range values {
		if U(v-least) > span {
			beyond = true
		}
	}
	return beyond
}

// powerOfTen is 10 to the digits, at most 76, in words of which the lowest comes first.
func powerOfTen(digits int32) (words [4]uint64) {
	words[0] = 1
	for range digits {
		carry := uint64(0)
		for i, w := range words {
			high, low := bits.Mul64(w, 10)
			sum, more := bits.Add64(low, carry, 0)
			words[i], carry = sum, high+more
		}
	}
	return words
}

// anyWide128 reports whether the size of a number of two words is not below limit.
func anyWide128(values []byte, limit [4]uint64) bool {
	for ; len(values) >= 16; values = values[16:] {
		low, high := binary.LittleEndian.Uint64(values), binary.LittleEndian.Uint64(values[8:])
		sign := uint64(int64(high) >> 63)
		low, carry := bits.Add64(low^sign, sign&1, 0)
		high, _ = bits.Add64(high^sign, 0, carry)
		_, below := bits.Sub64(low, limit[0], 0)
		if _, below = bits.Sub64(high, limit[1], below); below == 0 {
			return true
		}
	}
	return false
}

// anyWide256 is anyWide128 of four words.
func anyWide256(values []byte, limit [4]uint64) bool {
	for ; len(values) >= 32; values = values[32:] {
		sign := uint64(int64(binary.LittleEndian.Uint64(values[24:])) >> 63)
		carry, below := sign&1, uint64(0)
		for i, most := range limit {
			var word uint64
			word, carry = bits.Add64(binary.LittleEndian.Uint64(values[8*i:])^sign, 0, carry)
			_, below = bits.Sub64(word, most, below)
		}
		if below == 0 {
			return true
		}
	}
	return false
}
