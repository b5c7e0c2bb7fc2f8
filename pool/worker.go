package pool

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/udfgate/udfgate/codec"
)

const (
	// outBytes is what the output arena of a worker starts with.
	outBytes = 4 << 20
	// outBytesLarge is how large one may be and stay.
	outBytesLarge = 16 << 20
	// outIdle is how long a larger one is kept after its last large answer:
	// replacing it costs both sides fresh pages.
	outIdle = 5 * time.Second
	// outArenaFirst begins the numbers of output arenas, which belong to one
	// worker each; input arenas are numbered by the pool's store, from 1.
	outArenaFirst = 1 << 31

	// stackWait bounds the collecting of a stack from a worker that is killed
	// for its time limit; the core is to be free within half a second.
	stackWait = 200 * time.Millisecond
	// stackQuiet ends it: a worker that writes no more has said everything.
	stackQuiet = 25 * time.Millisecond
	// exitWait is how long a worker that closed its socket may take to exit.
	exitWait = time.Second
	// untakenWait is the same where another worker can take the call.
	untakenWait = 20 * time.Millisecond
	// lastReadWait bounds the reading from a dead worker; its frames are in the
	// socket already.
	lastReadWait = 50 * time.Millisecond
	// drainWait bounds the waiting for the last output of a dead worker.
	drainWait = 300 * time.Millisecond
	// stderrDetailBytes is how much of stderr goes into an error.
	stderrDetailBytes = 2 << 10
)

// worker is one process: an actor with one mailbox, its socket. The goroutine
// that starts it or holds its lease owns every field that has no other rule.
type worker struct {
	pool    *Pool
	pid     string // of the process, as the bill names the worker
	process Process
	link    link
	hello   hello
	nests   bool // its clock is the gateway's: PONG stamps lay inside ours
	state   lifecycle

	stdout, stderr *ring
	drained        chan struct{} // closed when both outputs have ended
	dead           chan struct{} // closed once exit is set
	exit           Exit
	ended          atomic.Pointer[string] // why the gateway ended it, first reason only

	epoch   uint64   // of the store, when arenas was last compared
	arenas  []uint32 // input arenas it maps, ascending
	out     *codec.Arena
	outNext uint32
	spent   bool  // lastRead has been used
	outAt   int64 // instant of the last answer that needed a large one
	cross   crossing
	pins    []*codec.Slot // slots that it may read until it is dead

	// holders are the watcher, and whoever starts or leases it. The last one
	// frees what the worker holds.
	holders atomic.Int32

	// Under pool.mu.
	readyAt  int64 // instants
	leasedAt int64 // 0 unless a call has it
	idleAt   int64
	served   bool // it has answered a call
}

// adopt takes charge of a launched process. Its holders are the watcher and
// the caller.
func (p *Pool) adopt(process Process) *worker {
	w := &worker{
		pool: p, process: process, pid: strconv.Itoa(process.Pid()),
		link:   newLink(process.Conn()),
		stdout: newRing(), stderr: newRing(),
		drained: make(chan struct{}), dead: make(chan struct{}),
		outNext: outArenaFirst,
	}
	w.cross.w = w
	w.holders.Store(2)
	p.running.Go(w.drain)
	p.running.Go(w.watch)
	return w
}

// drain reads both outputs until they end, so that the worker never blocks on
// a full pipe.
func (w *worker) drain() {
	var other sync.WaitGroup
	other.Go(func() { w.stdout.drain(w.process.Stdout()) })
	w.stderr.drain(w.process.Stderr())
	other.Wait()
	close(w.drained)
}

// watch waits for the process to end, whoever ended it, and tells the pool.
func (w *worker) watch() {
	w.exit = w.process.Wait()
	w.pool.bury(w)
	close(w.dead)
	// A lease holder may be blocked in a read that brings no end of file: a
	// process that the body left behind can hold the other end open.
	_ = w.link.conn.SetReadDeadline(time.Now()) // only a closed one refuses
	w.pool.mourn(w)
	w.release()
}

// lastRead lets the reader of a dead worker read on, once, for what the worker
// wrote before it died.
func (w *worker) lastRead() bool {
	if w.spent {
		return false
	}
	w.spent = true
	return w.link.conn.SetReadDeadline(time.Now().Add(lastReadWait)) == nil
}

// become makes a move that is allowed from every state it can be called in.
func (w *worker) become(s state) {
	if err := w.state.to(s); err != nil {
		w.pool.logger.Error("worker state", "worker", w.pid, "error", err)
	}
}

// end kills the process and notes why, unless it is ending already.
func (w *worker) end(reason string) {
	w.ended.CompareAndSwap(nil, &reason)
	if err := w.process.Kill(); err != nil {
		w.pool.logger.Error("worker cannot be killed", "worker", w.pid, "error", err)
	}
}

// reaped is the reason that Observer.WorkerExited is told.
func (w *worker) reaped() string {
	if r := w.ended.Load(); r != nil {
		return *r
	}
	if w.exit.Signal != "" {
		return ReapedSignal
	}
	return ReapedExit
}

// hold adds a holder; release drops one, and the last frees everything.
func (w *worker) hold() { w.holders.Add(1) }

