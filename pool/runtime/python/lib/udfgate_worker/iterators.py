"""What the body of a table function returns, as an iterator over its rows."""

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.strict import Misfit, refusal

GENERATOR = type(_ for _ in ())
_SCALARS = (str, bytes, bytearray, memoryview, dict)  # could be iterated over, which is never what was meant
_WANTED = "an iterable of rows"


def _each(values: object) -> object:
    yield from values


class Awaited:
    """The rows of an async iterator. Several are awaited in one go where they are asked for in one go."""

    def __init__(self, rows: object) -> None:
        from udfgate_worker.steps import Steps

        self.steps = Steps(rows)

    def __iter__(self) -> "Awaited":
        return self

    def __next__(self) -> object:
        for value in self.take(1, 0, None):
            return value
        raise StopIteration

    def take(self, count: int, due: int, copy: object) -> object:
        """Iterate over the next rows; fewer than count at their end, in front of what the body raises, and where a part
        is full: behind the first that comes at the instant due or later, or that weighs too much.
        """
        values, error = self.steps.take(count, due, copy)
        yield from values
        if error is not None:
            raise error

    def close(self) -> None:
        """Close the generator, as its own close does. What is no generator has none."""
        self.steps.close()


def let_go(rows: object) -> None:
    """Close an iterator over rows, if it can be closed, whatever it does about it."""
    try:
        getattr(rows, "close", bool)()
    except BaseException:
        pass


def begun(value: object) -> object:
    """The iterator over the rows that a body has returned. Raises Misfit, and what the value's own code raises."""
    its = type(value)
    if its is GENERATOR:
        if value.gi_frame is None:
            what = "result: wanted a generator for this row, got one that has ended (does a cache keep it?)"
            raise Misfit("ValueError", what)
        return value
    if value is None:
        return iter(())
    if its is list or its is tuple:
        return iter(value)
    if not issubclass(its, _SCALARS):
        if hasattr(its, "__aiter__"):
            return Awaited(value.__aiter__())
        if hasattr(its, "__iter__") or hasattr(its, "__getitem__"):
            return _each(value)
    raise refusal("TypeError", _WANTED, value)
