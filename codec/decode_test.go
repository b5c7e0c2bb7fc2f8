package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/go-cmp/cmp"

	"github.com/udfgate/udfgate"
)

// Batches that arrow-go writes, whole and sliced, read back as their values.
func TestDecodeArrowGo(t *testing.T) {
	r := testRand(t)
	store := testStore(t)
	for _, rows := range []int{0, 1, 7, 8, 9, 64, 65, 300} {
		fields, columns, arrays := randomBatch(t, r.Uint64(), rows)
		whole := array.NewRecordBatch(arrowSchema(fields), arrays, int64(rows))
		for _, cut := range [][2]int{{0, rows}, {rows / 3, rows}, {rows / 2, rows - rows/4}} {
			t.Run(fmt.Sprintf("rows %d to %d of %d", cut[0], cut[1], rows), func(t *testing.T) {
				header, body := arrowMessage(t, whole.NewSlice(int64(cut[0]), int64(cut[1])))
				var m Message
				if err := ReadMessage(header, &m); err != nil {
					t.Fatal(err)
				}
				b, err := decodeBody(store, fields, &m, body)
				if err != nil {
					t.Fatal(err)
				}
				defer b.Release()
				for i := range fields {
					want := append(testColumn{}, columns[i][cut[0]:cut[1]]...)
					if diff := cmp.Diff(want, batchColumn(b, i)); diff != "" {
						t.Errorf("column %s (-want +got):\n%s", fields[i].Name, diff)
					}
				}
			})
		}
	}
}

// randomBatch has a column of every kind.
func randomBatch(t *testing.T, seed uint64, rows int) ([]udfgate.Field, []testColumn, []arrow.Array) {
	r := testRand(t, seed)
	var fields []udfgate.Field
	var columns []testColumn
	var arrays []arrow.Array
	for _, k := range kinds {
		fields = append(fields, field(k.String(), k))
		columns = append(columns, randomColumn(r, k, rows, []int{0, 5, 100}[r.IntN(3)]))
		arrays = append(arrays, arrowArray(k, columns[len(columns)-1]))
	}
	return fields, columns, arrays
}

// What senders may do and other libraries do: all of it reads the same.
func TestDecodeLiberties(t *testing.T) {
	r := testRand(t)
	for _, o := range []bodyOptions{{firstOffset: 3}, {rubbish: true}, {firstOffset: 9, rubbish: true, align: 64}, {allValid: true}} {
		for _, k := range kinds {
			for _, nulls := range []int{0, 30, 100} {
				f, col := []udfgate.Field{field("c", k)}, randomColumn(r, k, 77, nulls)
				b := decoded(t, f, []testColumn{col}, o)
				if diff := cmp.Diff(col, batchColumn(b, 0)); diff != "" {
					t.Errorf("%s with %+v (-want +got):\n%s", k, o, diff)
				}
				if c := b.Columns[0]; (c.Nulls == 0) != (c.Validity.Len == 0) {
					t.Errorf("%s with %+v: %d nulls and a validity of %d bytes", k, o, c.Nulls, c.Validity.Len)
				}
			}
		}
	}
}