func (w *worker) release() {
	if w.holders.Add(-1) > 0 {
		return
	}
	err := w.link.conn.Close()
	if w.out != nil {
		err = errors.Join(err, w.out.Close())
	}
	w.unpin()
	if err != nil {
		w.pool.logger.Warn("worker leaves something open", "worker", w.pid, "error", err)
	}
}

// pin keeps the slots of a chunk until the worker is dead and nobody holds it.
func (w *worker) pin(c *chunk) {
	at := len(w.pins)
	w.pins = c.pin(w.pins)
	for _, s := range w.pins[at:] {
		w.pool.pinned.Add(int64(len(s.Room())))
	}
}

func (w *worker) unpin() {
	for _, s := range w.pins {
		w.pool.pinned.Add(-int64(len(s.Room())))
		s.Release()
	}
	w.pins = nil
}

// isDead reports whether the process has been reaped.
func (w *worker) isDead() bool {
	select {
	case <-w.dead:
		return true
	default:
		return false
	}
}

// awaitDead waits for the process to be reaped, at most d.
func (w *worker) awaitDead(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-w.dead:
		return true
	case <-t.C:
		return false
	}
}

// stacks asks the worker for the stacks of its threads and returns what it
// writes to stderr, within stackWait; empty if it says nothing.
func (w *worker) stacks() string {
	mark := w.stderr.mark()
	select {
	case <-w.stderr.grew: // of what was written before
	default:
	}
	if err := w.process.Interrupt(); err != nil {
		return ""
	}
	limit := time.NewTimer(stackWait)
	defer limit.Stop()
	quiet := time.NewTimer(stackWait)
	defer quiet.Stop()
	for {
		select {
		case <-w.stderr.grew:
			quiet.Reset(stackQuiet)
			continue
		case <-w.dead: // it has no handler, and the signal ended it
		case <-quiet.C:
		case <-limit.C:
		}
		return linesText(withoutOurs(w.pool.program, string(w.stderr.since(mark))))
	}
}

// lastWords is the end of stderr, complete if the worker is dead.
func (w *worker) lastWords() string {
	if w.isDead() {
		t := time.NewTimer(drainWait)
		defer t.Stop()
		select {
		case <-w.drained:
		case <-t.C:
		}
	}
	return w.stderr.tail(stderrDetailBytes)
}

// syncArenas tells the worker which input arenas came and went since the last
// time. The epoch is read first: what comes meanwhile is seen again next time.
func (w *worker) syncArenas() error {
	store := w.pool.slots
	epoch := store.Epoch()
	if epoch == w.epoch {
		return nil
	}
	live := store.Arenas()
	kept := w.arenas[:0]
	for _, id := range w.arenas {
		if hasArena(live, id) {
			kept = append(kept, id)
			continue
		}
		if err := w.link.sendDrop(id); err != nil {
			return err
		}
	}
	w.arenas = kept
	for _, a := range live {
		if n := len(w.arenas); n > 0 && a.ID() <= w.arenas[n-1] {
			continue // ascending on both sides: it has this one
		}
		err := a.Share(func(rights []byte) error {
			return w.link.sendArena(0, a.ID(), role(a), a.Size(), rights)
		})
		if errors.Is(err, codec.ErrArenaClosed) {
			continue // dropped meanwhile, so no slot of ours lies in it
		}
		if err != nil {
			return err
		}
		w.arenas = append(w.arenas, a.ID())
	}
	w.epoch = epoch
	return nil
}

func hasArena(arenas []*codec.Arena, id uint32) bool {
	for _, a := range arenas {
		if a.ID() == id {
			return true
		}
	}
	return false
}

// newOut makes an output arena under the worker's next number.
func (w *worker) newOut(size int64) (*codec.Arena, error) {
	make := codec.NewOutput
	if w.pool.config.PrivateArenas {
		make = codec.NewPrivateOutput
	}
	next, err := make(w.outNext, size)
	if err == nil {
		w.outNext++
	}
	return next, err
}

// giveOut gives the worker another output arena, in answer to its NEED in the
// call or on the gateway's own account (call 0). The arena is the worker's even
// if that fails.
func (w *worker) giveOut(call uint64, next *codec.Arena) error {
	if err := w.link.sendArena(call, next.ID(), role(next), next.Size(), next.Rights()); err != nil {
		return errors.Join(err, next.Close())
	}
	last := w.out
	w.out = next
	if last == nil {
		return nil
	}
	return last.Close()
}

// outLarge reports whether one large answer made the output arena grow, and no
// answer has needed it for outIdle.
func (w *worker) outLarge(now int64) bool {
	return w.out.Size() > outBytesLarge && now-w.outAt >= int64(outIdle)
}

// untidy reports whether the worker's mappings are not what they should be.
func (w *worker) untidy(now int64) bool {
	return w.epoch != w.pool.slots.Epoch() || w.outLarge(now)
}

// tidy tells the worker which input arenas came and went, and replaces an
// output arena that is larger than it need be.
func (w *worker) tidy(now int64) error {
	if err := w.syncArenas(); err != nil || !w.outLarge(now) {
		return err
	}
	next, err := w.newOut(outBytes)
	if err != nil {
		return nil // no memory for a smaller one: the large one does as well
	}
	return w.giveOut(0, next)
}
