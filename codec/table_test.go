package codec

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/udfgate/udfgate"
)

// Tests hold a column as its Go values: nil for null, string, []byte, bool, or
// the Go number of the kind.
type testColumn []any

// bodyOptions are the liberties that a sender may take.
type bodyOptions struct {
	firstOffset int  // bytes of rubbish before the first value
	rubbish     bool // under nulls: bytes that are no UTF-8, bits that are not 0
	allValid    bool // send a validity buffer even without nulls
	align       int  // of buffer starts, 8 if 0
}

func field(name string, k udfgate.Kind) udfgate.Field {
	return udfgate.Field{Name: name, Type: udfgate.Type{Kind: k}, Nullable: true}
}

// buildBody lays columns out as a sender would.
func buildBody(fields []udfgate.Field, columns []testColumn, o bodyOptions) (*Message, []byte) {
	m := &Message{Kind: KindRecordBatch}
	var body []byte
	add := func(b []byte) {
		align := max(o.align, 8)
		for len(body)%align != 0 {
			body = append(body, 0)
		}
		m.Buffers = append(m.Buffers, Buffer{int64(len(body)), int64(len(b))})
		body = append(body, b...)
	}
	for i, f := range fields {
		col := columns[i]
		m.Rows = int64(len(col))
		validity, nulls := buildValidity(col, o)
		m.Nodes = append(m.Nodes, Node{Length: m.Rows, Nulls: -1})
		if nulls > 0 || o.allValid {
			add(validity)
		} else {
			add(nil)
		}
		if f.Type.Kind.Variable() {
			offsets, data := buildVariable(col, o)
			add(offsets)
			add(data)
		} else {
			add(buildFixed(f.Type.Kind, col, o))
		}
	}
	for len(body)%8 != 0 {
		body = append(body, 0)
	}
	m.BodyLen = int64(len(body))
	return m, body
}

func buildValidity(col testColumn, o bodyOptions) (bitmap []byte, nulls int) {
	bitmap = make([]byte, bitmapLen(int64(len(col))))
	if o.rubbish && len(bitmap) > 0 {
		bitmap[len(bitmap)-1] = 0xff << (len(col) & 7) // bits beyond the rows
		if len(col)&7 == 0 {
			bitmap[len(bitmap)-1] = 0
		}
	}
	for i, v := range col {
		if v == nil {
			nulls++
		} else {
			bitmap[i/8] |= 1 << (i % 8)
		}
	}
	return bitmap, nulls
}

func buildVariable(col testColumn, o bodyOptions) (offsets, data []byte) {
	data = []byte(strings.Repeat("\xfe", o.firstOffset))
	offsets = binary.LittleEndian.AppendUint32(nil, uint32(len(data)))
	for _, v := range col {
		switch v := v.(type) {
		case string:
			data = append(data, v...)
		case []byte:
			data = append(data, v...)
		case nil:
			if o.rubbish {
				data = append(data, 0xc3, 0xff)
			}
		}
		offsets = binary.LittleEndian.AppendUint32(offsets, uint32(len(data)))
	}
	return offsets, data
}

func buildFixed(k udfgate.Kind, col testColumn, o bodyOptions) []byte {
	if k == udfgate.Bool {
		b := make([]byte, bitmapLen(int64(len(col))))
		for i, v := range col {
			if v == true || v == nil && o.rubbish {
				b[i/8] |= 1 << (i % 8)
			}
		}
		return b
	}
	var b []byte
	for _, v := range col {
		b = append(b, fixedBytes(k, v)...)
	}
	return b
}

func fixedBytes(k udfgate.Kind, v any) []byte {
	if v == nil {
		return make([]byte, k.Width())
	}
	b, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil || len(b) != k.Width() {
		panic(fmt.Sprintf("%T is no value of %s", v, k))
	}
	return b
}

func testStore(t testing.TB) *Store {
	s := NewStore(StoreConfig{})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("store: %v", err)
		}
	})
	return s
}

func decodeBody(store *Store, fields []udfgate.Field, m *Message, body []byte) (*Batch, error) {
	d := NewDecoder(fields, fields, Limits{RowsMax: 1 << 24, RowsName: "--max-batch-rows"})
	fd := &FlightData{HasBody: true, Body: Range{0, int64(len(body))}}
	return d.Decode(fd, m, [][]byte{body}, nil, store)
}

// decoded is the batch of columns, released at the end of the test.
func decoded(t testing.TB, fields []udfgate.Field, columns []testColumn, o bodyOptions) *Batch {
	t.Helper()
	m, body := buildBody(fields, columns, o)
	b, err := decodeBody(testStore(t), fields, m, body)
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	t.Cleanup(b.Release)
	return b
}

