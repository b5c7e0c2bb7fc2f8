package codec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/udfgate/udfgate"
)

// expressionOf appends value i of an array, as arrow-go reads it, as the Python
// expression of the value that a body gets: pythonProgram writes the same.
func expressionOf(b *strings.Builder, t *udfgate.Type, a arrow.Array, i int) {
	if a.IsNull(i) || t.Kind == udfgate.Null {
		b.WriteString("None")
		return
	}
	items := func(from, to int64) {
		b.WriteString("[")
		values := a.(array.ListLike).ListValues()
		for ; from < to; from++ {
			expressionOf(b, &t.Children[0].Type, values, int(from))
			b.WriteString(",")
		}
		b.WriteString("]")
	}
	switch a := a.(type) {
	case *array.Map:
		mapExpression(b, t, a, i)
	case array.ListLike:
		items(a.ValueOffsets(i))
	case *array.Struct:
		open, shut := "{", "}"
		if t.View == udfgate.ViewTuple {
			open, shut = "(", ")"
		}
		b.WriteString(open)
		for m := range t.Children {
			if open == "{" {
				fmt.Fprintf(b, "S('%x'):", t.Children[m].Name)
			}
			expressionOf(b, &t.Children[m].Type, a.Field(m), i)
			b.WriteString(",")
		}
		b.WriteString(shut)
	default:
		b.WriteString(scalarExpression(t, a, i))
	}
}

func mapExpression(b *strings.Builder, t *udfgate.Type, a *array.Map, i int) {
	from, to := a.ValueOffsets(i)
	entries := t.Children[0].Type.Children
	text := func(field int, values arrow.Array, at int64) string {
		var b strings.Builder
		expressionOf(&b, &entries[field].Type, values, int(at))
		return b.String()
	}
	if t.View == udfgate.ViewPairs {
		b.WriteString("[")
		for ; from < to; from++ {
			fmt.Fprintf(b, "(%s,%s,),", text(0, a.Keys(), from), text(1, a.Items(), from))
		}
		b.WriteString("]")
		return
	}
	var keys []string
	values := map[string]string{} // of equal keys the last one's, in the place of the first
	for ; from < to; from++ {
		key := text(0, a.Keys(), from)
		if _, ok := values[key]; !ok {
			keys = append(keys, key)
		}
		values[key] = text(1, a.Items(), from)
	}
	b.WriteString("{")
	for _, key := range keys {
		b.WriteString(key + ":" + values[key] + ",")
	}
	b.WriteString("}")
}

func scalarExpression(t *udfgate.Type, a arrow.Array, i int) string {
	text := func(s string) string { return fmt.Sprintf("S('%x')", s) }
	float := func(v float64) string { return fmt.Sprintf("F('%016x')", math.Float64bits(v)) }
	switch a := a.(type) {
	case *array.Boolean:
		return map[bool]string{true: "True", false: "False"}[a.Value(i)]
	case *array.String:
		return text(a.Value(i))
	case *array.LargeString:
		return text(a.Value(i))
	case *array.Binary:
		return fmt.Sprintf("B('%x')", a.Value(i))
	case *array.LargeBinary:
		return fmt.Sprintf("B('%x')", a.Value(i))
	case *array.FixedSizeBinary:
		return fmt.Sprintf("B('%x')", a.Value(i))
	case *array.Float16:
		return float(float64(a.Value(i).Float32()))
	case *array.Float32:
		return float(float64(a.Value(i)))
	case *array.Float64:
		return float(a.Value(i))
	case *array.Decimal32:
		return text(plainDecimal(big.NewInt(int64(a.Value(i))), t.Scale))
	case *array.Decimal64:
		return text(plainDecimal(big.NewInt(int64(a.Value(i))), t.Scale))
	case *array.Decimal128:
		return text(plainDecimal(a.Value(i).BigInt(), t.Scale))
	case *array.Decimal256:
		return text(plainDecimal(a.Value(i).BigInt(), t.Scale))
	case *array.MonthInterval:
		return fmt.Sprintf("(%d,)", a.Value(i))
	case *array.DayTimeInterval:
		return fmt.Sprintf("(%d,%d,)", a.Value(i).Days, a.Value(i).Milliseconds)
	case *array.MonthDayNanoInterval:
		return fmt.Sprintf("(%d,%d,%d,)", a.Value(i).Months, a.Value(i).Days, a.Value(i).Nanoseconds)
	case *array.Uint64:
		return fmt.Sprint(a.Value(i))
	}
	data := a.Data().Buffers()[1].Bytes()
	return fmt.Sprint(signedAt(t.Kind, data, int64(a.Data().Offset()+i)))
}

