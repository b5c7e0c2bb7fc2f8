"""Runs what has gone wrong elsewhere through a gateway."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.flight as flight
import pytest
from reported_cases import FAILING, LEFT_OUT, PARTS_LEFT_OUT, WORKING, Case, ints, texts
from served import HERE, Gateway, batch_of
from tally import TALLY

LOST_SECONDS_MAX = 10


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path_factory.mktemp("reported"), "reported.py", "--workers", "1")
    yield gateway
    gateway.stop()
    for what, table in (("left out", LEFT_OUT), ("parts left out", PARTS_LEFT_OUT)):
        left = "; ".join([f"{why}: {', '.join(names)}" for why, names in table.items()])
        TALLY.notes.append(f"values: reported: {sum(map(len, table.values()))} {what}: {left}")


@pytest.fixture
def own(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator:
    """Starts a gateway of its own with flags and variables."""
    started = []

    def start(*flags: str, file: str | pathlib.Path = "reported.py", **variables: str) -> Gateway:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        started.append(Gateway(tmp_path / "own", file, "--workers", "1", *flags))
        return started[-1]

    yield start
    for gateway in started:
        if gateway.process.poll() is None:
            gateway.stop()


def plain(values: list) -> list:
    return [tuple(value) if isinstance(value, tuple) else value for value in values]


@pytest.mark.parametrize("case", WORKING, ids=lambda case: case.name)
def test_working(reported: Gateway, case: Case) -> None:
    """The same answer in one batch and in batches of one row and of three."""
    whole, found = batch_of(*case.columns), []
    for size in (whole.num_rows,) if case.stateful else (whole.num_rows, 1, 3):
        pieces = [whole.slice(at, size) for at in range(0, whole.num_rows, size)]
        _, answers = reported.exchange(case.function, *pieces)
        got = [value for answer in answers for value in answer.column(0).to_pylist()]
        found += TALLY.compare("reported", f"{case.name}, batches of {size}", case.answer, plain(got))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("case", FAILING, ids=lambda case: case.name)
def test_failing(reported: Gateway, case: Case) -> None:
    with pytest.raises((pa.ArrowInvalid, flight.FlightInternalError)) as raised:
        reported.column(case.function, *case.columns)
    told = str(raised.value)
    assert not TALLY.compare("reported", case.name, True, bool(re.search(case.error, told)) or told)
    assert len(told.encode()) < 16_384
    if case.then:
        function, argument, answer = case.then
        assert reported.column(function, ints(argument)).to_pylist() == [answer]


def test_state_lives_between_batches(reported: Gateway) -> None:
    _, answers = reported.exchange("remembers", *[batch_of(ints(0)) for _ in range(3)])
    first = answers[0].column(0)[0].as_py()
    assert [answer.column(0)[0].as_py() for answer in answers] == [first, first + 1, first + 2]
    TALLY.compare("reported", "state", 1, 1)


def test_equal_arguments_are_not_equal_calls(reported: Gateway) -> None:
    got = reported.column("counts", texts(*[""] * 10)).to_pylist()
    assert not TALLY.compare("reported", "counts", list(range(got[0], got[0] + 10)), got)


def test_nulls_alone_keep_the_type(reported: Gateway) -> None:
    kind = pa.decimal128(10, 2)
    got = reported.column("never_called", pa.array([None, None], kind))
    assert not TALLY.compare("reported", "nulls alone", (kind, [None, None]), (got.type, got.to_pylist()))


def test_a_null_in_a_later_batch_alone(reported: Gateway) -> None:
    batches = [batch_of(ints(2**63 - 1, 5)), batch_of(ints(2**63 - 1, None))]
    _, answers = reported.exchange("same_series", *batches)
    assert not TALLY.compare(
        "reported", "later null", [[2**63 - 1, 5], [2**63 - 1, None]], [a.column(0).to_pylist() for a in answers]
    )


def test_a_dictionary_that_changes(reported: Gateway) -> None:
    sent = []
    for words, where in ((["foo", "baz"], [1, 0]), (["foo", "baz", "quux"], [2, 1]), (["x"], [0, None])):
        sent.append(batch_of(pa.DictionaryArray.from_arrays(pa.array(where, pa.int8()), words)))
    _, answers = reported.exchange("same_text", *sent, ipc=pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True))
    got = [value for answer in answers for value in answer.column(0).to_pylist()]
    assert not TALLY.compare("reported", "dictionary", ["baz", "foo", "quux", "baz", "x", None], got)


def test_empty_buffers_compressed(reported: Gateway) -> None:
    for codec in ("lz4", "zstd"):
        got = reported.column("same_text", texts("", None, ""), ipc=pa.ipc.IpcWriteOptions(compression=codec))
        assert not TALLY.compare("reported", f"empty, {codec}", ["", None, ""], got.to_pylist())


def test_extension_of_a_field(reported: Gateway) -> None:
    extension = {b"ARROW:extension:name": b"arrowudf.decimal"}
    schema = pa.schema([pa.field("", pa.utf8(), metadata=extension)])
    batch = pa.RecordBatch.from_arrays([texts("1.23", "-0.5")], schema=schema)
    answered, (answer,) = reported.exchange("same_decimal", batch)
    assert answered.field(0).metadata[b"ARROW:extension:name"] == b"arrowudf.decimal"
    assert not TALLY.compare("reported", "extension", ["1.23", "-0.5"], answer.column(0).to_pylist())


def test_half_floats(reported: Gateway) -> None:
    got = reported.column("half", pa.array([1.0, 0.5, float("nan")], pa.float16()))
    assert not TALLY.compare(
        "reported",
        "half floats",
        (pa.float16(), "[2.0, 1.0, nan]"),
        (got.type, repr([float(x) for x in got.to_pylist()])),
    )


def test_schema_alone(reported: Gateway) -> None:
    writer, reader = reported.client.do_exchange(flight.FlightDescriptor.for_path("as_text"))
    with writer:
        writer.begin(pa.schema([("x", pa.int64())]))
        writer.done_writing()
        table = reader.read_all()
    assert not TALLY.compare("reported", "schema alone", ([pa.utf8()], 0), (table.schema.types, table.num_rows))


def test_unions_are_refused_by_name(reported: Gateway) -> None:
    union = pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [ints(1)])
    with pytest.raises(pa.ArrowNotImplementedError, match="union"):
        reported.column("same_number", union.slice(0))
    TALLY.compare("reported", "unions", 1, 1)


def test_rows_per_row(reported: Gateway) -> None:
    """A table function answers none or one for a row, in any batches."""
    whole = batch_of(ints(*range(5)))
    for size in (5, 1, 3):
        found = []
        for at in range(0, 5, size):
            writer, reader = reported.client.do_exchange(flight.FlightDescriptor.for_path("below_three"))
            with writer:
                writer.begin(whole.schema)
                writer.write_batch(whole.slice(at, size))
                writer.done_writing()
                table = reader.read_all()
            found += [(at + row, value) for row, value in zip(*[column.to_pylist() for column in table.columns])]
        assert not TALLY.compare("reported", f"rows per row, {size}", [(n, n) for n in range(3)], found)


def test_log_lines_name_the_function(own) -> None:
    gateway = own()
    assert gateway.column("logs_by_context", ints(7)).to_pylist() == [7]
    gateway.stop()
    lines = [line for line in gateway.log.read_text().splitlines() if "number 7 seen" in line]
    assert not TALLY.compare("reported", "log lines", [True], ["reported.logs_by_context" in line for line in lines])


def test_later_calls_after_a_loss(reported: Gateway) -> None:
    with pytest.raises(flight.FlightInternalError, match="worker lost: exit status 9"):
        reported.column("leaves", ints(1))
    got = [reported.column("same_number", ints(n)).to_pylist() for n in range(20)]
    assert not TALLY.compare("reported", "later calls", [[n] for n in range(20)], got)


def test_idle_workers_that_are_killed(own) -> None:
    gateway = own()
    for _ in range(3):
        os.kill(gateway.column("own_process", ints(0))[0].as_py(), signal.SIGKILL)
        got = [gateway.column("same_number", ints(n)).to_pylist() for n in range(10)]
        assert not TALLY.compare("reported", "killed idle", [[n] for n in range(10)], got)


def test_more_workers_asked_for_than_there_are(own) -> None:
    gateway = own()
    found = {gateway.column("own_process", ints(0))[0].as_py() for _ in range(5)}
    assert not TALLY.compare("reported", "max_workers", 1, len(found))


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks at descriptors in /proc")
@pytest.mark.parametrize("what", ["connections", "cancelled", "lost"])
def test_descriptors_come_back(own, what: str) -> None:
    """Connections that come and go, calls that are cancelled, workers that are lost: the gateway holds no more after."""
    gateway = own()

    def once() -> None:
        if what == "connections":
            client = flight.connect(gateway.location)
            assert len(list(client.list_flights())) > 1
            client.close()
        elif what == "lost":
            with pytest.raises(flight.FlightInternalError, match="worker lost"):
                gateway.column("leaves", ints(1))
        else:
            writer, reader = gateway.client.do_exchange(flight.FlightDescriptor.for_path("same_number"))
            writer.begin(batch_of(ints(1)).schema)
            writer.write_batch(batch_of(ints(1)))
            reader.cancel()
            with contextlib.suppress(pa.ArrowException, KeyboardInterrupt):
                writer.close()

    def held() -> int:
        assert gateway.column("same_number", ints(5)).to_pylist() == [5]
        return len(os.listdir(f"/proc/{gateway.process.pid}/fd"))

    for _ in range(3):
        once()
    before = held()
    for _ in range(20):
        once()
    end = time.monotonic() + LOST_SECONDS_MAX
    while held() > before + 4 and time.monotonic() < end:
        time.sleep(0.01)
    assert not TALLY.compare("reported", f"descriptors, {what}", True, held() <= before + 4)


def test_few_open_files(own) -> None:
    assert own().column("open_files", ints(0)).to_pylist()[0] <= 8
    TALLY.compare("reported", "open files", 1, 1)


def test_no_row_twice_after_a_loss(reported: Gateway, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "count"
    with pytest.raises(flight.FlightInternalError, match="worker lost: exit status 1"):
        reported.column("dies_midway", texts(*[str(path)] * 3), ints(1, 2, 3))
    assert not TALLY.compare("reported", "no row twice", b"..", path.read_bytes())


def test_locale(own) -> None:
    got = own(LANG="C", LC_ALL="C").column("locale", texts("-")).to_pylist()
    assert not TALLY.compare("reported", "locale", ["ß-utf-8c39f"], got)


def test_python_variables_stay_outside(own) -> None:
    got = own(PYTHONHOME="/nonexistent", PYTHONPATH="/nonexistent").column("prefix", ints(1)).to_pylist()
    assert not TALLY.compare("reported", "prefix", [sys.prefix], got)


def test_zone_of_the_machine(own) -> None:
    """A moment is in the zone of its column, wherever the machine stands."""
    moments = [dt.datetime(2024, 7, 1, 16, tzinfo=dt.timezone.utc), dt.datetime(2024, 1, 1, 17, tzinfo=dt.timezone.utc)]
    got = own(TZ="Asia/Tokyo").column("local_hour", pa.array(moments, pa.timestamp("us", "America/New_York")))
    assert not TALLY.compare("reported", "zone", [-3.88, -4.88], got.to_pylist())


def test_an_answer_that_is_too_large(own) -> None:
    gateway = own("--max-message-bytes", "4MiB")
    with pytest.raises(pa.ArrowInvalid, match=r"--max-message-bytes"):
        gateway.column("wide", ints(10, 20_000_000))
    assert not TALLY.compare("reported", "large answers", 10, len(gateway.column("wide", ints(10))[0].as_py()))


@pytest.mark.parametrize("function", ["sleeps", "spins"])
def test_time_limit(own, function: str) -> None:
    gateway = own("--timeout", "500ms")
    began = time.monotonic()
    with pytest.raises(flight.FlightTimedOutError, match=rf"{function}: timeout after 500ms \(--timeout\)"):
        gateway.column(function, ints(1))
    assert time.monotonic() - began < LOST_SECONDS_MAX
    assert not TALLY.compare("reported", function, [5], gateway.column("same_number", ints(5)).to_pylist())


def _gone(pid: int) -> bool:
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks at processes in /proc")
def test_children_end_with_the_gateway(own) -> None:
    gateway = own()
    children = gateway.column("leaves_a_child", ints(1, 2, 3)).to_pylist()
    assert not any(map(_gone, children))
    gateway.stop()
    assert not TALLY.compare("reported", "children", [True] * 3, list(map(_gone, children)))


@pytest.mark.parametrize("function", ["leaves_a_thread", "ignores_the_end"])
def test_nothing_holds_up_the_end(own, function: str) -> None:
    gateway = own()
    assert gateway.column(function, ints(1)).to_pylist() == [1]
    began = time.monotonic()
    gateway.stop()
    assert not TALLY.compare("reported", function, True, time.monotonic() - began < LOST_SECONDS_MAX)


@pytest.mark.parametrize(
    ("first", "told"),
    [
        ("import no_such_module_here", "No module named 'no_such_module_here'"),
        ("raise ImportError('broken here')", "broken here"),
    ],
)
def test_files_that_do_not_load(tmp_path: pathlib.Path, first: str, told: str) -> None:
    file = tmp_path / "broken.py"
    file.write_text(f"{first}\n\n\ndef f(x: int) -> int:\n    return x\n")
    command = [
        os.environ.get("UDFGATE_BINARY", "udfgate"),
        "serve",
        str(file),
        "--listen",
        "127.0.0.1:0",
        "--http",
        "off",
    ]
    done = subprocess.run([*command, "--python", sys.executable], capture_output=True, text=True, timeout=60, cwd=HERE)
    assert not TALLY.compare("reported", first, (3, True), (done.returncode, told in done.stderr or done.stderr))
