package codec

import (
	"errors"
	"testing"
)

func TestOutputArena(t *testing.T) {
	a, err := NewOutput(7, 100)
	if err != nil {
		t.Fatal(err)
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
