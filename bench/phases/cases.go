package main

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// valueCase is one kind of batch, with what its conversion and crossing may
// cost.
type valueCase struct {
	name     string // as floors.py knows it
	title    string
	function string // of bench/peers/functions.py
	// goal is the most ns/row of conversion + crossing on the machine that the
	// goals were set on; ratio is the most in terms of the two CPython calls
	// alone, which holds on any machine. gateway is the gateway's share of
	// goal, 0 for none.
	goal, ratio, gateway float64
	batch                func(rows int) arrow.RecordBatch
	// wrong describes the first answer that is not what the body gives.
	wrong func(answer arrow.RecordBatch) string
}

var cases = []valueCase{
	intCase("small", "two int64 → int64, below 2^30", 25, 1.4, func(i int) int64 { return int64(mix(i) >> 36) }),
	intCase("wide", "two int64 → int64, ±2^40", 50, 1.1, func(i int) int64 { return int64(mix(i)>>23) - 1<<40 }),
	{
		name: "text", title: "text → text, 18 bytes, 5 % null", function: "clean", goal: 48, ratio: 1.6, gateway: 12,
		batch: labels, wrong: wrongLabel,
	},
}

// mix spreads i over 64 bits: arbitrary values that floors.py makes likewise.
func mix(i int) uint64 { return uint64(i) * 0x9E3779B97F4A7C15 }

func intCase(name, title string, goal, ratio float64, value func(i int) int64) valueCase {
	return valueCase{
		name: name, title: title, function: "affine", goal: goal, ratio: ratio,
		batch: func(rows int) arrow.RecordBatch {
			columns := make([]arrow.Array, 2)
			fields := make([]arrow.Field, 2)
			for k := range columns {
				b := array.NewInt64Builder(memory.DefaultAllocator)
				for i := range rows {
					b.Append(value(2*i + k))
				}
				columns[k] = b.NewArray()
				fields[k] = arrow.Field{Name: string(rune('a' + k)), Type: arrow.PrimitiveTypes.Int64}
			}
			return array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, int64(rows))
		},
		wrong: func(answer arrow.RecordBatch) string {
			got, ok := answer.Column(0).(*array.Int64)
			if !ok {
				return "wanted int64, got " + answer.Column(0).DataType().String()
			}
			for i := range got.Len() {
				if want := value(2*i)*2 + value(2*i+1); got.Value(i) != want {
					return fmt.Sprintf("row %d: wanted %d, got %d", i, want, got.Value(i))
				}
			}
			return ""
		},
	}
}

// label is 18 bytes; not ok, a null, once in twenty.
func label(i int) (text string, ok bool) {
	h := mix(i) >> 24
	return fmt.Sprintf(" Alpha-Beta-%05d ", h%100_000), h%20 != 0
}

func labels(rows int) arrow.RecordBatch {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	for i := range rows {
		if text, ok := label(i); ok {
			b.Append(text)
		} else {
			b.AppendNull()
		}
	}
	schema := arrow.NewSchema([]arrow.Field{{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true}}, nil)
	return array.NewRecordBatch(schema, []arrow.Array{b.NewArray()}, int64(rows))
}

// wrongLabel compares with what the body clean makes of a label.
func wrongLabel(answer arrow.RecordBatch) string {
	got, ok := answer.Column(0).(*array.String)
	if !ok {
		return "wanted utf8, got " + answer.Column(0).DataType().String()
	}
	for i := range got.Len() {
		text, ok := label(i)
		want := strings.ReplaceAll(strings.ToLower(strings.TrimSpace(text)), "-", "_")
		if got.IsValid(i) != ok || ok && got.Value(i) != want {
			return fmt.Sprintf("row %d: wanted %q (valid %t), got %q (valid %t)", i, want, ok, got.Value(i), got.IsValid(i))
		}
	}
	return ""
}
