"""Consumer groups as an operator sees them: who is in them, what they read, how far behind they are."""

from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct

from ottla.client.admin.group_members import DEAD, GroupMember, group_now, remove_members
from ottla.client.consuming.group_offsets import CommittedOffset, check_group, commit_offsets, committed_offsets
from ottla.client.consuming.offsets import OffsetAt, list_offsets
from ottla.client.consuming.record_times import record_times
from ottla.client.errors import BrokerError, GroupNotFoundError, broker_error
from ottla.client.io.cluster import Cluster
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)

EMPTY = "Empty"

MOVES_MAX = 10
"""How often the members of a group are sent away while it is moved: some come back between that and the write."""

_SOMEBODY_IS_THERE = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION}


class GroupListing(NamedTuple):
    """A group as the list shows it; `group_type` is classic, consumer, share or streams."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


class PartitionLag(Struct, frozen=True):
    """How far a group is behind in a partition.

    `committed` is None if the group has no offset there. Then `lag` is None as well, because the consumer decides
    where it begins. `lag_ms` is the age of the first record that the group has not read, None where it has read all, or
    that record is gone. `member` is the member that reads the partition now.
    """

    topic_partition: TopicPartition
    committed: int | None
    log_end_offset: int
    lag: int | None
    metadata: str
    member: GroupMember | None
    lag_ms: int | None = None


class GroupDescription(Struct, frozen=True):
    """A group with its members and, partition by partition, its lag."""

    group_id: str
    state: str
    group_type: str
    protocol_type: str
    assignor: str
    coordinator: int
    members: tuple[GroupMember, ...]
    partitions: tuple[PartitionLag, ...]

    @property
    def total_lag(self) -> int:
        """The sum over the partitions whose lag is known."""
        return sum(partition.lag or 0 for partition in self.partitions)


class GroupAdmin:
    """Looks at consumer groups and changes their offsets. Calls raise subclasses of ClientError."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def list_groups(self) -> list[GroupListing]:
        """All groups of all coordinators, by name."""
        deadline = self._cluster.deadline()

        async def of_broker(node_id: int) -> list[GroupListing]:
            response = await self._cluster.ask_node(node_id, ListGroupsRequest(), ListGroupsResponse)
            if response.error_code:
                raise broker_error(response.error_code, f"listing the groups of broker {node_id}")
            return [
                GroupListing(each.group_id, each.protocol_type, each.group_state, each.group_type)
                for each in response.groups
            ]

        lists = await self._cluster.of_all_brokers(of_broker, deadline)
        return sorted(group for groups in lists for group in groups)

    async def describe_group(self, group_id: str, now_ms: int | None = None) -> GroupDescription:
        """A group, its members and its lag; in time as well where `now_ms` says what ages are counted to.

        Raises GroupNotFoundError when it has neither members nor offsets.
        """
        try:
            return await self._describe_group(group_id, now_ms)
        except GroupNotFoundError:
            types = [each.group_type for each in await self.list_groups() if each.group_id == group_id]
            raise GroupNotFoundError(group_id, types[0] if types else None) from None

    async def _describe_group(self, group_id: str, now_ms: int | None) -> GroupDescription:
        deadline = self._cluster.deadline()
        group = await group_now(self._cluster, group_id, deadline)
        members = group.members
        committed = await committed_offsets(self._cluster, group_id, None, deadline)
        if not members and not committed and group.state == DEAD:
            raise GroupNotFoundError(group_id)
        return GroupDescription(
            group_id=group_id,
            state=group.state,
            group_type=group.group_type,
            protocol_type=group.protocol_type,
            assignor=group.assignor,
            coordinator=await self._cluster.coordinator(group_id),
            members=members,
            partitions=await self._lags(members, committed, now_ms),
        )

    async def state(self, group_id: str) -> str:
        """The state of a group: `Stable`, `Empty` and so on, `Dead` when the coordinator does not know it."""
        return (await group_now(self._cluster, group_id, self._cluster.deadline())).state

    async def delete_group(self, group_id: str) -> None:
        """Delete a group without members and its offsets. Raises GroupNotFoundError and BrokerError."""
        request = DeleteGroupsRequest(groups_names=(group_id,))

        async def attempt() -> None:
            response = await self._cluster.ask_coordinator(group_id, request, DeleteGroupsResponse)
            for result in response.results:
                check_group(self._cluster, group_id, result.error_code, f"group {group_id!r} was not deleted")

        await self._cluster.retrying(attempt, self._cluster.deadline())

    async def committed(self, group_id: str) -> dict[TopicPartition, int]:
        """The offsets that a group has committed; nothing for a group that does not exist."""
        found = await committed_offsets(self._cluster, group_id, None, self._cluster.deadline())
        return {topic_partition: each.offset for topic_partition, each in found.items()}

    async def delete_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, BrokerError | None]:
        """Forget what a group has committed for these partitions; by partition, the error that kept an offset there.

        A partition without an offset counts as done. GROUP_SUBSCRIBED_TO_TOPIC means that members read the topic now.
        Raises GroupNotFoundError, and BrokerError if the whole request was refused (KIP-496).
        """
        by_topic: dict[str, list[OffsetDeleteRequestPartition]] = {}
        for name, number in partitions:
            by_topic.setdefault(name, []).append(OffsetDeleteRequestPartition(partition_index=number))
        request = OffsetDeleteRequest(
            group_id=group_id,
            topics=tuple(
                OffsetDeleteRequestTopic(name=name, partitions=tuple(numbers)) for name, numbers in by_topic.items()
            ),
        )

        async def attempt() -> OffsetDeleteResponse:
            response = await self._cluster.ask_coordinator(group_id, request, OffsetDeleteResponse)
            what = f"the offsets of group {group_id!r} were not deleted"
            check_group(self._cluster, group_id, response.error_code, what)
            return response

        response = await self._cluster.retrying(attempt, self._cluster.deadline())
        outcomes: dict[TopicPartition, BrokerError | None] = {}
        for topic in response.topics:
            for each in topic.partitions:
                place = TopicPartition(topic.name, each.partition_index)
                what = f"the offset of {place} of group {group_id!r} was not deleted"
                outcomes[place] = broker_error(each.error_code, what) if each.error_code else None
        return outcomes

    async def set_offsets(self, group_id: str, offsets: dict[TopicPartition, int]) -> None:
        """Move a group to these offsets; its members go on from there.

        Members are removed first, so that none of their commits overwrites the new offsets. They rejoin by themselves.
        Raises BrokerError, with UNKNOWN_MEMBER_ID if members always rejoined before the offsets were written.
        """
        commits = {topic_partition: CommittedOffset(offset) for topic_partition, offset in offsets.items()}
        for attempt in range(MOVES_MAX):
            await self.send_members_away(group_id)
            try:
                await commit_offsets(self._cluster, group_id, commits, self._cluster.deadline())
            except BrokerError as error:
                if error.code not in _SOMEBODY_IS_THERE or attempt == MOVES_MAX - 1:
                    raise
            else:
                return

    async def send_members_away(self, group_id: str) -> int:
        """Take all members out of a group; they hear of it and join again. Returns how many there were."""
        deadline = self._cluster.deadline()
        members = (await group_now(self._cluster, group_id, deadline)).members
        await remove_members(self._cluster, group_id, members, deadline)
        return len(members)

    async def _lags(
        self, members: tuple[GroupMember, ...], committed: dict[TopicPartition, CommittedOffset], now_ms: int | None
    ) -> tuple[PartitionLag, ...]:
        readers = {each: member for member in members for each in member.assignment}
        partitions = sorted(committed.keys() | readers.keys())
        ends = await self._ends(partitions)
        behind = {place: each.offset for place, each in committed.items() if each.offset < ends.get(place, 0)}
        times = {} if now_ms is None else await record_times(self._cluster, behind, self._cluster.deadline())
        return tuple(
            _lag(each, committed.get(each), ends[each], readers.get(each), times.get(each), now_ms)
            for each in partitions
            if each in ends
        )

    async def _ends(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """The log end offsets; partitions of topics that were deleted since are left out."""
        await self._cluster.refresh({topic for topic, _ in partitions})
        topics = self._cluster.metadata.topics
        there = [each for each in partitions if each.topic in topics and topics[each.topic].partition(each.partition)]
        listed = await list_offsets(self._cluster, dict.fromkeys(there, OffsetAt.LATEST), self._cluster.deadline())
        return {topic_partition: each.offset for topic_partition, each in listed.items()}


def _lag(
    topic_partition: TopicPartition,
    committed: CommittedOffset | None,
    end: int,
    member: GroupMember | None,
    time_ms: int | None,
    now_ms: int | None,
) -> PartitionLag:
    return PartitionLag(
        topic_partition=topic_partition,
        committed=committed.offset if committed is not None else None,
        log_end_offset=end,
        lag=max(end - committed.offset, 0) if committed is not None else None,
        metadata=committed.metadata if committed is not None else "",
        member=member,
        lag_ms=None if time_ms is None or now_ms is None else max(now_ms - time_ms, 0),
    )
