"""The assignor `uniform`: everybody gets as many partitions, and keeps as many as possible of what it has.

When all members subscribe to the same topics, the numbers differ by at most one, and nothing moves that does not have
to: members that have more keep one more. Otherwise no partition could go from one of its topic's subscribers to another
and make the numbers more even:

    a {t1} 4    b {t1, t2} 3    c {t2} 2       is even: from a to b, or from b to c, the difference is one
"""

import heapq
from collections.abc import Mapping
from uuid import UUID

from ottla.groups.consumer.assignor import SLICE_PARTITIONS, Assigning, Subscribers

_Taken = dict[UUID, set[int]]
_Held = dict[str, dict[UUID, set[int]]]


def assign_uniformly(subscribers: Subscribers, partition_counts: Mapping[UUID, int]) -> Assigning:
    """Assign. See `Assignor`."""
    if not subscribers:
        return {}
    held: _Held = {}
    taken: _Taken = {topic_id: set() for topic_id in partition_counts}
    work = 0
    for member_id in sorted(subscribers):
        work += _keep(subscribers, member_id, partition_counts, held, taken)
        if work >= SLICE_PARTITIONS:
            work = 0
            yield
    first = next(iter(subscribers.values())).topic_ids
    if all(each.topic_ids is first or each.topic_ids == first for each in subscribers.values()):
        yield from _assign_alike(held, first, partition_counts, taken)
    else:
        yield from _assign_unlike(subscribers, held, partition_counts, taken)
    return {
        member_id: {topic_id: frozenset(indexes) for topic_id, indexes in of_member.items() if indexes}
        for member_id, of_member in held.items()
    }


def _keep(
    subscribers: Subscribers, member_id: str, partition_counts: Mapping[UUID, int], held: _Held, taken: _Taken
) -> int:
    """A member keeps what it has of the topics it wants, as far as it is there and no one else has it."""
    subscriber = subscribers[member_id]
    kept = held[member_id] = {}
    looked_at = 1
    for topic_id, indexes in subscriber.target.items():
        if topic_id not in subscriber.topic_ids:
            continue
        looked_at += len(indexes)
        count = partition_counts[topic_id]
        still = {index for index in indexes if index < count} - taken[topic_id]
        if still:
            kept[topic_id] = still
            taken[topic_id] |= still
    return looked_at


def _free(topic_ids: list[UUID], partition_counts: Mapping[UUID, int], taken: _Taken) -> list[tuple[UUID, int]]:
    """What nobody has, in the order of topics and partitions."""
    return [
        (topic_id, index)
        for topic_id in topic_ids
        if len(taken[topic_id]) < partition_counts[topic_id]
        for index in range(partition_counts[topic_id])
        if index not in taken[topic_id]
    ]


def _assign_alike(
    held: _Held, topic_ids: frozenset[UUID], partition_counts: Mapping[UUID, int], taken: _Taken
) -> Assigning:
    """All members want the same: to each its quota, and what is above it goes to those below."""
    total = sum(partition_counts[topic_id] for topic_id in topic_ids)
    least, more = divmod(total, len(held))
    sizes = {member_id: sum(map(len, of_member.values())) for member_id, of_member in held.items()}
    quotas = {
        member_id: least + (place < more)
        for place, member_id in enumerate(sorted(held, key=lambda member_id: (-sizes[member_id], member_id)))
    }
    for member_id, of_member in held.items():
        surplus = sizes[member_id] - quotas[member_id]
        for topic_id in sorted(of_member, reverse=True) if surplus > 0 else ():
            dropped = sorted(of_member[topic_id], reverse=True)[:surplus]
            of_member[topic_id].difference_update(dropped)
            taken[topic_id].difference_update(dropped)
            sizes[member_id] -= len(dropped)
            surplus -= len(dropped)
            if not surplus:
                break
    yield
    free = iter(_free(sorted(topic_ids), partition_counts, taken))
    work = 0
    for member_id in sorted(held):
        for _ in range(quotas[member_id] - sizes[member_id]):
            topic_id, index = next(free)
            held[member_id].setdefault(topic_id, set()).add(index)
        work += quotas[member_id]
        if work >= SLICE_PARTITIONS:
            work = 0
            yield
    return {}


def _assign_unlike(
    subscribers: Subscribers, held: _Held, partition_counts: Mapping[UUID, int], taken: _Taken
) -> Assigning:
    """Members want different topics: what is free goes to whoever has least, then the numbers are evened out."""
    wanted_by: dict[UUID, list[str]] = {}
    for member_id in sorted(subscribers):
        for topic_id in subscribers[member_id].topic_ids:
            wanted_by.setdefault(topic_id, []).append(member_id)
    sizes = {member_id: sum(map(len, of_member.values())) for member_id, of_member in held.items()}
    # Those that few want first: the others can make up for it.
    topic_ids = sorted(wanted_by, key=lambda topic_id: (len(wanted_by[topic_id]), topic_id))
    work = 0
    for topic_id in topic_ids:
        queue = [(sizes[member_id], member_id) for member_id in wanted_by[topic_id]]
        heapq.heapify(queue)
        for _, index in _free([topic_id], partition_counts, taken):
            size, member_id = queue[0]
            held[member_id].setdefault(topic_id, set()).add(index)
            sizes[member_id] = size + 1
            heapq.heapreplace(queue, (size + 1, member_id))
        work += len(queue) + partition_counts[topic_id]
        if work >= SLICE_PARTITIONS:
            work = 0
            yield
    moved = True
    while moved:
        moved = False
        for topic_id in topic_ids:
            moved |= _even_out(topic_id, wanted_by[topic_id], held, sizes)
            work += len(wanted_by[topic_id])
            if work >= SLICE_PARTITIONS:
                work = 0
                yield
    return {}


def _even_out(topic_id: UUID, wanted_by: list[str], held: _Held, sizes: dict[str, int]) -> bool:
    """Move partitions of a topic from those who have most to those who have least, while that evens the numbers.

    Every move brings the sum of squares down, so there is an end to it.
    """
    least = [(sizes[member_id], member_id) for member_id in wanted_by]
    most = [(-sizes[member_id], member_id) for member_id in wanted_by if held[member_id].get(topic_id)]
    if not most or max(-size for size, _ in most) - min(size for size, _ in least) < 2:
        return False
    heapq.heapify(least)
    heapq.heapify(most)
    moved = False
    while most:
        size, giver = heapq.heappop(most)
        if -size != sizes[giver] or not held[giver].get(topic_id):
            continue
        while least[0][0] != sizes[least[0][1]]:
            heapq.heappop(least)
        taker = least[0][1]
        if sizes[giver] - sizes[taker] < 2:
            return moved
        index = max(held[giver][topic_id])
        held[giver][topic_id].remove(index)
        held[taker].setdefault(topic_id, set()).add(index)
        sizes[giver] -= 1
        sizes[taker] += 1
        for member_id in (giver, taker):
            heapq.heappush(least, (sizes[member_id], member_id))
            heapq.heappush(most, (-sizes[member_id], member_id))
        moved = True
    return moved
