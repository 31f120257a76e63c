"""Requests that only the controller may decide, on a broker that is not it: sent on in an Envelope (KIP-590).

    client --CreateTopics--> this broker --Envelope--> the controller, which decides as if the client had come to it
    client <----the answer-- this broker <--the answer and the offset of the metadata that has what was decided

The client does not notice: the answer bears its correlation id, and the time that it is to be quiet holds here too.
"""

from __future__ import annotations

import ipaddress
import logging
from typing import TYPE_CHECKING, Final

from ottla.model.errors import ApiError
from ottla.protocol.api_keys import APIS

if TYPE_CHECKING:
    from ottla.gateways.kafka.api_table import Route
    from ottla.gateways.kafka.gateway import KafkaConnection
    from ottla.metadata.store.outage import StoreOutage
    from ottla.network.connection import ResponseSlot
    from ottla.peers.controller_channel import ControllerChannel
    from ottla.protocol.frame import RequestHeader

_log = logging.getLogger(__name__)

FORWARD_MS_MIN: Final = 5_000
"""A client that does not want to wait for what it asked for waits all the same while there is no controller."""
FORWARD_MS_MAX: Final = 25_000
"""Below the 30 s after which clients give up: they are told why."""

_CORRELATION_ID_BYTES: Final = 4


class Forwarding:
    """Belongs to the event loop."""

    __slots__ = ("_outage", "channel")

    def __init__(self, channel: ControllerChannel, outage: StoreOutage) -> None:
        self.channel = channel
        self._outage = outage

    async def send_on(
        self, connection: KafkaConnection, route: Route, header: RequestHeader, frame: memoryview, slot: ResponseSlot
    ) -> bool:
        """Have a request decided elsewhere and answer it; False when it is to be handled here.

        That is where this broker is the controller, and where nobody was in time or reaches the metadata store: then
        the handler finds the words in which its API says that. Raises InvalidInputError when it is no request.
        """
        channel = self.channel
        if channel.is_here:
            return False
        request = route.decode(frame, header.body_offset)
        timeout_ms = max(FORWARD_MS_MIN, min(getattr(request, "timeout_ms", FORWARD_MS_MAX), FORWARD_MS_MAX))
        try:
            response = await self._outage.limit(
                channel.forward(
                    frame,
                    connection.principal,
                    address_bytes(connection.connection.peer.host),
                    channel.deadline(timeout_ms),
                )
            )
        except ApiError as error:
            _log.warning("the controller did not answer a request of %s: %s", connection.connection.peer, error)
            return False
        if response is None:
            return False
        throttle_ms = _throttle_ms(header, response)
        if throttle_ms > 0:
            connection.connection.mute(throttle_ms)
        slot.send((len(response).to_bytes(4, "big"), response))
        return True


def address_bytes(host: str) -> bytes:
    """An address as it stands in an Envelope; nothing where it is none."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).packed
    except ValueError:
        return b""


def _throttle_ms(header: RequestHeader, response: memoryview) -> int:
    """The first field of most answers that the controller gives; those about delegation tokens have it last."""
    if not APIS[header.api_key].response_class.__struct_fields__[0].startswith("throttle"):
        return 0
    begin = _CORRELATION_ID_BYTES + APIS[header.api_key].response_header_version(header.api_version)
    return int.from_bytes(response[begin : begin + 4], "big", signed=True)
