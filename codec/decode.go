package codec

import (
	"errors"
	"math"
	"sort"
	"strings"

	"github.com/udfgate/udfgate"
)

// RowsMax is the most rows that any batch can have, whatever Limits say: an
// offsets buffer of one more entry is still addressed by 32 bits per row.
const RowsMax = math.MaxInt32 - 1

// bytesMaxDefault bounds what packed bodies become where Limits do not: they can
// claim any size.
const bytesMaxDefault = 1 << 31

// bufferAlign is what the start of each buffer in a body must be a multiple of.
const bufferAlign = 8

// Limits bound what a Decoder accepts. The names are the flags that errors quote.
type Limits struct {
	RowsMax   int64 // 0: RowsMax, the constant
	RowsName  string
	BytesMax  int64 // of a batch once it is unpacked and normalised; 0: 2 GiB
	BytesName string
}

// Decoder turns the record batches of one stream, which all have the same
// fields, into verified batches. It is immutable and safe for concurrent use.
type Decoder struct {
	declared []udfgate.Field
	sent     []udfgate.Field
	limits   Limits
	nodes    int
	buffers  int  // data buffers of views come on top
	views    int  // columns that have such
	plain    bool // what is sent is what is declared, and canonical
	// The values of dictionaries, by ID.
	dictionaries map[int64]*udfgate.Field
}

// NewDecoder makes a decoder for batches whose fields are those of sent and
// become those of declared, which CheckArgs has found possible.
func NewDecoder(declared, sent []udfgate.Field, limits Limits) *Decoder {
	if limits.RowsMax <= 0 || limits.RowsMax > RowsMax {
		limits.RowsMax = RowsMax
	}
	if limits.BytesMax <= 0 {
		limits.BytesMax, limits.BytesName = bytesMaxDefault, "the most bytes of a batch,"
	}
	d := &Decoder{declared: declared, sent: sent, limits: limits, plain: true, dictionaries: dictionaryFields(sent)}
	for i := range sent {
		d.plain = d.plain && sent[i].Type.Equal(declared[i].Type)
		nodes, buffers, views := partsOf(&sent[i].Type)
		d.nodes, d.buffers, d.views = d.nodes+nodes, d.buffers+buffers, d.views+views
	}
	return d
}

// partsOf is how many nodes and buffers a column of a type has, those below it
// included, and how many of the columns are views. The values of a dictionary
// travel in messages of their own.
func partsOf(t *udfgate.Type) (nodes, buffers, views int) {
	nodes, buffers = 1, bufferCount(t.Kind)
	switch t.Kind {
	case udfgate.Dictionary:
		return nodes, buffers, 0
	case udfgate.Utf8View, udfgate.BinaryView:
		views = 1
	}
	for i := range t.Children {
		n, b, v := partsOf(&t.Children[i].Type)
		nodes, buffers, views = nodes+n, buffers+b, views+v
	}
	return nodes, buffers, views
}

// bufferCount is how many buffers a column has, without those below it and
// without data buffers of views.
func bufferCount(k udfgate.Kind) int {
	switch {
	case k == udfgate.Null, k == udfgate.RunEndEncoded:
		return 0
	case k == udfgate.Struct, k == udfgate.FixedSizeList:
		return 1
	case k.Variable(), k == udfgate.ListView, k == udfgate.LargeListView:
		return 3
	default:
		return 2
	}
}

