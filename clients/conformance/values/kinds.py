"""The types that the tests declare, and how a value is told in words: shared by tests and worker, of the standard library alone."""

from __future__ import annotations

import datetime
import decimal

MODES = ("row", "list", "arrow", "numpy", "pandas", "polars")

# Names for tests → types as a served file declares them.
DECLARED = {
    "bool": "bool",
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INT",
    "int64": "BIGINT",
    "uint8": "uint8",
    "uint16": "uint16",
    "uint32": "uint32",
    "uint64": "UBIGINT",
    "float16": "halffloat",
    "float32": "REAL",
    "float64": "DOUBLE",
    "utf8": "VARCHAR",
    "large_utf8": "large_string",
    "binary": "BYTEA",
    "large_binary": "large_binary",
    "fixed_size_binary": "fixed_size_binary[5]",
    "null": "null",
    "decimal32": "decimal32(7, 2)",
    "decimal64": "decimal64(16, 4)",
    "decimal128": "DECIMAL(38, 10)",
    "decimal128_whole": "DECIMAL(9)",
    "decimal128_hundreds": "decimal128(5, -2)",
    "decimal256": "DECIMAL(76, 20)",
    "date32": "DATE",
    "date64": "date64[ms]",
    "time32_s": "TIME(0)",
    "time32_ms": "TIME(3)",
    "time64_us": "TIME",
    "time64_ns": "TIME(9)",
    "timestamp_s": "TIMESTAMP_S",
    "timestamp_ms": "TIMESTAMP(3)",
    "timestamp_us": "TIMESTAMP",
    "timestamp_ns": "TIMESTAMP_NS",
    "timestamp_utc": "TIMESTAMPTZ",
    "timestamp_pacific": "timestamp[us, tz=America/Los_Angeles]",
    "timestamp_offset": "timestamp[ms, tz=+05:30]",
    "timestamp_ns_berlin": "timestamp[ns, tz=Europe/Berlin]",
    "duration_s": "duration[s]",
    "duration_ms": "duration[ms]",
    "duration_us": "duration[us]",
    "duration_ns": "duration[ns]",
    "interval": "INTERVAL",
    "list_int64": "BIGINT[]",
    "list_utf8": "ARRAY(VARCHAR)",
    "list_bool": "list<item: bool>",
    "list_null": "list<item: null>",
    "list_float32": "REAL[]",
    "list_decimal": "DECIMAL(20, 3)[]",
    "list_timestamp": "TIMESTAMP[]",
    "list_list": "INT[][]",
    "list_struct": "list<item: struct<a: int64, b: string>>",
    "list_map": "list<item: map<string, int64>>",
    "large_list": "large_list<item: binary>",
    "fixed_list": "fixed_size_list<item: float>[3]",
    "fixed_list_utf8": "VARCHAR[2]",
    "fixed_fixed": "SMALLINT[2][2]",
    "struct": "STRUCT<a BIGINT, b VARCHAR, c BOOLEAN>",
    "struct_deep": "struct<p: struct<q: list<item: int32>, r: date32[day]>, s: decimal128(10, 2)>",
    "struct_one": "STRUCT<only TIMESTAMPTZ>",
    "map_utf8": "MAP(VARCHAR, BIGINT)",
    "map_list": "map<int32, list<item: string>>",
    "map_date": "MAP(DATE, STRUCT<x DOUBLE>)",
    "uuid": "UUID",
    "json": "JSON",
    "json_arrow": "extension<arrow.json>",
    "list_uuid": "UUID[]",
    "struct_json": "STRUCT<j JSON, n INT>",
}

# More types of results.
MORE = {
    "strict_list": "ARRAY(INT NOT NULL)",
    "strict_struct": "STRUCT<a INT NOT NULL, b VARCHAR>",
    "strict_map": "MAP(VARCHAR, INT NOT NULL)",
    "pair_struct": "STRUCT<a INT, b VARCHAR>",
    "decimal_cents": "DECIMAL(5, 2)",
    "nested": "STRUCT<rows STRUCT<n INT, day DATE>[]>",
}

# What polars has no type for: a file that declares these in mode polars does not load.
UNSERVED = {("polars", key) for key in ("decimal128_hundreds", "decimal256", "timestamp_offset", "interval")}


def served(mode: str) -> dict[str, str]:
    """The declared types that a mode has."""
    return {key: declared for key, declared in DECLARED.items() if (mode, key) not in UNSERVED}


def tell(value: object) -> str:
    """The class and the value, so that 1, True, 1.0 and '1' differ, and so do a dict and a list of pairs."""
    if value is None:
        return "None"
    if isinstance(value, datetime.datetime):
        return f"datetime {value.isoformat()} {_zone(value)}"
    if isinstance(value, list):
        return "[" + ", ".join([tell(item) for item in value]) + "]"
    if isinstance(value, tuple):
        return type(value).__name__ + "(" + ", ".join([tell(item) for item in value]) + ")"
    if isinstance(value, dict):
        return "{" + ", ".join([f"{tell(key)}: {tell(item)}" for key, item in value.items()]) + "}"
    if isinstance(value, decimal.Decimal):
        return f"Decimal {value.as_tuple()}"
    return f"{type(value).__name__} {value!r}"


def _zone(value: datetime.datetime) -> str:
    """The name of a zone, or UTC and offsets as what they are: libraries spell those differently."""
    if value.tzinfo is None:
        return "naive"
    key = getattr(value.tzinfo, "key", None)
    return key if key and "/" in key else f"offset {value.utcoffset()}"
