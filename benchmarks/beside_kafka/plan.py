"""What is run, in which order: rounds of targets, alternating, each with the groups of rows that concern it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.beside_kafka.brokers import KAFKA, KAFKA_SYNCED, OTTLA, OTTLA_WRITTEN, TARGETS, Target

LOAD_GROUPS = ("produce", "consume", "requests", "latency")
LIFE_GROUPS = ("start", "idle", "memory")
SCALING_GROUPS = ("partitions", "connections", "log-size", "compaction", "coordinator", "cluster-partitions")
ROUND_GROUPS = ("spark", "catch-up", "transactions", "share", "cluster", "tls")
GROUPS = (*LIFE_GROUPS, *LOAD_GROUPS, *ROUND_GROUPS, *SCALING_GROUPS)

# Roughly how many seconds each takes on two cores, for the remaining time that is shown.
SECONDS = {
    OTTLA_WRITTEN.key: {"load": 75, "share": 60, "cluster": 120, "tls": 90},
    KAFKA.key: {
        "load": 120,
        "tls": 130,
        "spark": 200,
        "catch-up": 75,
        "partitions": 120,
        "connections": 35,
        "log-size": 45,
        "transactions": 55,
        "share": 75,
        "compaction": 90,
        "coordinator": 90,
        "cluster": 300,
        "cluster-partitions": 400,
    },
    OTTLA.key: {
        "load": 60,
        "spark": 180,
        "catch-up": 60,
        "partitions": 30,
        "connections": 25,
        "log-size": 20,
        "transactions": 45,
        "share": 60,
        "compaction": 45,
        "coordinator": 60,
        "cluster": 120,
        "cluster-partitions": 150,
    },
    KAFKA_SYNCED.key: {"load": 130},
}
# Which of the groups concern a target, and whether in each round or only in the first.
LOAD_OF = {
    OTTLA_WRITTEN.key: (*LIFE_GROUPS, *LOAD_GROUPS),
    KAFKA.key: (*LIFE_GROUPS, *LOAD_GROUPS),
    OTTLA.key: ("start", "memory", *LOAD_GROUPS),
    KAFKA_SYNCED.key: ("produce", "requests", "latency"),
}
BESIDE_EACH_OTHER = (OTTLA.key, KAFKA.key)
WITH_THE_SAME_PROMISE = (OTTLA_WRITTEN.key, KAFKA.key)
WITH_BOTH_PROMISES = (OTTLA_WRITTEN.key, *BESIDE_EACH_OTHER)
TARGETS_OF = {"cluster": WITH_BOTH_PROMISES, "share": WITH_BOTH_PROMISES, "tls": WITH_THE_SAME_PROMISE}
"""Those of each kind but a load; where nothing is said, `BESIDE_EACH_OTHER`."""
TOGETHER = {"cluster": "cluster-partitions"}
"""Who asks for the one gets the other as well."""


@dataclass(frozen=True, slots=True)
class Step:
    """One broker's life: `kind` is load, spark, catch-up or one of the scaling groups; `groups` are those of a load."""

    round: int
    target: Target
    kind: str
    groups: frozenset[str]

    @property
    def seconds(self) -> float:
        return SECONDS[self.target.key][self.kind]

    def __str__(self) -> str:
        return f"round {self.round}, {self.target.title}: {self.kind}"


def steps(groups: Sequence[str], targets: Sequence[str], rounds: int) -> list[Step]:
    """Targets take turns, in the other order in every second round; scaling rows are measured in the first round only.

    Raises:
        ValueError: a group or a target is not known.
    """
    for unknown in [*(set(groups) - set(GROUPS)), *(set(targets) - set(TARGETS))]:
        raise ValueError(f"{unknown!r} is not known; rows are {', '.join(GROUPS)}; targets are {', '.join(TARGETS)}")
    wanted_kinds = {*groups, *(TOGETHER[group] for group in groups if group in TOGETHER)}
    planned = []
    for number in range(1, rounds + 1):
        order = [target for key, target in TARGETS.items() if key in targets]
        if number % 2 == 0:
            order.reverse()
        for target in order:
            wanted = frozenset(LOAD_OF[target.key]) & frozenset(groups)
            if wanted:
                planned.append(Step(number, target, "load", wanted))
        once = SCALING_GROUPS if number == 1 else ()
        for kind in (*ROUND_GROUPS, *once):
            if kind in wanted_kinds:
                concerned = TARGETS_OF.get(kind, BESIDE_EACH_OTHER)
                planned += [Step(number, target, kind, frozenset()) for target in order if target.key in concerned]
    return planned


def remaining_seconds(planned: Sequence[Step], done: int, elapsed_s: float) -> float:
    """Of a run that has taken `elapsed_s` for its first `done` steps."""
    expected_so_far = sum(step.seconds for step in planned[:done])
    pace = elapsed_s / expected_so_far if done else 1.0
    return pace * sum(step.seconds for step in planned[done:])
