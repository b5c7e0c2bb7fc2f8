"""Bodies that wait for something else: several rows at once, in threads or as tasks of one event loop.

Imported when a file with such a function is loaded, and what it needs itself when a body first waits: asyncio and
threading are some MiB that other workers do without.
"""

import os
from _contextvars import Context, copy_context
from _thread import allocate_lock
from itertools import repeat
from time import monotonic_ns, thread_time_ns

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.errors import failed_text, text_of, traceback_of
from udfgate_worker.library import library
from udfgate_worker.strict import type_name

ASYNC_ROWS_DEFAULT = 32  # rows of an async body at once, unless io_threads says otherwise
ROW_WAITED_NS = 100_000  # a row that took less is not worth a thread

_state = {"forked": False, "loop": None}


def _in_child() -> None:
    _state["forked"], _state["loop"] = True, None


os.register_at_fork(after_in_child=_in_child)


def _no_worker() -> None:
    """A body forked, and its child comes back from it: it is no worker."""
    if _state["forked"]:
        os._exit(0)


def _report(error: BaseException) -> None:
    """What belongs to no row goes to standard error."""
    try:
        os.write(2, traceback_of(error).encode("utf-8", "backslashreplace"))
    except OSError:
        pass


class Block:
    """Rows that are run at once. They begin in order; after one that failed no later one begins, unless keep is set.

    `values` are by row. `failed` has the texts of failed rows, by index, where the call keeps going; `errors` what was
    raised, by index, where it does not. None stands for a StopIteration that map has taken for its own end.
    """

    def __init__(self, columns: list, count: int, keep: bool) -> None:
        self.columns, self.count, self.keep = columns, count, keep
        self.values: list = []
        self.failed: dict = {}
        self.errors: dict = {}
        self.next, self.stop = 0, count
        self.lock = allocate_lock()
        self.cpu = 0
        self.context = copy_context()

    def take(self) -> int:
        """The next row to begin, or -1."""
        with self.lock:
            at = self.next
            if at >= self.stop:
                return -1
            self.next = at + 1
            return at

    def args(self, at: int) -> list:
        """The arguments of a row."""
        return [column[at] for column in self.columns]

    def fail(self, at: int, error: "BaseException | None") -> None:
        """A row has raised."""
        if self.keep:
            self.failed[at] = "StopIteration" if error is None else failed_text(type_name(error), text_of(error))
            return
        with self.lock:
            self.errors[at] = error
            self.stop = min(self.stop, at)

    def fail_rest(self, error: BaseException) -> None:
        """The rows that have not begun cannot be run."""
        at = self.take()
        while at >= 0:
            self.fail(at, error)
            at = self.take()

    def ended(self) -> tuple:
        """(values, failed, error): the values before the first row that failed, if the call does not keep going."""
        self.columns = []
        if not self.errors:
            return self.values, self.failed, None
        at = min(self.errors)
        return self.values[:at], {}, self.errors[at]


