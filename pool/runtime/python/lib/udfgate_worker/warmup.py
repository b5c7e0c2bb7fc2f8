"""warmup=[(1, 2), …]: rows that each worker runs through a function before it is ready."""

from itertools import islice

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.call import Calls
from udfgate_worker.errors import LoadError, text_of, traceback_of
from udfgate_worker.function import Function
from udfgate_worker.modes import Stopped, listed_results
from udfgate_worker.strict import Misfit, exact_values, type_name

TABLE_ROWS_MAX = 1024  # rows that a table function is asked for at most, per warm-up row


class _Wrong(Exception):
    """What is wrong with a warm-up, and the traceback of the body if it raised."""

    def __init__(self, text: str, trace: str = "") -> None:
        super().__init__(text)
        self.text, self.trace = text, trace


def warm(function: Function, rows: list, where: tuple) -> None:
    """Run the rows. LoadError names the first that fails. where: file and line of the body.

    Bodies find a context() in which nobody calls; what they count is dropped.
    """
    calls, place = Calls.only, "warmup"
    calls.warming = function
    try:
        for at, row in enumerate(rows):
            place = f"warmup: row {at}"
            _check(function, row)
        if function.listing:
            place = "warmup"
            _columns(function, [row for row in rows if not _hidden(function, row)])
            return
        for at, row in enumerate(rows):
            place = f"warmup: row {at}"
            if not _hidden(function, row):
                _row(function, row)
    except _Wrong as e:
        error = LoadError(f"{function.canonical}: {place}: {e.text}", *where)
        error.trace = e.trace
        raise error from None
    finally:
        calls.warming = None
        if calls.asking is not None:
            calls.asking.running = None


def _hidden(function: Function, row: list) -> bool:
    """Whether the body does not see a row, for a null in it."""
    return function.skip and any([value is None for value in row])


def _check(function: Function, row: object) -> None:
    if not isinstance(row, (tuple, list)):
        raise _Wrong(f"wanted a tuple of arguments, got {type_name(row)}")
    if len(row) != len(function.args):
        names = ", ".join(function.names)
        noun = "argument" if len(function.args) == 1 else "arguments"
        raise _Wrong(f"wanted {len(function.args)} {noun} ({names}), got {len(row)}")
    if function.vector is not None:
        return  # the library's own rules, as its columns are made
    for name, kind, value in zip(function.names, function.args, row):
        try:
            exact_values(kind, True, [value])
        except Misfit as e:
            raise _Wrong(f"{e.name}: {e.text.replace('result:', f'argument {name}:', 1)}") from None


def _run(body: object, args: list) -> object:
    try:
        return body(*args)
    except BaseException as e:
        raise _raised(e) from None


def _raised(error: BaseException) -> _Wrong:
    text = text_of(error)
    return _Wrong(f"{type_name(error)}: {text}" if text else type_name(error), traceback_of(error))


def _row(function: Function, row: list) -> None:
    value = _run(function.body, row)
    if function.table is not None:
        try:
            values = _rows(value)
        except Misfit as e:
            raise _Wrong(f"{e.name}: {e.text}") from None
        except BaseException as e:
            raise _raised(e) from None
        _exact(function, function.table.tuples(values))
    else:
        _exact(function, [value])


def _rows(value: object) -> list:
    """The first rows of what a table function has returned, which is closed then, whatever it does about that."""
    from udfgate_worker.iterators import begun, let_go

    rows = begun(value)
    try:
        return list(islice(rows, TABLE_ROWS_MAX))
    finally:
        let_go(rows)


def _exact(function: Function, values: list) -> None:
    """Hold the values to the result type, as those of an answer."""
    encoder = function.encoder
    try:
        exact_values(encoder.type_name, encoder.nullable, values)
    except Misfit as e:
        raise _Wrong(f"{e.name}: {e.text}" + (f" (result {e.row})" if len(values) > 1 else "")) from None


def _columns(function: Function, rows: list) -> None:
    """Run a body over columns."""
    if not rows:
        return
    columns = [[row[at] for row in rows] for at in range(len(function.args))]
    vector = function.vector
    try:
        if vector is None:
            _exact(function, listed_results(_run(function.body, columns), len(rows)))
            return
        columns = [_given(function, at, column) for at, column in enumerate(columns)]
        taken = vector.take(_run(function.body, columns), len(rows))
        if type(taken) is list or type(taken) is tuple:
            _exact(function, taken)
        elif not _is_whole(taken):
            _exact(function, taken.listed())
    except Stopped as e:
        failure = e.failure
        raise _Wrong(f"{failure.name}: {failure.text}" if failure.name else failure.text, failure.trace) from None


def _given(function: Function, at: int, values: list) -> object:
    try:
        return function.vector.readers[at].given(values)
    except BaseException as e:
        raise _Wrong(f"argument {function.names[at]}: {type_name(e)}: {text_of(e)}") from None


def _is_whole(column: object) -> bool:
    try:
        return column.whole() is not None
    except Exception:  # the strict rules say why
        return False
