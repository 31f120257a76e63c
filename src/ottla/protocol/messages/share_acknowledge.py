"""ShareAcknowledge: acknowledge delivered records of a share group.

Written by tools/generate_protocol.py from schemas/messages/share_acknowledge.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct

from ottla.protocol.message import ZERO_UUID, ApiMessage


class AcknowledgementBatch(Struct, frozen=True):
    """Stands in `AcknowledgePartition.acknowledgement_batches`."""

    first_offset: int = 0  # int64
    last_offset: int = 0  # int64
    acknowledge_types: tuple[int, ...] = ()  # int8


class AcknowledgePartition(Struct, frozen=True):
    """Stands in `AcknowledgeTopic.partitions`."""

    partition_index: int = 0  # int32
    acknowledgement_batches: tuple[AcknowledgementBatch, ...] = ()


class AcknowledgeTopic(Struct, frozen=True):
    """Stands in `ShareAcknowledgeRequest.topics`."""

    topic_id: UUID = ZERO_UUID
    partitions: tuple[AcknowledgePartition, ...] = ()


class ShareAcknowledgeRequest(ApiMessage, frozen=True):
    """The request, versions 1-2, flexible from 1."""

    API_KEY: ClassVar[int] = 79
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 2

    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: int = 0  # int32
    is_renew_ack: bool = False  # 2+
    topics: tuple[AcknowledgeTopic, ...] = ()


class LeaderIdAndEpoch(Struct, frozen=True):
    """Stands in `PartitionData.current_leader`."""

    leader_id: int = 0  # int32
    leader_epoch: int = 0  # int32


class PartitionData(Struct, frozen=True):
    """Stands in `ShareAcknowledgeTopicResponse.partitions`."""

    partition_index: int = 0  # int32
    error_code: int = 0  # int16
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()


class ShareAcknowledgeTopicResponse(Struct, frozen=True):
    """Stands in `ShareAcknowledgeResponse.responses`."""

    topic_id: UUID = ZERO_UUID
    partitions: tuple[PartitionData, ...] = ()


class NodeEndpoint(Struct, frozen=True):
    """Stands in `ShareAcknowledgeResponse.node_endpoints`."""

    node_id: int = 0  # int32
    host: str = ""
    port: int = 0  # int32
    rack: str | None = None


class ShareAcknowledgeResponse(ApiMessage, frozen=True):
    """The response, versions 1-2, flexible from 1."""

    API_KEY: ClassVar[int] = 79
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 2

    throttle_time_ms: int = 0  # int32
    error_code: int = 0  # int16
    error_message: str | None = None
    acquisition_lock_timeout_ms: int = 0  # int32, 2+
    responses: tuple[ShareAcknowledgeTopicResponse, ...] = ()
    node_endpoints: tuple[NodeEndpoint, ...] = ()
