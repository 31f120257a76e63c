"""Requests in flight without a socket: the context a handler gets is the real one, its answer goes to the test."""

from collections.abc import Callable
from typing import Any

from ottla.broker.look_ups import LookUps
from ottla.gateways.kafka.apis import APIS
from ottla.gateways.kafka.context import RequestContext
from ottla.gateways.kafka.fetch_session import FetchSessionCache
from ottla.gateways.kafka.gateway import KafkaConnection, KafkaGateway
from ottla.network.address import Address
from ottla.network.task_gate import TaskGate

CLIENT_ID = "client"
HERE = Address("127.0.0.1", 9092)
NOTHING: Any = None
"""What no request of these tests looks at."""


class Peer:
    """The connection of a client that is not there: where it came from and by which address."""

    listener_name = "PLAINTEXT"

    def __init__(self, local: Address = HERE, host: str = "127.0.0.1") -> None:
        self.local = local
        self.peer = Address(host, 50000)
        self.is_closed = False
        self.is_muted = False
        self.failures: list[str] = []

    def fail(self, reason: str) -> None:
        """The connection is closed, and why."""
        self.is_closed = True
        self.failures.append(reason)


def gateway_of(broker: Any, fetch_sessions: FetchSessionCache = NOTHING) -> KafkaGateway:
    """The Kafka gateway of what a test has of a broker."""
    for name, limit in (("task_gate", TaskGate), ("look_ups", LookUps)):
        if not hasattr(broker, name):
            setattr(broker, name, limit())
    return KafkaGateway(broker, APIS, fetch_sessions)


class AnsweredContext(RequestContext):
    """Gives its answer to `on_answer` before it is encoded, and collects what was refused and what failed."""

    def __init__(
        self, gateway: KafkaGateway, version: int, on_answer: Callable[[Any], None], connection: Peer | None = None
    ) -> None:
        its_connection: Any = connection or Peer()
        super().__init__(KafkaConnection(gateway, its_connection), NOTHING, version, 0, CLIENT_ID, NOTHING)
        self._on_answer = on_answer
        self.refusals: list[tuple[int, str | None]] = []
        self.failures: list[Exception] = []

    def respond(self, response: Any) -> None:
        self._on_answer(response)

    def respond_parts(self, response: Any) -> None:
        self._on_answer(response)

    def note_refusal(self, error: int, message: str | None = None) -> None:
        self.refusals.append((error, message))

    def fail(self, error: Exception) -> None:
        self.failures.append(error)
