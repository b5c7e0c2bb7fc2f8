package tabular

import (
	"encoding/json"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// This file reads what is nested, from JSON that is valid.

// inside begins to walk over an array or object.
func inside(raw json.RawMessage) *splitter { return &splitter{text: raw, at: 1} }

func (b *valueBuilder) list(to array.Builder, dt arrow.DataType, raw json.RawMessage) error {
	t, _ := dt.(arrow.ListLikeType)
	if kind := jsonKind(raw); kind != "array" {
		return wrongKind(t, kind, raw)
	}
	var items array.Builder
	size := -1
	switch to := to.(type) {
	case *array.ListBuilder:
		to.Append(true)
		items = to.ValueBuilder()
	case *array.LargeListBuilder:
		to.Append(true)
		items = to.ValueBuilder()
	case *array.FixedSizeListBuilder:
		to.Append(true)
		items = to.ValueBuilder()
		fixed, _ := t.(*arrow.FixedSizeListType)
		size = int(fixed.Len())
	}
	field, n := t.ElemField(), 0
	for s := inside(raw); s.more(); n++ {
		item := s.value()
		if size >= 0 && n >= size {
			continue // counted for the error
		}
		if err := b.value(items, field, item); err != nil {
			return fmt.Errorf("item %d: %w", n, err)
		}
	}
	if size >= 0 && n != size {
		return fmt.Errorf("wanted %s for %s, got %d", count(size, "item"), nameOf(t), n)
	}
	return nil
}

// members reads a struct from an object. A member that is not there is null
// where the type allows it; one that the type has not is an error, so that a
// wrong name is never a null.
func (b *valueBuilder) members(to *array.StructBuilder, dt arrow.DataType, raw json.RawMessage) error {
	t, _ := dt.(*arrow.StructType)
	if positional(t) {
		return b.positions(to, t, raw)
	}
	if kind := jsonKind(raw); kind != "object" {
		return wrongKind(t, kind, raw)
	}
	to.Append(true)
	want := to.Len()
	for s := inside(raw); s.more(); {
		name := memberName(s.value())
		s.more() // the colon
		value := s.value()
		i, ok := t.FieldIdx(name)
		if !ok {
			return fmt.Errorf("no member %s in %s", quote(name), nameOf(t))
		}
		child := to.FieldBuilder(i)
		if child.Len() == want {
			return fmt.Errorf("member %s is there twice", quote(name))
		}
		if err := b.value(child, t.Field(i), value); err != nil {
			return fmt.Errorf("member %s: %w", quote(name), err)
		}
	}
	for i, f := range t.Fields() {
		if child := to.FieldBuilder(i); child.Len() < want {
			if !f.Nullable {
				return fmt.Errorf("member %s is missing, and is not nullable", quote(f.Name))
			}
			if err := b.null(child, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// positions reads a struct whose members have no names from an array.
func (b *valueBuilder) positions(to *array.StructBuilder, t *arrow.StructType, raw json.RawMessage) error {
	if kind := jsonKind(raw); kind != "array" {
		return fmt.Errorf("wanted an array of %s for %s, got %s %s", count(t.NumFields(), "value"), nameOf(t), kind, clip(string(raw)))
	}
	to.Append(true)
	n := 0
	for s := inside(raw); s.more(); n++ {
		value := s.value()
		if n >= t.NumFields() {
			continue // counted below
		}
		if err := b.value(to.FieldBuilder(n), t.Field(n), value); err != nil {
			return fmt.Errorf("member %d: %w", n, err)
		}
	}
	if n != t.NumFields() {
		return fmt.Errorf("wanted %s for %s, got %d", count(t.NumFields(), "value"), nameOf(t), n)
	}
	return nil
}

// entries reads a map from an array of {"key":…,"value":…}, or if its keys are
// text from an object.
func (b *valueBuilder) entries(to *array.MapBuilder, dt arrow.DataType, raw json.RawMessage) error {
	t, _ := dt.(*arrow.MapType)
	kind := jsonKind(raw)
	text := t.KeyType().ID() == arrow.STRING || t.KeyType().ID() == arrow.LARGE_STRING
	if kind != "array" && (kind != "object" || !text) {
		return wrongKind(t, kind, raw)
	}
	to.Append(true)
	seen := map[string]bool{} // of an object's keys
	s := inside(raw)
	for n := 0; s.more(); n++ {
		key := s.value()
		var value json.RawMessage
		if kind == "object" {
			name := memberName(key)
			if seen[name] {
				return fmt.Errorf("member %s is there twice", quote(name))
			}
			seen[name] = true
			s.more() // the colon
			value = s.value()
		} else {
			var err error
			if key, value, err = entry(key); err != nil {
				return fmt.Errorf("entry %d: %w", n, err)
			}
		}
		if key[0] == 'n' {
			return fmt.Errorf("entry %d: wanted a key, got null", n)
		}
		if err := b.json(to.KeyBuilder(), t.KeyField(), key); err != nil {
			return fmt.Errorf("entry %d, key: %w", n, err)
		}
		if err := b.value(to.ItemBuilder(), t.ItemField(), value); err != nil {
			return fmt.Errorf("entry %d, value: %w", n, err)
		}
	}
	return nil
}

// entry is the key and value of an entry of a map; a value that is not there is
// null.
func entry(raw json.RawMessage) (key, value json.RawMessage, err error) {
	if kind := jsonKind(raw); kind != "object" {
		return nil, nil, fmt.Errorf(`wanted an object of key and value, got %s`, kind)
	}
	for s := inside(raw); s.more(); {
		name := memberName(s.value())
		s.more() // the colon
		v := s.value()
		to := &key
		if name == "value" {
			to = &value
		}
		switch {
		case name != "key" && name != "value":
			return nil, nil, fmt.Errorf("wanted members key and value, got %s", quote(name))
		case *to != nil:
			return nil, nil, fmt.Errorf("member %s is there twice", quote(name))
		}
		*to = v
	}
	switch {
	case key == nil:
		return nil, nil, fmt.Errorf("wanted members key and value, got no key")
	case value == nil:
		value = json.RawMessage("null")
	}
	return key, value, nil
}

// readable is an error if text cannot stand for values of a type.
func readable(t arrow.DataType) error {
	switch t := t.(type) {
	case arrow.ExtensionType:
		return readable(t.StorageType())
	case *arrow.StructType:
		for _, f := range t.Fields() {
			if err := readable(f.Type); err != nil {
				return err
			}
		}
		return nil
	case *arrow.MapType:
		return firstError(readable(t.KeyType()), readable(t.ItemType()))
	case *arrow.ListType:
		return readable(t.Elem())
	case *arrow.LargeListType:
		return readable(t.Elem())
	case *arrow.FixedSizeListType:
		if blankBytes(t) > nullBytesMax {
			return fmt.Errorf("text cannot be read as %s: a null of it is over %d MiB (nullBytesMax)", nameOf(t), nullBytesMax>>20)
		}
		return readable(t.Elem())
	}
	if !canonical(t) {
		return fmt.Errorf("text cannot be read as %s yet", nameOf(t))
	}
	return nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
