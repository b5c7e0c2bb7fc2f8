package main

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/udfgate/udfgate"
	client "github.com/udfgate/udfgate/clients/go"
	"github.com/udfgate/udfgate/internal/tabular"
)

// reply is an answer to a batch of rows, or a part of one where a table
// function answers. It is valid while the job hands it over.
type reply struct {
	in    *tabular.Rows
	first int64 // the row of the whole input that in begins with
	batch arrow.RecordBatch
	// rows is which row of in each row here came of; nil for a function that
	// answers one for each.
	rows   *array.Int32
	result arrow.Field
	values arrow.Array
	errors *array.String // nil if they were not asked for
	last   bool          // no more comes for in
}

// len counts the rows that the function answered.
func (r *reply) len() int64 { return r.batch.NumRows() }

// row is the row of the whole input that an answer came of.
func (r *reply) row(i int) int64 {
	if r.rows == nil {
		return r.first + int64(i)
	}
	return r.first + int64(r.rows.Value(i))
}

// columns are the values and, if these were asked for, their errors.
func (r *reply) columns() []arrow.Array {
	if r.errors == nil {
		return []arrow.Array{r.values}
	}
	return []arrow.Array{r.values, r.errors}
}

// fits is an error if the answer is none to its rows.
func (r *reply) fits() error {
	if r.rows == nil {
		if r.len() != r.in.Len() {
			return fmt.Errorf("wanted %d rows in one column back, got %d in %d", r.in.Len(), r.len(), r.batch.NumCols())
		}
		return nil
	}
	from := int32(0)
	for i := range r.rows.Len() {
		row := r.rows.Value(i)
		if row < from || int64(row) >= r.in.Len() {
			return fmt.Errorf("wanted answers to rows %d to %d in order, got one to row %d", from, r.in.Len()-1, row)
		}
		from = row
	}
	return nil
}

// call is a stream of either kind of function.
type call struct {
	caller
	recv func() (*reply, error)
}

type caller interface {
	Send(batch arrow.RecordBatch) error
	CloseSend() error
	Bill() *udfgate.Bill
	Close()
}

// open begins a call with batches of that schema.
func (j *job) open(ctx context.Context, schema *arrow.Schema) (*call, error) {
	if j.function.Table {
		return j.openTable(ctx, schema)
	}
	s, err := j.gate.Stream(ctx, j.function.Name, schema, j.options()...)
	if err != nil {
		return nil, err
	}
	return &call{s, func() (*reply, error) {
		r, err := s.Recv()
		if err != nil {
			return nil, err
		}
		if r.Batch.NumCols() < 1 {
			return nil, fmt.Errorf("%s: wanted one column back, got none", j.function.Name)
		}
		return &reply{batch: r.Batch, result: r.Batch.Schema().Field(0), values: r.Batch.Column(0), errors: r.Errors, last: true}, nil
	}}, nil
}

func (j *job) options() []client.Option {
	return append([]client.Option{client.WithOnError(j.onError)}, j.headers...)
}

func (j *job) openTable(ctx context.Context, schema *arrow.Schema) (*call, error) {
	s, err := j.gate.StreamTable(ctx, j.function.Name, schema, j.options()...)
	if err != nil {
		return nil, err
	}
	return &call{s, func() (*reply, error) {
		p, err := s.Recv()
		if err != nil {
			return nil, err
		}
		return &reply{batch: p.Batch, rows: p.Rows, result: p.Batch.Schema().Field(1), values: p.Values, errors: p.Errors, last: p.Last}, nil
	}}, nil
}
