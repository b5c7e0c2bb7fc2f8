"""Modes arrow, numpy, pandas and polars: a body over whole columns of a library.

Only the libraries of modes that a served file declares are imported, when it is loaded. An answer may be of any of the
four libraries, or a list: what each value becomes depends on the answer alone.
"""

import sys
from _functools import partial

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.arenas import Arenas
from udfgate_worker.decode import holes
from udfgate_worker.errors import all_rows, no_row, text_of
from udfgate_worker.frames import BUFFER, BUFFER_BYTES, COLUMN, COLUMN_BYTES, FORM_ARROW, ProtocolError
from udfgate_worker.kinds import Type, as_type
from udfgate_worker.library import library
from udfgate_worker.loans import Loan
from udfgate_worker.modes import Stopped
from udfgate_worker.strict import BadArguments, type_name
from udfgate_worker.typenames import Unserved
from udfgate_worker.whole import buffers_of

NEEDS = {"arrow": ("pyarrow",), "numpy": ("numpy",), "pandas": ("numpy", "pandas"), "polars": ("polars", "pyarrow")}
_WANTED = "a column of"
_TAKERS_MAX = 64  # classes of answers that are remembered


def storage(type_: "str | Type") -> "str | Type":
    """The type without extensions, as modes arrow and polars have it."""
    if type(type_) is str:
        return type_
    children = tuple([(name, storage(child), nullable) for name, child, nullable in type_.children])
    more = {name: getattr(type_, name) for name in ("unit", "zone", "precision", "scale", "size", "view")}
    return Type(type_.kind, children=children, **more).plain()


def need(mode: str) -> None:
    """Import what a mode needs. Raises Unserved if this interpreter lacks it."""
    for name in NEEDS[mode]:
        try:
            __import__(name)
        except BaseException as e:
            gone = type_name(e) == "ModuleNotFoundError" and getattr(e, "name", "") == name
            why = "which is not installed for" if gone else f"which does not load ({type_name(e)}: {text_of(e)}) in"
            raise Unserved(
                f"mode={mode!r} needs {name}, {why} {sys.executable}; "
                f"install it there, or name an interpreter that has it with --python"
            ) from None


