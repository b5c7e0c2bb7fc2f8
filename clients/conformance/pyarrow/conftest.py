"""Starts the gateway once for all Flight tests; UDFGATE_BINARY names it."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import time
from collections.abc import Iterator

import pyarrow.flight as flight
import pytest

HERE = pathlib.Path(__file__).resolve().parent
START_SECONDS_MAX = 30


class Gateway:
    """A running gateway: its address, its process, and a client."""

    def __init__(self, folder: pathlib.Path, *flags: str, file: str = "functions.py"):
        ready = folder / "ready.json"
        self.log = folder / "log"
        self.process = subprocess.Popen(
            [
                os.environ.get("UDFGATE_BINARY", "udfgate"),
                "serve",
                str(HERE / file),
                "--listen",
                "127.0.0.1:0",
                "--http",
                "127.0.0.1:0",
                "--ready-file",
                str(ready),
                *flags,
            ],
            stderr=self.log.open("wb"),
        )
        end = time.monotonic() + START_SECONDS_MAX
        while not ready.exists():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(self.log.read_text())
            time.sleep(0.01)
        told = json.loads(ready.read_text())
        self.address, self.http = told["flight"][0], told["http"]
        self.client = flight.connect(f"grpc://{self.address}")

    def stop(self) -> int:
        self.client.close()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(START_SECONDS_MAX)


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path_factory.mktemp("gateway"), "--timeout", "2s")
    yield gateway
    assert gateway.stop() == 0, gateway.log.read_text()
