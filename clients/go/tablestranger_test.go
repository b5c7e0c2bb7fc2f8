package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/udfgate/udfgate"
	client "github.com/udfgate/udfgate/clients/go"
)

// tableStranger answers tables as no gateway of ours does.
type tableStranger struct{ stranger }

// piece is one part: its rows, and what comes with it.
type piece struct {
	rows  string // JSON
	about string // app_metadata
}

const bill = `{"bill":{"rows":1}}`

// strangeTables are the parts that come for one batch, by the function's name.
var strangeTables = map[string][]piece{
	"whole":    {{"[0,0]", `{"app":"AAE="}`}, {"[1]", `{"bill":{"rows":2},"app":"AAE="}`}},
	"unended":  {{"[0]", ""}, {"[1]", ""}},
	"unbilled": {{"[0]", `{"bill":"not one"}`}},
	"nulls":    {{"[0,null]", bill}},
	"twice":    {{"[0]", bill}, {"[0]", bill}},
	"none":     {},
}

func (f *tableStranger) DoExchange(s flight.FlightService_DoExchangeServer) error {
	r, err := flight.NewRecordReader(s)
	if err != nil {
		return err
	}
	defer r.Release()
	if !r.Next() {
		return r.Err()
	}
	name := r.LatestFlightDescriptor().GetPath()[0]
	fields := []arrow.Field{{Name: "row", Type: arrow.PrimitiveTypes.Int32}, {Name: name, Type: arrow.PrimitiveTypes.Int32}}
	switch name {
	case "scalar":
		fields = fields[:1]
	case "row": // a scalar function of this name, asked for its errors
		fields = []arrow.Field{{Name: "row", Type: arrow.PrimitiveTypes.Int32, Nullable: true}, {Name: "error", Type: arrow.BinaryTypes.String, Nullable: true}}
	}
	w := flight.NewRecordWriter(s, ipc.WithSchema(arrow.NewSchema(fields, nil)))
	defer w.Close()
	for _, p := range strangeTables[name] {
		column, _, err := array.FromJSON(memory.DefaultAllocator, arrow.PrimitiveTypes.Int32, strings.NewReader(p.rows))
		if err != nil {
			return err
		}
		part := array.NewRecordBatch(arrow.NewSchema(fields, nil), []arrow.Array{column, column}, int64(column.Len()))
		if err := w.WriteWithAppMetadata(part, []byte(p.about)); err != nil {
			return err
		}
	}
	if name == "row" {
		b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
		b.Field(0).AppendNull()
		b.Field(1).AppendNull()
		return w.Write(b.NewRecordBatch())
	}
	return nil
}

// GetFlightInfo answers a function over lists of no items, which arrow-go can
// neither make nor read.
func (f *tableStranger) GetFlightInfo(_ context.Context, d *flight.FlightDescriptor) (*flight.FlightInfo, error) {
	const size = 0x1e61
	text := flight.SerializeSchema(arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.FixedSizeListOf(size, arrow.PrimitiveTypes.Int64)}}, nil), memory.DefaultAllocator)
	return &flight.FlightInfo{FlightDescriptor: d, Schema: bytes.Replace(text, []byte{size & 0xff, size >> 8}, []byte{0, 0}, 1), TotalRecords: 0}, nil
}

func TestTableStranger_noItems(t *testing.T) {
	_, err := connect(t, startTableStranger(t)).Function(t.Context(), "f")
	if want := "flight info of f: schema: a fixed_size_list of 0 items, which Arrow for Go does not have"; err == nil || err.Error() != want {
		t.Errorf("error = %v, want %s", err, want)
	}
}

func startTableStranger(t *testing.T) string {
	t.Helper()
	return startServer(t, &tableStranger{stranger{version: []byte{2}}})
}

func TestTableStranger(t *testing.T) {
	c := connect(t, startTableStranger(t))
	var rows []int32
	var last []bool
	for p, err := range c.CallTable(t.Context(), "whole", batch(1, 2)) {
		if err != nil {
			t.Fatal(err)
		}
		if string(p.AppMetadata) != "\x00\x01" || p.Input != 0 || p.Errors != nil || p.Bill != nil {
			t.Errorf("part %+v", p)
		}
		rows, last = append(rows, p.Rows.Int32Values()...), append(last, p.Last)
	}
	if len(rows) != 3 || len(last) != 2 || last[0] || !last[1] {
		t.Errorf("rows %v, last %v", rows, last)
	}
	for name, want := range map[string]string{
		"unended":  "unended: the call ended before the last part for batch 0",
		"unbilled": "unbilled: the call ended before the last part for batch 0",
		"nulls":    `nulls: answer: wanted column "row" without nulls, got 1`,
		"twice":    "twice: wanted the answer to one batch, got more",
		"none":     "none: wanted the answer to one batch, got none",
		"scalar":   "scalar: answer: wanted the columns row and value of a table function, got ",
	} {
		var last error
		for _, err := range c.CallTable(t.Context(), name, batch(1, 2)) {
			last = err
		}
		if last == nil || !strings.HasPrefix(last.Error(), want) {
			t.Errorf("%s: %v", name, last)
		}
	}
}

// The end of a call that was in the midst of a batch stays its end.
func TestTableStranger_unended(t *testing.T) {
	s, err := connect(t, startTableStranger(t)).StreamTable(t.Context(), "unended", schema)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := errors.Join(s.Send(batch(1)), s.CloseSend()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if p, err := s.Recv(); err != nil || p.Last {
			t.Fatal(p, err)
		}
	}
	for range 2 {
		if _, err := s.Recv(); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("error = %v", err)
		}
	}
}

// Each kind of function has its calls, and says so.
func TestTableStranger_kinds(t *testing.T) {
	c := connect(t, startTableStranger(t))
	_, err := c.Call(t.Context(), "whole", batch(1, 2))
	if want := "whole: answer: wanted one column of results, got those of a table function, which CallTable and StreamTable call"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if r, err := c.Call(t.Context(), "row", batch(1), client.WithOnError(udfgate.OnErrorReject)); err != nil || r.Errors.Len() != 1 {
		t.Errorf("a scalar function named row: %v, %v", r, err)
	}
	for _, err := range c.CallTable(t.Context(), "whole", batch(1), client.WithOnError(udfgate.OnErrorReject)) {
		if err == nil || !strings.HasPrefix(err.Error(), `whole: answer: wanted the results and a column "error" of utf8, got `) {
			t.Errorf("reject: %v", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range c.CallTable(ctx, "whole", batch(1)) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	}
}
