"""The functions that the Flight tests call."""

from __future__ import annotations

import os
import signal
import time

from udfgate import udf


@udf
def mix(a: int | None, s: str | None, b: bool) -> str | None:
    """Every kind of buffer at once: validity, values, bits, offsets, text."""
    return None if s is None and a is None else f"{a}/{s}/{b}"


@udf
def add(a: int, b: int) -> int:
    return a + b


@udf
def same_text(s: str | None) -> str | None:
    return s


@udf
def answer() -> int:
    return 42


@udf
def picky(x: int) -> int:
    if x == 17:
        raise ValueError("seventeen")
    return x


@udf
def wrong_type(x: int) -> int:
    return "text" if x == 17 else x  # type: ignore[return-value]


@udf
def nap(ms: int) -> int:
    time.sleep(ms / 1000)
    return ms


@udf
def spin(x: int) -> int:
    while x == 17:
        pass
    return x


@udf
def die(x: int) -> int:
    if x == 17:
        os.kill(os.getpid(), signal.SIGSEGV)
    if x == 18:
        os._exit(9)
    return x


@udf
def chatty(x: int) -> int:
    print("x" * 1000)
    return x


@udf(input_types=["VARCHAR"], result_type="VARCHAR")
def surrogate(s):
    return "\ud800" if s == "17" else s
