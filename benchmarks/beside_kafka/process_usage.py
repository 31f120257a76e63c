"""What a process and its children have used, from /proc: CPU split in user and system, memory as PSS, peak as VmHWM."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
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
        for children in (PROC / str(parent) / "task").glob("*/children"):
            with suppress(FileNotFoundError, ProcessLookupError):  # the thread ended meanwhile
                found.extend(int(child) for child in children.read_text().split())
    return found


def texts(pids: Sequence[int], name: str, proc: Path = PROC) -> Iterator[str]:
    """The file `name` of each process, without those of children that ended meanwhile.

    Raises:
        OSError: the first process itself is gone.
    """
    for pid in pids:
        try:
            yield (proc / str(pid) / name).read_text()
        except (FileNotFoundError, ProcessLookupError):
            if pid == pids[0]:
                raise


def cpu_seconds(pid: int) -> CpuSeconds:
    """Used so far by the process and its children."""
    total = CpuSeconds(0.0, 0.0)
    for text in texts(family(pid), "stat"):
        total = total + cpu_from_stat(text)
    return total


def busy_seconds(stat: str, ticks_per_second: int = TICKS_PER_SECOND) -> float:
    """CPU time of the whole machine that was not idle, from the text of /proc/stat, with what its host took of it."""
    user, nice, system, _idle, _iowait, interrupts, soft_interrupts, stolen = map(int, stat.split()[1:9])
    return (user + nice + system + interrupts + soft_interrupts + stolen) / ticks_per_second


def machine_busy_seconds() -> float:
    """`busy_seconds` so far."""
    return busy_seconds((PROC / "stat").read_text())


def own_seconds() -> float:
    """CPU time of this process and of its children that were waited for."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def pss_mb(pid: int) -> float:
    """Proportional set size of the process and its children, in MB (1,048,576 bytes)."""
    return sum(kilobytes_of(text, "Pss") for text in texts(family(pid), "smaps_rollup")) / 1024


def peak_mb(pid: int) -> float:
    """The largest resident set the process and its children ever had, in MB."""
    ended = "State:\tZ"
    alive = (text for text in texts(family(pid), "status") if ended not in text)
    return sum(kilobytes_of(text, "VmHWM") for text in alive) / 1024
