"""Starts and stops the servers of the comparison, each on a port of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import setup
from processes import tree

HERE = Path(__file__).resolve().parent
START_LIMIT = 30.0  # seconds until a server has to answer
STOP_LIMIT = 10.0
POLL = 0.001

# name -> environment and arguments; the address comes behind the program.
RIVALS: dict[str, tuple[str, str, list[str]]] = {
    "arrow-udf": ("arrow", "serve_arrow_udf.py", []),
    "databend": ("databend", "serve_databend.py", []),
    "plain-row": ("ref", "serve_pyarrow.py", ["row"]),
    "plain-vector": ("ref", "serve_pyarrow.py", ["vector"]),
}
NAMES = ["udfgate", *RIVALS]


class Server:
    """A server process of ours; `address` is where it listens. Close it."""

    def __init__(self, name: str, command: list[str], port: int | None = None, ready: Path | None = None) -> None:
        self.name = name
        self._folder = tempfile.mkdtemp(prefix="bench-peers-")
        self._log = Path(self._folder, "log")
        self._ready = ready
        self._port = port
        self.started = time.perf_counter()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=HERE,
                start_new_session=True,  # Ctrl-C reaches the client alone, which then stops the servers in order
            )
        try:
            self.address = self._wait()
        except BaseException:
            self.close()
            raise

    def _wait(self) -> str:
        deadline = self.started + START_LIMIT
        while time.perf_counter() < deadline:
            address = self._listening()
            if address:
                return address
            if self._process.poll() is not None:
                raise RuntimeError(f"{self.name} ended with {self._process.returncode}: {self._tail()}")
            time.sleep(POLL)
        raise RuntimeError(f"{self.name} did not listen within {START_LIMIT:.0f} s: {self._tail()}")

    def _listening(self) -> str | None:
        if self._ready:  # written in one piece once every function is loaded
            return json.loads(self._ready.read_text())["flight"][0] if self._ready.exists() else None
        try:
            socket.create_connection(("127.0.0.1", self._port or 0), 1).close()
        except OSError:
            return None
        return f"127.0.0.1:{self._port}"

    def _tail(self) -> str:
        return " | ".join(self._log.read_text(errors="replace").splitlines()[-5:]) or "no output"

    def pids(self) -> list[int]:
        return tree(self._process.pid)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOP_LIMIT)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._ready:
            shutil.rmtree(self._ready.parent, ignore_errors=True)


class Launcher:
    """Knows how each server is started: which interpreter, which program."""

    def __init__(self, binary: str, python: str, own_python: bool = False) -> None:
        """own_python: the bare server runs on this process's interpreter, no environment of rivals is needed."""
        self._binary, self._python, self._own = binary, python, own_python

    def interpreter(self, name: str) -> str:
        """What runs the bodies of a server."""
        if name == "udfgate":
            return self._python
        return sys.executable if self._own else setup.python_of(RIVALS[name][0])

    def start(self, name: str) -> Server:
        if name == "udfgate":
            return self.start_udfgate("functions.py")
        _, program, arguments = RIVALS[name]
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        return Server(name, [self.interpreter(name), str(HERE / program), f"127.0.0.1:{port}", *arguments], port=port)

    def start_columns(self) -> Server:
        """The gateway of functions over whole columns."""
        return self.start_udfgate("columns.py", python=sys.executable if self._own else setup.python_of("ref"))

    def start_udfgate(self, file: str, *flags: str, python: str = "") -> Server:
        ready = Path(tempfile.mkdtemp(prefix="bench-ready-"), "ready.json")
        return Server(
            "udfgate",
            [
                self._binary,
                "serve",
                str(HERE / file),
                "--listen",
                "127.0.0.1:0",
                "--http",
                "off",
                "--ready-file",
                str(ready),
                "--python",
                python or self._python,
                *flags,
            ],
            ready=ready,
        )

    def version_command(self) -> list[str]:
        return [self._binary, "version"]

    def check(self, names: list[str]) -> str:
        """The one build of Python that all servers run on; two builds cannot be compared."""
        if "udfgate" in names and not os.access(self._binary, os.X_OK):
            raise SystemExit(f"{self._binary}: no such program; run `make build` first")
        for name in names:
            if not shutil.which(self.interpreter(name)):
                raise SystemExit(f"{name}: {self.interpreter(name)} is missing; run bench/peers/setup.py first")
        builds = {name: setup.build(self.interpreter(name)) for name in names}
        if len(set(builds.values())) > 1 and not self._own:
            listed = "\n".join(f"  {name}: {found}" for name, found in builds.items())
            raise SystemExit(f"the servers run on different builds of Python:\n{listed}")
        return next(iter(builds.values()))
