"""What the conversion of a block costs in CPython alone, for the table of bench/phases.

    floors.py ROWS      then one case name per line on stdin; for each, one JSON line on stdout

A pass goes over ROWS values in the blocks of a worker: into Python objects, through the body, out of them. No gateway,
no process boundary, nothing else in the loop: nobody who calls the body for every row can be cheaper with these forms.
"""

from __future__ import annotations

import json
import marshal
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns as now
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "peers"))

import bodies

INT_BLOCK = 4096  # rows of a block
TEXT_BLOCK = 2048  # about 40 KiB of text, as much as a worker's block has


class Pass(NamedTuple):
    """Nanoseconds of one pass, by step."""

    decode: int
    body: int
    encode: int


def mix(i: int) -> int:
    """Spreads i over 64 bits, as mix in cases.go does."""
    return (i * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF


def int_pass(rows: int, value: Callable[[int], int]) -> Callable[[], Pass]:
    """Two int64 columns to one: tolist of both, struct.pack_into."""
    left, right = (memoryview(struct.pack(f"{rows}q", *[value(2 * i + k) for i in range(rows)])) for k in range(2))
    a, b, out = left.cast("q"), right.cast("q"), bytearray(8 * rows)
    body = bodies.affine
    forms = {n: struct.Struct(f"{n}q") for n in {INT_BLOCK, rows % INT_BLOCK}}

    def run() -> Pass:
        decode = inside = encode = 0
        for lo in range(0, rows, INT_BLOCK):
            hi = min(lo + INT_BLOCK, rows)
            form = forms[hi - lo]
            t0 = now()
            x, y = a[lo:hi].tolist(), b[lo:hi].tolist()
            t1 = now()
            r = list(map(body, x, y))
            t2 = now()
            x = y = None  # the arguments go at the cost of their conversion, the results at that of the body
            form.pack_into(out, 8 * lo, *r)
            t3 = now()
            r = None
            inside += now() - t3
            decode, inside, encode = decode + t1 - t0, inside + t2 - t1, encode + t3 - t2
        return Pass(decode, inside, encode)

    return run


def text(i: int) -> str | None:
    """18 bytes, one in twenty null, as label in cases.go."""
    h = mix(i) >> 24
    return None if h % 20 == 0 else f" Alpha-Beta-{h % 100_000:05} "


def marshal_block(values: list[str | None]) -> bytes:
    """A list of short ASCII values as the gateway renders it: without references, which marshal.dumps would add."""
    parts = [b"[", struct.pack("<I", len(values))]
    for value in values:
        parts.append(b"N" if value is None else b"z%c%s" % (len(value), value.encode()))
    return b"".join(parts)


def text_pass(rows: int) -> Callable[[], Pass]:
    """utf8 to utf8: marshal.loads, marshal.dumps in version 4."""
    values = [text(i) for i in range(rows)]
    blocks = [marshal_block(values[lo : lo + TEXT_BLOCK]) for lo in range(0, rows, TEXT_BLOCK)]
    out = bytearray(64 * TEXT_BLOCK)
    body = bodies.clean

    def run() -> Pass:
        decode = inside = encode = 0
        for block in blocks:
            t0 = now()
            x = marshal.loads(block)
            t1 = now()
            r = list(map(body, x))
            t2 = now()
            x = None  # values that the body returned as they came would be written as shared ones, which is slow
            data = marshal.dumps(r, 4)
            out[: len(data)] = data
            t3 = now()
            r = None
            inside += now() - t3
            decode, inside, encode = decode + t1 - t0, inside + t2 - t1, encode + t3 - t2
        return Pass(decode, inside, encode)

    return run


def main() -> None:
    rows = int(sys.argv[1])
    passes = {
        "small": int_pass(rows, lambda i: mix(i) >> 36),
        "wide": int_pass(rows, lambda i: (mix(i) >> 23) - (1 << 40)),
        "text": text_pass(rows),
    }
    for line in sys.stdin:
        print(json.dumps(passes[line.strip()]()._asdict()), flush=True)


if __name__ == "__main__":
    main()
