package tabular

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/udfgate/udfgate/internal/seed"
)

// parquetLeaves are the types of single values that Parquet files are written
// with and read back as they were.
func parquetLeaves(t *testing.T) []arrow.DataType {
	t.Helper()
	var leaves []arrow.DataType
	for _, f := range everyField(t) {
		if !arrow.IsNested(bare(f.Type).ID()) && !lacking(f.Type) && f.Type.ID() != arrow.NULL && f.Metadata.Len() == 0 {
			leaves = append(leaves, f.Type)
		}
	}
	for _, digits := range []int32{1, 9, 10, 18, 19, 38} { // of each width that a file has for decimals
		leaves = append(leaves, &arrow.Decimal128Type{Precision: digits, Scale: min(digits, 2)}, &arrow.Decimal256Type{Precision: digits + 38, Scale: 1})
	}
	return append(leaves, dictionary(text), dictionary(i64))
}

// randomNested is a field over leaf, so many levels above it.
func randomNested(r *rand.Rand, leaf arrow.DataType, levels int) arrow.Field {
	f := arrow.Field{Name: "x", Type: leaf, Nullable: r.IntN(2) == 0}
	if levels == 0 {
		return f
	}
	below := randomNested(r, leaf, levels-1)
	switch r.IntN(7) {
	case 0:
		f.Type = arrow.ListOfField(below)
	case 1:
		f.Type = arrow.LargeListOfField(below)
	case 2:
		f.Type = arrow.MapOfFields(arrow.Field{Name: "key", Type: text}, arrow.Field{Name: "value", Type: below.Type, Nullable: below.Nullable})
	case 3:
		f.Type = arrow.FixedSizeListOfField(2, below)
	default:
		members := []arrow.Field{{Name: "n", Type: i64, Nullable: r.IntN(2) == 0}, {Name: "m", Type: below.Type, Nullable: below.Nullable}}
		f.Type = arrow.StructOf(members[r.IntN(2):]...)
	}
	return f
}

// randomData is n values of a field. What lies below a null is anything, as
// Arrow allows: values, and items of lists.
func randomData(r *rand.Rand, f arrow.Field, n int) arrow.ArrayData {
	var bits *memory.Buffer
	nulls := 0
	if valid := make([]byte, bitutil.BytesForBits(int64(n))); f.Nullable && r.IntN(4) > 0 {
		for i := range n {
			bitutil.SetBitTo(valid, i, r.IntN(3) > 0)
		}
		bits, nulls = memory.NewBufferBytes(valid), n-bitutil.CountSetBits(valid, 0, n)
	}
	switch t := f.Type.(type) {
	case *arrow.StructType:
		var members []arrow.ArrayData
		for _, m := range t.Fields() {
			members = append(members, randomData(r, m, n))
		}
		return array.NewData(t, n, []*memory.Buffer{bits}, members, nulls, 0)
	case *arrow.FixedSizeListType:
		return array.NewData(t, n, []*memory.Buffer{bits}, []arrow.ArrayData{randomData(r, t.ElemField(), n*int(t.Len()))}, nulls, 0)
	case arrow.ListLikeType:
		ends := make([]int, n+1)
		for i := range n {
			ends[i+1] = ends[i] + r.IntN(4)
		}
		items := []arrow.ArrayData{randomData(r, t.ElemField(), ends[n])}
		return array.NewData(t, n, []*memory.Buffer{bits, offsets(ends, t.ID() == arrow.LARGE_LIST)}, items, nulls, 0)
	}
	b := array.NewBuilder(memory.DefaultAllocator, f.Type)
	defer b.Release()
	for i := range n {
		switch {
		case bits != nil && !bitutil.BitIsSet(bits.Bytes(), i):
			b.AppendNull()
		case f.Type.ID() == arrow.DICTIONARY:
			if err := b.AppendValueFromString(fmt.Sprint(r.IntN(5))); err != nil {
				panic(err)
			}
		default:
			appendAny(r, b, f)
		}
	}
	return b.NewArray().Data()
}