class Threads:
    """Runs the rows of a body in threads, once it is seen to wait.

    Rows run one after the other at first, in growing slices. When a slice has spent more time waiting than computing,
    the rest of the chunk goes through the threads, which are kept: what only computes would gain nothing from them.
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
        size = 1
        while not self.waits and block.next < block.stop:
            self._slice(block, min(block.next + size, count))
            size *= 2
        if block.next < block.stop:
            self._spread(block, clock.measure)
        clock.stop()
        clock.cpu += block.cpu
        return block.ended()

    def _slice(self, block: Block, hi: int) -> None:
        """Run rows one after the other, each in a copy of the context."""
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
                return
            values.append(None)
        block.next = hi
        took = monotonic_ns() - began
        self.waits = took >= ROW_WAITED_NS * (hi - lo) and (thread_time_ns() - cpu) * 2 < took

    def _spread(self, block: Block, measure: bool) -> None:
        """Run the rows that are left in threads, and wait for all that were begun."""
        left = block.stop - block.next
        block.values += [None] * left
        wanted = min(self.at_once, left)
        self._start(wanted)
        wanted = min(wanted, self.started)
        if not wanted:  # the system gives no thread
            while block.next < block.stop:
                self._slice_alone(block)
            return
        job = _Job(self.body, block, wanted, measure)
        for _ in range(wanted):
            self.jobs.put(job)
        while not job.over:
            try:
                job.done.acquire()
            except BaseException as e:  # of a signal handler
                _report(e)

    def _slice_alone(self, block: Block) -> None:
        at = block.take()
        try:
            block.values[at] = block.context.copy().run(self.body, *block.args(at))
        except BaseException as e:
            block.fail(at, e)

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
                    _no_worker()
                    block.fail(at, e)
                else:
                    _no_worker()
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
            _report(e)


class Tasks:
    """Runs the rows of an async body as tasks of the worker's event loop, up to so many at once."""

    def __init__(self, body: object, at_once: int) -> None:
        self.body, self.at_once = body, at_once

    def begin(self) -> None:
        """A chunk begins."""

    def run(self, columns: list, count: int, clock: object, keep: bool) -> tuple:
        """Run a block; as Block.ended. The clock gets the wall of it, and the processor time of the main thread."""
        block = Block(columns, count, keep)
        block.values = [None] * count
        clock.start()
        try:
            loop = _loop()
        except BaseException as e:  # no descriptors are left, say
            block.fail_rest(e)
        else:
            _Running(loop, self.body, block, self.at_once).drive()
        clock.stop()
        return block.ended()


class _Running:
    """The tasks of one block."""

    def __init__(self, loop: "_Loop", body: object, block: Block, at_once: int) -> None:
        self.loop, self.body, self.block, self.at_once = loop, body, block, at_once
        self.tasks: dict = {}  # by row; the loop itself does not hold a task that waits

    def drive(self) -> None:
        """Run all rows. If the loop breaks, those that are not done fail."""
        try:
            self.more()
            self.loop.run_while(lambda: self.tasks)
        except RuntimeError as e:  # BrokenLoop, or the loop was closed just now
            begun, self.tasks = sorted(self.tasks), {}
            for at in begun:
                self.block.fail(at, e)
            self.block.fail_rest(e)

    def more(self) -> None:
        """Begin rows while there is room."""
        while len(self.tasks) < self.at_once:
            at = self.block.take()
            if at < 0:
                return
            row = self.row(at)
            try:
                task = self.tasks[at] = self.loop.task(row)
            except BaseException as e:
                row.close()
                self.block.fail(at, e)
                raise
            task.add_done_callback(lambda task, at=at: self.done(at, task))

    async def row(self, at: int) -> None:
        """One row, whatever it raises."""
        block = self.block
        try:
            value = await self.body(*block.args(at))
        except BaseException as e:
            _no_worker()
            block.fail(at, e)
        else:
            _no_worker()
            block.values[at] = value

    def done(self, at: int, task: object) -> None:
        """A task has ended; one that was cancelled before it began is a row that failed."""
        if task.cancelled():
            self.block.fail(at, self.loop.cancelled())
        if self.tasks.pop(at, None) is not None:
            self.more()
            if not self.tasks:
                self.loop.loop.stop()


class BrokenLoop(RuntimeError):
    """A body has closed the event loop, or runs another one within it."""


class _Loop:
    """The event loop of this worker, run in the main thread during calls. Bodies may do to it what they like."""

    def __init__(self) -> None:
        asyncio = library("asyncio")
        self._task, self.cancelled = asyncio.Task, asyncio.CancelledError
        self._leave = asyncio._set_running_loop
        try:
            self.loop = asyncio.new_event_loop()
        except BaseException as e:  # of a policy that a file has set
            _report(e)
            self.loop = asyncio.SelectorEventLoop()

    def task(self, coroutine: object) -> object:
        """A task, past any task factory; in a copy of the context."""
        return self._task(coroutine, loop=self.loop)

    def run_while(self, going: object) -> None:
        """Run until going() is false. Whoever makes it false stops the loop; so may bodies, which does not end it."""
        while going():
            ran: list = []
            try:
                self._leave(None)
                self.loop.call_soon(ran.append, True)
                self.loop.run_forever()
            except BaseException as e:
                if not ran or self.loop.is_closed():
                    _state["loop"] = None
                    raise BrokenLoop(f"the event loop of async functions: {type_name(e)}: {text_of(e)}") from None
                _no_worker()
                _report(e)  # of what a body has left behind, or of a signal handler


