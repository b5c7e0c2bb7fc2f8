"""What the example server of databend-udf 0.2 serves: the same names, types and meanings."""

import datetime
import logging
import time
from decimal import Decimal
from typing import Any, Optional

from databend_udf import UDFServer, udf

logging.basicConfig(level=logging.INFO)


@udf(input_types=["TINYINT", "SMALLINT", "INT", "BIGINT"], result_type="BIGINT")
def add_signed(a, b, c, d):
    return sum((a, b, c, d))


@udf(input_types=["UINT8", "UINT16", "UINT32", "UINT64"], result_type="UINT64")
def add_unsigned(a, b, c, d):
    return sum((a, b, c, d))


@udf(input_types=["FLOAT", "DOUBLE"], result_type="DOUBLE")
def add_float(a, b):
    return b + a


@udf(input_types=["BOOLEAN", "BIGINT", "BIGINT"], result_type="BIGINT")
def bool_select(condition, a, b):
    return (b, a)[condition]


def divisor(x, y):
    return divisor(y, x % y) if y else x


@udf(name="gcd", input_types=["INT", "INT"], result_type="INT", skip_null=True)
def of_two(x: int, y: int) -> int:
    return divisor(x, y)


@udf(name="gcd_batch", input_types=["INT", "INT"], result_type="INT", batch_mode=True)
def of_columns(x: list[int], y: list[int]) -> list[int]:
    return [None if None in pair else divisor(*pair) for pair in zip(x, y)]


@udf(input_types=["VARCHAR", "VARCHAR", "VARCHAR"], result_type="VARCHAR")
def split_and_join(s: str, split_s: str, join_s: str) -> str:
    return s.replace(split_s, join_s)


@udf(input_types=["BINARY"], result_type="BINARY")
def binary_reverse(s: bytes) -> bytes:
    return bytes(reversed(s))


@udf(input_types="VARCHAR", result_type="DECIMAL(36, 18)")
def hex_to_dec(hex: str) -> Decimal:
    return Decimal(int(hex.strip(), 16))


@udf(input_types=["DECIMAL(36, 18)", "DECIMAL(36, 18)"], result_type="DECIMAL(72, 28)")
def decimal_div(v1: Decimal, v2: Decimal) -> Decimal:
    return (v1 / v2).quantize(Decimal(1).scaleb(-28))


@udf(input_types=["DATE", "INT"], result_type="DATE")
def add_days_py(dt: datetime.date, days: int):
    return datetime.date.fromordinal(dt.toordinal() + days)


@udf(input_types=["TIMESTAMP", "INT"], result_type="TIMESTAMP")
def add_hours_py(dt: datetime.datetime, hours: int):
    return datetime.timedelta(hours=hours) + dt


@udf(input_types=["ARRAY(VARCHAR)", "INT"], result_type="VARCHAR")
def array_access(array: list[str], idx: int) -> Optional[str]:
    return array[idx - 1] if 0 < idx <= len(array) else None


@udf(input_types=["ARRAY(INT64 NULL)", "INT64"], result_type="INT NOT NULL", skip_null=False)
def array_index_of(array: list[int], item: int):
    return array.index(item) + 1 if array and item in array else 0


@udf(input_types=["MAP(VARCHAR,VARCHAR)", "VARCHAR"], result_type="VARCHAR")
def map_access(map: dict[str, str], key: str) -> str:
    return map.get(key)


@udf(input_types=["VARIANT", "VARCHAR"], result_type="VARIANT")
def json_access(data: Any, key: str) -> Any:
    return data[key]


@udf(input_types=["ARRAY(VARIANT)"], result_type="VARIANT")
def json_concat(list: list[Any]) -> Any:
    return list


@udf(
    input_types=["TUPLE(ARRAY(VARIANT NULL), INT, VARCHAR)", "INT", "INT"],
    result_type="TUPLE(VARIANT NULL, VARIANT NULL)",
)
def tuple_access(tup: tuple[list[Any], int, str], idx1: int, idx2: int) -> tuple[Any, Any]:
    one, other = [tup[at - 1] if 0 < at <= len(tup) else None for at in (idx1, idx2)]
    return one, other


SCALARS = [
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "UINT8",
    "UINT16",
    "UINT32",
    "UINT64",
    "FLOAT",
    "DOUBLE",
    "DATE",
    "TIMESTAMP",
    "VARCHAR",
    "VARIANT",
]


def bundle(bool, i8, i16, i32, i64, u8, u16, u32, u64, f32, f64, date, timestamp, varchar, json):
    return bool, i8, i16, i32, i64, u8, u16, u32, u64, f32, f64, date, timestamp, varchar, json


return_all = udf(SCALARS, f"TUPLE({','.join([f'{name} NULL' for name in SCALARS])})", name="return_all")(bundle)
return_all_arrays = udf(
    [f"ARRAY({name})" for name in SCALARS],
    f"TUPLE({','.join([f'ARRAY({name})' for name in SCALARS])})",
    name="return_all_arrays",
)(bundle)
return_all_non_nullable = udf(
    [f"{name} NOT NULL" for name in SCALARS], f"TUPLE({','.join(SCALARS)})", name="return_all_non_nullable"
)(bundle)


@udf(input_types=["INT"], result_type="INT")
def wait(x):
    time.sleep(0.002)
    return x


@udf(input_types=["INT"], result_type="INT", io_threads=32)
def wait_concurrent(x):
    time.sleep(0.002)
    return x


if __name__ == "__main__":
    udf_server = UDFServer("0.0.0.0:8815", metric_location="0.0.0.0:8816")
    for function in (add_signed, of_two, of_columns, return_all, wait, wait_concurrent):
        udf_server.add_function(function)
    udf_server.serve()
