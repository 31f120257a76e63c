r"""A schedule of whole brokers: what goes wrong and what operators do, and when, drawn before anything runs.

    seed --> the cluster and its clients
         \-> bursts, each around one partition: 3.1 s kill 81c..., 3.4 s move 03f..., 3.5 s reset 7a0...
                                                 6.0 s cut two 4fa...

Each step draws its details from its own number. So if a step is left out, the others do not change, and a failing
schedule can be shortened.

Most schedules are short, and their faults are close together. A violation usually needs two or three faults of the
same partition within a second or two, and the cost of a run grows with its length. Some schedules are long, with
pauses.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ottla.runtime.rng import Rng, SeededRng

LENGTHS_S: Final = ((0.75, 3.0, 9.0), (0.95, 9.0, 20.0), (1.0, 40.0, 40.0))
"""For how long things go wrong: up to which draw, from and to how many seconds."""

BURST_MAX: Final = 4
"""The maximum number of steps of a burst."""

CLOSE_S: Final = (0.1, 0.6, 2.0)
"""How close that is: at most so far from each other, one of these in each burst."""

REST_S: Final = 0.2
"""The minimum time between bursts."""

REST_S_MAX: Final = (1.0, 6.0)
"""And how long at most: drawn for each schedule, so that some have little rest and others heal in between."""


EARLY_ENDS_S: Final = (1.0, 5.0)
"""The times after the last step at which everything heals, in shortened schedules."""


class Step(Struct, frozen=True):
    """Something that happens: its kind, and a number from which its details are drawn."""

    at_s: float
    kind: str
    seed: int
    focus: int = 0
    """Selects the partition; the same for all steps of a burst."""

    @property
    def rng(self) -> Rng:
        """For the details."""
        return SeededRng(self.seed)


class Schedule(Struct, frozen=True):
    """One run. `steps` are in the order of their times, in virtual seconds since the clients began."""

    seed: int
    steps: tuple[Step, ...]
    faults_s: float
    """After what time everything heals."""

    @property
    def kinds(self) -> list[str]:
        """The kinds of its steps, each once."""
        return sorted({step.kind for step in self.steps})

    @property
    def parts(self) -> list[Step]:
        """Its steps."""
        return list(self.steps)

    def with_parts(self, parts: Sequence[Step]) -> "Schedule":
        """The schedule with these steps alone."""
        return replace(self, steps=tuple(parts))

    def with_early_ends(self) -> Iterator["Schedule"]:
        """The same steps, with everything healed sooner after the last."""
        last_s = self.steps[-1].at_s if self.steps else 0.0
        for rest_s in EARLY_ENDS_S:
            if last_s + rest_s < self.faults_s:
                yield replace(self, faults_s=last_s + rest_s)


def drawn(seed: int, weights: Mapping[str, int], faults_s: float | None = None, kinds: Sequence[str] = ()) -> Schedule:
    """The schedule of a seed. Without `kinds` some are left out, and the others come as often as their weights say.

    What is not said of its length is drawn too.
    """
    rng = SeededRng(seed)
    chosen = [kind for kind in weights if rng.random() < 0.5] or list(weights)
    table = [kind for kind in kinds or chosen for _ in range(weights[kind])]
    length_s = _length_s(rng)
    end_s = length_s if faults_s is None else faults_s
    rest_s = rng.uniform(*REST_S_MAX)
    steps, at_s = [], rng.uniform(REST_S, 1.5)
    while at_s < end_s:
        focus, close_s = rng.randbelow(1 << 30), CLOSE_S[rng.randbelow(len(CLOSE_S))]
        for _ in range(1 + rng.randbelow(BURST_MAX)):
            if at_s < end_s:
                steps.append(Step(at_s, table[rng.randbelow(len(table))], rng.randbelow(1 << 62), focus))
            at_s += rng.uniform(0.0, close_s)
        at_s += rng.uniform(REST_S, rest_s)
    return Schedule(seed, tuple(steps), end_s)


def _length_s(rng: Rng) -> float:
    draw = rng.random()
    return next(rng.uniform(least_s, most_s) for up_to, least_s, most_s in LENGTHS_S if draw < up_to)
