package pool

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/internal/clock"
)

// stepHello is the step at which a program that is no worker ends.
const stepHello = "its HELLO"

// pings is how many round trips prove that a worker's clock is the gateway's.
const pings = 4

// errNotReady says that the start timeout passed.
var errNotReady = errors.New("worker not ready")

// starting is one start on its way: the step it is at names what went wrong.
type starting struct {
	w    *worker
	step string
}

// start launches a worker and brings it through HELLO, PING, ARENA and LOAD.
// The worker returned has the caller as holder.
//
// # Errors
//
// *udfgate.Error StartFailed; it wraps a *LoadError if the modules are at fault.
func (p *Pool) start(ctx context.Context) (*worker, error) {
	began := time.Now()
	process, err := p.config.Launcher.Launch(Spec{Argv: p.argv, Env: p.env, Dir: p.folder.home()})
	if err != nil {
		return nil, startFailed(err, "")
	}
	w := p.adopt(process)
	stop := context.AfterFunc(ctx, func() { w.end(ReapedClosed) })
	defer stop()

	s := starting{w: w}
	set, err := s.run(began.Add(p.config.StartTimeout))
	if err == nil {
		err = p.agree(set, &w.hello)
	}
	if err != nil {
		err = s.explain(ctx, err)
		_ = w.state.to(stateEnding) // dead already is as good
		w.end(ReapedStartFailed)
		w.release()
		return nil, err
	}
	took := time.Since(began)
	p.observer.WorkerStarted(p.config.Name, took)
	p.logger.Info("worker started", "pool", p.config.Name, "worker", w.pid, "took", took)
	if p.version != "" { // not the first
		p.warnEdited()
	}
	return w, nil
}

// run is the start as the protocol page draws it.
func (s *starting) run(by time.Time) (*loadedSet, error) {
	w := s.w
	if err := w.link.conn.SetDeadline(by); err != nil {
		return nil, err
	}
	s.step = stepHello
	f, err := s.await(frameHello, 0)
	if err != nil {
		return nil, err
	}
	if w.hello, err = parseHello(f.payload); err != nil {
		return nil, err
	}
	if err := w.pool.checkArenas(&w.hello); err != nil {
		return nil, err
	}
	s.step = "the clock check"
	if err := s.checkClock(); err != nil {
		return nil, err
	}
	out, err := w.newOut(outBytes)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(w.syncArenas(), w.giveOut(0, out)); err != nil {
		return nil, err
	}
	s.step = "the loading of " + w.pool.fileNames()
	return s.load()
}

// await returns the next frame, which must be of the kind and the call.
func (s *starting) await(kind frameType, call uint64) (frame, error) {
	for {
		f, err := s.w.link.read()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && !s.w.isDead():
			return frame{}, errNotReady
		case errors.Is(err, os.ErrDeadlineExceeded) && s.w.lastRead():
			// Dead: what it wrote before is still to be read.
		case err != nil:
			return frame{}, err
		case f.kind == frameLog:
			s.w.log(f.payload)
			s.noteImport(f.payload)
		case f.kind == frameAST:
			// Native execution will want it; until then nobody does.
		case f.kind != kind:
			return frame{}, broken("wanted %s, got %s", kind, f.kind)
		case f.call != call:
			return frame{}, broken("%s names call %d, wanted %d", kind, f.call, call)
		default:
			return f, nil
		}
	}
}

// noteImport takes the file that a worker says it is importing, or the
// function whose warm-up it begins, for the step.
func (s *starting) noteImport(payload []byte) {
	var line logLine
	if json.Unmarshal(payload, &line) != nil {
		return // log has said so
	}
	for _, m := range s.w.pool.config.Files {
		if file := cmp.Or(m.File, m.Name); line.Message == "importing "+file {
			s.step = "the loading of " + filepath.Base(file)
		}
	}
	if name, ok := strings.CutPrefix(line.Message, "warming up "); ok {
		s.step = "the warm-up of " + name
	}
}

