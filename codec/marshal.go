package codec

import (
	"encoding/binary"
	"fmt"
)

// Tags of CPython's marshal format; docs/worker-protocol.md lists the ones in use.
const (
	tagList          = '['
	tagNull          = 'N'
	tagShortASCII    = 'z'
	tagShortInterned = 'Z'
	tagASCII         = 'a'
	tagASCIIInterned = 'A'
	tagText          = 'u'
	tagTextInterned  = 't'
	tagBinary        = 's'
	tagReference     = 'r'
	tagTrue          = 'T'
	tagFalse         = 'F'
	tagInt           = 'i' // i32
	tagLong          = 'l' // i32 count of digits, its sign the number's, then u16 digits of 15 bits
	tagFloat         = 'g' // f64
	tagTuple         = '('
	tagSmallTuple    = ')' // u8 count
	tagDict          = '{' // keys and values, up to tagEnd
	tagEnd           = '0'
	tagEnters        = 0x80 // the value enters the reference table
)

const (
	shortHeader = 2 // tag and u8 length
	wideHeader  = 5 // tag and u32 length, count or index
	shortMax    = 255
	moveBytes   = Slack // values up to this long are moved by one fixed copy
	indexEntry  = 8     // bytes of one block's start in the index
)

// tagClass says what follows a tag; the zero class is a tag that the type does
// not allow.
type tagClass uint8

const (
	classNull tagClass = 1 + iota
	classShort
	classWide
	classReference
	classEnters tagClass = 0x80
)

// textTags and binaryTags are the tags that values of a column may have.
var (
	textTags = tagTable(
		map[byte]tagClass{
			tagShortASCII: classShort, tagShortInterned: classShort, tagASCII: classWide,
			tagASCIIInterned: classWide, tagText: classWide, tagTextInterned: classWide,
		})
	binaryTags = tagTable(map[byte]tagClass{tagBinary: classWide})
)

func tagTable(values map[byte]tagClass) *[256]tagClass {
	t := [256]tagClass{tagNull: classNull, tagReference: classReference}
	for tag, class := range values {
		t[tag], t[tag|tagEnters] = class, class|classEnters
	}
	return &t
}

// entry is one value of a block's reference table: where in the answer's data
// it was put. The bytes of a reference come from there, the gateway's own copy.
type entry struct{ off, n int64 }

// listEntry stands for the list itself, which is no value of any column.
var listEntry = entry{n: -1}

// token is one value: a null, a reference (bytes in the answer at off) or n
// bytes of the block at off.
type token struct {
	class  tagClass // without classEnters
	enters bool
	off, n int64
}

// blockReader reads the values of one marshal block. The block lies in memory
// that its writer may change, so each byte of a header is read once.
type blockReader struct {
	tags    *[256]tagClass
	src     []byte
	at      int64
	row     int64
	entries []entry
}

// open reads the list's header. A reference table lasts for one block.
func (r *blockReader) open(src []byte, row, count int64) error {
	r.src, r.at, r.row, r.entries = src, wideHeader, row, r.entries[:0]
	if len(src) < wideHeader {
		return fmt.Errorf("row %d: marshal block of %d bytes, wanted at least %d", row, len(src), wideHeader)
	}
	tag, n := src[0], int64(binary.LittleEndian.Uint32(src[1:]))
	if tag&^tagEnters != tagList {
		return fmt.Errorf("row %d: marshal block begins with tag %q, wanted a list", row, tag)
	}
	if tag&tagEnters != 0 {
		r.entries = append(r.entries, listEntry)
	}
	if n != count {
		return fmt.Errorf("row %d: wanted a marshal list of %d values, got %d", row, count, n)
	}
	return nil
}

// next reads one value's header and checks that its bytes lie in the block.
func (r *blockReader) next() (token, error) {
	left := int64(len(r.src)) - r.at
	if left < 1 {
		return token{}, r.cut()
	}
	tag := r.src[r.at]
	t := token{class: r.tags[tag] &^ classEnters, enters: tag&tagEnters != 0}
	switch t.class {
	case classNull:
		r.at++
		return t, nil
	case classShort:
		if left < shortHeader {
			return token{}, r.cut()
		}
		t.off, t.n = r.at+shortHeader, int64(r.src[r.at+1])
	case classWide, classReference:
		if left < wideHeader {
			return token{}, r.cut()
		}
		t.off, t.n = r.at+wideHeader, int64(binary.LittleEndian.Uint32(r.src[r.at+1:]))
	default:
		return token{}, &TagError{Row: r.row, Tag: tag &^ tagEnters}
	}
	if t.class == classReference {
		r.at = t.off
		return r.reference(t.n)
	}
	if t.n > int64(len(r.src))-t.off {
		return token{}, r.cut()
	}
	r.at = t.off + t.n
	return t, nil
}

func (r *blockReader) reference(index int64) (token, error) {
	if index >= int64(len(r.entries)) {
		return token{}, fmt.Errorf("row %d: reference to entry %d of %d", r.row, index, len(r.entries))
	}
	e := r.entries[index]
	if e == listEntry {
		return token{}, &TagError{Row: r.row, Tag: tagReference}
	}
	return token{class: classReference, off: e.off, n: e.n}, nil
}

func (r *blockReader) cut() error {
	return fmt.Errorf("row %d: marshal block ends within the value", r.row)
}

// close refuses bytes after the list.
func (r *blockReader) close() error {
	if left := int64(len(r.src)) - r.at; left != 0 {
		return fmt.Errorf("row %d: %d bytes after the marshal list", r.row, left)
	}
	return nil
}
