"""What `udfgate call` writes to Parquet is what pyarrow reads, and the other way round, whatever is null on the way to a value."""

from __future__ import annotations

import datetime as dt
import os
import pathlib
import random
import subprocess
from decimal import Decimal

import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
from conftest import Gateway

ROWS = 40
LEVELS_MAX = 3


def leaves(r: random.Random) -> dict[pa.DataType, object]:
    """The types of single values, each with what makes one."""

    def decimal(digits: int) -> object:
        return lambda: Decimal(r.randrange(10**digits)).scaleb(-1)

    day = dt.date(2000, 1, 1)
    return {
        pa.bool_(): lambda: r.random() < 0.5,
        **{
            t: lambda: r.randrange(100)
            for t in (pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64())
        },
        **{t: lambda: float(r.randrange(1000)) for t in (pa.float16(), pa.float32(), pa.float64())},
        **{t: lambda: "é" * r.randrange(4) for t in (pa.string(), pa.large_string())},
        **{t: lambda: bytes(r.randrange(4)) for t in (pa.binary(), pa.large_binary())},
        pa.binary(3): lambda: r.randbytes(3),
        pa.date32(): lambda: day + dt.timedelta(r.randrange(9999)),
        **{t: lambda: dt.time(r.randrange(24)) for t in (pa.time32("ms"), pa.time64("us"), pa.time64("ns"))},
        **{pa.timestamp(u): lambda: dt.datetime(2000, 1, 1 + r.randrange(28)) for u in ("ms", "us", "ns")},
        **{pa.decimal128(d, 1): decimal(d) for d in (1, 9, 10, 18, 19, 38)},
        **{pa.decimal256(d, 1): decimal(d) for d in (5, 50, 76)},
    }


def nested(r: random.Random, leaf: pa.DataType, value: object, levels: int) -> tuple[pa.Field, object]:
    """A random field over a leaf, and what makes its values."""
    nullable = r.random() < 0.5

    def perhaps(make: object) -> object:
        return lambda: None if nullable and r.random() < 0.3 else make()

    if not levels:
        return pa.field("x", leaf, nullable), perhaps(value)
    field, below = nested(r, leaf, value, levels - 1)
    kind = r.choice(["struct", "struct", "list", "large_list", "fixed", "map"])
    if kind == "struct":
        return pa.field("x", pa.struct([field.with_name("m")]), nullable), perhaps(lambda: {"m": below()})
    if kind == "map":
        made = pa.map_(pa.string(), field.with_name("value"))
        return pa.field("x", made, nullable), perhaps(lambda: [(str(i), below()) for i in range(r.randrange(3))])
    if kind == "fixed":
        return pa.field("x", pa.list_(field.with_name("element"), 2), nullable), perhaps(lambda: [below(), below()])
    of = pa.list_ if kind == "list" else pa.large_list
    return pa.field("x", of(field.with_name("element")), nullable), perhaps(
        lambda: [below() for _ in range(r.randrange(4))]
    )


def unread(field: pa.Field) -> bool:
    """Whether a list of a fixed size that is never null lies in something.

    The gateway's reader takes it for one of no items where what it lies in is null, and says so.
    """
    return any(
        (pa.types.is_fixed_size_list(below.type) and not below.nullable) or unread(below)
        for below in (field.type.field(i) for i in range(field.type.num_fields))
    )


def test_nested(gateway: Gateway, tmp_path: pathlib.Path) -> None:
    seed = int(os.environ.get("UDFGATE_SEED") or random.SystemRandom().randrange(2**63))
    print(f"UDFGATE_SEED={seed}")
    r = random.Random(seed)
    fields, columns = [pa.field("a", pa.int64()), pa.field("b", pa.int64())], [pa.array(range(ROWS), pa.int64())] * 2
    for leaf, value in leaves(r).items():
        for levels in range(LEVELS_MAX + 1):
            for _ in range(2):
                field, make = nested(r, leaf, value, levels)
                fields.append(field.with_name(f"c{len(fields)}"))
                columns.append(pa.array([make() for _ in range(ROWS)], field.type))
    table = pa.Table.from_arrays(columns, schema=pa.schema(fields))
    with ipc.new_file(tmp_path / "in.arrow", table.schema) as file:
        file.write_table(table)
    read = [field.name for field in fields if not unread(field)]
    pq.write_table(table.select(read), tmp_path / "in.parquet")
    for source in ("in.arrow", "in.parquet"):
        for target in ("out.parquet", "out.arrow"):
            told = subprocess.run(
                [
                    os.environ.get("UDFGATE_BINARY", "udfgate"),
                    "call",
                    "add",
                    "--addr",
                    gateway.address,
                    "--input",
                    str(tmp_path / source),
                    "--output",
                    str(tmp_path / target),
                    "--batch-rows",
                    "17",
                ],
                capture_output=True,
                text=True,
                check=False,
            )
            assert told.returncode == 0, told.stderr
            path = tmp_path / target
            got = pq.read_table(path) if target == "out.parquet" else ipc.open_file(path).read_all()
            assert got.column("add").to_pylist() == [2 * i for i in range(ROWS)]
            assert set(got.column_names) - {"add"} == set(read if source == "in.parquet" else table.column_names)
            for field in (f for f in fields if f.name in got.column_names):
                want, have = table.column(field.name).to_pylist(), got.column(field.name).to_pylist()
                assert have == want, f"{source} to {target}: {field}"
