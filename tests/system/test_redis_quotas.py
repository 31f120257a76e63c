"""Redis clients under a quota: they wait, and nobody else does."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Iterator

import pytest

from ottla.cli.main import run as run_command
from tests.broker_process import BrokerProcess
from tests.redis_client import encoded
from tests.system.redis_address import redis_address

BODY = bytes(10_000)


@pytest.fixture(scope="module")
def bound_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with two clients that are to be quiet for a quarter of an hour after one large entry, or for hours."""
    with BrokerProcess(tmp_path_factory.mktemp("redis") / "data", {"redis.listener": "127.0.0.1:0"}) as process:
        for client, quota in (("writer", "producer_byte_rate=1000"), ("reader", "consumer_byte_rate=1")):
            where = ["--bootstrap", process.bootstrap, "--client-id", client]
            assert run_command(["quota", "set", *where, quota]) == 0
        yield process


class Client:
    """A connection with a name, which says what it is told and nothing else."""

    def __init__(self, where: tuple[str, int], name: str) -> None:
        self.socket = socket.create_connection(where, timeout=60)
        self.say("CLIENT", "SETNAME", name)
        assert self.take(5) == b"+OK\r\n"

    def say(self, *words: str | bytes) -> None:
        self.socket.sendall(encoded(words))

    def take(self, size: int) -> bytes:
        taken = b""
        while len(taken) < size:
            data = self.socket.recv(size - len(taken))
            assert data, "the broker hung up"
            taken += data
        return taken

    def line(self) -> bytes:
        line = b""
        while not line.endswith(b"\r\n"):
            line += self.take(1)
        return line

    def has_nothing(self) -> bool:
        return not select.select([self.socket], [], [], 0)[0]


@pytest.fixture
def named(bound_broker: BrokerProcess) -> Iterator[Callable[[str], Client]]:
    made: list[Client] = []

    def connected(name: str) -> Client:
        made.append(Client(redis_address(bound_broker), name))
        return made[-1]

    yield connected
    for each in made:
        each.socket.close()


def test_who_adds_beyond_its_quota_waits_and_others_do_not(named: Callable[[str], Client]) -> None:
    slow, other = named("writer"), named("other")
    slow.say("XADD", "s", "1-1", "f", BODY * 100)
    assert slow.line() == b"$3\r\n"
    assert slow.line() == b"1-1\r\n"
    slow.say("XADD", "s", "99-1", "f", BODY)
    for number in range(2, 22):
        other.say("XADD", "s", f"{number}-1", "f", BODY)
        other.line()
        assert other.line() == b"%d-1\r\n" % number
    assert slow.has_nothing()


def test_who_reads_beyond_its_quota_waits_and_others_do_not(named: Callable[[str], Client]) -> None:
    slow, other = named("reader"), named("other")
    other.say("XADD", "r", "1-1", "f", BODY)
    other.line()
    other.line()
    for client in (slow, other):
        client.say("XRANGE", "r", "-", "+")
    whole = other.take(len(b"*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nf\r\n$10000\r\n") + len(BODY) + 2)
    assert slow.take(len(whole)) == whole
    slow.say("XRANGE", "r", "-", "+")
    for _ in range(20):
        other.say("XRANGE", "r", "-", "+")
        assert other.take(len(whole)) == whole
    assert slow.has_nothing()
