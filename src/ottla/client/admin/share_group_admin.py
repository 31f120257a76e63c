"""Share groups as an operator sees them: who is in them, where they begin, what is in flight (KIP-932)."""

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from msgspec import Struct

from ottla.client.admin.group_members import DEAD, GroupMember
from ottla.client.consuming.group_offsets import check_group
from ottla.client.consuming.offsets import OffsetAt, list_offsets
from ottla.client.consuming.record_times import record_times
from ottla.client.errors import (
    BrokerError,
    ConnectionLostError,
    GroupNotFoundError,
    UnsupportedApiError,
    broker_error,
)
from ottla.client.io.cluster import Cluster
from ottla.client.io.retry import Deadline
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from ottla.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from ottla.protocol.messages.describe_deliveries import (
    DescribeDeliveriesRequest,
    DescribeDeliveriesResponse,
    PartitionResponse,
    TopicRequest,
)
from ottla.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
)
from ottla.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.protocol.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

SHARE = "share"
LEAVE_EPOCH = -1
MOVES_MAX = 10
"""How often the members of a group are sent away while it is moved: some come back between that and the write."""


class Deliveries(Struct, frozen=True):
    """What a group has in flight in a partition, as its leader knows it; counts of records.

    `in_flight` are held by members, `waiting` are given back and wait for their time, `returned` can be delivered
    again. `redelivered` were delivered more than once, `deliveries_most` times at most. `accepted` and `archived` count
    what was settled since the broker leads the partition.
    """

    in_flight: int
    waiting: int
    returned: int
    redelivered: int
    deliveries_most: int
    accepted: int
    archived: int


class OldestRecord(Struct, frozen=True):
    """The first record that is not done, how often it was delivered, and the member that holds it, if one does."""

    offset: int
    deliveries: int
    holder: GroupMember | None


class SharePartitionState(Struct, frozen=True):
    """Where a share group is in a partition.

    `start_offset` is the first offset that is not done, None while the group has read nothing there. `lag` counts the
    records from there to the end that are not done, where that is known; `lag_ms` is the age of the first of them.
    `deliveries` and `oldest` are None while no member fetches from the partition, and from brokers that do not tell.
    """

    topic_partition: TopicPartition
    start_offset: int | None
    log_end_offset: int
    lag: int | None
    lag_ms: int | None
    deliveries: Deliveries | None
    oldest: OldestRecord | None


class ShareGroupDescription(Struct, frozen=True):
    """A share group with its members, and its partitions."""

    group_id: str
    state: str
    assignor: str
    coordinator: int
    epoch: int
    members: tuple[GroupMember, ...]
    partitions: tuple[SharePartitionState, ...]

    @property
    def total_lag(self) -> int:
        """The sum over the partitions whose lag is known."""
        return sum(each.lag or 0 for each in self.partitions)