// What is written to Parquet is read again as it was, whatever is null on the
// way to a value: decimals and float16 have been those of other rows.
func TestParquet_nested(t *testing.T) {
	r := seed.Rand(t)
	for _, leaf := range parquetLeaves(t) {
		for levels := range 4 {
			for range 6 {
				f := randomNested(r, leaf, levels)
				n := 1 + r.IntN(60)
				column := array.MakeFromData(randomData(r, f, n))
				checkParquet(t, f, column, r.IntN(n))
			}
		}
	}
}

// checkParquet writes a column in two batches and reads it again.
func checkParquet(t *testing.T, f arrow.Field, column arrow.Array, cut int) {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{f}, nil)
	var file bytes.Buffer
	w, err := NewWriter(&file, FormatParquet, false, schema, nil)
	if err != nil {
		t.Fatalf("%s: %v", f, err)
	}
	for _, part := range [][2]int{{0, cut}, {cut, column.Len()}} {
		slice := array.NewSlice(column, int64(part[0]), int64(part[1]))
		batch := array.NewRecordBatch(schema, []arrow.Array{slice}, int64(slice.Len()))
		if err := w.Write(&Rows{Args: batch, Input: batch}, nil); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatalf("%s: %v", f, err)
	}
	s, err := newParquet(bytes.NewReader(file.Bytes()), nil, Options{Keep: KeepColumns})
	if err != nil {
		t.Fatalf("%s: %v", f, err)
	}
	at := 0
	for {
		rows, err := s.Next(17)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s: row %d: %v", f, at, err)
		}
		got := rows.Input.Column(0)
		for i := range got.Len() {
			want, have := string(AppendJSON(nil, column, at+i)), string(AppendJSON(nil, got, i))
			if want != have {
				t.Fatalf("%s, row %d: got %s, want %s", f, at+i, have, want)
			}
		}
		at += got.Len()
	}
	if at != column.Len() {
		t.Fatalf("%s: got %d rows, want %d", f, at, column.Len())
	}
}

// A type that Parquet files are not written with is an error before anything
// is written, which names the column, the type and what to do.
func TestParquet_lacks(t *testing.T) {
	seconds := arrow.FixedWidthTypes.Duration_s
	member := arrow.StructOf(arrow.Field{Name: "d", Type: seconds, Nullable: true})
	for want, dt := range map[string]arrow.DataType{
		`"x" is duration[s], which`:                                            seconds,
		`"x" is month_interval, which`:                                         months,
		`"x" is day_time_interval, which`:                                      dayTimes,
		`"x" is month_day_nano_interval, which`:                                monthDayNanos,
		`"x" is decimal32(5, 1), which`:                                        &arrow.Decimal32Type{Precision: 5, Scale: 1},
		`"x" is decimal64(12, 1), which`:                                       &arrow.Decimal64Type{Precision: 12, Scale: 1},
		`"x" is decimal128(12, -1), which`:                                     &arrow.Decimal128Type{Precision: 12, Scale: -1},
		`"x" is list<duration[s]> with duration[s], which`:                     arrow.ListOf(seconds),
		`"x" is struct<d duration[s]> with duration[s], which`:                 member,
		`"x" is map<utf8, struct<d duration[s]>> with duration[s], which`:      arrow.MapOf(text, member),
		`"x" is struct<> with a struct of no members, which`:                   arrow.StructOf(),
		`"x" is run_end_encoded<int32, duration[s]> with duration[s], which P`: runs(seconds),
	} {
		var file bytes.Buffer
		_, err := NewWriter(&file, FormatParquet, false, nil, []arrow.Field{{Name: "x", Type: dt, Nullable: true}})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), ".arrow") || file.Len() > 0 {
			t.Errorf("%s: got %v and %d bytes", want, err, file.Len())
		}
	}
}
