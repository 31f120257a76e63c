"""Keys and values of control records in partitions.

Written by tools/generate_protocol.py from schemas/messages/control_records.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from ottla.model.lazy_dataclass import dataclass
from ottla.protocol.message import ZERO_UUID, Message


@dataclass(frozen=True, slots=True)
class ControlRecordTypeSchema(Message):
    """The data, version 0, never flexible."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    type: int = 0  # int16


@dataclass(frozen=True, slots=True)
class EndTxnMarker(Message):
    """The data, version 0, never flexible."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    coordinator_epoch: int = 0  # int32


@dataclass(frozen=True, slots=True)
class LeaderChangeMessageVoter:
    """Stands in `LeaderChangeMessage.voters` and 1 more."""

    voter_id: int = 0  # int32
    voter_directory_id: UUID = ZERO_UUID  # 1+


@dataclass(frozen=True, slots=True)
class LeaderChangeMessage(Message):
    """The data, versions 0-1, flexible from 0."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    version: int = 0  # int16
    leader_id: int = 0  # int32
    voters: tuple[LeaderChangeMessageVoter, ...] = ()
    granting_voters: tuple[LeaderChangeMessageVoter, ...] = ()


@dataclass(frozen=True, slots=True)
class SnapshotHeaderRecord(Message):
    """The data, version 0, flexible from 0."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    version: int = 0  # int16
    last_contained_log_timestamp: int = 0  # int64


@dataclass(frozen=True, slots=True)
class SnapshotFooterRecord(Message):
    """The data, version 0, flexible from 0."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    version: int = 0  # int16


@dataclass(frozen=True, slots=True)
class KRaftVersionRecord(Message):
    """The data, version 0, flexible from 0."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    version: int = 0  # int16
    kraft_version: int = 0  # int16


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Stands in `VotersRecordVoter.endpoints`."""

    name: str = ""
    host: str = ""
    port: int = 0  # uint16


@dataclass(frozen=True, slots=True)
class KRaftVersionFeature:
    """Stands in `VotersRecordVoter.kraft_version_feature`."""

    min_supported_version: int = 0  # int16
    max_supported_version: int = 0  # int16


@dataclass(frozen=True, slots=True)
class VotersRecordVoter:
    """Stands in `VotersRecord.voters`."""

    voter_id: int = 0  # int32
    voter_directory_id: UUID = ZERO_UUID
    endpoints: tuple[Endpoint, ...] = ()
    kraft_version_feature: KRaftVersionFeature = KRaftVersionFeature()


@dataclass(frozen=True, slots=True)
class VotersRecord(Message):
    """The data, version 0, flexible from 0."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    version: int = 0  # int16
    voters: tuple[VotersRecordVoter, ...] = ()
