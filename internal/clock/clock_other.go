//go:build !darwin

package clock

import "golang.org/x/sys/unix"

// workers is the clock of the workers' stamps.
const workers = unix.CLOCK_MONOTONIC
