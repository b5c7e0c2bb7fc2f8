#!/usr/bin/env python3
"""What the Python worker needs to make Python's values of a column and a column of them again, beside pyarrow's.

    values.py [--rows 65536] [--rounds 7] [--types date,decimal]

Both sides run in this interpreter and this process, by turns: the worker's decoder and encoder over a piece of memory
in the place of its arenas, in blocks as for a call in row mode; to_pylist and pa.array of the same values. Figures are
the processor time of the thread, the median of the rounds and the least; the ratio is pyarrow's median to the worker's,
both ways together. What pyarrow makes of a column is compared with what the worker makes of it.
"""

from __future__ import annotations

import argparse
import gc
import marshal
import random
import statistics
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

import pyarrow as pa
from udfgate_worker.decode import readers, usual_form
from udfgate_worker.encode import encoder
from udfgate_worker.kinds import as_type
from udfgate_worker.typenames import column_type

BLOCK_ROWS = 4096
INDEX_BYTES = 8192  # of the ends of marshal blocks: up to 4 Mi rows
ARENA_BYTES = 1 << 27
FORM_ARROW = 1
SEED = 20_240_229
CODES = {"int64": "q", "date32": "i", "timestamp": "q"}


class Case(NamedTuple):
    """A column: its declared type, and what its values look like on the wire of the worker."""

    declared: str
    arrow: pa.DataType
    value: Callable[[random.Random], Any]


CASES: dict[str, Case] = {
    "int64": Case("BIGINT", pa.int64(), lambda r: r.randrange(1 << 30)),
    "text": Case("VARCHAR", pa.string(), lambda r: f"label {r.randrange(10**9):09}"),
    "date": Case("DATE", pa.date32(), lambda r: r.randrange(20_000)),
    "timestamp": Case("TIMESTAMP", pa.timestamp("us"), lambda r: r.randrange(2 * 10**15)),
    "decimal": Case("DECIMAL(18, 2)", pa.decimal128(18, 2), lambda r: f"{r.randrange(10**7)}.{r.randrange(100):02}"),
    "list of 5": Case("BIGINT[]", pa.list_(pa.int64()), lambda r: [r.randrange(10**6) for _ in range(5)]),
    "struct": Case(
        "STRUCT<a BIGINT, b VARCHAR>",
        pa.struct([("a", pa.int64()), ("b", pa.string())]),
        lambda r: {"a": r.randrange(10**6), "b": f"t{r.randrange(10**6)}"},
    ),
}


class Region:
    """The room for an answer, as the worker has it in its output arena."""

    base, limit, arena, waited, call = 0, ARENA_BYTES, 1, 0, 1

    def __init__(self) -> None:
        self.view = memoryview(bytearray(ARENA_BYTES))
        self.used = 0

    def take(self, size: int) -> int:
        at = self.used + 7 & ~7
        self.used = at + size
        return at

    def room(self, need: int, _wish: int) -> None:
        if need > self.limit:
            raise SystemExit(f"values.py: the answer needs {need} bytes, there are {self.limit}")


