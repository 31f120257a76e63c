"""Looks for schedules that fail: seed after seed, each run to its end or to the first rule it breaks."""

from collections.abc import Iterable, Iterator
from statistics import median

from msgspec import Struct

from ottla.simulation.decisions import PRODUCTION, Decisions
from ottla.simulation.running import Result, run
from ottla.simulation.schedule import Schedule, schedule_of


class Found(Struct, frozen=True):
    """A schedule that broke a rule."""

    schedule: Schedule
    result: Result


class Calibration(Struct, frozen=True):
    """How many schedules it takes to find a planted bug: those from one find to the next."""

    tried: int
    gaps: tuple[int, ...]
    rules: tuple[str, ...]
    """Which rules it broke, the most frequent first."""

    @property
    def median(self) -> float | None:
        """None when it was not found."""
        return median(self.gaps) if self.gaps else None


def failures(seeds: Iterable[int], decisions: Decisions = PRODUCTION) -> Iterator[Found | None]:
    """One for each seed: what it found, None when every rule held."""
    for seed in seeds:
        schedule = schedule_of(seed)
        result = run(schedule, decisions)
        yield None if result.violation is None else Found(schedule, result)


def calibrate(seeds: Iterable[int], decisions: Decisions, *, finds_max: int) -> Calibration:
    """Look for a planted bug, up to `finds_max` times."""
    tried = gap = 0
    gaps: list[int] = []
    rules: dict[str, int] = {}
    for found in failures(seeds, decisions):
        tried += 1
        gap += 1
        if found is None or found.result.violation is None:
            continue
        rule = found.result.violation.rule
        rules[rule] = rules.get(rule, 0) + 1
        gaps.append(gap)
        gap = 0
        if len(gaps) == finds_max:
            break
    return Calibration(tried, tuple(gaps), tuple(sorted(rules, key=lambda each: -rules[each])))
