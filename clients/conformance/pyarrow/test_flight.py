"""What an engine's Flight client sees, with pyarrow as the client."""

from __future__ import annotations

import json
import threading
import time
import urllib.request

import pyarrow as pa
import pyarrow.flight as flight
import pytest
from conftest import Gateway

PHASES = ("queue", "coalesce", "start", "conversion", "crossing", "body", "reply", "other")


class Trailers(flight.ClientMiddlewareFactory):
    """Keeps the trailers of the last call."""

    def __init__(self) -> None:
        self.last: dict[str, list[str]] = {}

    def start_call(self, info):
        factory = self

        class Keep(flight.ClientMiddleware):
            def received_headers(self, headers):
                factory.last.update(headers)

        return Keep()


def batch(*columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns), names=[""] * len(columns))


def exchange(client: flight.FlightClient, name: str, *batches: pa.RecordBatch, headers=(), timeout=20) -> pa.Table:
    options = flight.FlightCallOptions(timeout=timeout, headers=list(headers))
    writer, reader = client.do_exchange(flight.FlightDescriptor.for_path(name), options)
    with writer:
        writer.begin(batches[0].schema)
        for b in batches:
            writer.write_batch(b)
        writer.done_writing()
        return reader.read_all()


def ints(*values: int | None) -> pa.Array:
    return pa.array(values, pa.int64())


def assert_identity(bill: dict) -> None:
    assert sum(bill.get(f"{p}_ns", 0) for p in PHASES) == bill["wall_ns"]
    assert bill.get("conversion_ns", 0) == bill.get("conversion_gateway_ns", 0) + bill.get("conversion_worker_ns", 0)
    assert bill.get("crossing_ns", 0) == bill.get("crossing_out_ns", 0) + bill.get("crossing_back_ns", 0)


def test_protocol_version(gateway: Gateway) -> None:
    (result,) = gateway.client.do_action(flight.Action("protocol_version", b""))
    assert result.body.to_pybytes() == b"\x02"


def test_flight_info(gateway: Gateway) -> None:
    info = gateway.client.get_flight_info(flight.FlightDescriptor.for_path("mix"))
    assert info.total_records == 3
    assert info.descriptor.path == [b"mix"]
    assert info.endpoints == []
    assert [f.type for f in info.schema] == [pa.int64(), pa.string(), pa.bool_(), pa.string()]
    assert [f.nullable for f in info.schema] == [True, True, False, True]
    assert info.schema.field(3).name == "mix"
    metadata = info.schema.metadata
    assert metadata[b"x-databend-udf-input-count"] == b"3"
    assert metadata[b"udfgate-mode"] == b"row"
    assert metadata[b"udfgate-volatility"] == b"volatile"
    assert len(metadata[b"udfgate-version"]) > 0
    listed = {i.descriptor.path[0].decode() for i in gateway.client.list_flights()}
    assert {"mix", "add", "answer", "picky"} <= listed


def test_values_and_slices(gateway: Gateway) -> None:
    a = ints(9, 1, None, 3, 4)
    s = pa.array(["x", "é", None, "", "end"])
    b = pa.array([True, False, True, False, True])
    assert exchange(gateway.client, "mix", batch(a, s, b)).column(0).to_pylist() == [
        "9/x/True", "1/é/False", None, "3//False", "4/end/True"]  # fmt: skip
    sliced = batch(a, s, b).slice(1, 3)
    assert exchange(gateway.client, "mix", sliced).column(0).to_pylist() == ["1/é/False", None, "3//False"]


def test_zero_rows_and_zero_columns(gateway: Gateway) -> None:
    table = exchange(gateway.client, "add", batch(ints(), ints()))
    assert table.num_rows == 0 and table.schema.field(0).type == pa.int64()
    seven = pa.table({"x": ints(*range(7))}).select([]).to_batches()
    writer, reader = gateway.client.do_exchange(flight.FlightDescriptor.for_path("answer"))
    with writer:
        writer.begin(pa.schema([]))
        writer.write_batch(seven[0] if seven else pa.RecordBatch.from_arrays([], names=[]))
        writer.done_writing()
        assert reader.read_all().column(0).to_pylist() == [42] * (seven[0].num_rows if seven else 0)


