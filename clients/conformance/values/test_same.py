"""Every type, null pattern, slice and mode: what the body saw, and that what came back is what went in, bit for bit."""

from __future__ import annotations

import pytest
from columns import OFFSETS, PATTERNS, ROWS, TABLE, bits, column
from kinds import MODES, served
from seen import told
from served import Gateway, batch_of
from tally import TALLY

CASES = [(mode, key) for mode in MODES for key in served(mode)]
BIG = 65_537


def test_the_table_is_whole() -> None:
    from kinds import DECLARED

    assert sorted(DECLARED) == sorted(TABLE)


@pytest.mark.parametrize(("mode", "key"), CASES)
def test_same(same: Gateway, mode: str, key: str) -> None:
    plans = [(pattern, offset, ROWS) for pattern in PATTERNS for offset in OFFSETS]
    plans += [("some", 0, 0), ("none", 7, 0), ("none", 0, 1), ("all", 1, 1)]
    batches = [batch_of(column(key, *plan)) for plan in plans]
    schema, answers = same.exchange(f"same_{mode}_{key}", *batches)
    _, tales = same.exchange(f"told_{mode}_{key}", *batches)
    kind = batches[0].schema.field(0).type
    found = []
    if schema.field(0).type != kind:
        found.append(f"type: wanted {kind}, got {schema.field(0).type}")
    for plan, batch, answer, tale in zip(plans, batches, answers, tales):
        answer.validate(full=True)
        what = f"{mode} {key} {plan}"
        found += TALLY.compare("there and back", what, bits(batch.column(0)), bits(answer.column(0)))
        found += TALLY.compare("seen", what, told(mode, key, batch.column(0)), tale.column(0).to_pylist())
    assert not found, f"{len(found)} of {2 * len(plans)}: " + "\n".join(found[:4])


MANY = [(mode, key) for mode in MODES for key in ("bool", "int64", "utf8", "struct")]
MANY += [("row", key) for key in ("decimal128", "timestamp_pacific", "list_utf8", "map_utf8")]


@pytest.mark.parametrize(("mode", "key"), MANY)
def test_many_rows(same: Gateway, mode: str, key: str) -> None:
    """Past 64 Ki rows, in one batch and in three: the same answer, and told the same."""
    whole = column(key, "every third", 7, BIG)
    wanted = bits(whole)
    found = []
    for what, pieces in (
        ("whole", [whole]),
        ("split", [whole.slice(0, 1), whole.slice(1, 40_000), whole.slice(40_001)]),
    ):
        _, answers = same.exchange(f"same_{mode}_{key}", *map(batch_of, pieces))
        got = [one for answer in answers for one in bits(answer.column(0))]
        found += TALLY.compare(f"there and back, {BIG:,} rows", f"{mode} {key} {what}", wanted, got)
    tale = same.column(f"told_{mode}_{key}", whole).to_pylist()
    found += TALLY.compare(f"seen, {BIG:,} rows", f"{mode} {key}", told(mode, key, whole), tale)
    assert not found, "\n".join(found)
