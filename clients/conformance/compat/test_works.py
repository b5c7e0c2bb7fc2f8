"""The rows of the tables What works in docs/compat.md, and what of them no function of a package's files uses."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable

import pyarrow as pa
import pytest
import test_compat
import test_differences
from calls import info, values
from cases import batch_of, ints, texts
from served import Gateway

ARROW_FILE = """
import functools

import pyarrow as pa
from arrow_udf import UdfServer, udf, udtf


@udf(input_types=["INT"], result_type="INT", skip_null=True)
def skips(x):
    return x + 1


@udtf(input_types=["INT"], result_types=[pa.int32()])
def listed(x):
    yield (x,)


def scaled(by, x):
    return by * x


partly = udf(input_types=["INT"], result_type="INT", name="partly")(functools.partial(scaled, 3))
remembered = udf(input_types=["INT"], result_type="INT", name="negative")(functools.lru_cache(lambda x: -x))
named = udf(input_types=[pa.int32()], result_type=pa.int64(), name="named")(lambda x: x << 40)


def serve():
    server = UdfServer("localhost:8815")
    server.add_function(skips)


serve()
"""

DATABEND_FILE = """
import pyarrow as pa
from databend_udf import UDFServer, udf
from databend_udf.udf import ConcurrencyLimitExceeded, QueryCancelledError

SCHEMA = pa.schema([pa.field("n", pa.int32(), nullable=False), ("text", pa.utf8())])


@udf(input_types=["INT"], result_type=SCHEMA)
def by_schema(x):
    return [(x, "a"), {"n": x + 1, "text": None}]


@udf(input_types=["INT"], result_type=pa.field("n", pa.int64()))
def by_field(x):
    return [(x,), (x << 40,)]


@udf(input_types=["INT"], result_type="VARCHAR", max_concurrency=1, name="caught")
def catches(x, headers):
    try:
        headers.query_state.cancel()
        headers.require_stage_locations(["nowhere"])
        raise ConcurrencyLimitExceeded("never")
    except (ConcurrencyLimitExceeded, QueryCancelledError, ValueError) as e:
        return type(e).__name__


def serve():
    server = UDFServer("h:1", metric_location="h:2")
    server.add_function(by_schema)


serve()
"""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Gateway:
    folder = tmp_path_factory.mktemp("works")
    files = []
    for name, source in (("works_arrow", ARROW_FILE), ("works_databend", DATABEND_FILE)):
        files.append(folder / f"{name}.py")
        files[-1].write_text(source)
    gateway = Gateway(folder / "gateway", files, "--workers", "1", "--http", "127.0.0.1:0")
    yield gateway
    gateway.stop()


def test_skip_null_under_arrow_udf(gateway: Gateway) -> None:
    assert values(gateway, "skips", batch_of([ints(1, None)])) == [2, None]


def test_a_list_of_one_type(gateway: Gateway) -> None:
    assert info(gateway, "listed").schema.field("listed").type == pa.struct([("", pa.int32())])


def test_bodies_that_are_no_functions(gateway: Gateway) -> None:
    assert values(gateway, "partly", batch_of([ints(2, 5)])) == [6, 15]
    assert values(gateway, "negative", batch_of([ints(2, 2)])) == [-2, -2]
    assert values(gateway, "named", batch_of([ints(1)])) == [1 << 40]


def test_a_schema_as_result_type(gateway: Gateway) -> None:
    kind = info(gateway, "by_schema").schema.field("by_schema").type
    assert kind == pa.struct([pa.field("n", pa.int32(), nullable=False), ("text", pa.utf8())])
    wanted = [(0, {"n": 7, "text": "a"}), (0, {"n": 8, "text": None})]
    assert values(gateway, "by_schema", batch_of([ints(7)])) == wanted


def test_a_field_as_result_type(gateway: Gateway) -> None:
    assert values(gateway, "by_field", batch_of([ints(1)])) == [(0, {"n": 1}), (0, {"n": 1 << 40})]


def test_errors_to_be_caught(gateway: Gateway) -> None:
    assert values(gateway, "caught", batch_of([ints(1)])) in (["QueryCancelledError"], ["ValueError"])


def test_servers_in_functions(gateway: Gateway) -> None:
    """They are made and given functions, and what they would listen on is nobody's."""
    with urllib.request.urlopen(f"http://{gateway.http}/v1/functions", timeout=10) as page:
        assert b'"skips"' in page.read()


def test_builtins_beside_a_server(gateway: Gateway) -> None:
    assert values(gateway, "builtin_echo", batch_of([texts("a")])) == ["a"]


# What stands behind each row: functions of cases.py by their names, or tests.
WORKS: dict[str, tuple[str | Callable, ...]] = {
    "`@udf(input_types, result_type, name, io_threads, batch)`": (
        *("arrow_example.gcd3", "arrow_example.external_api", "arrow_example.external_batch"),
        *(test_skip_null_under_arrow_udf, test_compat.test_io_threads),
    ),
    "`@udtf(input_types, result_types, name)`": (
        *("arrow_example.range", "arrow_example.split"),
        test_a_list_of_one_type,
    ),
    "bodies": (
        "arrow_suite.wrapped",
        "arrow_suite.Scaled",
        "arrow_suite.nested_json",
        test_bodies_that_are_no_functions,
    ),
    "`JsonType()`, `DecimalType()`, pyarrow types": (
        *("arrow_suite.by_objects", "arrow_suite.by_arrow"),
        test_a_list_of_one_type,
    ),
    "`UdfServer`": ("arrow_suite.add", test_servers_in_functions, test_differences.test_serve),
    "`@udf(…)` with one result type": (
        *("databend_example.gcd", "databend_example.gcd_batch", "databend_readme.api_call"),
        *(test_compat.test_stages, test_compat.test_too_many_at_once),
    ),
    "`@udf(…)` with a list, pairs of name and type, a pyarrow schema or field": (
        *("databend_types.table_of_one", "databend_types.expand_pairs", "databend_types.in_every_form"),
        *("databend_types.table_returns_record_batch", test_a_schema_as_result_type, test_a_field_as_result_type),
    ),
    "a last parameter `headers`, or one with the hint `Headers`": (
        *(test_compat.test_headers, test_compat.test_stages, test_compat.test_cancelling_oneself),
        test_errors_to_be_caught,
    ),
    "parameters with the hint `StageLocation`, or named in `stage_refs`": (
        *(test_compat.test_stages, test_compat.test_stages_that_are_refused),
    ),
    "VARIANT and VECTOR": ("databend_types.wrap_variant", test_compat.test_databend_metadata),
    "`builtin_echo(VARCHAR)`, `builtin_healthy()`": (
        *("databend_udf.builtin_echo", "databend_udf.builtin_healthy"),
        test_builtins_beside_a_server,
    ),
    "`QueryCancelledError`, `ConcurrencyLimitExceeded`": (test_errors_to_be_caught, test_compat.test_too_many_at_once),
    "`UDFServer(location, metric_location=…)`": (test_servers_in_functions, test_differences.test_prometheus),
}