// plainDecimal is digits with a point, the slow way.
func plainDecimal(n *big.Int, scale int32) string {
	if scale < 0 {
		return fmt.Sprintf("%dE+%d", n, -scale)
	}
	digits, sign := new(big.Int).Abs(n).String(), ""
	if n.Sign() < 0 {
		sign = "-"
	}
	if short := int(scale) + 1 - len(digits); short > 0 {
		digits = strings.Repeat("0", short) + digits
	}
	if scale == 0 {
		return sign + digits
	}
	return sign + digits[:len(digits)-int(scale)] + "." + digits[len(digits)-int(scale):]
}

// withViews gives structs and maps random views.
func withViews(r *rand.Rand, t udfgate.Type) udfgate.Type {
	if t.Kind == udfgate.Struct || t.Kind == udfgate.Map {
		t.View = []udfgate.View{udfgate.ViewDefault, udfgate.ViewTuple, udfgate.ViewPairs}[r.IntN(3)]
	}
	for i := range t.Children {
		t.Children[i].Type = withViews(r, t.Children[i].Type)
	}
	if t.Kind == udfgate.Struct { // a body could not tell members of one name apart
		for i := range t.Children {
			t.Children[i].Name += fmt.Sprint(i)
		}
	}
	return t
}

// everyCase is a random column of a rendered type, in a slot.
type everyCase struct {
	field  udfgate.Field
	theirs arrow.Field
	array  arrow.Array
	batch  *Batch
}

func randomCase(t testing.TB, r *rand.Rand, store *Store) everyCase {
	t.Helper()
	f := randomCanonicalField(r, 3)
	f.Type, f.Nullable = withViews(r, f.Type), true
	c := everyCase{field: f, theirs: arrowFields(t, []udfgate.Field{f})[0]}
	n := r.IntN(60)
	whole := randomArray(r, c.theirs, n)
	from := r.Int64N(int64(n) + 1)
	c.array = array.NewSlice(whole, from, from+r.Int64N(int64(n)-from+1))
	batch := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{c.theirs}, nil), []arrow.Array{c.array}, int64(c.array.Len()))
	header, body := arrowMessage(t, batch)
	var m Message
	if err := ReadMessage(header, &m); err != nil {
		t.Fatal(err)
	}
	var err error
	if c.batch, err = decodeBody(store, []udfgate.Field{f}, &m, body); err != nil {
		t.Fatal(err)
	}
	return c
}

// expressions are the values of rows [lo, hi) as a Python list.
func (c *everyCase) expressions(lo, hi int) string {
	var b strings.Builder
	b.WriteString("[")
	for i := lo; i < hi; i++ {
		expressionOf(&b, &c.field.Type, c.array, i)
		b.WriteString(",")
	}
	b.WriteString("]")
	return b.String()
}

// Values of any type go to CPython as arrow-go reads them, and come back as an
// answer that arrow-go reads as the same values.
func TestEveryTypeThroughPython(t *testing.T) {
	r := testRand(t)
	store, python := testStore(t), startPython(t)
	for range 400 {
		c := randomCase(t, r, store)
		if !Rendered(&c.field.Type) {
			c.batch.Release()
			continue
		}
		rows := c.array.Len()
		dst := bytes.Repeat([]byte{0xaa}, int(RenderSize(c.batch, 0, 0, int64(rows))))
		index, data := Render(dst, c.batch, 0, 0, int64(rows), 8)
		for k, block := range rendered(t, dst, index, data) {
			want := c.expressions(8*k, min(8*k+8, rows))
			if got := string(python.ask('X', block)); got != want {
				t.Fatalf("%s: CPython reads\n%s\nwanted\n%s", c.field.Type, got, want)
			}
		}
		for _, version := range []byte{'2', 'E'} {
			takeEvery(t, python, &c, version)
		}
		c.batch.Release()
	}
}

