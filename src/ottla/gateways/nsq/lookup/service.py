"""A lookup service: servers register over TCP, clients and nsqadmin ask over HTTP."""

import socket
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from ottla.gateways.nsq.identify import VERSION
from ottla.gateways.nsq.lookup.connection import LookupConnection
from ottla.gateways.nsq.lookup.registry import INACTIVE_MS, LookupRegistry
from ottla.network.http_connection import IDLE_MS, HttpConnection
from ottla.network.piece_reader import PieceReader
from ottla.network.wire_protocol import WireProtocol
from ottla.runtime.environment import Environment

if TYPE_CHECKING:
    from ottla.network.config import NetworkConfig

CONNECTIONS_MAX: Final = 100_000


class LookupService:
    """Belongs to the event loop."""

    def __init__(self, environment: Environment, broadcast_address: str = "") -> None:
        """`broadcast_address` is the host by which servers are told that they reached this one."""
        self.environment = environment
        self.registry = LookupRegistry()
        self.tcp_port = 0
        self.http_port = 0
        self._host = socket.gethostname()
        self._broadcast_address = broadcast_address or self._host

    def now_ms(self) -> int:
        """The time by which producers are counted as silent."""
        return self.environment.clock.monotonic_ms()

    def identity(self) -> bytes:
        """What a server is told that identifies itself."""
        return msgspec.json.encode(
            {
                "broadcast_address": self._broadcast_address,
                "hostname": self._host,
                "http_port": self.http_port,
                "tcp_port": self.tcp_port,
                "version": VERSION,
            }
        )

    def tcp_protocol(self) -> WireProtocol:
        """What a listener for servers speaks."""
        return WireProtocol(
            "NSQ-lookup",
            lambda connection: LookupConnection(self, connection),
            PieceReader,
            limits=lambda config: _idle(config, INACTIVE_MS),
        )

    def http_protocol(self) -> WireProtocol:
        """What a listener for clients speaks."""
        from ottla.gateways.nsq.lookup.http_api import LookupHttpApi

        service = LookupHttpApi(self).service()
        return WireProtocol(
            "HTTP",
            lambda connection: HttpConnection(service, connection),
            PieceReader,
            limits=lambda config: _idle(config, IDLE_MS),
        )


def _idle(config: "NetworkConfig", idle_ms: int) -> "NetworkConfig":
    return replace(config, connections_max_idle_ms=idle_ms)
