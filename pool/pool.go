// Package pool keeps workers warm and lends them to calls: it starts worker
// processes through a Launcher that it is given, speaks the worker protocol
// (docs/worker-protocol.md) with them, queues calls when all are busy, and
// replaces the ones that are lost.
//
// It does not know what confines a process, nor who calls.
package pool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/codec"
	"github.com/udfgate/udfgate/internal/clock"
)

// QueueLenDefault is the QueueLenMax of a Config that names none.
const QueueLenDefault = 4096

const (
	// generation is the loaded version of the modules; a pool has one.
	generation = 1
	// takersMax is how many workers a chunk is offered to, if none so far took
	// a byte of it.
	takersMax = 3
	// byeWait is how long a worker may take to exit after BYE.
	byeWait = 2 * time.Second
	// killWait is how long a killed process may take to go. One that takes
	// longer hangs in the kernel, and Close does not wait for that.
	killWait = 5 * time.Second
	// tidyEvery is how often idle workers and empty arenas are looked at.
	tidyEvery = 2 * time.Second
)

// Config configures a Pool. Zero values mean the defaults of EnsureDefaults.
type Config struct {
	Name     string
	Launcher Launcher
	Python   string   // interpreter: the path of a program, or a name for the Launcher to find
	Files    []Module // loaded in this order
	Path     []string // put in front of the workers' module path
	Env      []string // added to the workers' environment, "KEY=value"

	// Overrides replace options of functions, by canonical name or, while it is
	// unique, short name. A key that means no function changes nothing:
	// Functions has the names to compare with.
	Overrides map[string]Override

	WorkersMax     int           // most workers; one is kept warm
	StartTimeout   time.Duration // launch to LOADED (--start-timeout)
	Timeout        time.Duration // of a chunk (--timeout)
	QueueTimeout   time.Duration // a call waits, in all (--queue-timeout)
	QueueLenMax    int           // calls that wait at once (--max-queue)
	AnswerBytesMax int64         // body of an answer (--max-message-bytes)

	SlotLimitBytes int64  // all input arenas together; 0: no limit
	SlotLimitName  string // its flag, quoted in errors

	// PrivateArenas copies batches through the workers' sockets instead of
	// sharing memory with them. Always so where codec.SharedArenas is false.
	PrivateArenas bool

	// BillOff leaves out what only bills need, to measure what they cost.
	BillOff bool

	Logger   *slog.Logger
	Observer Observer
}

// Module is a file to serve and the name it is imported under. Without a file
// the worker imports the name from its module path.
type Module struct{ Name, File string }

// EnsureDefaults fills in what is zero.
func (c *Config) EnsureDefaults() {
	setDefault(&c.Name, "default")
	setDefault(&c.Python, "python3")
	setDefault(&c.WorkersMax, 1)
	setDefault(&c.StartTimeout, 30*time.Second)
	setDefault(&c.Timeout, 30*time.Second)
	setDefault(&c.QueueTimeout, 10*time.Second)
	setDefault(&c.QueueLenMax, QueueLenDefault)
	setDefault(&c.AnswerBytesMax, 256<<20)
	setDefault(&c.SlotLimitName, "--max-inflight-bytes")
	c.PrivateArenas = c.PrivateArenas || !codec.SharedArenas
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Observer == nil {
		c.Observer = silent{}
	}
	if c.BillOff {
		c.Observer = unbilled{c.Observer}
	}
}

func setDefault[T comparable](v *T, d T) {
	if *v == *new(T) {
		*v = d
	}
}

