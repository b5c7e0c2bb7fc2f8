package codec

import "slices"

// span is a free range of an arena.
type span struct{ off, len int64 }

// freeList holds the free spans of one arena in ascending order, no two of
// them adjacent. It is as long as there are gaps between slots in flight,
// which is a handful, so it is searched from the front: low addresses are
// used again first, and their pages are warm in every worker.
type freeList struct {
	spans []span
	bytes int64 // of all spans
	// widest is at least the length of the longest span; it lets a full arena
	// be passed over without a search.
	widest int64
}

func newFreeList(size int64) freeList {
	return freeList{spans: []span{{0, size}}, bytes: size, widest: size}
}

// take cuts size bytes off the first span that has them.
func (f *freeList) take(size int64) (off int64, ok bool) {
	if size > f.widest {
		return 0, false
	}
	var widest int64
	for i := range f.spans {
		s := &f.spans[i]
		if s.len < size {
			widest = max(widest, s.len)
			continue
		}
		off = s.off
		s.off += size
		s.len -= size
		if s.len == 0 {
			f.spans = slices.Delete(f.spans, i, i+1)
		}
		f.bytes -= size
		return off, true
	}
	f.widest = widest
	return 0, false
}

// put gives a range back and joins it with its neighbours.
func (f *freeList) put(off, size int64) {
	f.bytes += size
	i := 0
	for i < len(f.spans) && f.spans[i].off < off {
		i++
	}
	before := i > 0 && f.spans[i-1].off+f.spans[i-1].len == off
	after := i < len(f.spans) && off+size == f.spans[i].off
	switch {
	case before && after:
		f.spans[i-1].len += size + f.spans[i].len
		f.spans = slices.Delete(f.spans, i, i+1)
		i--
	case before:
		f.spans[i-1].len += size
		i--
	case after:
		f.spans[i].off = off
		f.spans[i].len += size
	default:
		f.spans = slices.Insert(f.spans, i, span{off, size})
	}
	f.widest = max(f.widest, f.spans[i].len)
}
