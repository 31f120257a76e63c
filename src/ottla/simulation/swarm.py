"""Draws the cluster of a schedule, its faults and their weights from a seed (swarm testing).

A schedule with every fault rarely gets far, and one with few faults finds the bugs that need those few. So each seed
leaves most faults out and gives each of the others a weight.
"""

from enum import IntEnum
from typing import Final

from msgspec import Struct

from ottla.runtime.rng import Rng


class Action(IntEnum):
    """The kind of a step. Its three operands select the nodes; a step that does not apply does nothing."""

    PRODUCE = 0
    DELIVER = 1
    FETCH = 2
    """A follower's request is put on the network."""
    REPLICATE = 3
    """A follower's request, its answer and what follows, without anything in between."""
    SYNC = 4
    FOLLOW_METADATA = 5
    TEND = 6
    """The controller looks after sessions, registrations and partitions without a leader."""
    HEARTBEAT = 7
    ELECT_CONTROLLER = 8
    READ = 9
    CHECK_LAG = 10
    RETRY_PROPOSAL = 11
    START = 12
    HEAL = 13
    """One cut link carries again, or all."""
    RESUME = 14
    CHECKPOINT = 15
    PREFER = 16
    """An election of the preferred leader."""
    # From here on: what goes wrong.
    DROP = 17
    REPEAT = 18
    KILL = 19
    CUT_POWER = 20
    STOP_CLEANLY = 21
    LOSE_DISK = 22
    PAUSE = 23
    CUT_LINK = 24
    END_SESSION = 25
    FENCE = 26
    JUMP = 27
    """A broker's clock jumps: its timers go off."""
    CUT_POWER_OF_ALL = 28
    UNCLEAN_ELECTION = 29
    CLAIM = 30
    """A client says that it is a replica."""
    STALL = 31
    """A broker reads no metadata any more, or does again."""
    REASSIGN = 32
    """A partition is to be on other brokers, or the move is called off."""


_ALWAYS: Final = {
    Action.PRODUCE: 30,
    Action.DELIVER: 40,
    Action.FETCH: 12,
    Action.REPLICATE: 50,
    Action.SYNC: 8,
    Action.FOLLOW_METADATA: 24,
    Action.TEND: 12,
    Action.HEARTBEAT: 12,
    Action.ELECT_CONTROLLER: 4,
    Action.READ: 4,
    Action.CHECK_LAG: 4,
    Action.RETRY_PROPOSAL: 3,
    Action.START: 10,
    Action.HEAL: 5,
    Action.RESUME: 6,
    Action.CHECKPOINT: 4,
    Action.PREFER: 3,
}

_PACE: Final = (
    *(Action.PRODUCE, Action.DELIVER, Action.FETCH, Action.REPLICATE, Action.SYNC, Action.FOLLOW_METADATA),
    *(Action.HEARTBEAT, Action.TEND, Action.PREFER, Action.CHECK_LAG),
)
"""What goes slowly in some schedules, and fast in others."""

_FAULTS: Final = (
    (Action.DROP, (0, 0, 4, 16)),
    (Action.REPEAT, (0, 0, 4, 12)),
    (Action.KILL, (0, 2, 5, 10)),
    (Action.CUT_POWER, (0, 2, 5, 10)),
    (Action.STOP_CLEANLY, (0, 0, 2, 5)),
    (Action.LOSE_DISK, (0, 0, 0, 2)),
    (Action.PAUSE, (0, 2, 6, 10)),
    (Action.CUT_LINK, (0, 0, 3, 8)),
    (Action.END_SESSION, (0, 0, 2, 6)),
    (Action.FENCE, (0, 3, 8, 16)),
    (Action.JUMP, (0, 0, 2, 6)),
    (Action.CUT_POWER_OF_ALL, (0, 0, 0, 1)),
    (Action.CLAIM, (0, 0, 0, 4)),
    (Action.REASSIGN, (0, 0, 4, 10)),
)

STEPS_MIN: Final = 40
STEPS_MAX: Final = 240


class Swarm(Struct, frozen=True):
    """The cluster of one schedule, and a table of actions from which each step draws one."""

    broker_count: int
    replica_count: int
    min_insync_replicas: int
    flush: bool
    """Whether what is acknowledged was synced before."""
    unclean: bool
    """Whether `unclean.leader.election.enable` is set."""
    coordinator: bool
    """Whether there is a second partition that holds a coordinator's state."""
    idempotent: bool
    producer_count: int
    reorder: bool
    """Whether messages overtake each other; otherwise each link delivers them in order."""
    lag_max_ms: int
    slow_metadata: bool
    """Whether brokers read the metadata one decision at a time."""
    table: tuple[Action, ...]


def swarm_of(rng: Rng) -> Swarm:
    """Draw a cluster and its faults."""
    hurried = rng.randbelow(3) == 0
    broker_count = 3 if hurried else 3 + rng.randbelow(8) // 6 + rng.randbelow(16) // 15
    replica_count = 3 if hurried else broker_count if rng.randbelow(4) else max(2, broker_count - 1)
    unclean = rng.randbelow(12) == 0 and not hurried
    weights = _hurried_weights(rng) if hurried else _weights(rng)
    if unclean:
        weights[Action.UNCLEAN_ELECTION] = 3
    table: list[Action] = []
    for action, weight in weights.items():
        table += [action] * weight
    return Swarm(
        broker_count=broker_count,
        replica_count=replica_count,
        min_insync_replicas=min(replica_count, (1, 2, 2, 2, 3)[rng.randbelow(5)]),
        flush=rng.randbelow(2) == 0,
        unclean=unclean,
        coordinator=rng.randbelow(4) == 0,
        idempotent=rng.randbelow(3) > 0 and not hurried,
        producer_count=1 + rng.randbelow(2),
        reorder=rng.randbelow(2) == 0,
        lag_max_ms=(200, 1_000, 5_000)[rng.randbelow(3)],
        slow_metadata=hurried,
        table=tuple(table),
    )


def _weights(rng: Rng) -> dict[Action, int]:
    """Everything that goes on, some of it slowly, and a choice of faults."""
    weights = dict(_ALWAYS)
    for action in _PACE:
        weights[action] = max(weights[action] * (1, 4, 4, 8)[rng.randbelow(4)] // 4, 1)
    for action, choices in _FAULTS:
        weights[action] = choices[rng.randbelow(len(choices))]
    return weights


def _hurried_weights(rng: Rng) -> dict[Action, int]:
    """Leaders that follow each other fast, brokers of different epochs, hardly another fault: what epochs are for."""
    weights = dict(_ALWAYS)
    weights[Action.PRODUCE], weights[Action.REPLICATE] = 50, 70
    weights[Action.FENCE] = 8 + rng.randbelow(12)
    weights[Action.HEARTBEAT] = 20 + rng.randbelow(30)
    weights[Action.PREFER] = rng.randbelow(8)
    weights[Action.FOLLOW_METADATA] = 60 + rng.randbelow(80)
    weights[Action.STALL] = 4 + rng.randbelow(12)
    weights[Action.TEND] = 3
    for action in (Action.START, Action.HEAL, Action.ELECT_CONTROLLER, Action.RETRY_PROPOSAL):
        weights[action] = 1
    for action in (Action.DROP, Action.REPEAT, Action.CUT_POWER, Action.JUMP, Action.PAUSE):
        weights[action] = (0, 0, 0, 3)[rng.randbelow(4)]
    return weights
