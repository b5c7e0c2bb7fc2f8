"""Bodies that wait for something else: several rows at once, in threads (threads.py) or as tasks (tasks.py).

Imported when a file with such a function is loaded, and what it needs itself when a body first waits: asyncio and
threading are some MiB that other workers do without.
"""

import os
from _contextvars import copy_context
from _thread import allocate_lock

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.errors import failed_text, text_of, traceback_of
from udfgate_worker.strict import type_name

ASYNC_ROWS_DEFAULT = 32  # rows of an async body at once, unless io_threads says otherwise

_forked: list = []


os.register_at_fork(after_in_child=lambda: _forked.append(True))


def no_worker() -> None:
    """A body forked, and its child comes back from it: it is no worker."""
    if _forked:
        os._exit(0)


def report(error: BaseException) -> None:
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
