package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/udfgate/udfgate"
)

// marshalAnswer puts blocks into a region as a worker does. It counts no nulls:
// the tags say which values are null.
func marshalAnswer(blocks ...[]byte) (rc *ResultColumn, region []byte) {
	region = make([]byte, 8*(len(blocks)+1))
	index := region
	for k, b := range blocks {
		region = append(region, b...)
		binary.LittleEndian.PutUint64(index[8*(k+1):], uint64(len(region)-len(index)))
	}
	copy(region, index)
	rc = &ResultColumn{Form: FormMarshal, Blocks: uint32(len(blocks))}
	rc.Buffers = []Buffer{{0, int64(len(index))}, {int64(len(index)), int64(len(region) - len(index))}}
	return rc, region
}

func countNulls(col testColumn) (n int64) {
	for _, v := range col {
		if v == nil {
			n++
		}
	}
	return n
}

// Lists that CPython writes itself, in blocks.
func TestTakeMarshalOfCPython(t *testing.T) {
	r := testRand(t)
	python := startPython(t)
	columns := map[string]testColumn{
		"empty":        {},
		"one":          {"a"},
		"null":         {nil},
		"nulls":        make(testColumn, 300),
		"boundaries":   boundaries(""),
		"boundaries ß": boundaries("ß"),
		"ascii":        randomText(r, 999, 10, true),
		"no nulls":     randomText(r, 800, 0, true),
		"text":         randomText(r, 999, 10, false),
		"mostly null":  randomText(r, 555, 95, false),
		"interned":     {"a", "b", "", "a", "", nil, "id", "ä", "ä", "é"},
	}
	for name, col := range columns {
		for _, f := range []udfgate.Field{field("s", udfgate.Utf8), field("b", udfgate.Binary)} {
			want := col
			if f.Type.Kind == udfgate.Binary {
				want = asBinary(col)
			}
			for _, blockRows := range []int{8, 64, 4096} {
				t.Run(fmt.Sprintf("%s/%s/%d", name, f.Type, blockRows), func(t *testing.T) {
					var blocks [][]byte
					for part := range slices.Chunk(want, blockRows) {
						blocks = append(blocks, python.dumps(part))
					}
					rc, region := marshalAnswer(blocks...)
					a, err := TakeAnswer(f, int64(len(want)), blockRows, rc, region, answerLimits)
					if err != nil {
						t.Fatal(err)
					}
					checkAnswer(t, f, a, want)
				})
			}
		}
	}
}

// Shared values: CPython writes them once and refers to them.
func TestTakeMarshalReferences(t *testing.T) {
	python := startPython(t)
	repeat := func(n int, v ...any) (col testColumn) {
		for range n {
			col = append(col, v...)
		}
		return col
	}
	long := strings.Repeat("long and constant ", 20)
	for _, c := range []struct {
		expression string
		kind       udfgate.Kind
		want       testColumn
	}{
		{`["yes"] * 100`, udfgate.Utf8, repeat(100, "yes")},
		{`["", "a", None] * 40`, udfgate.Utf8, repeat(40, "", "a", nil)},
		{`["é", "id", "é"] * 30`, udfgate.Utf8, repeat(30, "é", "id", "é")},
		{`["long and constant " * 20] * 50`, udfgate.Utf8, repeat(50, long)},
		{
			`(lambda s: [s, s + "x", s, "漢字" + s, s])("not ascii ß")`, udfgate.Utf8,
			testColumn{"not ascii ß", "not ascii ßx", "not ascii ß", "漢字not ascii ß", "not ascii ß"},
		},
		{`[__import__("sys").intern("漢字"), __import__("sys").intern("id" * 200)] * 3`, udfgate.Utf8, repeat(3, "漢字", strings.Repeat("id", 200))},
		{`[b"", b"x", bytes(300)] * 9`, udfgate.Binary, repeat(9, []byte{}, []byte("x"), make([]byte, 300))},
		{`(lambda l: (globals().update(kept=l), l)[1])(["a", None, "a"])`, udfgate.Utf8, testColumn{"a", nil, "a"}},
	} {
		t.Run(c.expression, func(t *testing.T) {
			block := python.eval(c.expression)
			f := field("c", c.kind)
			rc, region := marshalAnswer(block, block)
			a, err := TakeAnswer(f, int64(2*len(c.want)), len(c.want), rc, region, answerLimits)
			if err != nil {
				t.Fatalf("%v: %q", err, block)
			}
			checkAnswer(t, f, a, append(slices.Clone(c.want), c.want...))
		})
	}
}

