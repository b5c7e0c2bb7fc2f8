"""A bare pyarrow Flight server, what one writes without any library.    serve_pyarrow.py HOST:PORT row|vector

row       to_pylist, a loop over the body, pa.array
vector    the same functions over whole columns, in numpy and pyarrow.compute; parse_json has no such form
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pyarrow as pa
from bodies import FUNCTIONS, Function
from inputs import ARROW
from pyarrow import flight

Run = Callable[..., pa.Array]


def row_loop(function: Function) -> Run:
    body, result = function.body, ARROW[function.result]

    def unary(column: pa.Array) -> pa.Array:
        return pa.array([body(value) for value in column.to_pylist()], type=result)

    def binary(left: pa.Array, right: pa.Array) -> pa.Array:
        return pa.array([body(a, b) for a, b in zip(left.to_pylist(), right.to_pylist())], type=result)

    return unary if len(function.arguments) == 1 else binary


def vector_forms() -> dict[str, Run]:
    import numpy as np  # here, so that the row server needs pyarrow alone
    import pyarrow.compute as pc

    def clean(column: pa.Array) -> pa.Array:
        text = pc.replace_substring(pc.utf8_lower(pc.utf8_trim_whitespace(column)), pattern="-", replacement="_")
        return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.utf8()), text)

    def days(column: pa.Array) -> pa.Array:
        return pc.strptime(column, format="%Y-%m-%d", unit="s").cast(pa.date32()).cast(pa.int32())

    return {
        "gcd": lambda a, b: pa.array(np.gcd(a.to_numpy(), b.to_numpy())),
        "gcd_shipped": lambda a, b: pa.array(np.gcd(a.to_numpy(), b.to_numpy())),
        "affine": lambda a, b: pa.array(a.to_numpy() * 2 + b.to_numpy()),
        "clean": clean,
        "days": days,
        "identity": lambda column: column,
        "noop": lambda column: column,
        "noop_arrow": lambda column: column,
    }


class BareServer(flight.FlightServerBase):
    """Serves GetFlightInfo and DoExchange as arrow-udf's clients expect them."""

    def __init__(self, address: str, runs: dict[str, Run]) -> None:
        super().__init__(f"grpc://{address}")
        self._runs = runs
        self._arguments: dict[str, pa.Schema] = {}
        self._results: dict[str, pa.Schema] = {}
        for name in runs:
            function = FUNCTIONS[name]
            self._arguments[name] = pa.schema([(f"arg{i}", ARROW[t]) for i, t in enumerate(function.arguments)])
            self._results[name] = pa.schema([(name, ARROW[function.result])])

    def get_flight_info(
        self, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor
    ) -> flight.FlightInfo:
        name = descriptor.path[0].decode()
        arguments = self._arguments[name]
        return flight.FlightInfo(pa.schema([*arguments, *self._results[name]]), descriptor, [], len(arguments), 0)

    def do_exchange(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.MetadataRecordBatchWriter,
    ) -> None:
        name = descriptor.path[0].decode()
        run, schema = self._runs[name], self._results[name]
        writer.begin(schema)
        for chunk in reader:
            writer.write_batch(pa.RecordBatch.from_arrays([run(*chunk.data.columns)], schema=schema))

    def list_flights(self, context: flight.ServerCallContext, criteria: bytes) -> Iterator[flight.FlightInfo]:
        for name in self._runs:
            yield self.get_flight_info(context, flight.FlightDescriptor.for_path(name))


def main() -> None:
    address, variant = sys.argv[1:3]
    forms = {"row": lambda: {name: row_loop(f) for name, f in FUNCTIONS.items()}, "vector": vector_forms}
    BareServer(address, forms[variant]()).serve()


if __name__ == "__main__":
    main()
