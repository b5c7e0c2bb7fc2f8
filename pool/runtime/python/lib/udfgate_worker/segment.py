"""One segment: its columns as a CALL describes them, and its rows through the body."""

from itertools import repeat, starmap
from time import monotonic_ns, thread_time_ns

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.errors import Failure, encode_failed, misfit, raised
from udfgate_worker.frames import (
    BUFFER,
    BUFFER_BYTES,
    COLUMN,
    COLUMN_BYTES,
    DONE,
    FAILED,
    RAISED,
    SEGMENT,
    SEGMENT_BYTES,
    TOO_LARGE,
    WIDTH_THREE,
    ProtocolError,
)
from udfgate_worker.function import Function
from udfgate_worker.region import Region, TooLarge
from udfgate_worker.result import Outcome, Times
from udfgate_worker.strict import BadArguments

MISSING = (0, 0)
STOPPED = (
    "StopIteration raised by the body; its message and traceback are not available in a block of rows, "
    "call the row alone to see them\n"
)


class Segment:
    """Rows [lo, hi) of a batch: the fields of its columns, and per column a reader and where its fields begin."""

    __slots__ = ("fields", "found", "hi", "lo", "loan", "readers", "rows")

    def __init__(self, fields: tuple, readers: list, lo: int, hi: int) -> None:
        self.fields, self.readers, self.lo, self.hi = fields, readers, lo, hi
        # Of vector modes: (places, nulls) of each column, rows of the batch, and what is lent of the input.
        self.found, self.rows, self.loan = None, 0, None


def read_segments(function: Function, buffer: bytearray, at: int, end: int, count: int) -> "list[Segment] | str":
    """Segments of any shape. A str says why the function cannot run on them."""
    segments = []
    for _ in range(count):
        if at + SEGMENT_BYTES > end:
            raise ProtocolError("CALL ends within a segment")
        lo, hi, chosen, columns = SEGMENT.unpack_from(buffer, at)
        if chosen:
            return "row selections are not supported"
        at += SEGMENT_BYTES
        if function.vector is not None:
            found, then = function.vector.columns(buffer, at, end, columns)
            if type(found) is str:
                return found
            segment = Segment((), [], lo, hi)
            segment.found, segment.rows = found, int.from_bytes(buffer[at - SEGMENT_BYTES : at][:8], "little")
            segments.append(segment)
            at = then
            continue
        fields: list[int] = []
        for _ in range(columns):
            at = _read_column(fields, buffer, at, end)
        if columns != len(function.args):
            return f"wanted {len(function.args)} columns, got {columns}"
        readers = []
        for number, by_form in enumerate(function.readers):
            form = fields[number * WIDTH_THREE]
            if form not in by_form:
                kind = function.args[number]
                return f"column {number}: {kind} does not come in form {form & 0xFFFF} with {form >> 16} buffers"
            readers.append((by_form[form][1], number * WIDTH_THREE))
        segments.append(Segment(tuple(fields), readers, lo, hi))
    if at != end:
        raise ProtocolError(f"{end - at} bytes after the segments of a CALL")
    return segments


def _read_column(fields: list, buffer: bytearray, at: int, end: int) -> int:
    """Append the WIDTH_THREE fields of the column at `at`, missing buffers as zeros; where the next begins."""
    if at + COLUMN_BYTES > end:
        raise ProtocolError("CALL ends within a column")
    form, count, arena, nulls = COLUMN.unpack_from(buffer, at)
    at += COLUMN_BYTES
    if at + BUFFER_BYTES * count > end:
        raise ProtocolError("CALL ends within a column")
    buffers = [BUFFER.unpack_from(buffer, at + BUFFER_BYTES * number) for number in range(min(count, 3))]
    fields += (form | count << 16, arena, nulls)
    for pair in buffers + [MISSING] * (3 - len(buffers)):
        fields += pair
    return at + BUFFER_BYTES * count


def stopped(row: int, error: "BaseException | None") -> Failure:
    """Why a block ended early. map takes a StopIteration of the body for its own end, and so loses it."""
    return Failure(row, RAISED, "StopIteration", "", STOPPED) if error is None else raised(row, error)


def read_block(function: Function, segment: Segment, lo: int, hi: int, number: int) -> tuple:
    """The columns of a block, and Misfits by index in it: of rows that Python cannot hold, where values are Misfits."""
    columns, bad = [], {}
    for name, (read, i) in zip(function.names, segment.readers):
        try:
            columns.append(read(segment.fields, i, lo, hi, number))
        except BadArguments as e:
            columns.append(e.values)
            bad = {**e.of(name), **bad}
    return columns, bad


def _held(function: Function, segment: Segment, lo: int, hi: int, number: int) -> tuple:
    """The columns of a block up to its first row that Python cannot hold, and the Misfit of that row."""
    columns, bad = read_block(function, segment, lo, hi, number)
    first = bad[min(bad)]
    return [column[: first.row] for column in columns], first


def run_segment(
    function: Function, segment: Segment, step: int, region: Region, times: Times, measure: bool
) -> Outcome:
    """Run the rows in blocks of `step`, write the answer into the region, add to the times.

    A body's columns are let go before its results are encoded: marshal writes a value that nothing else refers to in
    a third of the time. They are encoded even when a later row of their block raised: the smallest row wins.
    """
    encoder, body = function.encoder, function.body
    fields, readers, lo, hi = segment.fields, segment.readers, segment.lo, segment.hi
    row, number, used, waited = lo, 0, region.used, region.waited
    decode = ran = cpu = clock = 0
    error = failure = values = unheld = None
    begun = at = monotonic_ns()
    try:
        encoder.begin(region, hi - lo, step)
        while row < hi:
            top = row + step if row + step < hi else hi
            at = monotonic_ns()
            try:
                columns = [read(fields, i, row, top, number) for read, i in readers]
            except BadArguments:
                columns, unheld = _held(function, segment, row, top, number)
            values = []
            ready = monotonic_ns()
            if measure:
                clock = thread_time_ns()
            try:
                # extend keeps what map made before a raise, so len(values) is the failing row
                values.extend(map(body, *columns) if columns else starmap(body, repeat((), top - row)))
            except BaseException as e:
                error = e
            if measure:
                cpu += thread_time_ns() - clock
            done = monotonic_ns()
            columns = None
            decode += ready - at
            ran += done - ready
            if len(values) < top - row:
                reached = unheld is not None and len(values) == unheld.row
                failure = misfit(row, unheld) if reached else stopped(row + len(values), error)
                error = None
                encoder.check(values)
                break
            encoder.put(values)
            done = monotonic_ns()
            values = None  # what the body made is let go at the body's cost, as in a loop without a gateway
            ran += monotonic_ns() - done
            row, number = top, number + 1
        at = monotonic_ns()
        column = encoder.end() if failure is None else None
    except TooLarge:
        region.used = used
        return Outcome(TOO_LARGE, lo)
    except MemoryError as e:
        failure = raised(row, e)
    except BaseException as e:
        if values is None:  # not over the body's values: a column that cannot be read
            raise
        failure = encode_failed(row, e)
    finally:
        times.decode += decode
        times.body += ran
        times.cpu += cpu
        times.encode += max(0, monotonic_ns() - begun - decode - ran - (region.waited - waited))
    if failure is not None:
        region.used = used
        return Outcome(FAILED, lo, 0, None, failure)
    return Outcome(DONE, lo, hi - lo, column)
