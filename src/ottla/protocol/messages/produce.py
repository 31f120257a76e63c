"""Produce: append record batches to partitions.

Written by tools/generate_protocol.py from schemas/messages/produce.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct

from ottla.protocol.message import ZERO_UUID, ApiMessage, Records


class PartitionProduceData(Struct, frozen=True):
    """Stands in `TopicProduceData.partition_data`."""

    index: int = 0  # int32
    records: Records | None = None


class TopicProduceData(Struct, frozen=True):
    """Stands in `ProduceRequest.topic_data`."""

    name: str = ""  # 3-12
    topic_id: UUID = ZERO_UUID  # 13+
    partition_data: tuple[PartitionProduceData, ...] = ()


class ProduceRequest(ApiMessage, frozen=True):
    """The request, versions 3-13, flexible from 9."""

    API_KEY: ClassVar[int] = 0
    MIN_VERSION: ClassVar[int] = 3
    MAX_VERSION: ClassVar[int] = 13

    transactional_id: str | None = None
    acks: int = 0  # int16
    timeout_ms: int = 0  # int32
    topic_data: tuple[TopicProduceData, ...] = ()


class BatchIndexAndErrorMessage(Struct, frozen=True):
    """Stands in `PartitionProduceResponse.record_errors`."""

    batch_index: int = 0  # int32
    batch_index_error_message: str | None = None


class LeaderIdAndEpoch(Struct, frozen=True):
    """Stands in `PartitionProduceResponse.current_leader`."""

    leader_id: int = -1  # int32
    leader_epoch: int = -1  # int32


class PartitionProduceResponse(Struct, frozen=True):
    """Stands in `TopicProduceResponse.partition_responses`."""

    index: int = 0  # int32
    error_code: int = 0  # int16
    base_offset: int = 0  # int64
    log_append_time_ms: int = -1  # int64
    log_start_offset: int = -1  # int64, 5+
    record_errors: tuple[BatchIndexAndErrorMessage, ...] = ()  # 8+
    error_message: str | None = None  # 8+
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()  # 10+


class TopicProduceResponse(Struct, frozen=True):
    """Stands in `ProduceResponse.responses`."""

    name: str = ""  # 3-12
    topic_id: UUID = ZERO_UUID  # 13+
    partition_responses: tuple[PartitionProduceResponse, ...] = ()


class NodeEndpoint(Struct, frozen=True):
    """Stands in `ProduceResponse.node_endpoints`."""

    node_id: int = 0  # int32
    host: str = ""
    port: int = 0  # int32
    rack: str | None = None


class ProduceResponse(ApiMessage, frozen=True):
    """The response, versions 3-13, flexible from 9."""

    API_KEY: ClassVar[int] = 0
    MIN_VERSION: ClassVar[int] = 3
    MAX_VERSION: ClassVar[int] = 13

    responses: tuple[TopicProduceResponse, ...] = ()
    throttle_time_ms: int = 0  # int32
    node_endpoints: tuple[NodeEndpoint, ...] = ()  # 10+
