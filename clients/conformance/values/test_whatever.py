"""Whatever a body returns: the right value, or an error that names its row. Values are drawn by hypothesis.

Each run draws the same ones; UDFGATE_RANDOM=1 draws others, and prints how to draw them again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import numpy
import pandas
import polars
import pyarrow as pa
import pytest
from columns import TABLE
from drawn import expressions, fitting, wholes
from hypothesis import HealthCheck, given, settings
from kinds import DECLARED, MODES, served
from meaning import MORE_KINDS, means, pieces
from oddities import made, use
from seen import values_of
from served import Gateway, batch_of
from tally import TALLY

use(np=numpy, pd=pandas, pl=polars, pa=pa)
RANDOM = bool(os.environ.get("UDFGATE_RANDOM"))
drawing = settings(
    derandomize=not RANDOM,
    print_blob=True,
    database=None,
    deadline=None,
    max_examples=500 if RANDOM else 20,
    suppress_health_check=list(HealthCheck),
)
KINDS = {**{key: kind for key, (kind, _) in TABLE.items()}, **MORE_KINDS}
# JSON takes whatever json.dumps takes; test_wrong.py has its table.
KEYS = [key for key in DECLARED if "json" not in key]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path_factory.mktemp("whatever"), "answers.py", "--workers", "1")
    yield gateway
    gateway.stop()


def rejected(gateway: Gateway, name: str, texts: list) -> tuple[list, list]:
    """(the values, the error of each row or None)."""
    _, (answer,) = gateway.exchange(
        name, batch_of(pa.array(texts, pa.utf8())), headers=[("udfgate-on-error", "reject")]
    )
    answer.validate(full=True)
    return values_of(answer.column(0)), answer.column(1).to_pylist()


def named(gateway: Gateway, name: str, texts: list) -> str:
    """The error of a call that ends with its first wrong row."""
    try:
        gateway.column(name, pa.array(texts, pa.utf8()))
    except pa.ArrowInvalid as e:
        return str(e)
    return ""


def plain(text: str) -> str:
    """Without addresses, which each call has its own of."""
    return re.sub(r"0x[0-9a-f]+", "0x", text)


def right(key: str, value: object, got: object) -> bool:
    try:
        return means(KINDS[key], value, got)
    except (TypeError, ValueError, OverflowError, AttributeError, RuntimeError):
        return False  # it has no meaning in that type


def check(gateway: Gateway, mode: str, key: str, texts: list, takes_all: bool) -> None:
    name = f"any_{mode}_{key}"
    got, errors = rejected(gateway, name, texts)
    found = []
    for at, text in enumerate(texts):
        what = f"{mode} {key} row {at}: {text!r:.200}"
        if errors[at] is None:
            fits = right(key, made(text), got[at])
            found += TALLY.compare("whatever is returned", what, True, fits or f"answered {got[at]!r:.200}")
        else:
            ours = got[at] is None and ": result: " in errors[at] and not takes_all
            found += TALLY.compare("whatever is returned", what, True, ours or errors[at])
    first = next((at for at, error in enumerate(errors) if error is not None), None)
    told = named(gateway, name, texts)
    wanted = "" if first is None else plain(f"{name}: row {first}: {errors[first]}"[:300])
    told = plain(told.partition("message: ")[2])[: len(wanted)] if wanted else told
    found += TALLY.compare("the first wrong row is named", f"{mode} {key} {texts!r:.200}", wanted, told)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("key", KEYS)
def test_anything(answers: Gateway, key: str) -> None:
    modes = [mode for mode in MODES if key in served(mode)]

    @drawing
    @given(expressions())
    def run(texts: list) -> None:
        for mode in modes[:2] if len(texts) > 1 else modes:
            check(answers, mode, key, texts, False)

    run()


@pytest.mark.parametrize("key", [key for key in KEYS if key in fitting()])
def test_what_fits_is_taken(answers: Gateway, key: str) -> None:
    @drawing
    @given(fitting()[key])
    def run(texts: list) -> None:
        for mode in ("row", "list"):
            check(answers, mode, key, texts, True)

    run()


@pytest.mark.parametrize("mode", ["arrow", "numpy", "pandas", "polars"])
@pytest.mark.parametrize(
    "key",
    [
        "bool",
        "int8",
        "int32",
        "int64",
        "uint64",
        "float32",
        "float64",
        "utf8",
        "binary",
        "date32",
        "timestamp_us",
        "timestamp_s",
        "duration_ms",
    ],
)
def test_whole_answers(answers: Gateway, mode: str, key: str) -> None:
    """Arrays and Series of any dtype as the answer of a column."""

    @drawing
    @given(wholes())
    def run(text: str) -> None:
        values = pieces(made(text))
        got, errors = rejected(answers, f"whole_{mode}_{key}", [text] * len(values))
        found = []
        for at, value in enumerate(values):
            what = f"{mode} {key} row {at}: {text:.300}"
            refused = errors[at] is not None and ": result: " in errors[at] and got[at] is None
            fits = errors[at] is None and right(key, value, got[at])
            found += TALLY.compare("whole answers", what, True, refused or fits or (got[at], errors[at]))
        assert not found, "\n".join(found)

    run()
