"""For each type and mode: a function whose answer is what a text says in Python, NOT NULL and nullable."""

from __future__ import annotations

import array  # noqa: F401
import collections  # noqa: F401
import dataclasses
import datetime as dt  # noqa: F401
import decimal  # noqa: F401
import enum
import fractions  # noqa: F401
import typing
import uuid  # noqa: F401
from decimal import Decimal  # noqa: F401

from kinds import MODES, served
from udfgate import Interval, udf  # noqa: F401

UTC = dt.timezone.utc
inf, nan = float("inf"), float("nan")


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


def made(text):
    return None if text is None else eval(text)


MORE = {
    "strict_list": "ARRAY(INT NOT NULL)",
    "strict_struct": "STRUCT<a INT NOT NULL, b VARCHAR>",
    "strict_map": "MAP(VARCHAR, INT NOT NULL)",
    "pair_struct": "STRUCT<a INT, b VARCHAR>",
    "decimal_cents": "DECIMAL(5, 2)",
    "nested": "STRUCT<rows STRUCT<n INT, day DATE>[]>",
}

for _mode in MODES:
    _body = made if _mode == "row" else lambda texts: [made(text) for text in (texts if isinstance(texts, list) else texts.tolist())]
    for _key, _type in {**served(_mode), **MORE}.items():
        for _name, _suffix in (("any", ""), ("sure", " NOT NULL")):
            _name = f"{_name}_{_mode}_{_key}"
            globals()[_name] = udf(
                lambda texts, _body=_body: _body(texts), name=_name, mode=_mode, input_types=["VARCHAR"], result_type=_type + _suffix
            )

    # The answer as a whole, of whatever library.
    for _key, _type in {**served(_mode), **MORE}.items() if _mode != "row" else ():
        _name = f"whole_{_mode}_{_key}"
        globals()[_name] = udf(
            lambda texts: made(texts[0] if isinstance(texts[0], str) else str(texts[0])),
            name=_name,
            mode=_mode,
            input_types=["VARCHAR"],
            result_type=_type,
        )


def _import() -> None:
    import numpy
    import pandas
    import polars
    import pyarrow

    globals().update(np=numpy, pd=pandas, pl=polars, pa=pyarrow)


_import()