def test_stream_in_lockstep_and_ahead(gateway: Gateway) -> None:
    writer, reader = gateway.client.do_exchange(flight.FlightDescriptor.for_path("add"))
    with writer:
        writer.begin(batch(ints(1), ints(2)).schema)
        for i in range(200):
            writer.write_batch(batch(ints(i, i + 1), ints(i, i)))
            assert reader.read_chunk().data.column(0).to_pylist() == [2 * i, 2 * i + 1]
        writer.done_writing()
        assert reader.read_all().num_rows == 0
    batches = [batch(ints(*range(i, i + 50)), ints(*[i] * 50)) for i in range(300)]
    table = exchange(gateway.client, "add", *batches)
    assert table.column(0).to_pylist() == [x + i for i in range(300) for x in range(i, i + 50)]


def test_bill_in_app_metadata_and_trailer(gateway: Gateway) -> None:
    trailers = Trailers()
    client = flight.connect(f"grpc://{gateway.address}", middleware=[trailers])
    options = flight.FlightCallOptions(headers=[(b"udfgate-bill", b"batch")])
    started = time.monotonic_ns()
    writer, reader = client.do_exchange(flight.FlightDescriptor.for_path("add"), options)
    with writer:
        writer.begin(batch(ints(1), ints(2)).schema)
        writer.write_with_metadata(batch(ints(1), ints(2)), b"batch-7")
        told = json.loads(reader.read_chunk().app_metadata.to_pybytes())
        writer.done_writing()
        reader.read_all()
    took = time.monotonic_ns() - started
    client.close()
    assert told["app"] == "YmF0Y2gtNw=="
    assert_identity(told["bill"])
    assert told["bill"]["rows"] == 1 and told["bill"]["function"] == "add"
    assert told["bill"]["wall_ns"] <= took
    (text,) = trailers.last["udfgate-bill"]
    bill = json.loads(text)
    assert_identity(bill)
    assert bill["rows"] == 1 and bill["batches"] == 1 and bill["wall_ns"] <= took
    assert bill["dialect"] == "flight" and bill["path"] == "python"


def test_app_metadata_is_echoed(gateway: Gateway) -> None:
    writer, reader = gateway.client.do_exchange(flight.FlightDescriptor.for_path("add"))
    with writer:
        writer.begin(batch(ints(1), ints(2)).schema)
        writer.write_with_metadata(batch(ints(1), ints(2)), b"id-1")
        assert reader.read_chunk().app_metadata.to_pybytes() == b"id-1"
        writer.done_writing()


def test_a_sleeping_body_books_body(gateway: Gateway) -> None:
    trailers = Trailers()
    client = flight.connect(f"grpc://{gateway.address}", middleware=[trailers])
    exchange(client, "nap", batch(ints(100)))
    client.close()
    bill = json.loads(trailers.last["udfgate-bill"][0])
    assert_identity(bill)
    assert bill["body_ns"] >= 100e6 and bill["body_ns"] / bill["wall_ns"] > 0.9
    assert bill.get("body_cpu_ns", 0) < 50e6


@pytest.mark.parametrize(
    ("name", "columns", "kind", "text"),
    [
        ("picky", (ints(1, 2, 17, 4),), pa.ArrowInvalid, "picky: row 2: ValueError: seventeen"),
        ("wrong_type", (ints(1, 17),), pa.ArrowInvalid, "wrong_type: row 1: TypeError: result: wanted int64, got str 'text'"),
        ("add", (ints(1, None), ints(1, 1)), pa.ArrowInvalid, "add: row 1: TypeError: unsupported operand"),
        ("add", (ints(1 << 62), ints(1 << 62)), pa.ArrowInvalid, "add: row 0: OverflowError: result: wanted int64, got int 9223372036854775808"),
        ("surrogate", (pa.array(["1", "17"]),), pa.ArrowInvalid, "surrogate: row 1: ValueError: result: wanted utf8, got str"),
        ("add", (ints(1),), pa.ArrowInvalid, "add: wanted 2 columns"),
        ("add", (ints(1), ints(1), ints(1)), pa.ArrowInvalid, "got 3"),
        ("add", (ints(1), pa.array(["x"])), pa.ArrowInvalid, "wanted int64, got utf8"),
        ("add", (ints(1), pa.array([1.0])), pa.ArrowInvalid, "wanted int64, got float64"),
        ("ad", (ints(1),), KeyError, "add"),
    ],
)  # fmt: skip
def test_errors(gateway: Gateway, name: str, columns: tuple, kind: type, text: str) -> None:
    with pytest.raises(kind, match=".*") as caught:
        exchange(gateway.client, name, batch(*columns))
    assert text in str(caught.value)
    assert exchange(gateway.client, "add", batch(ints(1), ints(2))).column(0).to_pylist() == [3]


