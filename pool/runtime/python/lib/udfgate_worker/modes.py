"""Segments off the plain path: calls that keep going, bodies over lists, rows with nulls that the body does not see.

What the body answers comes in pieces, (values, failed): the values of the next block of rows, and the text of each row
of it that failed, by index. Only a call that keeps going has failed rows; any other ends with Stopped.
"""

from _functools import partial
from _operator import getitem
from itertools import repeat, starmap
from time import monotonic_ns, thread_time_ns

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.errors import Failure, all_rows, encode_failed, failed_text, misfit, no_row, raised, text_of
from udfgate_worker.frames import DONE, FAILED, TOO_LARGE, ProtocolError
from udfgate_worker.function import Function
from udfgate_worker.keeping import Keeper
from udfgate_worker.library import library
from udfgate_worker.region import Region, TooLarge
from udfgate_worker.result import Outcome, Times
from udfgate_worker.segment import Segment, read_block, stopped
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
    vector = function.vector
    if vector is None:
        return _run(function, segment, step, region, times, measure, keep)
    segment.loan = loan = vector.loan(region.arenas)
    outcome = _run(function, segment, step, region, times, measure, keep)
    if loan.settle():
        vector.copies = True
    return outcome


def _run(
    function: Function, segment: Segment, step: int, region: Region, times: Times, measure: bool, keep: bool
) -> Outcome:
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
            if type(values) is not list:  # a Whole
                region.used = used
                done.column, keeper = values.write(region), None
            elif keeper is None:
                encoder.put(values)
            else:
                keeper.put(values, failed)
            putting = False
            row += len(values)
            values = None
        if done.column is not None:
            pass
        elif keeper is None:
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


class _Rows:
    """Which rows of some the body sees. `seen`: their indices, or None: all of them. `count`: of them.

    `failed`: texts of rows that Python cannot hold, by index. `stop`: the first of those where the call does not keep
    going, else None; rows from there on are not seen.
    """

    def __init__(self, nulls: list, bad: dict, rows: int, keep: bool) -> None:
        """nulls: indices of rows that are not looked at; bad: Misfits by index of rows that Python cannot hold."""
        self.rows, self.seen, self.failed, self.stop = rows, None, {}, None
        self.count = rows
        if not nulls and not bad:
            return
        unlooked = set(nulls)
        unheld = {at: one for at, one in bad.items() if at not in unlooked}
        seen = [at for at in range(rows) if at not in unlooked and at not in bad]
        if unheld and keep:
            self.failed = {at: failed_text(one.name, one.text) for at, one in unheld.items()}
        elif unheld:
            self.stop = unheld[min(unheld)]
            seen = [at for at in seen if at < self.stop.row]
        if len(seen) < rows:
            self.seen, self.count = seen, len(seen)

    def of(self, columns: list) -> list:
        """The columns as the body sees them."""
        return columns if self.seen is None else [[column[at] for at in self.seen] for column in columns]

    def at(self, number: int) -> int:
        """The index among all rows of one that is seen."""
        return number if self.seen is None else self.seen[number]

    def spread(self, values: list, failed: dict) -> tuple:
        """Values and failed of the rows seen as those of all rows."""
        if self.seen is None:
            return values, failed
        spread: list = [None] * self.rows
        for at, value in zip(self.seen, values):
            spread[at] = value
        return spread, {**{self.seen[at]: text for at, text in failed.items()}, **self.failed}


def _nulls(function: Function, segment: Segment, columns: list) -> list:
    """Indices of the rows that null_handling="skip" hides."""
    if not function.skip or not any([segment.fields[i + 2] for _, i in segment.readers]):
        return []
    return [at for at, args in enumerate(zip(*columns)) if None in args]


