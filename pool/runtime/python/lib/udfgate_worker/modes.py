"""Segments off the plain path: calls that keep going, bodies over lists, rows with nulls that the body does not see.

What the body answers comes in pieces, (values, failed): the values of the next block of rows, and the text of each row
of it that failed, by index. Only a call that keeps going has failed rows; any other ends with Stopped.
"""

from itertools import repeat, starmap
from time import monotonic_ns, thread_time_ns

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.errors import Failure, all_rows, encode_failed, failed_text, no_row, raised, text_of
from udfgate_worker.frames import DONE, FAILED, TOO_LARGE
from udfgate_worker.function import Function
from udfgate_worker.keeping import Keeper
from udfgate_worker.region import Region, TooLarge
from udfgate_worker.result import Outcome, Times
from udfgate_worker.segment import Segment, stopped
from udfgate_worker.strict import type_name


class Stopped(Exception):
    """The segment ends with a failure. values: those of the rows before the one that failed; None: no row is to blame."""

    def __init__(self, failure: Failure, values: "list | None" = None) -> None:
        self.failure, self.values = failure, values


class Clock:
    """Nanoseconds of one segment, and of the processor in the body if they are measured."""

    def __init__(self, measure: bool) -> None:
        self.measure = measure
        self.decode = self.body = self.cpu = 0
        self._at = self._cpu = 0

    def start(self) -> None:
        """The body begins."""
        self._at = monotonic_ns()
        if self.measure:
            self._cpu = thread_time_ns()

    def stop(self) -> None:
        """The body has ended."""
        if self.measure:
            self.cpu += thread_time_ns() - self._cpu
        self.body += monotonic_ns() - self._at


def run_special(
    function: Function, segment: Segment, step: int, region: Region, times: Times, measure: bool, keep: bool
) -> Outcome:
    """Run a segment, write the answer into the region, add to the times: segment.run_segment for what is not plain."""
    encoder, clock = function.encoder, Clock(measure)
    row, used, waited = segment.lo, region.used, region.waited
    failure, putting, done = None, False, Outcome(DONE, segment.lo, segment.hi - segment.lo)
    begun = monotonic_ns()
    try:
        keeper = Keeper(encoder, region, done.rows, step) if keep else None
        if keeper is None:
            encoder.begin(region, done.rows, step)
        pieces = _list_pieces if function.listing else _row_pieces
        for values, failed in pieces(function, segment, step, clock, keep):
            putting = True
            if keeper is None:
                encoder.put(values)
            else:
                keeper.put(values, failed)
            putting = False
            row += len(values)
            values = None
        if keeper is None:
            done.column = encoder.end()
        else:
            done.column, done.errors = keeper.end()
    except TooLarge:
        region.used = used
        return Outcome(TOO_LARGE, segment.lo)
    except Stopped as e:
        failure = _first(encoder, row, e)
    except MemoryError as e:
        failure = all_rows(e) if keep else raised(row, e)  # a row that fails alone does not end what keeps going
    except BaseException as e:
        if not putting:  # not over the body's values: a column that cannot be read
            raise
        failure = all_rows(e) if keep else encode_failed(row, e)
    finally:
        times.decode += clock.decode
        times.body += clock.body
        times.cpu += clock.cpu
        spent = clock.decode + clock.body + region.waited - waited
        times.encode += max(0, monotonic_ns() - begun - spent)
    if failure is not None:
        region.used = used
        return Outcome(FAILED, segment.lo, 0, None, failure)
    return done


def _first(encoder: object, row: int, end: Stopped) -> Failure:
    """The smallest row wins: a value in front of a raise may not fit. row: that of the first of end.values."""
    if end.values is None:
        return end.failure
    try:
        encoder.check(end.values)
    except BaseException as e:
        return encode_failed(row, e)
    return end.failure


def _seen(function: Function, segment: Segment, columns: list) -> "list | None":
    """The indices of the rows that the body sees, or None: all of them."""
    if not function.skip or not any([segment.fields[i + 2] for _, i in segment.readers]):
        return None
    seen = [at for at, args in enumerate(zip(*columns)) if None not in args]
    return seen if len(seen) < len(columns[0]) else None


def _spread(values: list, failed: dict, seen: "list | None", rows: int) -> tuple:
    """Values and failed of the rows seen as those of all rows."""
    if seen is None:
        return values, failed
    spread: list = [None] * rows
    for at, value in zip(seen, values):
        spread[at] = value
    return spread, {seen[at]: text for at, text in failed.items()}


