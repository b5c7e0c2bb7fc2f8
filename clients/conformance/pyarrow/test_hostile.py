"""Every single-byte change and every truncation of a recorded valid exchange gives an error, or the answer that pyarrow's
reading of the changed bytes gives; the gateway lives and its memory stays bounded.

UDFGATE_HOSTILE=all tries all 255 changes of each byte (minutes); otherwise each byte gets the 8 changes of one bit,
0x00, 0xff and two random ones.
"""

from __future__ import annotations

import os
import pathlib
import random

import grpc
import pyarrow as pa
import pytest
import rawflight
from conftest import Gateway

SEED = int(os.environ.get("UDFGATE_SEED", random.SystemRandom().randrange(1 << 32)))
RSS_GROWTH_KIB_MAX = 64 * 1024


def batch() -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array([1, None, 3, -4, 5, 6, None, 8, 1 << 60], pa.int64()),
            pa.array(["a", "", None, "ünï", "dd", None, "f" * 40, "g", "h"], pa.string()),
            pa.array([True, False, True, True, False, False, True, False, True], pa.bool_()),
        ],
        names=["", "", ""],
    )


def mix(a: int | None, s: str | None, b: bool) -> str | None:
    return None if s is None and a is None else f"{a}/{s}/{b}"


def changes(message: bytes, rng: random.Random) -> list[bytes]:
    out = []
    for i, old in enumerate(message):
        if os.environ.get("UDFGATE_HOSTILE") == "all":
            values = set(range(256))
        else:
            values = {old ^ (1 << bit) for bit in range(8)} | {0, 255, rng.randrange(256), rng.randrange(256)}
        out += [message[:i] + bytes([v]) + message[i + 1 :] for v in sorted(values - {old})]
    return out


def rss_kib(pid: int) -> int:
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("no VmRSS")


def check(channel: grpc.Channel, messages: list[bytes], what: str) -> bool:
    """True if the gateway answered with rows; asserts that they are pyarrow's."""
    answer = rawflight.call(channel, messages)
    if answer.table is None:
        bad = (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNKNOWN, grpc.StatusCode.DEADLINE_EXCEEDED)
        assert answer.code not in bad, f"{what}: {answer}"
        if answer.code == grpc.StatusCode.INTERNAL:  # gRPC's own word for a frame that is no message
            assert "unmarshal" in answer.text or "proto" in answer.text, f"{what}: {answer}"
        return False
    try:
        table = rawflight.decode(messages)
        columns = [table.column(i).to_pylist() for i in range(table.num_columns)]
    except Exception as e:
        raise AssertionError(f"{what}: answered {answer.table.to_pydict()}, pyarrow finds {e!r}") from e
    assert answer.table.column(0).to_pylist() == [mix(*row) for row in zip(*columns)], what
    return True


@pytest.mark.parametrize("position", [0, 1], ids=["schema", "batch"])
def test_single_byte_changes(gateway: Gateway, position: int) -> None:
    print(f"UDFGATE_SEED={SEED}")
    rng = random.Random(SEED)
    recorded = rawflight.exchange_bytes("mix", batch())
    answered = refused = 0
    wrong: list[str] = []
    with grpc.insecure_channel(gateway.address) as channel:
        assert check(channel, recorded, "unchanged")
        before = rss_kib(gateway.process.pid)
        for n, changed in enumerate(changes(recorded[position], rng)):
            messages = list(recorded)
            messages[position] = changed
            try:
                if check(channel, messages, f"message {position}, change {n}, seed {SEED}: {changed.hex()}"):
                    answered += 1
                else:
                    refused += 1
            except AssertionError as e:
                wrong.append(str(e))
        assert check(channel, recorded, "after all")
        grown = rss_kib(gateway.process.pid) - before
    print(f"message {position}: {answered} answered as pyarrow reads them, {refused} refused, memory {grown:+} KiB")
    assert not wrong, f"{len(wrong)} wrong, the first: {wrong[:3]}"
    assert answered and refused
    assert grown < RSS_GROWTH_KIB_MAX


@pytest.mark.parametrize("position", [0, 1], ids=["schema", "batch"])
def test_truncations(gateway: Gateway, position: int) -> None:
    recorded = rawflight.exchange_bytes("mix", batch())
    with grpc.insecure_channel(gateway.address) as channel:
        for length in range(len(recorded[position])):
            messages = list(recorded)
            messages[position] = recorded[position][:length]
            answer = rawflight.call(channel, messages)
            if answer.table is not None:  # an empty message is legal: the call then has no batch or no schema
                assert answer.table.num_rows == 0, length
        assert check(channel, recorded, "after all")
