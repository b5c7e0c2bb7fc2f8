package pool

import (
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/codec"
	"github.com/udfgate/udfgate/internal/clock"
)

var (
	workerProgram = flag.String("worker", "", `"PROGRAM ARGS" that TestConformance drives; default: the workers of this repository`)
	workerModule  = flag.String("worker-module", "", `file that it loads as module "conformance"; it defines the functions of conformancePython`)
)

// conformancePython is the module that a Python worker loads. A worker for
// another language loads the same functions from the file of -worker-module.
const conformancePython = `
import os, sys, time
from typing import Iterator, Optional
import udfgate
from udfgate import udf, udtf

@udf
def add(a: Optional[int], b: Optional[int]) -> Optional[int]:
    return None if a is None or b is None else a + b

@udf
def even(a: Optional[int]) -> Optional[bool]:
    return None if a is None else a % 2 == 0

@udf
def shout(s: Optional[str]) -> Optional[str]:
    return None if s is None else s.upper() + "!"

@udf
def seven() -> int:
    return 7

@udf
def fail(a: Optional[int]) -> Optional[int]:
    if a == 7:
        raise ValueError("bad literal:\n7")
    if a == 8:
        return "x"
    return a

@udf
def big(n: Optional[int]) -> Optional[str]:
    return "x" * n

@udf
def sleep(ms: Optional[int]) -> Optional[int]:
    print("asleep", file=sys.stderr, flush=True)
    time.sleep(ms / 1000)
    return ms

@udf
def spam(a: Optional[int]) -> Optional[int]:
    for _ in range(300):
        print("spam " * 200)
        os.write(2, b"spam " * 200)
    return a
` + conformanceFailing + conformanceTables

// TestConformance drives a worker program through every rule of
// docs/worker-protocol.md:
//
//	go test ./pool -run TestConformance -worker "PROGRAM ARGS" -worker-module FILE
func TestConformance(t *testing.T) {
	if *workerProgram != "" {
		eachArenas(t, func(t *testing.T, private bool) {
			conform(t, &testLauncher{override: strings.Fields(*workerProgram)}, *workerModule, private)
		})
		return
	}
	t.Run("go", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "m.txt")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		eachArenas(t, func(t *testing.T, private bool) { conform(t, goLauncher(), file, private) })
	})
	t.Run("python", func(t *testing.T) {
		l := pythonLauncher(t)
		file := pythonModule(t, conformancePython)
		eachArenas(t, func(t *testing.T, private bool) { conform(t, l, file, private) })
	})
}

func conform(t *testing.T, l *testLauncher, module string, private bool) {
	for _, rule := range []struct {
		name string
		obey func(d *drive)
	}{
		{"values", (*drive).ruleValues},
		{"row ranges", (*drive).ruleRowRanges},
		{"segments", (*drive).ruleSegments},
		{"no columns", (*drive).ruleNoColumns},
		{"queued calls", (*drive).ruleQueuedCalls},
		{"frames in pieces", (*drive).rulePieces},
		{"unknown frames", (*drive).ruleUnknownFrames},
		{"errors", (*drive).ruleErrors},
		{"misfits", (*drive).ruleMisfits},
		{"keep going", (*drive).ruleKeepGoing},
		{"keep going over blocks and segments", (*drive).ruleKeepGoingOver},
		{"mode list", (*drive).ruleList},
		{"table functions", (*drive).ruleTables},
		{"table functions pause", (*drive).ruleTablePauses},
		{"table functions fail", (*drive).ruleTableErrors},
		{"need of a table function", (*drive).ruleTableNeed},
		{"context", (*drive).ruleContext},
		{"counts", (*drive).ruleCounts},
		{"need", (*drive).ruleNeed},
		{"refuse", (*drive).ruleRefuse},
		{"arenas", (*drive).ruleArenas},
		{"recode", (*drive).ruleRecode},
		{"stats", (*drive).ruleStats},
		{"output", (*drive).ruleOutput},
		{"stacks", (*drive).ruleStacks},
		{"unknown frame ends", (*drive).ruleUnknownEnds},
		{"long frame ends", (*drive).ruleLongEnds},
		{"unexpected frame ends", (*drive).ruleUnexpectedEnds},
		{"end of file", (*drive).ruleEndOfFile},
	} {
		t.Run(rule.name, func(t *testing.T) {
			d := newDrive(t, l, module, private)
			rule.obey(d)
			d.bye()
		})
	}
}

// drive is one worker, driven frame by frame.
type drive struct {
	t       *testing.T
	link    link
	process Process
	stderr  *ring
	hello   hello
	set     *loadedSet
	slots   *codec.Store
	sent    []uint32 // input arenas handed over
	out     *codec.Arena
	outID   uint32
	lastID  uint64
	over    bool // the worker was made to end
	private bool // its arenas
}