// Validate reports everything that is wrong with c at once.
func (c *Config) Validate() error {
	var errs []error
	if c.Launcher == nil {
		errs = append(errs, errors.New("launcher: wanted one, got none"))
	}
	for _, v := range []struct {
		name string
		got  int64
	}{
		{"workers", int64(c.WorkersMax)},
		{"start timeout", int64(c.StartTimeout)},
		{"timeout", int64(c.Timeout)},
		{"queue timeout", int64(c.QueueTimeout)},
		{"max queue", int64(c.QueueLenMax)},
		{"max message bytes", c.AnswerBytesMax},
	} {
		if v.got < 1 {
			errs = append(errs, fmt.Errorf("%s: wanted more than 0, got %d", v.name, v.got))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("pool %q: %w", c.Name, err)
	}
	return nil
}

// Pool is the warm workers of one environment and module set. Its methods may
// be called from many goroutines.
type Pool struct {
	config   Config
	logger   *slog.Logger
	observer Observer
	folder   folder
	argv     []string
	program  string // folder of the worker program
	env      []string
	slots    *codec.Store

	sources sources
	edited  []atomic.Bool // files that warnEdited has named

	// Set by the first start, before anybody else can see the pool.
	first      *loadedSet
	firstHello hello
	version    string
	counters   []counters // of the functions, by number

	// ctx ends with the pool; running are all its goroutines.
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	pinned atomic.Int64 // bytes of slots that lost workers may still read

	// mu is held for moments only: nothing is started, written or waited for
	// under it.
	mu        sync.Mutex
	closed    bool
	live      map[*worker]struct{} // joined and not reaped
	idle      []*worker            // the last one was busy last
	queue     queue
	gates     []gate // of the functions, by number
	gated     int    // calls that wait in them
	ready     int    // idle and busy workers
	busy      int    // leases
	coldSince int64  // with ready == 0: since when
	starts    int    // workers on their way
	failures  int    // failed starts in a row
	duds      int    // workers in a row that died idle before they answered a call
	nextStart time.Time
	// lastFailure is the last of them.
	lastFailure     *udfgate.Error
	busyNS, aliveNS int64 // of leases and workers that have ended
}

// New starts one worker, loads every module in it and returns the pool.
//
// # Errors
//
// *udfgate.Error StartFailed if no worker could be started; it wraps a
// *LoadError if a module is at fault.
func New(ctx context.Context, c Config) (*Pool, error) {
	c.EnsureDefaults()
	if err := c.Validate(); err != nil {
		return nil, err
	}
	// The version is taken from the files before they are read by a worker.
	sources, err := hashFiles(c.Files)
	if err != nil {
		return nil, startFailed(err, "")
	}
	p := &Pool{
		config: c, logger: c.Logger, observer: c.Observer,
		live: map[*worker]struct{}{}, coldSince: clock.Now(), starts: 1,
		sources: sources, edited: make([]atomic.Bool, len(c.Files)),
		slots: codec.NewStore(codec.StoreConfig{LimitBytes: c.SlotLimitBytes, LimitName: c.SlotLimitName, Private: c.PrivateArenas}),
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	if err := p.open(ctx); err != nil {
		p.Close(ctx)
		return nil, err
	}
	p.running.Go(p.tidyLoop)
	return p, nil
}

// open makes the pool's folder and starts the first worker.
func (p *Pool) open(ctx context.Context) error {
	var err error
	if p.folder, err = newFolder(); err != nil {
		return startFailed(err, "")
	}
	if p.argv, p.program, err = p.folder.program(p.config.Python); err != nil {
		return startFailed(err, "")
	}
	p.env = environment(p.folder, p.config.Env)
	w, err := p.start(ctx)
	if err != nil {
		return err
	}
	p.version = p.sources.version(&p.firstHello)
	for _, f := range p.first.functions {
		f.Pool, f.Version, f.Generation = p.config.Name, p.version, generation
	}
	p.gates = make([]gate, len(p.first.functions))
	p.counters = make([]counters, len(p.first.functions))
	p.join(w)
	return nil
}

// Functions are the functions that the pool serves. They never change.
func (p *Pool) Functions() []*udfgate.Function { return p.first.functions }

// Slots is where the batches of calls must lie.
func (p *Pool) Slots() *codec.Store { return p.slots }

// Invoke runs call.Function over a batch. It adds what the call waited for and
// what was done to call, and returns the answer, which the caller releases.
// The batch stays the caller's; its slot is retained for as long as a lost
// worker may still read it.
//
// # Errors
//
// *udfgate.Error with Function set: UserError of the body, WorkerLost, Timeout,
// StartFailed, QueueFull, Draining, Invalid for an answer over its limit.
//
// The Timeout of a caller that went away, which is a context that was
// cancelled, wraps context.Canceled: nobody waits for an answer then. No other
// error does, least of all that of a deadline, call.Deadline or the context's.
//
// # Time limits
//
// The wait for a worker ends after QueueTimeout, or at the caller's deadline.
// What a call has waited for its function's concurrency is part of it, unless
// the function has a ConcurrencyWaitNS of its own for that.
// Timeout, the function's own limit and call.TimeoutNS count from the instant
// the chunk has its worker; the least of all decides.
//
// # Failed rows
//
// With a call.OnError that keeps going, rows that failed are null, counted in
// call.RowsFailed, and with OnErrorReject named in the answer's Errors.
func (p *Pool) Invoke(ctx context.Context, call *udfgate.Call, in *codec.Batch) (*codec.Answer, error) {
	if call.Function.Table {
		return nil, named(udfgate.Errorf(udfgate.Internal, "wanted a scalar function, got one of tables"), call.Function)
	}
	if in.Rows == 0 {
		return codec.EmptyAnswer(call.Function.Result), nil
	}
	answer, err := p.invoke(ctx, call, in, nil)
	return answer, named(err, call.Function)
}

func (p *Pool) invoke(ctx context.Context, call *udfgate.Call, in *codec.Batch, deliver Deliver) (*codec.Answer, error) {
	call.Timeline.Off = call.Timeline.Off || p.config.BillOff
	if err := checkBatchRowsMax(call.Function, in.Rows); err != nil {
		return nil, err
	}
	waited, err := p.enter(ctx, call) // before anything is rendered: who waits there holds no more than its batch
	if err != nil {
		return nil, err
	}
	defer p.exit(call.Function)
	c, err := p.newChunk(call, in)
	if err != nil {
		p.observeGate(waited)
		return nil, err
	}
	defer c.release()
	call.SlotBytes += c.slotBytes()
	own := p.ownTimeout(call.Function)
	for taker := 1; ; taker++ {
		w, at, err := p.acquire(ctx, call, waited)
		if err != nil {
			return nil, err
		}
		waited = 0
		answer, err := p.cross(ctx, w, call, c, own, at, deliver)
		if _, untaken := errors.AsType[*notTaken](err); !untaken || taker == takersMax {
			return answer, err
		}
		p.observer.Retried(call.Function.Canonical())
	}
}

// cross does one crossing in a leased worker, and ends the lease.
func (p *Pool) cross(ctx context.Context, w *worker, call *udfgate.Call, c *chunk, own limit, at int64, deliver Deliver) (*codec.Answer, error) {
	ended := false
	defer func() {
		if !ended { // a panic, which is answered further up: nobody knows what the worker is in the midst of
			p.fail(w, ReapedProtocol, c)
			p.release(w, true)
		}
	}()
	answer, err := w.cross.run(ctx, call, c, own, at, deliver)
	ended = true
	p.release(w, w.cross.booked || w.cross.progress.parts > 0)
	return answer, err
}

// Stats is what a pool is doing at one instant, and has done so far.
type Stats struct {
	Idle, Busy, Starting int
	QueueLen             int
	// BusyTime over WorkerTime is the utilisation. Neither ever falls.
	BusyTime, WorkerTime time.Duration
	// ArenaBytes is the size of all input arenas, SlotBytes what batches take
	// of them. PinnedBytes is the part of SlotBytes that is kept for workers
	// that were given up and can read it until they are dead.
	ArenaBytes, SlotBytes, PinnedBytes int64
	// MemoryBytes is the sum of the resident sets of the live workers, 0 where
	// the system does not say. A page of an arena counts in every worker that
	// has read it.
	MemoryBytes int64
}

// Stats returns the current figures. It reads the resident set of every worker
// from the system.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	s := Stats{Idle: len(p.idle), Busy: p.busy, Starting: p.starts, QueueLen: p.waiting()}
	busy, alive, now := p.busyNS, p.aliveNS, clock.Now()
	live := make([]*worker, 0, len(p.live))
	for w := range p.live {
		live = append(live, w)
		alive += now - w.readyAt
		busy += w.busyFor(now)
	}
	p.mu.Unlock()
	s.BusyTime, s.WorkerTime = time.Duration(busy), time.Duration(alive)
	for _, w := range live {
		s.MemoryBytes += w.process.Usage()
	}
	slots := p.slots.Stats()
	s.ArenaBytes, s.SlotBytes, s.PinnedBytes = slots.ArenaBytes, slots.UsedBytes, p.pinned.Load()
	return s
}

// tidyLoop gives back what a burst has left behind.
func (p *Pool) tidyLoop() {
	t := time.NewTicker(tidyEvery)
	defer t.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-t.C:
			p.tidy(outIdle)
		}
	}
}

