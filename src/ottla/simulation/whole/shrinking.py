"""Makes a failing schedule of whole brokers shorter: steps are left out as long as the same rule is broken.

As `ottla.simulation.shrinking` does it, within limits: a run takes seconds. What else happens in a run changes with
each step that is left out; what hangs on a race may not come again without any of them, and then all of them stay.
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ottla.runtime.clock import Clock
from ottla.simulation.shrinking import minimal
from ottla.simulation.whole.running import WholeResult, run
from ottla.simulation.whole.schedule import Schedule, Step

RUNS_MAX: Final = 60

SECONDS_MAX: Final = 300.0

REST_S: Final = (1.0, 5.0)
"""How long after the last step everything heals in the shortest schedules that are tried."""


class Shrunk(Struct, frozen=True):
    """The shortest schedule that was found, with what came of it, and how many runs that took."""

    result: WholeResult
    runs: int


class _Shrinking:
    def __init__(self, failing: WholeResult, clock: Clock, runs_max: int, seconds_max: float) -> None:
        self.shortest = failing
        self.runs = 0
        self._rule = failing.rules[0]
        self._clock = clock
        self._runs_max = runs_max
        self._end_ms = clock.monotonic_ms() + int(seconds_max * 1000)

    def fails(self, schedule: Schedule) -> bool:
        """Whether that breaks the rule too; False when no more may be tried."""
        if self.runs >= self._runs_max or self._clock.monotonic_ms() >= self._end_ms:
            return False
        self.runs += 1
        result = run(schedule)
        if self._rule not in result.rules:
            return False
        self.shortest = result
        return True


def shrink(failing: WholeResult, clock: Clock, *, runs_max: int = RUNS_MAX, seconds_max: float = SECONDS_MAX) -> Shrunk:
    """The shortest schedule found that breaks the first rule that `failing` breaks, which breaks some."""
    shrinking = _Shrinking(failing, clock, runs_max, seconds_max)

    def fails(steps: list[Step]) -> bool:
        return shrinking.fails(replace(failing.schedule, steps=tuple(steps)))

    minimal(list(failing.schedule.steps), fails)
    schedule = shrinking.shortest.schedule
    last_s = schedule.steps[-1].at_s if schedule.steps else 0.0
    for rest_s in REST_S:
        if last_s + rest_s < schedule.faults_s and shrinking.fails(replace(schedule, faults_s=last_s + rest_s)):
            break
    return Shrunk(shrinking.shortest, shrinking.runs)
