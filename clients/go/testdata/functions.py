"""Functions of the client's tests."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import udfgate
from udfgate import udf, udtf


@udf
def gcd(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return a


@udf
def double(a: int) -> int:
    return 2 * a


@udf
def picky(a: int) -> int:
    if a < 0:
        raise ValueError(f"{a} is negative")
    return a


@udf
def nap(ms: int) -> int:
    time.sleep(ms / 1000)
    return ms


@udf
def hold(path: str) -> str:
    with open(path, "w"):  # says that the body runs
        time.sleep(600)
    return path


@udf
def crash(a: int) -> int:
    os.kill(os.getpid(), signal.SIGSEGV)
    return a


@udtf
def series(a: int) -> Iterator[int]:
    yield from range(a)


@udtf
def halves(a: int) -> Iterator[int]:
    udfgate.counter("started").add(1)
    while a:
        if a < 0:
            raise ValueError(f"{a} is negative")
        yield a
        a = a // 2 if a % 5 else -a


@udtf
def naps(ms: int) -> Iterator[int]:
    while True:
        for _ in range(1024):
            yield ms
        time.sleep(ms / 1000)
