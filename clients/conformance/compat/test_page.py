"""docs/compat.md against a gateway: the table of values is run as it stands, those of what works and of differences are lists of tests."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.flight as flight
import pytest
import test_differences
import test_works
from cases import ARROW, DATABEND
from served import Gateway

PAGE = Path(__file__).resolve().parents[3] / "docs" / "compat.md"
HEAD = """
from datetime import date, datetime, timezone
from decimal import Decimal

import {package}

"""


def table(title: str) -> list[list[str]]:
    """The rows of the table below a title, cell by cell."""
    section = PAGE.read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    found = [[cell.strip() for cell in row.strip("|").split("|")] for row in section.splitlines() if row[:1] == "|"]
    assert len({len(row) for row in found}) == 1, f"{title}: rows of {sorted({len(row) for row in found})} cells"
    return found[2:]


def bare(cell: str) -> str:
    return cell[1:-1] if cell[:1] == cell[-1:] == "`" else cell


@pytest.mark.parametrize(("package", "column"), [("arrow_udf", 1), ("databend_udf", 2)])
def test_values(tmp_path: Path, counts: dict[str, int], package: str, column: int) -> None:
    rows = [row for row in table("Values") if row[column] != "–"]
    source = HEAD.format(package=package)
    for at, row in enumerate(rows):
        source += f"@{package}.udf(input_types=['INT'], result_type={row[column]!r})\n"
        source += f"def f{at}(_):\n    return {bare(row[0])}\n\n"
    file = tmp_path / "from_page.py"
    file.write_text(source)
    gateway, wrong = Gateway(tmp_path / "gateway", file, "--workers", "1"), []
    try:
        for at, row in enumerate(rows):
            wanted = bare(row[4])
            try:
                got = repr(gateway.column(f"f{at}", pa.array([1], pa.int32())).to_pylist()[0])
                right = got == wanted
            except (pa.ArrowInvalid, flight.FlightError) as e:
                got = str(e)
                told = ".*".join(map(re.escape, wanted.split("…")))
                right = re.search(rf"f{at}: row 0: {told}", got) is not None
            if not right:
                wrong.append(f"{row[0]} as {row[column]}: wanted {wanted}, got {got:.300}")
    finally:
        gateway.stop()
    assert not wrong, "\n".join(wrong)
    counts[f"values that differ, {package}"] = len(rows)


def test_all_that_works_has_a_test(counts: dict[str, int]) -> None:
    """Each row names its functions of cases.py and its tests, and these are there."""
    section = PAGE.read_text().partition("\n## What works\n")[2].partition("\n## ")[0]
    cells = [row.strip("|").split("|")[0].strip() for row in section.splitlines() if row[:1] == "|"]
    rows = [cell for cell in cells if cell.strip("-") and cell not in ("arrow_udf", "databend_udf")]
    assert set(rows) == set(test_works.WORKS)
    assert len(set(rows)) == len(rows)
    functions = {case.function for case in ARROW + DATABEND}
    for row, behind in test_works.WORKS.items():
        assert behind, row
        for one in behind:
            assert one in functions if isinstance(one, str) else one.__name__.startswith("test_"), f"{row}: {one}"
    named = {one for behind in test_works.WORKS.values() for one in behind if not isinstance(one, str)}
    assert named >= {one for name, one in vars(test_works).items() if name.startswith("test_") and callable(one)}
    counts["rows of what works"] = len(rows)


def test_every_difference_has_a_test(counts: dict[str, int]) -> None:
    named = {re.sub(r"\W+", "_", bare(row[0]).replace("`", "")).strip("_").lower() for row in table("Differences")}
    tests = {name.removeprefix("test_") for name in vars(test_differences) if name.startswith("test_")}
    assert named == tests
    counts["differences"] = len(named)
