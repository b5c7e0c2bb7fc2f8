package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"github.com/udfgate/udfgate"
)

// errShifting means that a length was one thing when the answer was measured
// and another when it was copied.
var errShifting = errors.New("marshal blocks changed while the answer was copied")

// marshalTaker copies the values of marshal blocks one after the other behind
// the offsets that it makes itself, so only UTF-8 is left to check in the copy.
type marshalTaker struct {
	*taker
	blockReader
	index, blocks []byte // the answer's buffers
	starts        []int32
	bitmap        []byte // nil where the result is not nullable
	room          []byte // the answer's data, and Slack after it
	used          int64  // bytes of room taken
	measured      bool
}

// marshal takes [index, data].
func (t *taker) marshal() error {
	m := &marshalTaker{taker: t, blockReader: blockReader{tags: binaryTags}}
	if t.kind == udfgate.Utf8 {
		m.tags = textTags
	}
	if err := m.place(); err != nil {
		return err
	}
	err := m.eachBlock(&m.blockReader, m.copyBlock)
	if err != nil {
		return err
	}
	t.data.Length = m.used
	t.size = roundUp(t.data.Offset+m.used, bufferAlign)
	t.body.Resize(int(t.size))
	if t.kind != udfgate.Utf8 {
		return nil
	}
	offsets, data := int32s(t.in(t.offsets)), t.in(t.data)
	if isASCII(data) || wholeText(offsets, data) {
		return nil
	}
	return &TagError{Row: max(firstBadText(offsets, data, always), 0)}
}

// find finds the buffers and returns the number of blocks.
func (m *marshalTaker) find() (blocks int64, err error) {
	t := m.taker
	if err := t.wantBuffers(2); err != nil {
		return 0, err
	}
	if t.blockRows <= 0 {
		return 0, fmt.Errorf("blocks of %d rows", t.blockRows)
	}
	blocks = (t.rows + t.blockRows - 1) / t.blockRows
	if int64(t.rc.Blocks) != blocks {
		return 0, fmt.Errorf("wanted %d blocks of %d rows for %d rows, got %d", blocks, t.blockRows, t.rows, t.rc.Blocks)
	}
	if m.index, err = t.source(0, "index", indexEntry*(blocks+1)); err != nil {
		return 0, err
	}
	m.blocks, err = t.source(1, "blocks", 0)
	return blocks, err
}

// place finds the buffers and lays out the body. The blocks' own length is the
// first guess at the data: only back-references make it longer than that.
func (m *marshalTaker) place() error {
	t := m.taker
	if _, err := m.find(); err != nil {
		return err
	}
	if t.nullable { // how many are null, the tags will tell
		t.validity = t.place(bitmapLen(t.rows))
	}
	t.offsets = t.place(4 * (t.rows + 1))
	t.data = t.place(0)
	if t.size > t.limits.BytesMax {
		return t.limits.TooLarge(t.size)
	}
	t.data.Length = min(int64(len(m.blocks)), (t.limits.BytesMax-t.size)&^(bufferAlign-1), TextBytesMax)
	t.size = roundUp(t.size+t.data.Length, bufferAlign)
	if err := t.allocate(); err != nil {
		return err
	}
	m.views()
	m.starts[0] = 0
	for i := range m.bitmap {
		m.bitmap[i] = 0xff
	}
	if tail := t.rows & 7; tail != 0 && m.bitmap != nil {
		m.bitmap[len(m.bitmap)-1] = 1<<tail - 1
	}
	return nil
}

// views points into the body, which moves when it grows.
func (m *marshalTaker) views() {
	m.starts = int32s(m.in(m.offsets))
	m.room = m.body.Room()[m.data.Offset : m.data.Offset+m.data.Length+Slack]
	if m.validity.Length > 0 {
		m.bitmap = m.in(m.validity)
	}
}

// eachBlock opens the blocks one after the other for take, which reads as many
// values as it is told.
func (m *marshalTaker) eachBlock(r *blockReader, take func(end int64) error) error {
	from, index := binary.LittleEndian.Uint64(m.index), m.index
	for row := int64(0); row < m.rows; row += m.blockRows {
		index = index[indexEntry:]
		to := binary.LittleEndian.Uint64(index)
		if from > to || to > uint64(len(m.blocks)) {
			return fmt.Errorf("row %d: marshal block from %d to %d of %d bytes", row, from, to, len(m.blocks))
		}
		end := min(row+m.blockRows, m.rows)
		if err := r.open(m.blocks[from:to], row, end-row); err != nil {
			return err
		}
		if err := take(end); err != nil {
			return err
		}
		if err := r.close(); err != nil {
			return err
		}
		from = to
	}
	return nil
}

