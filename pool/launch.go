package pool

import (
	"fmt"
	"io"
	"net"
	"time"
)

// Launcher starts worker processes. The pool is handed one and never picks
// it: package sandbox meets it through cmd.
type Launcher interface {
	// Launch starts one process with a protocol socket as descriptor 3. The
	// error names the program that could not be started.
	Launch(s Spec) (Process, error)
}

// Spec is one process to start: Env is its whole environment.
type Spec struct {
	Argv []string
	Env  []string
	Dir  string
}

// Process is one running worker process, whatever confines it.
type Process interface {
	Pid() int
	// Conn is the gateway's end of descriptor 3. The pool closes it.
	Conn() *net.UnixConn
	// Stdout and Stderr end with an error once the process is gone, and free
	// their descriptor then. The pool reads both at all times.
	Stdout() io.Reader
	Stderr() io.Reader
	// Interrupt asks for the stacks of the process on its stderr (SIGUSR1).
	Interrupt() error
	// Kill ends the process and its whole group, without waiting for it.
	Kill() error
	// Wait blocks until the process is reaped. It may be called many times.
	Wait() Exit
	// Usage is the resident set in bytes, 0 if unknown.
	Usage() (rssBytes int64)
}

// Exit is how a process ended.
type Exit struct {
	Code   int
	Signal string // "SIGSEGV"; empty if it exited by itself
}

// String is "signal SIGSEGV" or "exit status 3".
func (e Exit) String() string {
	if e.Signal != "" {
		return "signal " + e.Signal
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

// Observer is told what happens in pools, so that metrics need not be known
// here. Its methods are called from the goroutine of the event and must not
// block; a nil Observer is allowed in Config.
type Observer interface {
	// WorkerStarted: a worker has loaded every module, took after its launch.
	WorkerStarted(pool string, took time.Duration)
	// WorkerExited: a worker that was launched is gone. The reason is one of
	// the Reaped constants.
	WorkerExited(pool, reason string)
	// QueueWait: a call got a worker, or gave up, after waiting for d.
	QueueWait(pool string, d time.Duration)
	// Retried: a chunk of the function went to a further worker.
	Retried(function string)
}

// Why a worker is gone: the closed set of reasons given to
// Observer.WorkerExited.
const (
	ReapedClosed      = "closed"       // the pool was closed
	ReapedSignal      = "signal"       // a signal that the gateway did not send
	ReapedExit        = "exit"         // it exited by itself
	ReapedTimeout     = "timeout"      // killed: a chunk passed its time limit
	ReapedCancelled   = "cancelled"    // killed: the caller went away
	ReapedProtocol    = "protocol"     // killed: it broke the worker protocol
	ReapedStartFailed = "start_failed" // it never became ready
)

// silent is the Observer of a pool that was given none.
type silent struct{}

func (silent) WorkerStarted(string, time.Duration) {}
func (silent) WorkerExited(string, string)         {}
func (silent) QueueWait(string, time.Duration)     {}
func (silent) Retried(string)                      {}

// unbilled keeps from an Observer what is observed of every call.
type unbilled struct{ Observer }

func (unbilled) QueueWait(string, time.Duration) {}
