"""The Kafka door: frames in, requests to handlers, answers out in order."""

import logging
from collections import deque
from collections.abc import Coroutine
from types import CoroutineType
from typing import Any, Final

from ottla.broker.broker import Broker
from ottla.gateways.kafka.api_table import ApiTable
from ottla.gateways.kafka.context import RequestContext
from ottla.gateways.kafka.fetch_session import FetchSessionCache
from ottla.gateways.kafka.task_gate import TaskGate
from ottla.groups.coordinator import GroupCoordinator
from ottla.model.error_code import ErrorCode
from ottla.model.errors import InvalidInputError
from ottla.network.connection import Connection, ResponseSlot
from ottla.network.receive_buffer import ReceiveBuffer
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.frame import RequestHeader, decode_request_header, encode_response
from ottla.protocol.messages.api_versions import ApiVersion as ServedVersions
from ottla.protocol.messages.api_versions import ApiVersionsResponse
from ottla.runtime.purgatory import DelayedOperation

_log = logging.getLogger(__name__)

LOOKED_UP_MAX: Final = 25_000
"""Partitions of fetches that wait for the disk, over all connections; beyond, a fetch is read in one go."""


class KafkaGateway:
    """What all connections of the Kafka door share."""

    def __init__(
        self, broker: Broker, groups: GroupCoordinator, apis: ApiTable, fetch_sessions: FetchSessionCache
    ) -> None:
        self.broker = broker
        self.groups = groups
        self.apis = apis
        self.fetch_sessions = fetch_sessions
        self.task_gate = TaskGate()
        self.looked_up_count = 0
        """Partitions of fetches whose look-ups wait for the disk."""
        self.looked_up_max = LOOKED_UP_MAX
        self.served_versions = tuple(
            ServedVersions(
                api_key=row.key,
                min_version=row.min_version if row.advertised_min_version is None else row.advertised_min_version,
                max_version=row.max_version,
            )
            for row in apis.rows.values()
        )
        """What ApiVersions answers, in the order of the keys."""

    def connect(self, connection: Connection) -> "KafkaConnection":
        """A new connection of a client."""
        return KafkaConnection(self, connection)


class KafkaConnection:
    """One client's connection: decodes its requests and runs their handlers.

    A handler that is a task holds back the requests behind it, so that a client which sends a change and a look at it
    in one go sees the change. Produce, Fetch and the group APIs hold nothing back.
    """

    __slots__ = ("_busy", "_held_back", "_is_closed", "connection", "gateway", "waiting_fetches")

    def __init__(self, gateway: KafkaGateway, connection: Connection) -> None:
        self.gateway = gateway
        self.connection = connection
        self._busy = False
        self._held_back: deque[tuple[memoryview, ReceiveBuffer, ResponseSlot]] = deque()
        self._is_closed = False
        self.waiting_fetches: set[DelayedOperation] = set()
        """Fetches that wait for records; they end with the connection."""

    def on_frame(self, frame: memoryview, lease: ReceiveBuffer, slot: ResponseSlot) -> None:
        """A whole request has arrived. Raises InvalidInputError when it cannot be one."""
        if self._busy:
            lease.retain()
            self._held_back.append((frame, lease, slot))
            return
        handled = self._handle(frame, lease, slot)
        if handled is not None:
            self._begin(*handled, frame, lease, slot)

    def on_close(self) -> None:
        """The connection is gone; requests held back are dropped, and those that wait for records."""
        self._is_closed = True
        while self._held_back:
            _, lease, _ = self._held_back.popleft()
            lease.release()
        for operation in tuple(self.waiting_fetches):
            operation.cancel()
        self.waiting_fetches.clear()

    def _begin(
        self,
        ctx: RequestContext,
        handling: Coroutine[Any, Any, Any],
        frame: memoryview,
        lease: ReceiveBuffer,
        slot: ResponseSlot,
    ) -> None:
        """A handler is a task: those behind it are held back until it is done."""
        self._busy = True
        lease.retain()
        if self.gateway.task_gate.enter(len(frame)):
            self._spawn(ctx, handling, frame, lease)
        else:
            # Decoded it would take many times its bytes for as long as it waits.
            handling.close()
            self.gateway.task_gate.wait(len(frame), lambda: self._serve_admitted(frame, lease, slot))

    def _handle(
        self, frame: memoryview, lease: ReceiveBuffer, slot: ResponseSlot
    ) -> tuple[RequestContext, Coroutine[Any, Any, Any]] | None:
        """Decode a request and handle it; what is left to do when its handler is a task."""
        header = decode_request_header(frame)
        apis, version = self.gateway.apis, header.api_version
        route = apis.routes.get((header.api_key, version)) or apis.route(header.api_key, version)
        if route is None:
            self._refuse(header, slot)
            return None
        request = route.decode(frame, header.body_offset)
        ctx = RequestContext(self, slot, version, header.correlation_id, header.client_id, lease)
        response = route.handle(ctx, request)
        if response is None:
            return None
        if response.__class__ is CoroutineType:
            return ctx, response
        ctx.respond(response)
        return None

    def _serve_admitted(self, frame: memoryview, lease: ReceiveBuffer, slot: ResponseSlot) -> None:
        """The gate has let a request in that had to wait; by now it may need no task any more."""
        handled = None
        try:
            if not self._is_closed:
                handled = self._handle(frame, lease, slot)
        except Exception as error:
            self.fail(error)
        if handled is None:
            self._finish(len(frame), lease)
        else:
            self._spawn(*handled, frame, lease)

    def _spawn(
        self, ctx: RequestContext, handling: Coroutine[Any, Any, Any], frame: memoryview, lease: ReceiveBuffer
    ) -> None:
        self.gateway.broker.tasks.spawn(self._run(ctx, handling, len(frame), lease), "kafka-request")

    async def _run(
        self, ctx: RequestContext, handling: Coroutine[Any, Any, Any], size: int, lease: ReceiveBuffer
    ) -> None:
        try:
            response = await handling
            if response is not None:
                ctx.respond(response)
        except Exception as error:
            self.fail(error)
        finally:
            self._finish(size, lease)

    def _finish(self, size: int, lease: ReceiveBuffer) -> None:
        lease.release()
        self._busy = False
        self.gateway.task_gate.leave(size)
        self._resume()

    def _resume(self) -> None:
        while self._held_back and not self._busy and not self._is_closed:
            frame, lease, slot = self._held_back.popleft()
            try:
                self.on_frame(frame, lease, slot)
            except Exception as error:
                self.fail(error)
            finally:
                lease.release()

    def fail(self, error: Exception) -> None:
        """A request could not be handled to its end: say why in the log, and close the connection."""
        if isinstance(error, InvalidInputError):
            self.connection.fail(str(error))
        else:
            self.break_off(error)

    def break_off(self, error: Exception) -> None:
        """As `fail`, whatever the error is: not the peer's bytes are wrong but our answer."""
        _log.error("a request of %s failed; its connection is closed", self.connection.peer, exc_info=error)
        self.connection.fail("a request failed inside the broker")

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
