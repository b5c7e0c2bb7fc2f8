"""What a body may ask about its call, and what it may count. Loaded when a file first uses one of them."""

import re
from _collections_abc import Mapping
from time import monotonic_ns

from udfgate_worker import asking as _worker

_NAME = re.compile(rf"[A-Za-z_][A-Za-z0-9_]{{0,{_worker.COUNTER_NAME_MAX - 1}}}\Z")
_WHO = "context()"
HEADERS_BYTES_MAX = 64 << 10  # CONTEXT_HEADERS_BYTES_MAX of the gateway


def context() -> "Context":
    """The call that is running: the same object for all of its rows and threads. RuntimeError outside a call."""
    its = _asking(_WHO)
    running = its.current(_WHO)
    if running.kept is None:
        running.kept = Context(its, running)
    return running.kept


def counter(name: str) -> "Counter":
    """A counter of the function that runs: of at most 64 letters, digits and `_`, no digit first."""
    return Counter(name)


def _asking(who: str) -> object:
    found = _worker.asking()
    if found is None:
        raise RuntimeError(_worker.NOT_RUNNING.format(who))
    return found


class Context:
    """One call. Usable while it runs; what had been read of it stays readable, all else raises RuntimeError then.

    The gateway is asked once per call, when the first of call_id, batch, principal and headers is read.
    """

    __slots__ = ("_asking", "_headers", "_logger", "_running", "function")

    def __init__(self, its: object, running: object) -> None:
        self._asking, self._running = its, running
        self._headers = self._logger = None
        self.function = running.function.canonical

    def _fact(self, name: str) -> object:
        facts = self._running.facts
        if facts is None:
            facts = self._asking.ask(self._running, _worker.EVERYTHING, _WHO)
        return facts.get(name)

    @property
    def call_id(self) -> str:
        """The number of the caller's stream, as the gateway's log has it."""
        return str(self._fact("stream"))

    @property
    def batch(self) -> int:
        """The number of the batch in its stream, from 0."""
        return self._fact("batch")

    @property
    def principal(self) -> str:
        """Who calls."""
        return self._fact("principal")

    @property
    def headers(self) -> "Headers":
        """The headers of the request. RuntimeError if not all of them could be passed on."""
        if self._headers is None:
            pairs = self._fact("headers") or []
            if self._fact("cut"):
                raise RuntimeError(
                    f"udfgate.context().headers: the request has more than {HEADERS_BYTES_MAX} bytes of headers "
                    "(CONTEXT_HEADERS_BYTES_MAX), or one that is not UTF-8"
                )
            self._headers = Headers(pairs)
        return self._headers

    def remaining(self) -> "float | None":
        """Seconds until the time limit of this call ends the worker, 0.0 at least; None without a limit."""
        self._asking.alive(self._running, _WHO)
        deadline = self._running.deadline
        return None if deadline is None else max(0, deadline - monotonic_ns()) / 1e9

    def cancelled(self) -> bool:
        """Whether the caller has gone away. Asks the gateway, at most every 10 ms."""
        return self._asking.cancelled(self._running, _WHO)

    @property
    def logger(self) -> object:
        """A logging.Logger that writes to the gateway's log."""
        self._asking.alive(self._running, _WHO)
        if self._logger is None:
            from udfgate.logs import logger

            self._logger = logger(self._asking, self._running)
        return self._logger

    def __repr__(self) -> str:
        return f"<udfgate.context() of {self.function}>"


class Headers(Mapping):
    """Headers by their names in lower case, read-only; several values of one name joined by ", "."""

    __slots__ = ("_values",)

    def __init__(self, pairs: list) -> None:
        self._values: dict = {}
        for name, value in pairs:
            self._values.setdefault(name.lower(), []).append(value)

    def __getitem__(self, name: str) -> str:
        return ", ".join(self._values[name.lower()])

    def __iter__(self) -> object:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def get_all(self, name: str) -> list:
        """The values of one name, one by one."""
        return list(self._values.get(name.lower(), ()))

    def __repr__(self) -> str:
        return f"Headers({dict(self)!r})"


class Counter:
    """A number that is added to the bill and to the metric udfgate_counter_total, once the answer is delivered."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"counter: wanted a name, got {type(name).__name__}")
        if not _NAME.match(name):
            wanted = f"at most {_worker.COUNTER_NAME_MAX} letters, digits and _, no digit first"
            raise ValueError(f"counter: wanted {wanted}, got {name[:80]!r}")
        self.name = name

    def add(self, n: int = 1) -> None:
        """Count n more; 0 is nothing. RuntimeError outside a call."""
        if not isinstance(n, int) or isinstance(n, bool):
            raise TypeError(f"counter {self.name!r}: wanted an int, got {type(n).__name__}")
        if n < 0:
            raise ValueError(f"counter {self.name!r}: wanted a number from 0, got {n}")
        _asking("counter().add()").count(self.name, int(n))

    def __repr__(self) -> str:
        return f"udfgate.counter({self.name!r})"