// takeEvery takes what CPython dumps of the values.
func takeEvery(t *testing.T, python *cpython, c *everyCase, version byte) {
	t.Helper()
	rows := c.array.Len()
	var blocks [][]byte
	for lo := 0; lo < rows; lo += 8 {
		blocks = append(blocks, python.ask(version, []byte(c.expressions(lo, min(lo+8, rows)))))
	}
	rc, region := marshalAnswer(blocks...)
	a, err := TakeAnswer(c.field, int64(rows), 8, rc, region, answerLimits)
	if err != nil {
		t.Fatalf("%s: %v\n%s", c.field.Type, err, c.expressions(0, rows))
	}
	c.check(t, a)
}

// check compares an answer with the column's values.
func (c *everyCase) check(t *testing.T, a *Answer) {
	t.Helper()
	defer a.Release()
	got := everyCase{field: c.field, array: arrowRead(t, c.field, a)}
	rows := c.array.Len()
	if got, want := got.expressions(0, rows), c.expressions(0, rows); got != want {
		t.Fatalf("%s: arrow-go reads\n%s\nwanted\n%s", c.field.Type, got, want)
	}
}

// Columns of any type are taken from Arrow buffers as they lie in a slot.
func TestEveryTypeFromArrow(t *testing.T) {
	r := testRand(t)
	store := testStore(t)
	for range 400 {
		c := randomCase(t, r, store)
		rc := &ResultColumn{Form: FormArrow, Nulls: c.batch.Columns[0].Nulls}
		for _, b := range c.batch.Columns[0].AppendBuffers(nil) {
			rc.Buffers = append(rc.Buffers, Buffer{Offset: b.Off, Length: b.Len})
		}
		a, err := TakeAnswer(c.field, c.batch.Rows, 64, rc, c.batch.Slot.Bytes(), answerLimits)
		if err != nil {
			t.Fatalf("%s: %v", c.field.Type, err)
		}
		c.check(t, a)
		c.batch.Release()
		empty := EmptyAnswer(c.field)
		if got := arrowRead(t, c.field, empty); got.Len() != 0 {
			t.Fatalf("%d rows of an empty answer", got.Len())
		}
		empty.Release()
	}
}

// Every float16 widens as CPython's struct module says, and comes back.
func TestEveryFloat16(t *testing.T) {
	python := startPython(t)
	all := python.eval("[struct.unpack('<e', struct.pack('<H', h))[0] for h in range(65536)]")
	for h := range 65536 {
		want := math.Float64frombits(binary.LittleEndian.Uint64(all[5+9*h+1:]))
		got := halfToFloat(uint16(h))
		if got != want && !(math.IsNaN(got) && math.IsNaN(want)) || math.Signbit(got) != math.Signbit(want) {
			t.Fatalf("%#x: got %v, wanted %v", h, got, want)
		}
		if back, ok := floatToHalf(got); !ok || back != uint16(h) && !math.IsNaN(got) {
			t.Fatalf("%#x comes back as %#x, %t", h, back, ok)
		}
	}
	r := testRand(t)
	for range 20_000 {
		v := math.Ldexp(r.Float64()*2-1, r.IntN(60)-40)
		block := python.eval(fmt.Sprintf("(lambda v: [struct.unpack('<H', struct.pack('<e', v))[0] if abs(v) < 65520 else -1])(float.fromhex('%x'))", v))
		want := int32(binary.LittleEndian.Uint32(block[6:]))
		if half, ok := floatToHalf(v); ok != (want >= 0) || ok && half != uint16(want) {
			t.Fatalf("%v: got %#x %t, wanted %#x", v, half, ok, want)
		}
		if testing.Short() {
			break
		}
	}
}

