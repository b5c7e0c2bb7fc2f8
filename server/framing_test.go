package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/udfgate/udfgate"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// recorder keeps the FlightData messages that arrow-go's writer would send.
type recorder struct{ messages []*flight.FlightData }

func (r *recorder) Send(d *flight.FlightData) error {
	r.messages = append(r.messages, proto.CloneOf(d))
	return nil
}

// record returns the schema message and one message per batch, without descriptor.
func record(t *testing.T, schema *arrow.Schema, batches ...arrow.RecordBatch) []*flight.FlightData {
	t.Helper()
	var r recorder
	w := flight.NewRecordWriter(&r, ipc.WithSchema(schema))
	for _, b := range batches {
		if err := w.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return r.messages
}

func path(names ...string) *flight.FlightDescriptor {
	return &flight.FlightDescriptor{Type: flight.DescriptorPATH, Path: names}
}

func with(d *flight.FlightDescriptor, m *flight.FlightData) *flight.FlightData {
	m = proto.CloneOf(m)
	m.FlightDescriptor = d
	return m
}

// raw sends messages as they are and returns all answers and how the call ended.
func (g *gateway) raw(messages ...*flight.FlightData) ([]*flight.FlightData, metadata.MD, error) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), callMax)
	defer cancel()
	rpc, err := g.client.DoExchange(ctx)
	if err != nil {
		g.t.Fatal(err)
	}
	for _, m := range messages {
		if err := rpc.Send(m); err != nil && !errors.Is(err, io.EOF) {
			g.t.Fatal(err)
		}
	}
	if err := rpc.CloseSend(); err != nil {
		g.t.Fatal(err)
	}
	var answers []*flight.FlightData
	for {
		m, err := rpc.Recv()
		if err != nil {
			return answers, rpc.Trailer(), err
		}
		answers = append(answers, m)
	}
}

// values decodes answers: a schema, then batches of one int64 column.
func values(t *testing.T, answers []*flight.FlightData) [][]int64 {
	t.Helper()
	r, err := flight.NewRecordReader(&replay{answers})
	if err != nil {
		t.Fatal(err)
	}
	var out [][]int64
	for r.Next() {
		out = append(out, int64s(r.RecordBatch()))
	}
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
	return out
}

type replay struct{ messages []*flight.FlightData }

func (r *replay) Recv() (*flight.FlightData, error) {
	if len(r.messages) == 0 {
		return nil, io.EOF
	}
	m := r.messages[0]
	r.messages = r.messages[1:]
	return m, nil
}

func TestFramingsThatClientsUse(t *testing.T) {
	g := start(t, Config{}, map[string]body{"echo": echo})
	m := record(t, intSchema, ints(1, 2), ints(3))
	schema, one, two := m[0], m[1], m[2]
	alone := &flight.FlightData{FlightDescriptor: path("echo")}
	note := &flight.FlightData{AppMetadata: []byte("a note to nobody")}
	for name, messages := range map[string][]*flight.FlightData{
		"descriptor alone (pyarrow)":        {alone, schema, one, two},
		"descriptor with schema (arrow-rs)": {with(path("echo"), schema), one, two},
		"descriptor on every message":       {with(path("echo"), schema), with(path("echo"), one), with(path("echo"), two)},
		"canonical name":                    {with(path("geo.echo"), schema), one, two},
		"metadata alone in between":         {note, alone, note, schema, note, one, note, two, note},
		"empty messages":                    {{}, alone, {}, schema, {}, one, {}, two, {}},
		"the descriptor once more, alone":   {alone, schema, alone, one, two},
	} {
		t.Run(name, func(t *testing.T) {
			answers, trailer, err := g.raw(messages...)
			if !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			if got := values(t, answers); len(got) != 2 || !slices.Equal(got[0], []int64{1, 2}) || !slices.Equal(got[1], []int64{3}) {
				t.Errorf("answered %v", got)
			}
			if b := parseBill(t, trailer); b.Batches != 2 {
				t.Errorf("bill %s", b.JSON())
			}
		})
	}
}

