"""`RemoteRecords` over the channels between brokers: Produce, Fetch and DeleteRecords, of one partition each."""

from collections import deque
from collections.abc import Callable
from typing import Final, cast
from uuid import UUID

from ottla.broker.record_deletion import ALL_COMMITTED
from ottla.broker.records import OutOfRangeError, RecordRead, refused
from ottla.client.errors import BrokerUnreachableError, ClientError, error_code
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_partition import TopicPartition
from ottla.peers.broker_channels import BrokerChannels, Lane
from ottla.protocol.message import Records
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.replication.leader import ACKS_ALL
from ottla.replication.partition import WritableBuffer

APPENDS: Final = Lane("records")
DELETIONS: Final = Lane("deletions")
"""They wait for replicas."""
READS: Final = Lane("reads")
"""Reads that do not wait."""
WAITING_READS: Final = tuple(Lane(f"waiting-reads-{number}") for number in range(8))
"""Each takes one read at a time that waits for records: answers come in order, and others would wait with it."""
_UNHEARD: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
"""The leader has not heard of the topic yet: nothing was written."""
_MOVED: Final = _UNHEARD | {ErrorCode.NOT_LEADER_OR_FOLLOWER}

ANSWER_MS: Final = 5_000
"""How long the answer of a leader may take beyond the time that it was given."""


class RecordChannel:
    """Belongs to the event loop; its methods may be called concurrently."""

    def __init__(self, channels: BrokerChannels, topic_id_of: Callable[[str], UUID]) -> None:
        """`topic_id_of` gives the id of a topic that is there."""
        self._channels = channels
        self._topic_id_of = topic_id_of
        self._free_lanes = deque(WAITING_READS)

    async def append(self, leader_id: int, place: TopicPartition, batch: WritableBuffer, timeout_ms: int) -> int:
        """Append a batch; the offset of its first record. Raises ApiError."""
        topic, index = place
        data = TopicProduceData(topic, self._topic_id_of(topic), (PartitionProduceData(index, batch),))
        request = ProduceRequest(acks=ACKS_ALL, timeout_ms=timeout_ms, topic_data=(data,))
        try:
            answer = await self._channels.request(
                leader_id, request, ProduceResponse, timeout_ms=timeout_ms + ANSWER_MS, lane=APPENDS
            )
        except BrokerUnreachableError as error:
            raise ApiError(
                ErrorCode.LEADER_NOT_AVAILABLE, f"broker {leader_id}, which leads {place}: {error}"
            ) from error
        except ClientError as error:
            raise ApiError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"it is not known whether the records are there: broker {leader_id}, which leads {place}: {error}",
            ) from error
        ((each,),) = (entry.partition_responses for entry in answer.responses)
        if each.error_code:
            code = error_code(each.error_code)
            raise _moved(leader_id, place, code) if code in _UNHEARD else refused(code, each.error_message)
        return each.base_offset

    async def read(
        self, leader_id: int, place: TopicPartition, offset: int, max_bytes: int, wait_ms: int, *, read_committed: bool
    ) -> RecordRead:
        """Read from an offset on; where too many reads wait already, without waiting. Raises ApiError."""
        lane = self._free_lanes.popleft() if wait_ms and self._free_lanes else None
        if lane is None:
            wait_ms = 0
        topic, index = place
        wanted = FetchPartition(index, fetch_offset=offset, partition_max_bytes=max_bytes)
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=int(read_committed),
            topics=(FetchTopic(topic, self._topic_id_of(topic), (wanted,)),),
        )
        try:
            answer = await self._channels.request(
                leader_id, request, FetchResponse, timeout_ms=wait_ms + ANSWER_MS, lane=lane or READS
            )
        except ClientError as error:
            raise ApiError(
                ErrorCode.LEADER_NOT_AVAILABLE, f"broker {leader_id}, which leads {place}: {error}"
            ) from error
        finally:
            if lane is not None:
                self._free_lanes.append(lane)
        if answer.error_code:
            raise ApiError(error_code(answer.error_code), f"broker {leader_id} does not read {place}")
        ((each,),) = (entry.partitions for entry in answer.responses)
        if each.error_code:
            code = error_code(each.error_code)
            if code in _MOVED:
                raise _moved(leader_id, place, code)
            if code is ErrorCode.OFFSET_OUT_OF_RANGE:
                raise OutOfRangeError(f"{place} has no offset {offset}", each.log_start_offset)
            raise ApiError(code, f"{place} cannot be read at offset {offset}: {code.name}")
        return RecordRead(
            cast("Records | None", each.records) or b"",  # what was decoded is in memory
            each.high_watermark,
            each.last_stable_offset,
            each.log_start_offset,
            [(aborted.producer_id, aborted.first_offset) for aborted in each.aborted_transactions or ()],
        )

    async def delete(self, leader_id: int, place: TopicPartition, timeout_ms: int) -> None:
        """Delete all committed records. Raises ApiError."""
        topic, index = place
        wanted = DeleteRecordsTopic(topic, (DeleteRecordsPartition(index, ALL_COMMITTED),))
        try:
            answer = await self._channels.request(
                leader_id,
                DeleteRecordsRequest(topics=(wanted,), timeout_ms=timeout_ms),
                DeleteRecordsResponse,
                timeout_ms=timeout_ms + ANSWER_MS,
                lane=DELETIONS,
            )
        except ClientError as error:
            raise ApiError(
                ErrorCode.LEADER_NOT_AVAILABLE, f"broker {leader_id}, which leads {place}: {error}"
            ) from error
        ((each,),) = (entry.partitions for entry in answer.topics)
        if each.error_code:
            code = error_code(each.error_code)
            if code in _MOVED:
                raise _moved(leader_id, place, code)
            raise ApiError(code, f"the records of {place} could not be deleted: {code.name}")


def _moved(leader_id: int, place: TopicPartition, code: ErrorCode) -> ApiError:
    return ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"broker {leader_id} does not lead {place} ({code.name})")
