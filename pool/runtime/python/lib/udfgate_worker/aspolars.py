"""polars: columns as its Series, by way of pyarrow."""

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker import asarrow
from udfgate_worker.errors import text_of
from udfgate_worker.kinds import Type
from udfgate_worker.loans import Loan
from udfgate_worker.moments import DAY_MS
from udfgate_worker.strict import Misfit, type_name
from udfgate_worker.typenames import Unserved

_SECONDS_MAX = ((1 << 63) - 1) // 1000
_UNHELD = ("decimal256", "month_day_nano_interval")


class Reader(asarrow.Reader):
    """Makes the Series of one argument. Raises Unserved for what polars has no type for."""

    def __init__(self, type_: Type, name: str) -> None:
        super().__init__(type_)
        self.name = name
        refuse(type_)
        self.finer = finer(self.arrow)
        self.fixed = "fixed_size_list" in str(self.arrow)  # polars 2 does not take one that begins elsewhere than at 0
        try:
            pl.from_arrow(pa.array([], self.finer))
        except BaseException as e:
            raise Unserved(f"{type_} is no type of polars {pl.__version__}: {type_name(e)}: {text_of(e)}") from None

    def read(self, loan: Loan, places: list, lo: int, hi: int, nulls: int) -> tuple:
        """As asarrow.Reader, with a Series."""
        array, bad = super().read(loan, places, lo, hi, nulls)
        if self.fixed and array.offset:
            array = array.take(pa.array(range(len(array))))
        if self.finer != self.arrow:
            array, bad = self._finer(array)
        return pl.from_arrow(array).alias(self.name), bad

    def given(self, values: list) -> pl.Series:
        """As asarrow.Reader, with a Series."""
        return pl.from_arrow(super().given(values).cast(self.finer)).alias(self.name)

    def _finer(self, array: pa.Array) -> tuple:
        try:
            return array.cast(self.finer), {}
        except pa.ArrowInvalid:
            bad = {}
            for at, number in enumerate(array.cast(pa.int64()).to_pylist()):
                if number is not None and abs(number) > _SECONDS_MAX:
                    text = f"argument: wanted what milliseconds hold, got {self.type_} {number}"
                    bad[at] = Misfit("OverflowError", text)
            return array.cast(self.finer, safe=False), bad


def refuse(type_: Type) -> None:
    """Raises Unserved for types with which polars ends in a panic, whatever they are nested in."""
    if type_.kind in _UNHELD:
        raise Unserved(f"{type_} is no type of polars {pl.__version__}")
    for _, child, _ in type_.children:
        refuse(child)


def finer(arrow: pa.DataType) -> pa.DataType:
    """polars' least unit is the millisecond, and it multiplies seconds without a look at the range."""
    if pa.types.is_timestamp(arrow) and arrow.unit == "s":
        return pa.timestamp("ms", arrow.tz)
    if pa.types.is_duration(arrow) and arrow.unit == "s":
        return pa.duration("ms")
    return arrow


def array_of(answer: pl.Series, kind: str) -> "pa.Array | None":
    """The answer as a pyarrow array; None: take it value by value. kind: of the result."""
    if answer.dtype == pl.Object:
        return None
    array = asarrow.array_of(answer.to_arrow())
    if kind == "date64" and array.type == pa.timestamp("ms"):  # what polars makes of a date64
        numbers = array.cast(pa.int64())
        if pc.all(pc.equal(pc.multiply(pc.divide(numbers, DAY_MS), DAY_MS), numbers)).as_py() is not False:
            return numbers.view(pa.date64())
    return array
