package codec

import (
	"github.com/udfgate/udfgate"
)

// dictionary is the values that indices refer to, in canonical form.
type dictionary struct {
	field  udfgate.Field // of the values, canonical
	column Column
	body   []byte
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
// more than Limits.BytesMax.
func (d *Decoder) AddDictionary(fd *FlightData, m *Message, pieces [][]byte, all *Dictionaries) error {
	field := d.dictionaryField(m.DictionaryID)
	if field == nil {
		return udfgate.Invalidf(udfgate.ShapeMalformed, "dictionary %d: no column of the schema refers to it", m.DictionaryID)
	}
	body, err := d.unpacked(fd, m, pieces)
	if err != nil {
		return err
	}
	defer body.Release()
	v := d.verifier(body.Bytes(), m, all)
	v.number, v.field = 0, field
	var c Column
	if err := d.fits(m, &field.Type); err != nil {
		return err
	}
	if err := v.top(&c, m.Rows); err != nil {
		return err
	}
	known := canonicalField(*field)
	n := newTree(&known, d.limits.BytesMax)
	if before := all.find(m.DictionaryID); m.Delta && before != nil {
		if err := n.appendRange(&before.column, before.body, 0, before.column.Length); err != nil {
			return err
		}
	}
	if err := n.appendRange(&c, body.Bytes(), 0, c.Length); err != nil {
		return err
	}
	added := &dictionary{field: known, body: make([]byte, n.size())}
	added.column = n.place(added.body)
	if before := all.find(m.DictionaryID); before != nil {
		all.bytes -= int64(len(before.body))
	}
	all.bytes += int64(len(added.body))
	if all.bytes > d.limits.BytesMax {
		return udfgate.Invalidf(udfgate.ShapeTooLarge, "dictionaries of %d bytes are over %s %d", all.bytes, d.limits.BytesName, d.limits.BytesMax)
	}
	if all.known == nil {
		all.known = map[int64]*dictionary{}
	}
	all.known[m.DictionaryID] = added
	return nil
}

// dictionaryField is the values field of a dictionary of the schema that was sent.
func (d *Decoder) dictionaryField(id int64) *udfgate.Field {
	var find func(fields []udfgate.Field) *udfgate.Field
	find = func(fields []udfgate.Field) *udfgate.Field {
		for i := range fields {
			t := &fields[i].Type
			if t.Kind == udfgate.Dictionary && t.ID == id {
				return &t.Children[1]
			}
			if found := find(t.Children); found != nil {
				return found
			}
		}
		return nil
	}
	return find(d.sent)
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
