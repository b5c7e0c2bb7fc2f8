package client_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/udfgate/udfgate"
	client "github.com/udfgate/udfgate/clients/go"
)

// Calling double(a int64) with one batch, and looking where the time went.
func ExampleClient_Call() {
	ctx := context.Background()
	gate, err := client.Connect(ctx, shared.addr) // "127.0.0.1:8815", say
	if err != nil {
		fmt.Println(err)
		return
	}
	defer gate.Close()

	result, err := gate.Call(ctx, "double", batch(1, 2, 3))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Batch.Column(0))
	fmt.Println(result.Bill.Rows, "rows;", result.Bill.BodyNS > 0, result.Bill.WallNS >= result.Bill.BodyNS)
	// Output:
	// [2 4 6]
	// 3 rows; true true
}

// Any number of batches through one call, answers as they come.
func ExampleStream_Exchange() {
	ctx := context.Background()
	gate, err := client.Connect(ctx, shared.addr)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer gate.Close()
	reader, err := array.NewRecordReader(schema, batches) // of a file, say
	if err != nil {
		fmt.Println(err)
		return
	}

	stream, err := gate.Stream(ctx, "double", reader.Schema())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stream.Close()
	for result, err := range stream.Exchange(array.IterFromReader(reader)) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(result.Batch.Column(0))
	}
	fmt.Println(stream.Bill().Batches, "batches")
	// Output:
	// [2 4]
	// [6]
	// 2 batches
}

// A table function's rows, in parts as they come.
func ExampleClient_CallTable() {
	ctx := context.Background()
	gate, err := client.Connect(ctx, shared.addr)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer gate.Close()

	for part, err := range gate.CallTable(ctx, "series", batch(2, 0, 1)) {
		if err != nil {
			fmt.Println(err)
			return
		}
		for i, row := range part.Rows.Int32Values() {
			fmt.Println("row", row, "gave", part.Values.ValueStr(i))
		}
	}
	// Output:
	// row 0 gave 0
	// row 0 gave 1
	// row 2 gave 0
}

// What went wrong, and for whom to mend.
func ExampleError() {
	ctx := context.Background()
	gate, err := client.Connect(ctx, shared.addr)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer gate.Close()

	_, err = gate.Call(ctx, "picky", batch(1, -2))
	switch client.ReasonOf(err) {
	case udfgate.UserError:
		raised, _ := errors.AsType[*client.Error](err)
		fmt.Println("row", raised.Row, "raised", raised.Exception)
	case udfgate.QueueFull, udfgate.Draining:
		fmt.Println("later:", client.Retryable(err))
	default:
		fmt.Println(err)
	}
	// Output: row 1 raised ValueError
}

// Failed rows as answers instead of an error.
func ExampleWithOnError() {
	ctx := context.Background()
	gate, err := client.Connect(ctx, shared.addr)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer gate.Close()

	result, err := gate.Call(ctx, "picky", batch(1, -2), client.WithOnError(udfgate.OnErrorReject))
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range result.Errors.Len() {
		if result.Errors.IsValid(i) {
			fmt.Println("row", i, result.Errors.Value(i))
		}
	}
	// Output: row 1 ValueError: -2 is negative
}
