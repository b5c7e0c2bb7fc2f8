package codec

import (
	"encoding/binary"
	"math"

	"github.com/udfgate/udfgate"
)

// structure reads a dict whose keys are members' names, or a tuple.
func (r *treeTaker) structure(n *tree, tag byte) error {
	if tag != tagDict {
		count, err := r.sequence(tag)
		if err != nil {
			return err
		}
		if count != int64(len(n.children)) || tag == tagList {
			return r.wrong(tag)
		}
		for _, child := range n.children {
			if err := r.value(child); err != nil {
				return err
			}
		}
		n.grown()
		return nil
	}
	for {
		tag, err := r.tag()
		if err != nil {
			return err
		}
		if tag == tagEnd {
			break
		}
		child, err := r.member(n, tag)
		if err != nil {
			return err
		}
		if err := r.value(child); err != nil {
			return err
		}
	}
	for _, child := range n.children { // a member that is not there is null
		if child.length > n.length {
			continue
		}
		if !child.nullable && child.typ.Kind != udfgate.Null {
			return r.wrong(tag)
		}
		if err := child.null(); err != nil {
			return err
		}
	}
	n.grown()
	return nil
}

// member reads a key, or a reference to one, and finds the member of that name.
func (r *treeTaker) member(n *tree, tag byte) (*tree, error) {
	back := int64(-1)
	if tag == tagReference {
		at, err := r.entry()
		if err != nil {
			return nil, err
		}
		back, r.at, tag = r.at, at+1, r.src[at]&^tagEnters
	}
	if !isText(tag) {
		return nil, r.wrong(tag)
	}
	count, err := r.count(tag)
	if err != nil {
		return nil, err
	}
	name, err := r.take(count)
	if err != nil {
		return nil, err
	}
	if back >= 0 {
		r.at = back
	}
	child := n.member(name)
	if child == nil {
		return nil, r.wrong(tag)
	}
	return child, nil
}

// entriesOf reads a map: a dict, or a list of pairs.
func (r *treeTaker) entriesOf(n *tree, tag byte) error {
	entries := n.children[0]
	key, value := entries.children[0], entries.children[1]
	pair := func() error {
		if err := r.value(key); err != nil {
			return err
		}
		if err := r.value(value); err != nil {
			return err
		}
		entries.grown()
		if entries.length > math.MaxInt32 {
			return r.limits.TooLarge(entries.length)
		}
		return nil
	}
	if tag == tagDict {
		for {
			end, err := r.take(1)
			if err != nil {
				return err
			}
			if end[0] == tagEnd {
				n.grown()
				return nil
			}
			r.at-- // a key's tag
			if err := pair(); err != nil {
				return err
			}
		}
	}
	count, err := r.sequence(tag)
	if err != nil {
		return err
	}
	for range count {
		if err := r.pair(pair); err != nil {
			return err
		}
	}
	n.grown()
	return nil
}

// pair reads a sequence of two.
func (r *treeTaker) pair(read func() error) error {
	tag, err := r.tag()
	if err != nil {
		return err
	}
	if tag == tagReference {
		return r.reference(func() error { return r.pair(read) })
	}
	count, err := r.sequence(tag)
	if err != nil {
		return err
	}
	if count != 2 {
		return r.wrong(tag)
	}
	return read()
}

func (r *treeTaker) decimal(n *tree, tag byte) error {
	if !isText(tag) {
		return r.wrong(tag)
	}
	count, err := r.count(tag)
	if err != nil {
		return err
	}
	b, err := r.take(count)
	if err != nil {
		return err
	}
	var text [decimalReadMax]byte // the copy is what is read
	var unscaled [32]byte
	if count > decimalReadMax || !parseDecimal(&unscaled, text[:copy(text[:], b)], n.typ) {
		return r.wrong(tag)
	}
	n.fixed(unscaled[:n.width()])
	n.grown()
	return nil
}

// intervalWidths are the bytes of each part of an interval.
var intervalWidths = [...][]int{{4}, {4, 4}, {4, 4, 8}}

func (r *treeTaker) interval(n *tree, tag byte) error {
	count, err := r.sequence(tag)
	if err != nil {
		return err
	}
	widths := intervalWidths[n.typ.Kind-udfgate.MonthInterval]
	if count != int64(len(widths)) {
		return r.wrong(tag)
	}
	var b [24]byte
	at := 0
	for _, width := range widths {
		v, err := r.part(width)
		if err != nil {
			return err
		}
		binary.LittleEndian.PutUint64(b[at:], uint64(v))
		at += width
	}
	n.fixed(b[:at])
	n.grown()
	return nil
}

// part reads an int of an interval.
func (r *treeTaker) part(width int) (v int64, err error) {
	tag, err := r.tag()
	switch {
	case err != nil:
		return 0, err
	case tag == tagReference:
		err = r.reference(func() error {
			v, err = r.part(width)
			return err
		})
		return v, err
	default:
		return r.signed(tag, -1<<(8*width-1), 1<<(8*width-1)-1)
	}
}

func (r *treeTaker) list(n *tree, tag byte) error {
	count, err := r.sequence(tag)
	if err != nil {
		return err
	}
	if n.typ.Kind == udfgate.FixedSizeList && count != int64(n.typ.Size) {
		return r.wrong(tag)
	}
	if !large(n.typ.Kind) && n.children[0].length+count > math.MaxInt32 {
		return r.limits.TooLarge(n.children[0].length + count)
	}
	for range count {
		if err := r.value(n.children[0]); err != nil {
			return err
		}
	}
	n.grown()
	return nil
}
