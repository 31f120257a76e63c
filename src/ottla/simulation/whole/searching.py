"""Runs schedules of whole brokers until one breaks something, makes that one shorter, and says what happened in it."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from ottla.runtime.clock import SystemClock
from ottla.simulation import searching
from ottla.simulation.searching import Calibration
from ottla.simulation.shrinking import Limits, shrink
from ottla.simulation.whole.planted_bugs import PLANTED, planted
from ottla.simulation.whole.running import WholeResult, run, schedule_of

TRACES: Final = Path("build/simulation")
"""The directory for traces of failed schedules."""

FINDS_MAX: Final = 5
"""The maximum number of finds of each planted bug."""

_HASHES: Final = "PYTHONHASHSEED"


def with_fixed_hashes() -> None:
    """Start this process anew unless Python orders its sets as it did the last time: a seed is to give the same run."""
    if os.environ.get(_HASHES) != "0":
        arguments = [sys.executable, "-m", "ottla.simulation", *sys.argv[1:]]
        os.execve(sys.executable, arguments, {**os.environ, _HASHES: "0"})  # noqa: S606 (this program, again)


def show(seed: int, bug: str | None) -> int:
    """Run one seed and tell its story, that of the shortest schedule with the same fault if it fails; then it is 1."""
    with planted(bug):
        result = run(schedule_of(seed))
        if result.violations:
            return _explain(result)
    _tell(result)
    return 0


def search(first: int, schedules: int, seconds: float, bug: str | None) -> int:
    """Run seeds until one breaks something, and explain that; 1 if one did."""
    virtual_s = 0.0

    def runs() -> Iterator[WholeResult]:
        nonlocal virtual_s
        for seed in range(first, first + schedules):
            result = run(schedule_of(seed))
            virtual_s += result.virtual_s
            yield result

    with planted(bug):
        searched = searching.search(runs(), SystemClock(), seconds)
        if searched.failing is not None:
            return _explain(searched.failing)
    click.echo(
        f"{searched.tried:,} schedules of whole brokers, {virtual_s / 60:,.0f} virtual minutes, nothing wrong; "
        f"{searched.a_minute:.1f} schedules a minute"
    )
    return 0


def calibrations(schedules: int) -> Iterator[tuple[str, Calibration]]:
    """Every planted bug, with the number of seeds from one find to the next."""
    for bug in PLANTED:
        with planted(bug):
            runs = (run(schedule_of(seed)) for seed in range(schedules))
            yield bug, searching.calibrate(runs, finds_max=FINDS_MAX)


def _explain(failing: WholeResult) -> int:
    """Make a failing schedule shorter and tell its story."""
    click.echo(f"{_summary(failing)}\nall lines: {_kept(failing, '')}", err=True)
    shrunk = shrink(failing, run, Limits(SystemClock()))
    _tell(shrunk.result, "-shrunk")
    steps, are_enough = len(failing.schedule.steps), len(shrunk.result.schedule.steps)
    click.echo(f"\nseed {failing.schedule.seed}: {steps} steps, {are_enough} are enough ({shrunk.runs} more runs):")
    for step in shrunk.result.schedule.steps:
        click.echo(f"{step.at_s:12.6f}  {step.kind}")
    return 1


def _tell(result: WholeResult, name: str = "") -> None:
    for line in result.story:
        click.echo(line)
    click.echo(f"\nall lines: {_kept(result, name)}")
    click.echo(_summary(result))


def _kept(result: WholeResult, name: str) -> Path:
    TRACES.mkdir(parents=True, exist_ok=True)
    path = TRACES / f"whole-{result.schedule.seed}{name}.txt"
    path.write_text("\n".join((*result.trace, "")))
    return path


def _summary(result: WholeResult) -> str:
    counts = f"{result.acknowledged} of {result.sent} records acknowledged, {result.copies} transactions"
    wrong = "; ".join(result.violations) or "nothing wrong"
    seed = result.schedule.seed
    return f"seed {seed}: {result.virtual_s:.0f} virtual seconds, {counts}, trace {result.trace_hash}: {wrong}"