// Decode makes a batch of a message that ReadMessage has accepted. The body is
// copied into a slot, once, and verified there: nothing that was checked can
// change afterwards, because pieces may be freed or reused and the slot is
// written by the gateway alone. What is packed, or not canonical, is verified
// before it is copied, while pieces still are the caller's.
//
// # Errors
//
// *udfgate.Error Invalid names the column, what was wanted and what came;
// QueueFull comes from the store. The caller adds the function's name.
func (d *Decoder) Decode(fd *FlightData, m *Message, pieces [][]byte, dictionaries *Dictionaries, store *Store) (*Batch, error) {
	if err := d.checkHeader(fd, m); err != nil {
		return nil, err
	}
	if !d.plain || m.Compression != CompressionNone {
		return d.normalise(fd, m, pieces, dictionaries, store)
	}
	slot, err := store.Get(m.BodyLen)
	if err != nil {
		return nil, err
	}
	body := slot.Bytes()
	if m.BodyLen > 0 {
		CopyBody(body, pieces, Range{Off: fd.Body.Off, Len: m.BodyLen})
	}
	b := &Batch{Rows: m.Rows, Slot: slot}
	// The declared types are equal, and say how a body takes them.
	if b.Columns, err = d.columns(d.declared, body, m, nil); err != nil {
		b.Release()
		return nil, err
	}
	return b, nil
}

// columns verifies the columns of a body.
func (d *Decoder) columns(fields []udfgate.Field, body []byte, m *Message, dictionaries *Dictionaries) ([]Column, error) {
	columns := make([]Column, len(d.sent))
	v := d.verifier(body, m, dictionaries)
	for i := range d.sent {
		v.number, v.field = i, &d.sent[i]
		if err := v.top(&fields[i].Type, &columns[i], m.Rows); err != nil {
			return nil, err
		}
	}
	return columns, nil
}

func (d *Decoder) verifier(body []byte, m *Message, dictionaries *Dictionaries) *verifier {
	return &verifier{
		body: body, nodes: m.Nodes, buffers: m.Buffers, variadic: m.Variadic, dictionaries: dictionaries,
		valuesMax: d.limits.RowsMax, valuesName: d.limits.RowsName, dictionary: -1,
		bytesMax: d.limits.BytesMax, bytesName: d.limits.BytesName,
	}
}

// normalise makes the batch in declared form of what came in another.
func (d *Decoder) normalise(fd *FlightData, m *Message, pieces [][]byte, dictionaries *Dictionaries, store *Store) (*Batch, error) {
	body, block, err := d.unpacked(fd, m, pieces)
	if err != nil {
		return nil, err
	}
	if block != nil {
		defer block.Release()
	}
	columns, err := d.columns(d.sent, body, m, dictionaries)
	if err != nil {
		return nil, err
	}
	trees, size, used := make([]*tree, len(columns)), int64(0), new(int64)
	for i := range columns {
		trees[i] = growTree(&d.declared[i], used, d.limits.BytesMax)
		defer trees[i].release()
		if err := trees[i].gather(&columns[i], body, m.Rows); err != nil {
			return nil, d.notNormal(i, &columns[i], body, err)
		}
		size = roundUp(size, slotAlign) + trees[i].size()
	}
	slot, err := store.Get(size)
	if err != nil {
		return nil, err
	}
	b, at := &Batch{Rows: m.Rows, Columns: columns, Slot: slot}, int64(0)
	for i := range trees {
		b.Columns[i] = trees[i].placeAt(slot.Bytes(), &at)
	}
	return b, nil
}

// notNormal says what stood in the way of normalising column i, and in which row.
func (d *Decoder) notNormal(i int, c *Column, body []byte, err error) error {
	if long, ok := errors.AsType[*tooLarge](err); ok {
		return udfgate.Invalidf(udfgate.ShapeTooLarge, "column %d %s: %d bytes or more as plain values are over %s %d, or more than one column can hold; send smaller batches",
			i, quoted(d.sent[i].Name), long.size, d.limits.BytesName, d.limits.BytesMax)
	}
	// Columns below others are added one after the other, so the first error need
	// not be that of the first row that has one.
	row := sort.Search(int(c.Length)-1, func(row int) bool {
		n := newTree(&d.declared[i], d.limits.BytesMax)
		defer n.release()
		first := n.appendRange(c, body, 0, int64(row)+1)
		if first != nil {
			err = first
		}
		return first != nil
	})
	e := udfgate.Invalidf(udfgate.ShapeMalformed, "column %d %s: %w", i, quoted(d.declared[i].Name), err)
	e.Row = int64(row)
	return e
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
	if wanted := d.buffers + variadicSum(m); len(m.Buffers) != wanted {
		return udfgate.Invalidf(udfgate.ShapeMalformed, "record batch: wanted %d buffers for (%s), got %d",
			wanted, typeNames(d.sent), len(m.Buffers))
	}
	if len(m.Variadic) > d.views {
		return udfgate.Invalidf(udfgate.ShapeMalformed, "record batch: wanted counts of data buffers for %d columns of views, got %d", d.views, len(m.Variadic))
	}
	return checkFrame(fd, m)
}

