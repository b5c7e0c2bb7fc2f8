package main

import (
	"errors"
	"testing"

	"github.com/udfgate/udfgate"
	client "github.com/udfgate/udfgate/clients/go"
	"github.com/udfgate/udfgate/internal/tabular"
)

// The row of an error is counted in the whole input, whatever its text holds.
func TestLocated(t *testing.T) {
	for name, test := range map[string]struct {
		err     client.Error
		row     int64
		message string
	}{
		"in the first batch":  {client.Error{Function: "f", Row: 1, Batch: 0, Message: "f: row 1: E"}, 1, "f: row 1: E"},
		"next in turn":        {client.Error{Function: "f", Row: 1, Batch: 2, Message: "f: row 1: E: row 1: x"}, 11, "f: row 11: E: row 1: x"},
		"behind others":       {client.Error{Function: "f", Row: 1, Batch: 4, Message: "f: row 1: E"}, 16, "f: row 16: E"},
		"text of other form":  {client.Error{Function: "f", Row: 1, Batch: 2, Message: "row 1: E"}, 11, "row 1: E (row 11 of the input)"},
		"a batch never sent":  {client.Error{Function: "f", Row: 1, Batch: 1 << 40, Message: "f: row 1: E"}, 1, "f: row 1: E"},
		"a batch answered":    {client.Error{Function: "f", Row: 1, Batch: 1, Message: "f: row 1: E"}, 1, "f: row 1: E"},
		"no row":              {client.Error{Function: "f", Row: udfgate.NoRow, Batch: 2, Message: "f: lost"}, udfgate.NoRow, "f: lost"},
		"no batch, but a row": {client.Error{Function: "f", Row: 1, Batch: udfgate.NoRow, Message: "f: row 1: E"}, 1, "f: row 1: E"},
	} {
		t.Run(name, func(t *testing.T) {
			// Two batches of five rows are answered, or none where the first fails;
			// a third and fourth wait.
			o := &outcome{rows: 10, batches: 2}
			if test.err.Batch == 0 {
				o = &outcome{}
			}
			f := &flow{pending: make(chan *tabular.Rows, windowBatches)}
			f.pending <- &tabular.Rows{Args: ints(1, 2)}
			f.pending <- &tabular.Rows{Args: ints(1, 2, 3)}
			got, ok := errors.AsType[*client.Error](f.located(&test.err, o))
			if !ok || got.Row != test.row || got.Message != test.message {
				t.Errorf("got row %d, %s, want row %d, %s", got.Row, got.Message, test.row, test.message)
			}
		})
	}
}