class Worker:
    """The worker's two ways over one column."""

    def __init__(self, case: Case, rows: int) -> None:
        rng = random.Random(SEED)
        wire = [case.value(rng) for _ in range(rows)]
        kind, nullable = column_type(case.declared)
        form = usual_form(kind)
        arena = memoryview(bytearray(ARENA_BYTES))
        views = {code: {1: arena.cast(code)} for code in "bBhHiIqQfd"}
        if form & 0xFFFF == FORM_ARROW:
            data = struct.pack(f"{rows}{CODES[as_type(kind).kind]}", *wire)
            arena[: len(data)] = data
            self._place = (form, 1, 0, 0, 0, 0, len(data))
        else:
            ends, blocks = [0], []
            for lo in range(0, rows, BLOCK_ROWS):
                blocks.append(marshal.dumps(wire[lo : lo + BLOCK_ROWS], 2))
                ends.append(ends[-1] + len(blocks[-1]))
            index = struct.pack(f"{len(ends)}Q", *ends)
            arena[: len(index)] = index
            arena[INDEX_BYTES : INDEX_BYTES + ends[-1]] = b"".join(blocks)
            self._place = (form, 1, 0, 0, len(index), INDEX_BYTES, ends[-1])
        self._rows = rows
        self._read = readers(kind, views)[form][1]
        self._encoder = encoder(kind, nullable, views)
        self._region = Region()

    def values(self) -> list[Any]:
        """All rows, for the comparison."""
        return [
            value for number, lo in enumerate(range(0, self._rows, BLOCK_ROWS)) for value in self._block(number, lo)
        ]

    def _block(self, number: int, lo: int) -> list[Any]:
        block: list[Any] = self._read(self._place, 0, lo, min(lo + BLOCK_ROWS, self._rows), number)
        return block

    def run(self) -> None:
        """Every block to values and back."""
        self._region.used = 0
        self._encoder.begin(self._region, self._rows, BLOCK_ROWS)
        for number, lo in enumerate(range(0, self._rows, BLOCK_ROWS)):
            if not self._encoder.fast(self._block(number, lo)):
                raise SystemExit(f"values.py: {self._encoder.type_name} does not go the fast way")
        self._encoder.end()

    def decode(self) -> None:
        """Every block to values."""
        for number, lo in enumerate(range(0, self._rows, BLOCK_ROWS)):
            self._block(number, lo)


def timed(run: Callable[[], object]) -> int:
    started = time.thread_time_ns()
    run()
    return time.thread_time_ns() - started


def measure(name: str, case: Case, rows: int, rounds: int) -> None:
    worker = Worker(case, rows)
    values = worker.values()
    column = pa.array(values, case.arrow)
    if column.to_pylist() != values:
        raise SystemExit(f"values.py: {name}: the worker and pyarrow make other values of the same column")
    gc.collect()
    gc.freeze()  # what is kept here must not be looked through again and again, on either side
    sides: dict[str, Callable[[], object]] = {
        "both": worker.run,
        "decode": worker.decode,
        "to_pylist": column.to_pylist,
        "array": lambda: pa.array(values, case.arrow),
    }
    took: dict[str, list[float]] = {side: [] for side in sides}
    for turn in range(rounds + 1):
        for side, run in sides.items():
            ns = timed(run) / rows
            if turn:  # the first one finds no memory and no cache
                took[side].append(ns)
    gc.unfreeze()
    ours, theirs = took["both"], [a + b for a, b in zip(took["to_pylist"], took["array"])]
    ratio = statistics.median(theirs) / statistics.median(ours)
    text = [f"{statistics.median(v):.0f} ({min(v):.0f})" for v in (ours, took["decode"], theirs)]
    text += [f"{statistics.median(took[side]):.0f}" for side in ("to_pylist", "array")]
    print(f"| {name}: {case.declared} | " + " | ".join(text) + f" | {ratio:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures the worker's conversion beside pyarrow's.")
    parser.add_argument("--rows", type=int, default=65_536)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--types", default=",".join(CASES), help=f"of {', '.join(CASES)}")
    args = parser.parse_args()
    print(
        f"ns per row, median (least) of {args.rounds} rounds of {args.rows} rows; Python {sys.version.split()[0]}, ",
        end="",
    )
    print(f"pyarrow {pa.__version__}\n")
    print("| column | worker, both ways | of it to values | pyarrow, both ways | to_pylist | pa.array | × worker |")
    print("|---|---|---|---|---|---|---|")
    for name in args.types.split(","):
        if name not in CASES:
            parser.error(f"no column {name!r}; there are {', '.join(CASES)}")
        measure(name, CASES[name], args.rows, args.rounds)


if __name__ == "__main__":
    main()
