"""Requests while somebody has a quota: each is counted, and a client that is over its quota is told so and muted.

    Produce      its bytes when it arrives         Fetch    the bytes it gives, when they are read
    any request  the time it keeps the loop busy, when its handler is done

The answer leaves at once with the longest of these times to be quiet, and nothing more of the connection is read or
handled until then, however much the client has sent already (KIP-124, KIP-219). While nobody has a quota none of this
is there: `KafkaGateway.quotas` is None.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from ottla.broker.quota_manager import MutationQuota
from ottla.gateways.kafka.context import RequestContext
from ottla.protocol.api_keys import ApiKey
from ottla.runtime.timed_steps import TimedSteps

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.quota_manager import ClientQuotaManager, FetchVerdict
    from ottla.gateways.kafka.api_table import Route
    from ottla.gateways.kafka.gateway import KafkaConnection
    from ottla.network.connection import ResponseSlot
    from ottla.network.receive_buffer import ReceiveBuffer
    from ottla.protocol.frame import RequestHeader

_LENGTH_BYTES: Final = 4
"""The length before a frame counts as well, as in Kafka."""


class ChargedContext(RequestContext):
    """A request that is counted. Whoever answers it need not know."""

    __slots__ = ("_begun_ns", "_changes", "_quotas", "throttle_ms")

    def __init__(self, quotas: RequestQuotas, begun_ns: int | None, *request: Any) -> None:
        """`begun_ns` is when it began, None while its time is measured elsewhere; `request` is what a context takes."""
        super().__init__(*request)
        self._quotas = quotas
        self._begun_ns = begun_ns
        self._changes: MutationQuota | None = None
        self.throttle_ms = 0
        """For how long the client is to be quiet."""

    def throttle(self, throttle_ms: int) -> None:
        """The client is to be quiet for at least so long, from now on."""
        if throttle_ms > self.throttle_ms:
            self.throttle_ms = throttle_ms
            self.connection.mute(throttle_ms)

    def charge_time(self) -> None:
        """Count the time since the request began, once."""
        if self._begun_ns is not None:
            elapsed_ns = self._quotas.nanoseconds() - self._begun_ns
            self._begun_ns = None
            self.charge(elapsed_ns)

    def charge(self, elapsed_ns: int) -> None:
        """Count that time."""
        self.throttle(self._quotas.manager.handled(self.principal, self.client_id, elapsed_ns))

    def mutation_quota(self, strict_since: int) -> MutationQuota:
        is_strict = self.api_version >= strict_since
        self._changes = self._quotas.manager.changes(self.principal, self.client_id, is_strict=is_strict)
        return self._changes

    def respond(self, response: Any) -> None:
        super().respond(self._throttled(response))

    def respond_parts(self, response: Any) -> None:
        super().respond_parts(self._throttled(response))

    def no_response(self) -> None:
        self.charge_time()
        super().no_response()

    def _throttled(self, response: Any) -> Any:
        """The response with the time to be quiet in it, where it has a place for that."""
        self.charge_time()
        if self._changes is not None:
            self.throttle(self._changes.throttle_ms)
        if self.throttle_ms > getattr(response, "throttle_time_ms", self.throttle_ms):
            return replace(response, throttle_time_ms=self.throttle_ms)
        return response


class RequestQuotas:
    """Serves requests as `KafkaConnection` does, and counts them. Belongs to the event loop."""

    __slots__ = ("manager", "nanoseconds")

    def __init__(self, manager: ClientQuotaManager, nanoseconds: Callable[[], int]) -> None:
        self.manager = manager
        self.nanoseconds = nanoseconds

    def serve(
        self,
        connection: KafkaConnection,
        route: Route,
        header: RequestHeader,
        frame: memoryview,
        buffer: ReceiveBuffer,
        slot: ResponseSlot,
    ) -> None:
        """Decode a request and have it handled now."""
        ctx = ChargedContext(
            self,
            self.nanoseconds(),
            connection,
            slot,
            header.api_version,
            header.correlation_id,
            header.client_id,
            buffer,
        )
        if header.api_key == ApiKey.PRODUCE:
            size = len(frame) + _LENGTH_BYTES
            ctx.throttle(self.manager.produced(connection.principal, header.client_id, size))
        response = route.handle(ctx, route.decode(frame, header.body_offset))
        if response is not None:
            ctx.respond(response)
        else:
            ctx.charge_time()

    def context(self, *request: Any) -> ChargedContext:
        """A context whose changes of the metadata are counted, and whose time is not: somebody else measures it."""
        return ChargedContext(self, None, *request)

    async def serve_task(
        self,
        connection: KafkaConnection,
        route: Route,
        header: RequestHeader,
        frame: memoryview,
        buffer: ReceiveBuffer,
        slot: ResponseSlot,
    ) -> None:
        """The same for a request that is a task."""
        begun_ns = self.nanoseconds()
        ctx = ChargedContext(
            self, None, connection, slot, header.api_version, header.correlation_id, header.client_id, buffer
        )
        request = route.decode(frame, header.body_offset)
        decoded_ns = self.nanoseconds() - begun_ns
        steps = TimedSteps(route.handle(ctx, request), self.nanoseconds)
        response = await steps
        ctx.charge(decoded_ns + steps.elapsed_ns)
        if response is not None:
            ctx.respond(response)

    def fetch_bytes_max(self, ctx: RequestContext, wanted: int) -> int:
        """How much a fetch gives at most of what its client wants."""
        allowed = self.manager.fetch_bytes_max(ctx.principal, ctx.client_id)
        return wanted if allowed is None else min(wanted, allowed)

    def fetched(self, ctx: RequestContext, size_bytes: int) -> FetchVerdict:
        """Count what a fetch gives; who is over the quota is muted."""
        verdict = self.manager.fetched(ctx.principal, ctx.client_id, size_bytes)
        if verdict.throttle_ms:
            ctx.connection.mute(verdict.throttle_ms)
        return verdict
