"""DescribeQuorum: describe the metadata quorum.

Written by tools/generate_protocol.py from schemas/messages/describe_quorum.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from ottla.model.lazy_dataclass import dataclass
from ottla.protocol.message import ZERO_UUID, ApiMessage


@dataclass(frozen=True, slots=True)
class RequestPartitionData:
    """Stands in `RequestTopicData.partitions`."""

    partition_index: int = 0  # int32


@dataclass(frozen=True, slots=True)
class RequestTopicData:
    """Stands in `DescribeQuorumRequest.topics`."""

    topic_name: str = ""
    partitions: tuple[RequestPartitionData, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeQuorumRequest(ApiMessage):
    """The request, versions 0-2, flexible from 0."""

    API_KEY: ClassVar[int] = 55
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    topics: tuple[RequestTopicData, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """Stands in `ResponsePartitionData.current_voters` and 1 more."""

    replica_id: int = 0  # int32
    replica_directory_id: UUID = ZERO_UUID  # 2+
    log_end_offset: int = 0  # int64
    last_fetch_timestamp: int = -1  # int64, 1+
    last_caught_up_timestamp: int = -1  # int64, 1+


@dataclass(frozen=True, slots=True)
class ResponsePartitionData:
    """Stands in `ResponseTopicData.partitions`."""

    partition_index: int = 0  # int32
    error_code: int = 0  # int16
    error_message: str | None = ""  # 2+
    leader_id: int = 0  # int32
    leader_epoch: int = 0  # int32
    high_watermark: int = 0  # int64
    current_voters: tuple[ReplicaState, ...] = ()
    observers: tuple[ReplicaState, ...] = ()


@dataclass(frozen=True, slots=True)
class ResponseTopicData:
    """Stands in `DescribeQuorumResponse.topics`."""

    topic_name: str = ""
    partitions: tuple[ResponsePartitionData, ...] = ()


@dataclass(frozen=True, slots=True)
class Listener:
    """Stands in `Node.listeners`."""

    name: str = ""
    host: str = ""
    port: int = 0  # uint16


@dataclass(frozen=True, slots=True)
class Node:
    """Stands in `DescribeQuorumResponse.nodes`."""

    node_id: int = 0  # int32
    listeners: tuple[Listener, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeQuorumResponse(ApiMessage):
    """The response, versions 0-2, flexible from 0."""

    API_KEY: ClassVar[int] = 55
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    error_code: int = 0  # int16
    error_message: str | None = ""  # 2+
    topics: tuple[ResponseTopicData, ...] = ()
    nodes: tuple[Node, ...] = ()  # 2+
