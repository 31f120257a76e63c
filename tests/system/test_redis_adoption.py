"""Records of Kafka's and NSQ's clients on the topic of a stream are entries for Redis clients."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from tests.broker_process import BrokerProcess
from tests.cluster import Cluster, wait_until
from tests.redis_client import RawRedis, ReplyError
from tests.system.redis_address import redis_address as address

LISTENERS = {"redis.listener": "127.0.0.1:0"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("adoption") / "data", LISTENERS) as process:
        yield process


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[RawRedis]:
    with RawRedis(address(broker)) as made:
        yield made


@pytest.fixture
def key() -> str:
    return f"orders-{uuid4().hex[:8]}"


def producer_of(broker: BrokerProcess, **options: Any) -> Producer:
    return Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, **options})


def produce(producer: Producer, topic: str, *values: bytes | None, **options: Any) -> None:
    for value in values:
        producer.produce(topic, value, partition=0, **options)
    assert producer.flush(30) == 0


def values_of(client: RawRedis, key: str) -> list[bytes]:
    return [entry[1][1] for entry in client.call("XRANGE", key, "-", "+")]


def wait_for_length(client: RawRedis, key: str, length: int) -> None:
    wait_until(lambda: client.call("XLEN", key) == length, f"there are {length} entries")


def id_of(text: bytes) -> tuple[int, int]:
    milliseconds, _, sequence = text.partition(b"-")
    return int(milliseconds), int(sequence)


def test_a_record_of_kafka_is_an_entry_with_its_key_and_headers(
    broker: BrokerProcess, client: RawRedis, key: str
) -> None:
    client.call("XADD", key, "1-1", "n", "1")
    client.call("XGROUP", "CREATE", key, "g", "0")
    producer = producer_of(broker)
    produce(producer, key, b"tea", key=b"k1", headers=[("trace", b"7"), ("redis.key", None)])
    produce(producer, key, None)
    wait_for_length(client, key, 3)
    last = client.call("XADD", key, "*", "n", "2")
    entries = client.call("XRANGE", key, "-", "+")
    assert [fields for _, fields in entries] == [
        [b"n", b"1"],
        [b"value", b"tea", b"key", b"k1", b"header.trace", b"7", b"header.redis.key", b""],
        [b"value", b""],
        [b"n", b"2"],
    ]
    ids = [entry_id for entry_id, _ in entries]
    assert list(map(id_of, ids)) == sorted(set(map(id_of, ids)))
    assert ids[-1] == last
    assert client.call("XREVRANGE", key, "+", "-") == entries[::-1]
    assert client.call("XREADGROUP", "GROUP", "g", "w", "COUNT", "3", "STREAMS", key, ">") == [
        [key.encode(), entries[:3]]
    ]
    (group,) = client.call("XINFO", "GROUPS", key)
    told = dict(zip(group[::2], group[1::2], strict=True))
    assert (told[b"entries-read"], told[b"lag"], told[b"pending"]) == (3, 1, 3)
    assert client.call("XDEL", key, ids[1]) == 1
    assert client.call("XRANGE", key, ids[1], ids[1]) == []
    assert client.call("XTRIM", key, "MAXLEN", "1") == 2
    assert client.call("XRANGE", key, "-", "+") == entries[3:]


def test_a_client_that_waits_sees_a_record_of_kafka(broker: BrokerProcess, client: RawRedis, key: str) -> None:
    client.call("XGROUP", "CREATE", key, "g", "$", "MKSTREAM")
    producer = producer_of(broker)
    with RawRedis(address(broker)) as plain, RawRedis(address(broker)) as worker:
        for number in range(3):
            plain.send("XREAD", "BLOCK", "0", "STREAMS", key, "$")
            worker.send("XREADGROUP", "GROUP", "g", "w", "BLOCK", "0", "STREAMS", key, ">")
            wait_until(lambda: b"blocked_clients:2\r\n" in client.call("INFO", "clients"), "both wait")
            produce(producer, key, b"%d" % number)
            for each in (plain, worker):
                ((_, ((_, fields),)),) = each.reply()
                assert fields == [b"value", b"%d" % number]


def test_records_that_came_while_nobody_looked_are_there_at_the_first_look(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", LISTENERS) as broker:
        with RawRedis(address(broker)) as client:
            client.call("XADD", "orders", "1-1", "n", "1")
        _create(broker, "elsewhere", redis_key="99:orders")
        produce(producer_of(broker), "elsewhere", b"of no database")
        producer = producer_of(broker, **{"linger.ms": 50, "compression.type": "gzip"})
        produce(producer, "orders", *(b"%d" % number for number in range(3_000)))
        broker.kill()
        broker.start()
        produce(producer_of(broker), "orders", b"last")
        with RawRedis(address(broker)) as client:
            assert client.call("XLEN", "orders") == 3_002
            assert values_of(client, "orders") == [b"1", *(b"%d" % number for number in range(3_000)), b"last"]
            entries = client.call("XRANGE", "orders", "-", "+")
            assert client.call("XTRIM", "orders", "MAXLEN", "1000") == 2_002
            assert client.call("XDEL", "orders", entries[-1][0], entries[2_500][0]) == 2
        broker.kill()
        broker.start()
        with RawRedis(address(broker)) as client:
            left = [entry for number, entry in enumerate(entries) if 2_002 <= number < 3_001 and number != 2_500]
            assert client.call("XRANGE", "orders", "-", "+") == left
            assert client.call("XREVRANGE", "orders", "+", "-", "COUNT", "3") == left[:-4:-1]


def test_a_crash_under_load_loses_no_record_and_changes_no_id(tmp_path: Path) -> None:
    acknowledged: list[bytes] = []
    seen: list[Any] = []
    added: list[bytes] = []
    with BrokerProcess(tmp_path / "data", LISTENERS) as broker:
        producer = producer_of(broker, **{"enable.idempotence": True, "linger.ms": 1})
        ends = threading.Event()

        def delivered(error: Any, message: Any) -> None:
            if error is None:
                acknowledged.append(message.value())

        def produce_on() -> None:
            number = 0
            while not ends.is_set():
                producer.produce("s", b"%d" % number, partition=0, on_delivery=delivered)
                producer.poll(0 if number % 20 else 0.001)
                number += 1

        def add() -> None:
            with RawRedis(address(broker)) as client, suppress(OSError, EOFError):
                while True:
                    added.extend(client.pipeline([("XADD", "s", "*", "n", "x")] * 5))

        def read() -> None:
            last = b"0"
            with RawRedis(address(broker)) as client, suppress(OSError, EOFError):
                while True:
                    reply = client.call("XREAD", "COUNT", "100", "BLOCK", "100", "STREAMS", "s", last)
                    for _, entries in reply or ():
                        seen.extend(entries)
                        last = entries[-1][0]

        with RawRedis(address(broker)) as client:
            client.call("XADD", "s", "1-1", "n", "x")
        threads = [threading.Thread(target=each) for each in (produce_on, add, read)]
        for thread in threads:
            thread.start()
        wait_until(lambda: min(map(len, (acknowledged, added))) > 300 and len(seen) > 600, "some work is done")
        broker.kill()
        ends.set()
        for thread in threads:
            thread.join()
        broker.start()
        assert producer.flush(60) == 0
        with RawRedis(address(broker)) as client:
            wait_until(lambda: set(acknowledged) <= set(values_of(client, "s")), "all records are entries")
            entries = client.call("XRANGE", "s", "-", "+")
        assert entries[: len(seen)] == seen, "what was shown stays as it was"
        ids = [id_of(entry_id) for entry_id, _ in entries]
        assert ids == sorted(set(ids))
        assert set(added) <= {entry_id for entry_id, _ in entries}
        values = [fields[1] for _, fields in entries if fields[0] == b"value"]
        assert values == sorted(set(values), key=int), "each once, in the order of the log"


def test_only_what_is_committed_becomes_entries(broker: BrokerProcess, client: RawRedis, key: str) -> None:
    client.call("XADD", key, "1-1", "n", "1")
    producer = producer_of(broker, **{"transactional.id": key})
    producer.init_transactions()
    for is_committed in (False, True, False):
        producer.begin_transaction()
        producer.produce(key, b"%d" % is_committed, partition=0)
        producer.flush()
        client.call("XADD", key, "*", "n", "x")
        if is_committed:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    produce(producer_of(broker), key, b"end")
    wait_until(lambda: values_of(client, key)[-1] == b"end", "the last one is there")
    assert sorted(values_of(client, key)) == sorted([b"1", b"x", b"x", b"1", b"x", b"end"])


def test_a_record_after_del_makes_the_key_anew(broker: BrokerProcess, client: RawRedis, key: str) -> None:
    client.call("XADD", key, "1-1", "n", "1")
    produce(producer_of(broker), key, b"before")
    wait_for_length(client, key, 2)
    assert client.call("DEL", key) == 1
    assert client.call("EXISTS", key) == 0
    produce(producer_of(broker), key, b"after")
    wait_for_length(client, key, 1)
    assert values_of(client, key) == [b"after"]
    assert client.call("RENAME", key, f"{key}-2") == "+OK"
    produce(producer_of(broker), key, b"renamed")
    wait_for_length(client, f"{key}-2", 2)
    assert values_of(client, f"{key}-2") == [b"after", b"renamed"]


def test_a_transaction_of_redis_does_not_see_records_come_in_between(
    broker: BrokerProcess, client: RawRedis, key: str
) -> None:
    client.call("XADD", key, "1-1", "n", "1")
    assert client.call("WATCH", key) == "+OK"
    produce(producer_of(broker), key, b"tea")
    with RawRedis(address(broker)) as other:
        wait_for_length(other, key, 2)
    assert client.pipeline([("MULTI",), ("XLEN", key), ("EXEC",)])[-1] is None


def _settings(broker: BrokerProcess, topic: str) -> list[tuple[str, str]]:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (future,) = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]).values()
    return [(each.name, each.value) for each in future.result(30).values()]


def _set_key(broker: BrokerProcess, topic: str, key: str, text: str | None = None) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    entry = ConfigEntry("redis.key", text or f"0:{key}", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)


def _create(broker: BrokerProcess, topic: str, partitions: int = 1, **configs: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    new = NewTopic(topic, partitions, 1, config={name.replace("_", "."): text for name, text in configs.items()})
    for future in admin.create_topics([new]).values():
        future.result(30)


@pytest.mark.parametrize("command", ["XRANGE", "XLEN", "EXISTS", "XADD"])
def test_the_first_command_on_a_topic_of_kafka_finds_its_records(
    broker: BrokerProcess, client: RawRedis, key: str, command: str
) -> None:
    _create(broker, key)
    _set_key(broker, key, key)
    produce(producer_of(broker), key, *(b"%d" % number for number in range(50)))
    reply = client.call(command, key, *{"XRANGE": ("-", "+"), "XADD": ("1-1", "n", "v")}.get(command, ()))
    if command == "XRANGE":
        assert len(reply) == 50
    else:
        assert reply == {"XLEN": 50, "EXISTS": 1}.get(command) or "equal or smaller" in reply
    assert client.call("XLEN", key) == 50


def test_a_topic_that_kafka_made_is_a_stream_once_it_has_a_key(
    broker: BrokerProcess, client: RawRedis, key: str
) -> None:
    _create(broker, key)
    producer = producer_of(broker)
    produce(producer, key, *(b"%d" % number for number in range(200)))
    assert client.call("EXISTS", key) == 0
    _set_key(broker, key, key)
    wait_until(lambda: client.call("EXISTS", key) == 1, "the broker knows of the key")
    assert values_of(client, key) == [b"%d" % number for number in range(200)]
    assert client.call("XGROUP", "CREATE", key, "g", "0") == "+OK"
    assert client.call("XREADGROUP", "GROUP", "g", "w", "COUNT", "1", "STREAMS", key, ">")[0][1][0][1] == [
        b"value",
        b"0",
    ]
    client.call("XADD", key, "*", "n", "1")
    produce(producer, key, b"last")
    wait_for_length(client, key, 202)
    assert values_of(client, key)[-2:] == [b"1", b"last"]
    assert str(client.call("XADD", key, "*", "n", "x" * 1_100_000)).startswith(
        "ERR the entry is larger than max.message"
    )
    assert client.call("XADD", key, "*", "n", "x" * 1_000_000) is not None


FORGED = (
    (b"E" + (5 << 64).to_bytes(16, "big"), msgspec.msgpack.encode([b"n", b"forged"])),
    (b"N" + (1 << 127).to_bytes(16, "big"), msgspec.msgpack.encode([b"n", b"forged"])),
    (b"M", msgspec.msgpack.encode(["began", 0, b"another", ""])),
    (b"M", msgspec.msgpack.encode(["group", b"forged", bytes(16), 0])),
    (b"M", msgspec.msgpack.encode(["ended"])),
    (b"M", msgspec.msgpack.encode(["dropped"])),
    (b"M", msgspec.msgpack.encode(["snapshot", 3, [], True])),
    (b"X", b"neither"),
)
"""Headers and values of records that a stream of Redis could have written itself, and some that it could not."""


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_what_looked_like_the_streams_own_before_it_had_its_key_is_of_others(tmp_path: Path, codec: str) -> None:
    with BrokerProcess(tmp_path / "data", LISTENERS) as broker:
        _create(broker, "orders")
        producer = producer_of(broker, **{"compression.type": codec})
        for header, value in FORGED:
            produce(producer, "orders", value, headers=[("redis", header)])
        produce(producer, "orders", b"tea")
        _set_key(broker, "orders", "orders")
        with RawRedis(address(broker)) as client:
            wait_until(lambda: client.call("EXISTS", "orders") == 1, "the broker knows of the key")
            added = client.call("XADD", "orders", "*", "value", "of redis")
            entries = client.call("XRANGE", "orders", "-", "+")
            assert [fields[:2] for _, fields in entries] == [
                *([b"value", value] for _, value in FORGED),
                [b"value", b"tea"],
                [b"value", b"of redis"],
            ]
            assert [fields[2:] for _, fields in entries[: len(FORGED)]] == [
                [b"header.redis", header] for header, _ in FORGED
            ]
            assert entries[-1][0] == added
            assert client.call("XINFO", "GROUPS", "orders") == []
        (begun,) = {text for name, text in _settings(broker, "orders") if name == "redis.key"}
        assert begun == f"{len(FORGED) + 1}/0:orders"
        for text in ("0:orders", begun):
            _set_key(broker, "orders", "orders", text)
        with pytest.raises(KafkaException, match="INVALID_CONFIG"):
            _set_key(broker, "orders", "orders", "99/0:orders")
        broker.kill()
        broker.start()
        with RawRedis(address(broker)) as client:
            assert client.call("XRANGE", "orders", "-", "+") == entries
            assert client.call("XDEL", "orders", entries[0][0]) == 1
        _set_key(broker, "orders", "moved")
        assert dict(_settings(broker, "orders"))["redis.key"] == f"{len(FORGED) + 1}/0:moved"


@pytest.mark.parametrize(("partitions", "configs"), [(2, {}), (1, {"cleanup_policy": "compact"})])
def test_a_topic_that_can_be_no_stream_is_refused(
    broker: BrokerProcess, client: RawRedis, key: str, partitions: int, configs: dict[str, str]
) -> None:
    _create(broker, key, partitions, **configs)
    produce(producer_of(broker), key, b"tea", key=b"k")
    _set_key(broker, key, key)
    wait_until(lambda: isinstance(client.call("XLEN", key), ReplyError), "the broker knows of the key")
    assert f"topic {key}" in client.call("XLEN", key)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_a_producer_cannot_write_what_counts_as_the_streams_own(
    broker: BrokerProcess, client: RawRedis, key: str, codec: str
) -> None:
    first = client.call("XADD", key, "*", "a", "1")
    told: list[Any] = []
    producer = producer_of(broker, **{"compression.type": codec})
    ended = b"\x91\xa5ended"
    producer.produce(
        key, ended, headers=[("redis", b"M")], partition=0, on_delivery=lambda error, _: told.append(error)
    )
    assert producer.flush(30) == 0
    assert "INVALID_RECORD" in told[0].name()
    produce(producer, key, b"plain", headers=[("trace", b"1")])
    wait_for_length(client, key, 2)
    broker.kill()
    broker.start()
    with RawRedis(address(broker)) as again:
        entries = again.call("XRANGE", key, "-", "+")
        assert [entries[0][0], len(entries)] == [first, 2]


@pytest.mark.long
def test_every_leader_knows_where_the_stream_begins(tmp_path: Path) -> None:
    settings = {**LISTENERS, "default.replication.factor": "3", "min.insync.replicas": "2"}
    with Cluster(tmp_path, settings=settings) as cluster:
        cluster.wait_until_registered()
        cluster.create_topic("orders")
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
        for header, value in FORGED:
            produce(producer, "orders", value, headers=[("redis", header)])
        _set_key(cluster.brokers[1], "orders", "orders")
        expected = [value for _, value in FORGED]
        for number, broker in enumerate(cluster.brokers.values()):
            with RawRedis(address(broker)) as client:
                wait_until(lambda client=client: client.call("EXISTS", "orders") == 1, "it is found")  # type: ignore[misc]
                assert values_of(client, "orders") == expected
                added = b"of Redis %d" % number
                client.call("XADD", "orders", "*", "value", added)
                expected.append(added)
        leader = cluster.leader("orders")
        leader.kill()
        witness = next(each for each in cluster.brokers.values() if each is not leader)
        with RawRedis(address(witness)) as client:
            assert values_of(client, "orders") == expected
            assert client.call("XADD", "orders", "*", "value", "later") is not None
        produce(producer, "orders", b"plain")
        with RawRedis(address(witness)) as client:
            wait_for_length(client, "orders", len(expected) + 2)
            assert values_of(client, "orders")[-2:] == [b"later", b"plain"]
