"""How many entries a group has read, and how many it has not, where entries were deleted before it came to them."""

from __future__ import annotations

import asyncio
import re

import pytest

from tests.unit.gateways.redis.streams_in_memory import StreamsInMemory

Command = tuple[bytes, ...]
READ_ONE = (b"XREADGROUP", b"GROUP", b"g", b"alice", b"COUNT", b"1", b"STREAMS", b"s", b">")
NUMBERS = re.compile(rb"entries-read\r\n(.*?)\r\n\$3\r\nlag\r\n(.*?)\r\n").search


async def counted(commands: list[Command]) -> tuple[bytes, bytes]:
    """What XINFO GROUPS says of a group that has read the first of five entries, and runs these commands then."""
    server = StreamsInMemory(b"s")
    session = server.session()
    for number in range(1, 6):
        await server.run(session, b"XADD", b"s", b"%d-0" % number, b"f", b"v")
    await server.run(session, b"XGROUP", b"CREATE", b"s", b"g", b"0")
    for command in (READ_ONE, *commands):
        assert not (await server.run(session, *command)).startswith(b"-")
    said = NUMBERS(await server.run(session, b"XINFO", b"GROUPS", b"s"))
    assert said is not None
    return said[1], said[2]


@pytest.mark.parametrize(
    ("commands", "entries_read", "lag"),
    [
        ([], b":1", b":4"),
        ([READ_ONE], b":2", b":3"),
        ([(b"XTRIM", b"s", b"MAXLEN", b"1"), READ_ONE], b":5", b":0"),
        ([(b"XTRIM", b"s", b"MAXLEN", b"2"), READ_ONE], b":4", b":1"),
        ([(b"XDEL", b"s", b"2-0"), (b"XDEL", b"s", b"1-0"), READ_ONE], b":3", b":2"),
        ([(b"XDEL", b"s", b"3-0"), READ_ONE], b"$-1", b"$-1"),
        ([(b"XDEL", b"s", b"4-0"), *[READ_ONE] * 3], b":5", b":0"),
        ([READ_ONE, (b"XDEL", b"s", b"1-0"), READ_ONE], b":3", b":2"),
    ],
)
def test_entries_that_are_gone_count_as_read(commands: list[Command], entries_read: bytes, lag: bytes) -> None:
    assert asyncio.run(counted(commands)) == (entries_read, lag)
