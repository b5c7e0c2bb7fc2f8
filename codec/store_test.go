package codec

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/udfgate/udfgate"
)

func mustGet(t testing.TB, s *Store, n int64) *Slot {
	t.Helper()
	slot, err := s.Get(n)
	if err != nil {
		t.Fatal(err)
	}
	return slot
}

func newStore(t testing.TB, c StoreConfig) *Store {
	s := NewStore(c)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestSlotShape(t *testing.T) {
	s := newStore(t, StoreConfig{})
	if s.Arenas() != nil {
		t.Error("a new store has an arena")
	}
	for _, n := range []int64{0, 1, 32, 33, 63, 64, 4096, 5 << 20} {
		slot := mustGet(t, s, n)
		if int64(len(slot.Bytes())) != n || int64(cap(slot.Bytes())) != n {
			t.Errorf("n=%d: got %d bytes of capacity %d", n, len(slot.Bytes()), cap(slot.Bytes()))
		}
		if int64(len(slot.Room())) < n+Slack {
			t.Errorf("n=%d: wanted %d bytes of slack, got %d", n, Slack, int64(len(slot.Room()))-n)
		}
		if slot.Offset()%slotAlign != 0 {
			t.Errorf("n=%d: offset %d is not a multiple of %d", n, slot.Offset(), slotAlign)
		}
	}
	arenas := s.Arenas()
	if len(arenas) != 2 || arenas[0].ID() != 1 || arenas[1].ID() != 2 || arenas[1].Size() < 5<<20 {
		t.Errorf("wanted a first arena and one for the large slot, got %d", len(arenas))
	}
	if _, err := s.Get(-1); err == nil {
		t.Error("a slot of -1 bytes")
	}
	if _, err := s.Get(1 << 62); err == nil {
		t.Error("a slot of 2^62 bytes")
	}
}

// Low addresses are used again first: their pages are warm.
func TestFirstFit(t *testing.T) {
	s := newStore(t, StoreConfig{ArenaBytes: 1 << 16})
	a, b, c := mustGet(t, s, 1000), mustGet(t, s, 1000), mustGet(t, s, 1000)
	at := []int64{a.Offset(), b.Offset(), c.Offset()}
	b.Release()
	a.Release()
	if d := mustGet(t, s, 2144); d.Offset() != at[0] {
		t.Errorf("two neighbours were not joined: wanted offset %d, got %d", at[0], d.Offset())
	}
	c.Release()
	if e := mustGet(t, s, 1000); e.Offset() != at[2] {
		t.Errorf("wanted offset %d, got %d", at[2], e.Offset())
	}
}

func TestSlotReferences(t *testing.T) {
	s := newStore(t, StoreConfig{})
	slot := mustGet(t, s, 10)
	slot.Retain()
	slot.Release()
	if got := s.Stats(); got.Slots != 1 || got.UsedBytes != 64 {
		t.Errorf("wanted one slot of 64 bytes, got %+v", got)
	}
	slot.Release()
	if got := s.Stats(); got.Slots != 0 || got.UsedBytes != 0 {
		t.Errorf("wanted none, got %+v", got)
	}
	mustPanic(t, "second release", slot.Release)
	other := mustGet(t, s, 10)
	other.Release()
	mustPanic(t, "retain after release", other.Retain)
}

func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: wanted a panic", what)
		}
	}()
	f()
}

func TestLimit(t *testing.T) {
	s := newStore(t, StoreConfig{ArenaBytes: 1 << 16, LimitBytes: 1 << 18, LimitName: "--max-inflight-bytes"})
	var slots []*Slot
	for {
		slot, err := s.Get(60_000)
		if err != nil {
			checkFull(t, err, true)
			break
		}
		slots = append(slots, slot)
	}
	if len(slots) != 4 {
		t.Fatalf("wanted 4 slots within the limit, got %d", len(slots))
	}
	epoch := s.Epoch()
	for _, slot := range slots {
		slot.Release()
	}
	// Empty arenas make way for a slot that needs nearly all of the limit.
	slot := mustGet(t, s, 250_000)
	if s.Epoch() == epoch || len(s.Arenas()) != 1 || slot.Arena() != 5 {
		t.Errorf("wanted one new arena 5, got %d arenas, slot in %d", len(s.Arenas()), slot.Arena())
	}
	slot.Release()
	_, err := s.Get(1 << 19)
	checkFull(t, err, false)
}

func checkFull(t *testing.T, err error, retryable bool) {
	t.Helper()
	e := udfgate.AsError(err)
	if e.Reason != udfgate.QueueFull || e.Retryable != retryable || !strings.Contains(e.Message, "(--max-inflight-bytes)") {
		t.Errorf("wanted QueueFull naming the limit, retryable %v, got %v: %v, %v", retryable, e.Reason, e, e.Retryable)
	}
}

func TestFreed(t *testing.T) {
	s := newStore(t, StoreConfig{})
	one, two := mustGet(t, s, 100), mustGet(t, s, 100)
	first, again := s.Freed(), s.Freed()
	select {
	case <-first:
		t.Error("wanted nothing freed yet")
	default:
	}
	one.Release()
	<-first
	<-again
	second := s.Freed()
	two.Release()
	<-second
}

func TestSmallLimit(t *testing.T) {
	s := newStore(t, StoreConfig{LimitBytes: 2 * pageBytes, LimitName: "x"})
	slot := mustGet(t, s, 100)
	if got := s.Stats().ArenaBytes; got != 2*pageBytes {
		t.Errorf("wanted an arena of the limit's %d bytes, got %d", 2*pageBytes, got)
	}
	slot.Release()
}

