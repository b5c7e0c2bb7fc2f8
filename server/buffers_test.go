package server

import (
	"sync"
	"testing"
)

func TestBuffersKeepWithinTheirBound(t *testing.T) {
	var p buffers
	const size = 1 << bufferClassMax
	var taken []*[]byte
	for range 2 * bufferKeptBytesMax / size {
		taken = append(taken, p.Get(size-1))
	}
	for _, b := range taken {
		if len(*b) != size-1 {
			t.Fatalf("wanted %d bytes, got %d", size-1, len(*b))
		}
		p.Put(b)
	}
	if kept := p.kept.Load(); kept != bufferKeptBytesMax {
		t.Errorf("wanted %d bytes kept, got %d", bufferKeptBytesMax, kept)
	}
	again := p.Get(size)
	if again != taken[bufferKeptBytesMax/size-1] {
		t.Error("the buffer that came last is not the one used again")
	}
	large := p.Get(size + 1)
	p.Put(large)
	if kept := p.kept.Load(); kept != bufferKeptBytesMax-size {
		t.Errorf("a buffer over the largest class is kept: %d bytes", kept)
	}
}

// Two holders never have one buffer, whoever gives back when.
func TestBuffers_hammer(t *testing.T) {
	var p buffers
	var all sync.WaitGroup
	for who := range 8 {
		all.Go(func() {
			for i := range 2000 {
				b := p.Get(1 + i*37%5000)
				for j := range *b {
					(*b)[j] = byte(who)
				}
				for j := range *b {
					if (*b)[j] != byte(who) {
						t.Error("a buffer has two holders")
						return
					}
				}
				p.Put(b)
			}
		})
	}
	all.Wait()
}