func TestFramingsThatAreWrong(t *testing.T) {
	g := start(t, Config{}, map[string]body{"echo": echo, "other": echo})
	m := record(t, intSchema, ints(1))
	schema, batch := m[0], m[1]
	two := arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int64}, {Name: "b", Type: arrow.BinaryTypes.String}}, nil)
	begin := with(path("echo"), schema)
	for _, c := range []struct {
		name     string
		messages []*flight.FlightData
		code     string
		reason   udfgate.Reason
		text     string
		batch    int
	}{
		{"nothing at all", nil, "InvalidArgument", udfgate.Invalid, "no flight descriptor", -1},
		{"no descriptor", []*flight.FlightData{schema, batch}, "InvalidArgument", udfgate.Invalid, "no flight descriptor", -1},
		{
			"command",
			[]*flight.FlightData{with(&flight.FlightDescriptor{Type: flight.DescriptorCMD, Cmd: []byte("{}")}, schema)},
			"InvalidArgument", udfgate.Invalid, "wanted type PATH, got CMD", -1,
		},
		{
			"no type",
			[]*flight.FlightData{with(&flight.FlightDescriptor{Path: []string{"echo"}}, schema)},
			"InvalidArgument", udfgate.Invalid, "wanted type PATH (1), got 0", -1,
		},
		{"long path", []*flight.FlightData{with(path("geo", "echo"), schema)}, "InvalidArgument", udfgate.Invalid, "wanted a path of one element, the function's name, got 2", -1},
		{"no path", []*flight.FlightData{with(path(), schema)}, "InvalidArgument", udfgate.Invalid, "got 0 elements", -1},
		{"unknown", []*flight.FlightData{with(path("ecko"), schema)}, "NotFound", udfgate.NotFound, `"echo"`, -1},
		{"another descriptor", []*flight.FlightData{begin, with(path("other"), batch)}, "InvalidArgument", udfgate.Invalid, `wanted "echo" as in the first message, got "other"`, 0},
		{"batch first", []*flight.FlightData{with(path("echo"), batch)}, "InvalidArgument", udfgate.Invalid, "wanted a schema before the first record batch", -1},
		{"two schemas", []*flight.FlightData{begin, batch, schema}, "InvalidArgument", udfgate.Invalid, "second schema", 1},
		{"wrong columns", []*flight.FlightData{with(path("echo"), record(t, two)[0])}, "InvalidArgument", udfgate.Invalid, "echo: wanted 1 column (int64), got 2 (int64, utf8)", -1},
		{"body without header", []*flight.FlightData{begin, {DataBody: []byte("x")}}, "InvalidArgument", udfgate.Invalid, "no header", 0},
		{"header of garbage", []*flight.FlightData{begin, batch, {DataHeader: bytes.Repeat([]byte{0xff}, 64)}}, "InvalidArgument", udfgate.Invalid, "echo: malformed header", 1},
		{"body cut off", []*flight.FlightData{begin, {DataHeader: batch.DataHeader, DataBody: batch.DataBody[:4]}}, "InvalidArgument", udfgate.Invalid, "echo: ", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, trailer, err := g.raw(c.messages...)
			checkFailure(t, err, trailer, c.code, c.reason, c.text)
			if got := batchOf(trailer); got != c.batch {
				t.Errorf("batch %d, wanted %d", got, c.batch)
			}
		})
	}
}

