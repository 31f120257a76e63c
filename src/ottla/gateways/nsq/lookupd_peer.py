"""A lookup service at which this broker registers: nsqlookupd, or `ottla lookupd`.

    connect --> "  V1" IDENTIFY --> REGISTER what it has --> every second: what changed; every 15 s: PING
       ^                                                                 |
       +------------------- again, after a while ------------------------+  the connection ends

A topic is registered by each broker that leads it or has a replica of it in sync: clients get its messages at any.
"""

import asyncio
import contextlib
import logging
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from msgspec import Struct

from ottla.gateways.nsq.identify import VERSION
from ottla.gateways.nsq.lookup.connection import MAGIC
from ottla.runtime.clock import Clock
from ottla.runtime.timer import Timer
from ottla.settings.endpoint import parse_host_port

logger = logging.getLogger(__name__)

LOOK_MS: Final = 1_000
"""How often it is looked what changed, unless somebody says that something did."""
PING_MS: Final = 15_000
RETRY_MS_MAX: Final = 15_000
TIMEOUT_MS: Final = 10_000
ANSWER_BYTES_MAX: Final = 1024 * 1024


Registrations = frozenset[tuple[str, str]]
"""Topics that a broker has, and their channels; an empty channel for the topic itself."""


class LookupdPeer:
    """Belongs to the event loop; `run` is its task."""

    def __init__(
        self,
        address: str,
        identity: Callable[[], dict[str, Any]],
        registrations: Callable[[], Awaitable[Registrations]],
        clock: Clock,
        timer: Timer,
    ) -> None:
        """`identity` is what is said with IDENTIFY."""
        self.address = address
        self._identity = identity
        self._registrations = registrations
        self._clock = clock
        self._timer = timer
        self._changed = asyncio.Event()
        self.http_address: tuple[str, int] | None = None
        """Where the service can be asked, once it has said so."""

    def changed(self) -> None:
        """What the broker has is another."""
        self._changed.set()

    async def run(self) -> None:
        """Stay registered until the task is cancelled."""
        retry_ms = 100
        is_known_away = False
        while True:
            try:
                async with asyncio.timeout(TIMEOUT_MS / 1000):
                    reader, writer = await asyncio.open_connection(*parse_host_port(self.address))
            except (OSError, TimeoutError) as error:
                level = logging.INFO if is_known_away else logging.WARNING
                logger.log(level, "lookup service %s cannot be reached: %s", self.address, str(error) or "no answer")
                is_known_away = True
            else:
                is_known_away = False
                try:
                    await self._stay(_Exchange(reader, writer))
                except (OSError, EOFError, TimeoutError, _RefusedError) as error:
                    logger.warning("lookup service %s: %s", self.address, str(error) or "it closed the connection")
                finally:
                    writer.close()
                    with contextlib.suppress(OSError):
                        await writer.wait_closed()
                retry_ms = 100
            await self._timer.sleep(retry_ms)
            retry_ms = min(2 * retry_ms, RETRY_MS_MAX)

    async def _stay(self, exchange: "_Exchange") -> None:
        """Register, and follow what changes, until the connection ends."""
        said = msgspec.json.encode(self._identity())
        answer = await exchange.ask(MAGIC + b"IDENTIFY\n" + struct.pack(">i", len(said)) + said)
        self.http_address = _http_address(answer)
        told: Registrations = frozenset()
        clock = self._clock
        heard_ms = clock.monotonic_ms()
        while True:
            self._changed.clear()
            wanted = await self._registrations()
            commands = _difference(told, wanted)
            if not commands and clock.monotonic_ms() - heard_ms >= PING_MS:
                commands = ["PING"]
            for command in commands:
                await exchange.ask(command.encode() + b"\n")
            if commands:
                heard_ms = clock.monotonic_ms()
            told = wanted
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_MS / 1000):
                    await self._changed.wait()
            exchange.require_open()


class _Service(Struct):
    broadcast_address: str = ""
    http_port: int = 0


def _http_address(answer: bytes) -> tuple[str, int] | None:
    try:
        service = msgspec.json.decode(answer, type=_Service)
    except msgspec.DecodeError:
        return None
    return (service.broadcast_address, service.http_port) if service.broadcast_address and service.http_port else None


class _RefusedError(Exception):
    """The service answered with an error."""


class _Exchange:
    """Commands and answers, one after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, data: bytes) -> bytes:
        """The answer to a command. Raises OSError, EOFError, TimeoutError, _RefusedError."""
        async with asyncio.timeout(TIMEOUT_MS / 1000):
            self._writer.write(data)
            await self._writer.drain()
            size = int.from_bytes(await self._reader.readexactly(4), "big", signed=True)
            if not 0 <= size <= ANSWER_BYTES_MAX:
                raise _RefusedError(f"an answer of {size} bytes cannot be")
            answer = await self._reader.readexactly(size)
        if answer.startswith(b"E_"):
            raise _RefusedError(answer.decode(errors="replace"))
        return answer

    def require_open(self) -> None:
        """Raises EOFError when the service has closed the connection."""
        if self._reader.at_eof():
            raise EOFError


def _difference(told: Registrations, wanted: Registrations) -> list[str]:
    """The commands that make the one the other. A topic stands before its channels, and is taken back after them.

    >>> _difference(frozenset({("a", ""), ("a", "c")}), frozenset())
    ['UNREGISTER a c', 'UNREGISTER a']
    """
    gone, new = told - wanted, wanted - told
    commands = [f"UNREGISTER {topic} {channel}".rstrip() for topic, channel in sorted(gone, reverse=True)]
    return commands + [f"REGISTER {topic} {channel}".rstrip() for topic, channel in sorted(new)]


def identity(broadcast_address: str, tcp_port: int, http_port: int) -> dict[str, Any]:
    """What a broker says of itself. A lookup service takes no port of 0: without the HTTP API it is that of TCP."""
    host = socket.gethostname()
    return {
        "broadcast_address": broadcast_address or host,
        "hostname": host,
        "tcp_port": tcp_port,
        "http_port": http_port or tcp_port,
        "version": VERSION,
    }
