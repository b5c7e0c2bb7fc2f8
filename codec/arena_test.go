package codec

import (
	"bytes"
	"errors"
	"testing"
)

func TestOutputArena(t *testing.T) {
	for _, c := range []struct {
		make    func(uint32, int64) (*Arena, error)
		private bool
	}{{NewOutput, !SharedArenas}, {NewPrivateOutput, true}} {
		a, err := c.make(7, 100)
		if err != nil {
			t.Fatal(err)
		}
		checkOutput(t, a, c.private)
	}
}

func checkOutput(t *testing.T, a *Arena, private bool) {
	t.Helper()
	if a.Private() != private || (a.Rights() == nil) != private {
		t.Errorf("wanted private %v, got %v and %d bytes of rights", private, a.Private(), len(a.Rights()))
	}
	if a.ID() != 7 || a.Role != Output || a.Size() < 100 || a.Size()%pageBytes != 0 || int64(len(a.Bytes())) != a.Size() {
		t.Errorf("got ID %d, role %s, size %d, %d bytes", a.ID(), a.Role, a.Size(), len(a.Bytes()))
	}
	a.Bytes()[0] = 1 // writable
	for range 2 {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A private store serves slots as a shared one does, in zeroed memory that
// cannot be handed over.
func TestPrivateStore(t *testing.T) {
	s := newStore(t, StoreConfig{ArenaBytes: 1 << 16, Private: true})
	slots := []*Slot{mustGet(t, s, 60_000), mustGet(t, s, 60_000)}
	for _, a := range s.Arenas() {
		if !a.Private() || a.Rights() != nil {
			t.Errorf("arena %d: wanted a private one without rights", a.ID())
		}
		if at := bytes.IndexFunc(a.Bytes(), func(r rune) bool { return r != 0 }); at >= 0 {
			t.Errorf("arena %d: wanted zeros, got byte %d at %d", a.ID(), a.Bytes()[at], at)
		}
	}
	for _, slot := range slots {
		copy(slot.Room(), "written")
		slot.Release()
	}
	s.Trim(0)
	if got := len(s.Arenas()); got != 1 {
		t.Errorf("wanted one arena left, got %d", got)
	}
}

// A descriptor that is being sent must not be closed and its number given to
// another file: the worker would receive that file.
func TestShareKeepsArenaOpen(t *testing.T) {
	a, err := NewOutput(1, 1)
	if err != nil {
		t.Fatal(err)
	}
	err = a.Share(func([]byte) error {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		a.Bytes()[0] = 1 // still mapped
		if err := a.Share(func([]byte) error { return nil }); !errors.Is(err, ErrArenaClosed) {
			t.Errorf("share of a closed arena: wanted %v, got %v", ErrArenaClosed, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if a.Bytes() != nil {
		t.Error("the memory outlived the last share")
	}
}

func TestRoleString(t *testing.T) {
	for role, want := range map[Role]string{Input: "input", Output: "output", 9: "role(9)"} {
		if got := role.String(); got != want {
			t.Errorf("wanted %q, got %q", want, got)
		}
	}
}
