package codec

import (
	"bytes"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/udfgate/udfgate"
)

// decodeViews decodes a column of views that is declared as another kind.
func decodeViews(t *testing.T, texts []string, declared udfgate.Kind, limit int64) (*Batch, error) {
	t.Helper()
	b := array.NewStringViewBuilder(memory.DefaultAllocator)
	for _, text := range texts {
		if text == "-" {
			b.AppendNull()
		} else {
			b.Append(text)
		}
	}
	column := b.NewArray()
	schema := arrow.NewSchema([]arrow.Field{{Name: "c", Type: column.DataType(), Nullable: true}}, nil)
	stream := bytes.NewBuffer(nil)
	writeStream(t, stream, array.NewRecordBatch(schema, []arrow.Array{column}, int64(len(texts))))
	s := &ipcMessages{t: t, rest: stream.Bytes()}
	header, _, _ := s.next()
	sent, err := ReadSchema(header)
	if err != nil {
		t.Fatal(err)
	}
	header, body, _ := s.next()
	var m Message
	if err := ReadMessage(header, &m); err != nil {
		t.Fatal(err)
	}
	d := NewDecoder([]udfgate.Field{field("c", declared)}, sent.Fields, Limits{BytesMax: limit, BytesName: "--max-message-bytes"})
	return d.Decode(&FlightData{HasBody: true, Body: Range{0, int64(len(body))}}, &m, [][]byte{body}, nil, testStore(t))
}

// A column of views goes straight into its slot, with offsets of either width,
// and nothing of a value goes beyond its end.
func TestViewsGoIntoTheSlot(t *testing.T) {
	for _, texts := range [][]string{
		{"a"},
		{"-"},
		{""},
		{"", "-", ""},
		{"-", "twelve bytes", "-", "thirteen byte", "ü", "-", "", "漢字漢字漢字", "x"},
		strings.Fields(strings.Repeat("short - alongervaluethanthat b ", 300)),
	} {
		for _, kind := range []udfgate.Kind{udfgate.Utf8, udfgate.LargeUtf8} {
			b, err := decodeViews(t, texts, kind, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			c, body := &b.Columns[0], b.Slot.Bytes()
			nulls, ascii, all := int64(0), true, ""
			for i, text := range texts {
				valid := bitSet(body[c.Validity.Off:c.Validity.End()], int64(i))
				if valid != (text != "-") {
					t.Fatalf("%s row %d: valid %t, wanted %q", kind, i, valid, text)
				}
				if !valid {
					nulls++
					text = ""
				}
				from, to := c.span(body, int64(i), int64(i)+1)
				if got := string(body[c.Values.Off:][from:to]); got != text {
					t.Errorf("%s row %d: got %q, wanted %q", kind, i, got, text)
				}
				ascii, all = ascii && isASCII([]byte(text)), all+text
			}
			if c.Nulls != nulls || c.Length != int64(len(texts)) || c.ASCII != ascii || c.Values.Len != int64(len(all)) {
				t.Errorf("%s: %d nulls of %d, ASCII %t, %d bytes; wanted %d of %d, %t, %d", kind, c.Nulls, c.Length, c.ASCII, c.Values.Len,
					nulls, len(texts), ascii, len(all))
			}
			b.Release()
		}
	}
}

// All views may be of one text: what they become is counted before it is made.
func TestViewsOverTheLimit(t *testing.T) {
	texts := strings.Fields(strings.Repeat("abcdefghij ", 100))
	for limit, fits := range map[int64]bool{100 * 10: false, 100*10 + 101*4: true} {
		b, err := decodeViews(t, texts, udfgate.Utf8, limit)
		if fits != (err == nil) || err != nil && !strings.Contains(err.Error(), "are over --max-message-bytes 1000") {
			t.Errorf("limit %d: got %v", limit, err)
		}
		if err == nil {
			b.Release()
		}
	}
}
