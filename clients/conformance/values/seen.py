"""What a body is to see of a column: by the rules of docs/types.md, made from Arrow's integers without the gateway."""

from __future__ import annotations

import datetime as dt
import json
from zoneinfo import ZoneInfo

import pandas as pd
import polars as pl
import pyarrow as pa
import telling
from kinds import tell

_EPOCH = dt.datetime(1970, 1, 1)
_MICROS = {"s": 10**6, "ms": 1000, "us": 1}


class Interval(tuple):
    """Told as the gateway's class of that name."""


def values_of(array: pa.Array) -> list:
    """The Python values of modes row and list."""
    kind, is_ = array.type, pa.types
    if isinstance(array, pa.ExtensionArray):
        if kind.extension_name == "arrow.json":
            return [None if text is None else json.loads(text) for text in array.storage.to_pylist()]
        return array.to_pylist()
    if is_.is_struct(kind):
        parts = [values_of(array.field(at)) for at in range(kind.num_fields)]
        names = [kind.field(at).name for at in range(kind.num_fields)]
        rows = [dict(zip(names, row)) for row in zip(*parts)]
        return [row if valid else None for row, valid in zip(rows, array.is_valid().to_pylist())]
    if is_.is_map(kind):
        pairs = list(zip(values_of(array.keys), values_of(array.items)))
        return [None if one is None else dict(one) for one in _cut(array, pairs, array.offsets.to_pylist())]
    if is_.is_fixed_size_list(kind):
        ends = [kind.list_size * at for at in range(array.offset, array.offset + len(array) + 1)]
        return _cut(array, values_of(array.values), ends)
    if is_.is_list(kind) or is_.is_large_list(kind):
        return _cut(array, values_of(array.values), array.offsets.to_pylist())
    if is_.is_timestamp(kind) or is_.is_duration(kind):
        numbers = array.view(pa.int64()).to_pylist()
        return [None if number is None else _moment(kind, number) for number in numbers]
    if is_.is_interval(kind):
        return [None if one is None else Interval(one) for one in array.to_pylist()]
    return [float(one) if is_.is_floating(kind) and one is not None else one for one in array.to_pylist()]


def _cut(array: pa.Array, items: list, ends: list) -> list:
    valid = array.is_valid().to_pylist()
    return [items[ends[at] : ends[at + 1]] if valid[at] else None for at in range(len(array))]


def _moment(kind: pa.DataType, number: int) -> object:
    whole, rest = (number // 1000, number % 1000) if kind.unit == "ns" else (number * _MICROS[kind.unit], 0)
    if rest:  # none of Python's
        return pd.Timedelta(number, "ns") if pa.types.is_duration(kind) else pd.Timestamp(number, unit="ns", tz=kind.tz)
    span = dt.timedelta(microseconds=whole)
    if pa.types.is_duration(kind):
        return span
    if not kind.tz:
        return _EPOCH + span
    if kind.tz.startswith("+"):
        hours, minutes = map(int, kind.tz[1:].split(":"))
        zone: dt.tzinfo = dt.timezone(dt.timedelta(hours=hours, minutes=minutes))
    else:
        zone = dt.timezone.utc if kind.tz == "UTC" else ZoneInfo(kind.tz)
    return (_EPOCH + span).replace(tzinfo=dt.timezone.utc).astimezone(zone)


def _json(text: str | None) -> object:
    return None if text is None else json.loads(text)


# Types with an extension that pyarrow's own type does not tell: a row's value, of what values_of makes of it.
MEANT = {
    "json": _json,
    "struct_json": lambda row: {**row, "j": _json(row["j"])},
}


def meant(key: str, array: pa.Array) -> list:
    """The Python values of modes row and list, for the declared type."""
    mean = MEANT.get(key)
    return [value if mean is None or value is None else mean(value) for value in values_of(array)]


def told(mode: str, key: str, array: pa.Array) -> list:
    """What a body of a mode tells of a column."""
    storage = array.storage if isinstance(array, pa.ExtensionArray) else array
    if mode in ("row", "list"):
        return [tell(value) for value in meant(key, array)]
    if mode == "arrow":
        if key == "list_uuid":
            storage = storage.cast(pa.list_(pa.binary(16)))
        return telling.tell_arrow(storage)
    if mode == "polars":
        if pa.types.is_timestamp(storage.type) and storage.type.unit == "s":
            storage = storage.cast(pa.timestamp("ms", storage.type.tz))
        if pa.types.is_duration(storage.type) and storage.type.unit == "s":
            storage = storage.cast(pa.duration("ms"))
        return telling.tell_polars(pl.from_arrow(pa.concat_arrays([storage])))
    dtype, numbers = (numpy_dtype if mode == "numpy" else pandas_dtype)(array)
    if key in MEANT:
        dtype = "object"
    return [f"{dtype} | {tell(value)}" for value in (_numbers(mode, storage) if numbers else meant(key, array))]


def _numbers(mode: str, array: pa.Array) -> list:
    """Moments as integers of the dtype's unit."""
    if pa.types.is_date32(array.type):
        factor = 86_400 if mode == "pandas" else 1
        return [None if n is None else n * factor for n in array.view(pa.int32()).to_pylist()]
    return array.view(pa.int64()).to_pylist()


def _moment_unit(array: pa.Array, day: str) -> str:
    """The dtype of a column of moments, or nothing."""
    kind, is_ = array.type, pa.types
    if is_.is_date32(kind):
        return f"datetime64[{day}]"
    if is_.is_date64(kind):
        return "datetime64[ms]"
    if is_.is_timestamp(kind):
        return f"datetime64[{kind.unit}]"
    return f"timedelta64[{kind.unit}]" if is_.is_duration(kind) else ""


def numpy_dtype(array: pa.Array) -> tuple[str, bool]:
    """(the dtype of mode numpy, whether its values are told as integers of moments)."""
    kind, is_ = array.type, pa.types
    if is_.is_integer(kind):
        return str(kind), False
    if is_.is_floating(kind):
        return f"float{kind.bit_width}", False
    if is_.is_boolean(kind):
        return "bool", False
    moment = _moment_unit(array, "D")
    return (moment, True) if moment else ("object", False)


def pandas_dtype(array: pa.Array) -> tuple[str, bool]:
    """(the dtype of mode pandas, whether its values are told as integers of moments)."""
    kind, is_ = array.type, pa.types
    if is_.is_integer(kind):
        return str(kind).replace("uint", "UInt").replace("int", "Int"), False
    if is_.is_floating(kind):
        return f"Float{max(32, kind.bit_width)}", False
    if is_.is_boolean(kind):
        return "boolean", False
    if is_.is_string(kind) or is_.is_large_string(kind):
        return "string", False
    moment = _moment_unit(array, "s")
    if moment and getattr(kind, "tz", None):
        moment = f"{moment[:-1]}, {'UTC+05:30' if kind.tz[0] == '+' else kind.tz}]"
    return (moment, True) if moment else ("object", False)
