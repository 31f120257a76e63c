"""RemoveRaftVoter: remove a voter from the metadata quorum.

Written by tools/generate_protocol.py from schemas/messages/remove_raft_voter.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from ottla.protocol.message import ZERO_UUID, ApiMessage


class RemoveRaftVoterRequest(ApiMessage, frozen=True):
    """The request, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 81
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    cluster_id: str | None = ""
    voter_id: int = 0  # int32
    voter_directory_id: UUID = ZERO_UUID


class RemoveRaftVoterResponse(ApiMessage, frozen=True):
    """The response, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 81
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    throttle_time_ms: int = 0  # int32
    error_code: int = 0  # int16
    error_message: str | None = ""
