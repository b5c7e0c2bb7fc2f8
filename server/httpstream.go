package server

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/codec"
	"github.com/udfgate/udfgate/internal/tabular"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// renderer is a stream whose client does not take the messages of Flight. What
// it makes of them is work on the answer, and booked as such.
type renderer interface {
	render(m *rawMsg) error
	// kept is the bytes that it keeps of what it has rendered.
	kept() int64
}

// httpStream is a call over HTTP as a DoExchange of one batch: budget, queue,
// ledger, bill and errors are those of every other call. It makes Flight's
// messages from the request's JSON, and JSON from the answers.
type httpStream struct {
	ctx      context.Context
	route    *route
	body     *requestBody
	came     int64 // when the body was there
	rowsMax  int64 // of a batch
	bytesMax int64 // of a batch

	// tableMax bounds the text of a table, whose answer is kept until its end.
	tableMax     int64
	tableMaxName string

	received int // messages
	trailer  metadata.MD

	schema []byte // header of the message that answers the schema
	list   messageList
	reader *ipc.Reader // of list, made with the first answer
	rows   []byte      // the answers, an element each
}

// SetHeader implements grpc.ServerStream; nobody sets any.
func (h *httpStream) SetHeader(metadata.MD) error { return nil }

// SendHeader implements grpc.ServerStream; nobody sets any.
func (h *httpStream) SendHeader(metadata.MD) error { return nil }

// SetTrailer implements grpc.ServerStream.
func (h *httpStream) SetTrailer(md metadata.MD) { h.trailer = md }

// Context implements grpc.ServerStream.
func (h *httpStream) Context() context.Context { return h.ctx }

// RecvMsg implements grpc.ServerStream: the descriptor and the schema, then the
// batch, then the end. An error but io.EOF is an *udfgate.Error.
func (h *httpStream) RecvMsg(m any) error {
	message, ok := m.(*rawMsg)
	if !ok {
		return udfgate.Errorf(udfgate.Internal, "wanted a raw message, got %T", m)
	}
	h.received++
	switch h.received {
	case 1:
		descriptor, err := proto.Marshal(&flight.FlightDescriptor{Type: flight.DescriptorPATH, Path: []string{h.route.function.Canonical()}})
		if err != nil {
			return udfgate.AsError(err)
		}
		schema := codec.AppendSchemaMessage(nil, udfgate.Schema{Fields: h.route.function.Args})
		message.came = 0
		message.data = mem.BufferSlice{mem.SliceBuffer(codec.AppendFlightData(nil, descriptor, schema, nil, -1))}
		return nil
	case 2:
		data, err := h.parse()
		if err != nil {
			return err
		}
		message.came = h.came
		message.data = mem.BufferSlice{mem.SliceBuffer(data)}
		return nil
	default:
		return io.EOF
	}
}

// parse makes the batch from the body, and gives the body back.
func (h *httpStream) parse() ([]byte, error) {
	defer h.body.release()
	text := h.body.text
	h.body.text = nil // the batch has all of it when this returns
	raw, err := rowsOf(text)
	if err != nil {
		return nil, err
	}
	batch, err := h.read(raw)
	if err != nil {
		return nil, err
	}
	defer batch.Release()
	payload, err := ipc.GetRecordBatchPayload(batch)
	if err != nil {
		return nil, udfgate.AsError(err)
	}
	defer payload.Release()
	header := payload.Meta()
	defer header.Release()
	var body bytes.Buffer
	if err := payload.SerializeBody(&body); err != nil {
		return nil, udfgate.AsError(err)
	}
	message := codec.AppendFlightData(nil, nil, header.Bytes(), nil, int64(body.Len()))
	return append(message, body.Bytes()...), nil
}

// read reads the rows into one batch: a body that is run over a whole chunk
// must see all of them.
func (h *httpStream) read(raw []byte) (arrow.RecordBatch, error) {
	schema, err := flight.DeserializeSchema(codec.EncapsulateSchema(udfgate.Schema{Fields: h.route.function.Args}), memory.DefaultAllocator)
	if err != nil { // it has no lists of a fixed size of 0
		return nil, udfgate.Invalidf(udfgate.ShapeUnsupported, "arguments of a type that has no JSON here: %w", err)
	}
	source, err := tabular.NewJSONRows(bytes.NewReader(raw), schema.Fields(), tabular.Options{})
	if err != nil {
		return nil, udfgate.Invalidf(udfgate.ShapeUnsupported, "%w", err)
	}
	var parts []arrow.RecordBatch
	defer func() {
		for _, p := range parts {
			p.Release()
		}
	}()
	for rows, size := int64(0), int64(0); ; {
		part, err := source.Next(int(h.rowsMax - rows + 1)) // one more says that there are too many
		if errors.Is(err, io.EOF) {
			return joined(schema, parts)
		}
		if err != nil {
			return nil, wrongRow(err)
		}
		parts = append(parts, part.Args)
		// Nulls of some types take more bytes than their text has.
		if size += part.Bytes(); size > h.bytesMax {
			return nil, udfgate.Invalidf(udfgate.ShapeTooLarge, "batch of more than %d bytes is over %s %d; send fewer rows", h.bytesMax, messageBytesName, h.bytesMax)
		}
		if rows += part.Len(); rows > h.rowsMax {
			return nil, udfgate.Invalidf(udfgate.ShapeTooLarge, "batch of more than %d rows is over %s %d", h.rowsMax, batchRowsName, h.rowsMax)
		}
	}
}

