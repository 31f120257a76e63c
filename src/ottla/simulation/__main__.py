"""`python -m ottla.simulation`: run schedules of a simulated cluster and look for one that breaks a rule."""

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

import click

from ottla.runtime.clock import SystemClock
from ottla.simulation.decisions import PRODUCTION
from ottla.simulation.drawing import draw
from ottla.simulation.planted_bugs import ALL, PlantedBug
from ottla.simulation.running import run
from ottla.simulation.schedule import schedule_of
from ottla.simulation.searching import Calibration, calibrate, search, table
from ottla.simulation.shrinking import shrink

FINDS_MAX = 25
"""The maximum number of finds of a planted bug."""

_NAMES = {bug.name: bug for bug in ALL}


@click.command()
@click.option("--seed", type=int, help="Run this seed alone, and draw it.")
@click.option("--first", default=0, show_default=True, help="The seed to begin with.")
@click.option("--schedules", default=20_000, show_default=True, help="How many to run at most.")
@click.option("--seconds", default=0.0, help="For how long at most; 0: until all schedules have run.")
@click.option("--planted", is_flag=True, help="Look for each planted bug, and say how many schedules it took.")
@click.option("--bug", help="Plant this bug: to see what is found, and how.")
@click.option(
    "--whole",
    is_flag=True,
    help="Run whole brokers and clients, a few virtual seconds each, not their decisions alone.",
)
@click.option(
    "--delays", is_flag=True, help="Run a delay topic: who delivers of it, its log, its files and its target."
)
def main(
    seed: int | None,
    first: int,
    schedules: int,
    seconds: float,
    planted: bool,
    bug: str | None,
    whole: bool,
    delays: bool,
) -> None:
    """Run schedules until one breaks a rule. That one is shortened and drawn, and the exit code is 1.

    \b
    Examples:
      python -m ottla.simulation --seconds 60
      python -m ottla.simulation --whole --schedules 100
      python -m ottla.simulation --seed 7
      python -m ottla.simulation --planted
      python -m ottla.simulation --whole --planted --schedules 100
      python -m ottla.simulation --bug kip-101
      python -m ottla.simulation --delays --schedules 1000
    """
    if whole and delays:
        raise click.UsageError("--whole and --delays exclude each other")
    if whole or delays:
        simulator = _delay_topics() if delays else _whole_brokers()
        sys.exit(simulator.run(seed, first, schedules, seconds, planted, bug))
    _require(bug, _NAMES)
    if planted:
        _print(table(_calibrations(schedules)))
    elif seed is not None:
        sys.exit(_show(seed, _NAMES.get(bug or "")))
    else:
        sys.exit(_search(first, schedules, seconds, _NAMES.get(bug or "")))


class _Simulator(NamedTuple):
    """One that runs real code."""

    bugs: Iterable[str]
    with_fixed_hashes: Callable[[], None]
    calibrations: Callable[[int], Iterator[tuple[str, Calibration]]]
    search: Callable[[int, int, float, str | None], int]
    show: Callable[[int, str | None], int]

    def run(self, seed: int | None, first: int, schedules: int, seconds: float, planted: bool, bug: str | None) -> int:
        """Do what is asked; the exit code."""
        _require(bug, self.bugs)
        self.with_fixed_hashes()
        if planted:
            _print(table(self.calibrations(schedules)))
            return 0
        return self.search(first, schedules, seconds, bug) if seed is None else self.show(seed, bug)


def _whole_brokers() -> _Simulator:
    from ottla.simulation.whole.planted_bugs import PLANTED  # late: it needs all of the broker
    from ottla.simulation.whole.searching import calibrations, search, show, with_fixed_hashes

    return _Simulator(PLANTED, with_fixed_hashes, calibrations, search, show)


def _delay_topics() -> _Simulator:
    from ottla.simulation.delays.planted_bugs import PLANTED
    from ottla.simulation.delays.searching import calibrations, search, show
    from ottla.simulation.whole.searching import with_fixed_hashes

    return _Simulator(PLANTED, with_fixed_hashes, calibrations, search, show)


def _require(bug: str | None, known: Iterable[str]) -> None:
    if bug is not None and bug not in known:
        raise click.UsageError(f"there is no bug {bug} to be planted here: {', '.join(known)}")


def _search(first: int, schedules: int, seconds: float, bug: PlantedBug | None) -> int:
    decisions = PRODUCTION if bug is None else bug.decisions
    runs = (run(schedule_of(seed), decisions) for seed in range(first, first + schedules))
    searched = search(runs, SystemClock(), seconds)
    if searched.failing is not None:
        seed = searched.failing.schedule.seed
        click.echo(f"seed {seed}: {searched.failing.violation}", err=True)
        return _show(seed, bug)
    click.echo(f"{searched.tried:,} schedules, nothing wrong; {searched.a_minute:,.0f} a minute")
    return 0


def _show(seed: int, bug: PlantedBug | None) -> int:
    """Draw a seed, the shortest schedule with the same fault if it fails."""
    run_it = partial(run, decisions=PRODUCTION if bug is None else bug.decisions)
    schedule = schedule_of(seed)
    result = run_it(schedule)
    shortest = shrink(result, run_it).result.schedule if result.rules else schedule
    result = run_it(shortest, traced=True)
    click.echo(draw(result), nl=False)
    if result.violation is None:
        click.echo(f"\nseed {seed}: {len(schedule)} steps, nothing wrong")
        return 0
    click.echo(f"\nseed {seed}: {len(schedule)} steps, {len(shortest)} are enough: {result.violation}")
    return 1


def _calibrations(schedules: int) -> Iterator[tuple[str, Calibration]]:
    for bug in ALL:
        runs = (run(schedule_of(seed), bug.decisions) for seed in range(schedules))
        yield bug.name, calibrate(runs, finds_max=FINDS_MAX)


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line)


if __name__ == "__main__":
    main()
