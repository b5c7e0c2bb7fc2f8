package client_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	client "github.com/udfgate/udfgate/clients/go"
)

// Calling gcd(a int64, b int64) with one batch, and printing where the time
// went. A gateway must be listening: udfgate serve geo.py
func Example() {
	ctx := context.Background()
	gate, err := client.Connect(ctx, "127.0.0.1:8815")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer gate.Close()

	schema := arrow.NewSchema([]arrow.Field{
		{Name: "a", Type: arrow.PrimitiveTypes.Int64},
		{Name: "b", Type: arrow.PrimitiveTypes.Int64},
	}, nil)
	rows := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	rows.Field(0).(*array.Int64Builder).AppendValues([]int64{12, 7}, nil)
	rows.Field(1).(*array.Int64Builder).AppendValues([]int64{18, 21}, nil)

	result, err := gate.Call(ctx, "gcd", rows.NewRecordBatch())
	if raised, ok := errors.AsType[*client.Error](err); ok {
		fmt.Printf("row %d raised %s\n%s\n", raised.Row, raised.Exception, raised.Detail)
		return
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Batch.Column(0), "body:", result.Bill.BodyNS, "of", result.Bill.WallNS, "ns")
}
