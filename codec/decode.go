package codec

import (
	"math"
	"strings"

	"github.com/udfgate/udfgate"
)

// RowsMax is the most rows that any batch can have, whatever Limits say: an
// offsets buffer of one more entry is still addressed by 32 bits per row.
const RowsMax = math.MaxInt32 - 1

// bufferAlign is what the start of each buffer in a body must be a multiple of.
const bufferAlign = 8

// Limits bound what a Decoder accepts. RowsName is the flag that the error quotes.
type Limits struct {
	RowsMax  int64 // 0: RowsMax, the constant
	RowsName string
}

// Decoder turns the record batches of one stream, which all have the same
// fields, into verified batches. It is immutable and safe for concurrent use.
type Decoder struct {
	fields  []udfgate.Field
	limits  Limits
	nodes   int
	buffers int
}

// NewDecoder makes a decoder for batches of these fields.
func NewDecoder(fields []udfgate.Field, limits Limits) *Decoder {
	if limits.RowsMax <= 0 || limits.RowsMax > RowsMax {
		limits.RowsMax = RowsMax
	}
	d := &Decoder{fields: fields, limits: limits}
	for i := range fields {
		d.count(&fields[i].Type)
	}
	return d
}

// count adds the nodes and buffers of a type and of those below it.
func (d *Decoder) count(t *udfgate.Type) {
	d.nodes++
	d.buffers += bufferCount(t.Kind)
	for i := range t.Children {
		d.count(&t.Children[i].Type)
	}
}

// bufferCount is how many buffers a column has, without those below it.
func bufferCount(k udfgate.Kind) int {
	switch {
	case k == udfgate.Null:
		return 0
	case k == udfgate.Struct, k == udfgate.FixedSizeList:
		return 1
	case k.Variable():
		return 3
	default:
		return 2
	}
}

// Decode copies the body of a record batch that ReadMessage has accepted into a
// slot, once, and verifies it there: nothing that was checked can change afterwards, because
// pieces may be freed or reused and the slot is written by the gateway alone.
//
// # Errors
//
// *udfgate.Error Invalid names the column, what was wanted and what came;
// QueueFull comes from the store. The caller adds the function's name.
func (d *Decoder) Decode(fd *FlightData, m *Message, pieces [][]byte, store *Store) (*Batch, error) {
	if err := d.checkHeader(fd, m); err != nil {
		return nil, err
	}
	slot, err := store.Get(m.BodyLen)
	if err != nil {
		return nil, err
	}
	body := slot.Bytes()
	if m.BodyLen > 0 {
		CopyBody(body, pieces, Range{Off: fd.Body.Off, Len: m.BodyLen})
	}
	b := &Batch{Rows: m.Rows, Columns: make([]Column, len(d.fields)), Slot: slot}
	v := verifier{body: body, nodes: m.Nodes, buffers: m.Buffers, valuesMax: d.limits.RowsMax, valuesName: d.limits.RowsName}
	for i := range d.fields {
		v.number, v.field = i, &d.fields[i]
		if err := v.top(&b.Columns[i], m.Rows); err != nil {
			b.Release()
			return nil, err
		}
	}
	return b, nil
}

// checkHeader compares the header with the fields and limits before any byte
// is allocated for the body.
func (d *Decoder) checkHeader(fd *FlightData, m *Message) error {
	if m.Kind != KindRecordBatch {
		return udfgate.Invalidf(udfgate.ShapeMalformed, "wanted a record batch, got another message")
	}
	if m.Rows > d.limits.RowsMax {
		return udfgate.Invalidf(udfgate.ShapeTooLarge, "batch of %d rows is over %s %d; send smaller batches",
			m.Rows, d.limits.RowsName, d.limits.RowsMax)
	}
	if len(m.Nodes) != d.nodes {
		return udfgate.Invalidf(udfgate.ShapeMalformed, "record batch: wanted %d columns as in the schema, those below others included, got %d",
			d.nodes, len(m.Nodes))
	}
	if len(m.Buffers) != d.buffers {
		return udfgate.Invalidf(udfgate.ShapeMalformed, "record batch: wanted %d buffers for (%s), got %d",
			d.buffers, typeNames(d.fields), len(m.Buffers))
	}
	framed := int64(0)
	if fd.HasBody {
		framed = fd.Body.Len
	}
	if m.BodyLen != framed {
		return udfgate.Invalidf(udfgate.ShapeMalformed, "record batch: wanted a body of %d bytes as its header says, got %d", m.BodyLen, framed)
	}
	return nil
}

// CheckArgs compares the columns that a caller sent with the arguments of a
// function, by position. Names are ignored; types must be equal.
func CheckArgs(function *udfgate.Function, got udfgate.Schema) error {
	wanted := function.Args
	if len(got.Fields) != len(wanted) {
		noun := "columns"
		if len(wanted) == 1 {
			noun = "column"
		}
		return argsError(function, "wanted %d %s (%s), got %d (%s)",
			len(wanted), noun, typeNames(wanted), len(got.Fields), typeNames(got.Fields))
	}
	for i, w := range wanted {
		if g := got.Fields[i].Type; !g.Equal(w.Type) {
			return argsError(function, "column %d %s: wanted %s, got %s", i, quoted(w.Name), w.Type, g)
		}
	}
	return nil
}

func argsError(function *udfgate.Function, format string, args ...any) error {
	err := udfgate.Invalidf(udfgate.ShapeMalformed, format, args...)
	err.Function = function.Name
	return err
}

// typeNamesMax bounds how many types a message spells out.
const typeNamesMax = 16

func typeNames(fields []udfgate.Field) string {
	names := make([]string, 0, min(len(fields), typeNamesMax+1))
	for i, f := range fields {
		if i == typeNamesMax {
			names = append(names, "…")
			break
		}
		names = append(names, f.Type.String())
	}
	return strings.Join(names, ", ")
}