def _row_pieces(function: Function, segment: Segment, step: int, clock: Clock, keep: bool):
    run, row, number = partial(_run_rows, function.body), segment.lo, 0
    if function.waiting is not None:
        function.waiting.begin()
        run = function.waiting.run
    while row < segment.hi:
        top = min(row + step, segment.hi)
        at = monotonic_ns()
        columns, bad = read_block(function, segment, row, top, number)
        rows = _Rows(_nulls(function, segment, columns), bad, top - row, keep)
        columns, count = rows.of(columns), rows.count
        clock.decode += monotonic_ns() - at
        values, failed, error = run(columns, count, clock, keep)
        columns = None
        if len(values) < count:
            at = rows.at(len(values))
            failure, error = stopped(row + at, error), None
            raise Stopped(failure, rows.spread(values, {})[0][:at])
        values, failed = rows.spread(values, failed)
        if rows.stop is not None:
            raise Stopped(misfit(row, rows.stop), values[: rows.stop.row])
        yield values, failed
        row, number, values = top, number + 1, None


def _run_rows(body: object, columns: list, count: int, clock: Clock, keep: bool) -> tuple:
    """(values, failed, error) of a block: the values before the row that raised, unless the call keeps going."""
    calls = map(body, *columns) if columns else starmap(body, repeat((), count))
    values, failed = [], {}
    clock.start()
    try:
        while len(values) < count:
            # map holds the place: after a raise it goes on with the next row. A StopIteration of the body ends extend
            # in silence, and the values are too few then.
            try:
                values.extend(calls)
                if len(values) < count:
                    if not keep:
                        return values, failed, None
                    failed[len(values)] = "StopIteration"
                    values.append(None)
            except BaseException as e:
                if not keep:
                    return values, failed, e
                failed[len(values)] = failed_text(type_name(e), text_of(e))
                values.append(None)
        return values, failed, None
    finally:
        clock.stop()


