"""What the test suite of arrow-udf 0.3 serves, and forms of bodies that its decorators take."""

import functools
import random
import threading
import time

from arrow_udf import DecimalType, JsonType, UdfServer, udf
from scalars import SCALARS

server = UdfServer(location="localhost:8815")


@udf(input_types=["INT", "INT"], result_type="INT")
def add(x, y):
    return y + x


@udf(input_types=["INT"], result_type="INT")
def wait(x):
    with AT_ONCE:
        time.sleep(random.choice((0, 0.001, 0.002)))
    return x


@udf(input_types=["INT"], result_type="INT", io_threads=32)
def wait_concurrent(x):
    with AT_ONCE:
        time.sleep(random.choice((0.001, 0.002, 0.003)))
    return x


class AtOnce:
    """The most rows that were inside at once."""

    def __init__(self):
        self.lock, self.inside, self.most = threading.Lock(), 0, 0

    def __enter__(self):
        with self.lock:
            self.inside += 1
            self.most = max(self.most, self.inside)

    def __exit__(self, *_):
        with self.lock:
            self.inside -= 1


AT_ONCE = AtOnce()


@udf(input_types=[], result_type="INT")
def most_at_once():
    most, AT_ONCE.most = AT_ONCE.most, 0
    return most


NAMES = ["null", *SCALARS, "list", "struct"]
TYPES = [*NAMES[:-2], "int[]", "struct<a:int, b:string>"]
MEMBERS = ",\n".join(f"{name}: {type_}" for name, type_ in zip(NAMES, TYPES))


@udf(input_types=TYPES, result_type=f"struct<\n{MEMBERS},\n>")
def return_all(
    null,
    bool,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
    f32,
    f64,
    decimal,
    date,
    time,
    timestamp,
    interval,
    string,
    large_string,
    binary,
    large_binary,
    json,
    list,
    struct,
):
    ints = (i8, i16, i32, i64, u8, u16, u32, u64)
    rest = (decimal, date, time, timestamp, interval, string, large_string, binary, large_binary, json, list, struct)
    return dict(zip(NAMES, (null, bool, *ints, f32, f64, *rest)))


def noted(body):
    @functools.wraps(body)
    def around(*args):
        return body(*args)

    return around


@udf(input_types=["BIGINT"], result_type="BIGINT")
@functools.cache
def remembered(n):
    return n * n


@udf(input_types=["BIGINT", "BIGINT"], result_type="BIGINT")
@noted
def wrapped(a, b):
    return a - b


class Scaled:
    def __init__(self, by):
        self.by = by

    def __call__(self, x):
        return x * self.by


Scaled3 = udf(input_types=["BIGINT"], result_type="BIGINT")(Scaled(3))
nested_json = udf(
    input_types=["struct<a: json, b: decimal[]>"], result_type="struct<a: json, b: decimal[]>", name="nested_json"
)(lambda row: {"a": {"was": row["a"]}, "b": [number * 2 for number in row["b"]]})
by_objects = udf(input_types=[JsonType(), DecimalType()], result_type=JsonType(), name="by_objects")(
    lambda value, number: [value, str(number)]
)
try:
    import pyarrow as pa
except ImportError:
    pass
else:
    by_arrow = udf(
        input_types=[pa.map_(pa.string(), pa.int64())],
        result_type=pa.struct([pa.field("keys", pa.list_(pa.string())), pa.field("total", pa.int64())]),
        name="by_arrow",
    )(lambda pairs: {"keys": [key for key, _ in pairs], "total": sum(value for _, value in pairs)})

for function in (add, wait, wait_concurrent, return_all):
    server.add_function(function)
