"""Makes a failing schedule shorter: steps are left out as long as the same rule is broken without them.

Delta debugging (Zeller and Hildebrandt, 2002): halves are left out first, then smaller and smaller parts, at last
single steps. What is left fails, and fails no more when any one of its steps is left out.
"""

from collections.abc import Callable
from typing import TypeVar

from msgspec.structs import replace

from ottla.simulation.decisions import PRODUCTION, Decisions
from ottla.simulation.running import run
from ottla.simulation.schedule import STEP_BYTES, Schedule

T = TypeVar("T")


def shrink(schedule: Schedule, decisions: Decisions = PRODUCTION) -> Schedule:
    """The shortest schedule found that breaks the rule that `schedule` breaks; the very one when it breaks none."""
    result = run(schedule, decisions)
    if result.violation is None:
        return schedule
    rule = result.violation.rule

    def fails(steps: list[bytes]) -> bool:
        found = run(replace(schedule, steps=b"".join(steps)), decisions).violation
        return found is not None and found.rule == rule

    drawn = schedule.steps[: result.step * STEP_BYTES]
    steps: list[bytes] = [drawn[at : at + STEP_BYTES] for at in range(0, len(drawn), STEP_BYTES)]
    shortest: list[bytes] = minimal(steps, fails)
    return replace(schedule, steps=b"".join(shortest))


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
