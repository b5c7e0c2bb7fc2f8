package clock

import "golang.org/x/sys/unix"

// workers is the clock of the workers' stamps. CLOCK_MONOTONIC goes on while a
// Mac sleeps and is slewed, which neither Go's clock nor Python's is.
const workers = unix.CLOCK_UPTIME_RAW
