"""Process trees, what they use, and how busy the machine is. Linux only: reads /proc."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

MIB = 1024.0  # in KiB, the unit of smaps_rollup


def tree(root: int) -> list[int]:
    """A process and its descendants, the root first."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            stat = Path("/proc", entry, "stat").read_text()
        except OSError:
            continue  # ended meanwhile
        parent = int(stat[stat.rindex(")") + 2 :].split()[1])  # the name before it may hold blanks and parentheses
        children.setdefault(parent, []).append(int(entry))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def cpu_seconds(pids: list[int]) -> dict[int, float]:
    """Processor time of each living process, all its threads, ended ones too.

    Taken from the kernel's per-process clock (the id is that of clock_getcpuclockid), which counts nanoseconds where
    /proc/PID/stat has ticks of 10 ms.
    """
    used = {}
    for pid in pids:
        try:
            used[pid] = time.clock_gettime((~pid << 3) | 2)
        except OSError:
            continue  # ended meanwhile
    return used


def cpu_between(before: dict[int, float], after: dict[int, float]) -> float:
    """What a tree used between two looks; a process that was started in between counts from its start."""
    return sum(used - before.get(pid, 0.0) for pid, used in after.items())


class Memory(NamedTuple):
    """Mebibytes of one process without memory that it shares on purpose (shmem: the arenas)."""

    pid: int
    pss: float  # pages of files shared with other processes count in part
    rss: float  # they count in full


def memory(pids: list[int]) -> list[Memory]:
    found = []
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
        except OSError:
            continue
        kib = {line.split(":")[0]: int(line.split()[1]) for line in lines}
        # Rss has no shmem part of its own in this file, so all touched arena pages are read from status.
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        shared = int(status.get("RssShmem", "0").split()[0])
        found.append(Memory(pid, (kib["Pss"] - kib.get("Pss_Shmem", 0)) / MIB, (kib["Rss"] - shared) / MIB))
    return found


class Noise(NamedTuple):
    """How busy the machine is with other things."""

    load: float  # of the last minute, our own share included
    steal: int  # ticks that the hypervisor gave to others since boot


def noise() -> Noise:
    ticks = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return Noise(float(Path("/proc/loadavg").read_text().split()[0]), int(ticks[8]))


def noise_line(before: Noise, after: Noise, started: float) -> str:
    """The line that every measurement ends with."""
    line = (
        f"took {time.monotonic() - started:.0f} s; load before {before.load:.2f}, after {after.load:.2f}; "
        f"steal {after.steal - before.steal} ticks"
    )
    return line + ("; NOISY: run again when the load before is below 1" if before.load > 1 else "")
