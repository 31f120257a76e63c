"""Kafka's tool for share groups, on the group of a stream of Redis."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.broker_process import BrokerProcess
from tests.cluster import wait_until
from tests.conformance.java.jvm import Ended, Jvm
from tests.conformance.java.kafka_tools import KafkaTools, table
from tests.redis_client import RawRedis
from tests.system.redis_address import redis_address

pytestmark = pytest.mark.peer


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {"redis.listener": "127.0.0.1:0"}
    with BrokerProcess(tmp_path_factory.mktemp("redis") / "data", settings) as process:
        yield process


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[RawRedis]:
    with RawRedis(redis_address(broker)) as made:
        yield made


@pytest.fixture
def tools(jvm: Jvm, broker: BrokerProcess) -> KafkaTools:
    return KafkaTools(jvm, broker.bootstrap)


def share_groups(tools: KafkaTools, *args: object) -> Ended:
    return tools.tool("consumer.group.ShareGroupCommand", *args)


def reset(tools: KafkaTools, name: str, *how: object) -> Ended:
    return share_groups(tools, "--reset-offsets", "--group", name, "--topic", name, *how, "--execute")


def lag(tools: KafkaTools, name: str) -> str:
    (row,) = table(share_groups(tools, "--describe", "--group", name))
    lag: str = row["LAG"]
    return lag


def now_ms(client: RawRedis) -> int:
    seconds, microseconds = map(int, client.call("TIME"))
    return seconds * 1_000 + microseconds // 1_000


def next_moment(client: RawRedis) -> int:
    """A time behind all that was done, and before all that will be."""
    begin = now_ms(client)
    wait_until(lambda: now_ms(client) > begin, "a millisecond has passed")
    moment = now_ms(client)
    wait_until(lambda: now_ms(client) > moment, "another has passed")
    return moment


def text_of(moment_ms: int) -> str:
    moment = datetime.fromtimestamp(moment_ms // 1_000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment_ms % 1_000:03}Z"


def read(client: RawRedis, name: str, consumer: str = "alice") -> list[bytes]:
    """The ids of the entries that a client of Redis is given next."""
    found: Any = client.call("XREADGROUP", "GROUP", name, consumer, "STREAMS", name, ">")
    return [] if found is None else [entry_id for entry_id, _ in found[0][1]]


def test_it_is_set_to_a_time_to_the_beginning_and_to_the_end(tools: KafkaTools, client: RawRedis, name: str) -> None:
    ids = [client.call("XADD", name, "*", "n", str(number)) for number in range(5)]
    client.call("XGROUP", "CREATE", name, name, "0")
    moment = next_moment(client)
    ids += [client.call("XADD", name, "*", "n", str(number)) for number in range(5, 12)]
    tools.produce(name, ["of Kafka"])
    wait_until(lambda: client.call("XLEN", name) == 13, "Kafka's record is an entry")
    ids.append(client.call("XREVRANGE", name, "+", "-", "COUNT", "1")[0][0])
    later = next_moment(client)
    assert read(client, name) == ids
    wait_until(lambda: name in share_groups(tools, "--list").ok().lines, "Kafka's tools know the group")
    assert "GroupNotEmptyException" in reset(tools, name, "--to-earliest").err
    assert lag(tools, name) == "13"
    client.call("XACK", name, name, *ids)
    for how, expected in (
        (("--to-datetime", text_of(moment)), ids[5:]),
        (("--to-earliest",), ids),
        (("--to-datetime", text_of(later)), []),
        (("--to-latest",), []),
    ):
        assert "NEW-OFFSET" in reset(tools, name, *how).out
        assert lag(tools, name) == str(len(expected))
        assert read(client, name) == expected
        if expected:
            client.call("XACK", name, name, *expected)


def test_it_is_not_set_while_a_member_is_there(
    tools: KafkaTools, broker: BrokerProcess, client: RawRedis, name: str
) -> None:
    entry_id = client.call("XADD", name, "*", "n", "1")
    client.call("XGROUP", "CREATE", name, name, "$")
    command = [sys.executable, "-m", "ottla.cli", "consume", name, "--share", name, "--bootstrap", broker.bootstrap]
    member = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(
            lambda: share_groups(tools, "--describe", "--group", name, "--state").out.split()[-2:] == ["Stable", "1"],
            "the member is there",
        )
        assert f"Share group '{name}' is not empty." in reset(tools, name, "--to-earliest").err
        assert read(client, name) == []
    finally:
        member.terminate()
        member.wait(30)
    wait_until(lambda: "NEW-OFFSET" in reset(tools, name, "--to-earliest").out, "the member is gone")
    assert lag(tools, name) == "1"
    assert read(client, name) == [entry_id]
