"""Which brokers hold a new partition.

Brokers are lined up so that neighbours stand in different racks; each partition starts one further on the line than
the one before, and takes as many brokers as it needs replicas. The first of them is the preferred leader, so leaders
spread evenly, and so do replicas.

    line  a1 b1 a2 b2        partition 0: a1 b1     1: b1 a2     2: a2 b2   ...

Where racks differ in size, neighbours at the end of the line share one. Then each further replica goes to a rack that
has the fewest of the partition, and there to the broker that was given the fewest, so that no rack has two replicas of
a partition while another has none.

    line  a1 b1 a2 a3        partition 0: a1 b1     1: b1 a2     2: a2 b1     3: a3 b1

A broker that is fenced is given a replica only when there are too few others, and never the first one; one that is
shutting down is given none.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import zip_longest

from ottla.metadata.image.image import BrokerImage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.runtime.rng import Rng


def place_replicas(
    brokers: Iterable[BrokerImage], partition_count: int, replication_factor: int, rng: Rng
) -> list[tuple[int, ...]]:
    """The replicas of `partition_count` partitions, the preferred leader of each first.

    Raises ApiError INVALID_REPLICATION_FACTOR when there are not enough brokers.
    """
    usable = [broker for broker in brokers if broker.fenced or not broker.shutting_down]
    line = _line_up(broker for broker in usable if not broker.fenced)
    spare = _line_up(broker for broker in usable if broker.fenced)
    if replication_factor > len(line) + len(spare):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): the replication factor is larger "
            "than the "
            f"number of available brokers, {len(usable)}",
        )
    if not line:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR, "none of the cluster's brokers is there to lead a partition"
        )
    start = rng.randbelow(len(line))
    live_count = min(replication_factor, len(line))
    live = _spread(line, {broker.broker_id: broker.rack for broker in usable}, start, partition_count, live_count)
    return [
        live[partition]
        + tuple(spare[(start + partition + replica) % len(spare)] for replica in range(replication_factor - live_count))
        for partition in range(partition_count)
    ]


def _spread(
    line: list[int], racks: Mapping[int, str | None], start: int, partition_count: int, count: int
) -> list[tuple[int, ...]]:
    """`count` brokers of the line for each partition, the first of them in turn."""
    turns = [line[turn:] + line[:turn] for turn in range(len(line))]
    if len(set(Counter(racks[broker] for broker in line).values())) == 1:
        return [tuple(turns[(start + partition) % len(line)][:count]) for partition in range(partition_count)]
    followed = dict.fromkeys(line, 0)
    return [
        _apart(turns[(start + partition) % len(line)], count, racks, followed) for partition in range(partition_count)
    ]


def _apart(turn: list[int], count: int, racks: Mapping[int, str | None], followed: dict[int, int]) -> tuple[int, ...]:
    """The first of a turn and others that are in other racks, as far as there are any."""
    leader, *others = turn
    replicas, in_rack = [leader], Counter([racks[leader]])
    while len(replicas) < count:
        chosen = min(others, key=lambda broker: (in_rack[racks[broker]], followed[broker]))
        others.remove(chosen)
        replicas.append(chosen)
        in_rack[racks[chosen]] += 1
        followed[chosen] += 1
    return tuple(replicas)


def _line_up(brokers: Iterable[BrokerImage]) -> list[int]:
    """Broker ids with the racks taken in turn."""
    racks: dict[str, list[int]] = {}
    for broker in sorted(brokers, key=lambda each: each.broker_id):
        racks.setdefault(broker.rack or "", []).append(broker.broker_id)
    turns = zip_longest(*racks.values())
    return [broker_id for turn in turns for broker_id in turn if broker_id is not None]