func newDrive(t *testing.T, l *testLauncher, module string, private bool) *drive {
	t.Helper()
	f := folder{t.TempDir()}
	for _, dir := range []string{f.home(), f.temp()} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	process, err := l.Launch(Spec{Env: environment(f, nil), Dir: f.home()})
	if err != nil {
		t.Fatal(err)
	}
	d := &drive{t: t, link: newLink(process.Conn()), process: process, stderr: newRing(), outID: outArenaFirst, private: private}
	d.slots = codec.NewStore(codec.StoreConfig{Private: private})
	var drained sync.WaitGroup
	drained.Go(func() { _, _ = io.Copy(io.Discard, process.Stdout()) })
	drained.Go(func() { d.stderr.drain(process.Stderr()) })
	t.Cleanup(func() {
		_ = process.Kill()
		process.Wait()
		drained.Wait()
		_ = process.Conn().Close()
		if d.out != nil {
			_ = d.out.Close()
		}
		if s := d.slots.Stats(); s.Slots > 0 {
			t.Errorf("%d slots left", s.Slots)
		}
		_ = d.slots.Close()
		if t.Failed() {
			t.Logf("the end of the worker's stderr:\n%s", d.stderr.tail(stderrDetailBytes))
		}
	})
	d.start(module)
	return d
}

// start is HELLO, PING, ARENA, LOAD.
func (d *drive) start(module string) {
	d.t.Helper()
	_ = d.link.conn.SetDeadline(time.Now().Add(soon))
	var err error
	if d.hello, err = parseHello(d.want(frameHello, 0).payload); err != nil {
		d.t.Fatal(err)
	}
	d.checkArenas()
	if d.hello.PID != d.process.Pid() {
		d.t.Errorf("pid: want %d, got %d", d.process.Pid(), d.hello.PID)
	}
	for i := range uint64(pings) {
		before := clock.Now()
		d.ok(d.link.send(framePing, i+5, make([]byte, 4*i)))
		at := int64(le.Uint64(d.want(framePong, i+5).payload))
		if after := clock.Now(); at < before || at > after {
			d.t.Errorf("PONG: want an instant from %d to %d, got %d", before, after, at)
		}
	}
	d.giveOut(0, outBytes)
	request := load{Modules: []loadModule{{"conformance", module}}, Path: []string{filepath.Dir(module)}, Generation: 1}
	payload, err := json.Marshal(request)
	d.ok(err)
	d.ok(d.link.send(frameLoad, 77, payload))
	if d.set, err = parseLoaded(d.want(frameLoaded, 77).payload); err != nil {
		d.t.Fatal(err)
	}
}

