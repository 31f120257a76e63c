"""Requests of Kafka clients that have a quota are counted, and their answers say for how long to be quiet.

Produce requests that are served as one are counted as one (`RequestBatcher`). Requests of other clients take the same
way as without any quota; while nobody has one, `KafkaGateway.quotas` is None.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from ottla.gateways.kafka.context import RequestContext
from ottla.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from ottla.broker.quota_manager import MutationQuota
    from ottla.broker.request_quotas import RequestCharge, RequestQuotas
    from ottla.gateways.kafka.api_table import Route
    from ottla.gateways.kafka.gateway import KafkaConnection
    from ottla.network.connection import ResponseSlot
    from ottla.network.receive_buffer import ReceiveBuffer
    from ottla.protocol.frame import RequestHeader

_LENGTH_BYTES: Final = 4
"""The length before a frame counts as well, as in Kafka."""


class ChargedContext(RequestContext):
    """A request that is counted. Whoever answers it need not know."""

    __slots__ = ("_charge",)

    def __init__(self, charge: RequestCharge, *request: Any) -> None:
        """`request` is what a context takes."""
        super().__init__(*request)
        self._charge = charge

    def mutation_quota(self, strict_since: int) -> MutationQuota:
        return self._charge.mutation_quota(is_strict=self.api_version >= strict_since)

    def respond(self, response: Any) -> None:
        super().respond(self._throttled(response))

    def respond_parts(self, response: Any) -> None:
        super().respond_parts(self._throttled(response))

    def no_response(self) -> None:
        self._charge.end()
        super().no_response()

    def _throttled(self, response: Any) -> Any:
        """The response with the time to be quiet in it, where it has a place for that."""
        self._charge.end()
        throttle_ms = self._charge.throttle_ms
        if throttle_ms > getattr(response, "throttle_time_ms", throttle_ms):
            return replace(response, throttle_time_ms=throttle_ms)
        return response


def serve(
    quotas: RequestQuotas,
    connection: KafkaConnection,
    route: Route,
    header: RequestHeader,
    frame: memoryview,
    buffer: ReceiveBuffer,
    slot: ResponseSlot,
) -> None:
    """Decode a request and have it handled now."""
    charge = quotas.begin(connection.principal, header.client_id, connection.connection)
    ctx = ChargedContext(charge, connection, slot, header.api_version, header.correlation_id, header.client_id, buffer)
    if header.api_key == ApiKey.PRODUCE:
        charge.produced(len(frame) + _LENGTH_BYTES)
    response = route.handle(ctx, route.decode(frame, header.body_offset))
    if response is not None:
        ctx.respond(response)
    else:
        charge.end()


async def serve_task(
    quotas: RequestQuotas,
    connection: KafkaConnection,
    route: Route,
    header: RequestHeader,
    frame: memoryview,
    buffer: ReceiveBuffer,
    slot: ResponseSlot,
) -> None:
    """The same for a request that is a task."""
    begun_ns = quotas.nanoseconds()
    charge = quotas.begin(connection.principal, header.client_id, connection.connection, is_timed=False)
    ctx = ChargedContext(charge, connection, slot, header.api_version, header.correlation_id, header.client_id, buffer)
    request = route.decode(frame, header.body_offset)
    response = await charge.timed(route.handle(ctx, request), quotas.nanoseconds() - begun_ns)
    if response is not None:
        ctx.respond(response)
