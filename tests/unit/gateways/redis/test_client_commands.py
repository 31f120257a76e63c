"""CLIENT KILL ends the connections that it names, and CLIENT LIST shows what clients do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ottla.gateways.redis.session import Session
from ottla.model.principal import ANONYMOUS
from tests.unit.gateways.redis.streams_in_memory import StreamsInMemory


class Clients:
    """Three clients, the first of which gives commands."""

    def __init__(self) -> None:
        self.server = StreamsInMemory()
        gateway = self.server.gateway
        self.sessions = [
            Session(
                gateway, number, f"10.0.0.{number}:5", "10.0.0.9:6379", self.server.now_ms - number * 1_000, ANONYMOUS
            )
            for number in (1, 2, 3)
        ]
        gateway.sessions = self.sessions
        self.killed: list[int] = []
        gateway.kill = self.killed.append

    async def run(self, words: str) -> bytes:
        return await self.server.run(self.sessions[0], *words.encode().split())


def with_clients(use: Callable[[Clients], Awaitable[None]]) -> None:
    async def run() -> None:
        await use(Clients())

    asyncio.run(run())


@pytest.mark.parametrize(
    ("words", "reply", "killed"),
    [
        ("CLIENT KILL 10.0.0.2:5", b"+OK\r\n", [2]),
        ("CLIENT KILL ID 2", b":1\r\n", [2]),
        ("client kill id 7", b":0\r\n", []),
        ("CLIENT KILL ADDR 10.0.0.3:5", b":1\r\n", [3]),
        ("CLIENT KILL LADDR 10.0.0.9:6379", b":2\r\n", [2, 3]),
        ("CLIENT KILL USER default", b":2\r\n", [2, 3]),
        ("CLIENT KILL USER alice", b":0\r\n", []),
        ("CLIENT KILL TYPE normal ID 3", b":1\r\n", [3]),
        ("CLIENT KILL TYPE pubsub", b":0\r\n", []),
        ("CLIENT KILL MAXAGE 3", b":1\r\n", [3]),
    ],
)
def test_clients_are_killed(words: str, reply: bytes, killed: list[int]) -> None:
    async def use(clients: Clients) -> None:
        assert await clients.run(words) == reply
        assert (clients.killed, clients.sessions[0].is_killed) == (killed, False)

    with_clients(use)


@pytest.mark.parametrize(
    ("words", "reply"),
    [("CLIENT KILL 10.0.0.1:5", b"+OK\r\n"), ("CLIENT KILL ID 1 SKIPME no", b":1\r\n")],
)
def test_a_client_that_kills_itself_is_answered_first(words: str, reply: bytes) -> None:
    async def use(clients: Clients) -> None:
        assert await clients.run(words) == reply
        assert (clients.killed, clients.sessions[0].is_killed) == ([], True)

    with_clients(use)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("CLIENT KILL 1.1.1.1:1", b"-ERR No such client"),
        ("CLIENT KILL ID 0", b"-ERR client-id should be greater than 0"),
        ("CLIENT KILL TYPE foo", b"-ERR Unknown client type 'foo'"),
        ("CLIENT KILL ID 2 SKIPME maybe", b"-ERR syntax error"),
        ("CLIENT KILL ID 2 SKIPME", b"-ERR syntax error"),
        ("CLIENT KILL FOO 2", b"-ERR syntax error"),
        ("CLIENT PAUSE 10", b"-ERR CLIENT PAUSE is not served"),
    ],
)
def test_nobody_is_killed_where_the_command_is_refused(words: str, error: bytes) -> None:
    async def use(clients: Clients) -> None:
        assert await clients.run(words) == error + b"\r\n"
        assert clients.killed == []

    with_clients(use)


def test_the_list_shows_what_clients_did_last_and_when() -> None:
    async def use(clients: Clients) -> None:
        other = clients.sessions[1]
        await clients.server.run(other, b"ECHO", b"x")
        clients.server.now_ms += 5_000
        listed = await clients.run("CLIENT LIST ID 2")
        assert b" age=7 idle=5 " in listed
        assert b" cmd=echo " in listed

    with_clients(use)


@pytest.mark.parametrize("name", ["CLIENT", "COMMAND", "CONFIG", "XGROUP"])
def test_help_is_what_errors_say_it_is(name: str) -> None:
    async def use(clients: Clients) -> None:
        assert (await clients.run(f"{name} HELP")).startswith(b"*2\r\n+" + name.encode())
        assert await clients.run(f"{name} FOO") != await clients.run(f"{name} HELP")

    with_clients(use)
