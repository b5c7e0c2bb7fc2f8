"""async def with yield: async iterators, each in a task that stands still between its values."""

from time import monotonic_ns

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.rows import PART_BYTES_MAX, weight
from udfgate_worker.tasks import BrokenLoop, worker_loop
from udfgate_worker.waiting import no_worker


class Steps:
    """An async iterator in a task of its own, which stands still between two calls of take.

    So what its body holds open across a yield, a task group say, stays with one task and one context. Main thread only.
    """

    def __init__(self, iterator: object) -> None:
        self.iterator = iterator
        self.values: list = []
        self.wanted = self.due = self.left = 0
        self.copy = None
        self.full = False
        self.error: BaseException | None = None
        self.closing = self.over = self.going = self.ended = False
        self.loop = self.gate = None

    def take(self, count: int, due: int, copy: object) -> tuple:
        """(values, error): the next values; fewer at the end, in front of what the body has raised, and where `full` is set.

        due: an instant, behind which no value is waited for if there is one; 0: none. copy: as rows.copier, or None.
        """
        self.values, self.wanted, self.due, self.copy = [], count, due, copy
        self.full, self.left = False, PART_BYTES_MAX
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
        loop = worker_loop()
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
        no_worker()

    async def _live(self) -> None:
        step = self.iterator.__anext__
        try:
            while not self.closing:
                while len(self.values) < self.wanted:
                    value = await step()
                    self.left -= weight(value)
                    self.values.append(value if self.copy is None else self.copy(value))
                    if self.left <= 0 or (self.due and monotonic_ns() >= self.due):
                        self.full = True
                        break
                value = None  # the caller may be long in taking the part
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
        self.ended = True

    def _done(self, task: object) -> None:
        self.over = True
        if task.cancelled() and not self.ended:  # else the body has cancelled its own task, and come to its end
            self.error = self.loop.cancelled()
        self._stop()

    def _stop(self) -> None:
        self.going = False
        self.loop.loop.stop()
