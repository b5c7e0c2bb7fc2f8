"""The rows of the table Differences in docs/compat.md, by their first cells: what is answered here."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import pyarrow as pa
import pyarrow.flight as flight
import pytest
from calls import answers, ended_by_cancelling, info, refused, running, values
from cases import batch_of, ints, rows, texts
from served import Gateway

ONE = "from {0} import udf, {1}\n\n@udf(input_types=['INT'], result_type='INT')\ndef f(x):\n    return x\n\n"


def refusal(tmp_path: Path, source: str) -> str:
    """What the gateway says of a file that does not load."""
    file = tmp_path / "refused.py"
    file.write_text(source)
    command = [os.environ.get("UDFGATE_BINARY", "udfgate"), "serve", str(file), "--python", sys.executable, "--dry-run"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 3, done
    return done.stderr


def own(tmp_path: Path, source: str, *flags: str, workers: int = 1) -> Gateway:
    file = tmp_path / "own.py"
    file.write_text(source)
    return Gateway(tmp_path / "gateway", file, "--workers", str(workers), *flags)


def test_table_functions_of_databend_udf(served_files: Gateway) -> None:
    schema, _ = answers(served_files, "databend_types.expand_pairs", batch_of([ints(1), ints(2)]))
    assert schema.names == ["row", "expand_pairs"]
    assert schema.types == [pa.int32(), pa.struct([(name, pa.int32()) for name in ("left", "right", "sum")])]


def test_batch_mode_true_of_a_table_function(tmp_path: Path) -> None:
    source = "from databend_udf import udf\n\n@udf(['INT'], [('n', 'INT')], batch_mode=True)\ndef sizes(x):\n    return [(len(x),)]\n"
    gateway = own(tmp_path, source)
    try:
        assert values(gateway, "sizes", batch_of([ints(5, 6)])) == [(0, {"n": 1}), (1, {"n": 1})]
    finally:
        gateway.stop()


def test_skip_null_true_of_a_table_function(tmp_path: Path) -> None:
    source = "from databend_udf import udf\n\n@udf(['INT'], ['INT'], skip_null=True)\ndef same(x):\n    return [(x,)]\n"
    gateway = own(tmp_path, source)
    try:
        assert values(gateway, "same", batch_of([ints(None, 6)])) == [(1, {"col0": 6})]
    finally:
        gateway.stop()


def test_a_table_function_without_rows(served_files: Gateway) -> None:
    _, parts = answers(served_files, "range", batch_of([ints(0)]), batch_of([ints(None)]))
    assert [part.num_rows for part in parts] == [0, 0]


def test_members_of_tuple(served_files: Gateway) -> None:
    kind = info(served_files, "tuple_access").schema.field("tuple_access").type
    assert [field.name for field in kind] == ["1", "2"]


def test_decimal_38_s(tmp_path: Path) -> None:
    source = "from databend_udf import udf\n\n@udf(['DECIMAL(38, 2)'], 'DECIMAL(39, 2)')\ndef f(x):\n    return x\n"
    gateway = own(tmp_path, source)
    try:
        assert info(gateway, "f").schema.types == [pa.decimal128(38, 2), pa.decimal256(39, 2)]
    finally:
        gateway.stop()


def test_arguments(served_files: Gateway) -> None:
    with pytest.raises(pa.ArrowInvalid, match="wanted int32, got float64"):
        values(served_files, "arrow_example.gcd", batch_of([pa.array([1.5]), ints(1)]))
    with pytest.raises(pa.ArrowInvalid, match="wanted 2 columns"):
        values(served_files, "arrow_example.gcd", batch_of([ints(1)]))


def test_the_answer_of_a_body_over_lists(tmp_path: Path) -> None:
    source = "from arrow_udf import udf\n\n@udf(['INT'], 'INT', batch=True)\ndef f(x):\n    return range(len(x))\n"
    gateway = own(tmp_path, source)
    try:
        with pytest.raises(pa.ArrowInvalid, match="f: wanted a list of 3 results, got range"):
            values(gateway, "f", batch_of([ints(1, 2, 3)]))
    finally:
        gateway.stop()
    source = "import array\n\nclass ndarray(array.array):\n    pass\n\n" + source.replace(
        "range(len(x))", "ndarray('i', x)"
    )
    gateway = own(tmp_path, source)
    try:
        with pytest.raises(
            pa.ArrowInvalid, match=r"f: wanted a list of 3 results, got ndarray \(.tolist\(\) makes one\)"
        ):
            values(gateway, "f", batch_of([ints(1, 2, 3)]))
    finally:
        gateway.stop()


def test_add_function(served_files: Gateway) -> None:
    assert values(served_files, "series", batch_of([ints(1)])) == [(0, 0)]  # given to no server in its file


def test_add_function_in_the_main_block(tmp_path: Path) -> None:
    source = """from arrow_udf import UdfServer, udf

