package codec

import (
	"strings"
	"testing"

	"github.com/udfgate/udfgate"
)

// addWords sends a dictionary of text.
func addWords(d *Decoder, all *Dictionaries, id int64, delta bool, words ...string) error {
	offsets, data := []int32{0}, ""
	for _, w := range words {
		data += w
		offsets = append(offsets, int32(len(data)))
	}
	m, body := bodyOf(int64(len(words)), []Node{{int64(len(words)), 0}}, nil, words32(offsets...), []byte(data))
	m.Kind, m.DictionaryID, m.Delta = KindDictionary, id, delta
	return d.AddDictionary(&FlightData{HasBody: true, Body: Range{0, m.BodyLen}}, m, [][]byte{body}, all)
}

// Dictionaries grow by deltas, are replaced, and bounded; indices lead into
// what has come before them.
func TestDictionaries(t *testing.T) {
	text := udfgate.Type{Kind: udfgate.Utf8}
	sent := udfgate.Type{Kind: udfgate.Dictionary, ID: 9, Children: []udfgate.Field{{Name: "indices", Type: udfgate.Type{Kind: udfgate.Int32}}, typed(text)}}
	d, all := decoderAs(text, sent), &Dictionaries{}
	check := func(indices []int32, want ...string) {
		t.Helper()
		m, body := bodyOf(int64(len(indices)), []Node{{int64(len(indices)), 0}}, nil, words32(indices...))
		b, err := d.Decode(&FlightData{HasBody: true, Body: Range{0, m.BodyLen}}, m, [][]byte{body}, all, testStore(t))
		if err != nil {
			t.Fatal(err)
		}
		defer b.Release()
		for i, v := range batchColumn(b, 0) {
			if v != want[i] {
				t.Errorf("row %d: got %v, wanted %s", i, v, want[i])
			}
		}
	}
	m, body := bodyOf(1, []Node{{1, 0}}, nil, words32(0))
	_, err := decodeAs(t, text, sent, m, body, all)
	wantError(t, err, udfgate.ShapeMalformed, udfgate.NoRow, "dictionary 9 has not come", `"c"`)
	m, body = bodyOf(2, []Node{{2, 2}}, []byte{0}, words32(7, 7))
	if b, err := decodeAs(t, text, sent, m, body, all); err != nil || b.Columns[0].Nulls != 2 {
		t.Errorf("all null: %v", err)
	}
	mustAdd := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	mustAdd(addWords(d, all, 9, false, "a", "", "a word of more than sixteen bytes"))
	check([]int32{2, 0, 1, 2}, "a word of more than sixteen bytes", "a", "", "a word of more than sixteen bytes")
	mustAdd(addWords(d, all, 9, true, "d", "e"))
	mustAdd(addWords(d, all, 9, true, "f"))
	check([]int32{5, 4, 3, 2, 0}, "f", "e", "d", "a word of more than sixteen bytes", "a")
	mustAdd(addWords(d, all, 9, false, "z"))
	check([]int32{0}, "z")
	m, body = bodyOf(2, []Node{{2, 0}}, nil, words32(0, 1))
	_, err = decodeAs(t, text, sent, m, body, all)
	wantError(t, err, udfgate.ShapeMalformed, 1, "index leads outside its dictionary")
	wantError(t, addWords(d, all, 8, false, "z"), udfgate.ShapeMalformed, udfgate.NoRow, "no column of the schema refers to it")
	bytesBefore := all.Bytes()
	wantError(t, addWords(d, all, 9, true, strings.Repeat("x", 1<<20)), udfgate.ShapeTooLarge, udfgate.NoRow, "--max-message-bytes 1048576")
	if all.Bytes() != bytesBefore {
		t.Errorf("%d bytes, wanted %d", all.Bytes(), bytesBefore)
	}
	check([]int32{0}, "z")
	for err = nil; err == nil; { // deltas of nothing cost memory all the same
		err = addWords(d, all, 9, true)
	}
	wantError(t, err, udfgate.ShapeTooLarge, udfgate.NoRow, "--max-message-bytes")

	// The ID of one dictionary stands for two types.
	other := sent
	other.Children = []udfgate.Field{sent.Children[0], field("values", udfgate.Int64)}
	two := NewDecoder([]udfgate.Field{typed(text), field("n", udfgate.Int64)}, []udfgate.Field{typed(sent), typed(other)}, Limits{})
	all = &Dictionaries{}
	mustAdd(addWords(two, all, 9, false, "a"))
	m, body = bodyOf(1, []Node{{1, 0}, {1, 0}}, nil, words32(0), nil, words32(0))
	_, err = two.Decode(&FlightData{HasBody: true, Body: Range{0, m.BodyLen}}, m, [][]byte{body}, all, testStore(t))
	wantError(t, err, udfgate.ShapeMalformed, udfgate.NoRow, "dictionary 9 is of utf8 elsewhere, wanted int64")
}
