"""The delivery state of share partitions, in __share_group_state.

Written by tools/generate_protocol.py from schemas/coordinator_records/share_state.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct

from ottla.protocol.message import ZERO_UUID, CoordinatorKey, CoordinatorValue


class ShareSnapshotKey(CoordinatorKey, frozen=True):
    """The record key, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 0
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""
    topic_id: UUID = ZERO_UUID
    partition: int = 0  # int32


class StateBatch(Struct, frozen=True):
    """Stands in `ShareSnapshotValue.state_batches` and 1 more."""

    first_offset: int = 0  # int64
    last_offset: int = 0  # int64
    delivery_state: int = 0  # int8
    delivery_count: int = 0  # int16
    not_before: int = 0  # int64


class ShareSnapshotValue(CoordinatorValue, frozen=True):
    """The record value, version 0, flexible from 0."""

    RECORD_TYPE: ClassVar[int] = 0
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    snapshot_epoch: int = 0  # int32
    state_epoch: int = 0  # int32
    leader_epoch: int = 0  # int32
    start_offset: int = 0  # int64
    delivery_complete_count: int = -1  # int32
    create_timestamp: int = 0  # int64
    write_timestamp: int = 0  # int64
    state_batches: tuple[StateBatch, ...] = ()


class ShareUpdateKey(CoordinatorKey, frozen=True):
    """The record key, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 1
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""
    topic_id: UUID = ZERO_UUID
    partition: int = 0  # int32


class ShareUpdateValue(CoordinatorValue, frozen=True):
    """The record value, version 0, flexible from 0."""

    RECORD_TYPE: ClassVar[int] = 1
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    snapshot_epoch: int = 0  # int32
    leader_epoch: int = 0  # int32
    start_offset: int = 0  # int64
    delivery_complete_count: int = -1  # int32
    state_batches: tuple[StateBatch, ...] = ()
