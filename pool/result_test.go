package pool

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/udfgate/udfgate/codec"
)

func goodResult() *goResult {
	return &goResult{
		recv: 100, send: 200, decode: 1, body: 2, encode: 3, arena: 1 << 31, base: 64, used: 128,
		segments: []goResultSegment{
			{
				rows: 3, goResultColumn: goResultColumn{form: 3, nulls: 1, buffers: [][2]uint64{{0, 3}, {8, 24}}},
				failed: &goResultColumn{form: 1, nulls: 2, buffers: [][2]uint64{{32, 1}, {40, 16}, {56, 6}}},
			},
			{status: 1, errors: []goRowError{{7, goRaise{1, "ValueError", "text", "trace"}}, {0, goRaise{3, "", "", ""}}}},
			{status: 2},
		},
	}
}

func TestDecodeResult(t *testing.T) {
	var r result
	for range 2 { // into fresh slices, then into used ones
		if err := r.decodeFrom(goodResult().bytes()); err != nil {
			t.Fatal(err)
		}
		if r.recv != 100 || r.send != 200 || r.decode != 1 || r.body != 2 || r.encode != 3 || r.peak != 1<<20 ||
			r.outArena != 1<<31 || r.outBase != 64 || r.outUsed != 128 || len(r.segments) != 3 {
			t.Errorf("got %+v", r)
		}
		s := r.segments[0]
		if s.rows != 3 || s.column.Form != codec.FormFlat || s.column.Nulls != 1 || len(s.column.Buffers) != 2 ||
			s.column.Buffers[1] != (codec.Buffer{Offset: 8, Length: 24}) || len(s.errors) != 0 {
			t.Errorf("segment 0: got %+v", s)
		}
		if f := s.second; s.columns != 2 || f.Form != codec.FormArrow || f.Nulls != 2 || len(f.Buffers) != 3 || f.Buffers[2] != (codec.Buffer{Offset: 56, Length: 6}) {
			t.Errorf("segment 0: got errors %+v", s)
		}
		e := r.segments[1].errors
		if len(e) != 2 || e[0].row != 7 || string(e[0].class)+string(e[0].text)+string(e[0].trace) != "ValueErrortexttrace" || e[1].kind != 3 {
			t.Errorf("segment 1: got %+v", e)
		}
	}
	frame := goodResult().bytes()
	if n := testing.AllocsPerRun(100, func() {
		if err := r.decodeFrom(frame); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("want no allocation, got %v", n)
	}
}

func TestDecodeResult_everyPrefixIsRefused(t *testing.T) {
	whole := goodResult().bytes()
	for n := range whole {
		var r result
		if err := r.decodeFrom(whole[:n]); err == nil || !strings.HasPrefix(err.Error(), "broke the protocol: ") {
			t.Errorf("%d of %d bytes: got %v", n, len(whole), err)
		}
	}
}

// FuzzDecodeResult: no payload makes the decoder panic, or take more memory
// than the payload stands for; what it accepts, and writes again, is the same.
func FuzzDecodeResult(f *testing.F) {
	f.Add(goodResult().bytes())
	f.Add([]byte{})
	empty := goodResult()
	empty.segments = nil
	f.Add(empty.bytes())
	bad := goodResult()
	bad.segments[0].buffers[0] = [2]uint64{120, 1 << 63}
	f.Add(bad.bytes())
	one := goodResult()
	one.segments[0].failed = nil
	f.Add(one.bytes())
	part := goodResult()
	part.more, part.segments = true, part.segments[:1]
	part.segments[0].index = &goResultColumn{form: 1, buffers: [][2]uint64{{0, 0}, {64, 12}}}
	f.Add(part.bytes())
	f.Fuzz(func(t *testing.T, payload []byte) {
		var r result
		if r.decodeFrom(payload) != nil {
			return
		}
		if len(r.segments)*resultSegmentBytes > len(payload) {
			t.Fatalf("%d segments from %d bytes", len(r.segments), len(payload))
		}
		again := payloadOf(&r)
		var second result
		if err := second.decodeFrom(again); err != nil {
			t.Fatalf("what was accepted is refused: %v", err)
		}
		if !bytes.Equal(again, payloadOf(&second)) {
			t.Fatal("written twice, read differently")
		}
		if len(again) != len(payload) {
			t.Fatalf("read %d bytes, wrote %d", len(payload), len(again))
		}
		for i := range r.segments {
			for _, b := range slices.Concat(r.segments[i].column.Buffers, r.segments[i].second.Buffers, r.segments[i].third.Buffers) {
				if b.Offset < 0 || b.Length < 0 || b.Offset+b.Length > r.outUsed {
					t.Fatalf("buffer %+v outside %d bytes", b, r.outUsed)
				}
			}
		}
	})
}

// payloadOf writes a decoded result with the test worker's own encoder.
func payloadOf(r *result) []byte {
	out := &goResult{
		recv: uint64(r.recv), send: uint64(r.send), decode: uint64(r.decode), body: uint64(r.body), encode: uint64(r.encode),
		arena: r.outArena, base: uint64(r.outBase), used: uint64(r.outUsed), more: r.more,
	}
	for i := range r.segments {
		s := &r.segments[i]
		g := goResultSegment{status: s.status, rows: uint64(s.rows), goResultColumn: columnOf(&s.column)}
		if s.columns > 1 {
			second := columnOf(&s.second)
			g.index = &second
		}
		if s.columns > 2 {
			third := columnOf(&s.third)
			g.failed = &third
		}
		for _, e := range s.errors {
			g.errors = append(g.errors, goRowError{uint64(e.row), goRaise{e.kind, string(e.class), string(e.text), string(e.trace)}})
		}
		out.segments = append(out.segments, g)
	}
	return out.bytes()
}

func columnOf(c *codec.ResultColumn) goResultColumn {
	out := goResultColumn{form: c.Form, nulls: uint64(c.Nulls)}
	for _, b := range c.Buffers {
		out.buffers = append(out.buffers, [2]uint64{uint64(b.Offset), uint64(b.Length)})
	}
	return out
}

func TestCall_isBuiltWithoutAllocation(t *testing.T) {
	if raceDetector {
		t.Skip("sync.Pool drops some of what it is given under the race detector")
	}
	h := newHarness(t, "")
	in, err := batchOf(h.Slots(), []int64{1, 2}, []int64{3, 4})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Release()
	call := h.newCall("add")
	buf := make([]byte, 0, linkBytes)
	if n := testing.AllocsPerRun(100, func() {
		c, err := h.newChunk(call, in)
		if err != nil {
			t.Fatal(err)
		}
		buf = c.appendCall(buf[:0], 1, 0, outRange{})
		c.release()
	}); n != 0 {
		t.Errorf("want no allocation, got %v", n)
	}
	if want := headerBytes + 48 + 48 + 2*(16+2*16); len(buf) != want {
		t.Errorf("want a CALL of %d bytes, got %d", want, len(buf))
	}
}
