package codec

import (
	"math"
	"math/bits"

	"github.com/udfgate/udfgate"
)

// verifier checks the columns of a body that lies in memory of the gateway's
// own, one after the other: it takes their nodes and buffers off the header's.
type verifier struct {
	body    []byte
	nodes   []Node
	buffers []Buffer
	// Of what is not canonical: how many data buffers each column of views has,
	// and the dictionaries that have come.
	variadic     []int64
	dictionaries *Dictionaries
	viewed       int64 // bytes that views have led to
	bytesMax     int64
	bytesName    string
	// Columns without a byte per value, such as nulls below a list, can claim
	// any length. Each is bounded like the rows of a batch.
	valuesMax  int64
	valuesName string

	number     int            // of the column
	field      *udfgate.Field // the column, whatever is being checked below it
	dictionary int64          // ID of that whose values these are, -1 if they are a column
	below      string         // names what is checked below it, for messages
}

// reach says whether a value can be seen: it is not under a null of a column
// above, and lies between the offsets of a row. Only then its bytes matter.
type reach func(value int64) bool

func always(int64) bool { return true }

func (v *verifier) invalid(format string, args ...any) *udfgate.Error {
	if v.dictionary >= 0 {
		args = append([]any{v.dictionary, v.below}, args...)
		return udfgate.Invalidf(udfgate.ShapeMalformed, "dictionary %d%s: "+format, args...)
	}
	args = append([]any{v.number, quoted(v.field.Name), v.below}, args...)
	return udfgate.Invalidf(udfgate.ShapeMalformed, "column %d %s%s: "+format, args...)
}

// top checks a column of the batch itself. Its type is that of the field, or
// one that is equal.
func (v *verifier) top(t *udfgate.Type, c *Column, rows int64) error {
	v.below = ""
	if got := v.nodes[0].Length; got != rows {
		return v.invalid("wanted %d rows as the batch has, got %d", rows, got)
	}
	return v.column(t, c, rows, always)
}

// column checks the next column, of at least length values, and those below it.
func (v *verifier) column(t *udfgate.Type, c *Column, length int64, seen reach) (err error) {
	node := v.nodes[0]
	v.nodes = v.nodes[1:]
	if node.Length < length {
		return v.invalid("wanted at least %d values, got %d", length, node.Length)
	}
	c.Type, c.Length = t, node.Length
	if t.Kind == udfgate.Null {
		c.Nulls = c.Length
		return v.claim(c.Length)
	}
	if t.Kind == udfgate.RunEndEncoded {
		c.encoded = &encodedColumn{}
		return v.runs(c, seen)
	}
	buffers := v.buffers[:bufferCount(t.Kind)]
	v.buffers = v.buffers[len(buffers):]
	if err := v.validity(buffers[0], c, node.Nulls); err != nil {
		return err
	}
	switch t.Kind {
	case udfgate.Utf8, udfgate.Binary:
		return variable[int32](v, buffers, c, seen)
	case udfgate.LargeUtf8, udfgate.LargeBinary:
		return variable[int64](v, buffers, c, seen)
	case udfgate.List, udfgate.Map:
		return list[int32](v, buffers, c, seen)
	case udfgate.LargeList:
		return list[int64](v, buffers, c, seen)
	case udfgate.Struct:
		return v.members(c, seen)
	case udfgate.FixedSizeList:
		return v.items(c, seen)
	case udfgate.Utf8View, udfgate.BinaryView, udfgate.Dictionary, udfgate.ListView, udfgate.LargeListView:
		return v.encoded(t, c, buffers, seen)
	case udfgate.Bool:
		c.Values, err = v.take(buffers[1], c, "bits", bitmapLen(c.Length))
	case udfgate.FixedSizeBinary:
		if t.Size == 0 {
			return v.claim(c.Length)
		}
		c.Values, err = v.take(buffers[1], c, "values", product(c.Length, int64(t.Size)))
	default:
		c.Values, err = v.take(buffers[1], c, "values", product(c.Length, int64(t.Kind.Width())))
	}
	return err
}