def make(n):
    @udf(["INT"], "INT", name=f"plus{n}")
    def f(x):
        return x + n

    return f

server = UdfServer("localhost:1")
server.add_function(make(1))
if __name__ == "__main__":
    server.add_function(make(2))
"""
    gateway = own(tmp_path, source)
    try:
        assert values(gateway, "plus1", batch_of([ints(1)])) == [2]
        assert [one.descriptor.path[0] for one in gateway.client.list_flights()] == [b"plus1"]
    finally:
        gateway.stop()


def test_functools_wraps_above_udf(tmp_path: Path) -> None:
    source = ONE.format("databend_udf", "UDFServer").replace("@udf", "@timed\n@udf")
    source = "import functools\n\ndef timed(f):\n    return functools.wraps(f)(lambda *a: 10 * f(*a))\n\n" + source
    gateway = own(tmp_path, source)
    try:
        assert values(gateway, "f", batch_of([ints(1)])) == [10]
    finally:
        gateway.stop()


@pytest.mark.parametrize(("package", "server"), [("arrow_udf", "UdfServer"), ("databend_udf", "UDFServer")])
def test_serve(tmp_path: Path, package: str, server: str) -> None:
    source = ONE.format(package, server) + f"server = {server}('127.0.0.1:0')\nserver.add_function(f)\nserver.serve()\n"
    assert "the gateway serves this file" in refusal(tmp_path, source)


def test_udfclient_create_client(tmp_path: Path) -> None:
    source = ONE.format("databend_udf", "create_client")
    assert "databend_udf.UDFClient is not supported" in refusal(tmp_path, source + "create_client()\n")


def test_other_names_of_the_modules(tmp_path: Path) -> None:
    assert "arrow_udf.ScalarFunction is not supported" in refusal(tmp_path, ONE.format("arrow_udf", "ScalarFunction"))


def test_an_error_of_a_body(served_files: Gateway) -> None:
    with pytest.raises(pa.ArrowInvalid, match=r"hex_to_dec: row 1: ValueError: invalid literal"):
        values(served_files, "arrow_example.hex_to_dec", batch_of([texts("f", "g")]))


def test_max_concurrency(tmp_path: Path) -> None:
    """One call in all workers, though another worker is free; without a timeout of its own a further one waits for --queue-timeout."""
    source = ONE.format("databend_udf", "UDFServer").replace("'INT')", "'INT', max_concurrency=1)", 1)
    gateway = own(
        tmp_path,
        "import time\n" + source.replace("return x", "time.sleep(x)\n    return x"),
        "--queue-timeout",
        "100ms",
        workers=2,
    )
    try:
        with running(gateway, "f", batch_of([ints(3600)])), pytest.raises(pa.ArrowInvalid, match="f: waited 100ms for"):
            for _ in range(1000):  # the first may be before it
                values(gateway, "f", batch_of([ints(0)]))
    finally:
        gateway.stop()


def test_concurrencylimitexceeded(served_files: Gateway) -> None:
    told = refused(served_files, "single_concurrency", 1)
    assert "single_concurrency: waited 100ms for one of 1 chunks at once (concurrency)" in told


def test_io_threads(tmp_path: Path) -> None:
    """Rows that only compute run in the worker's main thread, and rows that wait in others."""
    source = "import threading, time\nfrom databend_udf import udf\n\n"
    for name, does in (("computes", "sum(range(x))"), ("waits", "time.sleep(0.005)")):
        source += f"@udf(['INT'], 'BOOLEAN', io_threads=8)\ndef {name}(x):\n    {does}\n"
        source += "    return threading.current_thread() is threading.main_thread()\n\n"
    gateway = own(tmp_path, source)
    try:
        assert set(values(gateway, "computes", batch_of([ints(*range(100))]))) == {True}
        assert False in values(gateway, "waits", batch_of([ints(*range(100))]))
    finally:
        gateway.stop()