// checkClock finds out whether the worker's stamps can be compared with the
// gateway's. In another time namespace they cannot, and only durations are used.
func (s *starting) checkClock() error {
	w := s.w
	w.nests = true
	for i := range uint64(pings) {
		before := clock.Now()
		if err := w.link.send(framePing, i+1, nil); err != nil {
			return err
		}
		f, err := s.await(framePong, i+1)
		if err != nil {
			return err
		}
		after := clock.Now()
		if len(f.payload) != 8 {
			return broken("PONG of %d bytes, wanted 8", len(f.payload))
		}
		at := binary.LittleEndian.Uint64(f.payload)
		if at < uint64(before) || at > uint64(after) {
			w.nests = false
		}
	}
	if !w.nests {
		w.pool.logger.Warn("worker clock differs, crossings are not split", "worker", w.pid)
	}
	return nil
}

func (s *starting) load() (*loadedSet, error) {
	p := s.w.pool
	request := load{Path: p.config.Path, Generation: generation, Modules: []loadModule{}}
	for _, m := range p.config.Files {
		request.Modules = append(request.Modules, loadModule(m))
	}
	if request.Path == nil {
		request.Path = []string{}
	}
	payload, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("encode LOAD: %w", err)
	}
	if len(payload) > jsonBytesMax {
		return nil, fmt.Errorf("LOAD of %d bytes, the most is %d: too many modules", len(payload), jsonBytesMax)
	}
	if err := s.w.link.send(frameLoad, loadID, payload); err != nil {
		return nil, err
	}
	f, err := s.await(frameLoaded, loadID)
	if err != nil {
		return nil, err
	}
	defer s.w.link.relax()
	set, err := parseLoaded(f.payload)
	if err != nil {
		return nil, err
	}
	p.config.override(set)
	return set, nil
}

// loadID is the call id of LOAD; any would do.
const loadID = 1

// filesNamedMax is how many files an error lists.
const filesNamedMax = 3

// fileNames is "geo.py, fares.py", for an error that cannot know which of them
// it was.
func (p *Pool) fileNames() string {
	var names []string
	for _, m := range p.config.Files {
		if len(names) == filesNamedMax {
			names = append(names, fmt.Sprintf("%d more", len(p.config.Files)-filesNamedMax))
			break
		}
		names = append(names, filepath.Base(cmp.Or(m.File, m.Name)))
	}
	return cmp.Or(strings.Join(names, ", "), "its modules")
}

// agree compares a later worker with the first one; the first is remembered.
func (p *Pool) agree(set *loadedSet, h *hello) error {
	if p.first == nil {
		if err := p.sources.find(p.config.Files, set); err != nil {
			return err
		}
		p.first, p.firstHello = set, *h
		for _, f := range set.skipped {
			p.logger.Warn("not served", "function", f.Module+"."+f.Name, "why", f.Why)
		}
		return nil
	}
	if h.marshal() != p.firstHello.marshal() {
		return fmt.Errorf("worker differs from the first: wanted forms %q, got %q", p.firstHello.Forms, h.Forms)
	}
	return set.differs(p.first)
}

// explain says what ended a start, with the last output of the worker.
func (s *starting) explain(ctx context.Context, err error) error {
	w := s.w
	var loadErr *LoadError
	var protocol *protocolError
	switch {
	case ctx.Err() != nil:
		return startFailed(fmt.Errorf("start given up: %w", context.Cause(ctx)), "")
	case errors.As(err, &loadErr):
		return startFailed(loadErr, loadErr.Traceback)
	case errors.Is(err, errNotReady):
		// The stack shows where the import hangs.
		stack := w.stacks()
		return startFailed(fmt.Errorf("worker not ready after %v (--start-timeout): still waiting for %s", w.pool.config.StartTimeout, s.step), stack)
	case errors.As(err, &protocol):
		return startFailed(fmt.Errorf("worker %w", protocol), w.lastWords())
	case isIO(err):
		if w.awaitDead(exitWait) {
			hint := ""
			if s.step == stepHello {
				hint = ": is it a Python? --python takes an interpreter or a venv"
			}
			return startFailed(fmt.Errorf("worker ended before %s: %s%s", s.step, w.exit, hint), w.lastWords())
		}
		return startFailed(fmt.Errorf("worker closed its socket before %s", s.step), w.lastWords())
	default:
		return startFailed(err, w.lastWords())
	}
}

// startFailed is the error of a worker that could not be started.
func startFailed(err error, detail string) error {
	return &udfgate.Error{
		Reason: udfgate.StartFailed, Row: udfgate.NoRow, Message: err.Error(), Detail: detail, Retryable: true, Err: err,
	}
}
