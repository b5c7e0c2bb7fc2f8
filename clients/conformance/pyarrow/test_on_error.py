"""Failed rows as a client sees them: on_error by header and by option, modes row and list, every result type, exact texts."""

from __future__ import annotations

import json
import os
import random
import threading
import urllib.request
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.flight as flight
import pytest
from conftest import Gateway
from test_flight import Trailers, batch, ints

SEED = int(os.environ.get("UDFGATE_SEED", random.SystemRandom().randrange(1 << 32)))
TYPES = ("bool", "int8", "int64", "float32", "float64", "utf8", "binary")
ARROW = {"utf8": pa.string(), "binary": pa.binary()}
ERROR_TEXT_BYTES_MAX = 4096


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path_factory.mktemp("failing"), file="failing.py")
    yield gateway
    assert gateway.stop() == 0, gateway.log.read_text()


def call(gateway: Gateway, name: str, *batches: pa.RecordBatch, how: str = "", headers: tuple = ()) -> pa.Table:
    if how:
        headers += ((b"udfgate-on-error", how.encode()),)
    options = flight.FlightCallOptions(timeout=30, headers=list(headers))
    writer, reader = gateway.client.do_exchange(flight.FlightDescriptor.for_path(name), options)
    with writer:
        writer.begin(batches[0].schema)
        for b in batches:
            writer.write_batch(b)
        writer.done_writing()
        return reader.read_all()


def value(kind: str, code: int) -> object:
    """The oracle: what a good row answers."""
    if kind == "bool":
        return code % 2 == 0
    if kind in ("float32", "float64"):
        return code + 0.5
    if kind == "utf8":
        return "back-reference" if code % 3 == 0 else "é" * (code % 5) + str(code)
    return b"x" * code if kind == "binary" else code


def text(kind: str, strict: bool, code: int) -> str | None:
    """The oracle: why a row fails; None where it does not."""
    wanted = f"TypeError: result: wanted {kind}, got "
    if code < 100 or (code == 102 and not strict):
        return None
    surrogate = r"str '\ud800x'"
    return {
        100: "ValueError: bad literal",
        101: wanted + "list [1]",
        102: wanted + "None",
        103: "StopIteration",
        104: f"ValueError: result: wanted utf8, got {surrogate} with a lone surrogate"
        if kind == "utf8"
        else wanted + surrogate,
        105: r"ValueError: two lines \x1b[2J",
        106: "SystemExit: 3",
        107: "Odd",
        108: r"ValueError: \ud800",
        109: ("ValueError: " + "x" * 5000)[:ERROR_TEXT_BYTES_MAX],
    }[code]


def expected(mode: str, kind: str, strict: bool, codes: list[int]) -> tuple[list, list]:
    """Values and error texts of each row."""
    raised = [c for c in codes if c >= 100 and c not in (101, 102, 104)]
    if mode == "list" and raised:  # the first to raise fails them all
        return [None] * len(codes), [text(kind, strict, raised[0])] * len(codes)
    texts = [text(kind, strict, c) for c in codes]
    return [None if t or c == 102 else value(kind, c) for c, t in zip(codes, texts)], texts


def expected_of(mode: str, kind: str, strict: bool, lists: list[list[int]]) -> tuple[list, list]:
    """The same for several batches."""
    values, texts = [], []
    for codes in lists:
        some = expected(mode, kind, strict, codes)
        values += some[0]
        texts += some[1]
    return values, texts


