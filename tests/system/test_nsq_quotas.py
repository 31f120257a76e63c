"""NSQ clients under a quota: they wait, and nobody else does."""

from __future__ import annotations

import http.client
import json
import select
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.cli.main import run as run_command
from ottla.gateways.nsq.frame import HEARTBEAT
from tests.broker_process import BrokerProcess
from tests.cluster import wait_until
from tests.system.nsq_client import NsqClient
from tests.system.test_nsq import LISTENERS, address, http_address

BODY = bytes(10_000)


@pytest.fixture(scope="module")
def bound_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that has bound the client `slow` to next to nothing: for hours after its first message."""
    with BrokerProcess(tmp_path_factory.mktemp("nsq") / "data", LISTENERS) as process:
        where = ["--bootstrap", process.bootstrap, "--client-id", "slow"]
        assert run_command(["quota", "set", *where, "producer_byte_rate=1", "consumer_byte_rate=1"]) == 0
        yield process


@pytest.fixture
def named(bound_broker: BrokerProcess) -> Callable[[str], NsqClient]:
    def connected(name: str) -> NsqClient:
        client = NsqClient(address(bound_broker))
        client.identify(client_id=name)
        return client

    return connected


def has_nothing(client: NsqClient) -> bool:
    """Whether nothing but heartbeats has come."""
    if not select.select([client._socket], [], [], 0)[0]:
        return True
    arrived = client._socket.recv(65_536)
    assert arrived, "the broker hung up"
    return not arrived.replace(HEARTBEAT, b"")


def test_who_publishes_beyond_its_quota_waits_and_others_do_not(named: Callable[[str], NsqClient]) -> None:
    slow, other = named("slow"), named("other")
    slow.publish("bound", BODY)
    slow.send(b"PUB bound", BODY)
    for _ in range(20):
        other.publish("bound", BODY)
    assert has_nothing(slow)


def test_who_takes_more_than_its_quota_rests_and_may_finish_what_it_has(
    bound_broker: BrokerProcess, named: Callable[[str], NsqClient]
) -> None:
    slow, other = named("slow").subscribe("taken", "slow", 1), named("other").subscribe("taken", "other", 5)
    named("other").publish("taken", *[BODY] * 5)
    message = slow.message()
    assert [len(other.message().body) for _ in range(5)] == [len(BODY)] * 5
    slow.finish(message)

    def is_finished() -> bool:
        connection = http.client.HTTPConnection(*http_address(bound_broker), timeout=60)
        connection.request("GET", "/stats?format=json&topic=taken&channel=slow")
        (topic,) = json.loads(connection.getresponse().read())["topics"]
        connection.close()
        return bool(topic["channels"][0]["in_flight_count"] == 0 and topic["channels"][0]["depth"] == 4)

    wait_until(is_finished, "what it has to be finished")
    assert has_nothing(slow)


def test_who_publishes_by_http_beyond_the_quota_waits_for_the_answer(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", LISTENERS) as broker:
        reader = NsqClient(address(broker)).subscribe("posted", "c", 2)
        assert is_answered(broker, "/pub?topic=posted", BODY)
        assert len(reader.message().body) == len(BODY)
        where = ["--bootstrap", broker.bootstrap, "--user", "ANONYMOUS"]
        assert run_command(["quota", "set", *where, "producer_byte_rate=1"]) == 0
        slow = http.client.HTTPConnection(*http_address(broker), timeout=60)
        slow.request("POST", "/mpub?topic=posted", BODY)
        assert len(reader.message().body) == len(BODY), "it is taken"
        for _ in range(5):
            assert is_answered(broker, "/channel/create?topic=posted&channel=other"), "nobody else waits"
        assert not select.select([slow.sock], [], [], 0)[0]
        slow.close()


def is_answered(broker: BrokerProcess, path: str, body: bytes = b"") -> bool:
    """Whether a POST has the answer 200."""
    connection = http.client.HTTPConnection(*http_address(broker), timeout=60)
    try:
        connection.request("POST", path, body)
        return connection.getresponse().status == 200
    finally:
        connection.close()
