"""A principal, serialized for a forwarded request.

Written by tools/generate_protocol.py from schemas/messages/default_principal.schema.
Change the table, not this file.
"""

from typing import ClassVar

from ottla.protocol.message import Message


class DefaultPrincipalData(Message, frozen=True):
    """The data, version 0, flexible from 0."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    type: str = ""
    name: str = ""
    token_authenticated: bool = False
