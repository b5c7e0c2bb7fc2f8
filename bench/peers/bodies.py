"""The bodies of the comparison, each called once per row; standard library only. Every server runs these very ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

EPOCH_DAY = datetime(1970, 1, 1).toordinal()


def gcd(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return a


def affine(a: int, b: int) -> int:
    return a * 2 + b


def clean(text: str | None) -> str | None:
    if text is None:
        return None
    return text.strip().lower().replace("-", "_") or None


def parse_json(text: str | None) -> str | None:
    if text is None:
        return None
    user: str = json.loads(text)["user"]
    return user


def days(text: str | None) -> int | None:
    if text is None:
        return None
    return datetime.strptime(text, "%Y-%m-%d").toordinal() - EPOCH_DAY


def identity(value: bytes) -> bytes:
    return value


def noop(value: int) -> int:
    return value


class Function(NamedTuple):
    """A body with the SQL types of its arguments and result."""

    body: Callable[..., Any]
    arguments: list[str]
    result: str


FUNCTIONS: dict[str, Function] = {
    "gcd": Function(gcd, ["BIGINT", "BIGINT"], "BIGINT"),
    "gcd_shipped": Function(gcd, ["BIGINT", "BIGINT"], "BIGINT"),  # by databend-udf with its own default of threads
    "affine": Function(affine, ["BIGINT", "BIGINT"], "BIGINT"),
    "clean": Function(clean, ["VARCHAR"], "VARCHAR"),
    "parse_json": Function(parse_json, ["VARCHAR"], "VARCHAR"),
    "days": Function(days, ["VARCHAR"], "INT"),
    "identity": Function(identity, ["BYTEA"], "BYTEA"),
    "noop": Function(noop, ["BIGINT"], "BIGINT"),
    "noop_arrow": Function(noop, ["BIGINT"], "BIGINT"),  # udfgate and plain-vector hand the whole column back
}