@pytest.mark.parametrize("strict", [False, True], ids=["nullable", "strict"])
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("mode", ["row", "list", "each"])
def test_every_way_to_fail(failing: Gateway, mode: str, kind: str, strict: bool) -> None:
    name = f"{mode}_{kind}" + "_strict" * strict
    lists = [list(range(100, 110)), [1, 101, 3, 104, 6, 102, 9], [3, 6, 3, 9, 12, 3], [1, 100, 3, 108, 3]]
    batches = [batch(ints(*codes)) for codes in lists] + [batch(ints())]
    values, texts = expected_of(mode, kind, strict, lists)
    rejected = call(failing, name, *batches, how="reject")
    assert [(f.name, f.type, f.nullable) for f in rejected.schema] == [
        (name, ARROW.get(kind) or rejected.schema.field(0).type, True),
        ("error", pa.string(), True),
    ]
    rejected.validate(full=True)
    assert rejected.column(1).to_pylist() == texts
    assert rejected.column(0).to_pylist() == values
    nulls = call(failing, name, *batches, how="null")
    assert nulls.schema == pa.schema([rejected.schema.field(0)])
    assert nulls.column(0).to_pylist() == values


@pytest.mark.parametrize("code", range(100, 109))  # statuses are shorter than the text of 109
@pytest.mark.parametrize("kind", ["int64", "utf8"])
def test_a_text_is_the_error_without_its_row(failing: Gateway, kind: str, code: int) -> None:
    """on_error fail reads the same, after the function and the row."""
    with pytest.raises(pa.ArrowInvalid) as caught:
        call(failing, f"row_{kind}_strict", batch(ints(1, code, 3)), how="fail")
    told = str(caught.value).replace("Flight returned invalid argument error, with message: ", "")
    assert told.startswith(f"row_{kind}_strict: row 1: {text(kind, True, code)}"), told


def test_random_rows_against_the_oracle(failing: Gateway) -> None:
    print(f"UDFGATE_SEED={SEED}")
    rng = random.Random(SEED)
    for _ in range(40):
        mode, kind, strict = rng.choice(["row", "list", "each"]), rng.choice(TYPES), rng.random() < 0.5
        share = rng.choice([0, 0.001, 0.05, 0.9])
        lists = [
            [
                rng.randrange(100, 109) if rng.random() < share else rng.randrange(100)
                for _ in range(rng.choice([1, 7, 8, 500, 9000]))
            ]
            for _ in range(rng.randrange(1, 4))
        ]
        what = f"{mode} {kind} strict={strict} share={share} seed={SEED}"
        values, texts = expected_of(mode, kind, strict, lists)
        got = call(
            failing, f"{mode}_{kind}" + "_strict" * strict, *(batch(ints(*codes)) for codes in lists), how="reject"
        )
        assert got.column(1).to_pylist() == texts, what
        assert got.column(0).to_pylist() == values, what


@pytest.mark.parametrize("name", ["own_null", "own_reject"])
def test_options_answer_one_nullable_field(failing: Gateway, name: str) -> None:
    """A caller that asked for nothing gets the schema that GetFlightInfo showed it."""
    codes = batch(ints(1, 100, 101, 102, 3))
    info = failing.client.get_flight_info(flight.FlightDescriptor.for_path(name))
    assert info.total_records == 1 and len(info.schema) == 2 and info.schema.field(1).nullable
    got = call(failing, name, codes)
    assert got.schema.names == [name] and got.column(0).to_pylist() == [1, None, None, None, 3]
    assert call(failing, name, codes, how="reject").column(1).to_pylist() == [
        None,
        *(text("int64", True, c) for c in (100, 101, 102)),
        None,
    ]
    with pytest.raises(pa.ArrowInvalid, match="row 1: ValueError: bad literal"):
        call(failing, name, codes, how="fail")


