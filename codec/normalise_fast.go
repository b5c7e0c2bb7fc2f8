package codec

import (
	"encoding/binary"
	"slices"

	"github.com/udfgate/udfgate"
)

// This file normalises indices into dictionaries, of which text goes a chunk of
// rows at a time.

// chunkRows is how many rows are looked at before memory is asked for.
const chunkRows = 256

// reserve makes room for so many bytes of text, and Slack after them.
func (n *tree) reserve(total int64) error {
	if total > n.limit-*n.used {
		return &tooLarge{*n.used + total}
	}
	if err := n.checkOffset(int64(len(n.values)) + total); err != nil {
		return err
	}
	n.values = slices.Grow(n.values, int(total)+Slack)
	return nil
}

// appendIndices adds values of a dictionary, as its indices say.
func (n *tree) appendIndices(c *Column, body []byte, lo, hi int64) error {
	d := c.encoded.values
	var room [chunkRows]int64
	validity := body[c.Validity.Off:c.Validity.End()]
	for ; lo < hi; lo += chunkRows {
		indices := c.indices(room[:], body, lo, min(lo+chunkRows, hi))
		if d != nil && len(d.parts) == 1 && d.parts[0].column.Type.Kind.Variable() && d.parts[0].column.Nulls == 0 {
			if err := n.appendWords(&d.parts[0], indices, c, body, lo); err != nil {
				return err
			}
			continue
		}
		for i, index := range indices {
			if !bitSet(validity, lo+int64(i)) {
				if err := n.null(); err != nil {
					return err
				}
				continue
			}
			part, at := d.find(index)
			if err := n.appendRange(&part.column, part.body, at, at+1); err != nil {
				return err
			}
		}
	}
	return n.full()
}

// appendWords adds values of a dictionary of text or binary in one piece and
// without nulls.
func (n *tree) appendWords(d *dictionaryPart, indices []int64, c *Column, body []byte, lo int64) error {
	var spans [chunkRows]Range
	validity, total := body[c.Validity.Off:c.Validity.End()], int64(0)
	for i, index := range indices {
		if bitSet(validity, lo+int64(i)) {
			from, to := d.column.span(d.body, index, index+1)
			spans[i] = Range{Off: from, Len: to - from}
			total += to - from
		}
	}
	if err := n.reserve(total); err != nil {
		return err
	}
	words := d.body[d.column.Values.Off:]
	if large(n.typ.Kind) {
		n.values = copyWords(n.values, moreOffsets[int64](n, len(indices)), words, spans[:len(indices)])
	} else {
		n.values = copyWords(n.values, moreOffsets[int32](n, len(indices)), words, spans[:len(indices)])
	}
	*n.used += total
	last := lo + int64(len(indices))
	n.validFrom(c, body, lo, last)
	n.length += last - lo
	return nil
}

// copyWords appends words to dst, which has Slack more room than they need.
func copyWords[T offset](dst []byte, ends []T, words []byte, spans []Range) []byte {
	at, room := len(dst), dst[:cap(dst)]
	for i, s := range spans {
		if s.Len <= 16 && s.Off+16 <= int64(len(words)) {
			from, to := words[s.Off:][:16], room[at:][:16]
			binary.LittleEndian.PutUint64(to, binary.LittleEndian.Uint64(from))
			binary.LittleEndian.PutUint64(to[8:], binary.LittleEndian.Uint64(from[8:]))
		} else {
			copy(room[at:], words[s.Off:s.End()])
		}
		at += int(s.Len)
		ends[i] = T(at)
	}
	return room[:at]
}

// indices reads indices [lo, hi) into room, -1 for one beyond any dictionary.
func (c *Column) indices(room []int64, body []byte, lo, hi int64) []int64 {
	kind, values := c.Type.Children[0].Type.Kind, body[c.Values.Off:c.Values.End()]
	room = room[:hi-lo]
	switch kind {
	case udfgate.Int32:
		for i, index := range int32s(values)[lo:hi] {
			room[i] = int64(index)
		}
	case udfgate.Uint64:
		for i := range room {
			room[i] = max(int64(binary.LittleEndian.Uint64(values[8*(lo+int64(i)):])), -1)
		}
	default:
		for i := range room {
			room[i] = signedAt(kind, values, lo+int64(i))
		}
	}
	return room
}
