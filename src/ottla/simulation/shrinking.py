"""Makes a failing schedule shorter: steps are left out as long as the same rule is broken without them.

Delta debugging (Zeller and Hildebrandt, 2002): first halves are left out, then smaller parts, at last single steps.
The result fails, and no longer fails if any one of its steps is left out.

For both simulators. Runs of whole brokers take seconds, so they have limits. There each step that is left out changes
the rest of a run: a violation that depends on a race may not occur again without any one of them, and all stay.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Protocol, Self, TypeVar

from msgspec import Struct

from ottla.runtime.clock import Clock

T = TypeVar("T")


class Schedule(Protocol):
    """The schedule of a run, in parts that can be left out."""

    @property
    def parts(self) -> list[Any]:
        """Its steps."""
        ...

    def with_parts(self, parts: Sequence[Any]) -> Self:
        """The schedule with these steps alone."""
        ...

    def with_early_ends(self) -> Iterable[Self]:
        """The same steps with less time after the last, the least first."""
        ...


class Result(Protocol):
    """The result of a schedule."""

    @property
    def schedule(self) -> Any:
        """The part of the schedule that ran."""
        ...

    @property
    def rules(self) -> Sequence[str]:
        """Which rules were broken."""
        ...


S = TypeVar("S", bound=Schedule)
R = TypeVar("R", bound=Result)


class Limits(Struct, frozen=True):
    """The maximum number of runs, and their maximum duration."""

    clock: Clock
    runs_max: int = 60
    seconds_max: float = 300.0


class Shrunk(Struct, Generic[R], frozen=True):
    """The result of the shortest schedule found, and the number of runs."""

    result: R
    runs: int


class _Shrinking(Generic[S, R]):
    def __init__(self, failing: R, run: Callable[[S], R], limits: Limits | None) -> None:
        self.shortest = failing
        self.runs = 0
        self._rule = failing.rules[0]
        self._run = run
        self._limits = limits
        self._begun_ms = limits.clock.monotonic_ms() if limits is not None else 0

    def fails(self, schedule: S) -> bool:
        """Whether that breaks the rule too; False when no more may be tried."""
        if not self._may_run():
            return False
        self.runs += 1
        result = self._run(schedule)
        if self._rule not in result.rules:
            return False
        self.shortest = result
        return True

    def _may_run(self) -> bool:
        limits = self._limits
        if limits is None:
            return True
        passed_ms = limits.clock.monotonic_ms() - self._begun_ms
        return self.runs < limits.runs_max and passed_ms < limits.seconds_max * 1000


def shrink(failing: R, run: Callable[[Any], R], limits: Limits | None = None) -> Shrunk[R]:
    """The shortest schedule found that breaks the first rule that `failing` breaks, which breaks some."""
    schedule = failing.schedule
    shrinking: _Shrinking[Any, R] = _Shrinking(failing, run, limits)
    minimal(schedule.parts, lambda parts: shrinking.fails(schedule.with_parts(parts)))
    for shorter in shrinking.shortest.schedule.with_early_ends():
        if shrinking.fails(shorter):
            break
    return Shrunk(shrinking.shortest, shrinking.runs)


def minimal(steps: list[T], fails: Callable[[list[T]], bool]) -> list[T]:
    """A part of `steps`, in their order, that fails and of which none can be left out; `steps` fails."""
    size = max(len(steps) // 2, 1)
    while True:
        at, is_shorter = 0, False
        while at < len(steps):
            rest = steps[:at] + steps[at + size :]
            if fails(rest):
                steps, is_shorter = rest, True
            else:
                at += size
        if size == 1 and not is_shorter:
            return steps
        size = max(size // 2, 1)
