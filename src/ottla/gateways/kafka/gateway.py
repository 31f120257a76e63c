"""The Kafka door: frames in, requests to handlers, answers out in order."""

import logging
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import UUID

from ottla.broker.broker import Broker
from ottla.gateways.kafka.api_table import ApiTable, Route, Row
from ottla.gateways.kafka.context import RequestContext
from ottla.gateways.kafka.fetch_session import FetchSessionCache
from ottla.gateways.kafka.request_quotas import RequestQuotas
from ottla.gateways.kafka.task_gate import TaskGate
from ottla.model.error_code import ErrorCode
from ottla.model.errors import InvalidInputError
from ottla.model.principal import ANONYMOUS, BROKER
from ottla.network.connection import Connection, ResponseSlot
from ottla.network.receive_buffer import ReceiveBuffer
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.frame import (
    RequestHeader,
    decode_request,
    decode_request_header,
    encode_response,
)
from ottla.protocol.messages.api_versions import ApiVersion as ServedVersions
from ottla.protocol.messages.api_versions import ApiVersionsResponse
from ottla.runtime.purgatory import DelayedOperation

if TYPE_CHECKING:
    from ottla.gateways.kafka.forwarding import Forwarding
    from ottla.peers.authenticator import PeerAuthenticator
    from ottla.security.scram_server import ScramServer

_log = logging.getLogger(__name__)

LOOKED_UP_MAX: Final = 25_000
"""Partitions of fetches that wait for the disk, over all connections; beyond, a fetch is read in one go."""

TELEMETRY: Final = frozenset({ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY})
"""The APIs of client telemetry (KIP-714)."""

WAIT_BEHIND_FETCHES: Final = frozenset({ApiKey.FETCH, ApiKey.METADATA})
"""APIs whose answers wait as long as a Fetch before them, as in Kafka. Metadata is refreshed now and then, in the
background, and aiokafka's tests count on its place behind a Fetch that waits."""

HeldBack = tuple[memoryview, ReceiveBuffer, ResponseSlot]
"""A request that is not decoded yet."""


class KafkaGateway:
    """What all connections of the Kafka door share."""

    def __init__(self, broker: Broker, apis: ApiTable, fetch_sessions: FetchSessionCache) -> None:
        self.broker = broker
        self.apis = apis
        self.fetch_sessions = fetch_sessions
        self.task_gate = TaskGate()
        self.quotas: RequestQuotas | None = None
        """What counts requests; None while nobody has a quota."""
        self.looked_up_count = 0
        """Partitions of fetches whose look-ups wait for the disk."""
        self.looked_up_max = LOOKED_UP_MAX
        self.authenticator: PeerAuthenticator | None = None
        """Who believes brokers; None on one that is alone."""
        self.on_broker_left: Callable[[int], None] | None = None
        """Called with the number of a broker when a connection that it had proved itself on has ended."""
        self.forwarding: Forwarding | None = None
        """What sends requests on to the controller; None on one that is alone."""
        self.served_versions: tuple[ServedVersions, ...] = ()
        """What ApiVersions answers to clients, in the order of the keys."""
        self.tell_of_telemetry(False)
        self.served_versions_to_brokers = _served(apis.rows.values())
        """The same to brokers."""

    def tell_of_telemetry(self, does: bool) -> None:
        """Have ApiVersions tell clients that they may push their metrics, or not: those that know of it ask at once."""
        self.served_versions = _served(
            row for row in self.apis.rows.values() if not row.is_between_brokers and (does or row.key not in TELEMETRY)
        )

    def connect(self, connection: Connection) -> "KafkaConnection":
        """A new connection of a client."""
        return KafkaConnection(self, connection)


