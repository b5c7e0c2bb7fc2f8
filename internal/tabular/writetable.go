package tabular

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// pieceRows is how many rows WriteTable makes at once at most: fewer than 16
// bits of run ends count.
const pieceRows = 1 << 14

// WriteTable adds the rows of a table: its row i has the kept columns of row
// from[i] of rows, then the values i of adds. An error leaves the file useless.
// However often a row is repeated, no more than BatchBytesMax of copies are made
// at once, or one copy.
func (w *Writer) WriteTable(rows *Rows, from []int32, adds []arrow.Array) error {
	columns := rows.kept()
	for at := 0; at < len(from); {
		piece, err := w.piece(rows, columns, from[at:])
		if err != nil {
			return w.wrong(err)
		}
		end := at + int(piece.Len())
		if err := w.writeSlice(piece, adds, at, end); err != nil {
			return err
		}
		at = end
	}
	return nil
}

// writeSlice adds a piece with the values of its rows.
func (w *Writer) writeSlice(piece *Rows, adds []arrow.Array, from, to int) error {
	parts := make([]arrow.Array, len(adds))
	for i, a := range adds {
		parts[i] = array.NewSlice(a, int64(from), int64(to))
		defer parts[i].Release()
	}
	return w.Write(piece, parts)
}

// kept are the columns that an output begins with.
func (r *Rows) kept() []arrow.Array {
	switch {
	case r.Text != nil:
		return []arrow.Array{r.Text}
	case r.Input != nil:
		return r.Input.Columns()
	}
	return nil
}

// piece is what is kept of the first of from, as many as fit.
func (w *Writer) piece(rows *Rows, columns []arrow.Array, from []int32) (piece *Rows, err error) {
	err = guard(func() error {
		at, err := pieceOf(columns, from, rows.Len())
		if err != nil {
			return err
		}
		piece = &Rows{Args: array.NewRecordBatch(arrow.NewSchema(nil, nil), nil, int64(len(at)))}
		copies := make([]arrow.Array, len(columns))
		for i, c := range columns {
			data, err := take(c.Data(), at)
			if err != nil {
				return fmt.Errorf("column %q: %w", w.schema.Field(i).Name, err)
			}
			copies[i] = array.MakeFromData(data)
		}
		if rows.Text != nil {
			piece.Text, _ = copies[0].(*array.Binary) // as that of rows is
		} else if rows.Input != nil {
			piece.Input = array.NewRecordBatch(rows.Input.Schema(), copies, int64(len(at)))
		}
		return nil
	})
	return piece, err
}

// pieceOf are the rows that are copied at once, at least one.
func pieceOf(columns []arrow.Array, from []int32, rows int64) ([]int, error) {
	var at []int
	var held, each int64
	for i, row := range from {
		if row < 0 || int64(row) >= rows {
			return nil, fmt.Errorf("wanted one of %s, got row %d", count(rows, "row"), row)
		}
		if i == 0 || row != from[i-1] {
			each = 0
			for _, c := range columns {
				each += rowBytes(c.Data(), int(row))
			}
		}
		if held += each; i > 0 && (held > BatchBytesMax || i == pieceRows) {
			break
		}
		at = append(at, int(row))
	}
	return at, nil
}
