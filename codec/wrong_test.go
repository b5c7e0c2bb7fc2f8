package codec

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/udfgate/udfgate"
)

func typed(t udfgate.Type) udfgate.Field { return udfgate.Field{Name: "c", Type: t, Nullable: true} }

func listOf(kind udfgate.Kind, items udfgate.Type, nullable bool) udfgate.Type {
	return udfgate.Type{Kind: kind, Children: []udfgate.Field{{Name: "item", Type: items, Nullable: nullable}}}
}

func structOf(members ...udfgate.Field) udfgate.Type {
	return udfgate.Type{Kind: udfgate.Struct, Children: members}
}

func mapOf(key, value udfgate.Kind) udfgate.Type {
	return udfgate.Type{Kind: udfgate.Map, Children: []udfgate.Field{{Name: "entries", Type: structOf(
		udfgate.Field{Name: "key", Type: udfgate.Type{Kind: key}}, field("value", value))}}}
}

// Values that a type does not hold ask for a RECODE, with their row; their
// neighbours are taken.
func TestTakeWrongValues(t *testing.T) {
	python := startPython(t)
	length := func(list string) int64 { return int64(python.ask('E', []byte("[None]*len("+list+")"))[1]) }
	of := func(k udfgate.Kind) udfgate.Type { return udfgate.Type{Kind: k} }
	money := udfgate.Type{Kind: udfgate.Decimal128, Precision: 5, Scale: 2}
	person := structOf(udfgate.Field{Name: "a", Type: of(udfgate.Int64)}, field("b", udfgate.Utf8))
	for _, c := range []struct {
		typ         udfgate.Type
		good, wrong string // lists
	}{
		{listOf(udfgate.List, of(udfgate.Int8), true), "[[127],[-128],[None],(1,)]", "[[128],[-129],[1.0],['1'],[True],5,{},'1']"},
		{listOf(udfgate.List, of(udfgate.Uint64), true), "[[2**64-1],[0]]", "[[2**64],[-1],[2**200]]"},
		{listOf(udfgate.List, of(udfgate.Int64), false), "[[-2**63],[2**63-1],[]]", "[[None],[2**63],[-2**63-1],[-2**64],[2**64]]"},
		{listOf(udfgate.List, of(udfgate.Float64), true), "[[1.5]]", "[[1],[True],['1']]"},
		{listOf(udfgate.List, of(udfgate.Float32), true), "[[3.4028234663852886e38],[float('inf')]]", "[[3.5e38]]"},
		{listOf(udfgate.List, of(udfgate.Float16), true), "[[65519.0],[float('nan')]]", "[[65520.0]]"},
		{listOf(udfgate.List, of(udfgate.Bool), true), "[[True,False]]", "[[1],[0]]"},
		{listOf(udfgate.List, of(udfgate.Date64), true), "[[-86400000]]", "[[1],[86399999]]"},
		{listOf(udfgate.List, udfgate.Type{Kind: udfgate.Time64, Unit: udfgate.Nanosecond}, true), "[[0],[86400*10**9-1]]", "[[-1],[86400*10**9]]"},
		{of(udfgate.LargeUtf8), "['ä','']", `[b'a',1,'\ud800',['a']]`},
		{of(udfgate.LargeBinary), "[b'a']", "['a',['a']]"},
		{udfgate.Type{Kind: udfgate.FixedSizeBinary, Size: 2}, "[b'ab']", "[b'a',b'abc','ab']"},
		{money, "['999.99','-999.99','1E+2','0.10','0','1.500','0E+9','12.','.5']", "['1000','0.001','','.','1E','NaN','+1',' 1','1_0','--1','1E+1001','1.2.3',1,1.5,b'1']"},
		{udfgate.Type{Kind: udfgate.Decimal32, Precision: 3, Scale: -2}, "['100','12.3E+3','0.00']", "['150','100000','1']"},
		{of(udfgate.MonthDayNanoInterval), "[(1,1,1),(5,-5,-2**63)]", "[(1,1),(2**31,1,1),(1,1,2**63),(1,None,1),(1,1,1,1),'x']"},
		{of(udfgate.Null), "[None]", "[0,False,'']"},
		{udfgate.Type{Kind: udfgate.FixedSizeList, Size: 2, Children: []udfgate.Field{field("item", udfgate.Int64)}}, "[[1,2],[None,1]]", "[[1],[1,2,3],[]]"},
		{person, "[{'a':1,'b':'x'},{'b':None,'a':1},{'a':2},(1,'x')]", "[{'b':'x'},{'a':None},{'a':1,'c':2},{1:1},(1,),(1,'x',2),[1,'x'],{None:1}]"},
		{mapOf(udfgate.Utf8, udfgate.Int64), "[{},{'a':1,'b':None},[('a',1)],[['a',1]]]", "[{None:1},{1:1},{'a':'b'},[('a',)],[1],'x']"},
	} {
		for _, version := range []byte{'2', 'E'} {
			take := func(list string) (*Answer, error) {
				rc, region := marshalAnswer(python.ask(version, []byte(list)))
				rows := region[17] // low byte of the list's count
				return TakeAnswer(typed(c.typ), int64(rows), 64, rc, region, answerLimits)
			}
			a, err := take(c.good)
			if err != nil {
				t.Fatalf("%s: %s: %v", c.typ, c.good, err)
			}
			arrowRead(t, typed(c.typ), a)
			a.Release()
			before := length(c.good)
			for i := range length(c.wrong) {
				_, err := take(fmt.Sprintf("%s + [None] + [(%s)[%d]]", c.good, c.wrong, i))
				if tag, ok := errors.AsType[*TagError](err); !ok || tag.Row != before+1 {
					t.Errorf("%s: value %d of %s: got %v, wanted a wrong tag in row %d", c.typ, i, c.wrong, err, before+1)
				}
			}
		}
	}
}

