package codec

import (
	"fmt"
	"testing"

	"github.com/udfgate/udfgate"
)

// Every figure has its floor beside it: a copy of the same bytes.

const benchRows = 1 << 16

// benchText is rows of 18 bytes, a null now and then.
func benchText(rows, nullPercent int, tail string) testColumn {
	r := testRand(nopT{}, 1)
	col := make(testColumn, rows)
	for i := range col {
		if r.IntN(100) >= nullPercent {
			col[i] = fmt.Sprintf("%018d", r.Int64N(1e18))[min(len(tail), 18):] + tail
		}
	}
	return col
}

const benchLong = "binary values of sixty-four bytes are longer than a move of 32.."

// nopT lets testRand serve before a benchmark's own loop.
type nopT struct{ testing.TB }

func (nopT) Cleanup(func()) {}

func reportRow(b *testing.B, rows int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(rows), "ns/row")
}

func benchCopy(b *testing.B, src []byte, rows int) {
	b.Run("floor=copy", func(b *testing.B) {
		dst := make([]byte, len(src))
		for b.Loop() {
			copy(dst, src)
		}
		reportRow(b, rows)
	})
}

type benchCase struct {
	name   string
	fields []udfgate.Field
	cols   []testColumn
}

func benchCases() []benchCase {
	ints := make(testColumn, benchRows)
	for i := range ints {
		ints[i] = int64(i) << 20
	}
	text := []udfgate.Field{field("s", udfgate.Utf8)}
	return []benchCase{
		{"int64", []udfgate.Field{field("a", udfgate.Int64)}, []testColumn{ints}},
		{"ascii18", text, []testColumn{benchText(benchRows, 5, "")}},
		{"ascii18/nulls=0", text, []testColumn{benchText(benchRows, 0, "")}},
		{"utf8", text, []testColumn{benchText(benchRows, 5, "ß")}},
		{"binary64", []udfgate.Field{field("b", udfgate.Binary)}, []testColumn{asBinary(benchText(benchRows, 5, benchLong))}},
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, c := range benchCases() {
		b.Run(c.name, func(b *testing.B) {
			m, body := buildBody(c.fields, c.cols, bodyOptions{})
			store := testStore(b)
			benchCopy(b, body, benchRows)
			b.Run("decode", func(b *testing.B) {
				d := NewDecoder(c.fields, c.fields, Limits{})
				fd := &FlightData{HasBody: true, Body: Range{0, int64(len(body))}}
				pieces := [][]byte{body}
				for b.Loop() {
					batch, err := d.Decode(fd, m, pieces, nil, store)
					if err != nil {
						b.Fatal(err)
					}
					batch.Release()
				}
				reportRow(b, benchRows)
			})
		})
	}
}

// BenchmarkVerify is the part of Decode that is not the copy.
func BenchmarkVerify(b *testing.B) {
	for _, c := range benchCases()[1:] {
		b.Run(c.name, func(b *testing.B) {
			m, body := buildBody(c.fields, c.cols, bodyOptions{})
			for b.Loop() {
				var col Column
				v := verifier{body: body, nodes: m.Nodes, buffers: m.Buffers, field: &c.fields[0], valuesMax: RowsMax, dictionary: -1}
				if err := v.top(&c.fields[0].Type, &col, m.Rows); err != nil {
					b.Fatal(err)
				}
			}
			reportRow(b, benchRows)
		})
	}
}

func BenchmarkRender(b *testing.B) {
	for _, c := range benchCases()[1:] {
		b.Run(c.name, func(b *testing.B) {
			batch := decoded(b, c.fields, c.cols, bodyOptions{})
			dst := make([]byte, RenderSize(batch, 0, 0, benchRows)+Slack)
			blockRows := BlockRows(batch)
			_, data := Render(dst, batch, 0, 0, benchRows, blockRows)
			benchCopy(b, dst[:data.End()], benchRows)
			b.Run("render", func(b *testing.B) {
				for b.Loop() {
					Render(dst, batch, 0, 0, benchRows, blockRows)
				}
				reportRow(b, benchRows)
			})
		})
	}
}

func BenchmarkTake(b *testing.B) {
	for _, c := range benchCases() {
		b.Run(c.name, func(b *testing.B) {
			batch := decoded(b, c.fields, c.cols, bodyOptions{})
			region, rc, blockRows := benchAnswer(batch)
			benchCopy(b, region, benchRows)
			b.Run("take", func(b *testing.B) {
				for b.Loop() {
					a, err := TakeAnswer(c.fields[0], benchRows, blockRows, rc, region, upTo(1<<30))
					if err != nil {
						b.Fatal(err)
					}
					a.Release()
				}
				reportRow(b, benchRows)
			})
		})
	}
}

// BenchmarkTakeConstant is a body that returns the same text for every row: a
// block of back-references.
func BenchmarkTakeConstant(b *testing.B) {
	rc, region := marshalAnswer(bomb(18, BlockRowsMax))
	for b.Loop() {
		a, err := TakeAnswer(field("s", udfgate.Utf8), BlockRowsMax, BlockRowsMax, rc, region, answerLimits)
		if err != nil {
			b.Fatal(err)
		}
		a.Release()
	}
	reportRow(b, BlockRowsMax)
}

// benchAnswer is what a worker would answer with for the batch's own column.
func benchAnswer(batch *Batch) (region []byte, rc *ResultColumn, blockRows int) {
	c := &batch.Columns[0]
	rc = &ResultColumn{Form: FormFlat, Nulls: c.Nulls}
	if !c.Type.Kind.Variable() {
		rc.Buffers = []Buffer{{}, {c.Values.Off, c.Values.Len}}
		return batch.Slot.Bytes(), rc, BlockRowsMax
	}
	blockRows = BlockRows(batch)
	region = make([]byte, RenderSize(batch, 0, 0, batch.Rows)+Slack)
	index, data := Render(region, batch, 0, 0, batch.Rows, blockRows)
	rc.Form = FormMarshal
	rc.Blocks = uint32(index.Len/8 - 1)
	rc.Buffers = []Buffer{{index.Off, index.Len}, {data.Off, data.Len}}
	return region[:data.End()], rc, blockRows
}
