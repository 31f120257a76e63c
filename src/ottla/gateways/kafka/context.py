"""What a handler knows of the request it serves, and how it answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.quota_manager import NO_MUTATION_QUOTA, MutationQuota
from ottla.gateways.kafka.refusals import BAD_INPUT
from ottla.model.error_code import ErrorCode
from ottla.protocol.frame import encode_response, encode_response_parts

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from ottla.broker.broker import Broker
    from ottla.gateways.kafka.gateway import KafkaConnection
    from ottla.model.principal import Principal
    from ottla.network.connection import Connection, ResponseSlot
    from ottla.network.receive_buffer import ReceiveBuffer


class RequestContext:
    """One request in flight.

    It must be answered exactly once, by `respond`, `respond_parts`, `no_response` or `fail`; the answers of a
    connection leave in the order of its requests whatever order they are given in. None of these raises: an answer that
    cannot be made closes the connection, and whoever gave it goes on with others. To let go of a context and not answer
    closes the connection too.
    """

    __slots__ = ("_slot", "api_version", "buffer", "client_id", "correlation_id", "kafka_connection")

    def __init__(
        self,
        kafka_connection: KafkaConnection,
        slot: ResponseSlot,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        buffer: ReceiveBuffer,
    ) -> None:
        self.kafka_connection = kafka_connection
        self._slot = slot
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.buffer = buffer
        """The buffer the request lies in. Retain it to keep records beyond the handler's return, then release it."""

    @property
    def connection(self) -> Connection:
        """The connection the request came by: its peer and the address by which the peer reached us."""
        return self.kafka_connection.connection

    @property
    def principal(self) -> Principal:
        """Who asks."""
        return self.kafka_connection.principal

    @property
    def broker(self) -> Broker:
        """What the broker can do."""
        return self.kafka_connection.gateway.broker

    def note_refusal(self, error: int, message: str | None = None) -> None:
        """Say in the log that the peer was refused something, if that is news (`ottla.gateways.kafka.refusals`)."""
        if error in BAD_INPUT:
            what = ErrorCode(error).name if not message else f"{ErrorCode(error).name}: {message}"
            self.connection.complain(f"client {self.client_id!r} is refused: {what}")

    def mutation_quota(self, strict_since: int) -> MutationQuota:
        """How much the request may change of the metadata; from the version `strict_since` on the rest is refused."""
        del strict_since
        return NO_MUTATION_QUOTA

    def respond(self, response: Any) -> None:
        """Answer with a message."""
        try:
            if error := getattr(response, "error_code", 0):
                self.note_refusal(error, getattr(response, "error_message", None))
            self._slot.send((encode_response(self.correlation_id, response, self.api_version),))
        except Exception as mistake:
            self.kafka_connection.break_off(mistake, self._slot)

    def respond_parts(self, response: Any) -> None:
        """Answer with a message whose records are slices of files, which go to the socket without a copy."""
        try:
            parts: Sequence[Any] = encode_response_parts(self.correlation_id, response, self.api_version)
            self._slot.send(parts)
        except Exception as mistake:
            self.kafka_connection.break_off(mistake, self._slot)

    def no_response(self) -> None:
        """Say that this request has no answer (Produce with acks=0)."""
        self._slot.skip()

    def go_on(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Have the rest done by a task, which answers through this context; what it raises closes the connection.

        For a handler that has to wait for the disk this time. Requests behind it are not held back, and how many such
        tasks there may be is for the handler to limit.
        """
        self.broker.tasks.spawn(self._go_on(coroutine), "kafka-request")

    async def _go_on(self, coroutine: Coroutine[Any, Any, None]) -> None:
        try:
            await coroutine
        except Exception as error:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """Give up: why is said in the log, with a traceback unless the peer is at fault (InvalidInputError), and the
        connection is closed.
        """
        self.kafka_connection.fail(error, self._slot)
