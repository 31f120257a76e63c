"""What a broker logs of lookup services that are away."""

import asyncio
import logging
from typing import Any

import pytest

from ottla.gateways.nsq.lookupd_peer import LookupdPeer
from tests.system.nsq_client import sized
from tools.ports import free_ports


class EnoughError(Exception):
    """It was tried often enough."""


class Timer:
    """A timer that does not wait, and ends what waits for it the third time."""

    def __init__(self) -> None:
        self._left = 3

    async def sleep(self, _: int) -> None:
        self._left -= 1
        if not self._left:
            raise EnoughError


class Clock:
    """A clock that stands still."""

    def monotonic_ms(self) -> int:
        return 0


async def warnings_of(port: int, caplog: pytest.LogCaptureFixture) -> list[str]:
    """What is logged as a warning by the time a broker has tried three times to register."""

    async def registrations() -> Any:
        await asyncio.sleep(0)
        peer.changed()
        return frozenset()

    timer: Any = Timer()
    clock: Any = Clock()
    peer = LookupdPeer(f"127.0.0.1:{port}", dict, registrations, clock, timer)
    with pytest.raises(EnoughError):
        await peer.run()
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


async def test_a_service_that_cannot_be_reached_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    (port,) = free_ports(1)
    [warning] = await warnings_of(port, caplog)
    assert warning.startswith(f"lookup service 127.0.0.1:{port} cannot be reached: ")


async def test_a_service_that_goes_is_said_to_have_closed_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(sized(b"OK"))
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        warnings = await warnings_of(port, caplog)
    assert warnings == [f"lookup service 127.0.0.1:{port}: it closed the connection"] * 3
