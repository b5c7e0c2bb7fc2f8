package codec

import (
	"errors"
	"reflect"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/udfgate/udfgate"
)

// FuzzTakeMarshal: any bytes are taken as the slow reader of the tests takes
// them, to the value or to the kind and row of the error.
func FuzzTakeMarshal(f *testing.F) {
	f.Add([]byte("[\x02\x00\x00\x00\xda\x01ar\x00\x00\x00\x00"), uint16(2), false)
	f.Add(naiveMarshal(testColumn{"é", nil, "x"}, false), uint16(3), false)
	f.Add(naiveMarshal(asBinary(boundaries("")), false), uint16(36), true)
	f.Add(bomb(200, 30), uint16(30), false)
	f.Fuzz(func(t *testing.T, block []byte, rows uint16, isBinary bool) {
		if rows > BlockRowsMax || len(block)*int(rows) > answerMax {
			t.Skip("references could make more of it than the limit")
		}
		k := udfgate.Utf8
		if isBinary {
			k = udfgate.Binary
		}
		compareTake(t, k, block, int(rows))
	})
}

// fuzzSchemas are what FuzzDecode expects the columns to be.
var fuzzSchemas = [][]udfgate.Field{
	{},
	{field("a", udfgate.Int64)},
	{field("s", udfgate.Utf8)},
	{field("s", udfgate.Utf8), field("b", udfgate.Bool), field("d", udfgate.Binary), field("i", udfgate.Int16)},
}

// FuzzDecode: any header and body give an error or a batch that holds what a
// worker relies on, and whose text goes through marshal and back unchanged.
func FuzzDecode(f *testing.F) {
	r := testRand(f, 1)
	for i, fields := range fuzzSchemas {
		for _, rows := range []int{0, 9} {
			header, body := arrowMessage(f, fuzzBatch(r.Uint64(), fields, rows))
			f.Add(uint8(i), header, body)
		}
	}
	store := NewStore(StoreConfig{})
	f.Cleanup(func() { store.Close() })
	f.Fuzz(func(t *testing.T, which uint8, header, body []byte) {
		var m Message
		fields := fuzzSchemas[int(which)%len(fuzzSchemas)]
		if ReadMessage(header, &m) != nil || m.Kind != KindRecordBatch {
			return
		}
		b, err := decodeBody(store, fields, &m, body)
		if err != nil {
			if _, ok := errors.AsType[*udfgate.Error](err); !ok {
				t.Errorf("%T is not the caller's error: %v", err, err)
			}
			return
		}
		defer b.Release()
		if b.Rows > 1<<12 { // only a batch without columns has more rows than bytes to fuzz
			return
		}
		for i, f := range fields {
			checkFuzzed(t, f, b, i)
		}
	})
}

func checkFuzzed(t *testing.T, f udfgate.Field, b *Batch, i int) {
	want := batchColumn(b, i)
	if got := countNulls(want); got != b.Columns[i].Nulls {
		t.Errorf("column %d: %d nulls, batch says %d", i, got, b.Columns[i].Nulls)
	}
	if !f.Type.Kind.Variable() {
		return
	}
	for row, v := range want {
		if s, ok := v.(string); ok && !utf8.ValidString(s) {
			t.Fatalf("column %d, row %d: %q passed as UTF-8", i, row, s)
		}
	}
	dst := make([]byte, RenderSize(b, i, 0, b.Rows))
	index, data := Render(dst, b, i, 0, b.Rows, 64)
	rc := &ResultColumn{
		Form: FormMarshal, Blocks: uint32(index.Len/8 - 1), Nulls: b.Columns[i].Nulls,
		Buffers: []Buffer{{index.Off, index.Len}, {data.Off, data.Len}},
	}
	a, err := TakeAnswer(f, b.Rows, 64, rc, dst, answerLimits)
	if err != nil {
		t.Fatalf("column %d: what Render wrote is refused: %v", i, err)
	}
	defer a.Release()
	if got := answerColumn(t, f.Type.Kind, a); !reflect.DeepEqual(got, want) {
		t.Fatalf("column %d (-want +got):\n%s", i, cmp.Diff(want, got))
	}
}
