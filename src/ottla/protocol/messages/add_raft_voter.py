"""AddRaftVoter: add a voter to the metadata quorum.

Written by tools/generate_protocol.py from schemas/messages/add_raft_voter.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct

from ottla.protocol.message import ZERO_UUID, ApiMessage


class Listener(Struct, frozen=True):
    """Stands in `AddRaftVoterRequest.listeners`."""

    name: str = ""
    host: str = ""
    port: int = 0  # uint16


class AddRaftVoterRequest(ApiMessage, frozen=True):
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


class AddRaftVoterResponse(ApiMessage, frozen=True):
    """The response, versions 0-1, flexible from 0."""

    API_KEY: ClassVar[int] = 80
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    throttle_time_ms: int = 0  # int32
    error_code: int = 0  # int16
    error_message: str | None = ""
