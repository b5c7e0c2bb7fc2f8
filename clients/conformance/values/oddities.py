"""Values as text, and classes of values that bodies return in odd moments: shared by tests and worker."""

from __future__ import annotations

import array
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import typing
import uuid

try:
    from udfgate import Interval
except ImportError:  # in the tests

    class Interval(tuple):
        """As the gateway's."""

        def __new__(cls, months=0, days=0, nanoseconds=0):
            return tuple.__new__(cls, (months, days, nanoseconds))


@dataclasses.dataclass
class Point:
    a: object = None
    b: object = None


class Pair(typing.NamedTuple):
    a: object
    b: object


class Colour(enum.IntEnum):
    RED = 7


class Int(int):
    pass


class Text(str):
    pass


class Float(float):
    pass


class Bytes(bytes):
    pass


class Indexed:
    def __index__(self):
        return 11


class Floating:
    def __float__(self):
        return 1.5


class Rude:
    """Raises at each touch."""

    def __index__(self):
        raise RuntimeError("rude")

    __float__ = __iter__ = __len__ = __eq__ = __bool__ = __repr__ = __index__
    __hash__ = None


class RudeDict(dict):
    def __iter__(self):
        raise RuntimeError("rude")

    items = keys = __getitem__ = __iter__


NAMES = {
    name: value
    for name, value in {
        **globals(),
        "array": array,
        "collections": collections,
        "decimal": decimal,
        "Decimal": decimal.Decimal,
        "fractions": fractions,
        "uuid": uuid,
        "dt": datetime,
        "UTC": datetime.timezone.utc,
        "inf": float("inf"),
        "nan": float("nan"),
    }.items()
    if not name.startswith("_")
}


def use(**modules: object) -> None:
    """More names: of libraries, where they are."""
    NAMES.update(modules)


def made(text: str | None) -> object:
    """The value that a text says; of no text, whatever a library has for it, None."""
    return eval(text, dict(NAMES)) if isinstance(text, str) else None


def arrow_of(values: list, kind: object) -> object:
    """A pyarrow array of numbers that wrap into the type."""
    pa, wide = NAMES["pa"], NAMES["np"]
    dtype = {
        "date32[day]": "i4",
        "date64[ms]": "i8",
        "bool": "?",
        "halffloat": "f2",
        "float": "f4",
        "double": "f8",
    }.get(str(kind), str(kind))
    plain = wide.array([value or 0 for value in values], "i8").astype(dtype)
    whole = (
        pa.array(plain)
        if not str(kind).startswith("date")
        else pa.array(plain * (86_400_000 if dtype == "i8" else 1)).view(kind)
    )
    return pa.compute.if_else(pa.array([value is not None for value in values]), whole, None)


def pandas_of(values: list, dtype: str) -> object:
    """A Series of numbers that wrap into the dtype."""
    np, pd = NAMES["np"], NAMES["pd"]
    plain = np.array([value or 0 for value in values], "i8").astype(
        {"boolean": "?", "object": "O"}.get(dtype, dtype.lower())
    )
    made = pd.Series(plain, dtype=dtype)
    if None in values and dtype not in ("int64", "bool"):
        made[[value is None for value in values]] = None
    return made


def polars_of(values: list, dtype: object) -> object:
    """A Series of numbers, null where they do not fit the dtype."""
    return NAMES["pl"].Series(values, dtype=NAMES["pl"].Int64).cast(dtype, strict=False)


use(arrow_of=arrow_of, pandas_of=pandas_of, polars_of=polars_of)
