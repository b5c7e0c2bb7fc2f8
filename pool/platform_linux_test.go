package pool

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// What the tests ask of the system by names that not every system has.
const (
	workerClock  = unix.CLOCK_MONOTONIC
	receiveFlags = syscall.MSG_CMSG_CLOEXEC
	pollHungUp   = unix.POLLRDHUP
)

func closingPair() ([2]int, error) {
	return unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
}
