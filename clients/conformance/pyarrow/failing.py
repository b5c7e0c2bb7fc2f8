"""Functions whose rows fail on demand: each result type, NOT NULL or not, row by row, as a list and as an elementwise list."""

from __future__ import annotations

import os
import time

from udfgate import udf

TYPES = ("bool", "int8", "int64", "float32", "float64", "utf8", "binary")
WORD = "back-reference"  # one object, which marshal writes once


class Odd(Exception):
    """Has no text."""


def good(kind: str, code: int) -> object:
    if kind == "bool":
        return code % 2 == 0
    if kind in ("float32", "float64"):
        return code + 0.5
    if kind == "utf8":
        return WORD if code % 3 == 0 else "é" * (code % 5) + str(code)
    if kind == "binary":
        return b"x" * code
    return code


def value(kind: str, code: int) -> object:
    """Below 100 a good value, else a way to fail."""
    if code == 100:
        raise ValueError("bad literal")
    if code == 103:
        raise StopIteration
    if code == 105:
        raise ValueError("two\nlines \x1b[2J")
    if code == 106:
        raise SystemExit(3)
    if code == 107:
        raise Odd
    if code == 108:
        raise ValueError("\ud800")
    if code == 109:
        raise ValueError("x" * 5000)
    if code < 100:
        return good(kind, code)
    return {101: [1], 102: None, 104: "\ud800x"}[code]


for kind in TYPES:
    for suffix, null in (("", ""), ("_strict", " NOT NULL")):
        types = {"input_types": ["int64"], "result_type": kind + null}

        def row(code, kind=kind):
            return value(kind, code)

        def rows(codes, kind=kind):
            return [value(kind, code) for code in codes]

        globals()[f"row_{kind}{suffix}"] = udf(name=f"row_{kind}{suffix}", **types)(row)
        globals()[f"list_{kind}{suffix}"] = udf(name=f"list_{kind}{suffix}", mode="list", **types)(rows)
        globals()[f"each_{kind}{suffix}"] = udf(name=f"each_{kind}{suffix}", mode="list", elementwise=True, **types)(
            rows
        )
del kind, suffix, null, types, row, rows


@udf(on_error="null")
def own_null(code: int) -> int:
    return value("int64", code)  # type: ignore[return-value]


@udf(on_error="reject")
def own_reject(code: int) -> int:
    return value("int64", code)  # type: ignore[return-value]


@udf(mode="list")
def short(codes: int) -> int:
    return codes[1:]  # type: ignore[index,return-value]


@udf
def slow(x: int) -> int:
    time.sleep(30 if x == 7 else 0)
    return x


@udf
def dies(x: int) -> int:
    if x == 7:
        os._exit(9)
    return x


@udf
def wide(s: str) -> str:
    return s * 64
