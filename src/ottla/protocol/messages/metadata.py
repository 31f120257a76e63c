"""Metadata: describe brokers, topics and partition leaders.

Written by tools/generate_protocol.py from schemas/messages/metadata.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct

from ottla.protocol.message import ZERO_UUID, ApiMessage


class MetadataRequestTopic(Struct, frozen=True):
    """Stands in `MetadataRequest.topics`."""

    topic_id: UUID = ZERO_UUID  # 10+
    name: str | None = ""


class MetadataRequest(ApiMessage, frozen=True):
    """The request, versions 0-13, flexible from 9."""

    API_KEY: ClassVar[int] = 3
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 13

    topics: tuple[MetadataRequestTopic, ...] | None = ()
    allow_auto_topic_creation: bool = True  # 4+
    include_cluster_authorized_operations: bool = False  # 8-10
    include_topic_authorized_operations: bool = False  # 8+


class MetadataResponseBroker(Struct, frozen=True):
    """Stands in `MetadataResponse.brokers`."""

    node_id: int = 0  # int32
    host: str = ""
    port: int = 0  # int32
    rack: str | None = None  # 1+


class MetadataResponsePartition(Struct, frozen=True):
    """Stands in `MetadataResponseTopic.partitions`."""

    error_code: int = 0  # int16
    partition_index: int = 0  # int32
    leader_id: int = 0  # int32
    leader_epoch: int = -1  # int32, 7+
    replica_nodes: tuple[int, ...] = ()  # int32
    isr_nodes: tuple[int, ...] = ()  # int32
    offline_replicas: tuple[int, ...] = ()  # int32, 5+


class MetadataResponseTopic(Struct, frozen=True):
    """Stands in `MetadataResponse.topics`."""

    error_code: int = 0  # int16
    name: str | None = ""
    topic_id: UUID = ZERO_UUID  # 10+
    is_internal: bool = False  # 1+
    partitions: tuple[MetadataResponsePartition, ...] = ()
    topic_authorized_operations: int = -2147483648  # int32, 8+


class MetadataResponse(ApiMessage, frozen=True):
    """The response, versions 0-13, flexible from 9."""

    API_KEY: ClassVar[int] = 3
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 13

    throttle_time_ms: int = 0  # int32, 3+
    brokers: tuple[MetadataResponseBroker, ...] = ()
    cluster_id: str | None = None  # 2+
    controller_id: int = -1  # int32, 1+
    topics: tuple[MetadataResponseTopic, ...] = ()
    cluster_authorized_operations: int = -2147483648  # int32, 8-10
    error_code: int = 0  # int16, 13+
