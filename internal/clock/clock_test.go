package clock

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Now is the system's clock, to within what reading it takes.
func TestNow(t *testing.T) {
	for range 1000 {
		before := Now()
		var ts unix.Timespec
		if err := unix.ClockGettime(workers, &ts); err != nil {
			t.Fatal(err)
		}
		after := Now()
		const slack = int64(10 * time.Microsecond) // of the calibration
		if at := ts.Nano(); at < before-slack || at > after+slack {
			t.Fatalf("the clock read %d, Now gave %d before and %d after", at, before, after)
		}
	}
}

func TestTime(t *testing.T) {
	now := Now()
	if got := time.Since(Time(now - int64(time.Hour))); got < time.Hour || got > time.Hour+time.Minute {
		t.Errorf("an instant an hour ago lies %v back", got)
	}
}