func TestTrim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, StoreConfig{ArenaBytes: 1 << 16})
		slots := []*Slot{mustGet(t, s, 60_000), mustGet(t, s, 60_000), mustGet(t, s, 60_000)}
		slots[0].Release()
		slots[1].Release()
		time.Sleep(time.Minute)
		slots[2].Release()
		s.Trim(time.Minute)
		if got := ids(s); len(got) != 2 || got[0] != 1 || got[1] != 3 {
			t.Errorf("after a minute: wanted arenas 1 and 3, got %v", got)
		}
		time.Sleep(time.Minute)
		epoch := s.Epoch()
		s.Trim(time.Minute)
		if got := ids(s); len(got) != 1 || got[0] != 1 || s.Epoch() == epoch {
			t.Errorf("after two: wanted arena 1 and another epoch, got %v", got)
		}
		mustGet(t, s, 60_000)
		mustGet(t, s, 60_000)
		if got := ids(s); len(got) != 2 || got[1] != 4 {
			t.Errorf("wanted a new arena 4, got %v", got)
		}
	})
}

func ids(s *Store) (ids []uint32) {
	for _, a := range s.Arenas() {
		ids = append(ids, a.ID())
	}
	return ids
}

func TestStoreClose(t *testing.T) {
	s := NewStore(StoreConfig{})
	slot := mustGet(t, s, 100)
	a := s.Arenas()[0]
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	copy(slot.Bytes(), "a worker may still read this")
	if _, err := s.Get(1); err == nil {
		t.Error("a closed store gave a slot")
	}
	slot.Release()
	if a.Bytes() != nil {
		t.Error("the arena outlived its last slot")
	}
}

// Many goroutines take, fill, check and release slots: no two slots overlap,
// no byte changes in a held slot, and all is free at the end.
func TestStore_hammer(t *testing.T) {
	s := newStore(t, StoreConfig{ArenaBytes: 1 << 16, LimitBytes: 1 << 20, LimitName: "limit"})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(g)))
			var held []*Slot
			for i := range 400 {
				slot, err := s.Get(random.Int64N(20_000))
				if e := (*udfgate.Error)(nil); errors.As(err, &e) && e.Reason == udfgate.QueueFull {
					for _, h := range held {
						h.Release()
					}
					held = held[:0]
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				fill := byte(g)
				for j := range slot.Bytes() {
					slot.Bytes()[j] = fill
				}
				held = append(held, slot)
				if k := random.IntN(len(held)); i%2 == 0 {
					if b := held[k].Bytes(); !bytes.Equal(b, bytes.Repeat([]byte{fill}, len(b))) {
						t.Error("a held slot has changed")
						return
					}
					held[k].Release()
					held = append(held[:k], held[k+1:]...)
				}
				if i%100 == 0 {
					s.Trim(0)
				}
			}
			for _, h := range held {
				h.Release()
			}
		})
	}
	wg.Wait()
	if got := s.Stats(); got.Slots != 0 || got.UsedBytes != 0 {
		t.Errorf("wanted nothing in use, got %+v", got)
	}
	for _, a := range s.Arenas() {
		if !a.empty() || len(a.free.spans) != 1 {
			t.Errorf("arena %d: wanted one free span, got %v", a.ID(), a.free.spans)
		}
	}
}

// The free list against a plain map of bytes.
func TestFreeListModel(t *testing.T) {
	const size, unit = 64 * slotAlign, slotAlign
	random := rand.New(rand.NewPCG(2, 2))
	f := newFreeList(size)
	var used [size / unit]bool
	type taken struct{ off, n int64 }
	var held []taken
	for range 20_000 {
		if n := (1 + random.Int64N(8)) * unit; random.IntN(2) == 0 {
			off, ok := f.take(n)
			want := firstFit(used[:], int(n/unit))
			if ok != (want >= 0) || ok && off != int64(want)*unit {
				t.Fatalf("take(%d): got %d, %v, wanted unit %d; spans %v", n, off, ok, want, f.spans)
			}
			if ok {
				setUsed(used[:], off/unit, n/unit, true)
				held = append(held, taken{off, n})
			}
			continue
		}
		if len(held) == 0 {
			continue
		}
		i := random.IntN(len(held))
		f.put(held[i].off, held[i].n)
		setUsed(used[:], held[i].off/unit, held[i].n/unit, false)
		held = append(held[:i], held[i+1:]...)
	}
}

func firstFit(used []bool, n int) int {
	run := 0
	for i, u := range used {
		if run++; u {
			run = 0
		}
		if run == n {
			return i - n + 1
		}
	}
	return -1
}

func setUsed(used []bool, at, n int64, to bool) {
	for i := at; i < at+n; i++ {
		used[i] = to
	}
}

func BenchmarkSlot(b *testing.B) {
	s := newStore(b, StoreConfig{})
	b.Run("get-release", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			slot, err := s.Get(1 << 20)
			if err != nil {
				b.Fatal(err)
			}
			slot.Release()
		}
	})
	b.Run("floor=mutex", func(b *testing.B) {
		var mu sync.Mutex
		n := 0
		for b.Loop() {
			mu.Lock()
			n++
			mu.Unlock()
			mu.Lock()
			n--
			mu.Unlock()
		}
	})
}
