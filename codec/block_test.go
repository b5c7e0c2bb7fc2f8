package codec

import (
	"bytes"
	"testing"
)

func TestBlock(t *testing.T) {
	for _, n := range []int{0, 1, 223, 224, 225, 1 << 16, 1<<26 - Slack, 1 << 26} {
		b := NewBlock(n)
		if len(b.Bytes()) != n || cap(b.Bytes()) != n || len(b.Room()) < n+Slack {
			t.Errorf("n=%d: got %d bytes of capacity %d, room %d", n, len(b.Bytes()), cap(b.Bytes()), len(b.Room()))
		}
		b.Release()
	}
}

func TestBlockResize(t *testing.T) {
	b := NewBlock(4)
	copy(b.Bytes(), "abcd")
	b.Resize(1 << 12)
	if !bytes.HasPrefix(b.Bytes(), []byte("abcd")) || len(b.Bytes()) != 1<<12 {
		t.Errorf("growing: got %d bytes, %q", len(b.Bytes()), b.Bytes()[:4])
	}
	b.Resize(2)
	if string(b.Bytes()) != "ab" {
		t.Errorf("shrinking: got %q", b.Bytes())
	}
	b.Retain()
	b.Release()
	b.Release()
	mustPanic(t, "second release", b.Release)
}

// A released block's memory is used again, and never while someone holds it.
func TestBlockReuse(t *testing.T) {
	a := NewBlock(100)
	a.Bytes()[0] = 1
	b := NewBlock(100)
	b.Bytes()[0] = 2
	if a.Bytes()[0] != 1 {
		t.Error("two held blocks share memory")
	}
	a.Release()
	b.Release()
	if n := testing.AllocsPerRun(100, func() { NewBlock(1 << 20).Release() }); n > 1 {
		t.Errorf("wanted the handle alone to be allocated, got %.0f allocations", n)
	}
}

func BenchmarkBlock(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		NewBlock(1 << 16).Release()
	}
}
