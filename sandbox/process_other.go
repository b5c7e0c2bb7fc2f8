//go:build !linux

package sandbox

import (
	"errors"
	"os"
	"strconv"
	"syscall"

	"github.com/shirou/gopsutil/v4/process"
	"golang.org/x/sys/unix"
)

// socketBytes is what the buffers of a worker's socket hold, about as much as
// Linux gives them: batches go through them where memory is not shared.
const socketBytes = 256 << 10

// A parent-death signal does not exist here: a worker notices the end of its
// gateway by the end of file on descriptor 3 alone.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// socketPair returns the gateway's end, non-blocking for the poller, and the
// child's, which blocks: a plain program reads it without a loop.
func socketPair() (ours, theirs *os.File, err error) {
	// There is no flag for close-on-exec here, so no fork may come between.
	syscall.ForkLock.RLock()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, err
	}
	for _, fd := range fds {
		// Defaults of 8 KiB would cut every batch into hundreds of wake-ups. Smaller
		// buffers than asked for are slower and no less right.
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, socketBytes)
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, socketBytes)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, nil, errors.Join(err, unix.Close(fds[0]), unix.Close(fds[1]))
	}
	return os.NewFile(uintptr(fds[0]), "worker"), os.NewFile(uintptr(fds[1]), "gateway"), nil
}

// sealInherited marks every descriptor from 3 on close-on-exec. Go opens its
// own so; this is for those that the gateway inherited from whoever started
// it, which a worker must not see.
func sealInherited() {
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		return
	}
	for _, entry := range entries {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}

// reap ends the rest of the group only after its leader is reaped: the system
// library has no way to wait and leave the zombie. While the group has a
// member, its number is not given to anybody else.
func (p *Process) reap() (*os.ProcessState, error) {
	state, err := p.os.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	killGroup(p.pid)
	p.reaped = true
	return state, err
}

// groupGone is gone of a signal to a group. The last member that is dead and
// not reaped makes it EPERM here, and a worker's group has no foreign members.
func groupGone(err error) error {
	if errors.Is(err, syscall.EPERM) {
		return nil
	}
	return gone(err)
}

func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return "SIG" + strconv.Itoa(int(s))
}

// residentBytes asks the system library: there is no /proc here.
func residentBytes(pid int) int64 {
	p := process.Process{Pid: int32(pid)}
	info, err := p.MemoryInfo()
	if err != nil {
		return 0
	}
	return int64(info.RSS)
}
