"""RESULT frames, and what is known of a call when one is written."""

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.errors import Failure
from udfgate_worker.frames import (
    BUFFER,
    DONE,
    HEADER,
    RESULT,
    RESULT_COLUMN,
    RESULT_HEAD,
    RESULT_SEGMENT,
)


class Times:
    """Nanoseconds of one call by phase, and of the processor in the body (0: not measured)."""

    __slots__ = ("body", "cpu", "decode", "encode")

    def __init__(self, decode: int = 0, body: int = 0, encode: int = 0) -> None:
        self.decode, self.body, self.encode, self.cpu = decode, body, encode, 0


class Outcome:
    """How one segment ended.

    `column` is the result of a segment that is done: form, blocks, nulls, then offset and length of each buffer.
    `index` is its second column in a table function: the input row of each value. `errors` is its last one, if rows of
    it failed. `failure` is the entry of a failed segment. `lo` is its first row in the batch.
    """

    __slots__ = ("column", "errors", "failure", "index", "lo", "rows", "status")

    def __init__(
        self, status: int, lo: int = 0, rows: int = 0, column: "tuple | None" = None, failure: "Failure | None" = None
    ) -> None:
        self.status, self.lo, self.rows, self.column, self.failure = status, lo, rows, column, failure
        self.index: tuple | None = None
        self.errors: tuple | None = None

    def pack(self) -> bytes:
        """The segment as it stands in the frame: head, columns, error."""
        if self.status == DONE:
            columns = [_column(*one) for one in (self.column, self.index, self.errors) if one is not None]
            return RESULT_SEGMENT.pack(DONE, len(columns), 0, 0, self.rows) + b"".join(columns)
        errors = [] if self.failure is None else [self.failure.pack()]
        return RESULT_SEGMENT.pack(self.status, 0, 0, len(errors), self.rows) + b"".join(errors)


def _column(form: int, blocks: int, nulls: int, *places: int) -> bytes:
    head = RESULT_COLUMN.pack(form, len(places) // 2, blocks, nulls)
    return head + b"".join(map(BUFFER.pack, places[::2], places[1::2]))


def result_frame(
    call: int, stamps: tuple, times: Times, peak: int, where: tuple, outcomes: list, flags: int = 0
) -> bytes:
    """A whole frame. stamps: recv and send; where: arena, base and used bytes of the answer."""
    received, sent = stamps
    arena, base, used = where
    head = RESULT_HEAD.pack(
        received,
        sent,
        times.decode,
        times.body,
        times.encode,
        times.cpu,
        peak,
        arena,
        0,
        base,
        used,
        len(outcomes),
        flags,
        0,
    )
    payload = b"".join([head, *[outcome.pack() for outcome in outcomes]])
    return HEADER.pack(len(payload), RESULT, 0, call) + payload
