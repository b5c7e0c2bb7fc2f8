//go:build !linux

package codec

// mapping is plain memory here: without sealed memory files an arena cannot be
// handed to a process that is not trusted with it.
type mapping struct {
	bytes []byte
}

// newMapping relies on allocations of whole pages being page-aligned, which
// Go's allocator does for anything above 32 KiB.
func newMapping(_ Role, size int64) (mapping, error) {
	return mapping{bytes: make([]byte, size)}, nil
}

func (m *mapping) rights() []byte { return nil }

func (m *mapping) close() error {
	m.bytes = nil
	return nil
}
