"""Whether an answer is the value that a body returned: told from the value alone, with no look at the gateway's rules."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import math
import operator
import struct
import uuid

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

MORE_KINDS = {"decimal_cents": pa.decimal128(5, 2)}
_EPOCH = dt.datetime(1970, 1, 1)
_FORMATS = {16: "<e", 32: "<f", 64: "<d"}


def means(kind: pa.DataType, value: object, got: object) -> bool:
    """got: of seen.values_of."""
    if value is None or got is None:
        return value is None and got is None
    is_ = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return got == (value if isinstance(value, uuid.UUID) else uuid.UUID(bytes=bytes(value)))
    if is_.is_boolean(kind):
        return isinstance(value, (bool, np.bool_)) and got is bool(value)
    if is_.is_integer(kind):
        return not isinstance(value, (float, np.floating, decimal.Decimal)) and operator.index(_int(value)) == got
    if is_.is_floating(kind):
        return _same_float(kind.bit_width, value, got)
    if is_.is_string(kind) or is_.is_large_string(kind):
        return isinstance(value, str) and str.__eq__(value, got) is True
    if is_.is_binary(kind) or is_.is_large_binary(kind) or is_.is_fixed_size_binary(kind):
        return isinstance(value, (bytes, bytearray, memoryview)) and bytes(value) == got
    if is_.is_decimal(kind):
        return _same_decimal(kind, value, got)
    if is_.is_map(kind):
        pairs = list(value.items() if isinstance(value, dict) else value)
        return len(pairs) >= len(got) and all(
            [any(means(kind.key_type, k, key) and means(kind.item_type, v, got[key]) for k, v in pairs) for key in got]
        )
    if is_.is_list(kind) or is_.is_large_list(kind) or is_.is_fixed_size_list(kind):
        sequence = not isinstance(value, (str, bytes, bytearray, dict, set, frozenset, memoryview))
        items = list(value) if sequence else []
        return (
            sequence
            and len(items) == len(got)
            and all([means(kind.value_type, one, other) for one, other in zip(items, got)])
        )
    if is_.is_struct(kind):
        found = _members(value)
        known = {kind.field(at).name: kind.field(at).type for at in range(kind.num_fields)}
        return (
            found is not None
            and set(found) <= set(known)
            and all([means(known[name], found.get(name), got[name]) for name in known])
        )
    return _same_moment(kind, value, got)


def _int(value: object) -> object:
    return int(value) if isinstance(value, np.bool_) else value


def _members(value: object) -> dict | None:
    if isinstance(value, dict):
        return dict(value)
    if dataclasses.is_dataclass(value):
        return {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    return value._asdict() if hasattr(value, "_asdict") else None


def _same_float(bits: int, value: object, got: float) -> bool:
    if isinstance(value, (bool, np.bool_)):
        return False
    if isinstance(value, (float, np.floating)):
        value = float(value)
        if math.isnan(value) or math.isnan(got):
            return math.isnan(value) and math.isnan(got)
        nearest = struct.unpack(_FORMATS[bits], struct.pack(_FORMATS[bits], value))[
            0
        ]  # raises where it would be infinite
        return nearest == got and math.copysign(1, value) == math.copysign(1, got)
    return operator.index(value) == got


def _same_decimal(kind: pa.DataType, value: object, got: decimal.Decimal) -> bool:
    if isinstance(value, (bool, np.bool_)):
        return False
    if isinstance(value, float):
        value = decimal.Decimal(float.__repr__(value))
    elif not isinstance(value, decimal.Decimal):
        value = decimal.Decimal(operator.index(value))
    return got == value and got.as_tuple().exponent == -kind.scale


def _same_moment(kind: pa.DataType, value: object, got: object) -> bool:
    is_ = pa.types
    if is_.is_interval(kind):
        if isinstance(value, dt.timedelta):
            value = (0, value.days, (value.seconds * 10**6 + value.microseconds) * 1000)
        return isinstance(value, tuple) and tuple(map(operator.index, value)) == tuple(got)
    if getattr(value, "nanosecond", 0) or (isinstance(value, pd.Timedelta) and value.nanoseconds):
        return type(got) is type(value) and got == value
    if is_.is_date(kind):
        day = isinstance(value, dt.date) and not isinstance(value, dt.datetime)
        return (day or getattr(value, "of_array", False)) and dt.date(value.year, value.month, value.day) == got
    if is_.is_time(kind):
        return isinstance(value, dt.time) and value.tzinfo is None and value.replace(fold=0) == got
    if is_.is_timestamp(kind):
        if not isinstance(value, dt.datetime) or (value.utcoffset() is None) != (kind.tz is None):
            return False
        return value.astimezone(dt.timezone.utc) == got if kind.tz else _micros(value) == _micros(got)
    return isinstance(value, dt.timedelta) and value == got


def _micros(value: dt.datetime) -> int:
    value = dt.datetime(value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond)
    return (value - _EPOCH) // dt.timedelta(microseconds=1)


class _Midnight(dt.datetime):
    """A moment of an array of moments, which a column of days takes where it is a day's begin."""

    of_array = True


def pieces(answer: object) -> list:
    """The values of an array or Series, what is missing as None."""
    if isinstance(answer, pa.Array):
        return [_date64(answer.type, value) for value in answer.to_pylist()]
    if isinstance(answer, pl.Series):
        return answer.to_list()
    if isinstance(answer, pd.Series):
        values = [None if value is pd.NA or value is pd.NaT or value is None else value for value in answer]
        return [value.item() if isinstance(value, np.generic) else _of_pandas(value) for value in values]
    mask = np.ma.getmaskarray(answer).tolist() if isinstance(answer, np.ma.MaskedArray) else [False] * len(answer)
    return [None if gone else _of_numpy(value) for value, gone in zip(np.asarray(answer), mask)]


def _date64(kind: pa.DataType, value: object) -> object:
    return value


def _of_pandas(value: object) -> object:
    return value.to_pydatetime() if isinstance(value, pd.Timestamp) and not value.nanosecond else value


def _of_numpy(value: object) -> object:
    if not isinstance(value, (np.datetime64, np.timedelta64)):
        return value
    if np.isnat(value):
        return None
    made = value.astype(f"{value.dtype.kind}8[us]").item()
    if (
        value.dtype != f"{value.dtype.kind}8[us]"
        and not isinstance(made, int)
        and np.datetime_data(value.dtype)[0] == "ns"
        and int(value.view("i8")) % 1000
    ):
        return value
    if isinstance(made, dt.datetime):
        if np.datetime_data(value.dtype)[0] == "D":
            return made.date()
        return _Midnight(*made.timetuple()[:6], made.microsecond)
    return made