def _row_pieces(function: Function, segment: Segment, step: int, clock: Clock, keep: bool):
    body = function.body
    row, number = segment.lo, 0
    while row < segment.hi:
        top = min(row + step, segment.hi)
        at = monotonic_ns()
        columns = [read(segment.fields, i, row, top, number) for read, i in segment.readers]
        seen, count = _seen(function, segment, columns), top - row
        if seen is not None:
            columns = [[column[at] for at in seen] for column in columns]
            count = len(seen)
        calls = map(body, *columns) if columns else starmap(body, repeat((), count))
        columns = None
        clock.decode += monotonic_ns() - at
        values, failed, error = [], {}, None
        clock.start()
        while len(values) < count:
            # map holds the place: after a raise it goes on with the next row. A StopIteration of the body ends extend
            # in silence, and the values are too few then.
            try:
                values.extend(calls)
                if len(values) < count:
                    if not keep:
                        break
                    failed[len(values)] = "StopIteration"
                    values.append(None)
            except BaseException as e:
                if not keep:
                    error = e
                    break
                failed[len(values)] = failed_text(type_name(e), text_of(e))
                values.append(None)
        clock.stop()
        calls = None
        if len(values) < count:
            at = seen[len(values)] if seen is not None else len(values)
            failure, error = stopped(row + at, error), None
            raise Stopped(failure, _spread(values, {}, seen, top - row)[0][:at])
        values, failed = _spread(values, failed, seen, top - row)
        yield values, failed
        row, number, values = top, number + 1, None


def _list_pieces(function: Function, segment: Segment, step: int, clock: Clock, keep: bool):
    rows, at = segment.hi - segment.lo, monotonic_ns()
    columns: list = [[] for _ in segment.readers]
    for number, lo in enumerate(range(segment.lo, segment.hi, step)):
        for column, (read, i) in zip(columns, segment.readers):
            column += read(segment.fields, i, lo, min(lo + step, segment.hi), number)
    seen, count = _seen(function, segment, columns), rows
    if seen is not None:
        columns = [[column[at] for at in seen] for column in columns]
        count = len(seen)
    clock.decode += monotonic_ns() - at
    values, failed, failure = _run_lists(function, columns, count, clock, keep)
    columns = None
    if failure is not None and function.elementwise:
        at = len(values) if seen is None else seen[len(values)]
        failure.row = segment.lo + at
        raise Stopped(failure, _spread(values, {}, seen, rows)[0][:at])
    if failure is not None:
        if not keep or seen is None:
            raise Stopped(failure)
        failed = dict.fromkeys(range(count), failed_text(failure.name, failure.text))  # not the rows with nulls
        values = [None] * count
    values, failed = _spread(values, failed, seen, rows)
    by_block: dict = {}
    for at, text in failed.items():
        by_block.setdefault(at // step, {})[at % step] = text
    # A block's values are taken out of the list: marshal writes what nothing else refers to in a third of the time.
    gone: list = [None] * step
    for number, at in enumerate(range(0, rows, step)):
        block = values[at : at + step]
        values[at : at + step] = gone[: len(block)]
        yield block, by_block.get(number, {})


def _run_lists(function: Function, columns: list, count: int, clock: Clock, keep: bool) -> tuple:
    """(values, failed, None), or (values before the row that raised, {}, its failure).

    Where rows do not depend on each other the rows that raise are found by halving. What is left to run lies on a
    stack, the smallest rows on top, so that values come in order. The body gets copies then: it may change its lists.
    """
    values: list = []
    failed: dict = {}
    todo = [(0, count)] if count else []
    while todo:
        lo, hi = todo.pop()
        args = [column[lo:hi] for column in columns] if function.elementwise else columns
        clock.start()
        try:
            result, error = function.body(*args), None
        except BaseException as e:
            result, error = None, e
        clock.stop()
        args = None
        if error is None:
            values += _listed(result, hi - lo)
        elif function.elementwise and hi - lo > 1:
            middle = (lo + hi) // 2
            todo += [(middle, hi), (lo, middle)]
        elif function.elementwise and keep:
            failed[lo] = failed_text(type_name(error), text_of(error))
            values.append(None)
        else:
            failure, error = raised(0, error) if function.elementwise else all_rows(error), None
            return values, failed, failure
    return values, failed, None


def _listed(result: object, wanted: int) -> "list | tuple":
    """The results of a list body. Raises Stopped if they are none, or too few or many."""
    kind = type(result)
    base = list if issubclass(kind, list) else tuple if issubclass(kind, tuple) else None
    if base is None:
        got = "None" if result is None else type_name(result)
        raise Stopped(no_row(f"wanted a list of {wanted} results, got {got}"))
    if base.__len__(result) != wanted:
        raise Stopped(no_row(f"wanted {wanted} results, got {base.__len__(result)}"))
    return result if kind is base else list(base.__iter__(result))
