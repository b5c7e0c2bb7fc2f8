"""Calls of any number of answers, as the tests of this folder make them."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.flight as flight
from served import CALL_SECONDS_MAX, Gateway

PLACES_SECONDS = 5  # in which calls that have places to take have them
CANCELLED = (flight.FlightError, pa.ArrowException, KeyboardInterrupt)  # pyarrow makes the last of a status


def answers(gateway: Gateway, name: str, *batches: pa.RecordBatch, headers: tuple = ()) -> tuple:
    """(schema, batches) of all that a call answers."""
    headers = [(key.encode(), value.encode()) for key, value in headers]
    options = flight.FlightCallOptions(timeout=CALL_SECONDS_MAX, headers=headers)
    writer, reader = gateway.client.do_exchange(flight.FlightDescriptor.for_path(name), options)
    with writer:
        writer.begin(batches[0].schema)
        for batch in batches:
            writer.write_batch(batch)
        writer.done_writing()
        schema = reader.schema
        return schema, [chunk.data for chunk in reader]


def plain(value: object) -> object:
    """A value as the tables of cases have it; a struct whose members have no names as pairs."""
    if isinstance(value, pa.StructScalar) and value.is_valid:
        names = [value.type.field(at).name for at in range(value.type.num_fields)]
        members = [plain(value[at]) for at in range(len(names))]
        return dict(zip(names, members)) if len(set(names)) == len(names) else list(zip(names, members))
    found = value.as_py()
    return tuple(found) if isinstance(value, pa.MonthDayNanoIntervalScalar) and found is not None else found


def values(gateway: Gateway, name: str, batch: pa.RecordBatch, headers: tuple = ()) -> list:
    """The values of one batch; of a table function (row, value)."""
    schema, found = answers(gateway, name, batch, headers=headers)
    columns = [[plain(value) for part in found for value in part.column(at)] for at in range(len(schema))]
    for part in found:
        part.validate(full=True)
    return columns[0] if len(columns) == 1 else list(zip(*columns))


@contextlib.contextmanager
def running(gateway: Gateway, name: str, batch: pa.RecordBatch) -> Iterator[flight.FlightStreamReader]:
    """A call that has been sent, and is cancelled at the end."""
    writer, reader = gateway.client.do_exchange(flight.FlightDescriptor.for_path(name))
    try:
        writer.begin(batch.schema)
        writer.write_batch(batch)
        yield reader
    finally:
        reader.cancel()
        with contextlib.suppress(*CANCELLED):
            writer.close()


HOUR = pa.record_batch([pa.array([3_600_000], pa.int32())], names=["ms"])
NOTHING = pa.record_batch([pa.array([0], pa.int32())], names=["ms"])


def refused(gateway: Gateway, name: str, at_once: int) -> str:
    """What a call is told while others have all places of a function, which sleeps for its milliseconds.

    One of those others may itself come too late, while a worker starts, and be refused: then all is done again.
    """
    end = time.monotonic() + CALL_SECONDS_MAX
    while time.monotonic() < end:
        with contextlib.ExitStack() as held:
            for _ in range(at_once):
                held.enter_context(running(gateway, name, HOUR))
            error = _refusal(gateway, name)
        _until_served(gateway, name)
        if error:
            return error
    raise AssertionError(f"{name}: nobody was refused")


def _refusal(gateway: Gateway, name: str) -> str:
    """What one of several calls is told; nothing if all of them were answered."""
    end = time.monotonic() + PLACES_SECONDS
    while time.monotonic() < end:  # the first may come before those that stay
        try:
            values(gateway, name, NOTHING)
        except pa.ArrowInvalid as e:
            return str(e)
    return ""


def _until_served(gateway: Gateway, name: str) -> None:
    """Waits for the place of a call that was cancelled."""
    end = time.monotonic() + CALL_SECONDS_MAX
    while True:
        try:
            values(gateway, name, NOTHING)
        except pa.ArrowInvalid:
            if time.monotonic() > end:
                raise
        else:
            return


def ended_by_cancelling(gateway: Gateway, name: str, rows: int) -> bool:
    """Whether a call that would take for ever is over once it is cancelled."""
    with running(gateway, name, pa.record_batch([pa.array([rows], pa.int32())], names=["n"])) as reader:
        threading.Timer(0.3, reader.cancel).start()
        try:
            reader.read_all()
        except CANCELLED as e:
            return isinstance(e, KeyboardInterrupt) or "ancel" in str(e)
    return False


def info(gateway: Gateway, name: str) -> flight.FlightInfo:
    return gateway.client.get_flight_info(flight.FlightDescriptor.for_path(name))


def staged(*entries: dict) -> tuple:
    """The header that says where stages lie."""
    return (("databend-stage-mapping", json.dumps(entries)),)