def _list_pieces(function: Function, segment: Segment, step: int, clock: Clock, keep: bool):
    total, at = segment.hi - segment.lo, monotonic_ns()
    read = partial(_read_lists if function.vector is None else _read_vectors, function, segment, step, keep)
    columns, rows = read()
    clock.decode += monotonic_ns() - at
    if rows.stop is not None and not function.elementwise:  # the body sees all rows or none
        raise Stopped(misfit(segment.lo, rows.stop))
    values, failed, failure = _run_lists(function, columns, rows.count, clock, keep, read)
    columns = None
    if type(values) is not list:  # a Column
        whole = _whole(values, rows)
        if whole is not None:
            yield whole, {}
            return
        values = _valued(values)
    if failure is not None and function.elementwise:
        at = rows.at(len(values))
        failure.row = segment.lo + at
        raise Stopped(failure, rows.spread(values, {})[0][:at])
    if failure is not None:
        if not keep or rows.seen is None:
            raise Stopped(failure)
        failed = dict.fromkeys(range(rows.count), failed_text(failure.name, failure.text))  # not the rows with nulls
        values = [None] * rows.count
    values, failed = rows.spread(values, failed)
    if rows.stop is not None:
        raise Stopped(misfit(segment.lo, rows.stop), values[: rows.stop.row])
    by_block: dict = {}
    for at, text in failed.items():
        by_block.setdefault(at // step, {})[at % step] = text
    # A block's values are taken out of the list: marshal writes what nothing else refers to in a third of the time.
    gone: list = [None] * step
    for number, at in enumerate(range(0, total, step)):
        block = values[at : at + step]
        values[at : at + step] = gone[: len(block)]
        yield block, by_block.get(number, {})


def _read_lists(function: Function, segment: Segment, step: int, keep: bool) -> tuple:
    """(the columns of a segment as the body sees them, its _Rows)."""
    columns: list = [[] for _ in segment.readers]
    bad: dict = {}
    for number, lo in enumerate(range(segment.lo, segment.hi, step)):
        block, unheld = read_block(function, segment, lo, min(lo + step, segment.hi), number)
        for at_row, one in unheld.items():
            one.row = lo - segment.lo + at_row
            bad[one.row] = one
        for column, values in zip(columns, block):
            column += values
    rows = _Rows(_nulls(function, segment, columns), bad, segment.hi - segment.lo, keep)
    return rows.of(columns), rows


def _read_vectors(function: Function, segment: Segment, _step: int, keep: bool) -> tuple:
    vector, loan, lo, hi = function.vector, segment.loan, segment.lo, segment.hi
    if lo == hi:
        return [], _Rows([], {}, 0, keep)
    try:
        columns, bad = vector.read(loan, segment.found, function.names, lo, hi, segment.rows)
    except Exception as e:  # what the library itself does not take
        if issubclass(type(e), ProtocolError):
            raise
        raise Stopped(all_rows(e)) from None
    for at, one in bad.items():
        one.row = at
    nulls = vector.nulls(loan.arenas, segment.found, lo, hi) if function.skip else []
    rows = _Rows(nulls, bad, hi - lo, keep)
    if rows.seen is not None:
        columns = [vector.select(column, rows.seen or slice(0, 0)) for column in columns]
    return columns, rows


def _whole(column: object, rows: _Rows) -> object:
    """An answer as a Whole, or None if it has to be taken value by value."""
    if rows.failed or rows.stop is not None:
        return None
    try:
        return (column if rows.seen is None else column.spread(rows.seen, rows.rows)).whole()
    except Exception:
        return None


def _valued(column: object) -> list:
    """The values of an answer for the strict rules."""
    try:
        return column.listed()
    except BaseException as e:
        raise Stopped(all_rows(e)) from None


def _run_lists(function: Function, columns: list, count: int, clock: Clock, keep: bool, again: object) -> tuple:
    """(values, failed, None), or (values before the row that raised, {}, its failure).

    Where rows do not depend on each other the rows that raise are found by halving. What is left to run lies on a
    stack, the smallest rows on top, so that values come in order. The body gets copies then: it may change its lists,
    and what they hold: again() reads it anew, for deep copies from then on.
    """
    values: list = []
    failed: dict = {}
    most = function.rows_max if function.elementwise and function.rows_max else count
    todo = [(lo, min(lo + most, count)) for lo in range(0, count, most or 1)][::-1]
    copied = None
    cut, take, vector = getitem, listed_results, function.vector
    if vector is not None:
        cut, take = vector.select, vector.take
    while todo:
        lo, hi = todo.pop()
        args = [cut(column, slice(lo, hi)) for column in columns] if function.elementwise else columns
        args = args if copied is None else copied(args)
        counts = _counts()
        clock.start()
        try:
            result, error = function.body(*args), None
        except BaseException as e:
            result, error = None, e
        clock.stop()
        args = None
        if error is None:
            taken = take(result, hi - lo)
            result = None
            if type(taken) is list or type(taken) is tuple:
                values += taken
            elif hi - lo == count:
                values = taken
            else:
                values += _valued(taken)
        elif function.elementwise and hi - lo > 1:
            error = None  # its traceback has this frame, and so the columns
            _recount(counts)  # its rows are run again, and count then
            middle = (lo + hi) // 2
            todo += [(middle, hi), (lo, middle)]
            if function.mutable and copied is None:
                (columns, _), copied = again(), library("copy").deepcopy if vector is None else vector.deep
        elif function.elementwise and keep:
            failed[lo], error = failed_text(type_name(error), text_of(error)), None
            values.append(None)
        else:
            failure, error = raised(0, error) if function.elementwise else all_rows(error), None
            return values, failed, failure
    return values, failed, None


def _counts() -> dict:
    """What the bodies of this call have counted (udfgate.counter) so far."""
    from udfgate_worker.call import Calls

    return {} if Calls.only.asking is None else Calls.only.asking.counted()


def _recount(counts: dict) -> None:
    """Forget what was counted by an attempt whose answer is not used. counts: what there was before it."""
    from udfgate_worker.call import Calls

    if Calls.only.asking is not None:
        Calls.only.asking.recount(counts)


def listed_results(result: object, wanted: int) -> "list | tuple":
    """The results of a list body. Raises Stopped if they are none, or too few or many."""
    kind = type(result)
    base = list if issubclass(kind, list) else tuple if issubclass(kind, tuple) else None
    if base is None:
        got = "None" if result is None else type_name(result)
        try:
            type.__getattribute__(kind, "tolist")  # past any metaclass
            got += " (.tolist() makes one)"
        except BaseException:
            pass
        raise Stopped(no_row(f"wanted a list of {wanted} results, got {got}"))
    if base.__len__(result) != wanted:
        raise Stopped(no_row(f"wanted {wanted} results, got {base.__len__(result)}"))
    return result if kind is base else list(base.__iter__(result))
