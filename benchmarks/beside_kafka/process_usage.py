"""What a process and its children have used, from /proc: CPU split in user and system, memory as PSS, peak as VmHWM."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class CpuSeconds:
    """CPU time so far, or between two readings."""

    user: float
    system: float

    @property
    def total(self) -> float:
        return self.user + self.system

    def __sub__(self, earlier: CpuSeconds) -> CpuSeconds:
        return CpuSeconds(self.user - earlier.user, self.system - earlier.system)

    def __add__(self, other: CpuSeconds) -> CpuSeconds:
        return CpuSeconds(self.user + other.user, self.system + other.system)


def cpu_from_stat(stat: str, ticks_per_second: int = TICKS_PER_SECOND) -> CpuSeconds:
    """Of a process and of its children that have ended, from the text of /proc/PID/stat (proc(5), fields 14 to 17)."""
    fields = stat.rsplit(")", 1)[1].split()  # the name before may hold spaces and parentheses
    user, system, children_user, children_system = (int(field) for field in fields[11:15])
    return CpuSeconds((user + children_user) / ticks_per_second, (system + children_system) / ticks_per_second)


def kilobytes_of(text: str, key: str) -> int:
    """The figure of a line like `Pss:   1234 kB`, of /proc/PID/status, smaps_rollup or /proc/meminfo.

    Raises:
        ValueError: there is no such line.
    """
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name == key:
            return int(value.split()[0])
    raise ValueError(f"no {key} line")


def family(pid: int) -> list[int]:
    """The process and all that descend from it and are alive."""
    found = [pid]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            found.extend(int(child) for child in children.read_text().split())
    return found


def cpu_seconds(pid: int) -> CpuSeconds:
    """Used so far by the process and its children."""
    total = CpuSeconds(0.0, 0.0)
    for each in family(pid):
        total = total + cpu_from_stat(Path(f"/proc/{each}/stat").read_text())
    return total


def pss_mb(pid: int) -> float:
    """Proportional set size of the process and its children, in MB (1,048,576 bytes)."""
    return sum(kilobytes_of(Path(f"/proc/{each}/smaps_rollup").read_text(), "Pss") for each in family(pid)) / 1024


def peak_mb(pid: int) -> float:
    """The largest resident set the process and its children ever had, in MB."""
    return sum(kilobytes_of(Path(f"/proc/{each}/status").read_text(), "VmHWM") for each in family(pid)) / 1024
