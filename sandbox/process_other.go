//go:build !linux

package sandbox

import (
	"errors"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

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
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, nil, errors.Join(err, unix.Close(fds[0]), unix.Close(fds[1]))
	}
	return os.NewFile(uintptr(fds[0]), "worker"), os.NewFile(uintptr(fds[1]), "gateway"), nil
}

func sealInherited() {}

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

func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return "SIG" + strconv.Itoa(int(s))
}

func residentBytes(int) int64 { return 0 }
