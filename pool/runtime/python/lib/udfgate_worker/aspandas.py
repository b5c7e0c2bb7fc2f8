"""pandas: columns as its Series, of nullable dtypes, so that a null changes no other row; answers of its classes.

A body may change its Series: they are copies.
"""

import sys

import numpy as np
import pandas as pd

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker import asnumpy
from udfgate_worker.kinds import Type
from udfgate_worker.loans import Loan

_MASKED = (pd.arrays.IntegerArray, pd.arrays.FloatingArray, pd.arrays.BooleanArray)


class Reader(asnumpy.Reader):
    """Makes the Series of one argument."""

    def __init__(self, type_: Type, name: str) -> None:
        super().__init__(type_)
        self.name, kind = name, self.type_.kind
        self.text = kind in ("utf8", "large_utf8") and self.plain
        self.zone = self.type_.zone

    def read(self, loan: Loan, places: list, lo: int, hi: int, nulls: int) -> tuple:
        """As asnumpy.Reader, with a Series."""
        if self.tree is not None:
            values, bad = self.values(loan, places, lo, hi)
            return self._objects(values), bad
        values, mask, bad = self.numbers(loan, places, lo, hi, nulls, True)
        return self._made(values, mask), bad

    def given(self, values: list) -> pd.Series:
        """As asnumpy.Reader, with a Series."""
        return self._objects(values) if self.tree is not None else self._made(*self._parts(values))

    def _objects(self, values: list) -> pd.Series:
        made = pd.array(values, dtype="string") if self.text else asnumpy.objects(values).copy()
        return pd.Series(made, name=self.name, dtype=None if self.text else "object")

    def _made(self, values: np.ndarray, mask: "np.ndarray | None") -> pd.Series:
        if self.moment:
            return pd.Series(self._moments(values, mask), name=self.name)
        mask = np.zeros(len(values), "?") if mask is None else mask
        if values.dtype.itemsize == 2 and values.dtype.kind == "f":
            values = values.astype("f4")  # pandas has no Float16
        made = {"b": pd.arrays.BooleanArray, "f": pd.arrays.FloatingArray}.get(
            values.dtype.kind, pd.arrays.IntegerArray
        )
        return pd.Series(made(values, mask), name=self.name)

    def _moments(self, values: np.ndarray, mask: "np.ndarray | None") -> object:
        if self.type_.kind == "date32":
            values = values * 86_400
        if mask is not None:
            values[mask] = asnumpy.NAT
        if self.type_.kind == "date32":
            return values.view("M8[s]")
        made = values.view(self.moment)
        return pd.Series(made).dt.tz_localize("UTC").dt.tz_convert(self.zone).array if self.zone else made


def parts_of(answer: object, zoned: bool) -> "tuple | None":
    """(values, mask or None) of a Series, an Index or an array of pandas'; None: take it value by value.

    zoned: whether the column is of instants. A Series with a zone is none without one, and the other way round.
    """
    dtype = answer.dtype
    if isinstance(dtype, np.dtype):
        if dtype.kind == "O" or (dtype.kind == "M" and zoned):
            return None
        return np.asarray(answer), None
    if isinstance(dtype, pd.DatetimeTZDtype):
        if not zoned:
            return None
        return np.asarray(pd.Series(answer).dt.tz_convert("UTC").dt.tz_localize(None)), None
    answer = pd.Series(answer).array
    if not isinstance(answer, _MASKED):
        return None
    kind, mask = dtype.numpy_dtype, np.asarray(answer.isna(), "?")
    return answer.to_numpy(kind, na_value=kind.type(0)), mask if mask.any() else None


def arrow_of(answer: object) -> "object | None":
    """The pyarrow array in an answer of an ArrowDtype, or None."""
    if type(answer.dtype).__name__ != "ArrowDtype" or "pyarrow" not in sys.modules:
        return None
    return pd.Series(answer).array.__arrow_array__()


def listed(answer: object) -> list:
    """An answer as values for the strict rules.

    pd.NA, NaT and None are null. NaN is what it is in an object Series and null in the dtypes whose mark of a missing
    value it is: text and categories.
    """
    values = list(answer)
    if not isinstance(answer.dtype, np.dtype) and len(values):
        gone = np.asarray(answer.isna(), "?").tolist()
        return [None if missing else value for value, missing in zip(values, gone)]
    return [None if value is None or value is pd.NA or value is pd.NaT else value for value in values]


def select(column: pd.Series, seen: "list | slice") -> pd.Series:
    """Rows of a column, counted from 0 again; a copy."""
    return column.iloc[seen].reset_index(drop=True)
