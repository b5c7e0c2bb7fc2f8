"""Functions of the acceptance tests."""

from __future__ import annotations

from udfgate import udf


@udf
def weigh(a: int, b: int | None, s: str) -> str | None:
    return None if b is None else f"{a * b}{s}"


@udf
def twice(x: int) -> int:
    return 2 * x
