package main

import (
	"bytes"
	"math"
	"os"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/rogpeppe/go-internal/testscript"
)

// every is four rows of all types that arguments may have, the second of nulls,
// the third and fourth of extremes.
func every() arrow.RecordBatch {
	fields := []arrow.Field{
		{Name: "o", Type: arrow.FixedWidthTypes.Boolean},
		{Name: "t", Type: arrow.PrimitiveTypes.Int8},
		{Name: "h", Type: arrow.PrimitiveTypes.Int16},
		{Name: "n", Type: arrow.PrimitiveTypes.Int32},
		{Name: "i", Type: arrow.PrimitiveTypes.Int64},
		{Name: "p", Type: arrow.PrimitiveTypes.Uint8},
		{Name: "q", Type: arrow.PrimitiveTypes.Uint16},
		{Name: "r", Type: arrow.PrimitiveTypes.Uint32},
		{Name: "z", Type: arrow.PrimitiveTypes.Uint64},
		{Name: "e", Type: arrow.PrimitiveTypes.Float32},
		{Name: "d", Type: arrow.PrimitiveTypes.Float64},
		{Name: "s", Type: arrow.BinaryTypes.String},
		{Name: "b", Type: arrow.BinaryTypes.Binary},
	}
	for i := range fields {
		fields[i].Nullable = true
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	valid := []bool{true, false, true, true}
	b.Field(0).(*array.BooleanBuilder).AppendValues([]bool{true, false, false, true}, valid)
	b.Field(1).(*array.Int8Builder).AppendValues([]int8{1, 0, math.MinInt8, math.MaxInt8}, valid)
	b.Field(2).(*array.Int16Builder).AppendValues([]int16{1, 0, math.MinInt16, math.MaxInt16}, valid)
	b.Field(3).(*array.Int32Builder).AppendValues([]int32{1, 0, math.MinInt32, math.MaxInt32}, valid)
	b.Field(4).(*array.Int64Builder).AppendValues([]int64{1, 0, math.MinInt64, math.MaxInt64}, valid)
	b.Field(5).(*array.Uint8Builder).AppendValues([]uint8{1, 0, 0, math.MaxUint8}, valid)
	b.Field(6).(*array.Uint16Builder).AppendValues([]uint16{1, 0, 0, math.MaxUint16}, valid)
	b.Field(7).(*array.Uint32Builder).AppendValues([]uint32{1, 0, 0, math.MaxUint32}, valid)
	b.Field(8).(*array.Uint64Builder).AppendValues([]uint64{1, 0, 0, math.MaxUint64}, valid)
	b.Field(9).(*array.Float32Builder).AppendValues([]float32{0.1, 0, float32(math.Inf(-1)), math.MaxFloat32}, valid)
	b.Field(10).(*array.Float64Builder).AppendValues([]float64{0.1, 0, math.Copysign(0, -1), math.NaN()}, valid)
	b.Field(11).(*array.StringBuilder).AppendValues([]string{"a,\"é\"\n", "", "", "null"}, valid)
	b.Field(12).(*array.BinaryBuilder).AppendValues([][]byte{{0, 255}, nil, {}, []byte("x")}, valid)
	return b.NewRecordBatch()
}

const everyCSV = `o,t,h,n,i,p,q,r,z,e,d,s,b
true,1,1,1,1,1,1,1,1,0.1,0.1,"a,""é""
",AP8=
,,,,,,,,,,,,
false,-128,-32768,-2147483648,-9223372036854775808,0,0,0,0,-Infinity,-0,"",""
true,127,32767,2147483647,9223372036854775807,255,65535,4294967295,18446744073709551615,3.4028235e38,NaN,null,eA==
`

const everyJSONL = `{"o":true,"t":1,"h":1,"n":1,"i":1,"p":1,"q":1,"r":1,"z":1,"e":0.1,"d":0.1,"s":"a,\"\u00e9\"\n","b":"AP8="}
{"o":null,"t":null,"h":null,"n":null,"i":null,"p":null,"q":null,"r":null,"z":null,"e":null,"d":null,"s":null,"b":null}

{"b":"","s":"","d":-0.0,"e":"-Infinity","z":0,"r":0,"q":0,"p":0,"i":-9223372036854775808,"n":-2147483648,"h":-32768,"t":-128,"o":false}
{"o":true,"t":127,"h":32767,"n":2147483647,"i":9223372036854775807,"p":255,"q":65535,"r":4294967295,"z":18446744073709551615,"e":3.4028235e38,"d":"NaN","s":"null","b":"eA=="}
`

// scriptTables is "tables NAME": it writes the same rows as NAME.parquet,
// NAME.arrow, NAME.arrows, NAME.jsonl and NAME.csv.
func scriptTables(ts *testscript.TestScript, _ bool, args []string) {
	batch := every()
	table := array.NewTableFromRecords(batch.Schema(), []arrow.RecordBatch{batch})
	var parquet, file, stream bytes.Buffer
	ts.Check(pqarrow.WriteTable(table, &parquet, 3, nil, pqarrow.DefaultWriterProps()))
	f, err := ipc.NewFileWriter(&file, ipc.WithSchema(batch.Schema()))
	ts.Check(err)
	s := ipc.NewWriter(&stream, ipc.WithSchema(batch.Schema()))
	ts.Check(f.Write(batch))
	ts.Check(f.Close())
	ts.Check(s.Write(batch))
	ts.Check(s.Close())
	for ext, data := range map[string][]byte{
		".parquet": parquet.Bytes(), ".arrow": file.Bytes(), ".arrows": stream.Bytes(), ".csv": []byte(everyCSV), ".jsonl": []byte(everyJSONL),
	} {
		ts.Check(os.WriteFile(ts.MkAbs(args[0]+ext), data, 0o600))
	}
}
