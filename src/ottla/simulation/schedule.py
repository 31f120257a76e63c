"""A schedule: the cluster and the steps of one run. The same schedule gives the same run, event by event.

A step is four bytes: an action of the swarm's table, and three operands. Any sequence of steps is a schedule, so a
failing one can be shortened by leaving steps out.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ottla.runtime.rng import SeededRng
from ottla.simulation.swarm import STEPS_MAX, STEPS_MIN, Swarm, swarm_of

STEP_BYTES: Final = 4


class Schedule(Struct, frozen=True):
    """A cluster, and the steps that happen to it, in order."""

    seed: int
    swarm: Swarm
    steps: bytes

    def __len__(self) -> int:
        """How many steps it has."""
        return len(self.steps) // STEP_BYTES

    @property
    def parts(self) -> list[bytes]:
        """Its steps."""
        return [self.steps[at : at + STEP_BYTES] for at in range(0, len(self.steps), STEP_BYTES)]

    def with_parts(self, parts: Sequence[bytes]) -> "Schedule":
        """The schedule with these steps alone."""
        return replace(self, steps=b"".join(parts))

    def with_early_ends(self) -> tuple["Schedule", ...]:
        """None: everything heals at once after the last step."""
        return ()


def schedule_of(seed: int) -> Schedule:
    """The schedule of a seed."""
    rng = SeededRng(seed)
    swarm = swarm_of(rng)
    count = STEPS_MIN + rng.randbelow(STEPS_MAX - STEPS_MIN)
    return Schedule(seed, swarm, rng.token_bytes(count * STEP_BYTES))
