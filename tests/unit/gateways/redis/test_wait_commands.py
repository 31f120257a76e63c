"""WAIT says how many replicas have what a client has written, and not before they do."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import Mock

import pytest

from ottla.gateways.redis.keyspace import UnwrittenError
from ottla.gateways.redis.session import WRITTEN_MAX, Session
from ottla.gateways.redis.stream_log import Flush
from ottla.gateways.redis.wait_commands import wait
from tests.unit.gateways.redis.streams_in_memory import StreamsInMemory

IN_SYNC = {"a": 3, "b": 2}


def with_replicas(server: StreamsInMemory) -> Session:
    placement: Any = Mock(has_peers=True, others=[2, 3])
    placement.topic_of = lambda place: place[1].decode() if place[1].decode() in IN_SYNC else None
    placement.in_sync_of = IN_SYNC.__getitem__
    server.keyspace.placement = placement
    server.gateway.config.replication_factor = 3
    return server.session()


def test_a_key_with_fewer_replicas_counts() -> None:
    async def run() -> None:
        server = StreamsInMemory(b"a", b"b")
        session = with_replicas(server)
        assert await server.run(session, b"WAIT", b"1", b"0") == b":2\r\n"
        await server.run(session, b"XADD", b"a", b"*", b"n", b"v")
        assert await server.run(session, b"WAIT", b"5", b"100") == b":2\r\n"
        await server.run(session, b"XLEN", b"b")
        assert await server.run(session, b"WAIT", b"1", b"0") == b":2\r\n"
        await server.run(session, b"XADD", b"b", b"*", b"n", b"v")
        assert await server.run(session, b"WAIT", b"1", b"0") == b":1\r\n"
        assert await server.run(session, b"WAITAOF", b"1", b"1", b"0") == b"*2\r\n:1\r\n:1\r\n"
        for number in range(WRITTEN_MAX - 1):
            session.wrote(b"gone-%d" % number)
        session.wrote(b"a")
        assert await server.run(session, b"WAIT", b"1", b"0") == b":2\r\n"

    asyncio.run(run())


def test_what_is_not_on_disk_is_waited_for_once() -> None:
    async def run() -> None:
        server = StreamsInMemory(b"a")
        session = with_replicas(server)
        await server.run(session, b"XADD", b"a", b"*", b"n", b"v")
        first = server.streams[b"a"].log.latest = Flush()
        first.undecided = 1
        with pytest.raises(UnwrittenError) as error:
            wait(session, [b"WAIT", b"1", b"0"])
        assert error.value.flushes == {first}
        server.streams[b"a"].log.latest = Flush()  # of another client
        first.decide(None)
        assert wait(session, [b"WAIT", b"1", b"0"]) == 2

    asyncio.run(run())


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("WAIT x 0", b"-ERR value is not an integer or out of range"),
        ("WAIT 1 x", b"-ERR timeout is not an integer or out of range"),
        ("WAIT 1 -1", b"-ERR timeout is negative"),
        ("WAIT 1", b"-ERR wrong number of arguments for 'wait' command"),
        ("WAITAOF 2 0 0", b"-ERR value is out of range, must be between 0 and 1"),
        ("WAITAOF 1 0 -1", b"-ERR timeout is negative"),
    ],
)
def test_bad_arguments_are_refused(command: str, error: bytes) -> None:
    async def run() -> bytes:
        server = StreamsInMemory()
        return await server.run(server.session(), *command.encode().split())

    assert asyncio.run(run()) == error + b"\r\n"


def test_one_broker_has_no_replicas() -> None:
    async def run() -> bytes:
        server = StreamsInMemory(b"a")
        session = server.session()
        await server.run(session, b"XADD", b"a", b"*", b"n", b"v")
        return await server.run(session, b"WAIT", b"0", b"0")

    assert asyncio.run(run()) == b":0\r\n"