// Answers that would grow beyond the limit end there, whatever makes them grow,
// and quickly.
func TestTakeTreeBombs(t *testing.T) {
	null := udfgate.Type{Kind: udfgate.Null}
	nulls := listOf(udfgate.List, null, true)
	wide := udfgate.Type{Kind: udfgate.FixedSizeList, Size: math.MaxInt32, Children: []udfgate.Field{{Name: "item", Type: null, Nullable: true}}}
	// A list of lists of lists, each of 100 references to the one below.
	deep, block := nulls, "\xdb\x64\x00\x00\x00"+strings.Repeat("N", 100)
	for level := range 6 {
		deep = listOf(udfgate.List, deep, true)
		block = "\xdb\x65\x00\x00\x00" + block + strings.Repeat("r"+string([]byte{byte(6 - level), 0, 0, 0}), 100)
	}
	for name, c := range map[string]struct {
		typ   udfgate.Type
		block string
	}{
		"references":     {deep, "[\x01\x00\x00\x00" + block},
		"fixed size":     {wide, "[\x01\x00\x00\x00N"},
		"binary":         {udfgate.Type{Kind: udfgate.FixedSizeBinary, Size: math.MaxInt32}, "[\x01\x00\x00\x00N"},
		"fixed of fixed": {udfgate.Type{Kind: udfgate.FixedSizeList, Size: math.MaxInt32, Children: []udfgate.Field{{Name: "item", Type: wide, Nullable: true}}}, "[\x01\x00\x00\x00N"},
	} {
		rc, region := marshalAnswer([]byte(c.block))
		_, err := TakeAnswer(typed(c.typ), 1, 64, rc, region, upTo(1<<20))
		if e, ok := errors.AsType[*udfgate.Error](err); !ok || e.Shape != udfgate.ShapeTooLarge || !strings.Contains(err.Error(), "--max-message-bytes") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A reference to itself, and to the value that it is in.
	for _, block := range []string{"[\x01\x00\x00\x00\xf2\x00\x00\x00\x00", "[\x01\x00\x00\x00\xdb\x01\x00\x00\x00r\x00\x00\x00\x00", "\xdb\x01\x00\x00\x00r\x00\x00\x00\x00"} {
		rc, region := marshalAnswer([]byte(block))
		if _, err := TakeAnswer(typed(deep), 1, 64, rc, region, upTo(1<<20)); err == nil {
			t.Errorf("%q is taken", block)
		}
	}
}

// Flat answers of times and dates are within their range, but for what is null.
func TestTakeFlatRanges(t *testing.T) {
	for _, c := range []struct {
		typ  udfgate.Type
		most int64
		step int64
	}{
		{udfgate.Type{Kind: udfgate.Time32, Unit: udfgate.Second}, 86399, 1},
		{udfgate.Type{Kind: udfgate.Time32, Unit: udfgate.Millisecond}, 86399999, 1},
		{udfgate.Type{Kind: udfgate.Time64, Unit: udfgate.Microsecond}, 86399999999, 1},
		{udfgate.Type{Kind: udfgate.Time64, Unit: udfgate.Nanosecond}, 86399999999999, 1},
		{udfgate.Type{Kind: udfgate.Date64}, math.MaxInt64 / dayMillis * dayMillis, dayMillis},
	} {
		width := c.typ.Kind.Width()
		for _, wrong := range []int64{0, -1, c.most + 1} {
			values := []int64{0, c.most, wrong, c.step}
			region := []byte{1, 1, 1, 1, 0, 0, 0, 0}
			for _, v := range values {
				for i := range width {
					region = append(region, byte(v>>(8*i)))
				}
			}
			rc := &ResultColumn{Form: FormFlat, Buffers: []Buffer{{0, 4}, {8, int64(4 * width)}}}
			a, err := TakeAnswer(typed(c.typ), 4, 64, rc, region, answerLimits)
			if tag, ok := errors.AsType[*TagError](err); wrong != 0 && (!ok || tag.Row != 2) || wrong == 0 && err != nil {
				t.Errorf("%s: %d: %v", c.typ, wrong, err)
			}
			if err == nil {
				a.Release()
			}
			region[2], rc.Nulls = 0, 1
			if a, err = TakeAnswer(typed(c.typ), 4, 64, rc, region, answerLimits); err != nil {
				t.Errorf("%s: %d under a null: %v", c.typ, wrong, err)
			} else {
				a.Release()
			}
		}
	}
}

func text(v any) string { return fmt.Sprint(v) }

// What nobody sees of an Arrow answer is made what every reader takes: text
// before the first offset and under nulls, and nulls under nulls.
func TestTakeArrowUnseen(t *testing.T) {
	member := udfgate.Field{Name: "s", Type: udfgate.Type{Kind: udfgate.Utf8}}
	f := typed(structOf(member))
	region := make([]byte, 48)
	region[0] = 0b101                          // of the struct
	region[8] = 0b101                          // of the member, which has no nulls that are seen
	copy(region[16:], words32(2, 4, 5, 6))     // the first two bytes are no one's
	copy(region[32:], "\xff\xfe\xc3\xa4\xffb") // under the null is no UTF-8
	rc := &ResultColumn{Form: FormArrow, Nulls: 1, Buffers: []Buffer{{0, 1}, {8, 1}, {16, 16}, {32, 6}}}
	a, err := TakeAnswer(f, 3, 64, rc, region, answerLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Release()
	if a.Nodes[1].Nulls != 0 || a.Buffers[1].Length != 0 {
		t.Errorf("nodes %v, buffers %v: wanted no nulls in the member", a.Nodes, a.Buffers)
	}
	if data := a.Buffers[3]; string(a.Body.Bytes()[data.Offset:data.Offset+data.Length]) != "\x00\x00ä\x00b" {
		t.Errorf("data is %q", a.Body.Bytes()[data.Offset:data.Offset+data.Length])
	}
	if got := arrowRead(t, f, a); got.NullN() != 1 {
		t.Errorf("arrow-go reads %s", got)
	}
	region[0] = 0b111
	rc.Nulls = 0
	if _, err := TakeAnswer(f, 3, 64, rc, region, answerLimits); err == nil || !strings.Contains(err.Error(), "not UTF-8") && !strings.Contains(err.Error(), "not nullable") {
		t.Errorf("a null that is seen: %v", err)
	}
}
