package codec

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// noFile is the descriptor of a private mapping.
const noFile = -1

// mapping is the memory of an arena: the gateway's mapping of a sealed memory
// file, or of no file.
type mapping struct {
	bytes []byte
	fd    int
}

func newMapping(role Role, size int64, private bool) (mapping, error) {
	if private {
		return privateMapping(size)
	}
	return sharedMapping(role, size)
}

// privateMapping is zeroed memory of this process. It is mapped and not
// allocated so that untouched pages cost nothing and the rest goes back at once.
func privateMapping(size int64) (mapping, error) {
	bytes, err := unix.Mmap(noFile, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return mapping{}, fmt.Errorf("mmap: %w", err)
	}
	return mapping{bytes: bytes, fd: noFile}, nil
}

func (m *mapping) rights() []byte {
	if m.fd == noFile {
		return nil
	}
	return unix.UnixRights(m.fd)
}

func (m *mapping) close() error {
	var errs []error
	if m.bytes != nil {
		errs = append(errs, unix.Munmap(m.bytes))
		m.bytes = nil
	}
	if m.fd != noFile {
		errs = append(errs, unix.Close(m.fd))
	}
	return errors.Join(errs...)
}
