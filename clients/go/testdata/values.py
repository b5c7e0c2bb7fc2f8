"""Functions over nested values, of the client's tests."""

from __future__ import annotations

from udfgate import udf


@udf(input_types=["STRUCT<a BIGINT, b VARCHAR[]>"], result_type="STRUCT<a BIGINT, b VARCHAR[]>")
def turn(v: dict) -> dict:
    return v and {"a": v["a"] and -v["a"], "b": v["b"] and v["b"][::-1]}


@udf(input_types=["MAP(VARCHAR, DECIMAL(10, 2))"], result_type="list<item: timestamp[us, tz=UTC]>")
def moments(v: dict) -> list:
    return []


@udf(input_types=["UUID"], result_type="UUID")
def same(v: object) -> object:
    return v
