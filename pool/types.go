package pool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/udfgate/udfgate"
)

// Bounds of a type that a worker declares.
const (
	typeDepthMax   = 32
	typeMembersMax = 10_000
)

// loadedType is a type in LOADED: its name, or an object with its parameters.
type loadedType struct {
	Name      string        `json:"name"`
	Unit      string        `json:"unit"`
	Zone      string        `json:"zone"`
	Precision int32         `json:"precision"`
	Scale     int32         `json:"scale"`
	Size      int32         `json:"size"`
	Extension string        `json:"extension"`
	View      string        `json:"view"`
	Children  []loadedField `json:"children"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *loadedType) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(text, []byte{'"'}) {
		return json.Unmarshal(text, &t.Name)
	}
	type plain loadedType // without this method
	return json.Unmarshal(text, (*plain)(t))
}

// views are the names of views in LOADED.
var views = map[string]udfgate.View{"": udfgate.ViewDefault, "dict": udfgate.ViewDefault, "tuple": udfgate.ViewTuple, "pairs": udfgate.ViewPairs}

// typ makes the type, and refuses parameters that make none.
func (t *loadedType) typ(depth int) (out udfgate.Type, err error) {
	if depth > typeDepthMax {
		return out, fmt.Errorf("type nested deeper than %d levels", typeDepthMax)
	}
	kind, ok := udfgate.KindByName(t.Name)
	if !ok || !kind.Canonical() {
		return out, fmt.Errorf("unknown type %q", t.Name)
	}
	out = udfgate.Type{Kind: kind, Zone: t.Zone, Precision: t.Precision, Scale: t.Scale, Size: t.Size, Extension: t.Extension}
	if out.View, ok = views[t.View]; !ok {
		return out, fmt.Errorf("type %s: unknown view %q", t.Name, t.View)
	}
	if t.Unit != "" {
		if out.Unit, ok = udfgate.UnitByName(t.Unit); !ok {
			return out, fmt.Errorf("type %s: unknown unit %q", t.Name, t.Unit)
		}
	}
	if len(t.Children) > typeMembersMax {
		return out, fmt.Errorf("type %s of %d members, the most is %d", t.Name, len(t.Children), typeMembersMax)
	}
	for i := range t.Children {
		child, err := t.Children[i].field(depth + 1)
		if err != nil {
			return out, fmt.Errorf("%s: %w", t.Name, err)
		}
		out.Children = append(out.Children, child)
	}
	if kind == udfgate.Map && len(out.Children) == 2 { // the entries are a struct in Arrow
		out.Children[0].Nullable = false
		entries := udfgate.Field{Name: "entries", Type: udfgate.Type{Kind: udfgate.Struct, Children: out.Children}}
		out.Children = []udfgate.Field{entries}
	}
	return out, checkType(&out)
}

// checkType refuses parameters out of their range.
func checkType(t *udfgate.Type) error {
	digits := t.Kind.DigitsMax()
	children := map[udfgate.Kind]int{udfgate.List: 1, udfgate.LargeList: 1, udfgate.FixedSizeList: 1, udfgate.Map: 1}[t.Kind]
	switch {
	case digits > 0 && (t.Precision < 1 || t.Precision > digits || t.Scale < -digits || t.Scale > digits):
		return fmt.Errorf("type %s: wanted 1 to %d digits", t, digits)
	case t.Size < 0:
		return fmt.Errorf("type %s: wanted a size of at least 0", t)
	case t.Kind == udfgate.FixedSizeList && t.Size == 0:
		return fmt.Errorf("type %s: wanted lists of at least 1 item", t)
	case t.Kind == udfgate.Time32 && t.Unit > udfgate.Millisecond, t.Kind == udfgate.Time64 && t.Unit < udfgate.Microsecond:
		return fmt.Errorf("type %s: wanted s or ms of time32, us or ns of time64", t)
	case t.Kind != udfgate.Struct && len(t.Children) != children:
		return fmt.Errorf("type %s: wanted %d children, got %d", t.Kind, children, len(t.Children))
	}
	return nil
}

func (l *loadedField) field(depth int) (udfgate.Field, error) {
	t, err := l.Type.typ(depth)
	if err != nil {
		return udfgate.Field{}, err
	}
	return udfgate.Field{Name: l.Name, Type: t, Nullable: l.Nullable}, nil
}

// sameTypes compares what signatures do not show: names and views below columns.
func sameTypes(a, b *udfgate.Function) bool {
	return slices.EqualFunc(a.Args, b.Args, sameField) && sameField(a.Result, b.Result)
}

func sameField(a, b udfgate.Field) bool {
	return a.Name == b.Name && a.Nullable == b.Nullable && a.Type.Equal(b.Type) && a.Type.View == b.Type.View &&
		a.Type.Extension == b.Type.Extension && slices.EqualFunc(a.Type.Children, b.Type.Children, sameField)
}
