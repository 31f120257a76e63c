"""Fetch: read record batches, for consumers and for followers; sessions since version 7.

Written by tools/generate_protocol.py from schemas/messages/fetch.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct

from ottla.protocol.message import ZERO_UUID, ApiMessage, Records, RecordSlices


class ReplicaState(Struct, frozen=True):
    """Stands in `FetchRequest.replica_state`."""

    replica_id: int = -1  # int32
    replica_epoch: int = -1  # int64


class FetchPartition(Struct, frozen=True):
    """Stands in `FetchTopic.partitions`."""

    partition: int = 0  # int32
    current_leader_epoch: int = -1  # int32, 9+
    fetch_offset: int = 0  # int64
    last_fetched_epoch: int = -1  # int32, 12+
    log_start_offset: int = -1  # int64, 5+
    partition_max_bytes: int = 0  # int32
    replica_directory_id: UUID = ZERO_UUID  # 17+
    high_watermark: int = 9223372036854775807  # int64, 18+


class FetchTopic(Struct, frozen=True):
    """Stands in `FetchRequest.topics`."""

    topic: str = ""  # 4-12
    topic_id: UUID = ZERO_UUID  # 13+
    partitions: tuple[FetchPartition, ...] = ()


class ForgottenTopic(Struct, frozen=True):
    """Stands in `FetchRequest.forgotten_topics_data`."""

    topic: str = ""  # 7-12
    topic_id: UUID = ZERO_UUID  # 13+
    partitions: tuple[int, ...] = ()  # int32


class FetchRequest(ApiMessage, frozen=True):
    """The request, versions 4-18, flexible from 12."""

    API_KEY: ClassVar[int] = 1
    MIN_VERSION: ClassVar[int] = 4
    MAX_VERSION: ClassVar[int] = 18

    cluster_id: str | None = None  # 12+
    replica_id: int = -1  # int32, 4-14
    replica_state: ReplicaState = ReplicaState()  # 15+
    max_wait_ms: int = 0  # int32
    min_bytes: int = 0  # int32
    max_bytes: int = 2147483647  # int32
    isolation_level: int = 0  # int8
    session_id: int = 0  # int32, 7+
    session_epoch: int = -1  # int32, 7+
    topics: tuple[FetchTopic, ...] = ()
    forgotten_topics_data: tuple[ForgottenTopic, ...] = ()  # 7+
    rack_id: str = ""  # 11+


class EpochEndOffset(Struct, frozen=True):
    """Stands in `PartitionData.diverging_epoch`."""

    epoch: int = -1  # int32
    end_offset: int = -1  # int64


class LeaderIdAndEpoch(Struct, frozen=True):
    """Stands in `PartitionData.current_leader`."""

    leader_id: int = -1  # int32
    leader_epoch: int = -1  # int32


class SnapshotId(Struct, frozen=True):
    """Stands in `PartitionData.snapshot_id`."""

    end_offset: int = -1  # int64
    epoch: int = -1  # int32


class AbortedTransaction(Struct, frozen=True):
    """Stands in `PartitionData.aborted_transactions`."""

    producer_id: int = 0  # int64
    first_offset: int = 0  # int64


class PartitionData(Struct, frozen=True):
    """Stands in `FetchableTopicResponse.partitions`."""

    partition_index: int = 0  # int32
    error_code: int = 0  # int16
    high_watermark: int = 0  # int64
    last_stable_offset: int = -1  # int64
    log_start_offset: int = -1  # int64, 5+
    diverging_epoch: EpochEndOffset = EpochEndOffset()  # 12+
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()  # 12+
    snapshot_id: SnapshotId = SnapshotId()  # 12+
    aborted_transactions: tuple[AbortedTransaction, ...] | None = ()
    preferred_read_replica: int = -1  # int32, 11+
    records: Records | RecordSlices | None = None


class FetchableTopicResponse(Struct, frozen=True):
    """Stands in `FetchResponse.responses`."""

    topic: str = ""  # 4-12
    topic_id: UUID = ZERO_UUID  # 13+
    partitions: tuple[PartitionData, ...] = ()


class NodeEndpoint(Struct, frozen=True):
    """Stands in `FetchResponse.node_endpoints`."""

    node_id: int = 0  # int32
    host: str = ""
    port: int = 0  # int32
    rack: str | None = None


class FetchResponse(ApiMessage, frozen=True):
    """The response, versions 4-18, flexible from 12."""

    API_KEY: ClassVar[int] = 1
    MIN_VERSION: ClassVar[int] = 4
    MAX_VERSION: ClassVar[int] = 18

    throttle_time_ms: int = 0  # int32
    error_code: int = 0  # int16, 7+
    session_id: int = 0  # int32, 7+
    responses: tuple[FetchableTopicResponse, ...] = ()
    node_endpoints: tuple[NodeEndpoint, ...] = ()  # 16+
