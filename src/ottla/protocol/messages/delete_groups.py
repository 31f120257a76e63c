"""DeleteGroups: delete groups.

Written by tools/generate_protocol.py from schemas/messages/delete_groups.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class DeleteGroupsRequest(ApiMessage, frozen=True):
    """The request, versions 0-2, flexible from 2."""

    API_KEY: ClassVar[int] = 42
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    groups_names: tuple[str, ...] = ()


class DeletableGroupResult(Struct, frozen=True):
    """Stands in `DeleteGroupsResponse.results`."""

    group_id: str = ""
    error_code: int = 0  # int16


class DeleteGroupsResponse(ApiMessage, frozen=True):
    """The response, versions 0-2, flexible from 2."""

    API_KEY: ClassVar[int] = 42
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    throttle_time_ms: int = 0  # int32
    results: tuple[DeletableGroupResult, ...] = ()
