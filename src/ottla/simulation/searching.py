"""Looks for schedules that fail, for both simulators: seed after seed, until one breaks a rule."""

from collections import Counter
from collections.abc import Iterable, Iterator
from statistics import median
from typing import Generic, TypeVar

from msgspec import Struct

from ottla.runtime.clock import Clock
from ottla.simulation.shrinking import Result

R = TypeVar("R", bound=Result)


class Searched(Struct, Generic[R], frozen=True):
    """The result of a search: the first run that broke a rule, if any."""

    failing: R | None
    tried: int
    took_ms: int

    @property
    def a_minute(self) -> float:
        """Schedules a minute."""
        return self.tried * 60_000 / self.took_ms


def search(runs: Iterable[R], clock: Clock, seconds: float) -> Searched[R]:
    """Run until one breaks a rule, or for so many seconds if that is not 0."""
    begun_ms = clock.monotonic_ms()
    tried = 0
    failing: R | None = None
    for result in runs:
        tried += 1
        if result.rules:
            failing = result
            break
        if seconds and clock.monotonic_ms() - begun_ms >= seconds * 1000:
            break
    return Searched(failing, tried, max(clock.monotonic_ms() - begun_ms, 1))


class Calibration(Struct, frozen=True):
    """The number of schedules between finds of a planted bug."""

    tried: int
    gaps: tuple[int, ...]
    rules: tuple[str, ...]
    """Which rules it broke first, the most frequent first."""

    @property
    def median(self) -> float | None:
        """None when it was not found."""
        return median(self.gaps) if self.gaps else None


def calibrate(runs: Iterable[Result], *, finds_max: int) -> Calibration:
    """Look for a planted bug in runs that have it, up to `finds_max` times."""
    tried = before = 0
    gaps: list[int] = []
    rules: Counter[str] = Counter()
    for result in runs:
        tried += 1
        if not result.rules:
            continue
        rules[result.rules[0]] += 1
        gaps.append(tried - before)
        before = tried
        if len(gaps) == finds_max:
            break
    return Calibration(tried, tuple(gaps), tuple(rule for rule, _ in rules.most_common()))


def table(found: Iterable[tuple[str, Calibration]]) -> Iterator[str]:
    """The lines of a table of planted bugs, each when it is known."""
    yield f"{'bug':<20}{'median':>8}{'found':>7}  first rule that it broke"
    for name, calibration in found:
        middle = "-" if calibration.median is None else f"{calibration.median:,.0f}"
        rule = calibration.rules[0] if calibration.rules else f"not found in {calibration.tried:,} schedules"
        yield f"{name:<20}{middle:>8}{len(calibration.gaps):>7}  {rule}"