// wrongRow is the error for rows that cannot be read. Where it is one row's, it
// says so as every error of a row does.
func wrongRow(err error) *udfgate.Error {
	cell, ok := errors.AsType[*tabular.CellError](err)
	if !ok {
		return malformed("rows: %w", err)
	}
	row, known := cell.Row()
	if !known {
		return malformed("rows: %w", err)
	}
	e := malformed("%w", cell.Err)
	if cell.Column != "" {
		e = malformed("%s: %w", cell.Column, cell.Err)
	}
	e.Row = row
	return e
}

// joined is one batch of all parts: nearly always there is just one.
func joined(schema *arrow.Schema, parts []arrow.RecordBatch) (arrow.RecordBatch, error) {
	switch len(parts) {
	case 0:
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		defer b.Release()
		return b.NewRecordBatch(), nil
	case 1:
		parts[0].Retain()
		return parts[0], nil
	}
	rows := int64(0)
	for _, p := range parts {
		rows += p.NumRows()
	}
	columns := make([]arrow.Array, parts[0].NumCols())
	for i := range columns {
		pieces := make([]arrow.Array, len(parts))
		for j, p := range parts {
			pieces[j] = p.Column(i)
		}
		column, err := array.Concatenate(pieces, memory.DefaultAllocator)
		if err != nil {
			return nil, udfgate.Invalidf(udfgate.ShapeTooLarge, "column %d: %w", i, err)
		}
		defer column.Release()
		columns[i] = column
	}
	return array.NewRecordBatch(parts[0].Schema(), columns, rows), nil
}

// SendMsg implements grpc.ServerStream. What it is given was rendered before.
func (h *httpStream) SendMsg(m any) error {
	message, ok := m.(*rawMsg)
	if !ok {
		return udfgate.Errorf(udfgate.Internal, "wanted a raw message, got %T", m)
	}
	message.release()
	if message.whole == nil {
		return nil
	}
	var data codec.FlightData
	if err := codec.ParseFlightData([][]byte{message.whole.ReadOnlyData()}, &data); err != nil {
		return err
	}
	h.schema = data.Header
	return nil
}

// kept implements renderer.
func (h *httpStream) kept() int64 { return int64(cap(h.rows)) }

// render appends the rows of an answer, or of a part of one. How long a table is
// only its body knows, so the text that is kept until its end has a bound.
func (h *httpStream) render(m *rawMsg) error {
	if err := h.appendRows(m); err != nil {
		return udfgate.Errorf(udfgate.Internal, "the answer cannot be written as JSON: %w", err)
	}
	if h.route.function.Table && int64(len(h.rows)) > h.tableMax {
		return udfgate.Invalidf(udfgate.ShapeTooLarge, "answer of more than %d bytes is over %s %d; send fewer rows, or call it over Flight, where a table comes in parts",
			h.tableMax, h.tableMaxName, h.tableMax)
	}
	return nil
}

func (h *httpStream) appendRows(m *rawMsg) error {
	pieces := [][]byte{m.prefix}
	var body []byte
	if m.body != nil {
		body = m.body.Bytes()
		pieces = append(pieces, body)
	}
	var data codec.FlightData
	if err := codec.ParseFlightData(pieces, &data); err != nil {
		return err
	}
	if m.body == nil {
		body = m.prefix[data.Body.Off:][:data.Body.Len]
	}
	if h.reader == nil { // what it has, no allocator waits for
		h.list = messageList{ipc.NewMessage(memory.NewBufferBytes(h.schema), memory.NewBufferBytes(nil))}
		reader, err := ipc.NewReaderFromMessageReader(&h.list)
		if err != nil {
			return err
		}
		h.reader = reader
	}
	h.list = append(h.list, ipc.NewMessage(memory.NewBufferBytes(data.Header), memory.NewBufferBytes(body)))
	batch, err := h.reader.Read()
	if err != nil {
		return err
	}
	h.rows = appendAnswers(h.rows, batch, h.route.function.Table)
	return nil
}

// appendAnswers appends an element per row, with commas between: the value, or
// an object if there is more than the value: the input row of a table in front
// of it, the error behind it.
func appendAnswers(dst []byte, batch arrow.RecordBatch, table bool) []byte {
	value := 0
	if table {
		value = 1
	}
	result, columns := batch.Schema().Field(value), int(batch.NumCols())
	for i := range int(batch.NumRows()) {
		if len(dst) > 0 {
			dst = append(dst, ',')
		}
		if columns == 1 {
			dst = tabular.AppendFieldJSON(dst, result, batch.Column(0), i)
			continue
		}
		dst = append(dst, '{')
		if table {
			dst = append(dst, `"row":`...)
			dst = tabular.AppendJSON(dst, batch.Column(0), i)
			dst = append(dst, ',')
		}
		dst = append(dst, `"value":`...)
		dst = tabular.AppendFieldJSON(dst, result, batch.Column(value), i)
		if columns > value+1 {
			dst = append(dst, `,"error":`...)
			dst = tabular.AppendJSON(dst, batch.Column(value+1), i)
		}
		dst = append(dst, '}')
	}
	return dst
}

// messageList hands messages to arrow-go's reader, which then has them.
type messageList []*ipc.Message

// Message implements ipc.MessageReader.
func (l *messageList) Message() (*ipc.Message, error) {
	if len(*l) == 0 {
		return nil, io.EOF
	}
	m := (*l)[0]
	*l = (*l)[1:]
	return m, nil
}

// Retain implements ipc.MessageReader.
func (*messageList) Retain() {}

// Release implements ipc.MessageReader.
func (*messageList) Release() {}
