"""One group for three protocols: a Redis group of a stream, the share group and the NSQ channel of its name."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.cli.main import run as run_command
from ottla.model.error_code import ErrorCode
from tests.broker_process import BrokerProcess
from tests.cluster import wait_until
from tests.redis_client import RawRedis
from tests.system.nsq_client import NsqClient
from tests.system.redis_address import redis_address
from tests.system.share_member import ShareMember

LISTENERS = {"redis.listener": "127.0.0.1:0", "nsq.listener": "127.0.0.1:0", "nsq.http.listener": "127.0.0.1:0"}
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
GROUP = "workers"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("faces") / "data", LISTENERS) as process:
        assert (
            run_command(
                [
                    "config",
                    "set",
                    "--bootstrap",
                    process.bootstrap,
                    "--group",
                    GROUP,
                    "share.auto.offset.reset=earliest",
                ]
            )
            == 0
        )
        yield process


@pytest.fixture
def redis(broker: BrokerProcess) -> Iterator[RawRedis]:
    with RawRedis(redis_address(broker)) as client:
        yield client


@pytest.fixture
def key() -> str:
    return f"jobs-{uuid4().hex[:8]}"


def nsq_of(broker: BrokerProcess, key: str, ready: int = 1, channel: str = GROUP, **said: Any) -> NsqClient:
    match = re.search(r"nsq (\S+):(\d+)", broker.ready_line)
    assert match is not None, broker.ready_line
    client = NsqClient((match[1], int(match[2])))
    client.identify(**said)
    return client.subscribe(key, channel, ready)


def add(redis: RawRedis, key: str, *names: str) -> list[bytes]:
    return [redis.call("XADD", key, f"{number}-0", "name", name) for number, name in enumerate(names, 1)]


def pending(redis: RawRedis, key: str) -> list[tuple[bytes, bytes, int]]:
    """Id, consumer and delivery count of what is pending."""
    return [(row[0], row[1], row[3]) for row in redis.call("XPENDING", key, GROUP, "-", "+", "100")]


def test_a_share_consumer_is_a_consumer_of_the_group(broker: BrokerProcess, redis: RawRedis, key: str) -> None:
    add(redis, key, "a", "b", "c")
    redis.call("XGROUP", "CREATE", key, GROUP, "0")
    redis.call("XREADGROUP", "GROUP", GROUP, "alice", "COUNT", "1", "STREAMS", key, ">")
    member = ShareMember(broker.port, GROUP, key).join(1)
    taken = member.fetch(max_wait_ms=20_000)
    assert [(last - first + 1, count) for first, last, count in taken[0]] == [(2, 1)]
    name = member.member_id.encode()
    assert pending(redis, key) == [(b"1-0", b"alice", 1), (b"2-0", name, 1), (b"3-0", name, 1)]
    (first, last, _) = taken[0][0]
    for kind in (ACCEPT, RELEASE, RENEW):  # an offset twice: nothing is done
        assert member.settle((first, first, ACCEPT), (first, first, kind)) == ErrorCode.INVALID_RECORD_STATE
    assert pending(redis, key) == [(b"1-0", b"alice", 1), (b"2-0", name, 1), (b"3-0", name, 1)]
    assert member.settle((first, first, ACCEPT)) == ErrorCode.NONE
    assert pending(redis, key) == [(b"1-0", b"alice", 1), (b"3-0", name, 1)]
    assert redis.call("XCLAIM", key, GROUP, "alice", "0", "3-0", "JUSTID") == [b"3-0"]
    assert member.settle((last, last, ACCEPT)) == ErrorCode.INVALID_RECORD_STATE
    assert pending(redis, key) == [(b"1-0", b"alice", 1), (b"3-0", b"alice", 1)]


def test_each_face_finishes_what_another_added(broker: BrokerProcess, redis: RawRedis, key: str) -> None:
    add(redis, key, "a", "b", "c")
    redis.call("XGROUP", "CREATE", key, GROUP, "0")
    worker = nsq_of(broker, key)
    message = worker.message()
    assert (message.attempts, message.body) == (1, b"\x92\xc4\x04name\xc4\x01a")
    assert [row[0] for row in pending(redis, key)] == [b"1-0"]
    worker.send(b"RDY 0")
    worker.send(b"REQ " + message.message_id + b" 0")
    wait_until(lambda: pending(redis, key) == [(b"1-0", b"", 1)] or None, "REQ gives the entry back")
    member = ShareMember(broker.port, GROUP, key).join(1)
    ((first, _, count),) = member.fetch(max_wait_ms=20_000, max_records=1, mode=1)[0]
    assert count == 2
    assert member.settle((first, first, RELEASE)) == ErrorCode.NONE
    reply = redis.call("XREADGROUP", "GROUP", GROUP, "alice", "COUNT", "1", "CLAIM", "1000", "STREAMS", key, ">")
    assert reply[0][1][0][0] == b"1-0"
    assert redis.call("XACK", key, GROUP, "1-0") == 1
    assert pending(redis, key) == []
    worker.send(b"RDY 1")
    message = worker.message()
    worker.finish(message)
    second = worker.message()
    assert pending(redis, key)[0][0] == b"3-0"
    assert redis.call("XACK", key, GROUP, "3-0") == 1
    worker.finish(second)
    assert worker.error().startswith(b"E_FIN_FAILED ")
    assert pending(redis, key) == []


def test_records_of_each_protocol_are_work_for_all_in_the_order_of_ids(
    broker: BrokerProcess, redis: RawRedis, key: str
) -> None:
    redis.call("XADD", key, "1-0", "n", "a")
    redis.call("XGROUP", "CREATE", key, GROUP, "0")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": key})
    producer.init_transactions()
    for value in (b"b", b"e"):  # committed after an entry that lies behind it
        producer.begin_transaction()
        producer.produce(key, value, partition=0)
        producer.flush()
        redis.call("XADD", key, "*", "n", value + b"+")
        producer.commit_transaction()
        wait_until(lambda v=value: _values(redis, key)[-1] == v or None, "it is an entry")  # type: ignore[misc]
    publisher = nsq_of(broker, f"{key}-other")
    publisher.publish(key, b"g")
    wait_until(lambda: redis.call("XLEN", key) == 6 or None, "the message of NSQ is an entry")
    assert _values(redis, key) == [b"a", b"b+", b"b", b"e+", b"e", b"g"]
    worker = nsq_of(broker, key)
    first = worker.message()
    worker.finish(first)
    second = worker.message()
    third_id = redis.call("XREADGROUP", "GROUP", GROUP, "alice", "COUNT", "1", "STREAMS", key, ">")[0][1][0][0]
    worker.send(b"RDY 0")
    worker.finish(second)
    member = ShareMember(broker.port, GROUP, key).join(1)
    runs = member.fetch(max_wait_ms=20_000)[0]
    owners = {row[0]: row[1] for row in pending(redis, key)}
    ids = [entry_id for entry_id, _ in redis.call("XRANGE", key, "-", "+")]
    assert [first.body, second.body] == [b"\x92\xc4\x01n\xc4\x01a", b"\x92\xc4\x01n\xc4\x02b+"]
    assert third_id == ids[2]
    taken = [entry_id for entry_id, owner in owners.items() if owner == member.member_id.encode()]
    assert taken
    assert taken == ids[3 : 3 + len(taken)]
    for first_offset, last_offset, _ in runs:
        assert member.settle((first_offset, last_offset, ACCEPT)) == ErrorCode.NONE
    left = redis.call("XREADGROUP", "GROUP", GROUP, "alice", "STREAMS", key, ">")
    assert [entry_id for entry_id, _ in left[0][1]] == ids[3 + len(taken) :]


def _values(redis: RawRedis, key: str) -> list[bytes]:
    return [fields[1] for _, fields in redis.call("XRANGE", key, "-", "+")]


def test_what_is_over_time_is_given_to_another_face(broker: BrokerProcess, redis: RawRedis, key: str) -> None:
    add(redis, key, "a")
    redis.call("XGROUP", "CREATE", key, GROUP, "0")
    worker = nsq_of(broker, key, msg_timeout=1000)
    message = worker.message()
    worker.send(b"RDY 0")
    member = ShareMember(broker.port, GROUP, key).join(1)
    ((first, _, count),) = member.fetch(max_wait_ms=20_000)[0]
    assert count == 2
    worker.finish(message)
    assert worker.error().startswith(b"E_FIN_FAILED ")
    assert member.settle((first, first, ACCEPT)) == ErrorCode.NONE
    assert pending(redis, key) == []


def test_a_delay_holds_for_all_workers(broker: BrokerProcess, redis: RawRedis, key: str) -> None:
    add(redis, key, "a", "b")
    redis.call("XGROUP", "CREATE", key, GROUP, "0")
    worker = nsq_of(broker, key)
    message = worker.message()
    worker.send(b"REQ " + message.message_id + b" 3600000")
    second = worker.message()
    assert second.message_id != message.message_id
    worker.finish(second)
    wait_until(lambda: pending(redis, key) == [(b"1-0", b"", 1)] or None, "b is done")
    member = ShareMember(broker.port, GROUP, key).join(1)
    assert member.fetch(max_wait_ms=100) == {}
    assert redis.call("XCLAIM", key, GROUP, "alice", "0", "1-0", "JUSTID") == [b"1-0"]


def test_deleted_entries_are_nobodys_work(broker: BrokerProcess, redis: RawRedis, key: str) -> None:
    add(redis, key, "a", "b", "c", "d")
    redis.call("XGROUP", "CREATE", key, GROUP, "0")
    redis.call("XDEL", key, "2-0", "4-0")
    member = ShareMember(broker.port, GROUP, key).join(1)
    taken = member.fetch(max_wait_ms=20_000)[0]
    assert sum(last - first + 1 for first, last, _ in taken) == 2
    redis.call("XDEL", key, "3-0")
    for first, last, _ in taken:
        assert member.settle((first, last, RELEASE)) == ErrorCode.NONE
    again = member.fetch(max_wait_ms=20_000)[0]
    assert [count for _, _, count in again] == [2]
    assert [row[0] for row in pending(redis, key)] == [b"1-0"]


def test_who_is_gone_leaves_nothing_behind(broker: BrokerProcess, redis: RawRedis, key: str) -> None:
    add(redis, key, "a", "b")
    redis.call("XGROUP", "CREATE", key, GROUP, "0")
    member = ShareMember(broker.port, GROUP, key).join(1)
    ((first, _, _),) = member.fetch(max_wait_ms=20_000, max_records=1, mode=1)[0]
    assert [row[1] for row in pending(redis, key)] == [member.member_id.encode()]
    assert member.settle((first, first, RENEW)) == ErrorCode.NONE
    assert [row[1:] for row in pending(redis, key)] == [(member.member_id.encode(), 1)]
    member.fetch_raw(session_epoch=-1)  # its session ends
    wait_until(lambda: pending(redis, key) == [(b"1-0", b"", 1)] or None, "what it had nobody has")
    wait_until(lambda: redis.call("XINFO", "CONSUMERS", key, GROUP) == [] or None, "the consumer is gone")


def test_what_fails_too_often_is_a_dead_letter(broker: BrokerProcess, redis: RawRedis, key: str) -> None:
    group = f"{key}-group"
    letters = f"dlq.{key}"
    settings = ["share.auto.offset.reset=earliest", "share.delivery.count.limit=2"]
    settings += [f"errors.deadletterqueue.topic.name={letters}", "errors.deadletterqueue.copy.record.enable=true"]
    assert run_command(["config", "set", "--bootstrap", broker.bootstrap, "--group", group, *settings]) == 0
    config = ["--config", "errors.deadletterqueue.group.enable=true"]
    assert run_command(["topic", "create", "--bootstrap", broker.bootstrap, letters, *config]) == 0
    add(redis, key, "bad", "worse", "good")
    redis.call("XGROUP", "CREATE", key, group, "0")
    member = ShareMember(broker.port, group, key).join(1)
    ((first, last, _),) = member.fetch(max_wait_ms=20_000)[0]
    runs = (first, first, RELEASE), (first + 1, first + 1, REJECT), (last, last, ACCEPT)
    assert member.settle(*runs) == ErrorCode.NONE
    ((first, _, count),) = member.fetch(max_wait_ms=20_000)[0]
    assert count == 2
    assert member.settle((first, first, RELEASE)) == ErrorCode.NONE
    assert redis.call("XPENDING", key, group)[0] == 0
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": key})
    consumer.assign([TopicPartition(letters, 0, 0)])
    found = [record for _ in range(2) if (record := consumer.poll(60)) is not None]
    consumer.close()
    assert sorted(msgspec.msgpack.decode(record.value() or b"")[1] for record in found) == [b"bad", b"worse"]
    assert all("redis" not in dict(record.headers() or ()) for record in found), "a letter is no record of the stream"


def test_the_last_member_that_goes_leaves_letters(broker: BrokerProcess, redis: RawRedis, key: str) -> None:
    group = f"{key}-group"
    letters = f"dlq.{key}"
    settings = ["share.auto.offset.reset=earliest", "share.delivery.count.limit=2"]
    settings += [f"errors.deadletterqueue.topic.name={letters}"]
    assert run_command(["config", "set", "--bootstrap", broker.bootstrap, "--group", group, *settings]) == 0
    config = ["--config", "errors.deadletterqueue.group.enable=true"]
    assert run_command(["topic", "create", "--bootstrap", broker.bootstrap, letters, *config]) == 0
    add(redis, key, "bad")
    redis.call("XGROUP", "CREATE", key, group, "0")
    for _ in range(2):
        member = ShareMember(broker.port, group, key).join(1)
        assert member.fetch(max_wait_ms=20_000) != {}
        member.fetch_raw(session_epoch=-1)
    wait_until(lambda: redis.call("XPENDING", key, group)[0] == 0 or None, "it was given out too often")
    assert redis.call("XINFO", "GROUPS", key)[0][11] == 0


def test_a_transaction_is_not_seen_half_done(broker: BrokerProcess, redis: RawRedis, key: str) -> None:
    redis.call("XGROUP", "CREATE", key, GROUP, "0", "MKSTREAM")
    worker = nsq_of(broker, key, 10)
    commands = [("XADD", key, f"{number}-0", "name", f"{number}") for number in range(1, 6)]
    done: list[tuple[str | bytes, ...]] = [("XDEL", key, f"{number}-0") for number in range(2, 6)]
    assert redis.pipeline([("MULTI",), *commands, *done, ("EXEC",)])[-1][5:] == [1, 1, 1, 1]
    message = worker.message()
    assert message.body.endswith(b"1")
    assert [row[0] for row in pending(redis, key)] == [b"1-0"], "nothing that the transaction deleted was given out"


def test_entries_of_a_key_that_was_deleted_do_not_come_back(broker: BrokerProcess, redis: RawRedis, key: str) -> None:
    redis.call("XADD", key, "5-0", "name", "old")
    redis.call("DEL", key)
    redis.call("XADD", key, "1-0", "name", "a")
    redis.call("XADD", key, "9-0", "name", "b")
    redis.call("XGROUP", "CREATE", key, GROUP, "0")
    worker = nsq_of(broker, key, 2)
    assert [worker.message().body[-1:], worker.message().body[-1:]] == [b"a", b"b"]
    assert [row[0] for row in pending(redis, key)] == [b"1-0", b"9-0"]


def test_all_tools_tell_the_same(broker: BrokerProcess, redis: RawRedis, key: str, capsys: Any) -> None:
    add(redis, key, *"abcdefg")
    redis.call("XGROUP", "CREATE", key, GROUP, "0")
    redis.call("XGROUP", "CREATE", key, f"{key}-idle", "0")
    redis.call("XREADGROUP", "GROUP", GROUP, "alice", "COUNT", "1", "STREAMS", key, ">")
    worker = nsq_of(broker, key)
    message = worker.message()
    worker.send(b"RDY 0")
    assert message.attempts == 1
    redis.call("XACK", key, GROUP, "1-0")
    groups = {row[1]: (row[5], row[11]) for row in redis.call("XINFO", "GROUPS", key)}
    assert groups == {GROUP.encode(): (1, 5), f"{key}-idle".encode(): (0, 7)}
    wait_until(lambda: set(_channels(broker, key)) == {GROUP, f"{key}-idle"} or None, "the groups are listed")
    channels = _channels(broker, key)
    assert (channels[GROUP]["depth"], channels[GROUP]["in_flight_count"]) == (5, 1)
    assert (channels[f"{key}-idle"]["depth"], channels[f"{key}-idle"]["in_flight_count"]) == (7, 0)
    assert _described(broker, GROUP, key, capsys) == {"lag": 6, "in_flight": 1}
    assert _described(broker, f"{key}-idle", key, capsys) == {"lag": 7, "in_flight": 0}
    assert {GROUP, f"{key}-idle"} <= _listed(broker, capsys)
    redis.call("XGROUP", "DESTROY", key, f"{key}-idle")
    wait_until(lambda: set(_channels(broker, key)) == {GROUP} or None, "the group that is gone is not listed")
    wait_until(lambda: f"{key}-idle" not in _listed(broker, capsys) or None, "nor is it by Kafka's tools")


def test_settings_that_do_nothing_for_streams_are_told_of_or_refused(
    broker: BrokerProcess, redis: RawRedis, key: str, capsys: Any
) -> None:
    def set_of(kind: str, name: str, *settings: str) -> tuple[int, str]:
        code = run_command(["config", "set", "--bootstrap", broker.bootstrap, kind, name, *settings])
        return code, capsys.readouterr().err

    group = f"ordered-{key}"
    redis.call("XGROUP", "CREATE", key, group, "0", "MKSTREAM")
    _until_listed(broker, group)
    capsys.readouterr()
    said = f"on streams of Redis, which group {group} reads: {key}"
    assert set_of("--group", group, "ottla.delivery.order=key") == (
        0,
        f"warning: ottla.delivery.order has no effect {said}\n",
    )
    code, told = set_of("--group", group, "ottla.delivery.order=key", "ottla.delivery.priority.weights=1,4")
    assert (code, told) == (
        0,
        f"warning: ottla.delivery.order and ottla.delivery.priority.weights have no effect {said}\n",
    )
    assert set_of("--group", group, "ottla.delivery.order=none", "ottla.retry.backoff.ms=5") == (0, "")
    assert set_of("--group", f"other-{key}", "ottla.delivery.order=key") == (0, "")
    for setting in ("ottla.ttl.ms=5000", "ottla.ttl.header=true"):
        code, told = set_of("--topic", key, setting)
        assert code == 1
        assert "entries of streams have no time to live" in told


def test_kafkas_tools_reset_and_delete_the_group(broker: BrokerProcess, redis: RawRedis, key: str) -> None:
    group = f"{key}-group"
    add(redis, key, "a", "b", "c")
    redis.call("XGROUP", "CREATE", key, group, "0")
    redis.call("XREADGROUP", "GROUP", group, "alice", "STREAMS", key, ">")
    _until_listed(broker, group)
    reset = ["group", "reset", "--bootstrap", broker.bootstrap, group, key, "--to-earliest"]
    delete = ["group", "delete", "--bootstrap", broker.bootstrap, group]
    assert run_command(delete) != 0  # alice has something of it
    assert run_command(reset) != 0
    redis.call("XACK", key, group, "1-0", "2-0", "3-0")
    assert run_command(reset) == 0
    assert redis.call("XREADGROUP", "GROUP", group, "bob", "STREAMS", key, ">")[0][1][0][0] == b"1-0"
    redis.call("XGROUP", "DELCONSUMER", key, group, "bob")
    assert run_command(delete) == 0
    assert redis.call("XINFO", "GROUPS", key) == []


def test_a_channel_makes_and_deletes_the_group(broker: BrokerProcess, redis: RawRedis, key: str) -> None:
    add(redis, key, "a", "b")
    channel = f"{key}-channel"
    reader = nsq_of(broker, key, 1, channel=channel)
    assert reader.message().attempts == 1
    assert [row[1] for row in redis.call("XINFO", "GROUPS", key)] == [channel.encode()]
    assert _post(broker, f"/channel/empty?topic={key}&channel={channel}") == 200
    assert redis.call("XPENDING", key, channel)[0] == 0
    assert redis.call("XREADGROUP", "GROUP", channel, "alice", "STREAMS", key, ">") is None
    reader.close()
    assert _post(broker, f"/channel/delete?topic={key}&channel={channel}") == 200
    assert redis.call("XINFO", "GROUPS", key) == []


def _http(broker: BrokerProcess) -> http.client.HTTPConnection:
    match = re.search(r"nsq-http (\S+):(\d+)", broker.ready_line)
    assert match is not None, broker.ready_line
    return http.client.HTTPConnection(match[1], int(match[2]), timeout=60)


def _post(broker: BrokerProcess, path: str) -> int:
    connection = _http(broker)
    connection.request("POST", path)
    return connection.getresponse().status


def _channels(broker: BrokerProcess, key: str) -> dict[str, Any]:
    connection = _http(broker)
    connection.request("GET", f"/stats?format=json&topic={key}")
    topics = json.loads(connection.getresponse().read())["topics"]
    return {each["channel_name"]: each for topic in topics for each in topic["channels"]}


def _described(broker: BrokerProcess, group: str, key: str, capsys: Any) -> dict[str, int]:
    capsys.readouterr()
    assert run_command(["group", "describe", "--bootstrap", broker.bootstrap, group, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    (row,) = [each for each in found["partitions"] if each["topic"] == key]
    return {name: row[name] for name in ("lag", "in_flight")}


def _listed(broker: BrokerProcess, capsys: Any) -> set[str]:
    capsys.readouterr()
    assert run_command(["group", "list", "--bootstrap", broker.bootstrap, "-q"]) == 0
    return set(capsys.readouterr().out.split())


def _until_listed(broker: BrokerProcess, group: str) -> None:
    wait_until(
        lambda: run_command(["group", "describe", "--bootstrap", broker.bootstrap, group]) == 0 or None, "listed"
    )
