"""Envelope (key 58), version 0 (KIP-590).

A broker sends on what a client asked of the controller: the request as it stands, the principal that the client has
proved to be, and its address. Only a broker that has proved the cluster's secret is believed; of anybody else's
envelope the inside is not looked at. Before the response stand eight bytes: the offset that the metadata had here.
"""

from __future__ import annotations

import ipaddress
import logging
from typing import TYPE_CHECKING, Any

from ottla.broker.access import require_broker
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.charged_request import ChargedContext
from ottla.gateways.kafka.context import RequestContext
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError, InvalidInputError
from ottla.network.address import Address
from ottla.peers.controller_channel import OFFSET_BYTES, decode_principal
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.frame import decode_request_header
from ottla.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.gateways.kafka.gateway import KafkaGateway
    from ottla.model.principal import Principal

_log = logging.getLogger(__name__)

_LENGTH_BYTES = 4


def handle(ctx: RequestContext, request: EnvelopeRequest) -> EnvelopeResponse | None:
    """Have the request inside decided, and answer with the response to it."""
    try:
        require_broker(ctx.principal)
    except ApiError as error:
        ctx.note_refusal(error.code, error.message)
        return EnvelopeResponse(error_code=error.code)
    ctx.go_on(_decide(ctx, request))
    return None


async def _decide(ctx: RequestContext, request: EnvelopeRequest) -> None:
    try:
        ctx.respond(await _response(ctx, request))
    except InvalidInputError as error:
        ctx.connection.complain(f"the forwarded request cannot be read: {error}")
        ctx.respond(EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST))
    except Exception:
        _log.exception("a request forwarded by %s failed", ctx.connection.peer)
        ctx.respond(EnvelopeResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))


async def _response(ctx: RequestContext, request: EnvelopeRequest) -> EnvelopeResponse:
    gateway = ctx.kafka_connection.gateway
    controller = ctx.broker.controller
    if not controller.is_active:
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    epoch = controller.epoch
    frame = memoryview(request.request_data)
    header = decode_request_header(frame)
    route = gateway.apis.route(header.api_key, header.api_version)
    if route is None or not route.is_decided_by_controller:
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
    host = _host(request.client_host_address)
    principal = decode_principal(request.request_principal or b"", host if gateway.keeps_hosts else "")
    client = _Client(gateway, ctx, principal, host)
    slot: Any = _Slot()
    inside: Any = (client, slot, header.api_version, header.correlation_id, header.client_id, ctx.buffer)
    if gateway.quotas is None:
        inner = RequestContext(*inside)
    else:
        # Its changes of the metadata are counted, and its time by whoever took the request from the client.
        charge = gateway.quotas.begin(client.principal, header.client_id, client.connection, is_timed=False)
        inner = ChargedContext(charge, *inside)
    response = await route.handle(inner, route.decode(frame, header.body_offset))
    if controller.epoch != epoch and _says(response, ErrorCode.NOT_CONTROLLER):
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    inner.respond(response)
    if slot.frame is None:
        return EnvelopeResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    offset = ctx.broker.image.end_offset.to_bytes(OFFSET_BYTES, "big")
    return EnvelopeResponse(response_data=offset + slot.frame[_LENGTH_BYTES:])


def _host(address: bytes) -> str:
    return str(ipaddress.ip_address(bytes(address))) if address else ""


def _says(response: Any, code: ErrorCode) -> bool:
    """Whether an error code stands anywhere in a message."""
    if isinstance(response, tuple):
        return any(_says(each, code) for each in response)
    fields = getattr(response, "__struct_fields__", ())
    return getattr(response, "error_code", None) == code or any(_says(getattr(response, name), code) for name in fields)


class _Slot:
    """The place of the answer inside."""

    def __init__(self) -> None:
        self.frame: bytes | None = None

    def send(self, parts: Sequence[bytes]) -> None:
        self.frame = b"".join(parts)

    def skip(self) -> None:
        """Nothing that is decided goes without an answer."""


class _Client:
    """A client's connection to the broker that sent its request on, as far as handlers look at one."""

    def __init__(self, gateway: KafkaGateway, ctx: RequestContext, principal: Principal, host: str) -> None:
        self.gateway = gateway
        self.principal = principal
        self.connection = self
        self._outer = ctx.connection
        self.local = ctx.connection.local
        self.listener_name = ctx.connection.listener_name
        self.is_closed = False
        self.peer = Address(host or ctx.connection.peer.host, 0)

    def complain(self, what: str) -> None:
        self._outer.complain(f"for {self.peer.host}: {what}")

    def mute(self, throttle_ms: int) -> None:
        """The broker that the client came to does it, by what the answer says."""

    def break_off(self, error: Exception) -> None:
        _log.error("a request forwarded by %s failed", self._outer.peer, exc_info=error)

    fail = break_off


API = Api(ApiKey.ENVELOPE, 0, 0, handle, is_between_brokers=True)
