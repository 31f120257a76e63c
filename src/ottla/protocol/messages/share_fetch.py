"""ShareFetch: fetch and acknowledge records as a member of a share group.

Written by tools/generate_protocol.py from schemas/messages/share_fetch.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct

from ottla.protocol.message import ZERO_UUID, ApiMessage, Records, RecordSlices


class AcknowledgementBatch(Struct, frozen=True):
    """Stands in `FetchPartition.acknowledgement_batches`."""

    first_offset: int = 0  # int64
    last_offset: int = 0  # int64
    acknowledge_types: tuple[int, ...] = ()  # int8


class FetchPartition(Struct, frozen=True):
    """Stands in `FetchTopic.partitions`."""

    partition_index: int = 0  # int32
    acknowledgement_batches: tuple[AcknowledgementBatch, ...] = ()


class FetchTopic(Struct, frozen=True):
    """Stands in `ShareFetchRequest.topics`."""

    topic_id: UUID = ZERO_UUID
    partitions: tuple[FetchPartition, ...] = ()


class ForgottenTopic(Struct, frozen=True):
    """Stands in `ShareFetchRequest.forgotten_topics_data`."""

    topic_id: UUID = ZERO_UUID
    partitions: tuple[int, ...] = ()  # int32


class ShareFetchRequest(ApiMessage, frozen=True):
    """The request, versions 1-2, flexible from 1."""

    API_KEY: ClassVar[int] = 78
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 2

    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: int = 0  # int32
    max_wait_ms: int = 0  # int32
    min_bytes: int = 0  # int32
    max_bytes: int = 2147483647  # int32
    max_records: int = 0  # int32
    batch_size: int = 0  # int32
    share_acquire_mode: int = 0  # int8, 2+
    is_renew_ack: bool = False  # 2+
    topics: tuple[FetchTopic, ...] = ()
    forgotten_topics_data: tuple[ForgottenTopic, ...] = ()


class LeaderIdAndEpoch(Struct, frozen=True):
    """Stands in `PartitionData.current_leader`."""

    leader_id: int = 0  # int32
    leader_epoch: int = 0  # int32


class AcquiredRecords(Struct, frozen=True):
    """Stands in `PartitionData.acquired_records`."""

    first_offset: int = 0  # int64
    last_offset: int = 0  # int64
    delivery_count: int = 0  # int16


class PartitionData(Struct, frozen=True):
    """Stands in `ShareFetchableTopicResponse.partitions`."""

    partition_index: int = 0  # int32
    error_code: int = 0  # int16
    error_message: str | None = None
    acknowledge_error_code: int = 0  # int16
    acknowledge_error_message: str | None = None
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()
    records: Records | RecordSlices = b""
    acquired_records: tuple[AcquiredRecords, ...] = ()


class ShareFetchableTopicResponse(Struct, frozen=True):
    """Stands in `ShareFetchResponse.responses`."""

    topic_id: UUID = ZERO_UUID
    partitions: tuple[PartitionData, ...] = ()


class NodeEndpoint(Struct, frozen=True):
    """Stands in `ShareFetchResponse.node_endpoints`."""

    node_id: int = 0  # int32
    host: str = ""
    port: int = 0  # int32
    rack: str | None = None


class ShareFetchResponse(ApiMessage, frozen=True):
    """The response, versions 1-2, flexible from 1."""

    API_KEY: ClassVar[int] = 78
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 2

    throttle_time_ms: int = 0  # int32
    error_code: int = 0  # int16
    error_message: str | None = None
    acquisition_lock_timeout_ms: int = 0  # int32
    responses: tuple[ShareFetchableTopicResponse, ...] = ()
    node_endpoints: tuple[NodeEndpoint, ...] = ()