class Vector:
    """How a function in a vector mode is given its columns, and what it answers is taken."""

    def __init__(self, mode: str, names: list, args: list, result: tuple) -> None:
        """args: types by position; result: (type, nullable). Raises Unserved."""
        need(mode)
        self.mode, self.args, self.result = mode, args, result
        self.counts = [buffers_of(as_type(kind)) for kind in args]
        self.readers = self._readers(names)
        self.copies = False  # a call has kept its input
        self.writers: dict = {}
        self.takers: dict = {}  # by class of an answer
        self.asarrow = None  # the module, once it is needed
        if mode in ("arrow", "polars"):
            self._arrow_writer()

    def _readers(self, names: list) -> list:
        types = list(map(as_type, self.args))
        if self.mode == "arrow":
            from udfgate_worker.asarrow import Reader

            return list(map(Reader, types))
        if self.mode == "numpy":
            from udfgate_worker.asnumpy import Reader

            return list(map(Reader, types))
        if self.mode == "pandas":
            from udfgate_worker.aspandas import Reader
        else:
            from udfgate_worker.aspolars import Reader
        return list(map(Reader, types, names))

    def columns(self, buffer: bytearray, at: int, end: int, count: int) -> tuple:
        """((places, nulls) of each column as a CALL has it, where the next segment begins), or (text, 0)."""
        found = []
        for number in range(count):
            if at + COLUMN_BYTES > end:
                raise ProtocolError("CALL ends within a column")
            form, nbuf, arena, nulls = COLUMN.unpack_from(buffer, at)
            at += COLUMN_BYTES
            if at + BUFFER_BYTES * nbuf > end:
                raise ProtocolError("CALL ends within a column")
            places = [(arena, *BUFFER.unpack_from(buffer, at + BUFFER_BYTES * one)) for one in range(nbuf)]
            at += BUFFER_BYTES * nbuf
            if number < len(self.args) and (form != FORM_ARROW or nbuf != self.counts[number]):
                return f"column {number}: {self.args[number]} does not come in form {form} with {nbuf} buffers", 0
            found.append((places, nulls))
        if count != len(self.args):
            return f"wanted {len(self.args)} columns, got {count}", 0
        return found, at

    def read(self, loan: Loan, found: list, names: list, lo: int, hi: int, rows: int) -> tuple:
        """(columns of rows [lo, hi), Misfits by index of rows that cannot be held). rows: of the batch."""
        made, bad = [], {}
        for name, reader, (places, nulls) in zip(names, self.readers, found):
            column, its = reader.read(loan, places, lo, hi, nulls if hi - lo == rows else nulls and -1)
            made.append(column)
            if its:
                bad = {**BadArguments([], its).of(name), **bad}
        return made, bad

    def nulls(self, arenas: Arenas, found: list, lo: int, hi: int) -> list:
        """Indices of the rows of [lo, hi) in which any argument is null."""
        gone = 0
        for kind, (places, nulls) in zip(self.args, found):
            if kind == "null":
                gone = -1
            elif nulls and places[0][2]:
                arena, offset, size = places[0]
                gaps = holes(arenas.raw, (0, arena, nulls, offset, size), 0, lo, hi)
                gone |= int(gaps[::-1] or "0", 2)
        return [at for at in range(hi - lo) if gone >> at & 1] if gone else []

    def select(self, column: object, seen: "list | slice") -> object:
        """Rows of a column; indices need not be many."""
        if self.mode == "pandas":
            from udfgate_worker.aspandas import select

            return select(column, seen)
        if self.mode == "arrow" and type(seen) is list:
            return column.take(sys.modules["pyarrow"].array(seen, "int64"))
        rows = column[seen]
        return rows.copy() if hasattr(rows, "mask") else rows

    def deep(self, columns: list) -> list:
        """Copies of columns of objects, with those in them."""
        deepcopy = library("copy").deepcopy
        if self.mode != "pandas":
            return list(map(deepcopy, columns))
        made = []
        for column in columns:
            if column.dtype == object:
                column = type(column)(deepcopy(column.to_numpy()), name=column.name, dtype=object)
            made.append(column)
        return made

    def loan(self, arenas: Arenas) -> Loan:
        """The loan of one segment."""
        return Loan(arenas, self.copies)

    def take(self, answer: object, wanted: int) -> "list | tuple | Column":
        """What a body answered. Raises Stopped."""
        try:
            taken = self._taken(answer)
            got = len(taken) if taken is not None else 0
        except BaseException as e:
            raise Stopped(all_rows(e)) from None
        if taken is None:
            got = "None" if answer is None else type_name(answer)
            raise Stopped(no_row(f"wanted {_WANTED} {wanted} results, got {got}"))
        if got != wanted:
            raise Stopped(no_row(f"wanted {wanted} results, got {got}"))
        return taken

    def _taken(self, answer: object) -> "list | tuple | Column | None":
        kind = type(answer)
        take = self.takers.get(kind)
        if take is None:
            take = self._taker(kind)
            if len(self.takers) < _TAKERS_MAX:  # a body may make a class in each call
                self.takers[kind] = take
        return take(answer)

    def _taker(self, kind: type) -> object:
        """What takes answers of a class."""
        if kind is list or kind is tuple:
            return _itself
        kinds = [(one.__module__.partition(".")[0], one.__name__) for one in kind.__mro__]
        names = {name for module, name in kinds if module in ("pyarrow", "numpy", "pandas", "polars")}
        if ("pyarrow", "ChunkedArray") in kinds or ("pyarrow", "Array") in kinds:
            return self._of_arrow
        if ("numpy", "ndarray") in kinds:
            return self._of_numpy
        if ("polars", "Series") in kinds:
            return self._of_polars
        if names & {"Series", "Index", "ExtensionArray"}:
            return self._of_pandas
        base = list if issubclass(kind, list) else tuple if issubclass(kind, tuple) else None
        return _nothing if base is None else lambda answer: list(base.__iter__(answer))

    def _of_arrow(self, answer: object) -> "Column":
        asarrow = self.asarrow
        if asarrow is None:
            from udfgate_worker import asarrow

            self.asarrow = asarrow
        array = asarrow.array_of(answer)
        spread = lambda seen, rows: self._of_arrow(asarrow.spread(array, seen, rows))
        return Column(len(array), lambda: self._arrow_writer().whole(array), lambda: asarrow.listed(array), spread)

    def _arrow_writer(self) -> object:
        if "arrow" not in self.writers:
            from udfgate_worker.asarrow import Writer

            type_, nullable = self.result
            # Elsewhere an extension's values are Python's: their storage is not what a body gives.
            rich = as_type(type_).extension
            self.writers["arrow"] = _Never() if rich else Writer(as_type(type_), nullable)
        return self.writers["arrow"]

    def _of_numpy(self, answer: object) -> "Column | None":
        if answer.ndim != 1:
            return None
        from udfgate_worker.asnumpy import parts_of

        return self._of_parts(*parts_of(answer))

    def _of_parts(self, values: object, mask: object) -> "Column":
        from udfgate_worker import asnumpy

        if "numpy" not in self.writers:
            self.writers["numpy"] = asnumpy.Writer(*self.result)
        whole = partial(self.writers["numpy"].whole, values, mask)
        spread = lambda seen, rows: self._of_parts(*asnumpy.spread(values, mask, seen, rows))
        return Column(len(values), whole, lambda: asnumpy.listed(values, mask), spread)

    def _of_polars(self, answer: object) -> "list | Column":
        from udfgate_worker.aspolars import array_of

        array = array_of(answer, as_type(self.result[0]).kind)
        return answer.to_list() if array is None else self._of_arrow(array)

    def _of_pandas(self, answer: object) -> "list | Column":
        from udfgate_worker import aspandas

        if getattr(answer, "ndim", 1) != 1:
            return None
        array = aspandas.arrow_of(answer)
        if array is not None:
            return self._of_arrow(array)
        parts = aspandas.parts_of(answer, bool(as_type(self.result[0]).zone))
        return aspandas.listed(answer) if parts is None else self._of_parts(*parts)


def _itself(answer: object) -> object:
    return answer


def _nothing(_answer: object) -> None:
    return None


class _Never:
    def whole(self, _array: object) -> None:
        return None


class Column:
    """An answer that may be taken as a whole."""

    __slots__ = ("listed", "rows", "spread", "whole")

    def __init__(self, rows: int, whole: object, listed: object, spread: object) -> None:
        """whole() gives a Whole, or None; listed() the values for the strict rules; spread(seen, rows) a Column."""
        self.rows, self.whole, self.listed, self.spread = rows, whole, listed, spread

    def __len__(self) -> int:
        return self.rows
