"""ShareAcknowledge: acknowledge delivered records of a share group.

Written by tools/generate_protocol.py from schemas/messages/share_acknowledge.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from ottla.model.lazy_dataclass import dataclass
from ottla.protocol.message import ZERO_UUID, ApiMessage


@dataclass(frozen=True, slots=True)
class AcknowledgementBatch:
    """Stands in `AcknowledgePartition.acknowledgement_batches`."""

    first_offset: int = 0  # int64
    last_offset: int = 0  # int64
    acknowledge_types: tuple[int, ...] = ()  # int8


@dataclass(frozen=True, slots=True)
class AcknowledgePartition:
    """Stands in `AcknowledgeTopic.partitions`."""

    partition_index: int = 0  # int32
    acknowledgement_batches: tuple[AcknowledgementBatch, ...] = ()


@dataclass(frozen=True, slots=True)
class AcknowledgeTopic:
    """Stands in `ShareAcknowledgeRequest.topics`."""

    topic_id: UUID = ZERO_UUID
    partitions: tuple[AcknowledgePartition, ...] = ()


@dataclass(frozen=True, slots=True)
class ShareAcknowledgeRequest(ApiMessage):
    """The request, versions 1-2, flexible from 1."""

    API_KEY: ClassVar[int] = 79
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 2

    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: int = 0  # int32
    is_renew_ack: bool = False  # 2+
    topics: tuple[AcknowledgeTopic, ...] = ()


@dataclass(frozen=True, slots=True)
class LeaderIdAndEpoch:
    """Stands in `PartitionData.current_leader`."""

    leader_id: int = 0  # int32
    leader_epoch: int = 0  # int32


@dataclass(frozen=True, slots=True)
class PartitionData:
    """Stands in `ShareAcknowledgeTopicResponse.partitions`."""

    partition_index: int = 0  # int32
    error_code: int = 0  # int16
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()


@dataclass(frozen=True, slots=True)
class ShareAcknowledgeTopicResponse:
    """Stands in `ShareAcknowledgeResponse.responses`."""

    topic_id: UUID = ZERO_UUID
    partitions: tuple[PartitionData, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeEndpoint:
    """Stands in `ShareAcknowledgeResponse.node_endpoints`."""

    node_id: int = 0  # int32
    host: str = ""
    port: int = 0  # int32
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class ShareAcknowledgeResponse(ApiMessage):
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
