"""Runs seeds of a delay topic until one breaks a rule, makes that one shorter, and says what happened in it."""

from collections.abc import Iterator
from typing import Final

import click

from ottla.runtime.clock import SystemClock
from ottla.simulation import searching
from ottla.simulation.delays.delay_run import DelayResult, run
from ottla.simulation.delays.delay_schedule import schedule_of
from ottla.simulation.delays.planted_bugs import PLANTED, planted
from ottla.simulation.searching import Calibration
from ottla.simulation.shrinking import Limits, shrink

FINDS_MAX: Final = 5
"""The maximum number of finds of each planted bug."""


def show(seed: int, bug: str | None) -> int:
    """Run one seed and tell what happened, in the shortest schedule with the same fault if it fails; then it is 1."""
    with planted(bug):
        result = run(schedule_of(seed))
        if result.violations:
            return _explain(result)
    _tell(result)
    return 0


def search(first: int, schedules: int, seconds: float, bug: str | None) -> int:
    """Run seeds until one breaks something, and explain that; 1 if one did."""
    deliveries = 0

    def runs() -> Iterator[DelayResult]:
        nonlocal deliveries
        for seed in range(first, first + schedules):
            result = run(schedule_of(seed))
            deliveries += result.deliveries
            yield result

    with planted(bug):
        searched = searching.search(runs(), SystemClock(), seconds)
        if searched.failing is not None:
            return _explain(searched.failing)
    click.echo(
        f"{searched.tried:,} schedules of a delay topic, {deliveries:,} deliveries, nothing wrong; "
        f"{searched.a_minute:,.0f} schedules a minute"
    )
    return 0


def calibrations(schedules: int) -> Iterator[tuple[str, Calibration]]:
    """Every planted bug, with the number of seeds from one find to the next."""
    for bug in PLANTED:
        with planted(bug):
            yield bug, searching.calibrate((run(schedule_of(seed)) for seed in range(schedules)), finds_max=FINDS_MAX)


def _explain(failing: DelayResult) -> int:
    click.echo(_summary(failing), err=True)
    shrunk = shrink(failing, run, Limits(SystemClock())).result
    _tell(shrunk)
    steps, are_enough = len(failing.schedule.steps), len(shrunk.schedule.steps)
    click.echo(f"seed {failing.schedule.seed}: {steps} steps, {are_enough} are enough")
    return 1


def _tell(result: DelayResult) -> None:
    for line in result.trace:
        click.echo(line)
    click.echo(_summary(result))


def _summary(result: DelayResult) -> str:
    wrong = "; ".join(result.violations) or "nothing wrong"
    return (
        f"seed {result.schedule.seed}: {result.virtual_s:.0f} virtual seconds, {result.deliveries} deliveries: {wrong}"
    )
