"""The settings of a listener and its connections."""

import logging
from collections.abc import Mapping
from typing import Final, Self

from msgspec import Struct, field
from msgspec.structs import replace

from ottla.settings.broker_settings import BrokerSettings
from ottla.settings.connection_overrides import parse_connection_overrides

logger = logging.getLogger(__name__)

KIB = 1024
MIB = 1024 * KIB

LOGIN_MS: Final = 60_000
"""A client that has to log in and has not after so long is closed, whatever it sends meanwhile: a stranger that sends a
byte now and then is never idle."""


class NetworkConfig(Struct, frozen=True):
    """What a listener allows. Names are those of Apache Kafka's settings where it has them, dots as underscores.

    Raises ValueError at construction for a value that cannot be meant.
    """

    socket_request_max_bytes: int = 100 * MIB
    """A larger request closes its connection."""

    queued_max_request_bytes: int = 256 * MIB
    """The budget of `ottla.network.request_memory`. Apache Kafka sets no bound unless it is told to."""

    connections_max_idle_ms: int = 600_000
    """A connection on which nothing moves for so long is closed; -1 for never. One whose request is being handled is
    not idle; one that does not read its responses is."""

    max_connections: int = 2_147_483_647
    """Connections at a time. More are closed as they come."""

    max_connections_per_ip: int = 2_147_483_647
    """Connections at a time from one address. More are closed as they come; with 0, all."""

    max_connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    """The same for these addresses."""

    socket_send_buffer_bytes: int = 100 * KIB
    """SO_SNDBUF; -1 leaves it to the operating system, which makes it as large as a long way needs. Apache Kafka's
    default, and on the same machine or network twice as fast at half the CPU as the system's: what waits in a small
    buffer is still in the processor's cache when it is sent."""

    socket_receive_buffer_bytes: int = -1
    """SO_RCVBUF; -1 leaves it to the operating system, which adapts it. Apache Kafka's default of 100 KiB costs a
    quarter of the throughput of large requests (`benchmarks/network.py --buffers`)."""

    socket_listen_backlog_size: int = 1_024
    """Connections that the operating system accepts ahead of us. Apache Kafka's 50 overflow when a few hundred clients
    come back at once."""

    in_flight_requests_max: int = 1_000
    """Unanswered requests of a connection; then it is read no more until half of them are answered."""

    out_bytes_max: int = 256 * KIB
    """Bytes of responses in memory that a connection has not taken; then it is read no more until half of them are
    gone. Slices of files are not in memory."""

    out_bytes_total_max: int = 64 * MIB
    """The same over all connections of the listener: above it, each may have a sixteenth of `out_bytes_max`."""

    stalled_request_ms: int = 10_000
    """While others wait for memory, whoever holds part of a request and sends nothing for so long is closed."""

    def __post_init__(self) -> None:
        for name in (
            "socket_request_max_bytes",
            "max_connections",
            "socket_listen_backlog_size",
            "in_flight_requests_max",
            "out_bytes_max",
            "out_bytes_total_max",
            "stalled_request_ms",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.max_connections_per_ip < 0:
            raise ValueError(f"max_connections_per_ip must not be negative, but is {self.max_connections_per_ip}")
        for name in ("connections_max_idle_ms", "socket_send_buffer_bytes", "socket_receive_buffer_bytes"):
            if getattr(self, name) < 1 and getattr(self, name) != -1:
                raise ValueError(f"{name} must be at least 1, or -1, not {getattr(self, name)}")
        if self.queued_max_request_bytes < 4 * MIB:
            raise ValueError(f"queued_max_request_bytes must be at least 4 MiB, not {self.queued_max_request_bytes}")

    @classmethod
    def from_settings(cls, settings: BrokerSettings, connections_max: int) -> Self:
        """The section of a broker's settings.

        There are never more than `connections_max` connections, as many as the limit on open files leaves for them.
        """
        config = cls(
            socket_request_max_bytes=settings.integer("socket.request.max.bytes"),
            queued_max_request_bytes=settings.integer("queued.max.request.bytes"),
            connections_max_idle_ms=settings.integer("connections.max.idle.ms"),
            max_connections=settings.integer("max.connections"),
            max_connections_per_ip=settings.integer("max.connections.per.ip"),
            max_connections_per_ip_overrides=parse_connection_overrides(
                settings.text("max.connections.per.ip.overrides") or ""
            ),
            socket_send_buffer_bytes=settings.integer("socket.send.buffer.bytes"),
            socket_receive_buffer_bytes=settings.integer("socket.receive.buffer.bytes"),
            socket_listen_backlog_size=settings.integer("socket.listen.backlog.size"),
        )
        if config.max_connections <= connections_max:
            return config
        if settings.is_set("max.connections"):
            logger.warning(
                "max.connections is %d, but the limit on open files (ulimit -n) leaves only %d for connections; "
                "no more are accepted",
                config.max_connections,
                connections_max,
            )
        return replace(config, max_connections=connections_max)

    @property
    def out_bytes_hard_max(self) -> int:
        """With more bytes than this in responses, those who have not read for the longest time are closed."""
        return 2 * self.out_bytes_total_max
