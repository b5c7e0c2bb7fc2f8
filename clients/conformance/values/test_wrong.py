"""What a body must not return, and what it may although it looks odd: in each mode, by each way to handle errors."""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Iterator
from decimal import Decimal

import pyarrow as pa
import pytest
from answers_good import GOOD
from kinds import DECLARED, MODES, UNSERVED
from served import Gateway, batch_of
from tally import TALLY
from wrong import ODD, WRONG

ROW = 3
NAMES = {"Decimal": Decimal, "dt": dt, "uuid": uuid, "UTC": dt.timezone.utc, "inf": float("inf")}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path_factory.mktemp("answers"), "answers.py", "--workers", "1")
    yield gateway
    gateway.stop()


def modes_of(key: str) -> list[str]:
    """In modes arrow and polars an extension is its storage; test_same.py has those."""
    plain = "json" not in key and "uuid" not in key
    return [mode for mode in MODES if (mode, key) not in UNSERVED and (plain or mode not in ("arrow", "polars"))]


def column_of(key: str, text: str) -> pa.Array:
    """A wrong value between good ones and nulls, and one more behind it."""
    good = GOOD[key]
    return pa.array([good, None, good, text, good, text, None, good])


@pytest.mark.parametrize(("key", "text", "exception", "wanted"), WRONG)
def test_wrong(answers: Gateway, key: str, text: str, exception: str | None, wanted: str) -> None:
    column, found = column_of(key, text), []
    for mode in modes_of(key):
        name = f"any_{mode}_{key}"
        told = rf"{name}: row {ROW}: {exception or '[A-Za-z]+Error'}: result: .*{re.escape(wanted)}"
        with pytest.raises(pa.ArrowInvalid) as raised:
            answers.column(name, column)
        found += TALLY.compare(
            "wrong values", f"{mode} {text}", True, bool(re.search(told, str(raised.value))) or str(raised.value)
        )
        good = answers.column(name, pa.array([GOOD[key], None]))
        kept = pa.concat_arrays([good, good, good, good]).take(pa.array([0, 1, 0, 1, 0, 1, 1, 0]))
        for how in ("null", "reject"):
            _, (answer,) = answers.exchange(name, batch_of(column), headers=[("udfgate-on-error", how)])
            found += TALLY.compare(
                "rows beside a wrong one", f"{mode} {text} {how}", kept.to_pylist(), answer.column(0).to_pylist()
            )
            if how == "reject":
                texts = answer.column(1).to_pylist()
                where = [at for at, one in enumerate(texts) if one is not None]
                wrong = [one for one in texts if one is not None and wanted not in one]
                found += TALLY.compare("rejected rows", f"{mode} {text}", ([ROW, 5], []), (where, wrong))
    assert not found, "\n".join(found[:4])


@pytest.mark.parametrize(("mode", "key"), [(mode, key) for key in DECLARED for mode in modes_of(key) if key != "null"])
def test_none_for_not_null(answers: Gateway, mode: str, key: str) -> None:
    with pytest.raises(pa.ArrowInvalid, match=r"row 1: TypeError: result: wanted .*, got None"):
        answers.column(f"sure_{mode}_{key}", pa.array([GOOD[key], None, GOOD[key]]))
    schema, (answer,) = answers.exchange(f"sure_{mode}_{key}", batch_of(pa.array([GOOD[key]] * 2)))
    assert not schema.field(0).nullable
    assert answer.column(0).null_count == 0


@pytest.mark.parametrize(("mode", "key"), [(mode, key) for key in DECLARED for mode in modes_of(key)])
def test_raise(answers: Gateway, mode: str, key: str) -> None:
    """A raise fails its row in mode row, and all rows elsewhere; what is failed is null, of whatever type."""
    good, found = GOOD[key], []
    column = pa.array([good, None, "1 // 0", good, None, good, good, None, None])
    alone = answers.column(f"any_{mode}_{key}", pa.array([good, None, None, good, None, good, good, None, None]))
    kept = alone.to_pylist() if mode == "row" else [None] * 9
    failed = [at == 2 or mode != "row" for at in range(9)]
    for how in ("null", "reject"):
        schema, (answer,) = answers.exchange(f"any_{mode}_{key}", batch_of(column), headers=[("udfgate-on-error", how)])
        answer.validate(full=True)
        found += TALLY.compare(
            "raises", f"{mode} {key} {how}", (alone.type, kept), (answer.column(0).type, answer.column(0).to_pylist())
        )
    texts = answer.column(1).to_pylist()
    text = "ZeroDivisionError: integer division or modulo by zero"
    found += TALLY.compare("raises", f"{mode} {key}", [text if one else None for one in failed], texts)
    assert not found, "\n".join(found)


@pytest.mark.parametrize(("key", "text", "wanted"), ODD)
def test_odd(answers: Gateway, key: str, text: str, wanted: str) -> None:
    value, found = eval(wanted, NAMES), []
    for mode in modes_of(key):
        got = answers.column(f"any_{mode}_{key}", pa.array([None, text, GOOD[key], text])).to_pylist()
        found += TALLY.compare("odd values", f"{mode} {text}", [None, value, value], [got[0], got[1], got[3]])
    assert not found, "\n".join(found)


def test_nan_is_not_null(answers: Gateway) -> None:
    for mode in MODES:
        for key in ("float64", "float32", "float16"):
            got = answers.column(f"any_{mode}_{key}", pa.array(["nan", None, "0.5", "-nan"]))
            assert got.is_null().to_pylist() == [False, True, False, False]
            assert repr(got.to_pylist()) == "[nan, None, 0.5, nan]"