// Values that a marshal block of the type may not hold ask for a RECODE, and
// say where.
func TestTakeMarshalAsksForRecode(t *testing.T) {
	python := startPython(t)
	for _, c := range []struct {
		expression string
		kind       udfgate.Kind
		want       TagError
	}{
		{`["a", 5]`, udfgate.Utf8, TagError{1, 'i'}},
		{`["a", "b", 2.5]`, udfgate.Utf8, TagError{2, 'g'}},
		{`[True, "b"]`, udfgate.Utf8, TagError{0, 'T'}},
		{`["a", b"bytes"]`, udfgate.Utf8, TagError{1, 's'}},
		{`["a", bytearray(b"bytes")]`, udfgate.Utf8, TagError{1, 's'}},
		{`[b"a", "text"]`, udfgate.Binary, TagError{1, 'Z'}},
		{`["a", ("b",)]`, udfgate.Utf8, TagError{1, ')'}},
		{`["fine", "\ud800"]`, udfgate.Utf8, TagError{1, 0}},
		{`(lambda l: (l.append(l), l)[1])(["a"])`, udfgate.Utf8, TagError{1, 'r'}},
	} {
		t.Run(c.expression, func(t *testing.T) {
			block := python.eval(c.expression)
			rows := int64(binary.LittleEndian.Uint32(block[1:]))
			rc, region := marshalAnswer(block)
			_, err := TakeAnswer(field("c", c.kind), rows, 64, rc, region, answerLimits)
			e, ok := errors.AsType[*TagError](err)
			if !ok || *e != c.want {
				t.Errorf("got %#v (%v), wanted %#v, from %q", e, err, c.want, block)
			}
		})
	}
}

// A null where the result has none: the worker names it as it names any value
// that does not fit.
func TestTakeMarshalNullOfStrictResult(t *testing.T) {
	strict := udfgate.Field{Name: "c", Type: udfgate.Type{Kind: udfgate.Utf8}}
	for _, values := range []testColumn{{"a", nil}, append(slices.Repeat(testColumn{strings.Repeat("x", 50)}, 40), nil, "y")} {
		rc, region := marshalAnswer(naiveMarshal(values, true))
		_, err := TakeAnswer(strict, int64(len(values)), 64, rc, region, answerLimits)
		want := TagError{int64(slices.Index(values, any(nil))), 'N'}
		if e, ok := errors.AsType[*TagError](err); !ok || *e != want {
			t.Errorf("got %v, wanted %v", err, &want)
		}
	}
}

func TestTakeMarshalRefuses(t *testing.T) {
	list := func(count byte, values string) []byte { return []byte("[" + string(count) + "\x00\x00\x00" + values) }
	good := list(2, "z\x01aN")
	for _, c := range []struct {
		want   string
		blocks [][]byte
		spoil  func(rc *ResultColumn, region []byte)
	}{
		{want: "wanted 2 buffers in form 2 of utf8, got 3", blocks: [][]byte{good}, spoil: func(rc *ResultColumn, _ []byte) { rc.Buffers = append(rc.Buffers, Buffer{}) }},
		{want: "wanted 1 blocks of 64 rows for 2 rows, got 2", blocks: [][]byte{good}, spoil: func(rc *ResultColumn, _ []byte) { rc.Blocks = 2 }},
		{want: "wanted at least 16 bytes of index for 2 rows of utf8, got 8", blocks: [][]byte{good}, spoil: func(rc *ResultColumn, _ []byte) { rc.Buffers[0].Length = 8 }},
		{want: "row 0: marshal block from 0 to 10 of 9 bytes", blocks: [][]byte{good}, spoil: func(_ *ResultColumn, region []byte) { region[8] = 10 }},
		{want: "row 0: marshal block from 10 to 9 of 9 bytes", blocks: [][]byte{good}, spoil: func(_ *ResultColumn, region []byte) { region[0] = 10 }},
		{want: "row 0: marshal block from 0 to 18446744073709551615 of 9 bytes", blocks: [][]byte{good}, spoil: func(_ *ResultColumn, region []byte) { copy(region[8:], "\xff\xff\xff\xff\xff\xff\xff\xff") }},
		{want: "row 0: marshal block of 4 bytes, wanted at least 5", blocks: [][]byte{good[:4]}},
		{want: `row 0: marshal block begins with tag '(', wanted a list`, blocks: [][]byte{[]byte("(\x02\x00\x00\x00NN")}},
		{want: "row 0: wanted a marshal list of 2 values, got 3", blocks: [][]byte{list(3, "NNN")}},
		{want: "row 1: marshal block ends within the value", blocks: [][]byte{list(2, "N")}},
		{want: "row 1: marshal block ends within the value", blocks: [][]byte{list(2, "Nz")}},
		{want: "row 1: marshal block ends within the value", blocks: [][]byte{list(2, "Nz\x02x")}},
		{want: "row 1: marshal block ends within the value", blocks: [][]byte{list(2, "Nu\xff\xff\xff\xffxxxx")}},
		{want: "row 1: marshal block ends within the value", blocks: [][]byte{list(2, "Nr\x00\x00\x00")}},
		{want: "row 1: reference to entry 0 of 0", blocks: [][]byte{list(2, "Nr\x00\x00\x00\x00")}},
		{want: "row 1: reference to entry 4294967295 of 1", blocks: [][]byte{list(2, "\xfa\x01ar\xff\xff\xff\xff")}},
		{want: "row 2: 1 bytes after the marshal list", blocks: [][]byte{append(slices.Clone(good), 'N')}},
	} {
		t.Run(c.want, func(t *testing.T) {
			rc, region := marshalAnswer(c.blocks...)
			if c.spoil != nil {
				c.spoil(rc, region)
			}
			_, err := TakeAnswer(field("c", udfgate.Utf8), 2, 64, rc, region, answerLimits)
			if err == nil || err.Error() != c.want || brokenProtocol(err) != nil {
				t.Errorf("got    %v (%T)\nwanted %s", err, err, c.want)
			}
		})
	}
}

