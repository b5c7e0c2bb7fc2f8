"""What the test servers of databend-udf 0.2 serve for types, tables, waiting and cancelling."""

import datetime
import logging
import threading
import time
from decimal import Decimal
from typing import Any, Optional

from databend_udf import UDFServer, udf

logging.basicConfig(level=logging.INFO)


@udf(input_types=["BOOLEAN"], result_type="BOOLEAN")
def negate_bool(x: bool) -> bool:
    return x is False


@udf(input_types=["TINYINT"], result_type="TINYINT")
def double_tinyint(x: int) -> int:
    return x + x


@udf(input_types=["INT"], result_type="INT")
def square_int(x: int) -> int:
    return x**2


@udf(input_types=["BIGINT"], result_type="BIGINT")
def increment_bigint(x: int) -> int:
    return 1 + x


@udf(input_types=["FLOAT"], result_type="FLOAT")
def half_float(x: float) -> float:
    return 0.5 * x


@udf(input_types=["DOUBLE"], result_type="DOUBLE")
def double_double(x: float) -> float:
    return x + x


@udf(input_types=["VARCHAR"], result_type="VARCHAR")
def upper_varchar(s: str) -> str:
    return str.upper(s)


@udf(input_types=["BINARY"], result_type="BINARY")
def reverse_binary(b: bytes) -> bytes:
    return bytes(reversed(b))


@udf(input_types=["DECIMAL(10, 2)"], result_type="DECIMAL(10, 2)")
def scale_decimal(x: Decimal) -> Decimal:
    return x + x / 2


@udf(input_types=["DATE"], result_type="DATE")
def next_day(d: datetime.date) -> datetime.date:
    return datetime.date.fromordinal(d.toordinal() + 1)


@udf(input_types=["TIMESTAMP"], result_type="TIMESTAMP")
def add_hour(ts: datetime.datetime) -> datetime.datetime:
    return ts + datetime.timedelta(minutes=60)


@udf(input_types=["VARIANT"], result_type="VARIANT")
def wrap_variant(v: Any) -> Any:
    return {"wrapped" if isinstance(v, dict) else "value": v}


@udf(input_types=["ARRAY(INT)"], result_type="ARRAY(INT)")
def double_array(arr: list[int]) -> list[int]:
    return [item + item for item in arr]


@udf(input_types=["MAP(VARCHAR, INT)"], result_type="MAP(VARCHAR, INT)")
def double_map_values(m: dict[str, int]) -> dict[str, int]:
    return {key: value + value for key, value in m.items()}


@udf(input_types=["INT NULL"], result_type="INT", skip_null=True)
def nullable_double(x: Optional[int]) -> int:
    return x + x


@udf(input_types=["INT NULL"], result_type="INT", skip_null=False)
def nullable_or_zero(x: Optional[int]) -> int:
    return 2 * (x or 0)


@udf(input_types=["INT", "INT"], result_type="INT")
def add_ints(a: int, b: int) -> int:
    return b + a


@udf(input_types=["INT", "INT"], result_type="INT", skip_null=True)
def gcd(x: int, y: int) -> int:
    return gcd(y, x % y) if y else x


SUMS = [("left", "INT"), ("right", "INT"), ("sum", "INT")]


@udf(input_types=["INT", "INT"], result_type=SUMS, batch_mode=True)
def expand_pairs(lhs: list[int], rhs: list[int]):
    return [dict(left=one, right=other, sum=one + other) for one, other in zip(lhs, rhs)]


@udf(input_types=["INT"], result_type=[("value", "BIGINT"), ("square", "BIGINT")], batch_mode=True)
def table_returns_record_batch(nums):
    import pyarrow as pa

    columns = [pa.array(nums, pa.int64()), pa.array([n * n for n in nums], pa.int64())]
    return pa.RecordBatch.from_arrays(columns, ["value", "square"])


@udf(input_types=["INT"], result_type=["INT"], batch_mode=True)
def table_of_one(x):
    import pyarrow as pa

    yield pa.record_batch([pa.array(x, pa.int32())], names=["col0"])


@udf(input_types=["INT"], result_type=[("value", "INT")])
def echo_table(x):
    return [{"value": x}]


@udf(input_types=["INT"], result_type=[("n", "INT"), ("text", "VARCHAR")])
def in_every_form(form):
    """Rows in the forms that a table function may give them."""
    if form == 0:
        return None
    if form == 1:
        return {"n": 1, "text": "a"}
    if form == 2:
        return {"n": [1, 2], "text": ["a", "b"]}
    if form == 3:
        return [(1, "a"), [2, "b"]]
    return iter([{"n": 1, "text": "a"}, {"n": [2], "text": ["b"]}])


@udf(input_types=["INT"], result_type=[("n", "INT NOT NULL"), ("text", "VARCHAR")])
def in_wrong_form(form):
    import pyarrow as pa

    if form == 0:
        yield {"n": 1}
    elif form == 1:
        yield {"n": [1, 2], "text": ["a"]}
    elif form == 2:
        yield (1, "a", True)
    elif form == 3:
        yield 5
    elif form == 4:
        yield pa.table({"n": [1]})
    elif form == 5:
        yield (None, "a")
    elif form == 6:
        yield {"n": [1, 2], "text": ["a", "b"], "more": [True, False]}
    elif form == 7:
        yield {"n": 1, "text": "a", "more": True}
        yield pa.table({"more": [True], "text": ["b"], "n": [2]})


@udf(input_types=["INT"], result_type="INT")
def slow_scalar(value: int) -> int:
    time.sleep(0.01)
    return value


NOTICED = threading.Event()


@udf(input_types=["INT"], result_type=[("value", "INT")], io_threads=None)
def cancellable_counter(limit: int, headers=None):
    rows = []
    for at in range(limit):
        if headers is not None and headers.query_state.is_cancelled():
            NOTICED.set()
            break
        time.sleep(0.01)
        rows.append({"value": at})
    return rows


@udf(input_types=["INT"], result_type=[("index", "INT"), ("data", "VARCHAR")], io_threads=None)
def cancellable_generator(count: int, headers=None):
    return [{"index": at, "data": f"row_{at}"} for at in range(count) if not headers.query_state.is_cancelled()]


@udf(input_types=[], result_type="BOOLEAN")
def noticed():
    return NOTICED.is_set()


if __name__ == "__main__":
    server = UDFServer("0.0.0.0:8815")
    server.add_function(negate_bool)
    server.serve()
