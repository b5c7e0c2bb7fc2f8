"""io_threads: the rows of a body in threads, once it is seen to wait."""

from _contextvars import Context, copy_context
from _thread import allocate_lock
from itertools import repeat
from time import monotonic_ns, thread_time_ns

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.library import library
from udfgate_worker.waiting import Block, no_worker, report

ROW_WAITED_NS = 100_000  # a row that took less is not worth a thread
WAITED_NS = 20_000_000  # a slice that waited for less may only have been kept from its processor: the next one decides
SLICE_ROWS_MAX = 16  # a slice is judged when it is over, and its first row may be where the waiting begins


class Threads:
    """Runs the rows of a body in threads, once it is seen to wait.

    Rows run one after the other at first, in slices that grow to SLICE_ROWS_MAX. When a slice has spent more time
    waiting than computing, the rest of the chunk goes through the threads, which are kept: what only computes would gain
    nothing from them.
    """

    def __init__(self, body: object, at_once: int) -> None:
        self.body, self.at_once = body, at_once
        self.waits = False
        self.started = 0
        self.jobs = None

    def begin(self) -> None:
        """A chunk begins."""
        self.waits = False

    def run(self, columns: list, count: int, clock: object, keep: bool) -> tuple:
        """Run a block; as Block.ended. The clock gets the wall of it, and the processor time of all threads."""
        block = Block(columns, count, keep)
        clock.start()
        size, doubt = 1, 0
        while not self.waits and block.next < block.stop:
            waited = self._slice(block, min(block.next + size, count))
            self.waits = waited >= WAITED_NS or bool(waited and doubt)
            doubt = waited
            if not waited:
                size = min(2 * size, SLICE_ROWS_MAX)
        if block.next < block.stop:
            self._spread(block, clock.measure)
        clock.stop()
        clock.cpu += block.cpu
        return block.ended()

    def _slice(self, block: Block, hi: int) -> int:
        """Run rows one after the other, each in a copy of the context. How long they took if they waited, else 0."""
        lo, values = block.next, block.values
        columns = [column[lo:hi] for column in block.columns]
        calls = map(Context.run, map(Context.copy, repeat(block.context, hi - lo)), repeat(self.body), *columns)
        columns = None
        began, cpu = monotonic_ns(), thread_time_ns()
        while len(values) < hi:
            error = None
            try:
                values.extend(calls)  # keeps what came before a raise; a StopIteration ends it in silence
                if len(values) == hi:
                    break
            except BaseException as e:
                error = e
            block.fail(len(values), error)
            if not block.keep:
                block.next = hi  # the rows before the failed one have run
                return 0
            values.append(None)
        block.next = hi
        took = monotonic_ns() - began
        return took if took >= ROW_WAITED_NS * (hi - lo) and (thread_time_ns() - cpu) * 2 < took else 0

    def _spread(self, block: Block, measure: bool) -> None:
        """Run the rows that are left in threads, and wait for all that were begun."""
        left = block.stop - block.next
        block.values += [None] * left
        wanted = min(self.at_once, left)
        self._start(wanted)
        wanted = min(wanted, self.started)
        if not wanted:  # the system gives no thread: in this one, whose processor time the clock has
            _Job(self.body, block, 1, False).run()
            return
        job = _Job(self.body, block, wanted, measure)
        for _ in range(wanted):
            self.jobs.put(job)
        while not job.over:
            try:
                job.done.acquire()
            except BaseException as e:  # of a signal handler
                report(e)

    def _start(self, wanted: int) -> None:
        if self.jobs is None:
            self.jobs = library("queue").SimpleQueue()
        while self.started < wanted:
            thread = library("threading").Thread(target=_work, args=(self.jobs,), name="udfgate row", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no more threads
                return
            self.started += 1


class _Job:
    """A block in the hands of some threads."""

    def __init__(self, body: object, block: Block, threads: int, measure: bool) -> None:
        self.body, self.block, self.threads, self.measure = body, block, threads, measure
        self.over = False
        self.done = allocate_lock()
        self.done.acquire()

    def run(self) -> None:
        """Take rows until there are none."""
        block, cpu = self.block, thread_time_ns() if self.measure else 0
        try:
            at = block.take()
            while at >= 0:
                try:
                    value = block.context.copy().run(self.body, *block.args(at))
                except BaseException as e:
                    no_worker()
                    block.fail(at, e)
                else:
                    no_worker()
                    block.values[at] = value
                    value = None
                at = block.take()
        finally:
            with block.lock:
                self.threads -= 1
                block.cpu += thread_time_ns() - cpu if self.measure else 0
                last = not self.threads
            if last:
                self.over = True
                self.done.release()


def _work(jobs: object) -> None:
    """The life of one thread."""
    while True:
        try:
            jobs.get().run()
        except BaseException as e:  # thrown at the thread from outside
            report(e)


def apart(body: object) -> object:
    """A body that runs in a copy of the context."""

    def call(*args: object) -> object:
        return copy_context().run(body, *args)

    return call
