"""What a seed draws before a run of a delay topic begins: the sizes of everything, and the steps.

A step has a number from which all its details are drawn, so it can be left out and the others stay what they were.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ottla.runtime.rng import Rng, SeededRng

STEPS: Final = 120
WRITE: Final = "write"
FAULTS: Final = (
    "kill",
    "power",
    "die in a thread",
    "pause",
    "move the leader",
    "move it unknown",
    "jump",
    "lose requests",
    "slow markers",
    "full disk",
    "damage",
    "delete the target",
    "lag",
    "no coordinator",
    "change the delay",
)


LARGE: Final = 1 << 20
"""More than there is in a run."""


class DelaySettings(Struct, frozen=True):
    """How large things are in a run, and what is in it."""

    mover: dict[str, int]
    """Constants of the mover, so small that files are written and merged all the time."""
    buckets: dict[str, int]
    cancels_max: int
    broker_count: int
    target_partitions: int
    is_unclean: bool
    """Whether acknowledged records may be lost: by a power cut, and an election that is unclean."""
    has_schedules: bool
    delays_ms: tuple[int, ...]
    """The default delays: the first one at the beginning."""
    horizon_ms: int
    """Records are due within this time."""
    large_chance: float
    """How often a record is larger than the target takes."""

    @property
    def reads_all_first(self) -> bool:
        """Whether all is read before what is due is moved. Where much is late it is moved before, cancelled or not."""
        return self.mover["TRANSACTION_BYTES"] == LARGE


class Step(Struct, frozen=True):
    """One thing that is done, and the time before it. `kind` is `WRITE` or a fault."""

    kind: str
    pause_s: float
    number: int

    @property
    def rng(self) -> Rng:
        """Where its details are drawn from."""
        return SeededRng(self.number)


class DelaySchedule(Struct, frozen=True):
    """All of it."""

    seed: int
    settings: DelaySettings
    steps: tuple[Step, ...]

    @property
    def parts(self) -> list[Step]:
        """Its steps."""
        return list(self.steps)

    def with_parts(self, parts: Sequence[Step]) -> "DelaySchedule":
        """The schedule with these steps alone."""
        return replace(self, steps=tuple(parts))

    def with_early_ends(self) -> Iterable["DelaySchedule"]:
        """The end needs all its time."""
        return ()


def schedule_of(seed: int) -> DelaySchedule:
    """The schedule of a seed."""
    rng = SeededRng(seed)
    settings = _settings(rng)
    kinds = [fault for fault in FAULTS if rng.random() < 0.35] or ["kill"]
    fault_chance = rng.uniform(0.02, 0.2)
    step_s = (0.05, 0.3, 1.5)[rng.randbelow(3)]
    steps = []
    for _ in range(STEPS):
        kind = kinds[rng.randbelow(len(kinds))] if rng.random() < fault_chance else WRITE
        steps.append(Step(kind, rng.random() * step_s, rng.randbelow(1 << 62)))
    return DelaySchedule(seed, settings, tuple(steps))


def _settings(rng: Rng) -> DelaySettings:
    delays_ms = [rng.randbelow(3) * 1_500 for _ in range(3)]
    return DelaySettings(
        mover={
            "GATHERED_BYTES": (400, 2_000, 8_000, 1 << 20)[rng.randbelow(4)],
            "FLUSH_LOG_BYTES": (1_500, 20_000, 1 << 20)[rng.randbelow(3)],
            "SCAN_BYTES": (300, 2_000, 1 << 20)[rng.randbelow(3)],
            "TRANSACTION_RECORDS": (3, 10, 50)[rng.randbelow(3)],
            "TRANSACTION_BYTES": (600, LARGE, LARGE)[rng.randbelow(3)],
            "OLDEST_MS": (100, 1_000, 5_000)[rng.randbelow(3)],
        },
        buckets={"FAN_IN": 2 + rng.randbelow(3), "SMALL_BYTES": 1_500, "STEP_BYTES": 200},
        cancels_max=(4, 6, 500)[rng.randbelow(3)],
        broker_count=1 + rng.randbelow(3),
        target_partitions=1 + rng.randbelow(2),
        is_unclean=rng.random() < 0.3,
        has_schedules=rng.random() < 0.5,
        delays_ms=tuple(delays_ms),
        horizon_ms=(2_000, 20_000, 200_000)[rng.randbelow(3)],
        large_chance=0.1 if rng.random() < 0.2 else 0.0,
    )
