"""The assignor `simple` of share groups (KIP-932): who reads which partitions, where several members may share one.

Each subscribed partition has at least one member, and each member at least one partition. Beyond that the members of a
topic are spread evenly:

    2 members, 3 partitions      m1: 0 2   m2: 1
    5 members, 2 partitions      m1: 0   m2: 1   m3: 0   m4: 1   m5: 0

Members keep the partitions that they have, as far as this allows it. https://cwiki.apache.org/confluence/x/ohqGE
"""

from collections.abc import Mapping, Sequence, Set
from heapq import heapify, heapreplace
from typing import NamedTuple, TypeVar
from uuid import UUID

Item = TypeVar("Item")
Bin = TypeVar("Bin")


class Place(NamedTuple):
    """A partition of a topic."""

    topic_id: UUID
    partition: int


def assign(
    subscriptions: Mapping[str, Set[UUID]], partition_counts: Mapping[UUID, int], before: Mapping[str, Set[Place]]
) -> dict[str, frozenset[Place]]:
    """The partitions of each member.

    `subscriptions` are the topics of each member, `before` what members have now; topics that are not in
    `partition_counts` do not exist.
    """
    targets: dict[str, set[Place]] = {member: set() for member in subscriptions}
    for topic_id, count in sorted(partition_counts.items()):
        members = sorted(member for member, topics in subscriptions.items() if topic_id in topics)
        if members and count:
            _assign_topic(topic_id, count, members, before, targets)
    return {member: frozenset(places) for member, places in targets.items()}


def _assign_topic(
    topic_id: UUID,
    count: int,
    members: list[str],
    before: Mapping[str, Set[Place]],
    targets: dict[str, set[Place]],
) -> None:
    had = {(member, place.partition) for member in members for place in before.get(member, ()) if place[0] == topic_id}
    if len(members) <= count:
        pairs = {(member, partition) for partition, member in _spread(range(count), members, {(p, m) for m, p in had})}
    else:
        pairs = _spread(members, range(count), had)
    for member, partition in pairs:
        targets[member].add(Place(topic_id, partition))


def _spread(items: Sequence[Item], bins: Sequence[Bin], before: Set[tuple[Item, Bin]]) -> set[tuple[Item, Bin]]:
    """Put each item into one bin, as many into each bin, but for one; an item stays in the bin where it was if it can.

    >>> sorted(_spread([0, 1, 2], ["a", "b"], {(1, "a")}))
    [(0, 'b'), (1, 'a'), (2, 'a')]
    """
    least, larger = divmod(len(items), len(bins))
    sizes = dict.fromkeys(bins, 0)
    placed: dict[Item, Bin] = {}
    for most in (least, least + 1):
        for item in items:
            for each in bins if item not in placed else ():
                has_room = sizes[each] < most and (most == least or larger > 0)
                if (item, each) in before and has_room:
                    larger -= most > least
                    sizes[each] += 1
                    placed[item] = each
                    break
    smallest = [(size, index) for index, size in enumerate(sizes.values())]
    heapify(smallest)
    for item in items:
        if item not in placed:
            size, index = smallest[0]
            placed[item] = bins[index]
            heapreplace(smallest, (size + 1, index))
    return set(placed.items())
