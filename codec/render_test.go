package codec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/udfgate/udfgate"
)

// rendered splits what Render wrote into its blocks.
func rendered(t testing.TB, dst []byte, index, data Range) [][]byte {
	t.Helper()
	if index.Off != 0 || data.Off != index.Len {
		t.Fatalf("index %v, data %v: wanted one behind the other", index, data)
	}
	blocks := make([][]byte, index.Len/8-1)
	at := func(k int) uint64 { return binary.LittleEndian.Uint64(dst[8*k:]) }
	for k := range blocks {
		blocks[k] = dst[data.Off:data.End()][at(k):at(k+1)]
	}
	if at(0) != 0 || at(len(blocks)) != uint64(data.Len) {
		t.Fatalf("index goes from %d to %d, wanted 0 to %d", at(0), at(len(blocks)), data.Len)
	}
	return blocks
}

// naiveMarshal is the block as docs/worker-protocol.md writes it down.
func naiveMarshal(col testColumn, ascii bool) []byte {
	b := binary.LittleEndian.AppendUint32([]byte{'['}, uint32(len(col)))
	for _, v := range col {
		switch v := v.(type) {
		case nil:
			b = append(b, 'N')
		case []byte:
			b = append(binary.LittleEndian.AppendUint32(append(b, 's'), uint32(len(v))), v...)
		case string:
			switch {
			case ascii && len(v) < 256:
				b = append(b, 'z', byte(len(v)))
			case ascii:
				b = binary.LittleEndian.AppendUint32(append(b, 'a'), uint32(len(v)))
			default:
				b = binary.LittleEndian.AppendUint32(append(b, 'u'), uint32(len(v)))
			}
			b = append(b, v...)
		}
	}
	return b
}

// boundaries has every length at which a header or a move changes.
func boundaries(suffix string) testColumn {
	var col testColumn
	for _, n := range []int{0, 1, 7, 8, 9, 31, 32, 33, 39, 40, 41, 63, 64, 254, 255, 256, 257, 5000} {
		col = append(col, strings.Repeat("x", n)+suffix, nil)
	}
	return col
}

func asBinary(col testColumn) testColumn {
	out := make(testColumn, len(col))
	for i, v := range col {
		if s, ok := v.(string); ok {
			out[i] = []byte(s)
		}
	}
	return out
}

func TestRenderBytes(t *testing.T) {
	r := testRand(t)
	python := startPython(t)
	columns := map[string]testColumn{
		"empty":        {},
		"one":          {"a"},
		"null":         {nil},
		"nulls":        make(testColumn, 130),
		"boundaries":   boundaries(""),
		"boundaries ß": boundaries("ß"),
		"ascii":        randomText(r, 999, 10, true),
		"no nulls":     randomText(r, 800, 0, true),
		"text":         randomText(r, 999, 10, false),
		"mostly null":  randomText(r, 555, 95, false),
		"empty values": {"", "", nil, "", "x"},
		"wide only":    {strings.Repeat("y", 300), strings.Repeat("z", 256)},
	}
	for name, col := range columns {
		for _, f := range []udfgate.Field{field("s", udfgate.Utf8), field("s", udfgate.Binary)} {
			for _, o := range []bodyOptions{{}, {firstOffset: 5, rubbish: true}, {allValid: true}} {
				t.Run(fmt.Sprintf("%s/%s/%+v", name, f.Type, o), func(t *testing.T) {
					want := col
					if f.Type.Kind == udfgate.Binary {
						want = asBinary(col)
					}
					b := decoded(t, []udfgate.Field{f}, []testColumn{want}, o)
					checkRender(t, python, b, want)
				})
			}
		}
	}
}

// checkRender renders ranges of column 0 in blocks of several sizes, into a
// slot with slack and into memory without.
func checkRender(t *testing.T, python *cpython, b *Batch, want testColumn) {
	t.Helper()
	rows := int64(len(want))
	for _, blockRows := range []int{8, 64, BlockRows(b)} {
		for _, lo := range []int64{0, 8, 512} {
			for _, slack := range []int64{0, Slack} {
				if hi := rows - slack/8; lo <= hi {
					checkRange(t, b, want, lo, hi, blockRows, slack)
				}
			}
		}
	}
	dst := make([]byte, RenderSize(b, 0, 0, rows))
	index, data := Render(dst, b, 0, 0, rows, BlockRowsMax)
	got := testColumn{}
	for _, block := range rendered(t, dst, index, data) {
		got = append(got, python.loads(block)...)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("CPython reads back (-want +got):\n%s", diff)
	}
}

func checkRange(t *testing.T, b *Batch, want testColumn, lo, hi int64, blockRows int, slack int64) {
	t.Helper()
	dst := bytes.Repeat([]byte{0xaa}, int(RenderSize(b, 0, lo, hi)+slack))
	index, data := Render(dst, b, 0, lo, hi, blockRows)
	for k, block := range rendered(t, dst, index, data) {
		from := lo + int64(k*blockRows)
		naive := naiveMarshal(want[from:min(from+int64(blockRows), hi)], b.Columns[0].ASCII)
		if !bytes.Equal(block, naive) {
			t.Fatalf("block %d of rows %d to %d:\n got %q\nwant %q", k, lo, hi, block, naive)
		}
	}
}

func TestBlockRows(t *testing.T) {
	text := func(rows, length int) testColumn {
		col := make(testColumn, rows)
		for i := range col {
			col[i] = strings.Repeat("x", length)
		}
		return col
	}
	s, ints := field("s", udfgate.Utf8), field("a", udfgate.Int8)
	for _, c := range []struct {
		name    string
		fields  []udfgate.Field
		columns []testColumn
		want    int
	}{
		{"no columns", nil, nil, BlockRowsMax},
		{"no rows", []udfgate.Field{s}, []testColumn{{}}, BlockRowsMax},
		{"fixed width", []udfgate.Field{ints}, []testColumn{{int8(1)}}, BlockRowsMax},
		{"short text", []udfgate.Field{s}, []testColumn{text(100, 3)}, BlockRowsMax},
		{"18 bytes", []udfgate.Field{s}, []testColumn{text(100, 18)}, 2048},
		{"two columns", []udfgate.Field{s, s}, []testColumn{text(100, 18), text(100, 18)}, 1024},
		{"long text", []udfgate.Field{s}, []testColumn{text(10, 100000)}, BlockRowsMin},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := BlockRows(decoded(t, c.fields, c.columns, bodyOptions{})); got != c.want {
				t.Errorf("%d rows, wanted %d", got, c.want)
			}
		})
	}
}

// A value under a null may be long without counting against anything.
func TestRenderLongUnderNull(t *testing.T) {
	f := []udfgate.Field{field("s", udfgate.Utf8)}
	m, body := buildBody(f, []testColumn{{"a", strings.Repeat("q", 5000), "b"}}, bodyOptions{allValid: true})
	body[m.Buffers[0].Offset] = 0b101
	b, err := decodeBody(testStore(t), f, m, body)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	dst := make([]byte, RenderSize(b, 0, 0, 3))
	index, data := Render(dst, b, 0, 0, 3, 64)
	if got, want := string(rendered(t, dst, index, data)[0]), "[\x03\x00\x00\x00z\x01aNz\x01b"; got != want {
		t.Errorf("got %q, wanted %q", got, want)
	}
}
