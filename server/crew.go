package server

import "sync/atomic"

// crewIdleMax bounds how many goroutines wait for work.
const crewIdleMax = 64

// runner is a piece of work for a goroutine of its own.
type runner interface{ run() }

// crew runs work on goroutines that are used again. A new goroutine starts on
// a small stack, and growing it on the way through gRPC and a backend costs a
// one-row call more than anything else in this room.
type crew struct {
	work chan runner
	idle atomic.Int64
}

func newCrew() *crew { return &crew{work: make(chan runner)} }

// start runs r on a waiting goroutine, or on a new one.
func (c *crew) start(r runner) {
	select {
	case c.work <- r:
	default:
		go c.serve(r)
	}
}

func (c *crew) serve(r runner) {
	for r != nil {
		r.run()
		if c.idle.Add(1) > crewIdleMax {
			c.idle.Add(-1)
			return
		}
		r = <-c.work
		c.idle.Add(-1)
	}
}

// dismiss ends the goroutines that wait. Nothing is started afterwards.
func (c *crew) dismiss() { close(c.work) }
