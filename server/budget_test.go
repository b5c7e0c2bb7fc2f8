package server

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// settles is budget.settle without who waited.
func settles(b *budget, reserved, size int64, timeout time.Duration) bool {
	granted, _ := b.settle(reserved, size, timeout, nil, nil)
	return granted
}

const testWait = 10 * time.Second // in a synctest bubble

func TestBudgetGrantsAtOnceWhatFits(t *testing.T) {
	b := newBudget(100)
	if !b.reserve(60, testWait, nil, nil) || !b.reserve(40, testWait, nil, nil) {
		t.Fatal("refused what fits")
	}
	b.unreserve(40)
	if !settles(b, 60, 100, testWait) {
		t.Fatal("refused to settle within the budget")
	}
	b.resize(100, 30)
	if got := b.bytes(); got != 30 {
		t.Errorf("occupied %d, wanted 30", got)
	}
	b.release(30)
	if b.used != 0 || b.inflight != 0 {
		t.Errorf("left %d used, %d in flight", b.used, b.inflight)
	}
}

func TestBudgetRefusesAfterTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100)
		b.reserve(10, testWait, nil, nil)
		settles(b, 10, 90, testWait)
		from := time.Now()
		if b.reserve(20, testWait, nil, nil) {
			t.Fatal("granted more than there is")
		}
		if waited := time.Since(from); waited != testWait {
			t.Errorf("waited %v, wanted %v", waited, testWait)
		}
		if settles(b, 10, 30, testWait) {
			t.Fatal("settled to more than there is")
		}
		if b.used != 80 || len(b.waiting) != 0 {
			t.Errorf("occupied %d with %d in line, wanted the 80 of others and nobody", b.used, len(b.waiting))
		}
	})
}

func TestBudgetStopEndsTheWait(t *testing.T) {
	b := newBudget(10)
	settles(b, 0, 10, testWait)
	stop := make(chan struct{})
	close(stop)
	if b.reserve(1, time.Hour, stop, nil) {
		t.Fatal("granted")
	}
}

// A big message waits; small ones pass it until one budget's worth has passed,
// then it is next whoever comes.
func TestBudgetSmallPassBigOnlySoLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100)
		settles(b, 0, 50, testWait) // somebody's long call
		got := make(chan bool, 1)
		go func() { got <- settles(b, 0, 100, testWait) }()
		synctest.Wait()
		passed := 0
		for settles(b, 0, 10, 0) {
			passed++
			b.release(10)
			if passed > 100 {
				t.Fatal("small messages starve the big one")
			}
		}
		if passed != 10 {
			t.Errorf("%d small messages of 10 passed, wanted 10: one budget's worth", passed)
		}
		b.release(50)
		synctest.Wait()
		if !<-got {
			t.Fatal("the big one was refused")
		}
		b.release(100)
		if b.used != 0 {
			t.Errorf("%d left", b.used)
		}
	})
}

// Reservations of idle streams must not make a message wait for nothing.
func TestBudgetSettlesBesideIdleReservations(t *testing.T) {
	b := newBudget(100)
	b.reserve(50, testWait, nil, nil)
	b.reserve(50, testWait, nil, nil)
	if !settles(b, 50, 100, testWait) {
		t.Fatal("a legal message was refused though nothing is in flight")
	}
	b.release(100)
	b.unreserve(50)
	if b.used != 0 || b.inflight != 0 {
		t.Errorf("left %d used, %d in flight", b.used, b.inflight)
	}
}

func TestBudget_hammer(t *testing.T) {
	b := newBudget(1000)
	var wg sync.WaitGroup
	for g := range 8 {
		rng := rand.New(rand.NewPCG(uint64(g), 1))
		wg.Go(func() {
			for range 500 {
				n := rng.Int64N(60)
				if !b.reserve(n, time.Minute, nil, nil) {
					t.Error("reserve refused")
					return
				}
				size := rng.Int64N(1000)
				if !settles(b, n, size, time.Minute) {
					t.Error("settle refused")
					return
				}
				answer := rng.Int64N(300)
				b.resize(size, answer)
				b.release(answer)
			}
		})
	}
	wg.Wait()
	if b.used != 0 || b.inflight != 0 || len(b.waiting) != 0 {
		t.Errorf("left %d used, %d in flight, %d in line", b.used, b.inflight, len(b.waiting))
	}
}