// claim bounds values that no byte stands for.
func (v *verifier) claim(values int64) error {
	if values > v.valuesMax {
		err := v.invalid("%d values without a byte each are over %s %d; send smaller batches", values, v.valuesName, v.valuesMax)
		err.Shape = udfgate.ShapeTooLarge
		return err
	}
	return nil
}

// product is a·b, or more than any body has where that does not fit.
func product(a, b int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(b))
	if high != 0 || low > math.MaxInt64/2 {
		return math.MaxInt64 / 2
	}
	return int64(low)
}

// take returns the first need bytes of a buffer as a range of the body. The
// rest is padding: legal, and of no use to a reader.
func (v *verifier) take(b Buffer, c *Column, what string, need int64) (Range, error) {
	size := int64(len(v.body))
	if b.Offset < 0 || b.Length < 0 || b.Offset > size || b.Length > size-b.Offset || b.Offset%bufferAlign != 0 {
		return Range{}, v.invalid("wanted %s at a multiple of %d within a body of %d bytes, got %d bytes at %d",
			what, bufferAlign, size, b.Length, b.Offset)
	}
	if b.Length < need {
		return Range{}, v.invalid("wanted at least %d bytes of %s for %d rows of %s, got %d",
			need, what, c.Length, c.Type, b.Length)
	}
	return Range{Off: b.Offset, Len: need}, nil
}

func (v *verifier) bytes(r Range) []byte { return v.body[r.Off:r.End()] }

// validity checks a bitmap and counts its nulls. Readers differ in whether the
// header's count or the bitmap wins, so the two must agree.
func (v *verifier) validity(b Buffer, c *Column, nulls int64) (err error) {
	if b.Length > 0 {
		if c.Validity, err = v.take(b, c, "validity", bitmapLen(c.Length)); err != nil {
			return err
		}
		if c.Nulls = zeroBits(v.bytes(c.Validity), c.Length); c.Nulls == 0 {
			c.Validity = Range{}
		}
	}
	if nulls >= 0 && nulls != c.Nulls {
		return v.invalid("the header says %d nulls, its validity has %d", nulls, c.Nulls)
	}
	return nil
}

// valid narrows seen to what is not null in c.
func (v *verifier) valid(c *Column, seen reach) reach { return notNull(v.body, c, seen) }

func notNull(body []byte, c *Column, seen reach) reach {
	bitmap := body[c.Validity.Off:c.Validity.End()]
	if len(bitmap) == 0 {
		return seen
	}
	return func(value int64) bool { return bitSet(bitmap, value) && seen(value) }
}

// offsetsOf checks offsets and returns them; none of no values, where the
// buffer may be empty and nothing reads it.
func offsetsOf[T offset](v *verifier, b Buffer, c *Column) (offsets []T, err error) {
	if c.Length == 0 {
		return nil, nil
	}
	if c.Offsets, err = v.take(b, c, "offsets", sizeOf[T]()*(c.Length+1)); err != nil {
		return nil, err
	}
	offsets = offsetsIn[T](v.bytes(c.Offsets))
	if ascending(offsets) {
		return offsets, nil
	}
	if offsets[0] < 0 {
		return nil, v.invalid("first offset %d is negative", offsets[0])
	}
	row := firstFall(offsets)
	return nil, v.invalid("end offset %d of row %d is less than its start %d", offsets[row+1], row, offsets[row])
}

// variable checks the offsets and data of text or binary. Offsets may begin
// above 0 (the sender cut a slice); Values then still begins at byte 0 of the
// data, so that offsets count from it.
func variable[T offset](v *verifier, buffers []Buffer, c *Column, seen reach) error {
	offsets, err := offsetsOf[T](v, buffers[1], c)
	if err != nil || c.Length == 0 {
		return err
	}
	if c.Values, err = v.take(buffers[2], c, "data", 0); err != nil {
		return err
	}
	first, last := offsets[0], int64(offsets[c.Length])
	if last > buffers[2].Length {
		return v.invalid("last offset %d is past the data of %d bytes", last, buffers[2].Length)
	}
	c.Values.Len = last
	if !c.Type.Kind.Text() {
		return nil
	}
	data := v.bytes(c.Values)
	if c.ASCII = isASCII(data[first:]); c.ASCII || wholeText(offsets, data) {
		return nil
	}
	if row := firstBadText(offsets, data, v.valid(c, seen)); row >= 0 {
		err := v.invalid("not UTF-8")
		if v.below == "" {
			err.Row = row
		}
		return err
	}
	return nil
}

