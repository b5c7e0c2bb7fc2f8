package codec

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/udfgate/udfgate"
)

// Eight bytes of 0 or 1 become eight bits by one multiplication: each byte
// lands in its own bit of the product's top byte.
const (
	lowBits = 0x0101010101010101
	packMul = 0x0102040810204080
)

// packBytes writes one bit per byte of src, which must all be 0 or 1, and
// returns the number of ones. Each byte is read once. bad is the first row that
// is neither, or -1.
func packBytes(dst, src []byte) (ones, bad int64) {
	n := len(src) / 8 * 8
	for i := 0; i < n; i += 8 {
		w := binary.LittleEndian.Uint64(src[i:])
		if w&^uint64(lowBits) != 0 {
			return ones, int64(i) + firstNotBit(w)
		}
		b := byte(w * packMul >> 56)
		dst[i/8] = b
		ones += int64(bits.OnesCount8(b))
	}
	if n < len(src) {
		var b byte
		for i, v := range src[n:] {
			if v > 1 {
				return ones, int64(n + i)
			}
			b |= v << i
		}
		dst[n/8] = b
		ones += int64(bits.OnesCount8(b))
	}
	return ones, -1
}

func firstNotBit(w uint64) int64 {
	for i := range int64(8) {
		if byte(w>>(8*i)) > 1 {
			return i
		}
	}
	return 0
}

// flat takes [valid, values] with one byte per row in valid and in bool values.
func (t *taker) flat(typ *udfgate.Type) error {
	if err := t.wantBuffers(2); err != nil {
		return err
	}
	valid, err := t.flatValid()
	if err != nil {
		return err
	}
	need := t.rows * int64(t.kind.Width())
	size := need
	if t.kind == udfgate.Bool {
		need, size = t.rows, bitmapLen(t.rows)
	}
	values, err := t.source(1, "values", need)
	if err != nil {
		return err
	}
	t.values = t.place(size)
	if err := t.allocate(); err != nil {
		return err
	}
	if t.validity.Length > 0 {
		ones, bad := packBytes(t.in(t.validity), valid[:t.rows])
		if bad >= 0 {
			return fmt.Errorf("row %d: valid byte is neither 0 nor 1", bad)
		}
		t.nulls = t.rows - ones
	}
	if t.kind != udfgate.Bool {
		copy(t.in(t.values), values)
		if row := t.unfit(typ); row >= 0 {
			return &TagError{Row: row, Tag: tagInt} // the worker has not looked: it says which value it is, as for any wrong one
		}
		return nil
	}
	if _, bad := packBytes(t.in(t.values), values[:t.rows]); bad >= 0 {
		return fmt.Errorf("row %d: bool byte is neither 0 nor 1", bad)
	}
	return nil
}

func (t *taker) flatValid() ([]byte, error) {
	if t.rc.Buffers[0].Length == 0 {
		return nil, nil
	}
	valid, err := t.source(0, "valid", t.rows)
	if err == nil {
		t.validity = t.place(bitmapLen(t.rows))
	}
	return valid, err
}
