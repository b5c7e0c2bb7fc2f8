"""SQL in DuckDB over the flights, with functions that a gateway runs.

    python duckdb_flights.py grpc://127.0.0.1:8815 flights.csv

DuckDB hands its Arrow UDFs batches of 2,048 rows. Each function keeps one DoExchange open and sends batch by batch; the gateway
puts the bill of each batch into the answer's app_metadata, so the script can add them up. Needs duckdb and pyarrow.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter

import duckdb
import pyarrow as pa
import pyarrow.flight as flight

SQL_TYPES = {"int64": "BIGINT", "double": "DOUBLE", "string": "VARCHAR", "bool": "BOOLEAN"}
PHASES = ("queue", "coalesce", "start", "conversion", "crossing", "body", "reply", "other")

QUERY = """
    SELECT carrier,
           count(*)                                             AS flights,
           round(avg(speed_mph(distance, air_time)), 1)         AS mph,
           count(*) FILTER (delay_class(dep_delay, arr_delay) = 'very late') AS very_late,
           min(flight_label(carrier, flight, origin, dest, tailnum)) AS first_label
    FROM flights GROUP BY carrier ORDER BY flights DESC LIMIT 8
"""


class RemoteFunction:
    """A function of the gateway as a callable over Arrow arrays, all of one length; keeps one stream open."""

    def __init__(self, client: flight.FlightClient, name: str):
        info = client.get_flight_info(flight.FlightDescriptor.for_path(name))
        count = info.total_records
        self.name, self.bill = name, Counter()
        self.args = [info.schema.field(i) for i in range(count)]
        self.result = info.schema.field(count)
        options = flight.FlightCallOptions(headers=[(b"udfgate-bill", b"batch")])
        self._writer, self._reader = client.do_exchange(flight.FlightDescriptor.for_path(name), options)
        self._schema = pa.schema([pa.field(f.name, f.type) for f in self.args])
        self._writer.begin(self._schema)

    def __call__(self, *columns: pa.ChunkedArray | pa.Array) -> pa.Array:
        arrays = [c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for c in columns]
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        chunk = self._reader.read_chunk()
        self.bill.update(
            {
                k: v
                for k, v in json.loads(chunk.app_metadata.to_pybytes())["bill"].items()
                if k.endswith("_ns") or k == "rows"
            }
        )
        return chunk.data.column(0)

    def register(self, connection: duckdb.DuckDBPyConnection) -> None:
        # DuckDB counts the parameters of the callable, so it gets one of the right arity.
        names = ", ".join(f"a{i}" for i in range(len(self.args)))
        call = eval(f"lambda {names}: f({names})", {"f": self})
        connection.create_function(
            self.name,
            call,
            [SQL_TYPES[str(f.type)] for f in self.args],
            SQL_TYPES[str(self.result.type)],
            type="arrow",
            null_handling="special",
        )

    def close(self) -> None:
        self._writer.done_writing()
        self._writer.close()


def main() -> None:
    address, csv = sys.argv[1:3]
    client = flight.connect(address)
    connection = duckdb.connect()
    connection.execute("SET threads = 1")  # one caller: each function has one stream
    connection.execute("CREATE TABLE flights AS SELECT * FROM read_csv(?, nullstr = 'NA')", [csv])
    functions = [RemoteFunction(client, name) for name in ("speed_mph", "delay_class", "flight_label")]
    for function in functions:
        function.register(connection)
    started = time.perf_counter()
    answer = connection.sql(QUERY)
    print(answer)
    took = time.perf_counter() - started
    bill: Counter[str] = Counter()
    for function in functions:
        function.close()
        bill.update(function.bill)
    wall = bill["wall_ns"]
    print(
        f"DuckDB: {bill['rows']:,} rows through three functions in {took:.2f} s, {bill['rows'] / took:,.0f} rows/s; "
        f"{wall / 1e9:.2f} s of it in the gateway:"
    )
    for phase in PHASES:
        if share := bill[f"{phase}_ns"]:
            print(f"  {phase:<12}{share / 1e6:>10.1f} ms {share / wall:>7.1%}")
    dear = max(PHASES, key=lambda p: bill[f"{p}_ns"])
    print(
        f"The dearest phase is {dear}: {bill[f'{dear}_ns'] / wall:.0%} of the gateway's time, "
        f"{bill[f'{dear}_ns'] / bill['rows']:.0f} ns per row."
    )


if __name__ == "__main__":
    main()
