package pool

import (
	"fmt"
	"slices"
	"sync/atomic"
)

// state is what a worker is doing.
type state uint32

const (
	stateStarting state = iota // launched, not ready
	stateIdle                  // ready, in the pool's idle list
	stateBusy                  // leased
	stateEnding                // told to end or killed, not reaped yet
	stateDead                  // reaped
	stateCount
)

var stateNames = [stateCount]string{"starting", "idle", "busy", "ending", "dead"}

// String is the word used in logs and errors.
func (s state) String() string {
	if s < stateCount {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint32(s))
}

// transitions are all the ways that a state may be left. A worker can die in
// any of them; nothing leads back from its end.
var transitions = [stateCount][]state{
	stateStarting: {stateIdle, stateEnding, stateDead},
	stateIdle:     {stateBusy, stateEnding, stateDead},
	stateBusy:     {stateIdle, stateEnding, stateDead},
	stateEnding:   {stateDead},
	stateDead:     nil,
}

// transitionError says that a worker was not in a state for what was wanted.
type transitionError struct{ from, to state }

func (e *transitionError) Error() string {
	return fmt.Sprintf("worker is %s and cannot become %s", e.from, e.to)
}

// lifecycle is the state of one worker.
type lifecycle struct{ v atomic.Uint32 }

func (l *lifecycle) get() state { return state(l.v.Load()) }

// to moves to next, or says why it cannot.
func (l *lifecycle) to(next state) error {
	for {
		from := l.get()
		if !slices.Contains(transitions[from], next) {
			return &transitionError{from, next}
		}
		if l.v.CompareAndSwap(uint32(from), uint32(next)) {
			return nil
		}
	}
}