// list checks the offsets of a list or map, and what is below it.
func list[T offset](v *verifier, buffers []Buffer, c *Column, seen reach) error {
	offsets, err := offsetsOf[T](v, buffers[1], c)
	if err != nil {
		return err
	}
	items := int64(0)
	if c.Length > 0 {
		items = int64(offsets[c.Length])
	}
	below := seenBelow(v.body, c, seen)
	if err := v.child(c, 0, items, below); err != nil || c.Type.Kind != udfgate.Map {
		return err
	}
	return v.keys(c, items, below)
}

// keys refuses maps whose entries, or whose keys, are null. Those of a key that
// is not canonical are counted once it is.
func (v *verifier) keys(c *Column, items int64, seen reach) error {
	entries := &c.Children[0]
	for _, nulls := range []*Column{entries, &entries.Children[0]} {
		if nulls.Nulls == 0 {
			continue
		}
		validity := v.bytes(nulls.Validity)
		for item := range items {
			if (nulls.Type.Kind == udfgate.Null || !bitSet(validity, item)) && seen(item) {
				return v.invalid("wanted a key of each entry, got null")
			}
		}
	}
	return nil
}

// members checks what is below a struct.
func (v *verifier) members(c *Column, seen reach) error {
	if len(c.Type.Children) == 0 {
		if err := v.claim(c.Length); err != nil {
			return err
		}
	}
	valid := v.valid(c, seen)
	for i := range c.Type.Children {
		if err := v.child(c, i, c.Length, valid); err != nil {
			return err
		}
	}
	return nil
}

// items checks what is below a list of fixed size.
func (v *verifier) items(c *Column, seen reach) error {
	size := int64(c.Type.Size)
	if size == 0 {
		if err := v.claim(c.Length); err != nil {
			return err
		}
		return v.child(c, 0, 0, func(int64) bool { return false })
	}
	return v.child(c, 0, product(c.Length, size), seenBelow(v.body, c, seen))
}

// seenBelow says which values below a canonical column can be seen.
func seenBelow(body []byte, c *Column, seen reach) reach {
	valid := notNull(body, c, seen)
	switch c.Type.Kind {
	case udfgate.Struct:
		return valid
	case udfgate.FixedSizeList:
		size := int64(c.Type.Size)
		return func(item int64) bool { return item/size < c.Length && valid(item/size) }
	case udfgate.LargeList:
		return seenItems[int64](body, c, valid)
	default:
		return seenItems[int32](body, c, valid)
	}
}

func seenItems[T offset](body []byte, c *Column, valid reach) reach {
	offsets := offsetsIn[T](body[c.Offsets.Off:c.Offsets.End()])
	return func(item int64) bool {
		row, ok := rowOf(offsets, item)
		return ok && valid(row)
	}
}

// child checks a column below c.
func (v *verifier) child(c *Column, number int, length int64, seen reach) error {
	if c.Children == nil {
		c.Children = make([]Column, len(c.Type.Children))
	}
	field, above := &c.Type.Children[number], v.below
	v.below += ", " + childName(c.Type, field)
	err := v.column(&field.Type, &c.Children[number], length, seen)
	v.below = above
	return err
}

// childName is how messages name a column below another.
func childName(t *udfgate.Type, field *udfgate.Field) string {
	switch t.Kind {
	case udfgate.Struct:
		return "member " + quoted(field.Name)
	case udfgate.Map:
		return "entries"
	default:
		return "items"
	}
}
