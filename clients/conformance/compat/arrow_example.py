"""What the example and the README of arrow-udf 0.3 serve: the same names, types and meanings."""

import socket
import struct
import time
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Optional

from arrow_udf import UdfServer, udf, udtf
from scalars import SCALARS


@udf(input_types=[], result_type="INT")
def int_42() -> int:
    return 6 * 7


@udf(input_types=["INT"], result_type="INT")
def sleep(s: int) -> int:
    time.sleep(s)
    return 0


@udf(input_types=["INT", "INT"], result_type="INT")
def gcd(x: int, y: int) -> int:
    return gcd(y, x % y) if y else x


@udf(name="gcd3", input_types=["INT", "INT", "INT"], result_type="INT")
def of_three(x: int, y: int, z: int) -> int:
    return gcd(x, gcd(y, z))  # one served function calls another


@udf(
    input_types=["BINARY"],
    result_type="STRUCT<src_addr: STRING, dst_addr: STRING, src_port: INT16, dst_port: INT16>",
)
def extract_tcp_info(tcp_packet: bytes):
    source, target, *ports = struct.unpack_from("!4s4sHH", tcp_packet, 12)
    names = ("src_addr", "dst_addr", "src_port", "dst_port")
    return dict(zip(names, (socket.inet_ntoa(source), socket.inet_ntoa(target), *ports)))


@udtf(name="range", input_types="INT", result_types="INT")
def numbers(n: int) -> Iterator[int]:
    yield from range(n or 0)


@udtf(input_types="INT", result_types="INT")
def series(n):
    at = 0
    while at < n:
        yield at
        at += 1


@udtf(input_types="STRING", result_types=["STRING", "INT"])
def split(string: str) -> Iterator[tuple[str, int]]:
    return ((word, len(word)) for word in string.split(" "))


@udf(input_types="STRING", result_type="DECIMAL")
def hex_to_dec(hex: Optional[str]) -> Optional[Decimal]:
    return Decimal(int(hex.strip(), 16)) if hex else None


@udf(input_types=["FLOAT64"], result_type="DECIMAL")
def float_to_decimal(f: float) -> Decimal:
    return Decimal(f)


@udf(input_types=["DECIMAL", "DECIMAL"], result_type="DECIMAL")
def decimal_add(a: Decimal, b: Decimal) -> Decimal:
    return a + b


@udf(input_types=["STRING[]", "INT"], result_type="STRING")
def array_access(list: list[str], idx: int) -> Optional[str]:
    return list[idx - 1] if 0 < idx <= len(list) else None


@udf(input_types=["JSON", "INT"], result_type="JSON")
def json_array_access(json: Any, i: int) -> Any:
    return json[i] if json else None


@udf(input_types=["JSON[]"], result_type="JSON")
def json_concat(list: list[Any]) -> Any:
    return list or None


@udf(input_types="JSON[]", result_type="JSON[]")
def json_array_identity(list: list[Any]) -> list[Any]:
    return list


TYPES = list(SCALARS)


@udf(input_types=TYPES, result_type=f"struct<{', '.join(f'{name}: {name}' for name in TYPES)},>")
def return_all(
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
):
    ints = (i8, i16, i32, i64, u8, u16, u32, u64)
    rest = (decimal, date, time, timestamp, interval, string, large_string, binary, large_binary, json)
    return dict(zip(TYPES, (bool, *ints, f32, f64, *rest)))


@udf(input_types=["string"], result_type="float32[]", batch=True)
def text_embedding(texts: list[str]) -> list[list[float]]:
    return [[(2 * at + 1) / 10, (2 * at + 2) / 10] for at in range(2)]  # of two texts


def asked(question):
    """Stands for the service that the examples ask."""
    return {"data": question}


@udf(input_types=["INT"], result_type="INT", io_threads=64)
def external_api(x):
    return asked(x)["data"]


@udf(input_types=["VARCHAR"], result_type="REAL[]", batch=True)
def external_batch(texts: list[str]) -> list[list[float]]:
    return [[float(len(text))] for text in asked(texts)["data"]]


if __name__ == "__main__":
    server = UdfServer(location="localhost:8815")
    for function in (int_42, sleep, gcd, of_three, numbers, split, extract_tcp_info, hex_to_dec, return_all):
        server.add_function(function)
    server.serve()
