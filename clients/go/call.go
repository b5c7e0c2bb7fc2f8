package client

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/udfgate/udfgate"
)

// Result is the answer to one batch. Release Batch when done with it, or leave
// it to the garbage collector: its memory is Go's own.
type Result struct {
	// Batch is what the gateway answered: column 0 has the results, under the
	// function's name. With WithOnError(OnErrorReject) the last column is Errors.
	Batch arrow.RecordBatch
	// Errors is the column "error" of Batch: the text of each row that failed,
	// null where the row is good. It is there, failed rows or not, if
	// WithOnError(OnErrorReject) asked for it, and nil otherwise. It lives as
	// long as Batch.
	Errors *array.String
	// Bill is the whole call's from Call, nil if the gateway sent none; from
	// Stream it is the batch's own, present with WithBatchBill only.
	Bill *udfgate.Bill
	// AppMetadata is what SendWithAppMetadata gave with the batch that this
	// answers; empty if nothing.
	AppMetadata []byte
}

// Call sends one batch to a function and waits for its answer, which has as
// many rows. The bill is the call's whole one. The batch may be released as
// soon as Call returns.
//
// # Errors
//
// What the gateway refused or the body raised: *Error. An end of ctx or of
// WithTimeout: *Error that matches context.Canceled or DeadlineExceeded.
func (c *Client) Call(ctx context.Context, name string, batch arrow.RecordBatch, opts ...Option) (*Result, error) {
	s, err := c.Stream(ctx, name, batch.Schema(), opts...)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if err := s.sendOnly(batch); err != nil {
		return nil, err
	}
	result, err := s.Recv()
	if isEOF(err) {
		return nil, fmt.Errorf("%s: wanted one batch back, got none", name)
	}
	if err != nil {
		return nil, err
	}
	if got := result.Batch.NumRows(); got != batch.NumRows() {
		return nil, fmt.Errorf("%s: wanted %d rows back, got %d", name, batch.NumRows(), got)
	}
	if _, err := s.Recv(); err == nil {
		return nil, fmt.Errorf("%s: wanted one batch back, got more", name)
	} else if !isEOF(err) {
		return nil, err
	}
	result.Bill = s.Bill()
	return result, nil
}

// sendOnly sends the one batch of a call. That the call has ended meanwhile is
// no error here: Recv knows why. One that cannot be written would leave Recv
// without an end.
func (s *Stream) sendOnly(batch arrow.RecordBatch) error {
	err := s.Send(batch)
	if err == nil {
		err = s.CloseSend()
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
