package main

import (
	"runtime"

	"github.com/udfgate/udfgate/codec"
)

// platformLacks is the start-up line about what the system of this binary does
// not give; empty where it gives everything.
func platformLacks() string {
	if codec.SharedArenas {
		return ""
	}
	return "no shared memory and no confinement on " + runtime.GOOS + ": batches are copied through sockets"
}