// columnValues reads a column back, buffers as Arrow defines them.
func columnValues(k udfgate.Kind, rows int64, validity, offsets, values []byte) testColumn {
	col := make(testColumn, rows)
	for i := range rows {
		if !bitSet(validity, i) {
			continue
		}
		switch {
		case k == udfgate.Bool:
			col[i] = bitSet(values, i)
		case k.Variable():
			from, to := binary.LittleEndian.Uint32(offsets[4*i:]), binary.LittleEndian.Uint32(offsets[4*i+4:])
			if k == udfgate.Utf8 {
				col[i] = string(values[from:to])
			} else {
				col[i] = append([]byte{}, values[from:to]...)
			}
		default:
			col[i] = fixedValue(k, values[int(i)*k.Width():])
		}
	}
	return col
}

func fixedValue(k udfgate.Kind, b []byte) any {
	le := binary.LittleEndian
	switch k {
	case udfgate.Int8:
		return int8(b[0])
	case udfgate.Uint8:
		return b[0]
	case udfgate.Int16:
		return int16(le.Uint16(b))
	case udfgate.Uint16:
		return le.Uint16(b)
	case udfgate.Int32:
		return int32(le.Uint32(b))
	case udfgate.Uint32:
		return le.Uint32(b)
	case udfgate.Int64:
		return int64(le.Uint64(b))
	case udfgate.Uint64:
		return le.Uint64(b)
	case udfgate.Float32:
		return math.Float32frombits(le.Uint32(b))
	default:
		return math.Float64frombits(le.Uint64(b))
	}
}

func batchColumn(b *Batch, i int) testColumn {
	c, body := &b.Columns[i], b.Slot.Bytes()
	in := func(r Range) []byte { return body[r.Off:r.End()] }
	return columnValues(c.Type.Kind, b.Rows, in(c.Validity), in(c.Offsets), in(c.Values))
}

// answerColumn reads an answer back and checks what every answer keeps to.
func answerColumn(t testing.TB, k udfgate.Kind, a *Answer) testColumn {
	t.Helper()
	body := a.Body.Bytes()
	if len(body)%8 != 0 {
		t.Errorf("body of %d bytes is no multiple of 8", len(body))
	}
	parts, end := make([][]byte, len(a.Buffers)), int64(0)
	for i, b := range a.Buffers {
		if b.Offset%8 != 0 {
			t.Errorf("buffer %d at %d is not aligned", i, b.Offset)
		}
		parts[i] = body[b.Offset : b.Offset+b.Length]
		if b.Length == 0 {
			continue
		}
		checkZero(t, body[end:b.Offset])
		end = b.Offset + b.Length
	}
	checkZero(t, body[end:])
	if len(a.Nodes) != 1 || a.Nodes[0].Length != a.Rows {
		t.Errorf("nodes %v for %d rows", a.Nodes, a.Rows)
	}
	if (a.Nodes[0].Nulls == 0) != (len(parts[0]) == 0) {
		t.Errorf("%d nulls and a validity of %d bytes", a.Nodes[0].Nulls, len(parts[0]))
	}
	if k.Variable() {
		return columnValues(k, a.Rows, parts[0], parts[1], parts[2])
	}
	return columnValues(k, a.Rows, parts[0], nil, parts[1])
}

func checkZero(t testing.TB, gap []byte) {
	t.Helper()
	for _, b := range gap {
		if b != 0 {
			t.Fatalf("padding %x is not zero", gap)
		}
	}
}

// testRand is random, prints its seed when the test fails, and can be fixed
// for a replay.
func testRand(t testing.TB, replay ...uint64) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if len(replay) > 0 {
		seed = replay[0]
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("replay with testRand(t, %d)", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

// randomText has values of every length class and script.
func randomText(r *rand.Rand, rows, nullPercent int, ascii bool) testColumn {
	col := make(testColumn, rows)
	alphabet := []rune("abcdefghijklmnopqrstuvwxyz 0123456789")
	if !ascii {
		alphabet = append(alphabet, []rune("äß€漢字😀\u0000\u07ff\uffff")...)
	}
	lengths := []int{0, 1, 2, 17, 18, 31, 32, 33, 64, 254, 255, 256, 700}
	for i := range col {
		if r.IntN(100) < nullPercent {
			continue
		}
		n := r.IntN(24)
		if r.IntN(8) == 0 {
			n = lengths[r.IntN(len(lengths))]
		}
		s := make([]rune, n)
		for j := range s {
			s[j] = alphabet[r.IntN(len(alphabet))]
		}
		col[i] = string(s)
	}
	return col
}
