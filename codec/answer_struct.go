package codec

import (
	"math"
	"math/big"
	"strings"

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
		if !child.nullable {
			return r.wrong(tag)
		}
		child.null()
	}
	n.grown()
	return nil
}

// member reads a key and finds the member of that name. Two keys are never
// equal in a dict; who writes one twice is no worker of ours.
func (r *treeTaker) member(n *tree, tag byte) (child *tree, err error) {
	if tag == tagReference {
		err = r.reference(func() error {
			tag, err := r.tag()
			if err == nil {
				child, err = r.member(n, tag)
			}
			return err
		})
		return child, err
	}
	if !isText(tag) {
		return nil, r.wrong(tag)
	}
	count, err := r.count(tag)
	if err != nil {
		return nil, err
	}
	b, err := r.take(count)
	if err != nil {
		return nil, err
	}
	name := string(b) // the copy is what is looked up
	for i := range n.typ.Children {
		if n.typ.Children[i].Name == name && n.children[i].length == n.length {
			return n.children[i], nil
		}
	}
	return nil, r.wrong(tag)
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

// decimalTextMax is more text than any decimal of 76 digits needs.
const decimalTextMax = 255

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
	if count > decimalTextMax {
		return r.wrong(tag)
	}
	unscaled, ok := parseDecimal(string(b), n.typ)
	if !ok {
		return r.wrong(tag)
	}
	n.fixed(unscaled)
	n.grown()
	return nil
}

// parseDecimal reads "-12.34" or "1.2E+3" as the digits of a decimal type,
// little-endian; false if it is no number, has more digits after the point than
// the scale, or more in all than the precision.
func parseDecimal(text string, t *udfgate.Type) ([]byte, bool) {
	negative := strings.HasPrefix(text, "-")
	text = strings.TrimPrefix(text, "-")
	digits, exponent := make([]byte, 0, len(text)), 0
	mantissa, power, hasPower := strings.Cut(strings.ToUpper(text), "E")
	if hasPower {
		n, ok := new(big.Int).SetString(power, 10)
		if !ok || !n.IsInt64() || n.Int64() > 1000 || n.Int64() < -1000 {
			return nil, false
		}
		exponent = int(n.Int64())
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	if whole+fraction == "" {
		return nil, false
	}
	for _, c := range []byte(whole + fraction) {
		if c < '0' || c > '9' {
			return nil, false
		}
		digits = append(digits, c)
	}
	exponent -= len(fraction)
	return scaleDecimal(digits, exponent, negative, t)
}

// scaleDecimal is digits·10^exponent as the unscaled number of a type.
func scaleDecimal(digits []byte, exponent int, negative bool, t *udfgate.Type) ([]byte, bool) {
	for len(digits) > 0 && digits[0] == '0' {
		digits = digits[1:]
	}
	if len(digits) == 0 {
		return make([]byte, t.Kind.Width()), true
	}
	shift := exponent + int(t.Scale) // zeros to append to reach the scale
	for ; shift < 0 && len(digits) > 0 && digits[len(digits)-1] == '0'; shift++ {
		digits = digits[:len(digits)-1]
	}
	if shift < 0 || len(digits)+shift > int(t.Precision) {
		return nil, false
	}
	for range shift {
		digits = append(digits, '0')
	}
	n, _ := new(big.Int).SetString(string(digits), 10)
	if negative {
		n.Neg(n)
	}
	width := t.Kind.Width()
	if n.Sign() < 0 {
		n.Add(n, new(big.Int).Lsh(big.NewInt(1), uint(8*width)))
	}
	out := n.FillBytes(make([]byte, width))
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out, true
}
