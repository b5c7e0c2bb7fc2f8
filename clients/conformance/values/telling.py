"""What a body of each mode tells of its column: class, type and value of each row. Tests tell the same of their own columns."""

from __future__ import annotations

from kinds import tell


def tell_list(values):
    assert type(values) is list
    return [tell(value) for value in values]


def tell_arrow(array):
    return [f"{array.type} | {tell(value)}" for value in plain(array)]


def plain(array):
    """pyarrow's own Python values; where those would be pandas', integers."""
    import pyarrow as pa

    if pa.types.is_timestamp(array.type) or pa.types.is_duration(array.type) or pa.types.is_time64(array.type):
        array = array.view(pa.int64())
    return array.to_pylist()


def tell_numpy(array):
    values = array.astype("int64") if array.dtype.kind in "mM" else array
    return [f"{array.dtype} | {tell(value)}" for value in values.tolist()]


def tell_pandas(series):
    import pandas

    told = []
    for value in series:
        if value is pandas.NA or value is pandas.NaT:
            value = None
        if isinstance(value, (pandas.Timestamp, pandas.Timedelta)):
            value = value.asm8.view("i8")
        told.append(f"{series.dtype} | {tell(getattr(value, 'item', lambda: value)())}")  # noqa: B023
    return told


def tell_polars(series):
    values = series.to_physical() if series.dtype.is_temporal() else series
    return [f"{series.dtype} | {tell(value)}" for value in values.to_list()]
