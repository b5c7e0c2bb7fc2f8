package codec

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/udfgate/udfgate"
)

// benchEvery are types beside those of benchCases: what they cost more than
// text, whose rows have about as many bytes.
func benchEvery(b *testing.B) []everyCase {
	person := structOf(field("a", udfgate.Int64), field("b", udfgate.Utf8))
	tuple := person
	tuple.View = udfgate.ViewTuple
	types := []udfgate.Type{
		{Kind: udfgate.LargeUtf8},
		listOf(udfgate.List, udfgate.Type{Kind: udfgate.Int64}, true), person, tuple,
		{Kind: udfgate.Decimal128, Precision: 18, Scale: 2},
		{Kind: udfgate.Decimal128, Precision: 38, Scale: 2},
		{Kind: udfgate.Date32},
	}
	cases := make([]everyCase, len(types))
	r := rand.New(rand.NewPCG(1, 0))
	store := testStore(b)
	for i, typ := range types {
		c := &cases[i]
		c.field = typed(typ)
		c.theirs = arrowFields(b, []udfgate.Field{c.field})[0]
		c.array = randomArray(r, c.theirs, benchRows)
		header, body := arrowMessage(b, array.NewRecordBatch(arrow.NewSchema([]arrow.Field{c.theirs}, nil), []arrow.Array{c.array}, benchRows))
		var m Message
		err := ReadMessage(header, &m)
		if err == nil {
			c.batch, err = decodeBody(store, []udfgate.Field{c.field}, &m, body)
		}
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(c.batch.Release)
	}
	return cases
}

func BenchmarkEvery(b *testing.B) {
	for i, c := range benchEvery(b) {
		name := fmt.Sprintf("%d=%s", i, c.field.Type.Kind)
		column := &c.batch.Columns[0]
		if !Rendered(&c.field.Type) {
			region, rc := flatOf(column, c.batch.Slot.Bytes())
			benchTake(b, name, &c, rc, region, BlockRowsMax)
			continue
		}
		dst := make([]byte, RenderSize(c.batch, 0, 0, benchRows))
		blockRows := BlockRows(c.batch)
		index, data := Render(dst, c.batch, 0, 0, benchRows, blockRows)
		b.Run(name, func(b *testing.B) { benchCopy(b, dst[:data.End()], benchRows) })
		b.Run(name+"/render", func(b *testing.B) {
			for b.Loop() {
				Render(dst, c.batch, 0, 0, benchRows, blockRows)
			}
			reportRow(b, benchRows)
		})
		rc := &ResultColumn{Form: FormMarshal, Blocks: uint32(index.Len/8 - 1), Buffers: []Buffer{{index.Off, index.Len}, {data.Off, data.Len}}}
		benchTake(b, name, &c, rc, dst[:data.End()], blockRows)
		rc = &ResultColumn{Form: FormArrow, Nulls: column.Nulls}
		for _, r := range column.AppendBuffers(nil) {
			rc.Buffers = append(rc.Buffers, Buffer{r.Off, r.Len})
		}
		benchTake(b, name+"/arrow", &c, rc, c.batch.Slot.Bytes(), blockRows)
	}
}

func benchTake(b *testing.B, name string, c *everyCase, rc *ResultColumn, region []byte, blockRows int) {
	b.Run(name+"/take", func(b *testing.B) {
		for b.Loop() {
			a, err := TakeAnswer(c.field, benchRows, blockRows, rc, region, upTo(1<<30))
			if err != nil {
				b.Fatal(err)
			}
			a.Release()
		}
		reportRow(b, benchRows)
	})
}

// flatOf is a column of fixed width as a worker answers it in form 3.
func flatOf(c *Column, body []byte) (region []byte, rc *ResultColumn) {
	for i := range c.Length {
		valid := byte(0)
		if bitSet(body[c.Validity.Off:c.Validity.End()], i) {
			valid = 1
		}
		region = append(region, valid)
	}
	at := int64(len(region))
	region = append(region, body[c.Values.Off:c.Values.End()]...)
	return region, &ResultColumn{Form: FormFlat, Nulls: c.Nulls, Buffers: []Buffer{{0, at}, {at, c.Values.Len}}}
}

// BenchmarkNormalise is what Decode costs where text comes as views or from a
// dictionary.
func BenchmarkNormalise(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 0))
	short, long := array.NewStringViewBuilder(memory.DefaultAllocator), array.NewStringViewBuilder(memory.DefaultAllocator)
	ids := array.NewInt32Builder(memory.DefaultAllocator)
	words := array.NewStringBuilder(memory.DefaultAllocator)
	for i := range 1000 {
		words.Append(fmt.Sprintf("word %d", i*i))
	}
	for range benchRows {
		short.Append(fmt.Sprintf("%010d", r.Int64N(1e10)))
		long.Append(fmt.Sprintf("%018d", r.Int64N(1e18)))
		ids.Append(r.Int32N(1000))
	}
	word := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}
	store := testStore(b)
	for name, a := range map[string]arrow.Array{
		"inline views": short.NewArray(), "long views": long.NewArray(),
		"dictionary": array.NewDictionaryArray(word, ids.NewArray(), words.NewArray()),
	} {
		b.Run(name, func(b *testing.B) {
			schema := arrow.NewSchema([]arrow.Field{{Name: "c", Type: a.DataType(), Nullable: true}}, nil)
			stream := bytes.NewBuffer(nil)
			writeStream(b, stream, array.NewRecordBatch(schema, []arrow.Array{a}, benchRows))
			s := &ipcMessages{t: b, rest: stream.Bytes()}
			header, _, _ := s.next()
			sent, err := ReadSchema(header)
			if err != nil {
				b.Fatal(err)
			}
			d := NewDecoder([]udfgate.Field{field("c", udfgate.Utf8)}, sent.Fields, Limits{})
			var all Dictionaries
			for {
				header, body, ok := s.next()
				if !ok {
					break
				}
				var m Message
				if err := ReadMessage(header, &m); err != nil {
					b.Fatal(err)
				}
				fd, pieces := &FlightData{HasBody: true, Body: Range{0, int64(len(body))}}, [][]byte{body}
				if m.Kind == KindDictionary {
					if err := d.AddDictionary(fd, &m, pieces, &all); err != nil {
						b.Fatal(err)
					}
					continue
				}
				// The least of many turns, beside a copy of the same bytes in each: a
				// busy machine doubles a mean.
				least, copied, dst := time.Hour, time.Hour, make([]byte, len(body))
				for b.Loop() {
					from := time.Now()
					batch, err := d.Decode(fd, &m, pieces, &all, store)
					least = min(least, time.Since(from))
					if err != nil {
						b.Fatal(err)
					}
					batch.Release()
					from = time.Now()
					copy(dst, body)
					copied = min(copied, time.Since(from))
				}
				b.ReportMetric(float64(least.Nanoseconds())/benchRows, "ns/value")
				b.ReportMetric(float64(copied.Nanoseconds())/benchRows, "copy-ns/value")
				b.ReportMetric(float64(least)/float64(copied), "x-copy")
			}
		})
	}
}
