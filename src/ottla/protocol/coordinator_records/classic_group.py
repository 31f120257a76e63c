"""Classic groups, in __consumer_offsets.

Written by tools/generate_protocol.py from schemas/coordinator_records/classic_group.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import CoordinatorKey, CoordinatorValue


class GroupMetadataKey(CoordinatorKey, frozen=True):
    """The record key, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 2
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group: str = ""


class MemberMetadata(Struct, frozen=True):
    """Stands in `GroupMetadataValue.members`."""

    member_id: str = ""
    group_instance_id: str | None = None  # 3+
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: int = -1  # int32, 1+
    session_timeout: int = 0  # int32
    subscription: bytes = b""
    assignment: bytes = b""


class GroupMetadataValue(CoordinatorValue, frozen=True):
    """The record value, versions 0-4, flexible from 4."""

    RECORD_TYPE: ClassVar[int] = 2
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4

    protocol_type: str = ""
    generation: int = 0  # int32
    protocol: str | None = ""
    leader: str | None = ""
    current_state_timestamp: int = -1  # int64, 2+
    members: tuple[MemberMetadata, ...] = ()
