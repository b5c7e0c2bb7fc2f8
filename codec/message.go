package codec

import (
	"encoding/binary"
	"slices"

	"github.com/udfgate/udfgate"
)

// MessageKind is what a message carries.
type MessageKind uint8

// The kinds of messages.
const (
	KindNone        MessageKind = iota // nothing that this version of Arrow knows
	KindSchema                         // ReadSchema reads it
	KindRecordBatch                    // rows, nodes and buffers
	KindDictionary                     // refused
	KindOther                          // tensors: refused
)

// The members of Arrow's union MessageHeader, and the versions of its format
// that differ in nothing that is built here.
const (
	headerSchema       = 1
	headerDictionary   = 2
	headerBatch        = 3
	headerTensor       = 4
	headerSparseTensor = 5

	metadataV4 = 3
	metadataV5 = 4
)

// Message is the header of a Flight message. Of a record batch that ReadMessage
// has accepted it holds: Rows ≥ 0; every node has 0 to nodeLengthMax values, and
// −1 (unknown) to that many nulls; every buffer starts at a multiple of 8 and ends within
// BodyLen. Whether nodes and buffers are those of a schema is the Decoder's
// question.
type Message struct {
	Kind        MessageKind
	BodyLen     int64
	Rows        int64
	Nodes       []Node
	Buffers     []Buffer
	Compression Compression
	// Variadic has, for each column of views in Arrow's order, how many buffers
	// of data it has.
	Variadic []int64
	// Of a dictionary batch: which dictionary, and whether it adds to it.
	DictionaryID int64
	Delta        bool
}

// Compression says how the buffers of a body are packed.
type Compression uint8

// The compressions, one more than Arrow numbers them.
const (
	CompressionNone Compression = iota
	CompressionLZ4
	CompressionZSTD
)

// ReadMessage reads and verifies the header of a message into m, whose slices
// it uses again. Only m.Kind is of use when it returns an error.
//
// # Errors
//
// *udfgate.Error Invalid: malformed says which field is wrong and where;
// tensors are refused by name.
func ReadMessage(header []byte, m *Message) error {
	if readUsualBatch(header, m) {
		return nil
	}
	return readAnyMessage(header, m)
}

// readAnyMessage is ReadMessage for what readUsualBatch does not accept.
func readAnyMessage(header []byte, m *Message) error {
	*m = Message{Nodes: m.Nodes[:0], Buffers: m.Buffers[:0], Variadic: m.Variadic[:0]}
	r := fbReader{b: header}
	t := r.root("Message")
	version := r.int16(t, 0, "Message.version")
	kind := r.uint8(t, 1, "Message.header_type")
	content := r.child(t, 2, "Message.header")
	m.BodyLen = r.int64(t, 3, "Message.bodyLength")
	if r.ok() && r.slot(t, 4, 4, "Message.custom_metadata") != 0 {
		// Nobody here wants it, but a header is sound as a whole or not at all.
		s := newSchemaReader(header)
		s.metadata(t, 4, "Message.custom_metadata")
		if err := s.err(); err != nil {
			return err
		}
	}
	if !r.ok() {
		return r.err()
	}
	switch {
	case version < 0 || version > metadataV5:
		return malformed("Message.version: wanted 3 or 4 (V4 or V5), got %d", version)
	case version < metadataV4:
		return udfgate.Invalidf(udfgate.ShapeUnsupported, "arrow metadata V%d is not taken; wanted V4 or V5", version+1)
	case m.BodyLen < 0:
		return malformed("Message.bodyLength: wanted 0 or more, got %d", m.BodyLen)
	case content.pos == 0:
		return malformed("Message.header: missing")
	}
	switch kind {
	case headerSchema:
		m.Kind = KindSchema
		return nil
	case headerBatch:
		m.Kind = KindRecordBatch
		return readBatch(&r, content, m)
	case headerDictionary:
		m.Kind = KindDictionary
		m.DictionaryID = r.int64(content, 0, "DictionaryBatch.id")
		m.Delta = r.uint8(content, 2, "DictionaryBatch.isDelta") != 0
		data := r.child(content, 1, "DictionaryBatch.data")
		if r.ok() && data.pos == 0 {
			return malformed("DictionaryBatch.data: missing")
		}
		if !r.ok() {
			return r.err()
		}
		return readBatch(&r, data, m)
	case headerTensor, headerSparseTensor:
		m.Kind = KindOther
		return udfgate.Invalidf(udfgate.ShapeUnsupported, "tensor messages are not taken; wanted a schema or a record batch")
	default:
		return malformed("Message.header_type: wanted a schema or a record batch, got type %d", kind)
	}
}

