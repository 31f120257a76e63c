"""AddRaftVoter: add a voter to the metadata quorum.

Written by tools/generate_protocol.py from schemas/messages/add_raft_voter.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from ottla.model.lazy_dataclass import dataclass
from ottla.protocol.message import ZERO_UUID, ApiMessage


@dataclass(frozen=True, slots=True)
class Listener:
    """Stands in `AddRaftVoterRequest.listeners`."""

    name: str = ""
    host: str = ""
    port: int = 0  # uint16


@dataclass(frozen=True, slots=True)
class AddRaftVoterRequest(ApiMessage):
    """The request, versions 0-1, flexible from 0."""

    API_KEY: ClassVar[int] = 80
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    cluster_id: str | None = ""
    timeout_ms: int = 0  # int32
    voter_id: int = 0  # int32
    voter_directory_id: UUID = ZERO_UUID
    listeners: tuple[Listener, ...] = ()
    ack_when_committed: bool = True  # 1+


@dataclass(frozen=True, slots=True)
class AddRaftVoterResponse(ApiMessage):
    """The response, versions 0-1, flexible from 0."""

    API_KEY: ClassVar[int] = 80
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    throttle_time_ms: int = 0  # int32
    error_code: int = 0  # int16
    error_message: str | None = ""
