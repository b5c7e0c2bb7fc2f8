"""What the README of databend-udf 0.2 shows: the same names, types and meanings."""

import datetime
import math
import time
from decimal import Decimal
from typing import Optional

from databend_udf import UDFServer, udf


@udf(input_types=["INT", "INT"], result_type="INT")
def add(a: int, b: int) -> int:
    return sum((a, b))


@udf(input_types=["INT"], result_type="INT", skip_null=True)
def double(x: int) -> int:
    return x + x


@udf(input_types=["VARCHAR"], result_type="VARCHAR")
def upper(s: str) -> str:
    return str.upper(s)


@udf(input_types=["DATE", "INT"], result_type="DATE")
def add_days(d: datetime.date, days: int) -> datetime.date:
    return datetime.date.fromordinal(d.toordinal() + days)


@udf(input_types=["DECIMAL(10,2)"], result_type="DECIMAL(10,2)")
def add_tax(price: Decimal) -> Decimal:
    return price + price / 10


@udf(input_types=["ARRAY(INT)"], result_type="INT")
def array_sum(arr: list[int]) -> int:
    return sum(arr)


@udf(input_types=["MAP(VARCHAR, INT)"], result_type="INT")
def map_sum(m: dict[str, int]) -> int:
    return sum([m[key] for key in m])


@udf(input_types=["TUPLE(INT, VARCHAR)"], result_type="VARCHAR")
def tuple_format(t: tuple[int, str]) -> str:
    return "{}: {}".format(*t)


@udf(input_types=["VECTOR(4)"], result_type="VECTOR(4)")
def normalize_vector(v: list[float]) -> list[float]:
    length = math.hypot(*v) if hasattr(math, "hypot") else sum(x * x for x in v) ** 0.5
    return [x / length for x in v] if length else v


@udf(input_types=["INT"], result_type="INT", skip_null=False)
def double_or_zero(x: Optional[int]) -> int:
    return 0 if x is None else x + x


@udf(input_types=["ARRAY(INT NULL)"], result_type="INT", skip_null=False)
def sum_non_null(arr: list[Optional[int]]) -> int:
    return sum([item for item in arr if item is not None])


@udf(input_types=["INT", "INT"], result_type=[("left", "INT"), ("right", "INT"), ("sum", "INT")], batch_mode=True)
def expand_pairs(left: list[int], right: list[int]):
    for one, other in zip(left, right):
        yield {"left": one, "right": other, "sum": one + other}


@udf(input_types=["INT"], result_type="INT", io_threads=32)
def fetch_data(id: int) -> int:
    time.sleep(0.001)
    return id + id


@udf(input_types=["INT"], result_type="INT", max_concurrency=10, concurrency_timeout=30)
def expensive_operation(x: int) -> int:
    return x + x


@udf(input_types=["INT"], result_type="INT", io_threads=32, max_concurrency=5, concurrency_timeout=60)
def api_call(id: int) -> int:
    return id


if __name__ == "__main__":
    server = UDFServer("0.0.0.0:8815")
    server.add_function(add)
    server.serve()