// Decimals of every width and scale are written as digits, whatever lies in
// their bytes, and read back where they fit.
func TestEveryDecimal(t *testing.T) {
	r := testRand(t)
	for range 20_000 {
		kind := udfgate.Decimal32 + udfgate.Kind(r.IntN(4))
		width := kind.Width()
		digits := kind.DigitsMax()
		typ := udfgate.Type{Kind: kind, Precision: 1 + r.Int32N(digits), Scale: r.Int32N(2*digits+1) - digits}
		b := make([]byte, width)
		for i := range 1 + r.IntN(width) {
			b[i] = byte(r.Uint32())
		}
		if r.IntN(2) == 0 { // the negative
			for i := range b {
				b[i] = ^b[i]
			}
		}
		n := new(big.Int)
		for i := range b {
			n.Lsh(n, 8).Or(n, big.NewInt(int64(b[width-1-i])))
		}
		if b[width-1]&0x80 != 0 {
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*width)))
		}
		text := string(appendDecimal(nil, b, typ.Scale))
		if want := plainDecimal(n, typ.Scale); text != want {
			t.Fatalf("%s of %x: got %s, wanted %s", typ, b, text, want)
		}
		if int64(len(text)) > decimalTextMax(width, typ.Scale) {
			t.Fatalf("%s is longer than %d", text, decimalTextMax(width, typ.Scale))
		}
		var out [32]byte
		fits := n.CmpAbs(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(typ.Precision)), nil)) < 0
		if ok := parseDecimal(&out, []byte(text), &typ); ok != fits {
			t.Fatalf("%s as %s: %t", text, typ, ok)
		}
		if fits && !bytes.Equal(out[:width], b) {
			t.Fatalf("%s came back as %x, wanted %x", text, out[:width], b)
		}
	}
}

// Numbers at the ends of their types, and around every power of two, go to
// CPython and come back.
func TestExtremesThroughPython(t *testing.T) {
	python, store := startPython(t), testStore(t)
	var bits []int64
	for shift := range 64 {
		bits = append(bits, 1<<shift-1, 1<<shift, 1<<shift+1, -1<<shift, -1<<shift-1)
	}
	floats := []float64{0, math.Copysign(0, -1), 1, math.Inf(1), math.Inf(-1), math.NaN(), math.MaxFloat64, math.SmallestNonzeroFloat64, 0.1}
	var kinds []udfgate.Kind
	for k := udfgate.Int8; k <= udfgate.Float64; k++ {
		kinds = append(kinds, k)
	}
	kinds = append(kinds, udfgate.Date32, udfgate.Timestamp, udfgate.Duration)
	for _, k := range kinds {
		var values []byte
		expression, n := "[[", int32(0)
		add := func(v []byte, text string) {
			values, n = append(values, v...), n+1
			expression += text + ","
		}
		for _, v := range bits {
			raw := words64(v)[:k.Width()]
			if k == udfgate.Uint64 {
				add(raw, fmt.Sprint(uint64(v)))
			} else if k != udfgate.Float32 && k != udfgate.Float64 {
				add(raw, fmt.Sprint(signedAt(k, raw, 0)))
			}
		}
		for _, v := range floats {
			switch k {
			case udfgate.Float32:
				add(words32(int32(math.Float32bits(float32(v)))), fmt.Sprintf("F('%016x')", math.Float64bits(float64(float32(v)))))
			case udfgate.Float64:
				add(words64(int64(math.Float64bits(v))), fmt.Sprintf("F('%016x')", math.Float64bits(v)))
			}
		}
		expression += "],]"
		f := typed(listOf(udfgate.List, udfgate.Type{Kind: k}, true))
		m, body := bodyOf(1, []Node{{1, 0}, {int64(n), 0}}, nil, words32(0, n), nil, values)
		b, err := decodeBody(store, []udfgate.Field{f}, m, body)
		if err != nil {
			t.Fatal(err)
		}
		dst := make([]byte, RenderSize(b, 0, 0, 1))
		_, data := Render(dst, b, 0, 0, 1, 64)
		if got := string(python.ask('X', dst[data.Off:data.End()])); got != expression {
			t.Errorf("%s: CPython reads\n%s\nwanted\n%s", k, got, expression)
		}
		b.Release()
		for _, version := range []byte{'2', 'E'} {
			rc, region := marshalAnswer(python.ask(version, []byte(expression)))
			a, err := TakeAnswer(f, 1, 64, rc, region, answerLimits)
			if err != nil {
				t.Fatalf("%s: %v", k, err)
			}
			if got := a.Buffers[3]; !bytes.Equal(a.Body.Bytes()[got.Offset:got.Offset+got.Length], values) {
				t.Errorf("%s: got %x, wanted %x", k, a.Body.Bytes()[got.Offset:got.Offset+got.Length], values)
			}
			a.Release()
		}
	}
}
