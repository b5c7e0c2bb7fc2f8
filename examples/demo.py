"""The main job, as `make demo` shows it: first the command line, then SQL in DuckDB, over the same real flights.

python demo.py flights.csv        with UDFGATE_BINARY naming the gateway
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
START_SECONDS_MAX = 30


def wait_ready(path: pathlib.Path, gateway: subprocess.Popen[bytes]) -> dict:
    end = time.monotonic() + START_SECONDS_MAX
    while not path.exists():
        if gateway.poll() is not None or time.monotonic() > end:
            raise SystemExit("the gateway did not start")
        time.sleep(0.01)
    return json.loads(path.read_text())


def main() -> int:
    flights, binary = sys.argv[1], os.environ["UDFGATE_BINARY"]
    print("== 1. The command line: udfgate demo\n", flush=True)
    code = subprocess.call([binary, "demo", "--data", flights])
    if code:
        return code
    print("\n== 2. SQL in DuckDB: an Arrow UDF that calls the gateway over Flight\n", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        ready = pathlib.Path(folder, "ready.json")
        gateway = subprocess.Popen(
            [
                binary,
                "serve",
                str(HERE / "flights.py"),
                "--listen",
                "127.0.0.1:0",
                "--http",
                "off",
                "--ready-file",
                str(ready),
                "--log-level",
                "warn",
            ]
        )
        try:
            address = wait_ready(ready, gateway)["flight"][0]
            return subprocess.call([sys.executable, str(HERE / "duckdb_flights.py"), f"grpc://{address}", flights])
        finally:
            gateway.send_signal(signal.SIGTERM)
            gateway.wait(START_SECONDS_MAX)


if __name__ == "__main__":
    sys.exit(main())
