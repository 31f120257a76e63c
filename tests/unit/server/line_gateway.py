"""A gateway as small as one can be: lines that are echoed, in their order, and lines that the server sends by itself.

"anything"       the same line
"later NAME"     the same line, once the test releases NAME; lines behind it are answered after it
"push COUNT"     the same line, and so many lines "pushed" as fast as the client takes them
"""

import asyncio
from collections import defaultdict
from functools import partial
from typing import Final

from msgspec.structs import replace

from ottla.broker.broker import Broker
from ottla.network.config import NetworkConfig
from ottla.network.connection import Connection, ResponseSlot
from ottla.network.ordered_handler import OrderedHandler
from ottla.network.receive_buffer import ReceiveBuffer
from ottla.network.wire_protocol import WireProtocol
from ottla.server.listeners import GatewayAt
from ottla.settings.endpoint import Endpoint
from tests.unit.network.line_reader import LineReader

NAME: Final = "LINES"
PUSHED: Final = b"pushed" * 1_000 + b"\r\n"
LINE_BYTES_MAX: Final = 1_000


class LineGateway:
    """What all its connections share."""

    def __init__(self) -> None:
        self.broker: Broker | None = None
        self.connections: list[LineConnection] = []
        self.events: dict[str, asyncio.Event] = defaultdict(asyncio.Event)

    @property
    def at_a_free_port(self) -> GatewayAt:
        """For a broker."""
        return GatewayAt(Endpoint("127.0.0.1", 0, NAME), self._protocol)

    def _protocol(self, broker: Broker) -> WireProtocol:
        self.broker = broker
        return WireProtocol("lines", self._connect, LineReader, limits=_limits)

    def _connect(self, connection: Connection) -> "LineConnection":
        self.connections.append(LineConnection(self, connection))
        return self.connections[-1]


class LineConnection(OrderedHandler):
    """One client."""

    def __init__(self, gateway: LineGateway, connection: Connection) -> None:
        super().__init__(connection)
        self.gateway = gateway
        self.seen: list[bytes] = []
        self.to_push = 0
        self.pushed = 0
        self.is_closed = False

    def on_frame(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
        if self.pending_requests is not None:
            self.hold_back(frame, buffer, slot)
            return
        line, broker = bytes(frame), self.gateway.broker
        assert broker is not None
        self.seen.append(line)
        command, _, argument = line.decode().partition(" ")
        answer_later = partial(self._answer_later, argument, line, slot)
        if command == "later":
            broker.tasks.spawn(answer_later(), "line")
            return
        if command == "task":
            self.run_task((frame, buffer, slot), answer_later, broker.task_gate, broker.tasks)
            return
        slot.answer(line + b"\r\n")
        if command == "push":
            self.to_push += int(argument)
            self._push()

    async def _answer_later(self, name: str, line: bytes, slot: ResponseSlot) -> None:
        await self.gateway.events[name].wait()
        slot.answer(line + b"\r\n")

    def _push(self) -> None:
        while self.pushed < self.to_push:
            self.pushed += 1
            if not self.connection.push((PUSHED,), self._push):
                return

    def on_end_of_input(self) -> None:
        pass

    def on_close(self) -> None:
        self.is_closed = True
        self.drop_held_back()

    def fail(self, error: Exception, slot: ResponseSlot) -> None:
        self.connection.fail(str(error), slot)


def _limits(config: NetworkConfig) -> NetworkConfig:
    return replace(config, socket_request_max_bytes=LINE_BYTES_MAX)
