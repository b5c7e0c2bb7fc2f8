package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/dustin/go-humanize"
	client "github.com/udfgate/udfgate/clients/go"
	"github.com/udfgate/udfgate/internal/tabular"
)

// tableRowsMax is how many rows the table shows; the rest is counted.
const tableRowsMax = 40

// printer takes batches with their answers, then ends the output.
type printer interface {
	each(in arrow.RecordBatch, out arrow.Array) error
	end() error
}

// printJSON writes v on one line. A signature keeps its arrow: the output is no
// part of a page, so nothing is escaped for one.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// named says in errors which input the rows came from.
type named struct {
	tabular.Source
	name, hint string
}

func (n named) Next(rowsMax int) (arrow.RecordBatch, error) {
	batch, err := n.Source.Next(rowsMax)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, usage(n.name, err, n.hint)
	}
	return batch, err
}

// jsonPrinter writes one array while the answers come. A call that fails
// midway leaves it open, so that no reader takes it for the whole.
type jsonPrinter struct {
	w   io.Writer
	any bool
	buf []byte
}

func (p *jsonPrinter) each(_ arrow.RecordBatch, out arrow.Array) error {
	p.buf = p.buf[:0]
	for i := range out.Len() {
		if p.any {
			p.buf = append(p.buf, ',')
		} else {
			p.buf = append(p.buf, '[')
			p.any = true
		}
		p.buf = tabular.AppendJSON(p.buf, out, i)
	}
	_, err := p.w.Write(p.buf)
	return err
}

func (p *jsonPrinter) end() error {
	text := "]\n"
	if !p.any {
		text = "[]\n"
	}
	_, err := io.WriteString(p.w, text)
	return err
}

// tablePrinter keeps the first rows, arguments and answer, and counts the rest.
type tablePrinter struct {
	w    io.Writer
	grid grid
	max  int
	rows int64
}

func newTablePrinter(w io.Writer, f *client.Function) *tablePrinter {
	p := &tablePrinter{w: w, max: tableRowsMax}
	for _, field := range append(append([]arrow.Field(nil), f.Args...), f.Result) {
		p.grid.head = append(p.grid.head, printable(field.Name))
		p.grid.right = append(p.grid.right, numeric(field.Type))
	}
	return p
}

func numeric(t arrow.DataType) bool {
	return arrow.IsInteger(t.ID()) || arrow.IsFloating(t.ID())
}

func (p *tablePrinter) each(in arrow.RecordBatch, out arrow.Array) error {
	for i := 0; i < out.Len() && len(p.grid.rows) < p.max; i++ {
		var cells []string
		for _, column := range in.Columns() {
			cells = append(cells, cellText(column, i))
		}
		p.grid.add(append(cells, cellText(out, i))...)
	}
	p.rows += int64(out.Len())
	return nil
}

func (p *tablePrinter) end() error {
	if err := p.grid.write(p.w); err != nil {
		return err
	}
	if more := p.rows - int64(len(p.grid.rows)); more > 0 {
		_, err := fmt.Fprintf(p.w, "… %s more\n", humanize.Comma(more))
		return err
	}
	return nil
}

// cellText shows a value so that no two look alike: null is bare, the empty
// text and the text "null" are quoted.
func cellText(a arrow.Array, i int) string {
	if a.IsNull(i) {
		return "null"
	}
	text := string(tabular.AppendText(nil, a, i))
	if text == "" || text == "null" {
		return `"` + text + `"`
	}
	return printable(text)
}
