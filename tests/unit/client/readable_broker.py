"""A scripted broker with records to read and a group to belong to."""

from ottla.client.consuming.group_protocol import decode_assignment, encode_assignment
from ottla.client.consuming.offsets import OffsetAt
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.native import build_batch, walk_batches
from ottla.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from ottla.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.unit.client.scripted_broker import ScriptedBroker, topic_id


class ReadableBroker(ScriptedBroker):
    """A broker with one topic "t" whose partitions hold numbered records, and a group that takes what it is told."""

    def __init__(self, partitions: int = 1, records: int = 0, *, per_batch: int = 5) -> None:
        super().__init__({"t": partitions})
        self.logs = {partition: numbered_log(records, per_batch) for partition in range(partitions)}
        self.start = 0
        self.fetch_bytes_max = 1 << 20
        self.committed: dict[TopicPartition, int] = {}
        self.generation = 0
        self.member_errors: list[int] = []
        self.heartbeat_errors: list[int] = []
        self.handlers |= {
            FetchRequest: self._fetch,
            ListOffsetsRequest: self._list_offsets,
            FindCoordinatorRequest: lambda request, version: FindCoordinatorResponse(
                coordinators=(Coordinator(key=request.coordinator_keys[0], node_id=1, host="h", port=1),)
            ),
            JoinGroupRequest: self._join,
            SyncGroupRequest: self._sync,
            HeartbeatRequest: lambda request, version: HeartbeatResponse(error_code=_next(self.heartbeat_errors)),
            LeaveGroupRequest: lambda request, version: LeaveGroupResponse(),
            OffsetFetchRequest: self._offset_fetch,
            OffsetCommitRequest: self._offset_commit,
        }

    def end(self, partition: int) -> int:
        batches, _, _ = walk_batches(self.logs[partition], check_crc=False)
        return batches[-1].last_offset + 1 if batches else 0

    def _fetch(self, request: FetchRequest, version: int) -> FetchResponse:
        [topic] = request.topics
        partitions = tuple(self._fetch_partition(each.partition, each.fetch_offset) for each in topic.partitions)
        return FetchResponse(
            responses=(FetchableTopicResponse(topic="t", topic_id=topic_id("t"), partitions=partitions),)
        )

    def _fetch_partition(self, partition: int, offset: int) -> PartitionData:
        end = self.end(partition)
        if not self.start <= offset <= end:
            return PartitionData(partition_index=partition, error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
        batches, _, _ = walk_batches(self.logs[partition], check_crc=False)
        position = next((batch.position for batch in batches if batch.last_offset >= offset), len(self.logs[partition]))
        records = bytes(self.logs[partition][position : position + self.fetch_bytes_max])
        return PartitionData(
            partition_index=partition, high_watermark=end, last_stable_offset=end, log_start_offset=0, records=records
        )

    def _list_offsets(self, request: ListOffsetsRequest, version: int) -> ListOffsetsResponse:
        [topic] = request.topics
        partitions = tuple(
            ListOffsetsPartitionResponse(
                partition_index=each.partition_index,
                offset=self.start if each.timestamp == OffsetAt.EARLIEST else self.end(each.partition_index),
            )
            for each in topic.partitions
        )
        return ListOffsetsResponse(topics=(ListOffsetsTopicResponse(name="t", partitions=partitions),))

    def _join(self, request: JoinGroupRequest, version: int) -> JoinGroupResponse:
        error = _next(self.member_errors)
        if error == ErrorCode.NONE and not request.member_id:
            error = ErrorCode.MEMBER_ID_REQUIRED
        if error:
            return JoinGroupResponse(error_code=error, member_id="m-1", protocol_name=None)
        self.generation += 1
        member = JoinGroupResponseMember(member_id="m-1", metadata=request.protocols[0].metadata)
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type="consumer",
            protocol_name="range",
            leader="m-1",
            member_id="m-1",
            members=(member,),
        )

    def _sync(self, request: SyncGroupRequest, version: int) -> SyncGroupResponse:
        [mine] = [each.assignment for each in request.assignments]
        return SyncGroupResponse(assignment=encode_assignment(decode_assignment(mine)))

    def _offset_fetch(self, request: OffsetFetchRequest, version: int) -> OffsetFetchResponse:
        [group] = request.groups
        topics = tuple(
            OffsetFetchResponseTopics(
                name=topic.name,
                partitions=tuple(
                    OffsetFetchResponsePartitions(
                        partition_index=index,
                        committed_offset=self.committed.get(TopicPartition(topic.name, index), -1),
                    )
                    for index in topic.partition_indexes
                ),
            )
            for topic in group.topics or ()
        )
        return OffsetFetchResponse(groups=(OffsetFetchResponseGroup(group_id=group.group_id, topics=topics),))

    def _offset_commit(self, request: OffsetCommitRequest, version: int) -> OffsetCommitResponse:
        topics = []
        for topic in request.topics:
            for each in topic.partitions:
                self.committed[TopicPartition(topic.name, each.partition_index)] = each.committed_offset
            partitions = tuple(
                OffsetCommitResponsePartition(partition_index=each.partition_index) for each in topic.partitions
            )
            topics.append(OffsetCommitResponseTopic(name=topic.name, partitions=partitions))
        return OffsetCommitResponse(topics=tuple(topics))


def numbered_log(records: int, per_batch: int) -> bytearray:
    """Batches with records whose values are their offsets."""
    log = bytearray()
    for start in range(0, records, per_batch):
        numbers = range(start, min(start + per_batch, records))
        log += build_batch([(0, None, b"%d" % number, ()) for number in numbers], base_offset=start)
    return log


def _next(errors: list[int]) -> int:
    return errors.pop(0) if errors else 0
