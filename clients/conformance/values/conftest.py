"""One gateway for all that is only compared, and the counts at the end."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from served import Gateway
from tally import TALLY


@pytest.fixture(scope="session")
def same(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path_factory.mktemp("same"), "same.py", "--workers", "2")
    yield gateway
    gateway.stop()


def pytest_terminal_summary(terminalreporter) -> None:
    for line in TALLY.lines():
        terminalreporter.write_line(line)