class ShareGroupAdmin:
    """Looks at share groups and moves them. Calls raise subclasses of ClientError."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def is_share_group(self, group_id: str) -> bool:
        """Whether there is a share group of this name."""
        request = ListGroupsRequest(types_filter=(SHARE,))

        async def attempt() -> bool:
            response = await self._cluster.ask_coordinator(group_id, request, ListGroupsResponse)
            check_group(self._cluster, group_id, response.error_code, f"looking for group {group_id!r}")
            return any(each.group_id == group_id and each.group_type == SHARE for each in response.groups)

        try:
            return await self._cluster.retrying(attempt, self._cluster.deadline())
        except UnsupportedApiError:
            return False

    async def describe_group(self, group_id: str, now_ms: int) -> ShareGroupDescription:
        """A group, its members and its partitions; `now_ms` is what ages are counted to.

        Raises GroupNotFoundError.
        """
        cluster, deadline = self._cluster, self._cluster.deadline()
        group = await self._described(group_id, deadline)
        members = tuple(
            GroupMember(
                member_id=each.member_id,
                group_instance_id=None,
                client_id=each.client_id,
                host=each.client_host.removeprefix("/"),
                assignment=tuple(
                    sorted(
                        TopicPartition(topic.topic_name, index)
                        for topic in each.assignment.topic_partitions
                        for index in topic.partitions
                    )
                ),
                protocol=SHARE,
                epoch=each.member_epoch,
            )
            for each in group.members
        )
        starts = await self._starts(group_id, deadline)
        await cluster.refresh({place.topic for place in starts})
        topics = cluster.metadata.topics
        places = [place for place in starts if place.topic in topics and topics[place.topic].partition(place.partition)]
        ends = await list_offsets(cluster, dict.fromkeys(places, OffsetAt.LATEST), deadline)
        told = await self._deliveries(group_id, places, deadline)
        first = {place: _first_open(starts[place], told.get(place)) for place in places}
        behind = {place: offset for place, offset in first.items() if 0 <= offset < ends[place].offset}
        times = await record_times(cluster, behind, deadline)
        by_id = {member.member_id: member for member in members}
        return ShareGroupDescription(
            group_id=group_id,
            state=group.group_state,
            assignor=group.assignor_name,
            coordinator=await cluster.coordinator(group_id),
            epoch=group.group_epoch,
            members=members,
            partitions=tuple(
                _state(place, starts[place], ends[place].offset, told.get(place), times.get(place), now_ms, by_id)
                for place in sorted(places)
            ),
        )

    async def committed(self, group_id: str) -> dict[TopicPartition, int]:
        """Where the group begins in each partition that it has read."""
        found = await self._starts(group_id, self._cluster.deadline())
        return {place: start for place, start in found.items() if start >= 0}

    async def set_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Have a group begin at these offsets; what it had in flight there is forgotten.

        Members are sent away first and come back by themselves. Raises BrokerError, with NON_EMPTY_GROUP if members
        always came back before the offsets were written.
        """
        for attempt in range(MOVES_MAX):
            await self.send_members_away(group_id)
            try:
                await self._alter(group_id, offsets)
            except BrokerError as error:
                if error.code != ErrorCode.NON_EMPTY_GROUP or attempt == MOVES_MAX - 1:
                    raise
            else:
                return

    async def send_members_away(self, group_id: str) -> int:
        """Take all members out of a group; they hear of it and join again. Returns how many there were."""
        deadline = self._cluster.deadline()
        try:
            members = (await self._described(group_id, deadline)).members
        except GroupNotFoundError:
            return 0
        for member in members:
            request = ShareGroupHeartbeatRequest(group_id, member.member_id, LEAVE_EPOCH)

            async def leave(request: ShareGroupHeartbeatRequest = request) -> None:
                response = await self._cluster.ask_coordinator(group_id, request, ShareGroupHeartbeatResponse)
                if response.error_code != ErrorCode.UNKNOWN_MEMBER_ID:
                    what = f"the members of group {group_id!r} were not removed"
                    check_group(self._cluster, group_id, response.error_code, what, response.error_message)

            await self._cluster.retrying(leave, deadline)
        return len(members)

    async def delete_topics(self, group_id: str, topics: Sequence[str]) -> dict[str, BrokerError | None]:
        """Forget where a group is in whole topics; by topic, the error that kept it. The group must be empty."""
        request = DeleteShareGroupOffsetsRequest(
            group_id, tuple(DeleteShareGroupOffsetsRequestTopic(name) for name in topics)
        )

        async def attempt() -> DeleteShareGroupOffsetsResponse:
            response = await self._cluster.ask_coordinator(group_id, request, DeleteShareGroupOffsetsResponse)
            what = f"the offsets of group {group_id!r} were not deleted"
            check_group(self._cluster, group_id, response.error_code, what, response.error_message)
            return response

        response = await self._cluster.retrying(attempt, self._cluster.deadline())
        return {
            each.topic_name: broker_error(each.error_code, each.error_message or f"topic {each.topic_name}")
            if each.error_code
            else None
            for each in response.responses
        }

    async def _described(self, group_id: str, deadline: Deadline) -> DescribedGroup:
        request = ShareGroupDescribeRequest(group_ids=(group_id,))

        async def attempt() -> DescribedGroup:
            [group] = (await self._cluster.ask_coordinator(group_id, request, ShareGroupDescribeResponse)).groups
            if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
                raise GroupNotFoundError(group_id)
            check_group(
                self._cluster, group_id, group.error_code, f"describing group {group_id!r}", group.error_message
            )
            return group

        group = await self._cluster.retrying(attempt, deadline)
        if group.group_state == DEAD:
            raise GroupNotFoundError(group_id)
        return group

    async def _starts(self, group_id: str, deadline: Deadline) -> dict[TopicPartition, int]:
        """The start of each partition that the group has state of; -1 where it has read nothing."""
        request = DescribeShareGroupOffsetsRequest((DescribeShareGroupOffsetsRequestGroup(group_id, None),))

        async def attempt() -> dict[TopicPartition, int]:
            response = await self._cluster.ask_coordinator(group_id, request, DescribeShareGroupOffsetsResponse)
            [group] = response.groups
            what = f"reading where group {group_id!r} begins"
            check_group(self._cluster, group_id, group.error_code, what, group.error_message)
            found = {}
            for topic in group.topics:
                for each in topic.partitions:
                    if each.error_code:
                        raise broker_error(each.error_code, f"{what} in {topic.topic_name}-{each.partition_index}")
                    found[TopicPartition(topic.topic_name, each.partition_index)] = each.start_offset
            return found

        return await self._cluster.retrying(attempt, deadline)

    async def _alter(self, group_id: str, starts: Mapping[TopicPartition, int]) -> None:
        topics: dict[str, list[AlterShareGroupOffsetsRequestPartition]] = {}
        for place, offset in starts.items():
            topics.setdefault(place.topic, []).append(AlterShareGroupOffsetsRequestPartition(place.partition, offset))
        request = AlterShareGroupOffsetsRequest(
            group_id,
            tuple(AlterShareGroupOffsetsRequestTopic(name, tuple(partitions)) for name, partitions in topics.items()),
        )

        async def attempt() -> None:
            response = await self._cluster.ask_coordinator(group_id, request, AlterShareGroupOffsetsResponse)
            what = f"group {group_id!r} was not moved"
            check_group(self._cluster, group_id, response.error_code, what, response.error_message)
            for topic in response.responses:
                for each in topic.partitions:
                    if each.error_code:
                        raise broker_error(
                            each.error_code,
                            f"group {group_id!r} was not moved in {topic.topic_name}-{each.partition_index}",
                        )

        await self._cluster.retrying(attempt, self._cluster.deadline())

    async def _deliveries(
        self, group_id: str, places: Iterable[TopicPartition], deadline: Deadline
    ) -> dict[TopicPartition, PartitionResponse]:
        """What the leaders tell; nothing from brokers that do not serve this API or are gone."""
        cluster = self._cluster
        by_leader: dict[int, dict[str, list[int]]] = {}
        for place in places:
            leader = (await cluster.leader(place, deadline)).leader
            by_leader.setdefault(leader, {}).setdefault(place.topic, []).append(place.partition)
        names: dict[UUID, str] = {cluster.metadata.topic_id(place.topic): place.topic for place in places}
        found: dict[TopicPartition, PartitionResponse] = {}
        for leader, topics in by_leader.items():
            asked = tuple(TopicRequest(cluster.metadata.topic_id(name), tuple(some)) for name, some in topics.items())
            request = DescribeDeliveriesRequest(group_id, asked)
            try:
                response = await cluster.ask_node(leader, request, DescribeDeliveriesResponse)
            except (UnsupportedApiError, ConnectionLostError):
                continue
            if response.error_code:
                raise broker_error(response.error_code, f"asking broker {leader} what group {group_id!r} has in flight")
            for topic in response.topics:
                for each in topic.partitions:
                    if not each.error_code and each.is_loaded:
                        found[TopicPartition(names[topic.topic_id], each.partition_index)] = each
        return found


