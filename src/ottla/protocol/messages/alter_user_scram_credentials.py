"""AlterUserScramCredentials: create, change and delete SCRAM credentials.

Written by tools/generate_protocol.py from schemas/messages/alter_user_scram_credentials.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class ScramCredentialDeletion(Struct, frozen=True):
    """Stands in `AlterUserScramCredentialsRequest.deletions`."""

    name: str = ""
    mechanism: int = 0  # int8


class ScramCredentialUpsertion(Struct, frozen=True):
    """Stands in `AlterUserScramCredentialsRequest.upsertions`."""

    name: str = ""
    mechanism: int = 0  # int8
    iterations: int = 0  # int32
    salt: bytes = b""
    salted_password: bytes = b""


class AlterUserScramCredentialsRequest(ApiMessage, frozen=True):
    """The request, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 51
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    deletions: tuple[ScramCredentialDeletion, ...] = ()
    upsertions: tuple[ScramCredentialUpsertion, ...] = ()


class AlterUserScramCredentialsResult(Struct, frozen=True):
    """Stands in `AlterUserScramCredentialsResponse.results`."""

    user: str = ""
    error_code: int = 0  # int16
    error_message: str | None = ""


class AlterUserScramCredentialsResponse(ApiMessage, frozen=True):
    """The response, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 51
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    throttle_time_ms: int = 0  # int32
    results: tuple[AlterUserScramCredentialsResult, ...] = ()