func (m *marshalTaker) copyBlock(end int64) error {
	for m.row < end {
		if m.plain(end); m.row < end {
			if err := m.one(); err != nil {
				return err
			}
		}
	}
	return nil
}

// plain takes values as long as they are of the common kinds and lie so far
// from the ends of the block and of the room that moves of a fixed width stay
// inside: one takes the rest, and finds the errors.
func (m *marshalTaker) plain(end int64) {
	src, dst := unsafe.Pointer(unsafe.SliceData(m.src)), unsafe.Pointer(unsafe.SliceData(m.room))
	at, used, row, nulls := m.at, m.used, m.row, m.nulls
	atMax, usedMax := int64(len(m.src))-wideHeader-moveBytes, int64(len(m.room))-moveBytes
	starts, bitmap, tags, entries := m.starts[1:], m.bitmap, m.tags, m.entries
	for row < end && at <= atMax && used <= usedMax {
		head := unsafe.Add(src, at)
		both := *(*uint16)(head) // tag and length in one read
		from, n := unsafe.Add(head, shortHeader), int64(both>>8)
		next := at + shortHeader + n
		if class := tags[byte(both)]; class != classShort {
			if class == classNull && bitmap != nil {
				bitmap[row>>3] &^= 1 << (row & 7)
				nulls++
				n, next = 0, at+1
			} else if class == classWide {
				from, n = unsafe.Add(head, wideHeader), int64(*(*uint32)(unsafe.Add(head, 1)))
				next = at + wideHeader + n
			} else if class == classReference {
				index := int64(*(*uint32)(unsafe.Add(head, 1)))
				if index >= int64(len(entries)) || entries[index] == listEntry {
					break
				}
				from, n = unsafe.Add(dst, entries[index].off), entries[index].n
				next = at + wideHeader
			} else {
				break
			}
		}
		if next > atMax+wideHeader || n > usedMax-used {
			break
		}
		move32(unsafe.Add(dst, used), from)
		moveRest(unsafe.Add(dst, used), from, n)
		used += n
		at = next
		starts[row] = int32(used)
		row++
	}
	m.at, m.used, m.row, m.nulls = at, used, row, nulls
}

// one takes any value, wherever it lies.
func (m *marshalTaker) one() error {
	t, err := m.next()
	if err != nil {
		return err
	}
	if t.class == classNull {
		if m.bitmap == nil {
			return &TagError{Row: m.row, Tag: 'N'} // the worker knows how to say it
		}
		m.bitmap[m.row>>3] &^= 1 << (m.row & 7)
		m.nulls++
	} else {
		if t.n > int64(len(m.room))-Slack-m.used {
			if err := m.grow(t.n); err != nil {
				return err
			}
		}
		from := m.src
		if t.class == classReference {
			from = m.room
		}
		copy(m.room[m.used:], from[t.off:t.off+t.n])
		if t.enters {
			m.entries = append(m.entries, entry{off: m.used, n: t.n})
		}
		m.used += t.n
	}
	m.starts[m.row+1] = int32(m.used)
	m.row++
	return nil
}

// grow makes room for all the data there is, after it has added up all lengths:
// 120 KB of back-references can stand for 410 MB, and a limit must be found
// broken before the memory is asked for.
func (m *marshalTaker) grow(need int64) error {
	if m.measured {
		return errShifting
	}
	m.measured = true
	total, err := m.measure()
	if err != nil {
		return err
	}
	size := roundUp(m.data.Offset+total, bufferAlign)
	switch {
	case size > m.limits.BytesMax:
		return m.limits.TooLarge(size)
	case total > TextBytesMax:
		return textTooLarge(m.kind, total)
	case total < m.used+need:
		return errShifting
	}
	m.data.Length = total
	m.body.Resize(int(size))
	m.views()
	return nil
}

// measure adds up the lengths of all values of the answer.
func (m *marshalTaker) measure() (total int64, err error) {
	r := &blockReader{tags: m.tags}
	err = m.eachBlock(r, func(end int64) error {
		for ; r.row < end; r.row++ {
			t, err := r.next()
			if err != nil {
				return err
			}
			if t.enters {
				r.entries = append(r.entries, entry{n: t.n})
			}
			total += t.n
		}
		return nil
	})
	return total, err
}
