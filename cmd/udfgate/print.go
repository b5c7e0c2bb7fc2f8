package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/dustin/go-humanize"
	"github.com/udfgate/udfgate"
	client "github.com/udfgate/udfgate/clients/go"
	"github.com/udfgate/udfgate/internal/tabular"
)

// tableRowsMax is how many rows the table shows; the rest is counted.
const tableRowsMax = 40

// printer takes answers, then ends the output.
type printer interface {
	each(out *reply) error
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

func (n named) Next(rowsMax int) (*tabular.Rows, error) {
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

func (p *jsonPrinter) each(out *reply) error {
	p.buf = p.buf[:0]
	for i := range int(out.len()) {
		if p.any {
			p.buf = append(p.buf, ',')
		} else {
			p.buf = append(p.buf, '[')
			p.any = true
		}
		if out.rows == nil && out.errors == nil {
			p.buf = tabular.AppendFieldJSON(p.buf, out.result, out.values, i)
			continue
		}
		p.buf = append(p.buf, '{')
		if out.rows != nil {
			p.buf = append(strconv.AppendInt(append(p.buf, `"row":`...), out.row(i), 10), ',')
		}
		p.buf = tabular.AppendFieldJSON(append(p.buf, `"value":`...), out.result, out.values, i)
		if out.errors != nil {
			p.buf = tabular.AppendJSON(append(p.buf, `,"error":`...), out.errors, i)
		}
		p.buf = append(p.buf, '}')
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

// tablePrinter keeps the first rows and counts the rest. A row is the arguments
// and the answer, or for a table function the input's row by its number and the
// answer.
type tablePrinter struct {
	w       io.Writer
	grid    grid
	fields  []arrow.Field // of the grid's columns
	table   bool
	max     int
	answers int // columns
	rows    int64
}

func newTablePrinter(w io.Writer, f *client.Function, answers []arrow.Field) *tablePrinter {
	p := &tablePrinter{w: w, max: tableRowsMax, answers: len(answers), table: f.Table}
	p.fields = append(p.fields, f.Args...)
	if f.Table {
		answers = slices.Clone(answers)
		answers[0].Name = "value"
		p.fields = []arrow.Field{{Name: udfgate.RowField().Name, Type: arrow.PrimitiveTypes.Int64}}
	}
	p.fields = append(p.fields, answers...)
	for _, field := range p.fields {
		p.grid.head = append(p.grid.head, printable(field.Name))
		p.grid.right = append(p.grid.right, numeric(field.Type))
	}
	return p
}

func numeric(t arrow.DataType) bool {
	return arrow.IsInteger(t.ID()) || arrow.IsFloating(t.ID()) || arrow.IsDecimal(t.ID())
}

func (p *tablePrinter) each(out *reply) error {
	columns := out.columns()[:p.answers]
	if !p.table {
		columns = append(slices.Clone(out.in.Args.Columns()), columns...)
	}
	fields := p.fields[len(p.fields)-len(columns):]
	for i := 0; i < int(out.len()) && len(p.grid.rows) < p.max; i++ {
		var cells []string
		if p.table {
			cells = append(cells, strconv.FormatInt(out.row(i), 10))
		}
		for c, column := range columns {
			cells = append(cells, cellText(fields[c], column, i))
		}
		p.grid.add(cells...)
	}
	p.rows += out.len()
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
func cellText(f arrow.Field, a arrow.Array, i int) string {
	if tabular.IsNull(a, i) {
		return "null"
	}
	text := string(tabular.AppendFieldText(nil, f, a, i))
	if text == "" || text == "null" {
		return `"` + text + `"`
	}
	return printable(text)
}