// readBatch reads a RecordBatch table.
func readBatch(r *fbReader, t fbTable, m *Message) error {
	m.Rows = r.int64(t, 0, "RecordBatch.length")
	nodes := r.vector(t, 1, 16, 8, "RecordBatch.nodes")
	buffers := r.vector(t, 2, 16, 8, "RecordBatch.buffers")
	compression := r.child(t, 3, "RecordBatch.compression")
	variadic := r.vector(t, 4, 8, 8, "RecordBatch.variadicBufferCounts")
	codec, method := r.uint8(compression, 0, "BodyCompression.codec"), r.uint8(compression, 1, "BodyCompression.method")
	if !r.ok() {
		return r.err()
	}
	if m.Rows < 0 {
		return malformed("RecordBatch.length: wanted 0 or more rows, got %d", m.Rows)
	}
	if compression.pos != 0 {
		if codec > 1 || method != 0 {
			return malformed("BodyCompression: wanted codec 0 or 1 of method 0, got codec %d of method %d", codec, method)
		}
		m.Compression = CompressionLZ4 + Compression(codec)
	}
	if err := readVariadic(r.b[variadic.pos:], variadic.len, m); err != nil {
		return err
	}
	if err := readNodes(r.b[nodes.pos:], nodes.len, m); err != nil {
		return err
	}
	return readBuffers(r.b[buffers.pos:], buffers.len, m)
}

// nodeLengthMax bounds the values of any column: more bits than the longest
// message that HTTP/2 framing of gRPC lets through.
const nodeLengthMax = 1 << 35

// readNodes takes n nodes from the start of b.
func readNodes(b []byte, n int, m *Message) error {
	m.Nodes = slices.Grow(m.Nodes[:0], n)[:n]
	for i := range m.Nodes {
		length, nulls := int64(binary.LittleEndian.Uint64(b)), int64(binary.LittleEndian.Uint64(b[8:]))
		if length < 0 || length > nodeLengthMax {
			return malformed("RecordBatch.nodes[%d]: wanted a length of 0 to %d, got %d", i, int64(nodeLengthMax), length)
		}
		if nulls < -1 || nulls > length {
			return malformed("RecordBatch.nodes[%d]: wanted a null count of 0 to %d, got %d", i, length, nulls)
		}
		m.Nodes[i] = Node{Length: length, Nulls: nulls}
		b = b[16:]
	}
	return nil
}

// readVariadic takes n counts from the start of b. Each buffer is one of the
// header's, so there cannot be more of them.
func readVariadic(b []byte, n int, m *Message) error {
	m.Variadic = slices.Grow(m.Variadic[:0], n)[:n]
	for i := range m.Variadic {
		count := int64(binary.LittleEndian.Uint64(b[8*i:]))
		if count < 0 || count > HeaderBytesMax {
			return malformed("RecordBatch.variadicBufferCounts[%d]: wanted 0 to %d, got %d", i, HeaderBytesMax, count)
		}
		m.Variadic[i] = count
	}
	return nil
}

// readBuffers takes n buffers from the start of b.
func readBuffers(b []byte, n int, m *Message) error {
	bodyLen := uint64(m.BodyLen)
	m.Buffers = slices.Grow(m.Buffers[:0], n)[:n]
	for i := range m.Buffers {
		off, length := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
		// Negative numbers are huge ones here, and the subtraction cannot
		// wrap because the offset was found to be within the body before.
		if off > bodyLen || length > bodyLen-off || off&7 != 0 {
			return malformed("buffer %d: wanted a range of the body's %d bytes that starts at a multiple of 8, got %d bytes at %d",
				i, m.BodyLen, int64(length), int64(off))
		}
		m.Buffers[i] = Buffer{Offset: int64(off), Length: int64(length)}
		b = b[16:]
	}
	return nil
}

// readUsualBatch reads a good record batch header in the form that every
// writer has been seen to use, three times as fast as ReadMessage: it does not
// keep track of what it would say about a fault. It accepts nothing that
// ReadMessage refuses. False: m is in disorder, look again with care.
func readUsualBatch(b []byte, m *Message) bool {
	if len(b) < 8 || len(b) > HeaderBytesMax {
		return false
	}
	message := quickTable(b, 0)
	version, kind := message.at(b, 0, 2), message.at(b, 1, 1)
	header, bodyLen := message.at(b, 2, 4), message.at(b, 3, 8)
	if version <= 0 || kind <= 0 || header <= 0 || bodyLen <= 0 || message.at(b, 4, 4) != 0 {
		return false
	}
	batch := quickTable(b, header)
	length, nodes, buffers := batch.at(b, 0, 8), batch.at(b, 1, 4), batch.at(b, 2, 4)
	if length <= 0 || nodes <= 0 || buffers <= 0 || batch.at(b, 3, 4) != 0 || batch.at(b, 4, 4) != 0 {
		return false
	}
	v := binary.LittleEndian.Uint16(b[version:])
	m.BodyLen = int64(binary.LittleEndian.Uint64(b[bodyLen:]))
	m.Rows = int64(binary.LittleEndian.Uint64(b[length:]))
	if b[kind] != headerBatch || v != metadataV5 && v != metadataV4 || m.BodyLen < 0 || m.Rows < 0 {
		return false
	}
	m.Kind, m.Compression, m.Variadic = KindRecordBatch, CompressionNone, m.Variadic[:0]
	atNodes, n := quickVector(b, nodes)
	if n < 0 || readNodes(b[atNodes:], n, m) != nil {
		return false
	}
	atBuffers, n := quickVector(b, buffers)
	return n >= 0 && readBuffers(b[atBuffers:], n, m) == nil
}

// malformed is the error for a header that contradicts itself or Arrow.
func malformed(format string, args ...any) error {
	return udfgate.Invalidf(udfgate.ShapeMalformed, "malformed header: "+format, args...)
}
