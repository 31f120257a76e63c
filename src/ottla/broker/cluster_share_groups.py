"""Where share groups begin, whichever broker coordinates them: for gateways whose clients do not find coordinators.

gateway --> this broker coordinates the group --> ShareGroupService
        --> another broker does               --> the same asked of it (APIs 90 to 92), over the channels
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Protocol
from uuid import UUID

import msgspec

from ottla.client.errors import ClientError, UnsupportedApiError, error_code
from ottla.groups.share.exchange import ShareOffsetsAnswer, TopicPartitions
from ottla.metadata.image.image import NO_LEADER, MetadataImage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_name import CONSUMER_OFFSETS_TOPIC
from ottla.queues.share_state import ShareKey, ShareState
from ottla.queues.share_state_shard import StateAnswer

if TYPE_CHECKING:
    from ottla.broker.share_groups import ShareGroupService
    from ottla.model.principal import Principal
    from ottla.peers.broker_channels import BrokerChannels

REQUEST_MS: Final = 10_000

Answers = tuple[ShareOffsetsAnswer, dict[ShareKey, StateAnswer]]


class RemoteShareGroups(Protocol):
    """The groups that another broker coordinates. Raises ClientError when it is not reached."""

    async def offsets(self, broker_id: int, group_id: str, topics: TopicPartitions) -> Answers: ...

    async def alter_offsets(self, broker_id: int, group_id: str, starts: Mapping[ShareKey, int]) -> Answers: ...

    async def begin(self, broker_id: int, group_id: str, starts: Mapping[ShareKey, int]) -> Answers: ...

    async def delete_offsets(self, broker_id: int, group_id: str, topics: TopicPartitions) -> Answers: ...

    async def of_topic(self, broker_id: int, topic_id: UUID) -> list[str]: ...

    async def consumers(self, broker_id: int, group_id: str) -> int: ...


class ClusterShareGroups:
    """Belongs to the event loop. Answers NOT_COORDINATOR and COORDINATOR_NOT_AVAILABLE where asking again may help."""

    def __init__(
        self,
        local: ShareGroupService,
        partition_of: Callable[[str], int],
        image: Callable[[], MetadataImage],
        broker_id: int,
        remote: RemoteShareGroups | None = None,
    ) -> None:
        """`partition_of` gives the partition of the coordinators' topic that has a group. `remote` reaches other
        brokers; None on one that is alone.
        """
        self._local = local
        self._partition_of = partition_of
        self._image = image
        self._broker_id = broker_id
        self._remote = remote

    async def offsets(self, principal: Principal, group_id: str, topics: TopicPartitions) -> Answers:
        """As `ShareGroupService.offsets`."""
        broker_id, remote = self._coordinator(group_id)
        if remote is None:
            return await self._local.offsets(principal, group_id, topics)
        try:
            return await remote.offsets(broker_id, group_id, topics)
        except ClientError as error:
            return _unavailable(error)

    async def alter_offsets(self, principal: Principal, group_id: str, starts: Mapping[ShareKey, int]) -> Answers:
        """As `ShareGroupService.alter_offsets`."""
        broker_id, remote = self._coordinator(group_id)
        if remote is None or not starts:
            return await self._local.alter_offsets(principal, group_id, starts, is_read=True)
        try:
            return await remote.alter_offsets(broker_id, group_id, starts)
        except ClientError as error:
            return _unavailable(error)

    async def begin(self, principal: Principal, group_id: str, starts: Mapping[ShareKey, int]) -> Answers:
        """As `ShareGroupService.begin`."""
        broker_id, remote = self._coordinator(group_id)
        if remote is None:
            return await self._local.begin(principal, group_id, starts)
        try:
            return await remote.begin(broker_id, group_id, starts)
        except UnsupportedApiError:  # an older broker: there a group that is begun by two begins anew
            return await self.alter_offsets(principal, group_id, starts)
        except ClientError as error:
            return _unavailable(error)

    async def delete_offsets(self, principal: Principal, group_id: str, topics: TopicPartitions) -> Answers:
        """As `ShareGroupService.delete_offsets`."""
        broker_id, remote = self._coordinator(group_id)
        if remote is None:
            return await self._local.delete_offsets(principal, group_id, topics, is_read=True)
        try:
            return await remote.delete_offsets(broker_id, group_id, topics)
        except ClientError as error:
            return _unavailable(error)

    async def of_topic(self, topic_id: UUID) -> list[str]:
        """The groups that have a state in a topic, whoever coordinates them.

        Raises ApiError COORDINATOR_NOT_AVAILABLE when a broker that may coordinate some does not answer.
        """
        found = set(await self._local.of_topic(topic_id))
        topic = self._image().topic(CONSUMER_OFFSETS_TOPIC)
        if self._remote is not None and topic is not None:
            others = {partition.leader for partition in topic.partitions} - {NO_LEADER, self._broker_id}
            try:
                for broker_id in sorted(others):
                    found.update(await self._remote.of_topic(broker_id, topic_id))
            except ClientError as error:
                raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error
        return sorted(found)

    async def of_topic_here(self, topic_id: UUID) -> list[str]:
        """The same of those that this broker coordinates, which costs no request."""
        return await self._local.of_topic(topic_id)

    def is_coordinated_here(self, group_id: str) -> bool:
        """Whether this broker coordinates a group."""
        return self._coordinator(group_id)[1] is None

    def _coordinator(self, group_id: str) -> tuple[int, RemoteShareGroups | None]:
        """The broker to ask, and None in place of the way to it where that is this one, or none is known."""
        topic = self._image().topic(CONSUMER_OFFSETS_TOPIC)
        leader = NO_LEADER if topic is None else topic.partitions[self._partition_of(group_id)].leader
        if leader in (NO_LEADER, self._broker_id):
            return self._broker_id, None
        return leader, self._remote


def _unavailable(error: ClientError) -> Answers:
    return ShareOffsetsAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE, message=str(error)), {}


class ShareGroupChannel:
    """`RemoteShareGroups` over the channels between brokers."""

    def __init__(self, channels: BrokerChannels, image: Callable[[], MetadataImage]) -> None:
        self._channels = channels
        self._image = image

    async def offsets(self, broker_id: int, group_id: str, topics: TopicPartitions) -> Answers:
        """DescribeShareGroupOffsets, of one group."""
        from ottla.protocol.messages import describe_share_group_offsets as messages

        asked = messages.DescribeShareGroupOffsetsRequestGroup(
            group_id,
            tuple(
                messages.DescribeShareGroupOffsetsRequestTopic(self._name(topic_id), tuple(partitions))
                for topic_id, partitions in topics.items()
            ),
        )
        response = await self._channels.request(
            broker_id,
            messages.DescribeShareGroupOffsetsRequest((asked,)),
            messages.DescribeShareGroupOffsetsResponse,
            timeout_ms=REQUEST_MS,
        )
        found: dict[ShareKey, StateAnswer] = {}
        for group in response.groups:
            if group.error_code:
                return ShareOffsetsAnswer(ErrorCode(group.error_code), message=group.error_message), found
            for topic in group.topics:
                for each in topic.partitions:
                    if each.start_offset >= 0 or each.error_code:
                        state = ShareState(leader_epoch=each.leader_epoch, start_offset=each.start_offset)
                        key = ShareKey(group_id, topic.topic_id, each.partition_index)
                        found[key] = StateAnswer(ErrorCode(each.error_code), message=each.error_message, state=state)
        return ShareOffsetsAnswer(), found

    async def alter_offsets(self, broker_id: int, group_id: str, starts: Mapping[ShareKey, int]) -> Answers:
        """AlterShareGroupOffsets."""
        from ottla.protocol.messages import alter_share_group_offsets as messages

        rows: dict[UUID, list[messages.AlterShareGroupOffsetsRequestPartition]] = {}
        for key, start_offset in starts.items():
            row = messages.AlterShareGroupOffsetsRequestPartition(key.partition, start_offset)
            rows.setdefault(key.topic_id, []).append(row)
        topics = tuple(
            messages.AlterShareGroupOffsetsRequestTopic(self._name(topic_id), tuple(partitions))
            for topic_id, partitions in rows.items()
        )
        response = await self._channels.request(
            broker_id,
            messages.AlterShareGroupOffsetsRequest(group_id, topics),
            messages.AlterShareGroupOffsetsResponse,
            timeout_ms=REQUEST_MS,
        )
        altered = {
            ShareKey(group_id, topic.topic_id, each.partition_index): StateAnswer(
                ErrorCode(each.error_code), message=each.error_message
            )
            for topic in response.responses
            for each in topic.partitions
        }
        return ShareOffsetsAnswer(ErrorCode(response.error_code), message=response.error_message), altered

    async def begin(self, broker_id: int, group_id: str, starts: Mapping[ShareKey, int]) -> Answers:
        """ShareReads: unlike AlterShareGroupOffsets, nothing of what there is by now begins anew."""
        from ottla.broker import share_read_messages as messages
        from ottla.protocol.messages.share_reads import ShareReadsRequest, ShareReadsResponse

        keys = list(starts)
        asked = messages.Begin(group_id, [(key.topic_id.bytes, key.partition, starts[key]) for key in keys])
        request = ShareReadsRequest(messages.encode(asked))
        response = await self._channels.request(broker_id, request, ShareReadsResponse, timeout_ms=REQUEST_MS)
        if response.error_code:
            return ShareOffsetsAnswer(error_code(response.error_code), message=response.error_message), {}
        try:
            told = messages.decode_begun(response.data)
        except msgspec.DecodeError as error:
            return ShareOffsetsAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE, message=str(error)), {}
        answer = ShareOffsetsAnswer(error_code(told.error), message=told.message)
        if len(told.partitions) != len(keys):
            return answer, dict.fromkeys(keys, StateAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        found = zip(keys, told.partitions, strict=True)
        return answer, {key: StateAnswer(error_code(error), message=message) for key, (error, message) in found}

    async def delete_offsets(self, broker_id: int, group_id: str, topics: TopicPartitions) -> Answers:
        """DeleteShareGroupOffsets, of whole topics."""
        from ottla.protocol.messages import delete_share_group_offsets as messages

        asked = tuple(messages.DeleteShareGroupOffsetsRequestTopic(self._name(topic_id)) for topic_id in topics)
        response = await self._channels.request(
            broker_id,
            messages.DeleteShareGroupOffsetsRequest(group_id, asked),
            messages.DeleteShareGroupOffsetsResponse,
            timeout_ms=REQUEST_MS,
        )
        deleted = {
            ShareKey(group_id, topic.topic_id, 0): StateAnswer(ErrorCode(topic.error_code), message=topic.error_message)
            for topic in response.responses
        }
        return ShareOffsetsAnswer(ErrorCode(response.error_code), message=response.error_message), deleted

    async def of_topic(self, broker_id: int, topic_id: UUID) -> list[str]:
        """ListGroups, and DescribeShareGroupOffsets of all of them."""
        from ottla.protocol.messages import describe_share_group_offsets as messages
        from ottla.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

        listed = await self._channels.request(
            broker_id, ListGroupsRequest(types_filter=("share",)), ListGroupsResponse, timeout_ms=REQUEST_MS
        )
        topic = messages.DescribeShareGroupOffsetsRequestTopic(self._name(topic_id), (0,))
        asked = tuple(
            messages.DescribeShareGroupOffsetsRequestGroup(group.group_id, (topic,)) for group in listed.groups
        )
        if not asked:
            return []
        response = await self._channels.request(
            broker_id,
            messages.DescribeShareGroupOffsetsRequest(asked),
            messages.DescribeShareGroupOffsetsResponse,
            timeout_ms=REQUEST_MS,
        )
        return [
            group.group_id
            for group in response.groups
            if any(each.start_offset >= 0 for found in group.topics for each in found.partitions)
        ]

    async def consumers(self, broker_id: int, group_id: str) -> int:
        """DescribeDeliveries, of no partition: how many read the group there that are no members of it."""
        from ottla.peers.broker_channels import SHARE_STATE
        from ottla.protocol.messages.describe_deliveries import DescribeDeliveriesRequest, DescribeDeliveriesResponse

        request = DescribeDeliveriesRequest(group_id)
        response = await self._channels.request(
            broker_id, request, DescribeDeliveriesResponse, timeout_ms=REQUEST_MS, lane=SHARE_STATE
        )
        return response.consumers

    def _name(self, topic_id: UUID) -> str:
        topic = self._image().topic_by_id(topic_id)
        return "" if topic is None else topic.name
