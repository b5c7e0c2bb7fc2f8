package server

import (
	"slices"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow/flight/gen/flight"
	"github.com/udfgate/udfgate/codec"
	"github.com/udfgate/udfgate/internal/clock"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// rawMsg is one message of DoExchange that never becomes a protobuf struct: a
// received one keeps grpc's buffers, one to send is a prefix and a body.
type rawMsg struct {
	// data is what was received; whoever has the message frees it.
	data mem.BufferSlice
	// came is when it came, if its stream has worked on it since; 0 is now.
	came int64
	// whole is what is sent, made before; or it is prefix, and the bytes of
	// body follow it. SendMsg takes over the body's reference, whether it
	// succeeds or not.
	whole  mem.Buffer
	prefix []byte
	body   *codec.Block
	out    *outgoing // is told what is sent of body, and of prefix if track is set
	track  bool
	sent   [2]mem.Buffer // room for what grpc gets
}

// outgoing is how far the answers of a stream have got.
type outgoing struct {
	unsent atomic.Int64 // bytes given to grpc that the connection has not taken
	taken  atomic.Int64 // when the connection last took some
}

// free gives received buffers back.
func (m *rawMsg) free() {
	m.data.Free()
	m.data = nil
}

// release gives up a body that was not sent.
func (m *rawMsg) release() {
	if m.body != nil {
		m.body.Release()
		m.body = nil
	}
}

// rawCodec is the one codec of the server: raw messages keep their buffers,
// everything else goes through grpc's own protobuf codec.
type rawCodec struct{ proto encoding.CodecV2 }

func newRawCodec() rawCodec { return rawCodec{encoding.GetCodecV2(proto.Name)} }

// Name is that of the protobuf codec: clients know no other.
func (c rawCodec) Name() string { return proto.Name }

// Unmarshal implements encoding.CodecV2. grpc frees d after the call, so a
// message that keeps it needs its own reference.
func (c rawCodec) Unmarshal(d mem.BufferSlice, v any) error {
	if m, ok := v.(*rawMsg); ok {
		d.Ref()
		m.data = d
		return nil
	}
	return c.proto.Unmarshal(d, v)
}

// Marshal implements encoding.CodecV2. grpc may read the slice until the last
// byte is on the connection, so a message is sent once.
func (c rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(*rawMsg)
	if !ok {
		return c.proto.Marshal(v)
	}
	out := mem.BufferSlice(m.sent[:1])
	switch {
	case m.whole != nil:
		out[0] = m.whole
	case m.track:
		out[0] = m.out.lend(slices.Grow(m.prefix, inlineBytesMax+1), nil)
	default:
		out[0] = mem.SliceBuffer(m.prefix)
	}
	if m.body == nil {
		return out, nil
	}
	for rest := m.body.Bytes(); len(rest) > 0; {
		n := len(rest)
		if n >= 2*loanBytesMax {
			n = loanBytesMax
			m.body.Retain() // each loan has a reference of its own
		}
		out = append(out, m.out.lend(rest[:n:n], m.body))
		rest = rest[n:]
	}
	m.body = nil
	return out, nil
}

const (
	// inlineBytesMax is the largest body that is copied behind its prefix. It
	// is not less than grpc's own threshold, under which NewBuffer never tells
	// its pool that the bytes were written.
	inlineBytesMax = 1 << 10
	// loanBytesMax is how much of a body is lent at a time: that the
	// connection gives a loan back is the only sign that a client reads a
	// large answer, however slowly.
	loanBytesMax = 1 << 20
)

// loan lends bytes to grpc, with a reference to their block if they have one.
// It is grpc's buffer pool for this one buffer: Put means that the last byte
// has been handed to the connection.
type loan struct {
	data  []byte
	block *codec.Block
	out   *outgoing
}

// lend makes a buffer of more than inlineBytesMax bytes of capacity: with less
// grpc would not call Put.
func (o *outgoing) lend(data []byte, block *codec.Block) mem.Buffer {
	o.unsent.Add(int64(len(data)))
	l := &loan{data: data, block: block, out: o}
	return mem.NewBuffer(&l.data, l)
}

// Get implements mem.BufferPool; grpc only ever returns to this one.
func (l *loan) Get(n int) *[]byte {
	b := make([]byte, n)
	return &b
}

// Put implements mem.BufferPool.
func (l *loan) Put(*[]byte) {
	l.out.taken.Store(clock.Now())
	l.out.unsent.Add(-int64(len(l.data)))
	if l.block != nil {
		l.block.Release()
	}
}

// register adds the Flight service with DoExchange handled raw.
func register(g *grpc.Server, service flight.FlightServiceServer, exchange grpc.StreamHandler) {
	desc := flight.FlightService_ServiceDesc
	desc.Streams = slices.Clone(desc.Streams)
	for i := range desc.Streams {
		if desc.Streams[i].StreamName == "DoExchange" {
			desc.Streams[i].Handler = exchange
		}
	}
	g.RegisterService(&desc, service)
}
