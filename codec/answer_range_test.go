package codec

import (
	"encoding/binary"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/udfgate/udfgate"
)

// wideBytes is a number in so many little-endian bytes of two's complement.
func wideBytes(n *big.Int, width int) []byte {
	out := new(big.Int).Mod(n, new(big.Int).Lsh(big.NewInt(1), uint(8*width))).FillBytes(make([]byte, width))
	for i, j := 0, width-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out
}

func tenTo(digits int64) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(digits), nil) }

// rangeCases are types whose bytes may be no value, with the numbers at both
// sides of each bound.
func rangeCases() []struct {
	typ       udfgate.Type
	good, bad []*big.Int
} {
	type c = struct {
		typ       udfgate.Type
		good, bad []*big.Int
	}
	var cases []c
	for _, k := range []udfgate.Kind{udfgate.Time32, udfgate.Time64} {
		for unit := range udfgate.Unit(4) {
			if (k == udfgate.Time32) != (unit <= udfgate.Millisecond) {
				continue
			}
			day := big.NewInt(daySeconds * unitsPerSecond[unit])
			last := new(big.Int).Sub(day, big.NewInt(1))
			cases = append(cases, c{udfgate.Type{Kind: k, Unit: unit}, []*big.Int{new(big.Int), last}, []*big.Int{big.NewInt(-1), day}})
		}
	}
	cases = append(cases, c{
		udfgate.Type{Kind: udfgate.Date64},
		[]*big.Int{new(big.Int), big.NewInt(-dayMillis), big.NewInt(106751991167 * dayMillis)},
		[]*big.Int{big.NewInt(1), big.NewInt(-1), big.NewInt(dayMillis + 1)},
	})
	for _, k := range []udfgate.Kind{udfgate.Decimal32, udfgate.Decimal64, udfgate.Decimal128, udfgate.Decimal256} {
		for digits := int32(1); digits <= k.DigitsMax(); digits++ {
			over := tenTo(int64(digits))
			most := new(big.Int).Sub(over, big.NewInt(1))
			cases = append(cases, c{
				udfgate.Type{Kind: k, Precision: digits, Scale: 1},
				[]*big.Int{new(big.Int), most, new(big.Int).Neg(most), big.NewInt(-1)},
				[]*big.Int{over, new(big.Int).Neg(over), new(big.Int).Lsh(big.NewInt(-1), uint(8*k.Width()-1))},
			})
		}
	}
	return cases
}

// rangeAnswer is a column of numbers in arrow form, plain or one to a list; gone
// is null, -1 for none.
func rangeAnswer(typ udfgate.Type, numbers []*big.Int, gone int, nested bool) (udfgate.Field, *ResultColumn, []byte) {
	rows := len(numbers)
	region := make([]byte, 128)
	for i := range rows {
		if i != gone {
			region[i/8] |= 1 << (i % 8)
		}
	}
	rc := &ResultColumn{Form: FormArrow}
	validity := Buffer{}
	if gone >= 0 {
		validity, rc.Nulls = Buffer{0, bitmapLen(int64(rows))}, 1
	}
	for _, n := range numbers {
		region = append(region, wideBytes(n, typ.Kind.Width())...)
	}
	values := Buffer{128, int64(len(region) - 128)}
	if !nested {
		rc.Buffers = []Buffer{validity, values}
		return typed(typ), rc, region
	}
	at := roundUp(int64(len(region)), 8)
	region = append(region, make([]byte, at-int64(len(region)))...)
	for i := range rows + 1 {
		region = binary.LittleEndian.AppendUint32(region, uint32(i))
	}
	rc.Buffers = []Buffer{validity, {at, 4 * int64(rows+1)}, {}, values}
	return typed(listOf(udfgate.List, typ, true)), rc, region
}

func TestArrowAnswersHoldValuesOfTheirTypes(t *testing.T) {
	for _, c := range rangeCases() {
		for _, nested := range []bool{false, true} {
			take := func(numbers []*big.Int, gone int) error {
				f, rc, region := rangeAnswer(c.typ, numbers, gone, nested)
				a, err := TakeAnswer(f, int64(len(numbers)), 64, rc, region, answerLimits)
				if err == nil {
					a.Release()
				}
				return err
			}
			name := fmt.Sprintf("%s, nested %t", c.typ, nested)
			if err := take(c.good, -1); err != nil {
				t.Errorf("%s: %v: %v", name, c.good, err)
			}
			for _, bad := range c.bad {
				numbers := append(append([]*big.Int{}, c.good...), bad)
				want := fmt.Sprintf("value %d is none of %s", len(c.good), c.typ)
				if err := take(numbers, -1); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %s: got %v, wanted %q", name, bad, err, want)
				}
				if err := take(numbers, len(c.good)); err != nil { // under a null it is nothing
					t.Errorf("%s: %s under a null: %v", name, bad, err)
				}
			}
		}
	}
}

// BenchmarkRanged is what the look costs beside the copy that is made anyway.
func BenchmarkRanged(b *testing.B) {
	for _, typ := range []udfgate.Type{
		{Kind: udfgate.Time32},
		{Kind: udfgate.Time64, Unit: udfgate.Microsecond},
		{Kind: udfgate.Date64},
		{Kind: udfgate.Decimal64, Precision: 18},
		{Kind: udfgate.Decimal128, Precision: 38},
		{Kind: udfgate.Decimal256, Precision: 76},
	} {
		b.Run(typ.Kind.String(), func(b *testing.B) {
			values := make([]byte, benchRows*typ.Kind.Width())
			c := &Column{Type: &typ, Length: benchRows, Values: Range{0, int64(len(values))}}
			dst := make([]byte, len(values))
			least, copied := time.Hour, time.Hour
			for b.Loop() {
				from := time.Now()
				if err := ranged(values, c, always); err != nil {
					b.Fatal(err)
				}
				least = min(least, time.Since(from))
				from = time.Now()
				copy(dst, values)
				copied = min(copied, time.Since(from))
			}
			b.ReportMetric(float64(least.Nanoseconds())/benchRows, "ns/value")
			b.ReportMetric(float64(copied.Nanoseconds())/benchRows, "copy-ns/value")
		})
	}
}
