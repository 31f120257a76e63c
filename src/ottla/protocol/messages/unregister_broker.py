"""UnregisterBroker: remove a broker from the cluster.

Written by tools/generate_protocol.py from schemas/messages/unregister_broker.schema.
Change the table, not this file.
"""

from typing import ClassVar

from ottla.protocol.message import ApiMessage


class UnregisterBrokerRequest(ApiMessage, frozen=True):
    """The request, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 64
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    broker_id: int = 0  # int32


class UnregisterBrokerResponse(ApiMessage, frozen=True):
    """The response, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 64
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    throttle_time_ms: int = 0  # int32
    error_code: int = 0  # int16
    error_message: str | None = ""