// tidy drops arenas that have been empty for idle, and tells the workers that
// have been idle for as long: what a worker maps is not free.
func (p *Pool) tidy(idle time.Duration) {
	p.slots.Trim(idle)
	for {
		now := clock.Now()
		w := p.takeUntidy(now, idle)
		if w == nil {
			return
		}
		p.tell(w, now)
		p.release(w, false)
	}
}

// tell tidies a leased worker, and ends it if it does not listen.
func (p *Pool) tell(w *worker, now int64) {
	w.cross.setDeadline(now + int64(listenWait))
	err := w.tidy(now)
	if err == nil || w.awaitDead(untakenWait) {
		return // a dead one is somebody else's news
	}
	p.logger.Warn("idle worker does not listen", "pool", p.config.Name, "worker", w.pid, "error", err)
	p.fail(w, ReapedProtocol, nil)
}

// takeUntidy leases an idle worker that has something to give back.
func (p *Pool) takeUntidy(now int64, idle time.Duration) *worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, w := range p.idle {
		if now-w.idleAt >= int64(idle) && w.untidy(now) {
			p.idle = slices.Delete(p.idle, i, i+1)
			p.lease(w, 0) // no call's
			return w
		}
	}
	return nil
}

// bye tells a worker that nobody leases to exit.
func (w *worker) bye() {
	why := ReapedClosed
	w.ended.CompareAndSwap(nil, &why)
	_ = w.link.conn.SetDeadline(time.Now().Add(byeWait))
	_ = w.link.send(frameBye, 0, nil) // one that cannot be told is killed
}

