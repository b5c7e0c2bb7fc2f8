#!/usr/bin/env python3
"""Runs every server of the comparison side by side under one client and writes what it saw as JSON.

    compare.py [--json FILE] [--targets udfgate,plain-row,…] [--cells gcd,1024] [--all] [--seconds 0.3] [--rounds 5]
    compare.py --smoke      two cells, udfgate and the bare server only: does it all work?

All servers run at once and take turns: a slice of --seconds each, --rounds times, every round beginning with another
server, so that what else happens on the machine hits all alike. Hence read the ratios; absolute times belong to the
machine. Before a function is timed, every server must answer it right at 300 and at 5000 rows. table.py turns one or
several runs into the table with the goals.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import inputs
import pyarrow as pa
import pyarrow.flight as flight
import setup
from cells import CELLS, COLUMNS, LARGE_REST, LARGE_ROWS, MORE, PLAIN, SMOKE, SUBJECT, Cell, chosen
from client import Target, Unsupported, call, connect
from processes import cpu_between, cpu_seconds, memory, noise, noise_line
from servers import NAMES, Launcher, Server

VERIFY_ROWS = (300, 5000)  # within one block of a worker, and across blocks
WARM_SECONDS = 0.1  # long enough for a gateway to start its other workers
SLICE_LIMIT = 0.8  # a server that needs longer for one round of calls is left out of the cell
LARGE_LIMIT = 120.0  # seconds for one call with the large batch
START_SECONDS_MAX = 30  # for a second worker
FIXED_COST_ROWS = 256  # below so many rows the fixed cost of a call hides the speed per row

# What a call raises: the server's own verdict (NOT_FOUND arrives as KeyError), or an answer of the wrong length.
FAILURES = (pa.ArrowException, KeyError, RuntimeError)

Result = dict[str, Any]


class Running:
    """A started server, its client side and its speed so far."""

    def __init__(self, name: str, launcher: Launcher, server: Server | None = None) -> None:
        self.name = name
        self.server: Server = server or launcher.start(name)
        self.target = Target(name, self.server.address)
        self.best: dict[str, float] = {}  # function -> most rows/s seen
        self._launcher = launcher
        self._columns: Running | None = None

    def of(self, function: str) -> Running:
        """What serves the function: for one over whole columns udfgate has a second server, started by its first call."""
        if self.name != SUBJECT or function not in COLUMNS:
            return self
        if self._columns is None:
            self._columns = Running(self.name, self._launcher, self._launcher.start_columns())
        return self._columns

    def close(self) -> None:
        self.target.close()
        self.server.close()
        if self._columns is not None:
            self._columns.close()

    def too_slow(self, cell: Cell) -> bool:
        best = self.best.get(cell.function)
        return best is not None and cell.rows * cell.callers / best > SLICE_LIMIT

    def learn(self, function: str, rows: int, rate: float) -> None:
        if rows >= FIXED_COST_ROWS:
            self.best[function] = max(rate, self.best.get(function, 0.0))


class Tally:
    """What one server did in one cell, over all rounds."""

    def __init__(self) -> None:
        self.latencies: list[float] = []
        self.medians: list[float] = []
        self.rates: list[float] = []
        self.rows = 0
        self.wall = self.server_cpu = self.client_cpu = 0.0

    def slice(self, running: Running, cell: Cell, seconds: float) -> None:
        running = running.of(cell.function)
        before, own = cpu_seconds(running.server.pids()), time.process_time()
        got = running.target.run(cell, seconds)
        self.client_cpu += time.process_time() - own
        self.server_cpu += cpu_between(before, cpu_seconds(running.server.pids()))
        self.latencies += got.latencies
        self.medians.append(statistics.median(got.latencies))
        self.rates.append(got.rows / got.wall)
        self.rows += got.rows
        self.wall += got.wall

    def result(self) -> Result:
        calls = len(self.latencies)
        ranked = sorted(self.latencies)
        return {
            "calls": calls,
            "p50_us": statistics.median(self.medians) * 1e6,
            "least_p50_us": min(self.medians) * 1e6,
            "p99_us": ranked[min(calls - 1, calls * 99 // 100)] * 1e6,
            "rows_s": statistics.median(self.rates),
            "cpu_us_per_call": self.server_cpu / calls * 1e6,
            "cpu_ns_per_row": self.server_cpu / self.rows * 1e9,
            "server_cores": self.server_cpu / self.wall,
            "client_cores": self.client_cpu / self.wall,
        }


def reason(e: BaseException) -> str:
    """The first line of an error."""
    return f"{type(e).__name__}: {str(e).splitlines()[0][:160] if str(e) else ''}"


def measure(all_running: list[Running], cell: Cell, seconds: float, rounds: int) -> dict[str, Result]:
    """One cell: all servers in turn. One that does not take part has {"skipped": why} or {"failed": why}."""
    results: dict[str, Result] = {}
    able = []
    for running in all_running:
        try:
            if running.too_slow(cell):
                results[running.name] = {"skipped": f"one round of calls takes longer than {SLICE_LIMIT} s"}
                continue
            running.of(cell.function).target.run(cell, WARM_SECONDS)
            able.append(running)
        except Unsupported as e:
            results[running.name] = {"skipped": f"not offered: {e}"}
        except FAILURES as e:
            results[running.name] = {"failed": reason(e)}
    tallies = {running.name: Tally() for running in able}
    for turn in range(rounds):
        for i in range(len(able)):
            running = able[(turn + i) % len(able)]
            if running.name in results:
                continue
            try:
                tallies[running.name].slice(running, cell, seconds)
            except FAILURES as e:
                results[running.name] = {"failed": reason(e)}
    for running in able:
        if running.name in results:
            continue
        result = results[running.name] = tallies[running.name].result()
        running.learn(cell.function, cell.rows, result["rows_s"])
    return results


def verify(all_running: list[Running], functions: list[str]) -> int:
    """Compares every answer with the bodies run here; returns how many were wrong."""
    wrong = 0
    for function in functions:
        for rows in VERIFY_ROWS:
            wanted = inputs.answer(function, rows)
            for running in all_running:
                started = time.perf_counter()
                try:
                    got = running.of(function).target.answer(function, rows)
                except Unsupported:
                    continue
                except FAILURES as e:
                    wrong += 1
                    print(f"{running.name}: {function}, {rows} rows: {reason(e)}", file=sys.stderr)
                    continue
                running.learn(function, rows, rows / (time.perf_counter() - started))
                if got == wanted:
                    continue
                row = next((i for i, (a, b) in enumerate(zip(got, wanted)) if a != b), min(len(got), rows))
                wrong += 1
                print(f"{running.name}: {function}, {rows} rows: wrong from row {row} on", file=sys.stderr)
    return wrong


def first_answer(name: str, client: flight.FlightClient, batch: pa.RecordBatch) -> None:
    """Calls until the first answer: a rival may listen before it knows its functions, and says KeyError until then."""
    end = time.perf_counter() + START_SECONDS_MAX
    while True:
        try:
            if call(client, "gcd", batch).num_rows == 1:
                return
        except KeyError:
            if time.perf_counter() > end:
                raise
            continue
        raise RuntimeError(f"{name}: no row for the first call")


def measure_start(launcher: Launcher, names: list[str], times: int) -> dict[str, Result]:
    """From starting the process to the first answered one-row call, in milliseconds; one server at a time, in turns."""
    batch = inputs.batch("gcd", 1)
    took: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(times):
        for name in names:
            with closing(launcher.start(name)) as server, connect(server.address) as client:
                first_answer(name, client, batch)
                took[name].append((time.perf_counter() - server.started) * 1e3)
    return {name: {"median_ms": statistics.median(ms), "least_ms": min(ms)} for name, ms in took.items()}


def measure_empty_worker(launcher: Launcher) -> Result:
    """Memory of each of two workers that serve next to nothing, after some calls, while no other server runs.

    The second one starts when a call finds the first busy, so callers come together until it is there.
    """
    with closing(launcher.start_udfgate("empty.py", "--workers", "2")) as server, connect(server.address) as client:
        batch = inputs.batch("noop", 1)
        end = time.perf_counter() + START_SECONDS_MAX
        while len(server.pids()) < 3:  # the gateway and both
            if time.perf_counter() > end:
                raise RuntimeError("no second worker came")
            with ThreadPoolExecutor(8) as callers:
                list(callers.map(lambda _: call(client, "noop", batch), range(64)))
        workers = memory(server.pids())[1:]
    return {"pss_mib": max(w.pss for w in workers), "rss_mib": max(w.rss for w in workers)}


def measure_large(launcher: Launcher, names: list[str], rows: int, rest: float) -> dict[str, Result]:
    """A large batch through noop_arrow, twice, on servers of their own: seconds, and memory before and a while after."""
    small = inputs.batch("noop_arrow", 1024)
    large = pa.RecordBatch.from_arrays([pa.repeat(pa.scalar(1, pa.int64()), rows)], names=[""])
    found: dict[str, Result] = {}
    for name in names:
        server = launcher.start_columns() if name == SUBJECT else launcher.start(name)
        with closing(server), connect(server.address) as client:
            try:
                for _ in range(8):
                    call(client, "noop_arrow", small)
                before = sum(m.pss for m in memory(server.pids()))
                took = []
                for _ in range(2):
                    started = time.perf_counter()
                    if call(client, "noop_arrow", large, LARGE_LIMIT).num_rows != rows:
                        raise RuntimeError("rows are missing")
                    took.append(time.perf_counter() - started)
            except FAILURES as e:
                found[name] = {"failed": reason(e)}
                continue
            after = sum(m.pss for m in memory(server.pids()))
            time.sleep(rest)
            rested = sum(m.pss for m in memory(server.pids()))
        found[name] = {"seconds": min(took), "before_mib": before, "after_mib": after, "kept_mib": rested - before}
    return found


def measure_memory(running: Running) -> Result:
    first, *rest = memory(running.server.pids())
    return {
        "pss_mib": first.pss + sum(m.pss for m in rest),
        "root_mib": first.pss,
        "children_mib": [m.pss for m in rest],
    }


def machine(launcher: Launcher, names: list[str]) -> Result:
    models = [x.split(":")[1].strip() for x in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in x]
    model = models[0] if models else platform.machine()
    found = {
        "cores": os.cpu_count(),
        "processor": model,
        "kernel": platform.release(),
        "python": launcher.check(names),
        "client": f"Python {platform.python_version()}, pyarrow {pa.__version__}",
    }
    if SUBJECT in names:
        answer = subprocess.run(launcher.version_command(), capture_output=True, text=True, check=True)
        found["udfgate"] = answer.stdout.strip()
    return found


def large_line(seen: Result) -> str:
    if "failed" in seen:
        return f"  {seen['failed']}"
    return f"{seen['seconds']:>8.3f} s, {seen['kept_mib']:+.0f} MiB afterwards"


def base_of(names: list[str]) -> str:
    return PLAIN if PLAIN in names else names[0]


def print_head(names: list[str]) -> None:
    print(f"p50 in us, and rows/s as a ratio to {base_of(names)}")
    print(f"{'cell':<26}" + "".join(f"{name:>24}" for name in names) + f"{'client cores':>14}", flush=True)


def print_cell(cell: Cell, names: list[str], results: dict[str, Result]) -> None:
    base = results[base_of(names)].get("rows_s")
    line = f"{cell.key:<26}"
    for name in names:
        result = results[name]
        if "rows_s" not in result:
            line += f"{'FAILED' if 'failed' in result else '-':>24}"
        else:
            ratio = f"{result['rows_s'] / base:.2f}" if base else "-"
            line += f"{result['p50_us']:>16.0f}{ratio:>8}"
    busy = [r["client_cores"] for r in results.values() if "client_cores" in r]
    print(line + (f"{min(busy):>9.2f}-{max(busy):.2f}" if busy else ""), flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measures udfgate beside the servers that one would use instead.")
    parser.add_argument("--targets", default=",".join(NAMES), help="which servers, by commas")
    parser.add_argument(
        "--cells", default="", metavar="WORDS", help="only cells with all these words, e.g. gcd,1024,x16,call"
    )
    parser.add_argument("--all", action="store_true", help="also the cells that have no goal")
    parser.add_argument("--seconds", type=float, default=0.3, help="length of a slice")
    parser.add_argument("--rounds", type=int, default=5, help="slices per server and cell")
    parser.add_argument(
        "--starts", type=int, default=5, help="starts per server; 0 leaves the start and the empty worker out"
    )
    parser.add_argument("--large", type=int, default=LARGE_ROWS, help="rows of the large batch; 0 leaves it out")
    parser.add_argument("--udfgate", default=str(setup.CHECKOUT / "bin" / "udfgate"), metavar="PATH")
    parser.add_argument(
        "--python", default=setup.base_python(), metavar="PATH", help="interpreter of udfgate's workers"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the run is written, for table.py")
    parser.add_argument("--smoke", action="store_true", help="two cells of 0.1 s, without rivals or their environments")
    args = parser.parse_args()
    if args.smoke:
        args.targets, args.seconds, args.rounds, args.starts = f"{SUBJECT},{PLAIN}", 0.1, 1, 0
        args.large = min(args.large, 100_000)
    return args


def main() -> int:
    args = parse()
    names = [n for n in args.targets.split(",") if n]
    for name in names:
        if name not in NAMES:
            raise SystemExit(f"compare.py: no server {name!r}; there are {', '.join(NAMES)}")
    words = [w for w in args.cells.split(",") if w]
    cells = chosen(SMOKE if args.smoke else CELLS + (MORE if args.all else []), words)
    launcher = Launcher(args.udfgate, args.python, own_python=args.smoke)
    run: Result = {
        "machine": machine(launcher, names),
        "targets": names,
        "seconds": args.seconds,
        "rounds": args.rounds,
        "cells": {},
    }
    before, started = noise(), time.monotonic()

    if args.starts:
        run["start"] = measure_start(launcher, names, args.starts)
        for name, ms in run["start"].items():
            print(f"start to first answer: {name:<14}{ms['median_ms']:>8.0f} ms, least {ms['least_ms']:.0f}")
        if SUBJECT in names:
            run["empty_worker"] = measure_empty_worker(launcher)
            print(f"worker of an empty module: {run['empty_worker']['pss_mib']:.1f} MiB")
    if args.large:
        run["large"] = measure_large(launcher, names, args.large, 0.1 if args.smoke else LARGE_REST)
        for name, seen in run["large"].items():
            print(f"batch of {args.large} int64: {name:<14}{large_line(seen)}", flush=True)
    with ExitStack() as stack:
        all_running = []
        for name in names:
            all_running.append(Running(name, launcher))
            stack.callback(all_running[-1].close)
        wrong = verify(all_running, list(dict.fromkeys(c.function for c in cells)))
        print_head(names)
        for cell in cells:
            results = run["cells"][cell.key] = measure(all_running, cell, args.seconds, args.rounds)
            print_cell(cell, names, results)
            for name, result in results.items():
                if "failed" in result:
                    wrong += 1
                    print(f"{name}: {cell.key}: {result['failed']}", file=sys.stderr)
        run["memory"] = {r.name: measure_memory(r) for r in all_running}
        for name, found in run["memory"].items():
            print(f"memory after the load: {name:<14}{found['pss_mib']:>7.1f} MiB")

    after = noise()
    run["noise"] = {"load_before": before.load, "load_after": after.load, "steal_ticks": after.steal - before.steal}
    run["wrong_answers"] = wrong
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(run, indent=1) + "\n")
    print(noise_line(before, after, started))
    if wrong:
        print(f"{wrong} wrong or failed answers: these figures count for nothing", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