def _loop() -> _Loop:
    found = _state["loop"]
    if found is None or found.loop.is_closed():
        found = _state["loop"] = _Loop()
    return found


def run(awaitable: object) -> object:
    """Await on the worker's event loop, in a task of its own: the result, or what it raises. Main thread only."""

    async def wait() -> object:
        return await awaitable

    return _run(wait())


def _run(coroutine: object) -> object:
    ended: list = []
    loop = _loop()

    async def whole() -> None:
        try:
            ended.append((await coroutine, None))
        except BaseException as e:
            ended.append((None, e))

    def done(_task: object) -> None:
        if not ended:
            ended.append((None, loop.cancelled()))
        loop.loop.stop()

    task = loop.task(whole())
    task.add_done_callback(done)
    loop.run_while(lambda: not ended)
    _no_worker()
    value, error = ended.pop()
    if error is not None:
        raise error
    return value


class Steps:
    """An async iterator in a task of its own, which stands still between two calls of take.

    So what its body holds open across a yield, a task group say, stays with one task and one context. Main thread only.
    """

    def __init__(self, iterator: object) -> None:
        self.iterator = iterator
        self.values: list = []
        self.wanted = 0
        self.error: BaseException | None = None
        self.closing = self.over = self.going = False
        self.loop = self.gate = None

    def take(self, count: int) -> tuple:
        """(values, error): the next values; fewer at the end, or in front of what the body has raised."""
        self.values, self.wanted = [], count
        self._go()
        error, self.error = self.error, None
        return self.values, error

    def close(self) -> None:
        """Close the iterator as the close of a generator does, and raise what it raises. Others have none."""
        self.closing = True
        self._go()
        error, self.error = self.error, None
        if error is not None:
            raise error

    def _go(self) -> None:
        if self.over:
            return
        loop = _loop()
        if self.loop is None:
            self.loop = loop
            loop.task(self._live()).add_done_callback(self._done)
        elif loop is not self.loop:
            self.over, self.error = True, BrokenLoop("the event loop of this async function is gone")
            return
        elif self.gate is not None and not self.gate.done():
            self.gate.set_result(None)
        self.going = True
        try:
            loop.run_while(lambda: self.going)
        except RuntimeError as e:  # BrokenLoop, or the loop was closed just now
            self.over, self.error = True, e
        _no_worker()

    async def _live(self) -> None:
        step = self.iterator.__anext__
        try:
            while not self.closing:
                while len(self.values) < self.wanted:
                    self.values.append(await step())
                self.gate = self.loop.loop.create_future()
                self._stop()
                await self.gate
            close = getattr(self.iterator, "aclose", None)
            if close is not None:
                await close()
        except StopAsyncIteration:
            pass
        except BaseException as e:
            self.error = e

    def _done(self, task: object) -> None:
        self.over = True
        if task.cancelled() and self.error is None:
            self.error = self.loop.cancelled()
        self._stop()

    def _stop(self) -> None:
        self.going = False
        self.loop.loop.stop()


def awaited(body: object) -> object:
    """An async body as one that returns its value."""

    def call(*args: object) -> object:
        return run(body(*args))

    return call


def apart(body: object) -> object:
    """A body that runs in a copy of the context."""

    def call(*args: object) -> object:
        return copy_context().run(body, *args)

    return call


def end() -> None:
    """The worker ends: CPython 3.9 crashes over sockets that are open then."""
    found = _state["loop"]
    if found is not None and not found.loop.is_running():
        found.loop.close()