def test_headers(served_files: Gateway) -> None:
    sent = (("authorization", "Bearer x"), ("cookie", "c=1"), ("udfgate-timeout", "5s"), ("x-mine", "y"))
    named = [name for name, _ in sent] + ["content-type", "user-agent"]  # the last two are sent by every client
    *found, agent = values(served_files, "header", batch_of([texts(*named)]), sent)
    assert found == [None, None, None, "y", None]
    assert "grpc" in agent


def test_query_state(served_files: Gateway) -> None:
    """What a batch cancels is that batch: the next of the call runs."""
    options = flight.FlightCallOptions(headers=[(b"udfgate-on-error", b"null")])
    writer, reader = served_files.client.do_exchange(flight.FlightDescriptor.for_path("cancels"), options)
    with writer:
        batch = batch_of([ints(2, 3)])
        writer.begin(batch.schema)
        for _ in range(2):
            writer.write_batch(batch)
            assert reader.read_chunk().data.column(0).to_pylist() == [2, None]
        writer.done_writing()


def test_a_caller_that_goes(served_files: Gateway) -> None:
    assert ended_by_cancelling(served_files, "arrow_example.sleep", 3600)
    assert values(served_files, "arrow_example.sleep", batch_of([ints(0)])) == [0]


def test_total_records_of_databend_udf(served_files: Gateway) -> None:
    found = info(served_files, "add_ints")
    assert (found.total_records, found.schema.metadata[b"x-databend-udf-input-count"]) == (2, b"2")


def test_listflights_of_databend_udf(served_files: Gateway) -> None:
    listed = [one.descriptor.path[0] for one in served_files.client.list_flights()]
    assert {b"builtin_echo", b"builtin_healthy", b"add_ints"} <= set(listed)


def test_the_statement_create_function(tmp_path: Path) -> None:
    """What a file logs as it loads is told when it does not load, add_function's words too if it had any."""
    source = "import logging, os\nlogging.basicConfig(level=logging.DEBUG)\n" + ONE.format("databend_udf", "UDFServer")
    source += "UDFServer('h:1').add_function(f)\nlogging.info('added it')\nos._exit(3)\n"
    told = refusal(tmp_path, source)
    assert "added it" in told
    assert "CREATE FUNCTION" not in told


def test_prometheus(tmp_path: Path) -> None:
    source = ONE.format("databend_udf", "UDFServer") + "server = UDFServer('h:1', metric_location='h:2')\n"
    gateway = own(tmp_path, source, "--http", "127.0.0.1:0")
    try:
        assert values(gateway, "builtin_healthy", batch_of(rows(1))) == [1]
        with urllib.request.urlopen(f"http://{gateway.http}/metrics", timeout=10) as page:
            text = page.read().decode()
        assert "udfgate_calls_total" in text
        assert "udf_server_" not in text
    finally:
        gateway.stop()