func (d *drive) ok(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// want reads the next frame that is no LOG.
func (d *drive) want(kind frameType, call uint64) frame {
	d.t.Helper()
	for {
		f, err := d.link.read()
		if err != nil {
			d.t.Fatalf("waiting for %v: %v", kind, err)
		}
		if f.kind == frameLog || f.kind == frameAST || f.kind == frameCounts && f.call == call {
			continue
		}
		if f.kind == frameData && d.private && f.call == call {
			d.ok(receiveData(f.payload, d.out.Bytes(), outRange{arena: d.out.ID(), limit: d.out.Size()}))
			continue
		}
		if f.kind != kind || f.call != call {
			d.t.Fatalf("want %v of call %d, got %v of call %d", kind, call, f.kind, f.call)
		}
		return f
	}
}

// giveOut hands over an output arena of at least size.
func (d *drive) giveOut(call uint64, size int64) {
	d.t.Helper()
	if d.out != nil {
		d.ok(d.out.Close())
	}
	var err error
	if d.private {
		d.out, err = codec.NewPrivateOutput(d.outID, size)
	} else {
		d.out, err = codec.NewOutput(d.outID, size)
	}
	d.ok(err)
	d.outID++
	d.ok(d.link.sendArena(call, d.out.ID(), role(d.out), d.out.Size(), d.out.Rights()))
}

// giveIn hands over the input arenas that are new.
func (d *drive) giveIn() {
	d.t.Helper()
	for _, a := range d.slots.Arenas() {
		if !slices.Contains(d.sent, a.ID()) {
			d.sent = append(d.sent, a.ID())
			d.ok(d.link.sendArena(0, a.ID(), role(a), a.Size(), a.Rights()))
		}
	}
}

func (d *drive) function(name string) *udfgate.Function {
	d.t.Helper()
	for _, f := range d.set.functions {
		if f.Name == name {
			f.Generation = 1
			return f
		}
	}
	d.t.Fatalf("module lacks function %q", name)
	return nil
}

// piece is rows [lo, hi) of a batch; hi 0 means all.
type piece struct {
	columns []any
	lo, hi  int64
}

// chunk describes pieces, in marshal form if asked to.
func (d *drive) chunk(name string, marshal bool, blockRows int, pieces ...piece) *chunk {
	d.t.Helper()
	c := &chunk{function: d.function(name), blockRows: blockRows}
	for _, p := range pieces {
		b, err := batchOf(d.slots, p.columns...)
		d.ok(err)
		if p.hi == 0 {
			p.hi = b.Rows
		}
		s := segment{batch: b, lo: p.lo, hi: p.hi}
		if size := s.renderedBytes(); marshal && size > 0 {
			s.rendered, err = d.slots.Get(size)
			d.ok(err)
		}
		s.describe(blockRows)
		c.segments = append(c.segments, s)
	}
	d.giveIn()
	return c
}

// free releases the slots of a chunk.
func (c *chunk) free() {
	for i := range c.segments {
		c.segments[i].batch.Release()
		if s := c.segments[i].rendered; s != nil {
			s.Release()
		}
	}
}

// callBytes is the CALL frame of a chunk, after the DATA frames that it needs,
// and its id.
func (d *drive) callBytes(c *chunk, base, limit int64) (uint64, []byte) {
	d.lastID++
	return d.lastID, c.appendCall(d.dataBytes(c), d.lastID, int64(time.Minute), outRange{arena: d.out.ID(), base: base, limit: limit})
}

// result reads a RESULT and checks what every one must obey.
func (d *drive) result(id uint64, c *chunk, base int64) *result {
	d.t.Helper()
	r := &result{}
	d.ok(r.decodeFrom(d.want(frameResult, id).payload))
	now := clock.Now()
	if r.recv > r.send || r.send > now || r.decode+r.body+r.encode > r.send-r.recv {
		d.t.Errorf("times do not nest: %+v", r)
	}
	if r.outArena != d.out.ID() || r.outBase != base || len(r.segments) != len(c.segments) {
		d.t.Errorf("want arena %d, base %d, %d segments, got %d, %d, %d", d.out.ID(), base, len(c.segments), r.outArena, r.outBase, len(r.segments))
	}
	return r
}

// values takes the answer of one segment.
func (d *drive) values(c *chunk, r *result, i int) []any {
	d.t.Helper()
	s := &r.segments[i]
	if s.status != statusDone {
		d.t.Fatalf("segment %d: want status 0, got %d: %+v", i, s.status, s.errors)
	}
	rows := c.segments[i].hi - c.segments[i].lo
	if s.rows != rows {
		d.t.Fatalf("segment %d: want %d rows, got %d", i, rows, s.rows)
	}
	region := d.out.Bytes()[r.outBase : r.outBase+r.outUsed]
	a, err := codec.TakeAnswer(c.function.Result, rows, c.blockRows, &s.column, region, codec.AnswerLimits{BytesMax: 1 << 30})
	d.ok(err)
	defer a.Release()
	return valuesOf(c.function.Result.Type.Kind, a)
}

// run calls a function over pieces and returns the values of each.
func (d *drive) run(name string, marshal bool, blockRows int, pieces ...piece) [][]any {
	d.t.Helper()
	c := d.chunk(name, marshal, blockRows, pieces...)
	defer c.free()
	id, call := d.callBytes(c, 0, d.out.Size())
	_, err := d.link.write(call)
	d.ok(err)
	r := d.result(id, c, 0)
	var out [][]any
	for i := range c.segments {
		out = append(out, d.values(c, r, i))
	}
	return out
}

func (d *drive) equal(what string, got, want []any) {
	d.t.Helper()
	if len(got) != len(want) {
		d.t.Errorf("%s: want %d values, got %d", what, len(want), len(got))
		return
	}
	for i := range want {
		if got[i] != want[i] {
			d.t.Errorf("%s: value %d of %d: want %s, got %s", what, i, len(want), brief(want[i]), brief(got[i]))
			return
		}
	}
}

// alive makes sure that the worker still answers.
func (d *drive) alive() {
	d.t.Helper()
	d.equal("alive", d.run("add", false, 8, piece{columns: []any{[]int64{1}, []int64{2}}})[0], []any{int64(3)})
}

// bye ends the worker in order, if it was not made to end before.
func (d *drive) bye() {
	d.t.Helper()
	if d.over {
		return
	}
	d.ok(d.link.send(frameBye, 0, nil))
	if got := d.process.Wait(); got != (Exit{}) {
		d.t.Errorf("BYE: want exit status 0, got %v", got)
	}
}

// ended waits for the worker to end by itself.
func (d *drive) ended() {
	d.t.Helper()
	d.over = true
	if f, err := d.link.read(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		d.t.Errorf("want the worker ended, got %v, %v", f.kind, err)
	}
	d.process.Wait()
}