class KafkaConnection:
    """One client's connection: decodes its requests and runs their handlers.

    An API that is a task holds back the requests behind it, so that a client which sends a change and a look at it in
    one go sees the change. Produce, Fetch and the group APIs hold nothing back.
    """

    __slots__ = (
        "client_instance_id",
        "connection",
        "gateway",
        "has_finished",
        "held_back",
        "principal",
        "proof",
        "software",
        "waiting_fetches",
    )

    def __init__(self, gateway: KafkaGateway, connection: Connection) -> None:
        self.gateway = gateway
        self.connection = connection
        self.principal = ANONYMOUS
        """Who the client is, as far as it has proved it."""
        self.proof: ScramServer | None = None
        """The exchange in which it proves that it is a broker, while it lasts."""
        self.software: tuple[str, str] | None = None
        """What the client calls itself and its version (KIP-511); None while it has not said."""
        self.client_instance_id: UUID | None = None
        """The client instance whose metrics come by this connection; None while there are none (KIP-714)."""
        self.held_back: deque[HeldBack] | None = None
        """The requests behind one that is a task; None while there is no such task."""
        self.has_finished = False
        """Whether the client sends nothing more: no fetch of it waits, also one that was held back until then."""
        self.waiting_fetches: set[DelayedOperation] = set()
        """Fetches that wait for records; they end with the connection."""

    def on_frame(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
        """A whole request has arrived. Raises InvalidInputError when it cannot be one."""
        if self.held_back is not None:
            buffer.retain()
            self.held_back.append((frame, buffer, slot))
            return
        request = decode_request(frame)
        if self.waiting_fetches and request.api_key not in WAIT_BEHIND_FETCHES:
            self._answer_fetches()  # or the answer to this request would wait for them
        gateway, version = self.gateway, request.api_version
        apis = gateway.apis
        route = apis.routes.get((request.api_key, version)) or apis.route(request.api_key, version)
        if type(request) is not RequestHeader:
            if route is not None and route.handle_single is not None and gateway.quotas is None:
                route.handle_single(self, request, buffer, slot)
                return
            request = decode_request_header(frame)
        header = request
        if route is None:
            self._refuse(header, slot)
        elif route.is_task:
            self.held_back = deque()
            buffer.retain()
            # Admitted before it is decoded: decoded it would take many times its bytes for as long as it waits.
            start = partial(self._start, route, header, frame, buffer, slot)
            if route.follows_answers:
                slot.when_first(partial(gateway.task_gate.admit, len(frame), start))
            else:
                gateway.task_gate.admit(len(frame), start)
        elif gateway.quotas is not None and self.principal.type != BROKER:
            gateway.quotas.serve(self, route, header, frame, buffer, slot)
        else:
            ctx = RequestContext(self, slot, version, header.correlation_id, header.client_id, buffer)
            response = route.handle(ctx, route.decode(frame, header.body_offset))
            if response is not None:
                ctx.respond(response)

    def on_end_of_input(self) -> None:
        """The client sends nothing more: it gets what there is, and those who are gone hold nothing."""
        self.has_finished = True
        self._answer_fetches()

    def _answer_fetches(self) -> None:
        """Those that wait for records get what there is."""
        for operation in tuple(self.waiting_fetches):
            operation.force_complete()

    def on_close(self) -> None:
        """The connection is gone; requests held back are dropped, and those that wait for records."""
        while self.held_back:
            _, buffer, _ = self.held_back.popleft()
            buffer.release()
        for operation in tuple(self.waiting_fetches):
            operation.cancel()
        self.waiting_fetches.clear()
        if self.client_instance_id is not None:
            self.gateway.broker.client_metrics().forget(self.client_instance_id)
        if self.principal.type == BROKER and self.gateway.on_broker_left is not None:
            self.gateway.on_broker_left(int(self.principal.name))

    def _start(
        self, route: Route, header: RequestHeader, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot
    ) -> None:
        """The gate has let a request in: its handler runs as a task, or at once as far as it has not to wait."""
        if slot.is_void:
            self._finish(len(frame), buffer)
            return
        tasks = self.gateway.broker.tasks
        run = self._run(route, header, frame, buffer, slot)
        if route.begins_at_once:
            tasks.begin(run, "kafka-request")
        else:
            tasks.spawn(run, "kafka-request")

    async def _run(
        self, route: Route, header: RequestHeader, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot
    ) -> None:
        quotas, forwarding = self.gateway.quotas, self.gateway.forwarding
        try:
            if (
                forwarding is not None
                and route.is_decided_by_controller
                and (route.is_own is None or not route.is_own(route.decode(frame, header.body_offset)))
                and await forwarding.send_on(self, route, header, frame, slot)
            ):
                return
            if quotas is not None and self.principal.type != BROKER:
                await quotas.serve_task(self, route, header, frame, buffer, slot)
                return
            request = route.decode(frame, header.body_offset)
            ctx = RequestContext(self, slot, header.api_version, header.correlation_id, header.client_id, buffer)
            response = await route.handle(ctx, request)
            if response is not None:
                ctx.respond(response)
        except Exception as error:
            self.fail(error, slot)
        finally:
            self._finish(len(frame), buffer)

    def _finish(self, size: int, buffer: ReceiveBuffer) -> None:
        """A task is done, and no longer holds back those behind it."""
        buffer.release()
        self.gateway.task_gate.leave(size)
        if self.held_back and self.connection.is_muted:
            self.connection.when_unmuted(self._go_on)
        else:
            self._go_on()

    def _go_on(self) -> None:
        """Nothing holds back those behind any more."""
        held_back, self.held_back = self.held_back, None
        if held_back:
            self._resume(held_back)

    def _resume(self, held_back: deque[HeldBack]) -> None:
        """Handle those held back, up to the next that is a task."""
        while held_back:
            frame, buffer, slot = held_back.popleft()
            try:
                if not slot.is_void:
                    self.on_frame(frame, buffer, slot)
            except Exception as error:
                self.fail(error, slot)
            finally:
                buffer.release()
            if self.held_back is not None:
                self.held_back = held_back
                return
            if held_back and self.connection.is_muted:
                self.held_back = held_back
                self.connection.when_unmuted(self._go_on)
                return

    def fail(self, error: Exception, slot: ResponseSlot) -> None:
        """A request could not be handled to its end: say why in the log, and close the connection behind the answers to
        those before it.
        """
        if isinstance(error, InvalidInputError):
            self.connection.fail(str(error), slot)
        else:
            self.break_off(error, slot)

    def break_off(self, error: Exception, slot: ResponseSlot) -> None:
        """As `fail`, whatever the error is: not the peer's bytes are wrong but our answer."""
        _log.error("a request of %s failed; its connection is closed", self.connection.peer, exc_info=error)
        self.connection.fail("a request failed inside the broker", slot)

    def _refuse(self, header: RequestHeader, slot: ResponseSlot) -> None:
        """ApiVersions of an unknown version is answered in version 0, so that the client can try again (KIP-511)."""
        api = self.gateway.apis.find(header.api_key)
        if api is None:
            raise InvalidInputError(f"a request of API key {header.api_key}, which this broker does not serve")
        if api.key is not ApiKey.API_VERSIONS:
            raise InvalidInputError(
                f"a request of {api.key.name} version {header.api_version}; "
                f"this broker serves {api.min_version} to {api.max_version}"
            )
        response = ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            api_keys=tuple(entry for entry in self.gateway.served_versions if entry.api_key == ApiKey.API_VERSIONS),
        )
        slot.send((encode_response(header.correlation_id, response, 0),))


def _served(rows: Iterable[Row]) -> tuple[ServedVersions, ...]:
    return tuple(
        ServedVersions(
            api_key=row.key,
            min_version=row.min_version if row.advertised_min_version is None else row.advertised_min_version,
            max_version=row.max_version,
        )
        for row in rows
    )
