"""Runs schedules of whole brokers until one breaks something, and says what happened in it."""

import os
import sys
from pathlib import Path
from typing import Final

import click

from ottla.runtime.clock import SystemClock
from ottla.simulation.whole.planted_bugs import planted
from ottla.simulation.whole.running import WholeResult, run

TRACES: Final = Path("build/simulation")
"""Where the traces of schedules are put that broke something."""

_HASHES: Final = "PYTHONHASHSEED"


def with_fixed_hashes() -> None:
    """Start this process anew unless Python orders its sets as it did the last time: a seed is to give the same run."""
    if os.environ.get(_HASHES) != "0":
        arguments = [sys.executable, "-m", "ottla.simulation", *sys.argv[1:]]
        os.execve(sys.executable, arguments, {**os.environ, _HASHES: "0"})  # noqa: S606 (this program, again)


def show(seed: int, bug: str | None) -> int:
    """Run one seed and tell its story; 1 if it broke something."""
    with planted(bug):
        result = run(seed)
    for line in result.story:
        click.echo(line)
    click.echo(f"\nall lines: {_kept(result)}")
    click.echo(_summary(result))
    return 1 if result.violations else 0


def search(first: int, schedules: int, seconds: float, bug: str | None) -> int:
    """Run seeds until one breaks something; 1 if one did."""
    clock = SystemClock()
    begun_ms = clock.monotonic_ms()
    tried, virtual_s = 0, 0.0
    for seed in range(first, first + schedules):
        with planted(bug):
            result = run(seed)
        tried += 1
        virtual_s += result.virtual_s
        if result.violations:
            click.echo(f"{_summary(result)}\nwhat happened: {_kept(result)}", err=True)
            return 1
        if seconds and clock.monotonic_ms() - begun_ms >= seconds * 1000:
            break
    took_ms = max(clock.monotonic_ms() - begun_ms, 1)
    click.echo(
        f"{tried:,} schedules of whole brokers, {virtual_s / 60:,.0f} virtual minutes, nothing wrong; "
        f"{tried * 60_000 / took_ms:.1f} schedules a minute"
    )
    return 0


def _kept(result: WholeResult) -> Path:
    TRACES.mkdir(parents=True, exist_ok=True)
    path = TRACES / f"whole-{result.seed}.txt"
    path.write_text("\n".join((*result.trace, "")))
    return path


def _summary(result: WholeResult) -> str:
    counts = f"{result.acknowledged} of {result.sent} records acknowledged, {result.copies} transactions"
    wrong = "; ".join(result.violations) or "nothing wrong"
    return f"seed {result.seed}: {result.virtual_s:.0f} virtual seconds, {counts}, trace {result.trace_hash}: {wrong}"