def test_reason_row_and_error_id_are_plain_trailers(gateway: Gateway) -> None:
    trailers = Trailers()
    client = flight.connect(f"grpc://{gateway.address}", middleware=[trailers])
    with pytest.raises(pa.ArrowInvalid):
        exchange(client, "picky", batch(ints(1)), batch(ints(1, 17)))
    client.close()
    assert trailers.last["udfgate-reason"] == ["USER_ERROR"]
    assert trailers.last["udfgate-row"] == ["1"]
    assert trailers.last["udfgate-batch"] == ["1"]
    assert json.loads(trailers.last["udfgate-bill"][0])["function"] == "picky"
    (error_id,) = trailers.last["udfgate-error-id"]
    with urllib.request.urlopen(f"http://{gateway.http}/v1/errors/{error_id}") as answer:
        kept = answer.read().decode()
    assert "seventeen" in kept and "functions.py" in kept


@pytest.mark.parametrize(("value", "text"), [(17, "worker lost: signal SIGSEGV"), (18, "worker lost: exit status 9")])
def test_a_lost_worker_says_so_and_is_replaced(gateway: Gateway, value: int, text: str) -> None:
    with pytest.raises(Exception, match="die: .*worker lost") as caught:
        exchange(gateway.client, "die", batch(ints(value)))
    assert text in str(caught.value)
    assert exchange(gateway.client, "die", batch(ints(1))).column(0).to_pylist() == [1]


def test_a_slow_body_is_ended_with_its_stack(gateway: Gateway) -> None:
    for _ in range(5):  # a busy machine may not let the worker speak in the time that it has for that
        with pytest.raises(flight.FlightTimedOutError) as caught:
            exchange(gateway.client, "spin", batch(ints(17)))
        assert "spin: timeout after 2s (--timeout)" in str(caught.value)
        if "in spin" in str(caught.value):
            break
    assert "functions.py" in str(caught.value) and "in spin" in str(caught.value)
    assert exchange(gateway.client, "spin", batch(ints(1))).column(0).to_pylist() == [1]


def test_printing_is_harmless(gateway: Gateway) -> None:
    assert exchange(gateway.client, "chatty", batch(ints(*range(500)))).num_rows == 500


def slow_reader(gateway: Gateway, pause: float) -> dict:
    """The bill of a call whose answers are not read for so many seconds."""
    trailers = Trailers()
    client = flight.connect(f"grpc://{gateway.address}", middleware=[trailers])
    text = pa.array(["x" * 1000] * 4096)
    writer, reader = client.do_exchange(flight.FlightDescriptor.for_path("same_text"))
    with writer:
        writer.begin(batch(text).schema)

        def write() -> None:
            for _ in range(8):
                writer.write_batch(batch(text))
            writer.done_writing()

        thread = threading.Thread(target=write)
        thread.start()
        time.sleep(pause)  # the reader's slowness is the subject
        assert reader.read_all().num_rows == 8 * 4096
        thread.join()
    client.close()
    bill = json.loads(trailers.last["udfgate-bill"][0])
    assert_identity(bill)
    assert bill["rows"] == 8 * 4096
    return bill


def test_a_slow_reader_books_reply(gateway: Gateway) -> None:
    for pause in (1, 4, 8):  # on a busy machine what the gateway does itself may take longer than a short one
        bill = slow_reader(gateway, pause)
        if bill["reply_ns"] > pause * 0.5e9 and bill["reply_ns"] / bill["wall_ns"] > 0.5:
            return
    raise AssertionError(f"the reader's {pause} s are not the larger part of the bill: {bill}")


def test_many_callers(gateway: Gateway) -> None:
    wrong: list[str] = []

    def caller(n: int) -> None:
        for i in range(50):
            got = exchange(gateway.client, "add", batch(ints(n, i), ints(i, n))).column(0).to_pylist()
            if got != [n + i, n + i]:
                wrong.append(f"{n} {i} {got}")

    threads = [threading.Thread(target=caller, args=(n,)) for n in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_http(gateway: Gateway) -> None:
    for path in ("/healthz", "/readyz"):
        with urllib.request.urlopen(f"http://{gateway.http}{path}") as answer:
            assert answer.status == 200
    with urllib.request.urlopen(f"http://{gateway.http}/metrics") as answer:
        text = answer.read().decode()
    assert 'udfgate_wall_seconds_total{function="add",phase="body"}' in text
    assert "udfgate_workers{" in text
