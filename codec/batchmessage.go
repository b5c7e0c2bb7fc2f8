package codec

import "encoding/binary"

// A RecordBatch message of a given column count differs from others in its
// numbers alone, so it is written at fixed places, as a flatbuffer builder
// would leave them, instead of being built. All positions count from the start.
const (
	batchRootAt     = 0  // u32: position of the Message table
	messageVTableAt = 4  // u16 size, u16 table size, then a u16 per field
	messageTableAt  = 16 // i32 to the vtable
	messageHeaderAt = 20 // u32 to the RecordBatch table
	messageBodyAt   = 24 // i64 bodyLength
	messageVersion  = 32 // i16
	messageTypeAt   = 34 // u8
	batchVTableAt   = 36
	batchTableAt    = 48 // i32 to the vtable
	batchNodesAt    = 52 // u32 to the vector of nodes
	batchLengthAt   = 56 // i64 rows
	batchBuffersAt  = 64 // u32 to the vector of buffers
	nodeVectorAt    = 68 // u32 count; its elements begin at a multiple of 8
)

// batchStart is everything before the nodes that does not depend on the batch.
var batchStart = func() (b [nodeVectorAt + 4]byte) {
	le := binary.LittleEndian
	le.PutUint32(b[batchRootAt:], messageTableAt)
	for i, v := range []uint16{
		12, 20, messageVersion - messageTableAt, messageTypeAt - messageTableAt,
		messageHeaderAt - messageTableAt, messageBodyAt - messageTableAt,
	} {
		le.PutUint16(b[messageVTableAt+2*i:], v)
	}
	le.PutUint32(b[messageTableAt:], messageTableAt-messageVTableAt)
	le.PutUint32(b[messageHeaderAt:], batchTableAt-messageHeaderAt)
	le.PutUint16(b[messageVersion:], metadataV5)
	b[messageTypeAt] = headerBatch
	for i, v := range []uint16{
		10, 20, batchLengthAt - batchTableAt, batchNodesAt - batchTableAt,
		batchBuffersAt - batchTableAt,
	} {
		le.PutUint16(b[batchVTableAt+2*i:], v)
	}
	le.PutUint32(b[batchTableAt:], batchTableAt-batchVTableAt)
	le.PutUint32(b[batchNodesAt:], nodeVectorAt-batchNodesAt)
	return b
}()

// AppendBatchMessage appends the RecordBatch message of an answer: a bare
// flatbuffer, a multiple of 8 long, for FlightData.data_header. The body that
// belongs to it is a.Body.Bytes(), whole.
func AppendBatchMessage(dst []byte, a *Answer) []byte {
	le := binary.LittleEndian
	nodes, buffers := len(a.Nodes), len(a.Buffers)
	at := len(dst)
	dst = append(dst, batchStart[:]...)
	le.PutUint64(dst[at+messageBodyAt:], uint64(len(a.Body.Bytes())))
	le.PutUint64(dst[at+batchLengthAt:], uint64(a.Rows))
	le.PutUint32(dst[at+nodeVectorAt:], uint32(nodes))
	for _, n := range a.Nodes {
		dst = le.AppendUint64(dst, uint64(n.Length))
		dst = le.AppendUint64(dst, uint64(n.Nulls))
	}
	bufferVector := len(dst) - at + 4 // after padding, so that the elements are aligned
	le.PutUint32(dst[at+batchBuffersAt:], uint32(bufferVector-batchBuffersAt))
	dst = le.AppendUint64(dst, uint64(buffers)<<32) // 4 bytes of padding, then the count
	for _, b := range a.Buffers {
		dst = le.AppendUint64(dst, uint64(b.Offset))
		dst = le.AppendUint64(dst, uint64(b.Length))
	}
	return dst
}