def test_bill_and_metrics_count_failed_rows(failing: Gateway) -> None:
    trailers = Trailers()
    client = flight.connect(f"grpc://{failing.address}", middleware=[trailers])
    options = flight.FlightCallOptions(headers=[(b"udfgate-on-error", b"null"), (b"udfgate-bill", b"batch")])
    writer, reader = client.do_exchange(flight.FlightDescriptor.for_path("row_int64"), options)
    with writer:
        writer.begin(batch(ints()).schema)
        for codes, failed in (((1, 2), 0), ((100, 1, 101), 2), ((103,), 1)):
            writer.write_with_metadata(batch(ints(*codes)), b"id-%d" % failed)
            told = json.loads(reader.read_chunk().app_metadata.to_pybytes())
            assert (told["bill"]["rows"], told["bill"]["rows_failed"]) == (len(codes), failed)
        writer.done_writing()
        reader.read_all()
    client.close()
    bill = json.loads(trailers.last["udfgate-bill"][0])
    assert (bill["rows"], bill["rows_failed"]) == (6, 3)
    with urllib.request.urlopen(f"http://{failing.http}/metrics") as answer:
        lines = answer.read().decode()
    assert 'udfgate_rows_total{function="row_int64",outcome="failed",path="python"}' in lines


def test_app_metadata_is_echoed_per_batch(failing: Gateway) -> None:
    options = flight.FlightCallOptions(headers=[(b"udfgate-on-error", b"reject")])
    writer, reader = failing.client.do_exchange(flight.FlightDescriptor.for_path("list_utf8"), options)
    with writer:
        writer.begin(batch(ints()).schema)
        for i in range(20):
            writer.write_with_metadata(batch(ints(3, 100 if i % 2 else 6)), b"id-%d" % i)
        writer.done_writing()
        for i in range(20):
            chunk = reader.read_chunk()
            assert chunk.app_metadata.to_pybytes() == b"id-%d" % i
            assert chunk.data.column(1).null_count == (0 if i % 2 else 2)


@pytest.mark.parametrize("how", ["null", "reject"])
@pytest.mark.parametrize(
    ("name", "headers", "value", "kind", "error"),
    [
        (
            "slow",
            ((b"udfgate-timeout", b"300ms"),),
            7,
            flight.FlightTimedOutError,
            "slow: timeout after 300ms (udfgate-timeout)",
        ),
        ("dies", (), 7, flight.FlightInternalError, "dies: worker lost: exit status 9"),
        ("short", (), 1, pa.ArrowInvalid, "short: wanted 2 results, got 1"),
    ],
    ids=["timeout", "lost", "short"],
)
def test_what_is_no_row_ends_the_call_after_the_answers_before(
    failing: Gateway, how: str, name: str, headers: tuple, value: int, kind: type, error: str
) -> None:
    options = flight.FlightCallOptions(timeout=30, headers=[*headers, (b"udfgate-on-error", how.encode())])
    writer, reader = failing.client.do_exchange(flight.FlightDescriptor.for_path(name), options)
    with pytest.raises(kind) as caught, writer:
        writer.begin(batch(ints()).schema)
        good = [batch(ints()) if name == "short" else batch(ints(1, 2))] * 3
        for b in [*good, batch(ints(value, 1)), batch(ints(1))]:
            writer.write_batch(b)
        writer.done_writing()
        for b in good:
            assert reader.read_chunk().data.num_rows == b.num_rows
        reader.read_chunk()
    assert error in str(caught.value)
    assert call(failing, "own_null", batch(ints(1))).column(0).to_pylist() == [1]


def test_a_writer_that_never_reads_is_told_so_or_answered(failing: Gateway) -> None:
    """Many large answers, all written before the first is read."""
    text_in = pa.array(["x" * 64] * 4096)
    writer, reader = failing.client.do_exchange(flight.FlightDescriptor.for_path("wide"))
    written = threading.Event()
    wrong: list[BaseException] = []

    def write() -> None:
        try:
            writer.begin(batch(text_in).schema)
            for _ in range(60):  # answers of 16 MiB, about 1 GiB in all
                writer.write_batch(batch(text_in))
            writer.done_writing()
        except BaseException as e:
            wrong.append(e)
        finally:
            written.set()

    threading.Thread(target=write, daemon=True).start()
    assert written.wait(60), "the client hangs in its writing"
    try:
        rows = sum(len(chunk.data) for chunk in reader)
        assert rows == 60 * 4096 and not wrong
    except pa.ArrowInvalid as e:
        assert "wide: client is not reading its answers: read while writing" in str(e)
