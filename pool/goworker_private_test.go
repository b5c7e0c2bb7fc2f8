package pool

import (
	"fmt"
	"syscall"
)

// What the Go worker does with private arenas: docs/worker-protocol.md.

// goDataBytes is an odd size, so that frames end anywhere.
const goDataBytes = 100_003

func (w *goWorker) privateArena(id, role uint32, size uint64) error {
	bytes, err := syscall.Mmap(-1, 0, int(size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		return fmt.Errorf("make arena %d: %w", id, err)
	}
	w.arenas[id] = goArena{bytes: bytes, out: role == 2, private: true}
	return nil
}

// data writes the bytes of a DATA frame into an input arena.
func (w *goWorker) data(f goFrame) error {
	id, offset := le.Uint32(f.payload), le.Uint64(f.payload[8:])
	a, ok := w.arenas[id]
	b := f.payload[16:]
	if !ok || a.out || !a.private || offset > uint64(len(a.bytes)) || uint64(len(b)) > uint64(len(a.bytes))-offset {
		return fmt.Errorf("DATA of %d bytes at %d of arena %d", len(b), offset, id)
	}
	copy(a.bytes[offset:], b)
	return nil
}

// sendData sends the bytes that an answer uses; what a lying RESULT claims
// beyond the arena is not there to be sent.
func (w *goWorker) sendData(c *goCall, r *goResult) error {
	a := w.arenas[r.arena]
	if !a.private || !a.out {
		return nil
	}
	end := min(r.base+r.used, uint64(len(a.bytes)))
	for at := r.base; at < end; {
		n := min(end-at, goDataBytes)
		payload := le.AppendUint64(le.AppendUint64(nil, uint64(r.arena)), at)
		if err := w.send(17, 0, c.id, append(payload, a.bytes[at:at+n]...)); err != nil {
			return err
		}
		at += n
	}
	return nil
}

// sendWords sends 16 bytes of DATA to anywhere.
func (w *goWorker) sendWords(c *goCall, arena uint32, offset uint64) error {
	return w.send(17, 0, c.id, append(le.AppendUint64(le.AppendUint64(nil, uint64(arena)), offset), make([]byte, 16)...))
}
