"""TxnOffsetCommit: commit group offsets as part of a transaction.

Written by tools/generate_protocol.py from schemas/messages/txn_offset_commit.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class TxnOffsetCommitRequestPartition(Struct, frozen=True):
    """Stands in `TxnOffsetCommitRequestTopic.partitions`."""

    partition_index: int = 0  # int32
    committed_offset: int = 0  # int64
    committed_leader_epoch: int = -1  # int32, 2+
    committed_metadata: str | None = ""


class TxnOffsetCommitRequestTopic(Struct, frozen=True):
    """Stands in `TxnOffsetCommitRequest.topics`."""

    name: str = ""
    partitions: tuple[TxnOffsetCommitRequestPartition, ...] = ()


class TxnOffsetCommitRequest(ApiMessage, frozen=True):
    """The request, versions 0-5, flexible from 3."""

    API_KEY: ClassVar[int] = 28
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5

    transactional_id: str = ""
    group_id: str = ""
    producer_id: int = 0  # int64
    producer_epoch: int = 0  # int16
    generation_id: int = -1  # int32, 3+
    member_id: str = ""  # 3+
    group_instance_id: str | None = None  # 3+
    topics: tuple[TxnOffsetCommitRequestTopic, ...] = ()


class TxnOffsetCommitResponsePartition(Struct, frozen=True):
    """Stands in `TxnOffsetCommitResponseTopic.partitions`."""

    partition_index: int = 0  # int32
    error_code: int = 0  # int16


class TxnOffsetCommitResponseTopic(Struct, frozen=True):
    """Stands in `TxnOffsetCommitResponse.topics`."""

    name: str = ""
    partitions: tuple[TxnOffsetCommitResponsePartition, ...] = ()


class TxnOffsetCommitResponse(ApiMessage, frozen=True):
    """The response, versions 0-5, flexible from 3."""

    API_KEY: ClassVar[int] = 28
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5

    throttle_time_ms: int = 0  # int32
    topics: tuple[TxnOffsetCommitResponseTopic, ...] = ()
