"""async def: the worker's event loop, and the rows of a body as its tasks."""

import os
from _contextvars import copy_context

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.errors import text_of
from udfgate_worker.library import library
from udfgate_worker.strict import type_name
from udfgate_worker.waiting import Block, no_worker, report

_state = {"loop": None}


def _in_child() -> None:
    _state["loop"] = None


os.register_at_fork(after_in_child=_in_child)


class Tasks:
    """Runs the rows of an async body as tasks of the worker's event loop, up to so many at once.

    wrapper: the body is a function around an async one, and what it returns may be to await. It is called outside of
    the loop, so that asyncio.run() works in it. If the first that it returns is a value it is no async body: blocks go
    to plain then, if there is one.
    """

    def __init__(self, body: object, at_once: int, wrapper: bool = False, plain: object = None) -> None:
        self.body, self.at_once = body, at_once
        self.wrapper, self.plain = wrapper, plain
        self.awaits = self.settled = False

    def begin(self) -> None:
        """A chunk begins."""
        if self.plain is not None:
            self.plain.begin()

    def run(self, columns: list, count: int, clock: object, keep: bool) -> tuple:
        """Run a block; as Block.ended. The clock gets the wall of it, and the processor time of the main thread."""
        if self.settled and self.plain is not None:
            return self.plain.run(columns, count, clock, keep)
        block = Block(columns, count, keep)
        block.values = [None] * count
        clock.start()
        try:
            loop = worker_loop()
        except BaseException as e:  # no descriptors are left, say
            block.fail_rest(e)
        else:
            _Running(loop, self, block).drive()
        clock.stop()
        return block.ended()


class _Running:
    """The tasks of one block."""

    def __init__(self, loop: "Loop", settings: Tasks, block: Block) -> None:
        self.loop, self.body, self.block, self.at_once = loop, settings.body, block, settings.at_once
        self.settings = settings
        self.tasks: dict = {}  # by row; the loop itself does not hold a task that waits
        self.settled: set = set()  # rows in self.tasks that have a value, or have failed

    def drive(self) -> None:
        """Run all rows. If the loop breaks, those that are not done fail."""
        try:
            self.more()
            self.loop.run_while(lambda: self.tasks)
        except RuntimeError as e:  # BrokenLoop, or the loop was closed just now
            begun, self.tasks = sorted(self.tasks), {}
            for at in begun:
                if at not in self.settled:
                    self.block.fail(at, e)
            self.block.fail_rest(e)

    def more(self) -> None:
        """Begin rows while there is room."""
        while len(self.tasks) < self.at_once:
            at = self.block.take()
            if at < 0:
                return
            row = self.wrapped(at) if self.settings.wrapper else self.row(at)
            if row is None:
                continue
            try:
                task = self.tasks[at] = self.loop.task(row)
            except BaseException as e:
                row.close()
                self.block.fail(at, e)
                raise
            task.add_done_callback(lambda task, at=at: self.done(at, task))

    def wrapped(self, at: int) -> object:
        """The row of a wrapper, or None if that has returned or raised."""
        block = self.block
        try:
            value = self.loop.outside(copy_context().run, self.body, *block.args(at))
        except BaseException as e:
            no_worker()
            block.fail(at, e)
            return None
        no_worker()
        if is_awaitable(value):
            self.settings.awaits = True
            return self.row(at, value)
        block.values[at], self.settings.settled = value, not self.settings.awaits
        return None

    async def row(self, at: int, made: object = None) -> None:
        """One row, whatever it raises. made: what a wrapper has made of the body."""
        block = self.block
        try:
            value = await (self.body(*block.args(at)) if made is None else made)
        except BaseException as e:
            no_worker()
            self.settled.add(at)
            block.fail(at, e)
        else:
            no_worker()
            self.settled.add(at)
            block.values[at] = value

    def done(self, at: int, task: object) -> None:
        """A task has ended; one that was cancelled before it began is a row that failed.

        A body may cancel its own task and return: the task then counts as cancelled, though its row has a value.
        """
        if at in self.settled:
            self.settled.discard(at)
        elif task.cancelled():
            self.block.fail(at, self.loop.cancelled())
        if self.tasks.pop(at, None) is not None:
            self.more()
            if not self.tasks:
                self.loop.loop.stop()


class BrokenLoop(RuntimeError):
    """A body has closed the event loop, or runs another one within it."""


class Loop:
    """The event loop of this worker, run in the main thread during calls. Bodies may do to it what they like."""

    def __init__(self) -> None:
        asyncio = library("asyncio")
        self._task, self.cancelled = asyncio.Task, asyncio.CancelledError
        self._leave, self._running = asyncio._set_running_loop, asyncio._get_running_loop
        try:
            self.loop = asyncio.new_event_loop()
        except BaseException as e:  # of a policy that a file has set
            report(e)
            self.loop = asyncio.SelectorEventLoop()

    def outside(self, call: object, *args: object) -> object:
        """The value of a call that finds no loop running, though callbacks of this one may make it."""
        running = self._running()
        self._leave(None)
        try:
            return call(*args)
        finally:
            self._leave(running)

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
                no_worker()
                report(e)  # of what a body has left behind, or of a signal handler


def worker_loop() -> Loop:
    """The loop of this worker, a new one if it has none or its was closed."""
    found = _state["loop"]
    if found is None or found.loop.is_closed():
        found = _state["loop"] = Loop()
    return found


def run(awaitable: object) -> object:
    """Await on the worker's event loop, in a task of its own: the result, or what it raises. Main thread only."""
    ended: list = []
    loop = worker_loop()

    async def whole() -> None:
        try:
            ended.append((await awaitable, None))
        except BaseException as e:
            ended.append((None, e))

    def done(_task: object) -> None:
        if not ended:
            ended.append((None, loop.cancelled()))
        loop.loop.stop()

    task = loop.task(whole())
    task.add_done_callback(done)
    loop.run_while(lambda: not ended)
    no_worker()
    value, error = ended.pop()
    if error is not None:
        raise error
    return value


def is_awaitable(value: object) -> bool:
    """Whether a value is to be awaited."""
    return hasattr(type(value), "__await__")


def awaited(body: object) -> object:
    """An async body, or a wrapper of one, as one that returns its value."""

    def call(*args: object) -> object:
        value = body(*args)
        return run(value) if is_awaitable(value) else value

    return call


def end() -> None:
    """The worker ends: CPython 3.9 crashes over sockets that are open then."""
    found = _state["loop"]
    if found is not None and not found.loop.is_running():
        found.loop.close()
