"""ListGroups: list the groups a broker coordinates.

Written by tools/generate_protocol.py from schemas/messages/list_groups.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class ListGroupsRequest(ApiMessage, frozen=True):
    """The request, versions 0-5, flexible from 3."""

    API_KEY: ClassVar[int] = 16
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5

    states_filter: tuple[str, ...] = ()  # 4+
    types_filter: tuple[str, ...] = ()  # 5+


class ListedGroup(Struct, frozen=True):
    """Stands in `ListGroupsResponse.groups`."""

    group_id: str = ""
    protocol_type: str = ""
    group_state: str = ""  # 4+
    group_type: str = ""  # 5+


class ListGroupsResponse(ApiMessage, frozen=True):
    """The response, versions 0-5, flexible from 3."""

    API_KEY: ClassVar[int] = 16
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5

    throttle_time_ms: int = 0  # int32, 1+
    error_code: int = 0  # int16
    groups: tuple[ListedGroup, ...] = ()
