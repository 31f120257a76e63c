"""DescribeQuorum: describe the metadata quorum.

Written by tools/generate_protocol.py from schemas/messages/describe_quorum.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct

from ottla.protocol.message import ZERO_UUID, ApiMessage


class RequestPartitionData(Struct, frozen=True):
    """Stands in `RequestTopicData.partitions`."""

    partition_index: int = 0  # int32


class RequestTopicData(Struct, frozen=True):
    """Stands in `DescribeQuorumRequest.topics`."""

    topic_name: str = ""
    partitions: tuple[RequestPartitionData, ...] = ()


class DescribeQuorumRequest(ApiMessage, frozen=True):
    """The request, versions 0-2, flexible from 0."""

    API_KEY: ClassVar[int] = 55
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    topics: tuple[RequestTopicData, ...] = ()


class ReplicaState(Struct, frozen=True):
    """Stands in `ResponsePartitionData.current_voters` and 1 more."""

    replica_id: int = 0  # int32
    replica_directory_id: UUID = ZERO_UUID  # 2+
    log_end_offset: int = 0  # int64
    last_fetch_timestamp: int = -1  # int64, 1+
    last_caught_up_timestamp: int = -1  # int64, 1+


class ResponsePartitionData(Struct, frozen=True):
    """Stands in `ResponseTopicData.partitions`."""

    partition_index: int = 0  # int32
    error_code: int = 0  # int16
    error_message: str | None = ""  # 2+
    leader_id: int = 0  # int32
    leader_epoch: int = 0  # int32
    high_watermark: int = 0  # int64
    current_voters: tuple[ReplicaState, ...] = ()
    observers: tuple[ReplicaState, ...] = ()


class ResponseTopicData(Struct, frozen=True):
    """Stands in `DescribeQuorumResponse.topics`."""

    topic_name: str = ""
    partitions: tuple[ResponsePartitionData, ...] = ()


class Listener(Struct, frozen=True):
    """Stands in `Node.listeners`."""

    name: str = ""
    host: str = ""
    port: int = 0  # uint16


class Node(Struct, frozen=True):
    """Stands in `DescribeQuorumResponse.nodes`."""

    node_id: int = 0  # int32
    listeners: tuple[Listener, ...] = ()


class DescribeQuorumResponse(ApiMessage, frozen=True):
    """The response, versions 0-2, flexible from 0."""

    API_KEY: ClassVar[int] = 55
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    error_code: int = 0  # int16
    error_message: str | None = ""  # 2+
    topics: tuple[ResponseTopicData, ...] = ()
    nodes: tuple[Node, ...] = ()  # 2+
