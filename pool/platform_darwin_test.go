package pool

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// What the tests ask of the system by names that not every system has.
const (
	workerClock  = unix.CLOCK_UPTIME_RAW
	receiveFlags = 0
	pollHungUp   = unix.POLLHUP
)

func closingPair() ([2]int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	return fds, err
}
