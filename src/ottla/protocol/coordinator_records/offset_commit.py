"""Committed offsets of groups, in __consumer_offsets.

Written by tools/generate_protocol.py from schemas/coordinator_records/offset_commit.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from ottla.protocol.message import ZERO_UUID, CoordinatorKey, CoordinatorValue


class LegacyOffsetCommitKey(CoordinatorKey, frozen=True):
    """The record key, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 0
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group: str = ""
    topic: str = ""
    partition: int = 0  # int32


class LegacyOffsetCommitValue(CoordinatorValue, frozen=True):
    """The record value, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 0
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    offset: int = 0  # int64
    metadata: str = ""
    commit_timestamp: int = 0  # int64


class OffsetCommitKey(CoordinatorKey, frozen=True):
    """The record key, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 1
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group: str = ""
    topic: str = ""
    partition: int = 0  # int32


class OffsetCommitValue(CoordinatorValue, frozen=True):
    """The record value, versions 0-4, flexible from 4."""

    RECORD_TYPE: ClassVar[int] = 1
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4

    offset: int = 0  # int64
    leader_epoch: int = -1  # int32, 3+
    metadata: str = ""
    commit_timestamp: int = 0  # int64
    expire_timestamp: int = -1  # int64, 1
    topic_id: UUID = ZERO_UUID  # 4+
