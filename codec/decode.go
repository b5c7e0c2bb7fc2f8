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
	buffers int
}

// NewDecoder makes a decoder for batches of these fields.
func NewDecoder(fields []udfgate.Field, limits Limits) *Decoder {
	if limits.RowsMax <= 0 || limits.RowsMax > RowsMax {
		limits.RowsMax = RowsMax
	}
	d := &Decoder{fields: fields, limits: limits}
	for _, f := range fields {
		d.buffers += bufferCount(f.Type.Kind)
	}
	return d
}

// bufferCount is how many buffers a column has: validity, values, and offsets
// between them where lengths vary.
func bufferCount(k udfgate.Kind) int {
	if k.Variable() {
		return 3
	}
	return 2
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
	at := 0
	for i := range d.fields {
		v := verifier{body: body, rows: m.Rows, nulls: m.Nodes[i].Nulls, number: i, field: &d.fields[i]}
		n := bufferCount(v.field.Type.Kind)
		if err := v.column(m.Buffers[at:at+n], &b.Columns[i]); err != nil {
			b.Release()
			return nil, err
		}
		at += n
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
	if len(m.Nodes) != len(d.fields) {
		return udfgate.Invalidf(udfgate.ShapeMalformed, "record batch: wanted %d columns as in the schema, got %d",
			len(d.fields), len(m.Nodes))
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

// verifier checks one column of a body that lies in a slot.
type verifier struct {
	body   []byte
	rows   int64
	nulls  int64 // as the header says; -1: it does not say
	number int
	field  *udfgate.Field
}

func (v *verifier) invalid(format string, args ...any) *udfgate.Error {
	args = append([]any{v.number, quoted(v.field.Name)}, args...)
	return udfgate.Invalidf(udfgate.ShapeMalformed, "column %d %s: "+format, args...)
}

// take returns the first need bytes of a buffer as a range of the body. The
// rest is padding: legal, and of no use to a reader.
func (v *verifier) take(b Buffer, what string, need int64) (Range, error) {
	size := int64(len(v.body))
	if b.Offset < 0 || b.Length < 0 || b.Offset > size || b.Length > size-b.Offset || b.Offset%bufferAlign != 0 {
		return Range{}, v.invalid("wanted %s at a multiple of %d within a body of %d bytes, got %d bytes at %d",
			what, bufferAlign, size, b.Length, b.Offset)
	}
	if b.Length < need {
		return Range{}, v.invalid("wanted at least %d bytes of %s for %d rows of %s, got %d",
			need, what, v.rows, v.field.Type, b.Length)
	}
	return Range{Off: b.Offset, Len: need}, nil
}

func (v *verifier) bytes(r Range) []byte { return v.body[r.Off:r.End()] }

func (v *verifier) column(buffers []Buffer, c *Column) (err error) {
	c.Type = v.field.Type
	if buffers[0].Length > 0 {
		if c.Validity, err = v.take(buffers[0], "validity", bitmapLen(v.rows)); err != nil {
			return err
		}
		if c.Nulls = zeroBits(v.bytes(c.Validity), v.rows); c.Nulls == 0 {
			c.Validity = Range{}
		}
	}
	// Readers differ in whether the header's count or the bitmap wins, so the
	// two must agree.
	if v.nulls >= 0 && v.nulls != c.Nulls {
		return v.invalid("the header says %d nulls, its validity has %d", v.nulls, c.Nulls)
	}
	switch k := c.Type.Kind; {
	case k.Variable():
		return v.variable(buffers, c)
	case k == udfgate.Bool:
		c.Values, err = v.take(buffers[1], "bits", bitmapLen(v.rows))
	default:
		c.Values, err = v.take(buffers[1], "values", v.rows*int64(k.Width()))
	}
	return err
}

// variable checks the offsets and data of a utf8 or binary column. Offsets may
// begin above 0 (the sender cut a slice); Values then still begins at byte 0 of
// the data, so that offsets count from it.
func (v *verifier) variable(buffers []Buffer, c *Column) (err error) {
	if v.rows == 0 { // the offsets buffer may be empty, and nothing reads it
		return nil
	}
	if c.Offsets, err = v.take(buffers[1], "offsets", 4*(v.rows+1)); err != nil {
		return err
	}
	if c.Values, err = v.take(buffers[2], "data", 0); err != nil {
		return err
	}
	offsets := int32s(v.bytes(c.Offsets))
	if !ascending(offsets) {
		return v.badOffset(offsets)
	}
	first, last := offsets[0], int64(offsets[v.rows])
	if last > buffers[2].Length {
		return v.invalid("last offset %d is past the data of %d bytes", last, buffers[2].Length)
	}
	c.Values.Len = last
	if c.Type.Kind == udfgate.Utf8 {
		return v.text(offsets, first, c)
	}
	return nil
}

func (v *verifier) text(offsets []int32, first int32, c *Column) error {
	data := v.bytes(c.Values)
	if c.ASCII = isASCII(data[first:]); c.ASCII || wholeText(offsets, data) {
		return nil
	}
	if row := firstBadText(offsets, data, v.bytes(c.Validity)); row >= 0 {
		err := v.invalid("not UTF-8")
		err.Row = row
		return err
	}
	return nil
}

func (v *verifier) badOffset(offsets []int32) error {
	if offsets[0] < 0 {
		return v.invalid("first offset %d is negative", offsets[0])
	}
	row := firstFall(offsets)
	return v.invalid("end offset %d of row %d is less than its start %d", offsets[row+1], row, offsets[row])
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