def _first_open(start: int, told: PartitionResponse | None) -> int:
    """The first offset that is not done."""
    if told is None:
        return start
    return told.oldest_offset if told.oldest_offset >= 0 else max(start, told.end_offset)


def _state(
    place: TopicPartition,
    start: int,
    end: int,
    told: PartitionResponse | None,
    time_ms: int | None,
    now_ms: int,
    members: Mapping[str, GroupMember],
) -> SharePartitionState:
    deliveries = oldest = None
    lag = None if start < 0 else max(0, end - start)
    if told is not None:
        deliveries = Deliveries(
            told.in_flight,
            told.waiting,
            told.returned,
            told.redelivered,
            told.deliveries_most,
            told.accepted,
            told.archived,
        )
        # Pending and returned records, and those that were never delivered.
        lag = told.unfinished + max(0, end - told.end_offset)
        if told.oldest_offset >= 0:
            holder = members.get(told.oldest_holder) if told.oldest_holder else None
            oldest = OldestRecord(told.oldest_offset, told.oldest_deliveries, holder)
    return SharePartitionState(
        topic_partition=place,
        start_offset=start if start >= 0 else None,
        log_end_offset=end,
        lag=lag,
        lag_ms=None if time_ms is None else max(0, now_ms - time_ms),
        deliveries=deliveries,
        oldest=oldest,
    )
