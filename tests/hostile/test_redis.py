"""Bad input at the listener for Redis clients: its connection ends or is answered, and a neighbour notices nothing."""

from __future__ import annotations

import errno
import random
import socket
from collections.abc import Callable, Iterator

import pytest

from ottla.gateways.redis.gateway import UNFINISHED_BYTES_MAX
from tests.broker_process import BrokerProcess
from tests.cluster import wait_until
from tests.hostile.process_memory import peak_mib
from tests.redis_client import RawRedis, encoded
from tests.system.redis_address import redis_address

RANDOM = random.Random(7)
LARGE = 50 * 1024 * 1024
HELD = UNFINISHED_BYTES_MAX // (1 << 20)
CLIENTS = 20

INPUT = {
    "garbage": RANDOM.randbytes(70_000),
    "HTTP": b"POST / HTTP/1.1\r\nHost: h\r\n\r\n",
    "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(190),
    "a line without an end": b"PING " + b"x" * 100_000,
    "zeros": bytes(100_000),
    "an enormous argument": b"*2\r\n$4\r\nECHO\r\n$536870912\r\n",
    "an argument of negative size": b"*2\r\n$4\r\nECHO\r\n$-5\r\n",
    "very many arguments": b"*2147483647\r\n",
    "nested arrays": b"*1\r\n" * 100_000,
    "a number as an argument": b"*2\r\n$4\r\nECHO\r\n:1\r\n",
    "half a command": encoded(("XADD", "s", "*", "n", "v" * 1_000))[:-500],
    "a size that lies": b"*2\r\n$4\r\nECHO\r\n$1\r\nabcdef\r\n",
    "quotes without an end": b'ECHO "' + b"\\x" * 100 + b"\r\n",
    "many commands": encoded(("PING",)) * 20_000 + encoded(("QUIT",)),
}


@pytest.fixture(scope="module")
def redis_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("redis") / "data", {"redis.listener": "127.0.0.1:0"}) as broker:
        yield broker
        assert "Traceback" not in "\n".join(broker.stopped_log())


@pytest.fixture
def neighbour(redis_broker: BrokerProcess) -> Iterator[RawRedis]:
    """A client that waits for an entry as if it were alone."""
    with RawRedis(redis_address(redis_broker)) as client, RawRedis(redis_address(redis_broker)) as writer:
        writer.call("DEL", "neighbours")
        client.send("XREAD", "BLOCK", "0", "STREAMS", "neighbours", "$")
        wait_until(lambda: b"blocked_clients:1\r\n" in writer.call("INFO", "clients"), "it waits")
        yield writer
        assert writer.call("XADD", "neighbours", "1-1", "n", "v") == b"1-1"
        assert client.reply() == [[b"neighbours", [[b"1-1", [b"n", b"v"]]]]]


@pytest.mark.parametrize("data", INPUT.values(), ids=list(INPUT))
def test_bad_input_ends_its_connection_and_no_other(
    redis_broker: BrokerProcess, neighbour: RawRedis, data: bytes
) -> None:
    with socket.create_connection(redis_address(redis_broker), timeout=60) as stranger:
        try:
            stranger.sendall(data)
            stranger.shutdown(socket.SHUT_WR)
            while stranger.recv(65536):
                pass
        except OSError as error:  # the broker hung up first
            if not isinstance(error, ConnectionError) and error.errno != errno.ENOTCONN:
                raise


def half_of_a_large_command() -> bytes:
    return b"*5\r\n$4\r\nXADD\r\n$1\r\ns\r\n$1\r\n*\r\n$1\r\nf\r\n$%d\r\n" % LARGE + bytes(LARGE - 1)


def commands_behind_one_that_waits() -> bytes:
    """They wait too. The broker reads no more of them than it has room for."""
    waits = encoded(("XREAD", "BLOCK", "0", "STREAMS", "nothing", "$"))
    return waits + encoded(("ECHO", "x" * 1_000)) * (LARGE // 1_000)


@pytest.mark.parametrize("data", [half_of_a_large_command, commands_behind_one_that_waits])
def test_what_many_clients_have_the_broker_hold_of_commands_has_a_bound(
    redis_broker: BrokerProcess, neighbour: RawRedis, data: Callable[[], bytes]
) -> None:
    before, sent = peak_mib(redis_broker), data()
    clients = [socket.create_connection(redis_address(redis_broker), timeout=60) for _ in range(CLIENTS)]
    for client in clients:
        client.setblocking(False)
    left = {client: memoryview(sent) for client in clients}
    ended = 0

    def send_more() -> bool:
        nonlocal ended
        moved = False
        for client, data in list(left.items()):
            try:
                count = client.send(data[: 1 << 20])
                left[client] = data[count:]
                moved = True
                if count == len(data):
                    del left[client]
            except BlockingIOError:
                pass
            except ConnectionError:
                ended += 1
                del left[client]
        return not left or not moved

    wait_until(send_more, "no more is taken")
    assert neighbour.call("PING") == "+PONG"
    assert peak_mib(redis_broker) < before + 1.5 * HELD
    for client in clients:
        client.close()
