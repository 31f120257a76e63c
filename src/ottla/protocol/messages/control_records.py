"""Keys and values of control records in partitions.

Written by tools/generate_protocol.py from schemas/messages/control_records.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct

from ottla.protocol.message import ZERO_UUID, Message


class ControlRecordTypeSchema(Message, frozen=True):
    """The data, version 0, never flexible."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    type: int = 0  # int16


class EndTxnMarker(Message, frozen=True):
    """The data, version 0, never flexible."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    coordinator_epoch: int = 0  # int32


class LeaderChangeMessageVoter(Struct, frozen=True):
    """Stands in `LeaderChangeMessage.voters` and 1 more."""

    voter_id: int = 0  # int32
    voter_directory_id: UUID = ZERO_UUID  # 1+


class LeaderChangeMessage(Message, frozen=True):
    """The data, versions 0-1, flexible from 0."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    version: int = 0  # int16
    leader_id: int = 0  # int32
    voters: tuple[LeaderChangeMessageVoter, ...] = ()
    granting_voters: tuple[LeaderChangeMessageVoter, ...] = ()


class SnapshotHeaderRecord(Message, frozen=True):
    """The data, version 0, flexible from 0."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    version: int = 0  # int16
    last_contained_log_timestamp: int = 0  # int64


class SnapshotFooterRecord(Message, frozen=True):
    """The data, version 0, flexible from 0."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    version: int = 0  # int16


class KRaftVersionRecord(Message, frozen=True):
    """The data, version 0, flexible from 0."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    version: int = 0  # int16
    kraft_version: int = 0  # int16


class Endpoint(Struct, frozen=True):
    """Stands in `VotersRecordVoter.endpoints`."""

    name: str = ""
    host: str = ""
    port: int = 0  # uint16


class KRaftVersionFeature(Struct, frozen=True):
    """Stands in `VotersRecordVoter.kraft_version_feature`."""

    min_supported_version: int = 0  # int16
    max_supported_version: int = 0  # int16


class VotersRecordVoter(Struct, frozen=True):
    """Stands in `VotersRecord.voters`."""

    voter_id: int = 0  # int32
    voter_directory_id: UUID = ZERO_UUID
    endpoints: tuple[Endpoint, ...] = ()
    kraft_version_feature: KRaftVersionFeature = KRaftVersionFeature()


class VotersRecord(Message, frozen=True):
    """The data, version 0, flexible from 0."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    version: int = 0  # int16
    voters: tuple[VotersRecordVoter, ...] = ()
