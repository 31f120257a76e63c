"""A schedule: the cluster and the steps of one run. The same schedule gives the same run, event by event.

A step is four bytes: which action of the swarm's table, and three operands. Any sequence of steps is a schedule, so one
that fails can be made shorter by leaving steps out.
"""

from typing import Final

from msgspec import Struct

from ottla.runtime.rng import SeededRng
from ottla.simulation.swarm import STEPS_MAX, STEPS_MIN, Swarm, swarm_of

STEP_BYTES: Final = 4


class Schedule(Struct, frozen=True):
    """What happens, in order, to which cluster."""

    seed: int
    swarm: Swarm
    steps: bytes

    def __len__(self) -> int:
        """How many steps it has."""
        return len(self.steps) // STEP_BYTES


def schedule_of(seed: int) -> Schedule:
    """The schedule of a seed."""
    rng = SeededRng(seed)
    swarm = swarm_of(rng)
    count = STEPS_MIN + rng.randbelow(STEPS_MAX - STEPS_MIN)
    return Schedule(seed, swarm, rng.token_bytes(count * STEP_BYTES))
