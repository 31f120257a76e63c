"""The assignor `range`: of each topic every subscriber gets neighbouring partitions, the first ones one more.

    7 partitions, members a b c    ->    a 0 1 2    b 3 4    c 5 6

Members with the same subscriptions get the same partitions of all topics that have as many, so that topics which are
partitioned alike can be joined. Static members come first, in the order of their instance ids, then the others in the
order of their member ids; nothing is sticky.
"""

from collections.abc import Mapping
from uuid import UUID

from ottla.groups.consumer.assignor import SLICE_PARTITIONS, Assigning, Assignment, Subscribers


def assign_ranges(subscribers: Subscribers, partition_counts: Mapping[UUID, int]) -> Assigning:
    """Assign. See `Assignor`."""
    ordered = sorted(
        subscribers,
        key=lambda member_id: (
            subscribers[member_id].instance_id is None,
            subscribers[member_id].instance_id or member_id,
        ),
    )
    by_topic: dict[UUID, list[str]] = {}
    for member_id in ordered:
        for topic_id in subscribers[member_id].topic_ids:
            by_topic.setdefault(topic_id, []).append(member_id)
    assignment: Assignment = {member_id: {} for member_id in subscribers}
    work = 0
    for topic_id, members in by_topic.items():
        count = partition_counts[topic_id]
        least, more = divmod(count, len(members))
        first = 0
        for place, member_id in enumerate(members):
            after = first + least + (place < more)
            if first == after:
                break
            assignment[member_id][topic_id] = frozenset(range(first, after))
            first = after
        work += count + len(members)
        if work >= SLICE_PARTITIONS:
            work = 0
            yield
    return assignment