// variadicSum is how many data buffers views have. More than there are buffers
// need not be counted.
func variadicSum(m *Message) (sum int) {
	for _, n := range m.Variadic {
		if sum += int(n); sum > len(m.Buffers) {
			break
		}
	}
	return sum
}

// fits compares the header of a dictionary batch with the type of its values.
func (d *Decoder) fits(m *Message, t *udfgate.Type) error {
	nodes, buffers, views := partsOf(t)
	if len(m.Variadic) > views {
		return udfgate.Invalidf(udfgate.ShapeMalformed, "dictionary %d: wanted counts of data buffers for %d columns of views, got %d", m.DictionaryID, views, len(m.Variadic))
	}
	if wanted := buffers + variadicSum(m); len(m.Nodes) != nodes || len(m.Buffers) != wanted {
		return udfgate.Invalidf(udfgate.ShapeMalformed, "dictionary %d: wanted %d columns and %d buffers for %s, got %d and %d",
			m.DictionaryID, nodes, wanted, t, len(m.Nodes), len(m.Buffers))
	}
	return nil
}

func checkFrame(fd *FlightData, m *Message) error {
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
		if g := got.Fields[i].Type; !accepts(&w.Type, &g) {
			return argsError(function, "column %d %s: wanted %s, got %s", i, quoted(w.Name), w.Type, g)
		}
	}
	return nil
}

// accepts reports whether values of a type that is sent become values of the
// declared one exactly, or can say so value by value: integers of any width,
// narrower floats, and every encoding of the same values. A plain utf8 column
// is taken for one with an extension over it, whose body reads the text.
func accepts(declared, sent *udfgate.Type) bool {
	switch sent.Kind {
	case udfgate.Dictionary, udfgate.RunEndEncoded:
		return accepts(declared, &sent.Children[1].Type)
	case udfgate.Null:
		return true
	}
	d, s := family(declared.Kind), family(sent.Kind)
	switch {
	case d != s:
		return false
	case declared.Kind == sent.Kind && !declared.Kind.Nested():
		return sameParameters(declared, sent)
	case d == udfgate.Float64:
		return declared.Kind.Width() >= sent.Kind.Width()
	case d == udfgate.Int64, d == udfgate.Utf8, d == udfgate.Binary:
		return true
	}
	if declared.Size != sent.Size || len(declared.Children) != len(sent.Children) {
		return false
	}
	for i := range declared.Children {
		if !accepts(&declared.Children[i].Type, &sent.Children[i].Type) {
			return false
		}
	}
	return true
}

// sameParameters compares what Equal does, but for what is below.
func sameParameters(a, b *udfgate.Type) bool {
	return a.Unit == b.Unit && udfgate.SameZone(a.Zone, b.Zone) && a.Precision == b.Precision && a.Scale == b.Scale && a.Size == b.Size
}

// family is the kind that stands for all that hold the same sort of values.
func family(k udfgate.Kind) udfgate.Kind {
	switch {
	case k >= udfgate.Int8 && k <= udfgate.Uint64:
		return udfgate.Int64
	case k == udfgate.Float16, k == udfgate.Float32, k == udfgate.Float64:
		return udfgate.Float64
	case k.Text():
		return udfgate.Utf8
	case k == udfgate.Binary, k == udfgate.LargeBinary, k == udfgate.BinaryView:
		return udfgate.Binary
	case k == udfgate.List, k == udfgate.LargeList, k == udfgate.ListView, k == udfgate.LargeListView:
		return udfgate.List
	default:
		return k
	}
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
