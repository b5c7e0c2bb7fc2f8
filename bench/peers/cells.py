"""What is measured, and the goals that udfgate is held to.

A goal is a ratio to another server of the same run. `limit` is what arithmetic allows on two cores with the client on
them (transport, crossing, conversion and body of a batch, each as measured alone): a ratio far above it is more likely
a mistake of measuring than a success.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

SUBJECT = "udfgate"
PLAIN, VECTOR, ARROW, DATABEND = "plain-row", "plain-vector", "arrow-udf", "databend"

# Functions of whole columns: a gateway of their own serves them, on an interpreter that has pyarrow.
COLUMNS = ("noop_arrow",)


class Cell(NamedTuple):
    """One place of measurement: a function, rows per batch, concurrent callers and a way to call.

    call       one DoExchange per batch on a shared connection (RisingWave)
    stream     one long DoExchange per caller, a batch out and its answer back before the next (StarRocks)
    connect    a connection of its own per batch (Databend)
    """

    row: str  # number of the goal; "-" has none
    function: str
    rows: int
    callers: int
    kind: str
    arrow: float | None = None  # least ratio of rows/s to arrow-udf
    plain: float | None = None  # least ratio of rows/s to plain
    limit: float | None = None  # largest believable ratio to plain
    databend: float | None = None  # least ratio of rows/s to databend
    base: str = PLAIN  # which bare server plain and limit are of

    @property
    def key(self) -> str:
        return f"{self.function} {self.rows} x{self.callers} {self.kind}"

    def goals(self) -> list[tuple[str, float]]:
        goals = ((ARROW, self.arrow), (self.base, self.plain), (DATABEND, self.databend))
        return [(name, goal) for name, goal in goals if goal is not None]


CELLS: list[Cell] = [
    Cell("1", "gcd", 1, 1, "call", 0.95, 0.90, 1.0),
    Cell("1", "noop", 1, 1, "call", 0.95, 0.90, 1.0),
    Cell("2", "gcd", 1, 16, "call", 1.6, 1.4, 1.7),
    Cell("3", "gcd", 1024, 1, "call", 1.75, 1.0, 1.09),
    Cell("4", "gcd", 1024, 4, "call", 2.6, 1.4, 2.0),
    Cell("4", "gcd", 1024, 16, "call", 2.6, 1.4, 2.0),
    Cell("5", "gcd", 8192, 16, "call", 4.5, 1.6, 2.2),
    Cell("6", "gcd", 65536, 1, "call", 2.6, 1.10, 1.2),
    Cell("7", "affine", 65536, 1, "call", 5.2, 1.35, 1.75),
    Cell("8", "clean", 65536, 1, "call", 3.0, 1.05, 1.19),
    Cell("10", "days", 1024, 1, "call", 1.25, 0.98, 1.05),
    Cell("11", "identity", 65536, 1, "call", 3.3, 1.0, 1.25),
    Cell("12", "noop_arrow", 65536, 1, "call", 15, 0.55, 0.75, base=VECTOR),
    Cell("13", "noop_arrow", 1024, 1, "call", 1.5, 0.80, 0.85, base=VECTOR),
    Cell("14", "noop", 1, 1, "stream", None, 0.55, 0.75),
    Cell("15", "gcd", 1024, 1, "stream", 2.0, 0.90, 1.0),
    Cell("15", "gcd", 1024, 4, "stream", 3.0, 1.35, 1.6),
    Cell("16", "gcd", 1024, 1, "connect", 1.25, 0.95, 1.15),
    Cell("16", "gcd", 1024, 16, "connect", 1.6, 1.1, 1.3),
    Cell("17", "gcd_shipped", 1024, 1, "call", databend=40),
]

# Measured with --all: the shapes between the goals, and the functions that no goal names.
MORE: list[Cell] = [
    Cell("-", "gcd", 16, 1, "call"),
    Cell("-", "gcd", 256, 1, "call"),
    Cell("-", "gcd", 8192, 1, "call"),
    Cell("-", "noop", 1024, 1, "call"),
    Cell("-", "noop", 65536, 1, "call"),
    Cell("-", "affine", 1024, 1, "call"),
    Cell("-", "clean", 1024, 1, "call"),
    Cell("-", "clean", 1024, 16, "call"),
    Cell("-", "parse_json", 1024, 1, "call"),
    Cell("-", "parse_json", 1024, 16, "call"),
    Cell("-", "identity", 1024, 1, "call"),
    Cell("-", "noop", 65536, 1, "stream"),
]

# Just enough to show that every part works.
SMOKE: list[Cell] = [
    Cell("-", "gcd", 1, 1, "call"),
    Cell("-", "clean", 1024, 2, "stream"),
    Cell("-", "noop_arrow", 1024, 1, "call"),
]


class CpuGoal(NamedTuple):
    """The largest ratio of server CPU to plain-row's in a cell; per is "call" or "row"."""

    cell: str
    per: str
    plain: float


CPU_GOALS: list[CpuGoal] = [
    CpuGoal("gcd 1 x1 call", "call", 0.85),
    CpuGoal("gcd 1 x16 call", "call", 0.35),
    CpuGoal("gcd 65536 x1 call", "row", 0.92),
    CpuGoal("affine 65536 x1 call", "row", 0.72),
    CpuGoal("clean 65536 x1 call", "row", 0.85),
]

MEMORY_WORKERS = 2  # the memory goal is for a gateway with this many workers, after the load
MEMORY_RATIO = 0.5  # of arrow-udf's
EMPTY_WORKER_MIB = 6.0  # a worker that serves empty.py
START_RATIO = 0.6  # of arrow-udf's time from start to first answer
LARGE_ROWS = 12_500_000  # of int64: a batch of 100 MB
LARGE_RATIOS = {VECTOR: 2.0, ARROW: 0.2}  # of their time with it
LARGE_KEPT_MIB = 32.0  # more than before, once it has rested
LARGE_REST = 10.0  # seconds


def chosen(cells: Iterable[Cell], words: list[str]) -> list[Cell]:
    """The cells whose key has every one of the words, each a whole part of it: "gcd", "1024", "x16", "stream"."""
    return [c for c in cells if set(words) <= set(c.key.split())]