// Close ends every worker: calls that wait or come later get Draining, idle
// workers are told to exit, busy ones after their call; what is left after two
// seconds, or once ctx is done, is killed. The pool leaves nothing behind: no
// process, goroutine, descriptor or folder.
func (p *Pool) Close(ctx context.Context) {
	p.mu.Lock()
	again := p.closed
	p.closed = true
	idle := p.idle
	p.idle = nil
	workers := make([]*worker, 0, len(p.live))
	for w := range p.live {
		workers = append(workers, w)
	}
	for _, w := range idle {
		w.hold()
		p.unready(w)
	}
	for q := p.queue.pop(); q != nil; q = p.queue.pop() {
		close(q.granted)
	}
	p.closeGates()
	p.mu.Unlock()
	if again {
		p.running.Wait()
		return
	}
	p.cancel() // kills the workers that are on their way
	for _, w := range idle {
		w.bye()
		w.release()
	}
	p.reap(ctx, workers)
	if err := errors.Join(p.slots.Close(), p.folder.remove()); err != nil {
		p.logger.Warn("pool leaves something behind", "pool", p.config.Name, "error", err)
	}
}

// reap waits for the workers to exit, and kills those that do not.
func (p *Pool) reap(ctx context.Context, workers []*worker) {
	patience := time.NewTimer(byeWait)
	defer patience.Stop()
	for _, w := range workers {
		select {
		case <-w.dead:
			continue
		case <-patience.C:
			patience.Reset(0)
		case <-ctx.Done():
		}
		w.end(ReapedClosed)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.running.Wait()
	}()
	hang := time.NewTimer(killWait)
	defer hang.Stop()
	select {
	case <-done:
	case <-hang.C:
		p.logger.Error("a killed worker does not go", "pool", p.config.Name)
	}
}