// The answer to a schema comes before anything else is sent, and before the
// schema if the descriptor comes alone.
func TestSchemaIsAnsweredAtOnce(t *testing.T) {
	g := start(t, Config{}, map[string]body{"echo": echo})
	for _, firstMessage := range []*flight.FlightData{{FlightDescriptor: path("echo")}, with(path("echo"), record(t, intSchema)[0])} {
		ctx, cancel := context.WithTimeout(t.Context(), callMax)
		rpc, err := g.client.DoExchange(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := rpc.Send(firstMessage); err != nil {
			t.Fatal(err)
		}
		m, err := rpc.Recv()
		if err != nil || len(m.GetDataHeader()) == 0 {
			t.Errorf("got %v %v, wanted the schema", m, err)
		}
		cancel()
	}
}

// bytesCodec sends and receives messages as they are.
type bytesCodec struct{}

func (bytesCodec) Name() string { return "proto" }
func (bytesCodec) Marshal(v any) ([]byte, error) {
	b, _ := v.(*[]byte)
	return *b, nil
}

func (bytesCodec) Unmarshal(b []byte, v any) error {
	to, _ := v.(*[]byte)
	*to = bytes.Clone(b)
	return nil
}

// TestBytesThatAreNoMessage sends what no protobuf library would.
func TestBytesThatAreNoMessage(t *testing.T) {
	g := start(t, Config{}, map[string]body{"echo": echo})
	for _, message := range [][]byte{{0xff}, {0x0a, 0x05, 'x'}, {0x12, 0xff, 0xff, 0xff, 0xff, 0x0f}, bytes.Repeat([]byte{0x80}, 100)} {
		ctx, cancel := context.WithTimeout(t.Context(), callMax)
		s, err := g.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
			"/arrow.flight.protocol.FlightService/DoExchange", grpc.ForceCodec(bytesCodec{}))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.SendMsg(&message); err != nil {
			t.Fatal(err)
		}
		var answer []byte
		err = s.RecvMsg(&answer)
		checkFailure(t, err, s.Trailer(), "InvalidArgument", udfgate.Invalid, "FlightData")
		cancel()
	}
}

// TestOneByteFrames sends a call in DATA frames of one byte each: the pieces
// that a message arrives in are the sender's choice.
func TestOneByteFrames(t *testing.T) {
	g := start(t, Config{}, map[string]body{"echo": echo})
	conn, err := net.Dial("tcp", g.Addrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(callMax))
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	f := http2.NewFramer(conn, conn)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, h := range [][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", "/arrow.flight.protocol.FlightService/DoExchange"},
		{":authority", "test"},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
	} {
		_ = encoder.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
	}
	var wire bytes.Buffer
	m := record(t, intSchema, ints(1, 2, 3), big(2000))
	for _, d := range []*flight.FlightData{with(path("echo"), m[0]), m[1], m[2]} {
		text, err := proto.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		_ = wire.WriteByte(0)
		_ = binary.Write(&wire, binary.BigEndian, uint32(len(text)))
		_, _ = wire.Write(text)
	}
	err = errors.Join(f.WriteSettings(), f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true}))
	for i, b := range wire.Bytes() {
		err = errors.Join(err, f.WriteData(1, i == wire.Len()-1, []byte{b}))
	}
	if err != nil {
		t.Fatal(err)
	}
	answers, trailer := readAnswers(t, f)
	got := values(t, answers)
	if len(got) != 2 || !slices.Equal(got[0], []int64{1, 2, 3}) || len(got[1]) != 250 {
		t.Errorf("answered %v with %v", got, trailer)
	}
	if trailer["grpc-status"] != "0" || !strings.Contains(trailer["udfgate-bill"], `"batches":2`) {
		t.Errorf("trailer %v", trailer)
	}
}

// readAnswers reads frames until the trailers.
func readAnswers(t *testing.T, f *http2.Framer) ([]*flight.FlightData, map[string]string) {
	t.Helper()
	var data []byte
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch frame := frame.(type) {
		case *http2.DataFrame:
			data = append(data, frame.Data()...)
		case *http2.GoAwayFrame, *http2.RSTStreamFrame:
			t.Fatal(fmt.Sprint(frame))
		case *http2.MetaHeadersFrame:
			if !frame.StreamEnded() {
				continue
			}
			trailer := map[string]string{}
			for _, h := range frame.Fields {
				trailer[h.Name] = h.Value
			}
			var answers []*flight.FlightData
			for len(data) > 0 {
				n := binary.BigEndian.Uint32(data[1:])
				var d flight.FlightData
				if err := proto.Unmarshal(data[5:5+n], &d); err != nil {
					t.Fatal(err)
				}
				answers, data = append(answers, &d), data[5+n:]
			}
			return answers, trailer
		}
	}
}
