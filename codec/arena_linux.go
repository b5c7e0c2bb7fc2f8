package codec

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// SharedArenas says that memory can be shared with processes that are not
// trusted with it, in sealed memory files.
const SharedArenas = true

// sharedMapping makes a sealed memory file and maps it, in the one order that
// works: an input arena must be mapped before FUTURE_WRITE forbids further
// writable mappings, the gateway's own included. SEAL_WRITE itself is refused
// while a writable mapping exists. Pages are not populated: untouched ones cost nothing, and populating 64 MiB
// takes 42 ms before the first call.
func sharedMapping(role Role, size int64) (mapping, error) {
	fd, err := memfd("udfgate-" + role.String())
	if err != nil {
		return mapping{}, fmt.Errorf("memfd_create: %w", err)
	}
	m := mapping{fd: fd}
	if err := unix.Ftruncate(fd, size); err != nil {
		return mapping{}, errors.Join(fmt.Errorf("ftruncate: %w", err), m.close())
	}
	m.bytes, err = unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return mapping{}, errors.Join(fmt.Errorf("mmap: %w", err), m.close())
	}
	seals := unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if role == Input {
		seals |= unix.F_SEAL_FUTURE_WRITE // Linux 5.1
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return mapping{}, errors.Join(fmt.Errorf("seal: %w", err), m.close())
	}
	return m, nil
}

// memfd asks for a file that can never be executed; kernels before 6.3 do not
// know the flag.
func memfd(name string) (int, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	return fd, err
}
