"""Byte quotas bind a connection, and a client may take another one: how many it may take is bound on every listener."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Producer

from ottla.cli.main import run as run_command
from tests.broker_process import BrokerProcess
from tests.redis_client import encoded
from tests.system.nsq_client import NsqClient
from tests.system.redis_address import redis_address
from tests.system.test_nsq import LISTENERS, address

BODY = bytes(10_000)
API_VERSIONS = bytes.fromhex("0000000a0012000000000001ffff")
ASKS = {"kafka": API_VERSIONS, "nsq": b"  V2IDENTIFY\n\0\0\0\x02{}", "redis": encoded(("PING",))}
"""What each is sent to see whether it answers."""
FACES = tuple(ASKS)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {
        **LISTENERS,
        "redis.listener": "127.0.0.1:0",
        "max.connections.per.ip.overrides": "127.0.0.9:2",
    }
    with BrokerProcess(tmp_path_factory.mktemp("faces") / "data", settings) as process:
        yield process


def place(broker: BrokerProcess, face: str) -> tuple[str, int]:
    return {
        "kafka": lambda: ("127.0.0.1", broker.port),
        "nsq": lambda: address(broker),
        "redis": lambda: redis_address(broker),
    }[face]()


def is_answered(connection: socket.socket, face: str) -> bool:
    """Whether a connection is served, or else closed without a word."""
    try:
        connection.sendall(ASKS[face])
        return connection.recv(1) != b""
    except ConnectionError:
        return False


def connected(broker: BrokerProcess, face: str, source: str) -> socket.socket:
    return socket.create_connection(place(broker, face), timeout=60, source_address=(source, 0))


@pytest.mark.parametrize("face", FACES)
def test_an_address_that_connects_faster_than_its_rate_is_refused(broker: BrokerProcess, face: str) -> None:
    source = f"127.0.0.{2 + FACES.index(face)}"
    where = ["--bootstrap", broker.bootstrap, "--ip", source]
    assert run_command(["quota", "set", *where, "connection_creation_rate=1"]) == 0
    served = 0
    while True:
        with connected(broker, face, source) as connection:
            if not is_answered(connection, face):
                break
            served += 1
    assert served > 1
    with connected(broker, face, "127.0.0.1") as connection:
        assert is_answered(connection, face), "others are served"


@pytest.mark.parametrize("face", FACES)
def test_connections_of_an_address_are_counted_over_all_listeners(broker: BrokerProcess, face: str) -> None:
    others = [each for each in FACES if each != face]
    with ExitStack() as stack:
        for each in others:
            assert is_answered(stack.enter_context(connected(broker, each, "127.0.0.9")), each)
        with connected(broker, face, "127.0.0.9") as third:
            assert not is_answered(third, face)


def by_kafka(broker: BrokerProcess) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "client.id": "slow"})
    producer.produce("kafka", BODY)
    assert producer.flush(60) == 0


def by_nsq(broker: BrokerProcess) -> None:
    client = NsqClient(address(broker))
    client.identify(client_id="slow")
    client.publish("nsq", BODY)
    client.close()


def by_redis(broker: BrokerProcess) -> None:
    with socket.create_connection(redis_address(broker), timeout=60) as connection:
        answers = connection.makefile("rb")
        connection.sendall(encoded(("CLIENT", "SETNAME", "slow")) + encoded(("XADD", "redis", "*", "f", BODY)))
        assert answers.readline() == b"+OK\r\n"
        assert answers.readline().startswith(b"$")


@pytest.mark.parametrize("publish", [by_kafka, by_nsq, by_redis])
def test_a_byte_quota_does_not_keep_a_client_from_another_connection(
    broker: BrokerProcess, publish: Callable[[BrokerProcess], None]
) -> None:
    where = ["--bootstrap", broker.bootstrap, "--client-id", "slow"]
    assert run_command(["quota", "set", *where, "producer_byte_rate=1"]) == 0
    for _ in range(3):  # each of them is to be quiet for hours after what it has sent
        publish(broker)
