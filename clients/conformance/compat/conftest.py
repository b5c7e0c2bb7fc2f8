"""A gateway that serves the files of this folder, and the counts at the end."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "values"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from served import Gateway

COUNTS: dict[str, int] = {}
FILES = ("arrow_example", "arrow_suite", "databend_example", "databend_types", "databend_request", "databend_readme")


@pytest.fixture(scope="session")
def served_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    files = [str(Path(__file__).resolve().with_name(f"{name}.py")) for name in FILES]
    gateway = Gateway(tmp_path_factory.mktemp("compat"), files, "--workers", "4")
    yield gateway
    gateway.stop()


@pytest.fixture(scope="session")
def counts() -> dict[str, int]:
    return COUNTS


def pytest_terminal_summary(terminalreporter) -> None:
    for what, count in COUNTS.items():
        terminalreporter.write_line(f"compat: {what}: {count}")
