"""Where the replicas of partitions are: as clients are told, and in the brokers' files."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from confluent_kafka.admin import AdminClient

from ottla.simulation.anomaly import Anomaly, Violation
from ottla.simulation.history import Partition
from workload.worker import PATIENCE_S

Replicas = dict[Partition, tuple[int, ...]]
"""The brokers of each partition, the preferred leader first."""


class Place(NamedTuple):
    """What clients are told of a partition."""

    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


def places(bootstrap: str, topics: Collection[str]) -> dict[Partition, Place]:
    """Of each partition of those of the topics that there are. Raises KafkaException."""
    found = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2}).list_topics(timeout=PATIENCE_S).topics
    return {
        (topic, index): Place(tuple(each.replicas), tuple(each.isrs))
        for topic in topics
        if topic in found
        for index, each in found[topic].partitions.items()
    }


def held(directories: Mapping[int, Path]) -> dict[int, frozenset[str]]:
    """The names of what lies in each broker's data directory."""
    return {broker_id: frozenset(each.name for each in path.iterdir()) for broker_id, path in directories.items()}


def other_replicas(present: Mapping[Partition, Sequence[int]], brokers: Iterable[int], rng: Random) -> Replicas:
    """As many replicas of each partition as it has, at least one of them where it has none, in any order. Pure.

    Partitions that every broker has are left out.
    """
    brokers, wanted = sorted(brokers), {}
    for partition, had in sorted(present.items()):
        new = [broker for broker in brokers if broker not in had]
        if new:
            added = rng.sample(new, rng.randint(1, min(len(new), len(had))))
            replicas = [*added, *rng.sample(list(had), len(had) - len(added))]
            rng.shuffle(replicas)
            wanted[partition] = tuple(replicas)
    return wanted


def replicas_given_back(before: Sequence[int], wanted: Sequence[int]) -> tuple[int, ...]:
    """The replicas of a partition whose reassignment is cancelled: as before, those first that were to stay. Pure.

    >>> replicas_given_back((1, 2, 3), (4, 3, 1))
    (3, 1, 2)
    """
    return tuple(each for each in (*wanted, *sorted(set(before) - set(wanted))) if each in before)


def check_places(
    wanted: Mapping[Partition, Sequence[int]],
    moving: Collection[Partition],
    found: Mapping[Partition, Place],
    files: Mapping[int, Collection[str]],
) -> Iterator[Violation]:
    """What is not as it was asked for, once nothing is to move any more. Pure.

    moving  what is said to be on its way
    found   what clients are told
    files   the names in each broker's data directory
    """
    for partition, replicas in wanted.items():
        name = f"{partition[0]}-{partition[1]}"
        asked = f"{name}: {list(replicas)} were asked for"
        place = found.get(partition, Place((), ()))
        holders = sorted(broker_id for broker_id, names in files.items() if name in names)
        if partition in moving:
            yield Violation(Anomaly.MISPLACED, f"{name} is still on its way")
        if place.replicas != tuple(replicas):
            yield Violation(Anomaly.MISPLACED, f"{asked}, its replicas are {list(place.replicas)}")
        if sorted(place.in_sync) != sorted(replicas):
            yield Violation(Anomaly.MISPLACED, f"{asked}, in sync are {list(place.in_sync)}")
        if holders != sorted(replicas):
            yield Violation(Anomaly.MISPLACED, f"{asked}, it is in the files of {holders}")
