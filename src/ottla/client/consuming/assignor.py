"""Who reads which partition: decided by one member of a group for all."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from ottla.client.consuming.group_protocol import Subscription
from ottla.model.topic_partition import TopicPartition


class MemberSubscription(NamedTuple):
    """A member of the group and what it wants."""

    member_id: str
    group_instance_id: str | None
    subscription: Subscription


class Assignor(Protocol):
    """A strategy that the members of a group agree on by its name."""

    @property
    def name(self) -> str:
        """The protocol name that goes over the wire."""
        ...

    def assign(
        self, partition_counts: Mapping[str, int], members: list[MemberSubscription]
    ) -> dict[str, list[TopicPartition]]:
        """Partitions by member id, for every member; topics without a count do not exist."""
        ...


class RangeAssignor:
    """Kafka's default: topic by topic, each member gets a run of neighbouring partitions.

    With 2 members and topics `a` and `b` of 3 partitions the first gets a-0 a-1 b-0 b-1, the second a-2 b-2. Equal
    partition numbers of different topics go to the same member, as joins by key require. Members are sorted by their
    instance ids, then by their member ids, so all clients with "range" compute the same assignment.
    """

    name = "range"

    def assign(
        self, partition_counts: Mapping[str, int], members: list[MemberSubscription]
    ) -> dict[str, list[TopicPartition]]:
        """See `Assignor.assign`."""
        ordered = sorted(members, key=_order)
        assignment: dict[str, list[TopicPartition]] = {member.member_id: [] for member in members}
        for topic in sorted(partition_counts):
            interested = [member.member_id for member in ordered if topic in member.subscription.topics]
            if not interested:
                continue
            share, more = divmod(partition_counts[topic], len(interested))
            start = 0
            for index, member_id in enumerate(interested):
                end = start + share + (index < more)
                assignment[member_id] += [TopicPartition(topic, number) for number in range(start, end)]
                start = end
        return assignment


def _order(member: MemberSubscription) -> tuple[bool, str]:
    """Static members first, by their name; the others by their id."""
    if member.group_instance_id is not None:
        return False, member.group_instance_id
    return True, member.member_id