// naiveLoads is the reader that is too slow to ship: one value after the other,
// nothing assumed. The error is of the class that TakeAnswer's must have.
func naiveLoads(k udfgate.Kind, block []byte, rows int) (col testColumn, err error) {
	broken := errors.New("broken")
	cut := func(n int) (head []byte) {
		if n < 0 || n > len(block) {
			err = broken
			return make([]byte, 8)
		}
		head, block = block[:n], block[n:]
		return head
	}
	length := func() int { return int(binary.LittleEndian.Uint32(cut(4))) }
	tag := cut(1)[0]
	var table []any
	if tag|0x80 != '['|0x80 || length() != rows || err != nil {
		return nil, broken
	}
	if tag&0x80 != 0 {
		table = append(table, nil)
	}
	for row := 0; row < rows && err == nil; row++ {
		tag := cut(1)[0]
		var value any
		allowed := "zZaAut"
		if k == udfgate.Binary {
			allowed = "s"
		}
		bare := tag &^ 0x80
		switch {
		case err != nil:
		case tag == 'N':
		case tag == 'r':
			if i := length(); err == nil && i >= len(table) {
				err = broken
			} else if err == nil {
				if value = table[i]; value == nil {
					err = &TagError{int64(row), 'r'}
				}
			}
		case !strings.ContainsRune(allowed, rune(bare)):
			err = &TagError{int64(row), bare}
		case bare == 'z' || bare == 'Z':
			value = string(cut(int(cut(1)[0])))
		default:
			value = string(cut(length()))
		}
		if tag&0x80 != 0 {
			table = append(table, value)
		}
		col = append(col, value)
	}
	if err == nil && len(block) > 0 {
		err = broken
	}
	for row, v := range col {
		s, ok := v.(string)
		if err == nil && ok && k == udfgate.Utf8 && !utf8.ValidString(s) {
			err = &TagError{int64(row), 0}
		}
	}
	if k == udfgate.Binary {
		col = asBinary(col)
	}
	return col, err
}

// compareTake takes one block and compares with naiveLoads, in value or in the
// class and place of the error.
func compareTake(t testing.TB, k udfgate.Kind, block []byte, rows int) {
	t.Helper()
	want, wantErr := naiveLoads(k, block, rows)
	rc, region := marshalAnswer(block)
	a, err := TakeAnswer(field("c", k), int64(rows), BlockRowsMax, rc, region, answerLimits)
	switch {
	case wantErr == nil && err == nil:
		defer a.Release()
		if got := answerColumn(t, k, a); !reflect.DeepEqual(got, want) {
			t.Fatalf("%q (-want +got):\n%s", block, cmp.Diff(want, got))
		}
	case wantErr == nil || err == nil:
		t.Fatalf("%q: got %v, wanted %v", block, err, wantErr)
	default:
		got, _ := errors.AsType[*TagError](err)
		want, _ := errors.AsType[*TagError](wantErr)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q: got %v, wanted %v", block, err, wantErr)
		}
	}
}

