package server

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/udfgate/udfgate/codec"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"
)

// bareStream is a stream without grpc: messages come from memory and answers
// go nowhere, so what is measured is this room alone.
type bareStream struct {
	ctx      context.Context
	codec    rawCodec
	messages []mem.BufferSlice // never freed
	next     int
	answered chan struct{} // nil: the client streams ahead
}

func (s *bareStream) SetHeader(metadata.MD) error  { return nil }
func (s *bareStream) SendHeader(metadata.MD) error { return nil }
func (s *bareStream) SetTrailer(metadata.MD)       {}
func (s *bareStream) Context() context.Context     { return s.ctx }

func (s *bareStream) SendMsg(m any) error {
	b, err := s.codec.Marshal(m)
	b.Free()
	if s.answered != nil {
		s.answered <- struct{}{}
	}
	return err
}

func (s *bareStream) RecvMsg(m any) error {
	if s.answered != nil && s.next > 0 {
		<-s.answered // lock-step: the next one is sent when the answer is there
	}
	if s.next == len(s.messages) {
		return io.EOF
	}
	s.next++
	return s.codec.Unmarshal(s.messages[s.next-1], m)
}

func bareServer(b *testing.B, billOff bool) *Server {
	b.Helper()
	store := codec.NewStore(codec.StoreConfig{})
	b.Cleanup(func() { _ = store.Close() })
	table, err := NewCatalog([]Served{{function("echo"), &backend{slots: store, bodies: map[string]body{"echo": echo}}}})
	if err != nil {
		b.Fatal(err)
	}
	table.SetReady(true)
	s, err := New(Config{Listen: []string{"127.0.0.1:0"}, HTTP: httpOff, BillOff: billOff}, table)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		s.running.Wait()
		s.crew.dismiss()
		s.unbind()
		s.grpc.Stop() // ends the goroutines that wait for calls
	})
	return s
}

// bareMessages are those of a call of n one-row batches.
func bareMessages(b *testing.B, n int) []mem.BufferSlice {
	b.Helper()
	var r recorder
	w := flight.NewRecordWriter(&r, ipc.WithSchema(intSchema))
	w.SetFlightDescriptor(path("echo"))
	for i := range n {
		batch := ints(int64(i))
		if err := w.Write(arrow.RecordBatch(batch)); err != nil {
			b.Fatal(err)
		}
	}
	var out []mem.BufferSlice
	for _, m := range r.messages {
		text, err := proto.Marshal(m)
		if err != nil {
			b.Fatal(err)
		}
		out = append(out, mem.BufferSlice{mem.SliceBuffer(text)})
	}
	return out
}

// BenchmarkCall is a call of one batch of one row without grpc and without a
// worker: what the gateway's own rooms add. Its floor is stream=none: the same
// messages through the same stream, with nobody in between.
func BenchmarkCall(b *testing.B) {
	peerCtx := peer.NewContext(context.Background(), &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4711}})
	ctx := metadata.NewIncomingContext(peerCtx, metadata.MD{
		":authority": {"127.0.0.1:8815"}, "content-type": {"application/grpc"}, "user-agent": {"grpc-c++/1.60"},
	})
	messages := bareMessages(b, 1)
	b.Run("stream=none", func(b *testing.B) {
		for b.Loop() {
			s := &bareStream{ctx: ctx, codec: newRawCodec(), messages: messages}
			var m rawMsg
			for s.RecvMsg(&m) == nil {
				m.free()
			}
			_ = s.SendMsg(&rawMsg{whole: messages[0][0]})
			_ = s.SendMsg(&rawMsg{whole: messages[1][0]})
		}
	})
	b.Run("stream=exchange", func(b *testing.B) {
		s := bareServer(b, false)
		b.ReportAllocs()
		for b.Loop() {
			if err := s.handle(nil, &bareStream{ctx: ctx, codec: newRawCodec(), messages: messages}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("stream=exchange,bill=off", func(b *testing.B) {
		s := bareServer(b, true)
		b.ReportAllocs()
		for b.Loop() {
			if err := s.handle(nil, &bareStream{ctx: ctx, codec: newRawCodec(), messages: messages}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("stream=exchange,per=batch", func(b *testing.B) {
		s := bareServer(b, false)
		b.ReportAllocs()
		many := bareMessages(b, b.N)
		b.ResetTimer()
		stream := &bareStream{ctx: ctx, codec: newRawCodec(), messages: many, answered: make(chan struct{}, 1)}
		if err := s.handle(nil, stream); err != nil {
			b.Fatal(err)
		}
	})
}
