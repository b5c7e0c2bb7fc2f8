#!/usr/bin/env python3
"""Prints runs of compare.py as Markdown: every goal with what was reached, then the figures behind it.

    table.py RUN.json…      (three runs, please: a ratio is the median over them)
    --strict                exit status 1 if a goal was missed

A ratio is taken inside one run, between servers that took turns; the table has the median over the runs and, in
brackets, the least and the most. Absolute times are the least p50 of all runs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import cells
from cells import ARROW, CELLS, DATABEND, MORE, PLAIN, SMOKE, SUBJECT, Cell

Run = dict[str, Any]


class Report:
    """Collects the verdicts while tables are printed."""

    def __init__(self, runs: list[Run]) -> None:
        self.runs = runs
        self.met = self.missed = self.unknown = 0

    def over_runs(self, value: Callable[[Run], float]) -> list[float]:
        """The value in every run that has it."""
        found = []
        for run in self.runs:
            try:
                found.append(value(run))
            except (KeyError, IndexError):  # that run left it out
                continue
        return found

    def cell(self, key: str, name: str, what: str) -> list[float]:
        return self.over_runs(lambda run: run["cells"][key][name][what])

    def cell_ratio(self, key: str, name: str, base: str, what: str) -> list[float]:
        return self.over_runs(lambda run: run["cells"][key][name][what] / run["cells"][key][base][what])

    def ratio_to_arrow(self, part: str, what: str) -> list[float]:
        return self.over_runs(lambda run: run[part][SUBJECT][what] / run[part][ARROW][what])

    def verdict(self, checks: Iterable[tuple[str, bool | None]]) -> str:
        """One word for a line with one or more goals; checks are (against whom, met, or None if not measured)."""
        checks = list(checks)
        if any(ok is None for _, ok in checks):
            self.unknown += 1
            return "not measured"
        failed = [name for name, ok in checks if not ok]
        if failed:
            self.missed += 1
            return f"**miss** ({', '.join(failed)})"
        self.met += 1
        return "pass"


def ratio_text(found: list[float]) -> str:
    if not found:
        return "–"
    middle = f"{statistics.median(found):.2f}"
    return middle if len(found) == 1 else f"{middle} ({min(found):.2f}–{max(found):.2f})"


def at_least(found: list[float], goal: float) -> bool | None:
    return statistics.median(found) >= goal if found else None


def at_most(found: list[float], goal: float) -> bool | None:
    return statistics.median(found) <= goal if found else None


def row(*columns: str) -> None:
    print("| " + " | ".join(columns) + " |")


def head(*columns: str) -> None:
    print()
    row(*columns)
    row(*["---"] * len(columns))


def goal_text(goal: float | None, sign: str = "≥") -> str:
    return "–" if goal is None else f"{sign} {goal:g}"


def print_speed(report: Report, measured: list[Cell]) -> None:
    head(
        "goal",
        "function",
        "rows",
        "callers",
        "kind",
        "p50 µs",
        f"× {ARROW}",
        "goal",
        f"× {PLAIN}",
        "goal",
        "limit",
        f"× {DATABEND}",
        "goal",
        "result",
    )
    for cell in measured:
        if not cell.goals():
            continue
        bases = (ARROW, cell.base, DATABEND)
        ratios = {base: report.cell_ratio(cell.key, SUBJECT, base, "rows_s") for base in bases}
        result = report.verdict((base, at_least(ratios[base], goal)) for base, goal in cell.goals())
        plain = ratios[cell.base]
        if result == "pass" and cell.limit and plain and statistics.median(plain) > cell.limit:
            result += ", above the limit"
        p50 = report.cell(cell.key, SUBJECT, "least_p50_us")
        row(
            cell.row,
            cell.function,
            str(cell.rows),
            str(cell.callers),
            cell.kind,
            f"{min(p50):.0f}" if p50 else "–",
            ratio_text(ratios[ARROW]),
            goal_text(cell.arrow),
            ratio_text(plain) + ("" if cell.base == PLAIN else f" of {cell.base}"),
            goal_text(cell.plain),
            goal_text(cell.limit, "≤"),
            ratio_text(ratios[DATABEND]) if cell.databend else "–",
            goal_text(cell.databend),
            result,
        )


def print_cpu(report: Report) -> None:
    head("server CPU", SUBJECT, PLAIN, f"× {PLAIN}", "goal", "result")
    for goal in cells.CPU_GOALS:
        what, unit = ("cpu_us_per_call", "µs") if goal.per == "call" else ("cpu_ns_per_row", "ns")
        ratios = report.cell_ratio(goal.cell, SUBJECT, PLAIN, what)
        mine, plain = report.cell(goal.cell, SUBJECT, what), report.cell(goal.cell, PLAIN, what)
        row(
            f"{goal.cell}, per {goal.per}",
            f"{min(mine):.0f} {unit}" if mine else "–",
            f"{min(plain):.0f} {unit}" if plain else "–",
            ratio_text(ratios),
            goal_text(goal.plain, "≤"),
            report.verdict([(PLAIN, at_most(ratios, goal.plain))]),
        )


def print_memory_and_start(report: Report) -> None:
    head("memory and start", SUBJECT, ARROW, "ratio", "goal", "result")
    mine = report.over_runs(lambda run: run["memory"][SUBJECT]["pss_mib"])
    rival = report.over_runs(lambda run: run["memory"][ARROW]["pss_mib"])
    ratios = report.ratio_to_arrow("memory", "pss_mib")
    workers = report.over_runs(lambda run: len(run["memory"][SUBJECT]["children_mib"]))
    enough = ratios if set(workers) == {cells.MEMORY_WORKERS} else []  # the goal is for that many
    row(
        f"gateway and {max(workers, default=0):.0f} worker(s) after the load, MiB",
        *least(mine, rival),
        ratio_text(ratios),
        goal_text(cells.MEMORY_RATIO, "≤"),
        report.verdict([(ARROW, at_most(enough, cells.MEMORY_RATIO))]),
    )
    empty = report.over_runs(lambda run: run["empty_worker"]["pss_mib"])
    resident = report.over_runs(lambda run: run["empty_worker"]["rss_mib"])
    whole = f" ({min(resident):.1f} with shared file pages counted in full)" if resident else ""
    row(
        f"worker of an empty module, MiB{whole}",
        f"{statistics.median(empty):.1f}" if empty else "–",
        "–",
        "–",
        f"≤ {cells.EMPTY_WORKER_MIB:g} MiB",
        report.verdict([("itself", at_most(empty, cells.EMPTY_WORKER_MIB))]),
    )
    mine = report.over_runs(lambda run: run["start"][SUBJECT]["median_ms"])
    rival = report.over_runs(lambda run: run["start"][ARROW]["median_ms"])
    ratios = report.ratio_to_arrow("start", "median_ms")
    row(
        "start to first answer, ms",
        *least(mine, rival),
        ratio_text(ratios),
        goal_text(cells.START_RATIO, "≤"),
        report.verdict([(ARROW, at_most(ratios, cells.START_RATIO))]),
    )


def print_large(report: Report) -> None:
    """The batch of 100 MB: time beside the others, and what is still held a while after it."""
    mine = report.over_runs(lambda run: run["large"][SUBJECT]["seconds"])
    kept = report.over_runs(lambda run: run["large"][SUBJECT]["kept_mib"])
    if not mine:
        return
    head("a batch of 100 MB", SUBJECT, "the other", "ratio", "goal", "result")
    for name, goal in cells.LARGE_RATIOS.items():
        other = report.over_runs(lambda run, name=name: run["large"][name]["seconds"])
        ratios = report.over_runs(
            lambda run, name=name: run["large"][SUBJECT]["seconds"] / run["large"][name]["seconds"]
        )
        row(
            f"seconds, beside {name}",
            f"{min(mine):.3f}",
            f"{min(other):.3f}" if other else "–",
            ratio_text(ratios),
            goal_text(goal, "≤"),
            report.verdict([(name, at_most(ratios, goal))]),
        )
    others = [
        f"{name} {statistics.median(found):+.0f}"
        for name in cells.LARGE_RATIOS
        if (found := report.over_runs(lambda run, name=name: run["large"][name]["kept_mib"]))
    ]
    row(
        f"MiB more than before, {cells.LARGE_REST:g} s later",
        f"{statistics.median(kept):+.0f}",
        ", ".join(others) or "–",
        "–",
        f"≤ +{cells.LARGE_KEPT_MIB:g}",
        report.verdict([("itself", at_most(kept, cells.LARGE_KEPT_MIB))]),
    )


def least(*columns: list[float]) -> list[str]:
    return [f"{min(found):.0f}" if found else "–" for found in columns]


def print_all(report: Report, measured: list[Cell], names: list[str]) -> None:
    """Every server: least p50, and rows/s of it as a ratio to plain-row."""
    head("cell", *[f"{name} p50 µs (× {PLAIN})" for name in names], "client cores")
    for cell in measured:
        columns = []
        for name in names:
            p50 = report.cell(cell.key, name, "least_p50_us")
            ratios = report.cell_ratio(cell.key, name, PLAIN, "rows_s")
            ratio = f" ({statistics.median(ratios):.2f})" if ratios else ""
            columns.append(f"{min(p50):.0f}{ratio}" if p50 else "–")
        busy = [x for name in names for x in report.cell(cell.key, name, "client_cores")]
        row(cell.key, *columns, f"{min(busy):.2f}–{max(busy):.2f}" if busy else "–")


def print_machine(runs: list[Run]) -> None:
    seen = runs[0]["machine"]
    print(f"{seen['cores']} cores, {seen['processor']}, kernel {seen['kernel']}. {seen.get('udfgate', '')}")
    print(f"Servers on {seen['python']}. Client: {seen['client']}.")


def print_noise(runs: list[Run]) -> None:
    for i, run in enumerate(runs, 1):
        busy = run["noise"]
        note = " **too noisy, repeat**" if busy["load_before"] > 1 else ""
        wrong = f" **{run['wrong_answers']} wrong answers**" if run["wrong_answers"] else ""
        print(
            f"Run {i}: {run['rounds']} slices of {run['seconds']} s; load before {busy['load_before']:.2f}, "
            f"after {busy['load_after']:.2f}; steal {busy['steal_ticks']} ticks.{note}{wrong}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description="Prints runs of compare.py as Markdown, with the goals.")
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN.json")
    parser.add_argument("--strict", action="store_true", help="exit status 1 if a goal was missed")
    args = parser.parse_args()
    runs: list[Run] = [json.loads(path.read_text()) for path in args.runs]
    seen = {key for run in runs for key in run["cells"]}
    known = {c.key: c for c in [*SMOKE, *MORE, *CELLS]}  # of two with one key the one with goals stays
    order = [c.key for c in [*CELLS, *MORE, *SMOKE]]
    measured = sorted((known[key] for key in seen), key=lambda c: order.index(c.key))
    report = Report(runs)
    print_machine(runs)
    print_speed(report, measured)
    print_cpu(report)
    print_memory_and_start(report)
    print_large(report)
    print_all(report, measured, list(dict.fromkeys(n for run in runs for n in run["targets"])))
    print(f"\n{report.met} goals met, {report.missed} missed, {report.unknown} not measured.\n")
    print_noise(runs)
    return 1 if args.strict and report.missed else 0


if __name__ == "__main__":
    sys.exit(main())
