// Package clock reads the monotonic clock that workers stamp their frames with,
// so that gateway and worker instants can be compared: CLOCK_MONOTONIC, on
// macOS CLOCK_UPTIME_RAW, which is mach_absolute_time there as it is for the Go
// runtime and for Python. It knows nothing of frames or bills.
package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

var (
	base   = time.Now()
	origin = calibrate()
)

// Now is that clock in nanoseconds. It goes through time.Since, which
// needs no system call, and an offset taken once at start.
func Now() int64 { return origin + int64(time.Since(base)) }

// Time is an instant as package time has it. It reads no clock.
func Time(at int64) time.Time { return base.Add(time.Duration(at - origin)) }

// calibrate returns the clock at base. Of several readings the one
// squeezed into the shortest interval is the most exact.
func calibrate() int64 {
	var best int64
	width := time.Duration(1 << 62)
	for range 16 {
		var ts unix.Timespec
		before := time.Since(base)
		if err := unix.ClockGettime(workers, &ts); err != nil {
			return int64(before) // no such clock: instants stay comparable within the process
		}
		after := time.Since(base)
		if after-before < width {
			width = after - before
			best = ts.Nano() - int64(before+width/2)
		}
	}
	return best
}
