"""COMMAND GETKEYS and LIST, CLIENT LIST of some clients, and INFO of the process."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.gateways.redis.streams_in_memory import StreamsInMemory


def reply_to(command: str) -> bytes:
    async def run() -> bytes:
        server = StreamsInMemory()
        sessions = [server.session(), server.session()]
        sessions[1].identity = 2
        server.gateway.sessions = sessions
        return await server.run(sessions[0], *command.encode().split())

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        ("COMMAND GETKEYS XADD s 1 f v", b"*1\r\n$1\r\ns\r\n"),
        ("COMMAND GETKEYS XGROUP CREATE s g $", b"*1\r\n$1\r\ns\r\n"),
        ("command getkeys xread STREAMS a b 1 2", b"*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
        ("COMMAND GETKEYS MOVE a 0", b"*1\r\n$1\r\na\r\n"),
        ("COMMAND GETKEYS DEL a b a", b"*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\na\r\n"),
        ("COMMAND GETKEYS PING x", b"-ERR The command has no key arguments\r\n"),
        ("COMMAND GETKEYS XADD s", b"-ERR Invalid number of arguments specified for command\r\n"),
        ("COMMAND GETKEYS XREAD a b c d", b"-ERR Invalid arguments specified for command\r\n"),
        ("COMMAND GETKEYS FOO a", b"-ERR Invalid command specified\r\n"),
        ("COMMAND GETKEYS", b"-ERR wrong number of arguments for 'command|getkeys' command\r\n"),
        ("COMMAND LIST FILTERBY PATTERN XACK*", b"*2\r\n$4\r\nxack\r\n$7\r\nxackdel\r\n"),
        ("COMMAND LIST FILTERBY MODULE x", b"*0\r\n"),
        ("COMMAND LIST foo", b"-ERR syntax error\r\n"),
        ("CLIENT LIST ID x", b"-ERR Invalid client ID\r\n"),
        ("CLIENT LIST TYPE x", b"-ERR Unknown client type 'x'\r\n"),
        ("CLIENT LIST TYPE pubsub", b"$0\r\n\r\n"),
        ("CLIENT LIST ID", b"-ERR syntax error\r\n"),
    ],
)
def test_replies_are_those_of_redis(command: str, reply: bytes) -> None:
    assert reply_to(command) == reply


@pytest.mark.parametrize(
    ("command", "numbers"),
    [("CLIENT LIST", [1, 2]), ("CLIENT LIST ID 2 7", [2]), ("CLIENT LIST TYPE normal", [1, 2])],
)
def test_only_the_clients_that_are_asked_for_are_listed(command: str, numbers: list[int]) -> None:
    assert [line.count(b"id=%d " % number) for line in (reply_to(command),) for number in (1, 2)] == [
        int(number in numbers) for number in (1, 2)
    ]
