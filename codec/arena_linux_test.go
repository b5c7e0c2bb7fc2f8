package codec

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSeals receives each kind of arena as a worker does and tries what a
// hostile worker would.
func TestSeals(t *testing.T) {
	for _, role := range []Role{Input, Output} {
		t.Run(role.String(), func(t *testing.T) {
			a, err := newArena(1, role, 1<<16, false)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = a.Close() })
			fd := handOver(t, a)

			writable := role == Output
			for _, try := range hostileWrites(fd, int(a.Size())) {
				err := try.do()
				if try.contents && writable {
					if err != nil {
						t.Errorf("%s: wanted success on an output arena, got %v", try.name, err)
					}
					continue
				}
				if err == nil {
					t.Errorf("%s: wanted an error", try.name)
				}
			}

			copy(a.Bytes(), "from the gateway")
			seen, err := unix.Mmap(fd, 0, int(a.Size()), unix.PROT_READ, unix.MAP_SHARED)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = unix.Munmap(seen) }()
			if !bytes.HasPrefix(seen, []byte("from the gateway")) {
				t.Errorf("the worker sees %q", seen[:16])
			}
			if role == Input {
				if err := unix.Mprotect(seen, unix.PROT_READ|unix.PROT_WRITE); err == nil {
					t.Error("mprotect made the mapping writable")
				}
			}
		})
	}
}

type hostileWrite struct {
	name     string
	contents bool // changes bytes only, which an output arena allows
	do       func() error
}

func hostileWrites(fd, size int) []hostileWrite {
	return []hostileWrite{
		{"mmap read-write", true, func() error {
			m, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			if err == nil {
				return unix.Munmap(m)
			}
			return err
		}},
		{"pwrite", true, func() error { _, err := unix.Pwrite(fd, []byte("x"), 0); return err }},
		{"pwrite through a new descriptor", true, func() error {
			f, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), os.O_RDWR, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt([]byte("x"), 0)
			return errors.Join(err, f.Close())
		}},
		{"punch a hole", true, func() error {
			return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 4096)
		}},
		{"shrink", false, func() error { return unix.Ftruncate(fd, 0) }},
		{"grow", false, func() error { return unix.Ftruncate(fd, int64(size)+4096) }},
		{"grow by writing", false, func() error { _, err := unix.Pwrite(fd, []byte("x"), int64(size)); return err }},
		{"grow by fallocate", false, func() error { return unix.Fallocate(fd, 0, 0, int64(size)+4096) }},
		{"add a seal", false, func() error {
			_, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE)
			return err
		}},
	}
}

// handOver sends an arena's descriptor over a socket pair and returns the
// receiver's copy of it.
func handOver(t *testing.T, a *Arena) int {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := unixConn(t, pair[0]), unixConn(t, pair[1])
	err = a.Share(func(rights []byte) error {
		_, _, err := ours.WriteMsgUnix([]byte("frame"), rights, nil)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	oob := make([]byte, 64)
	_, n, _, _, err := theirs.ReadMsgUnix(make([]byte, 16), oob)
	if err != nil {
		t.Fatal(err)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		t.Fatalf("got %d control messages, %v", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		t.Fatalf("got descriptors %v, %v", fds, err)
	}
	t.Cleanup(func() { _ = unix.Close(fds[0]) })
	return fds[0]
}

func unixConn(t *testing.T, fd int) *net.UnixConn {
	t.Helper()
	f := os.NewFile(uintptr(fd), "socket pair")
	c, err := net.FileConn(f)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c.(*net.UnixConn)
}

// Closing arenas must give descriptors and mappings back.
func TestArenasDoNotLeak(t *testing.T) {
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	s := NewStore(StoreConfig{ArenaBytes: 1 << 16})
	before := count()
	var slots []*Slot
	for range 20 {
		slots = append(slots, mustGet(t, s, 60_000))
	}
	for _, slot := range slots {
		slot.Release()
	}
	s.Trim(0)
	if got := count(); got != before+1 {
		t.Errorf("after trim: wanted %d descriptors, got %d", before+1, got)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if got := count(); got != before {
		t.Errorf("after close: wanted %d descriptors, got %d", before, got)
	}
}
