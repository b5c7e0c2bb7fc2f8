package sandbox

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// drainGrace is how long Stdout and Stderr may still be read after the process
// is reaped. Its own last words lie in the pipe by then; only a grandchild
// that left the process group could still write, and it may not keep the
// gateway's descriptors open.
const drainGrace = 250 * time.Millisecond

// Process is one started process.
type Process struct {
	os     *os.Process
	pid    int
	conn   *net.UnixConn
	stdout *pipe
	stderr *pipe

	// mu orders signals to the group before the reaping of its leader: once
	// reaped, the number may belong to somebody else.
	mu     sync.Mutex
	reaped bool

	wait sync.Once
	exit Exit
}

// Pid is the process id, which is the id of its process group too.
func (p *Process) Pid() int { return p.pid }

// Conn is the gateway's end of descriptor 3. The caller closes it.
func (p *Process) Conn() *net.UnixConn { return p.conn }

// Stdout is what the process writes to descriptor 1. Read it until it ends, or
// the process blocks; its descriptor is closed then.
func (p *Process) Stdout() io.Reader { return p.stdout }

// Stderr is Stdout for descriptor 2.
func (p *Process) Stderr() io.Reader { return p.stderr }

// Interrupt sends SIGUSR1 to the process alone. It is no error if the process
// is gone already.
func (p *Process) Interrupt() error {
	return gone(p.os.Signal(syscall.SIGUSR1))
}

// Kill ends the process and everything in its group with SIGKILL. It does not
// wait, and it is no error if the process is gone already.
func (p *Process) Kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return nil
	}
	// The group first, then the process by its handle: a body can have moved
	// itself to another group.
	group := groupGone(syscall.Kill(-p.pid, syscall.SIGKILL))
	return errors.Join(group, gone(p.os.Signal(syscall.SIGKILL)))
}

// Wait blocks until the process has ended, ends what is left of its group, and
// reaps it. It may be called many times and from many goroutines.
func (p *Process) Wait() Exit {
	p.wait.Do(func() {
		p.exit = exitOf(p.reap())
		end := time.Now().Add(drainGrace)
		p.stdout.endBy(end)
		p.stderr.endBy(end)
	})
	return p.exit
}

// Usage is the resident set of the process in bytes; 0 once it is gone, or
// where the system does not say.
func (p *Process) Usage() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return 0
	}
	return residentBytes(p.pid)
}

func killGroup(pgid int) {
	// ESRCH: nobody is left, which is what is wanted.
	_ = syscall.Kill(-pgid, syscall.SIGKILL)
}

func gone(err error) error {
	if errors.Is(err, os.ErrProcessDone) || errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

func exitOf(state *os.ProcessState, err error) Exit {
	if err != nil {
		return Exit{Code: -1} // another part of the program reaped it: nothing is known
	}
	status, ok := state.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return Exit{Code: -1, Signal: signalName(status.Signal())}
	}
	return Exit{Code: state.ExitCode()}
}

// pipe is the reading end of an output pipe. It closes itself with the first
// error, so that whoever drains it needs no second step.
type pipe struct {
	file *os.File
	once sync.Once
}

// Read reads; any error, end of file and the end of the grace included, is
// io.EOF to the reader and frees the descriptor.
func (p *pipe) Read(b []byte) (int, error) {
	n, err := p.file.Read(b)
	if err != nil {
		p.close()
		err = io.EOF
	}
	return n, err
}

func (p *pipe) close() {
	p.once.Do(func() { _ = p.file.Close() }) // a reading end has nothing to lose
}

func (p *pipe) endBy(t time.Time) {
	if err := p.file.SetReadDeadline(t); err != nil {
		p.close() // closed already, or not pollable: nobody may block on it
	}
}

// ends are the descriptors of a process that is about to start.
type ends struct {
	child []*os.File // 0 to 3
	conn  *net.UnixConn
	out   *os.File
	err   *os.File
}

func (e *ends) closeChild() {
	for _, f := range e.child {
		_ = f.Close() // the child has its own copies, or there is no child
	}
}

func (e *ends) closeAll() {
	e.closeChild()
	if e.conn != nil {
		_ = e.conn.Close()
	}
	for _, f := range []*os.File{e.out, e.err} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// open makes all of them, each close-on-exec: the child gets copies of its
// four and nothing else.
func open() (*ends, error) {
	e := &ends{}
	if err := e.fill(); err != nil {
		e.closeAll()
		return nil, err
	}
	return e, nil
}

func (e *ends) fill() error {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	e.child = append(e.child, null)
	for _, mine := range []**os.File{&e.out, &e.err} {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		*mine = r
		e.child = append(e.child, w)
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return err
	}
	e.child = append(e.child, theirs)
	conn, err := net.FileConn(ours)
	_ = ours.Close() // FileConn works on its own copy
	if err != nil {
		return err
	}
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		_ = conn.Close()
		return fmt.Errorf("socket pair: wanted a unix connection, got %T", conn)
	}
	e.conn = unixConn
	return nil
}

// launch starts program on the spawner's thread.
func launch(program string, s Spec) (*Process, error) {
	e, err := open()
	if err != nil {
		return nil, err
	}
	attr := &os.ProcAttr{
		Dir:   s.Dir,
		Env:   append([]string{}, s.Env...), // never nil: nil would mean the gateway's own
		Files: e.child,
		Sys:   sysProcAttr(),
	}
	var proc *os.Process
	spawn(func() {
		sealInherited()
		proc, err = os.StartProcess(program, s.Argv, attr)
	})
	if err != nil {
		e.closeAll()
		return nil, err
	}
	e.closeChild()
	return &Process{
		os: proc, pid: proc.Pid, conn: e.conn,
		stdout: &pipe{file: e.out}, stderr: &pipe{file: e.err},
	}, nil
}

// spawner runs every start on one thread that lives as long as the process: on
// Linux the parent-death signal belongs to the thread that forked, so a start
// on a thread that the runtime later ends would take its workers with it.
var spawner = sync.OnceValue(func() chan<- func() {
	starts := make(chan func())
	go serveStarts(starts)
	return starts
})

func serveStarts(starts <-chan func()) {
	runtime.LockOSThread()
	for start := range starts {
		start()
	}
}

// spawn runs start on the spawner's thread and returns when it is done.
func spawn(start func()) {
	done := make(chan struct{})
	spawner() <- func() {
		defer close(done)
		start()
	}
	<-done
}