func TestDecodeNoColumns(t *testing.T) {
	b, err := decodeBody(testStore(t), nil, &Message{Kind: KindRecordBatch, Rows: 12}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	if b.Rows != 12 {
		t.Errorf("%d rows, wanted the 12 of the header", b.Rows)
	}
}

// The pieces of a message may be cut anywhere.
func TestDecodePieces(t *testing.T) {
	f := []udfgate.Field{field("s", udfgate.Utf8)}
	col := randomText(testRand(t), 50, 10, false)
	m, body := buildBody(f, []testColumn{col}, bodyOptions{})
	before := []byte("in front of the body")
	pieces := [][]byte{before}
	for i := range body {
		pieces = append(pieces, body[i:i+1])
	}
	fd := &FlightData{HasBody: true, Body: Range{int64(len(before)), int64(len(body))}}
	b, err := NewDecoder(f, f, Limits{}).Decode(fd, m, pieces, nil, testStore(t))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	if diff := cmp.Diff(col, batchColumn(b, 0)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDecodeRefuses(t *testing.T) {
	a, s := field("a", udfgate.Int64), field("s", udfgate.Utf8)
	fields := []udfgate.Field{a, s}
	columns := []testColumn{{int64(1), int64(2), nil}, {"ab", "cd", "ef"}}
	// Buffers: 0 validity and 1 values of a, 2 validity, 3 offsets and 4 data of s.
	offset := func(m *Message, body []byte, i int, v int32) {
		binary.LittleEndian.PutUint32(body[m.Buffers[3].Offset+4*int64(i):], uint32(v))
	}
	for _, c := range []struct {
		want  string
		shape udfgate.Shape
		spoil func(m *Message, body []byte)
	}{
		{
			"batch of 16777217 rows is over --max-batch-rows 16777216; send smaller batches", udfgate.ShapeTooLarge,
			func(m *Message, _ []byte) { m.Rows = 1<<24 + 1 },
		},
		{"record batch: wanted 2 columns as in the schema, those below others included, got 1", 0, func(m *Message, _ []byte) { m.Nodes = m.Nodes[:1] }},
		{"record batch: wanted 5 buffers for (int64, utf8), got 4", 0, func(m *Message, _ []byte) { m.Buffers = m.Buffers[:4] }},
		{"record batch: wanted a body of 64 bytes as its header says, got 56", 0, func(m *Message, _ []byte) { m.BodyLen += 8 }},
		{"record batch: wanted a body of 48 bytes as its header says, got 56", 0, func(m *Message, _ []byte) { m.BodyLen -= 8 }},
		{"wanted a record batch, got another message", 0, func(m *Message, _ []byte) { m.Kind = KindSchema }},
		{`column 0 "a": wanted at least 24 bytes of values for 3 rows of int64, got 23`, 0, func(m *Message, _ []byte) { m.Buffers[1].Length = 23 }},
		{`column 0 "a": wanted at least 2 bytes of validity for 9 rows of int64, got 1`, 0, func(m *Message, _ []byte) { m.Rows, m.Nodes[0].Length = 9, 9 }},
		{`column 0 "a": the header says 2 nulls, its validity has 1`, 0, func(m *Message, _ []byte) { m.Nodes[0].Nulls = 2 }},
		{`column 1 "s": the header says 1 nulls, its validity has 0`, 0, func(m *Message, _ []byte) { m.Nodes[1].Nulls = 1 }},
		{`column 1 "s": wanted at least 16 bytes of offsets for 3 rows of utf8, got 15`, 0, func(m *Message, _ []byte) { m.Buffers[3].Length = 15 }},
		{`column 1 "s": wanted offsets at a multiple of 8 within a body of 56 bytes, got 16 bytes at 36`, 0, func(m *Message, _ []byte) { m.Buffers[3].Offset += 4 }},
		{`column 1 "s": wanted data at a multiple of 8 within a body of 56 bytes, got 6 bytes at 56`, 0, func(m *Message, _ []byte) { m.Buffers[4].Offset = 56 }},
		{`column 1 "s": first offset -1 is negative`, 0, func(m *Message, body []byte) { offset(m, body, 0, -1) }},
		{`column 1 "s": end offset -8 of row 1 is less than its start 2`, 0, func(m *Message, body []byte) { offset(m, body, 2, -8) }},
		{`column 1 "s": end offset 3 of row 1 is less than its start 5`, 0, func(m *Message, body []byte) { offset(m, body, 1, 5); offset(m, body, 2, 3) }},
		{`column 1 "s": end offset -2147483648 of row 2 is less than its start 4`, 0, func(m *Message, body []byte) { offset(m, body, 3, math.MinInt32) }},
		{`column 1 "s": last offset 7 is past the data of 6 bytes`, 0, func(m *Message, body []byte) { offset(m, body, 3, 7) }},
		{`row 1: column 1 "s": not UTF-8`, 0, func(m *Message, body []byte) { body[m.Buffers[4].Offset+2] = 0xff }},
	} {
		t.Run(c.want, func(t *testing.T) {
			store := testStore(t)
			m, body := buildBody(fields, columns, bodyOptions{})
			c.spoil(m, body)
			_, err := decodeBody(store, fields, m, body)
			var e *udfgate.Error
			if !errors.As(err, &e) || e.Reason != udfgate.Invalid || e.Shape != c.shape || e.Error() != c.want {
				t.Errorf("got  %v (%+v)\nwanted %s", err, e, c.want)
			}
			if n := store.Stats().Slots; n != 0 {
				t.Errorf("%d slots left", n)
			}
		})
	}
}

func TestDecodeText(t *testing.T) {
	f := []udfgate.Field{field("s", udfgate.Utf8)}
	long := strings.Repeat("x", 40)
	for _, c := range []struct {
		name   string
		values []any // string: valid; []byte: the bytes under a null
		bad    int64
		ascii  bool
	}{
		{"ascii", []any{"a", "", long, "\x7f\x00"}, -1, true},
		{"text", []any{"ä", "", long + "€", "😀"}, -1, false},
		{"rubbish under a null", []any{"a", []byte("\xff\xfe"), "ä"}, -1, false},
		{"half a character under a null", []any{"a", []byte("\xc3"), "\u00a9"}, -1, false},
		{"bare continuation", []any{"a", "\xa9", "b"}, 1, false},
		{"character over two values", []any{"a", "\xc3", "\xa9"}, 1, false},
		{"character over an empty value", []any{"\xc3", "", "\xa9"}, 0, false},
		{"character over a null", []any{"\xe2\x82", []byte("\xac"), "x"}, 0, false},
		{"null, then its continuation", []any{[]byte("\xc3"), "\xa9"}, 1, false},
		{"lone surrogate", []any{long, "\xed\xa0\x80"}, 1, false},
		{"overlong", []any{"\xc0\x80"}, 0, false},
		{"beyond unicode", []any{"", "\xf4\x90\x80\x80"}, 1, false},
		{"cut at the end", []any{long, long + "\xe2\x82"}, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			col, nulls := make(testColumn, len(c.values)), []byte{0xff}
			for i, v := range c.values {
				if b, ok := v.([]byte); ok {
					v = string(b)
					nulls[0] &^= 1 << i
				}
				col[i] = v
			}
			m, body := buildBody(f, []testColumn{col}, bodyOptions{allValid: true})
			copy(body[m.Buffers[0].Offset:], nulls)
			b, err := decodeBody(testStore(t), f, m, body)
			if c.bad < 0 {
				if err != nil {
					t.Fatal(err)
				}
				if b.Columns[0].ASCII != c.ascii {
					t.Errorf("ASCII is %v", b.Columns[0].ASCII)
				}
				b.Release()
				return
			}
			var e *udfgate.Error
			if !errors.As(err, &e) || e.Row != c.bad {
				t.Errorf("got %v, wanted row %d", err, c.bad)
			}
		})
	}
}

// Slots are refused by name when the store is full, before anything is copied.
func TestDecodeStoreFull(t *testing.T) {
	store := NewStore(StoreConfig{ArenaBytes: 4096, LimitBytes: 4096, LimitName: "--pool-memory"})
	defer store.Close()
	f := []udfgate.Field{field("a", udfgate.Int64)}
	m, body := buildBody(f, []testColumn{make(testColumn, 1000)}, bodyOptions{})
	_, err := decodeBody(store, f, m, body)
	var e *udfgate.Error
	if !errors.As(err, &e) || e.Reason != udfgate.QueueFull || !strings.Contains(e.Message, "--pool-memory") {
		t.Errorf("got %v, wanted QueueFull naming --pool-memory", err)
	}
}

func TestCheckArgs(t *testing.T) {
	a, b, s := field("a", udfgate.Int64), field("b", udfgate.Int64), field("x", udfgate.Utf8)
	for _, c := range []struct {
		args, got []udfgate.Field
		want      string
	}{
		{nil, nil, ""},
		{[]udfgate.Field{a, s}, []udfgate.Field{b, field("", udfgate.Utf8)}, ""},
		{[]udfgate.Field{a, b}, []udfgate.Field{s}, "f: wanted 2 columns (int64, int64), got 1 (utf8)"},
		{[]udfgate.Field{a}, nil, "f: wanted 1 column (int64), got 0 ()"},
		{nil, []udfgate.Field{a}, "f: wanted 0 columns (), got 1 (int64)"},
		{[]udfgate.Field{a, b}, []udfgate.Field{a, s}, `f: column 1 "b": wanted int64, got utf8`},
	} {
		err := CheckArgs(&udfgate.Function{Name: "f", Args: c.args}, udfgate.Schema{Fields: c.got})
		if err == nil && c.want != "" || err != nil && err.Error() != c.want {
			t.Errorf("got %v, wanted %q", err, c.want)
		}
	}
}
