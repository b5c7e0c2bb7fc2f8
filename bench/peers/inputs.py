"""Seeded input columns, the same for every server in every run."""

from __future__ import annotations

import functools
import json
import random
from typing import Any

import pyarrow as pa
from bodies import FUNCTIONS

SEED = 20_240_229

ARROW: dict[str, pa.DataType] = {"BIGINT": pa.int64(), "INT": pa.int32(), "VARCHAR": pa.utf8(), "BYTEA": pa.binary()}

CITIES = ["Aix-en-Provence", "  Baden-Baden", "CLERMONT-FERRAND ", " Stoke-on-Trent", "Villach", "Winston-Salem  "]


def _label(rng: random.Random) -> str | None:
    """About 17 ASCII characters with blanks around them; one in twenty null, one in twenty blank."""
    kind = rng.randrange(20)
    if kind == 0:
        return None
    if kind == 1:
        return "    "
    return f" {rng.choice(CITIES)}{rng.randrange(1000)}"


def _event(rng: random.Random) -> str:
    """A JSON object of about 85 bytes."""
    return json.dumps(
        {
            "id": rng.randrange(10**8, 10**9),
            "user": f"u{rng.randrange(10**5, 10**6)}",
            "flags": ["x", "yy"],
            "weight": round(rng.random(), 5),
            "new": False,
        }
    )


def _date(rng: random.Random) -> str:
    return f"{rng.randint(1960, 2050):04}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"


@functools.cache
def columns(name: str, rows: int) -> list[list[Any]]:
    """One Python list per argument of the function."""
    rng = random.Random(f"{SEED} {name} {rows}")
    if name in ("gcd", "gcd_shipped"):  # below a million the loop takes about eleven turns
        return [[rng.randint(1, 999_999) for _ in range(rows)] for _ in range(2)]
    if name == "affine":  # beyond 30 bits, where CPython's integers need two digits
        return [[rng.randint(-(2**40), 2**40) for _ in range(rows)] for _ in range(2)]
    if name == "clean":
        return [[_label(rng) for _ in range(rows)]]
    if name == "parse_json":
        return [[_event(rng) for _ in range(rows)]]
    if name == "days":
        return [[_date(rng) for _ in range(rows)]]
    if name == "identity":
        return [[rng.randbytes(64) for _ in range(rows)]]
    if name in ("noop", "noop_arrow"):
        return [[rng.getrandbits(62) for _ in range(rows)]]
    raise KeyError(name)


@functools.cache
def batch(name: str, rows: int, schema: pa.Schema | None = None) -> pa.RecordBatch:
    """The columns as a record batch without field names, as the least talkative engines send it.

    schema: the types that the server asks for, where they differ from ours (Databend's VARCHAR is large_utf8).
    """
    types = [f.type for f in schema] if schema is not None else [ARROW[t] for t in FUNCTIONS[name].arguments]
    made = [pa.array(c, type=t) for c, t in zip(columns(name, rows), types)]
    return pa.RecordBatch.from_arrays(made, names=[""] * len(made))


@functools.cache
def answer(name: str, rows: int) -> list[Any]:
    """What every server has to return."""
    return list(map(FUNCTIONS[name].body, *columns(name, rows)))