// Every byte of a block changed to every other value, and every prefix of it.
func TestTakeMarshalChangedBytes(t *testing.T) {
	python := startPython(t)
	wideASCII := []byte("[\x03\x00\x00\x00a\x02\x00\x00\x00abA\x00\x00\x00\x00t\x02\x00\x00\x00\xc3\x9f")
	for k, blocks := range map[udfgate.Kind][][]byte{
		udfgate.Utf8: {
			wideASCII,
			python.eval(`["yes", None, "yes", "ä" * 3, "", "a" * 33, "漢"]`),
			python.eval(`(lambda l: (globals().update(kept=l), l)[1])(["a", None, "x" * 33, "a"])`),
		},
		udfgate.Binary: {python.eval(`[b"", b"ab", None, b"x" * 33, b"ab"]`)},
	} {
		for _, block := range blocks {
			rows := int(binary.LittleEndian.Uint32(block[1:]))
			compareTake(t, k, block, rows)
			for i := range block {
				compareTake(t, k, block[:i], rows)
				for v := range 256 {
					changed := bytes.Clone(block)
					changed[i] = byte(v)
					compareTake(t, k, changed, rows)
				}
			}
		}
	}
}

// bomb is a constant of size bytes and references to it. With size 100 KB and
// 4096 rows it takes 120 KB and stands for 410 MB.
func bomb(size, rows int) []byte {
	b := binary.LittleEndian.AppendUint32([]byte{'['}, uint32(rows))
	b = binary.LittleEndian.AppendUint32(append(b, 'a'|0x80), uint32(size))
	b = append(b, bytes.Repeat([]byte("x"), size)...)
	for range rows - 1 {
		b = append(b, 'r', 0, 0, 0, 0)
	}
	return b
}

func TestTakeMarshalBomb(t *testing.T) {
	const size, rows = 100_000, 4096
	block := bomb(size, rows)
	for _, c := range []struct {
		blocks int
		max    int64
		want   string
	}{
		{1, 256 << 20, "result of 409616448 bytes is over --max-message-bytes 268435456; send smaller batches"},
		{1, 10, "result of 16448 bytes is over --max-message-bytes 10; send smaller batches"},
		{6, 1 << 40, "result of 2457600000 bytes of utf8 is over 2147483647, the most that one column of a batch can hold; send smaller batches"},
	} {
		t.Run(c.want, func(t *testing.T) {
			rc, region := marshalAnswer(slices.Repeat([][]byte{block}, c.blocks)...)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			f := udfgate.Field{Type: udfgate.Type{Kind: udfgate.Utf8}}
			_, err := TakeAnswer(f, int64(c.blocks*rows), rows, rc, region, upTo(c.max))
			runtime.ReadMemStats(&after)
			e, ok := errors.AsType[*udfgate.Error](err)
			if !ok || e.Shape != udfgate.ShapeTooLarge || e.Error() != c.want {
				t.Errorf("got    %v\nwanted %s", err, c.want)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > uint64(8*len(region)) {
				t.Errorf("%d bytes allocated for an answer of %d", used, len(region))
			}
		})
	}
}

// Below the limit the same is a legal answer, and grows once.
func TestTakeMarshalGrows(t *testing.T) {
	f, rows := field("s", udfgate.Utf8), 300
	want := slices.Repeat(testColumn{strings.Repeat("x", 5000)}, rows)
	rc, region := marshalAnswer(bomb(5000, rows))
	a, err := TakeAnswer(f, int64(rows), 4096, rc, region, upTo(5000*300+2048))
	if err != nil {
		t.Fatal(err)
	}
	checkAnswer(t, f, a, want)
}

// A worker that rewrites its arena while the gateway reads it gets an error or
// an answer that holds together, never a crash. The arena is no memory of Go's,
// so the race detector has no say in it.
func TestTakeMarshalOfShiftingArena(t *testing.T) {
	arena, err := NewOutput(1, 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	defer arena.Close()
	block := naiveMarshal(randomText(testRand(t), 60, 10, false), false)
	block = append(block[:len(block):len(block)], bomb(50, 8)[5:]...)
	binary.LittleEndian.PutUint32(block[1:], 68)
	rc, region := marshalAnswer(block)
	shared := arena.Bytes()[:len(region)]
	copy(shared, region)

	stop, r := make(chan struct{}), testRand(t)
	var worker sync.WaitGroup
	worker.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				i := r.IntN(len(region))
				shared[i] ^= 1 << r.IntN(8)
				shared[i] = region[i]
			}
		}
	})
	f := field("s", udfgate.Utf8)
	for range 3000 {
		a, err := TakeAnswer(f, 68, 4096, rc, shared, answerLimits)
		if err != nil {
			continue
		}
		for _, v := range answerColumn(t, udfgate.Utf8, a) {
			if s, ok := v.(string); ok && !utf8.ValidString(s) {
				t.Fatalf("%q is not UTF-8", s)
			}
		}
		a.Release()
	}
	close(stop)
	worker.Wait()
}
