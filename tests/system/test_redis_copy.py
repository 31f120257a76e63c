"""COPY at a running broker: all of a stream under another key, whole or not at all, over restarts too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tests.broker_process import BrokerProcess
from tests.cluster import Cluster, wait_until
from tests.redis_client import RawRedis, ReplyError
from tests.system.redis_address import redis_address as address

LISTENER = {"redis.listener": "127.0.0.1:0", "redis.cache.max.bytes": "1048576"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("redis") / "data", LISTENER) as process:
        yield process


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[RawRedis]:
    with RawRedis(address(broker)) as made:
        assert made.call("FLUSHALL") == "+OK"
        yield made


def fill(client: RawRedis, key: str, count: int) -> None:
    for start in range(0, count, 1_000):
        client.pipeline(
            [("XADD", key, f"{at + 1}-0", "n", "v" * 100) for at in range(start, min(start + 1_000, count))]
        )


def everything(client: RawRedis, key: str) -> list[Any]:
    """All that is told of a stream, but for when consumers were seen, and how often a producer said something."""
    info = client.call("XINFO", "STREAM", key, "FULL", "COUNT", "0")
    told = info.index(b"iids-added")
    del info[told : told + 4]
    at = info.index(b"groups") + 1
    groups = [
        [*each[: each.index(b"consumers")], [[name, row[row.index(b"pel-count") :]] for name, row in _named(each[-1])]]
        for each in info[at]
    ]
    return [*info[: at - 1], groups, client.call("XRANGE", key, "-", "+"), client.call("PEXPIRETIME", key)]


def _named(consumers: list[Any]) -> list[tuple[bytes, list[Any]]]:
    return [(each[1], each) for each in consumers]


def test_a_copy_has_all_of_the_stream_over_restarts(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", LISTENER) as broker:
        with RawRedis(address(broker)) as client:
            fill(client, "s", 3_000)
            client.call("XDEL", "s", *(f"{at}-0" for at in range(100, 1_100, 3)))
            client.call("XTRIM", "s", "MAXLEN", "2500")
            client.call("XGROUP", "CREATE", "s", "g", "0")
            client.call("XGROUP", "CREATE", "s", "h", "5-0", "ENTRIESREAD", "5")
            client.call("XREADGROUP", "GROUP", "g", "alice", "COUNT", "1200", "STREAMS", "s", ">")
            client.call("XREADGROUP", "GROUP", "g", "bob", "COUNT", "5", "STREAMS", "s", ">")
            client.call("XNACK", "s", "g", "FAIL", "IDS", "1", "1200-0")
            client.call("XDEL", "s", "1300-0")
            client.call("XADD", "s", "IDMP", "p", "1", "*", "n", "v")
            client.call("PEXPIREAT", "s", "9999999999999")
            before = everything(client, "s")
            assert client.call("COPY", "s", "t") == 1
            assert client.call("COPY", "s", "t") == 0
            assert client.call("COPY", "s", "t", "REPLACE", "DB", "7") == 1
            assert everything(client, "t") == before
            assert client.call("XADD", "t", "IDMP", "p", "1", "*", "n", "v") == client.call(
                "XADD", "s", "IDMP", "p", "1", "*", "n", "v"
            )
            assert client.call("XTRIM", "t", "MAXLEN", "~", "1000") == 1_479
            assert everything(client, "s") == before
            assert client.call("COPY", "s", "t", "REPLACE") == 1
            assert client.call("XADD", "t", "5000000000000-0", "n", "more") == b"5000000000000-0"
            assert client.call("XADD", "s", "5000000000000-0", "n", "more") == b"5000000000000-0"
            after = everything(client, "s")
            assert everything(client, "t") == after
        broker.kill()
        broker.start()
        with RawRedis(address(broker)) as client:
            assert everything(client, "t") == everything(client, "s") == after
            client.call("SELECT", "7")
            assert everything(client, "t") == before
            assert client.call("DBSIZE") == 1


def test_records_of_kafka_producers_are_entries_of_the_copy(broker: BrokerProcess, client: RawRedis) -> None:
    client.call("XADD", "foreign", "1-0", "n", "1")
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(2_000):
        producer.produce("foreign", key=b"k", value=b"%d" % number, headers=[("trace", b"7")])
    assert not producer.flush(60)
    wait_until(lambda: client.call("XLEN", "foreign") == 2_001, "all are entries")
    client.call("XADD", "foreign", "*", "n", "2")
    assert client.call("COPY", "foreign", "copy") == 1
    entries = client.call("XRANGE", "foreign", "-", "+")
    assert client.call("XRANGE", "copy", "-", "+") == entries
    client.call("XDEL", "copy", entries[5][0])
    assert client.call("XLEN", "copy") == 2_001
    assert client.call("XREVRANGE", "copy", "+", "-") == [*reversed(entries[6:]), *reversed(entries[:5])]


def test_both_keys_can_be_watched_and_a_copy_is_made_in_a_transaction(broker: BrokerProcess, client: RawRedis) -> None:
    fill(client, "s", 2_500)
    with RawRedis(address(broker)) as other:
        for watched, reply in (("s", [1]), ("t", None), ("t", None)):
            client.call("WATCH", watched)
            assert other.call("COPY", "s", "t", "REPLACE") == 1
            assert client.pipeline([("MULTI",), ("EXISTS", "s"), ("EXEC",)])[-1] == reply
    commands: list[tuple[str | bytes, ...]] = [
        ("MULTI",),
        ("XADD", "s", "9000-0", "n", "v"),
        ("XADD", "t", "9000-0", "n", "of the one before"),
        ("COPY", "s", "t", "REPLACE"),
        ("XADD", "t", "9001-0", "n", "v"),
        ("COPY", "t", "u"),
        ("XLEN", "u"),
        ("DEL", "t"),
        ("EXEC",),
    ]
    assert client.pipeline(commands)[-1] == [b"9000-0", b"9000-0", 1, b"9001-0", 1, 2_502, 1]
    assert client.call("XREVRANGE", "u", "+", "-", "COUNT", "2") == [
        [b"9001-0", [b"n", b"v"]],
        [b"9000-0", [b"n", b"v"]],
    ]
    assert client.call("EXISTS", "s", "t", "u") == 2


def test_others_see_all_of_a_copy_or_nothing(broker: BrokerProcess, client: RawRedis) -> None:
    fill(client, "s", 20_000)
    with RawRedis(address(broker)) as other, RawRedis(address(broker)) as waiting:
        waiting.send("XREAD", "COUNT", "1", "BLOCK", "0", "STREAMS", "t", "19999-0")
        client.send("COPY", "s", "t")
        seen = []
        while not seen or not seen[-1]:
            seen.append(other.call("XLEN", "t"))
        assert set(seen) <= {0, 20_000}
        assert client.reply() == 1
        assert waiting.reply() == [[b"t", [[b"20000-0", [b"n", b"v" * 100]]]]]
        other.send("XADD", "t", "20001-0", "n", "v")
        client.send("COPY", "s", "t", "REPLACE")
        assert other.reply() == b"20001-0"
        assert client.reply() == 1
        assert client.call("XLEN", "t") in (20_000, 20_001)


@pytest.mark.parametrize("replaces", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_broker_that_dies_in_the_middle_leaves_all_or_nothing(tmp_path: Path, replaces: bool) -> None:
    options = ("REPLACE",) if replaces else ()
    topic = "t-1-0" if replaces else "t-0"
    with BrokerProcess(tmp_path / "data", LISTENER) as broker:
        with RawRedis(address(broker)) as client:
            fill(client, "s", 30_000)
            if replaces:
                client.call("XADD", "t", "7-0", "n", "v")
            client.send("COPY", "s", "t", *options)
            (data,) = {path.parent for path in tmp_path.glob("data*/**/s-0")}
            log = data / topic / "00000000000000000000.log"
            wait_until(lambda: log.exists() and log.stat().st_size > 300_000, "a part of the copy is on disk")
            broker.kill()
        broker.start()
        with RawRedis(address(broker)) as client:
            length = client.call("XLEN", "t")
            assert length in ((1, 30_000) if replaces else (0, 30_000))
            assert client.call("COPY", "s", "t", *options) == (0 if length == 30_000 and not replaces else 1)
            assert client.call("XLEN", "t") == 30_000
            client.call("XADD", "t", "30001-0", "n", "v")
        wait_until(lambda: list(data.glob("t*-0/stream.index")), "the index of the copy is written")
        broker.kill()
        broker.start()
        with RawRedis(address(broker)) as client:
            assert client.call("XLEN", "t") == 30_001


def test_what_is_refused_changes_nothing(client: RawRedis) -> None:
    client.call("XADD", "s", "1-0", "n", "v")
    client.call("XADD", "t", "2-0", "n", "v")
    assert client.call("COPY", "s", "t") == 0
    assert client.call("COPY", "none", "t", "REPLACE") == 0
    assert client.call("COPY", "s", "s") == "ERR source and destination objects are the same"
    assert client.call("COPY", "s", "u", "DB", "99") == "ERR DB index is out of range"
    assert client.call("COPY", "s", "u", "DB") == "ERR syntax error"
    assert isinstance(client.call("COPY", "s", "x" * 20_000), ReplyError)
    assert client.call("XRANGE", "t", "-", "+") == [[b"2-0", [b"n", b"v"]]]
    assert client.call("DBSIZE") == 2


REPLICATED = {**LISTENER, "default.replication.factor": "3", "min.insync.replicas": "2"}


@pytest.mark.long
@pytest.mark.parametrize("is_looked_for", [False, True], ids=["copied again", "what is left goes"])
def test_a_leader_that_dies_in_the_middle_leaves_all_or_nothing(tmp_path: Path, is_looked_for: bool) -> None:
    with Cluster(tmp_path, settings=REPLICATED) as cluster:
        cluster.wait_until_registered()
        first, second, third = cluster.brokers.values()
        with (
            RawRedis(address(first)) as leader,
            RawRedis(address(second)) as other,
            RawRedis(address(third)) as witness,
        ):
            fill(leader, "source", 20_000)
            other.call("XADD", "target", "7-0", "n", "v")
            for topic in ("source", "target"):
                cluster.wait_until_in_sync(topic)
            leader.send("COPY", "source", "target", "REPLACE")
            log = first.data_dir / "target-1-0" / "00000000000000000000.log"
            wait_until(lambda: log.exists() and log.stat().st_size > 200_000, "a part of the copy is on disk")
            first.kill()
            length = wait_until(lambda: witness.call("XLEN", "target"), "somebody leads the key")
            assert length in (1, 20_000)
            assert witness.call("XADD", "target", "30000-0", "n", "later") == b"30000-0"
            if is_looked_for and length == 1:
                wait_until(lambda: "target-1" not in _topics(second), "the copy that was not finished goes")
            assert [each.call("XLEN", "target") for each in (other, witness)] == [length + 1] * 2
            assert other.call("COPY", "source", "target", "REPLACE") == 1
            assert [each.call("XLEN", "target") for each in (other, witness)] == [20_000] * 2
        first.start()
        with RawRedis(address(first)) as client:
            assert client.call("XLEN", "target") == 20_000
            assert client.call("DBSIZE") == 2


def _topics(broker: BrokerProcess) -> set[str]:
    return set(AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=60).topics)
