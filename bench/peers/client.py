"""The one client of the comparison: pyarrow Flight, the same calls to every server."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import inputs
import pyarrow as pa
from cells import Cell
from pyarrow import flight

CALL_LIMIT = 20.0  # seconds for one call; a server that hangs must not stop the run

# Without it gRPC lets "new" connections to one address share a TCP connection within a process.
OWN_CONNECTION = [("grpc.use_local_subchannel_pool", 1)]

# Databend's server says in schema metadata how many fields are arguments; the others count them in total_records.
INPUT_COUNT = b"x-databend-udf-input-count"


class Unsupported(Exception):
    """The server does not offer the function."""


class Slice(NamedTuple):
    """What one stretch of load on one server came to."""

    latencies: list[float]
    rows: int
    wall: float


def connect(address: str) -> flight.FlightClient:
    return flight.connect(f"grpc://{address}", generic_options=OWN_CONNECTION)


def call(client: flight.FlightClient, function: str, batch: pa.RecordBatch, limit: float = CALL_LIMIT) -> pa.Table:
    """One DoExchange with one batch. limit: seconds."""
    options = flight.FlightCallOptions(timeout=limit)
    writer, reader = client.do_exchange(flight.FlightDescriptor.for_path(function), options)
    with writer:
        writer.begin(batch.schema)
        writer.write_batch(batch)
        writer.done_writing()
        return reader.read_all()


class Target:
    """A server as the client sees it: a shared connection, and what each function takes."""

    def __init__(self, name: str, address: str) -> None:
        self.name, self._address = name, address
        self._client = connect(address)
        self._schemas: dict[str, pa.Schema] = {}

    def close(self) -> None:
        self._client.close()

    def _arguments(self, function: str) -> pa.Schema:
        if function not in self._schemas:
            descriptor = flight.FlightDescriptor.for_path(function)
            try:
                info = self._client.get_flight_info(descriptor, flight.FlightCallOptions(timeout=CALL_LIMIT))
            except (pa.ArrowException, KeyError) as e:
                raise Unsupported(f"{type(e).__name__}: {str(e).splitlines()[0][:120]}") from e
            count = int((info.schema.metadata or {}).get(INPUT_COUNT, info.total_records))
            self._schemas[function] = pa.schema([info.schema.field(i) for i in range(count)])
        return self._schemas[function]

    def batch(self, function: str, rows: int) -> pa.RecordBatch:
        return inputs.batch(function, rows, self._arguments(function))

    def answer(self, function: str, rows: int) -> list[Any]:
        """The values that the server returns; functions are checked through this before they are timed."""
        values: list[Any] = call(self._client, function, self.batch(function, rows)).column(0).to_pylist()
        return values

    def run(self, cell: Cell, seconds: float) -> Slice:
        """Load for about so many seconds, at least one call per caller; raises what the first failed call raised."""
        batch = self.batch(cell.function, cell.rows)
        caller = {"call": self._calls, "stream": self._stream, "connect": self._connects}[cell.kind]
        with ThreadPoolExecutor(cell.callers) as threads:
            started = time.perf_counter()
            deadline = started + seconds
            if cell.callers == 1:  # no thread between the clock and the call
                parts = [caller(cell.function, batch, deadline)]
            else:
                parts = list(threads.map(lambda _: caller(cell.function, batch, deadline), range(cell.callers)))
            wall = time.perf_counter() - started
        latencies = [x for part in parts for x in part]
        return Slice(latencies, len(latencies) * cell.rows, wall)

    def _calls(self, function: str, batch: pa.RecordBatch, deadline: float) -> list[float]:
        return self._repeat(function, batch, deadline, lambda: call(self._client, function, batch).num_rows)

    def _connects(self, function: str, batch: pa.RecordBatch, deadline: float) -> list[float]:
        def once() -> int:
            with connect(self._address) as client:
                rows: int = call(client, function, batch).num_rows
                return rows

        return self._repeat(function, batch, deadline, once)

    def _stream(self, function: str, batch: pa.RecordBatch, deadline: float) -> list[float]:
        options = flight.FlightCallOptions(timeout=CALL_LIMIT)
        writer, reader = self._client.do_exchange(flight.FlightDescriptor.for_path(function), options)

        def once() -> int:
            writer.write_batch(batch)
            rows = 0
            while rows < batch.num_rows:  # a server may answer in pieces
                rows += reader.read_chunk().data.num_rows
            return rows

        with writer:
            writer.begin(batch.schema)
            latencies = self._repeat(function, batch, deadline, once)
            writer.done_writing()
            reader.read_all()
        return latencies

    def _repeat(self, function: str, batch: pa.RecordBatch, deadline: float, once: Callable[[], int]) -> list[float]:
        """Calls one after the other until the deadline, at least one; once returns how many rows came back."""
        latencies = []
        now = time.perf_counter()
        while True:
            started = now
            rows = once()
            now = time.perf_counter()
            latencies.append(now - started)
            if rows != batch.num_rows:
                raise RuntimeError(f"{self.name}: {function}: wanted {batch.num_rows} rows, got {rows}")
            if now >= deadline:
                return latencies
