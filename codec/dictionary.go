package codec

import (
	"errors"
	"sort"

	"github.com/udfgate/udfgate"
)

// dictionary is the values that indices refer to, in canonical form, in as many
// parts as messages brought them: a delta costs no more than it has.
type dictionary struct {
	sent   *udfgate.Type // of the values
	parts  []dictionaryPart
	length int64
	bytes  int64
}

type dictionaryPart struct {
	first  int64 // index of its first value
	column Column
	body   []byte
}

// partBytes is about what a part takes beside its values.
const partBytes = 256

// find is the part that has a value, and where.
func (d *dictionary) find(index int64) (*dictionaryPart, int64) {
	part := 0
	if len(d.parts) > 1 {
		part = sort.Search(len(d.parts), func(i int) bool { return d.parts[i].first > index }) - 1
	}
	return &d.parts[part], index - d.parts[part].first
}

// Dictionaries are those of one stream: a batch refers to what has come before
// it. The zero value has none.
type Dictionaries struct {
	known map[int64]*dictionary
	bytes int64
}

// Bytes is what the dictionaries hold.
func (d *Dictionaries) Bytes() int64 { return d.bytes }

func (d *Dictionaries) find(id int64) *dictionary {
	if d == nil {
		return nil
	}
	return d.known[id]
}

// AddDictionary takes a dictionary batch: it replaces a dictionary, or adds to
// it. Batches that were decoded before keep what they had.
//
// # Errors
//
// As of Decode; too large also when all dictionaries of the stream together are
// more than Limits.BytesMax. The dictionaries are then as they were.
func (d *Decoder) AddDictionary(fd *FlightData, m *Message, pieces [][]byte, all *Dictionaries) error {
	field := d.dictionaries[m.DictionaryID]
	if m.Kind != KindDictionary || field == nil {
		return udfgate.Invalidf(udfgate.ShapeMalformed, "dictionary %d: no column of the schema refers to it", m.DictionaryID)
	}
	if err := checkFrame(fd, m); err != nil {
		return err
	}
	if err := d.fits(m, &field.Type); err != nil {
		return err
	}
	body, block, err := d.unpacked(fd, m, pieces)
	if err != nil {
		return err
	}
	if block != nil {
		defer block.Release()
	}
	v := d.verifier(body, m, all)
	v.field, v.dictionary = field, m.DictionaryID
	var c Column
	if err := v.top(&field.Type, &c, m.Rows); err != nil {
		return err
	}
	known := canonicalField(*field)
	n := newTree(&known, d.limits.BytesMax)
	defer n.release()
	if err := n.appendRange(&c, body, 0, c.Length); err != nil {
		if long, ok := errors.AsType[*tooLarge](err); ok {
			return d.dictionariesTooLarge(all.bytes + long.size)
		}
		return v.invalid("%w", err)
	}
	return d.keep(all, m, field, n)
}

// keep adds what n has gathered to a dictionary, or makes a new one of it.
func (d *Decoder) keep(all *Dictionaries, m *Message, field *udfgate.Field, n *tree) error {
	before, after := all.find(m.DictionaryID), &dictionary{sent: &field.Type}
	left := all.bytes
	switch {
	case before == nil:
	case m.Delta:
		after = before
	default:
		left -= before.bytes
	}
	size := n.size() + partBytes
	if size > d.limits.BytesMax-left {
		return d.dictionariesTooLarge(left + size)
	}
	part := dictionaryPart{first: after.length, body: make([]byte, n.size())}
	part.column = n.place(part.body)
	after.parts = append(after.parts, part)
	after.length += n.length
	after.bytes += size
	all.bytes = left + size
	if all.known == nil {
		all.known = map[int64]*dictionary{}
	}
	all.known[m.DictionaryID] = after
	return nil
}

func (d *Decoder) dictionariesTooLarge(size int64) error {
	return udfgate.Invalidf(udfgate.ShapeTooLarge, "dictionaries of %d bytes are over %s %d; send smaller ones", size, d.limits.BytesName, d.limits.BytesMax)
}

// dictionaryFields are the fields of the values of all dictionaries of fields,
// by ID: the first of each, with which the others must agree.
func dictionaryFields(fields []udfgate.Field) map[int64]*udfgate.Field {
	known := map[int64]*udfgate.Field{}
	var add func(fields []udfgate.Field)
	add = func(fields []udfgate.Field) {
		for i := range fields {
			t := &fields[i].Type
			if t.Kind == udfgate.Dictionary && known[t.ID] == nil {
				known[t.ID] = &t.Children[1]
			}
			add(t.Children)
		}
	}
	add(fields)
	return known
}

// canonicalField is a field in the form in which its values lie in slots.
func canonicalField(f udfgate.Field) udfgate.Field {
	f.Type = canonicalType(f.Type)
	return f
}

func canonicalType(t udfgate.Type) udfgate.Type {
	switch t.Kind {
	case udfgate.Utf8View:
		t.Kind = udfgate.LargeUtf8 // views of one buffer can be more than 2 GiB together
	case udfgate.BinaryView:
		t.Kind = udfgate.LargeBinary
	case udfgate.Dictionary, udfgate.RunEndEncoded:
		return canonicalType(t.Children[1].Type)
	case udfgate.ListView, udfgate.LargeListView:
		t.Kind = udfgate.LargeList
	}
	children := make([]udfgate.Field, len(t.Children))
	for i := range t.Children {
		children[i] = canonicalField(t.Children[i])
	}
	t.Children = children
	return t
}
