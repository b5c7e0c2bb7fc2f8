package codec

import (
	"encoding/binary"
	"math/bits"
	"sort"
	"unicode/utf8"
	"unsafe"
)

// highBits has the top bit of each byte: set in a word that is not ASCII.
const highBits = 0x8080808080808080

// bitmapLen is the number of bytes that one bit per row takes.
func bitmapLen(rows int64) int64 { return (rows + 7) / 8 }

// int32s views little-endian bytes as int32. Every caller passes memory of the
// gateway's own whose start is a multiple of 8; hosts are little-endian.
func int32s(b []byte) []int32 {
	if len(b) < 4 {
		return nil
	}
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// offset is the type of offsets: int64 in the large kinds.
type offset interface{ int32 | int64 }

func sizeOf[T offset]() int64 {
	var o T
	return int64(unsafe.Sizeof(o))
}

// offsetsIn views little-endian bytes as offsets, on the terms of int32s.
func offsetsIn[T offset](b []byte) []T {
	n := len(b) / int(sizeOf[T]())
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// rowOf is the row that an item of a list belongs to; false if it is none's.
func rowOf[T offset](offsets []T, item int64) (row int64, ok bool) {
	if len(offsets) == 0 || item < int64(offsets[0]) || item >= int64(offsets[len(offsets)-1]) {
		return 0, false
	}
	next := sort.Search(len(offsets), func(i int) bool { return int64(offsets[i]) > item })
	return int64(next) - 1, true
}

// zeroBits counts the zero bits among the first rows bits.
func zeroBits(bitmap []byte, rows int64) int64 {
	full := rows / 64 * 8
	ones := 0
	for b := bitmap[:full]; len(b) >= 8; b = b[8:] {
		ones += bits.OnesCount64(binary.LittleEndian.Uint64(b))
	}
	for i, b := range bitmap[full:bitmapLen(rows)] {
		if left := rows - (full+int64(i))*8; left < 8 {
			b &= 1<<left - 1
		}
		ones += bits.OnesCount8(b)
	}
	return rows - int64(ones)
}

// bitSet reports whether row's bit is 1; an empty bitmap stands for all ones.
func bitSet(bitmap []byte, row int64) bool {
	return len(bitmap) == 0 || bitmap[row>>3]>>(row&7)&1 == 1
}

// ascending reports whether offsets are non-negative and never fall. It has no
// branch per offset: the sign bits of all differences are gathered.
func ascending[T offset](offsets []T) bool {
	if len(offsets) == 0 {
		return true
	}
	prev := offsets[0]
	bad := prev
	for _, o := range offsets[1:] {
		bad |= o - prev
		bad |= o
		prev = o
	}
	return bad >= 0
}

// firstFall is the first row whose end offset is negative or less than its
// start; it is called once ascending has said no, to name the row.
func firstFall[T offset](offsets []T) int64 {
	for i, o := range offsets[1:] {
		if o < 0 || o < offsets[i] {
			return int64(i)
		}
	}
	return 0
}

// isASCII reads four words per turn and branches once at the end.
func isASCII(b []byte) bool {
	var gathered uint64
	for ; len(b) >= 32; b = b[32:] {
		gathered |= binary.LittleEndian.Uint64(b) | binary.LittleEndian.Uint64(b[8:]) |
			binary.LittleEndian.Uint64(b[16:]) | binary.LittleEndian.Uint64(b[24:])
	}
	for ; len(b) >= 8; b = b[8:] {
		gathered |= binary.LittleEndian.Uint64(b)
	}
	for _, c := range b {
		gathered |= uint64(c)
	}
	return gathered&highBits == 0
}

// validText is utf8.Valid, which steps byte by byte from the first character
// that is not ASCII on. Most text has such characters one by one in between.
func validText(b []byte) bool {
	i := 0
	for i <= len(b)-8 {
		w := binary.LittleEndian.Uint64(b[i:])
		high := w & highBits
		if high == 0 {
			i += 8
			continue
		}
		if ascii := bits.TrailingZeros64(high) / 8; ascii > 0 {
			i += ascii
			continue
		}
		n := characterLen(uint32(w))
		if n == 0 {
			return false
		}
		i += n
	}
	return utf8.Valid(b[i:])
}

// characterLen is the length of the character that begins in the lowest byte of
// w and is not ASCII, 0 if it is none. Second bytes are bounded against overlong
// forms, surrogates and what is beyond Unicode.
func characterLen(w uint32) int {
	first, second := byte(w), byte(w>>8)
	switch {
	case first < 0xe0:
		if first >= 0xc2 && w&0xc000 == 0x8000 {
			return 2
		}
	case first < 0xf0:
		if w&0xc0c000 == 0x808000 && (first != 0xe0 || second >= 0xa0) && (first != 0xed || second < 0xa0) {
			return 3
		}
	case first < 0xf5:
		if w&0xc0c0c000 == 0x80808000 && (first != 0xf0 || second >= 0x90) && (first != 0xf4 || second < 0x90) {
			return 4
		}
	}
	return 0
}

// wholeText reports whether data is UTF-8 from the first to the last offset and
// no value begins inside a character: together that is the same as checking
// each value. Offsets must be ascending and end within data.
func wholeText[T offset](offsets []T, data []byte) bool {
	if len(offsets) == 0 {
		return true
	}
	last := offsets[len(offsets)-1]
	if !validText(data[offsets[0]:last]) {
		return false
	}
	for _, o := range offsets {
		if o < last && !utf8.RuneStart(data[o]) {
			return false
		}
	}
	return true
}

// firstBadText is the first row that is seen and not UTF-8, or -1. Bytes under a
// null are undefined in Arrow, so they may be anything.
func firstBadText[T offset](offsets []T, data []byte, seen reach) int64 {
	for row := int64(0); row < int64(len(offsets))-1; row++ {
		if !utf8.Valid(data[offsets[row]:offsets[row+1]]) && seen(row) {
			return row
		}
	}
	return -1
}
