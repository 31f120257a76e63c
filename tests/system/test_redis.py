"""Redis clients at a running broker: entries, groups, transactions, keys; over restarts, and beside Kafka's clients."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import psutil
import pytest
from confluent_kafka import Consumer, TopicPartition
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, ResponseError, WatchError
from redis.retry import Retry

from tests.broker_process import BrokerProcess
from tests.cluster import wait_until
from tests.redis_client import RawRedis, ReplyError, encoded
from tests.system.document import block_with
from tests.system.redis_address import redis_address as address

LISTENER = {"redis.listener": "127.0.0.1:0"}


def client_of(broker: BrokerProcess, protocol: int = 3, **options: Any) -> Redis:
    host, port = address(broker)
    # A retry would add an entry twice.
    return Redis(host, port, protocol=protocol, socket_timeout=60, retry=Retry(NoBackoff(), 0), **options)


@pytest.fixture(scope="module")
def redis_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("redis") / "data", LISTENER) as process:
        yield process


@pytest.fixture
def raw(redis_broker: BrokerProcess) -> Iterator[Callable[..., RawRedis]]:
    made: list[RawRedis] = []

    def connect(protocol: int = 2) -> RawRedis:
        made.append(RawRedis(address(redis_broker), protocol))
        return made[-1]

    yield connect
    for each in made:
        each.close()


@pytest.fixture
def key() -> str:
    return f"orders-{uuid4().hex[:8]}"


def entries_of(reply: Any) -> list[Any]:
    """The entries that XREADGROUP of one stream gives, which depend on the protocol in their shape."""
    if isinstance(reply, dict):
        ((entries,),) = reply.values()
        return list(entries)
    ((_, entries),) = reply
    return list(entries)


@pytest.mark.parametrize("protocol", [2, 3])
def test_the_python_client_adds_reads_and_acknowledges(redis_broker: BrokerProcess, key: str, protocol: int) -> None:
    client = client_of(redis_broker, protocol, decode_responses=True)
    ids = [client.xadd(key, {"n": str(number)}) for number in range(5)]
    assert client.xlen(key) == 5
    assert client.xrange(key, min=ids[1], max=ids[2]) == [(ids[1], {"n": "1"}), (ids[2], {"n": "2"})]
    assert client.xgroup_create(key, "g", "0")
    taken = entries_of(client.xreadgroup("g", "alice", {key: ">"}, count=3))
    assert [entry_id for entry_id, _ in taken] == ids[:3]
    assert client.xack(key, "g", ids[0]) == 1
    assert client.xpending(key, "g") == {
        "pending": 2,
        "min": ids[1],
        "max": ids[2],
        "consumers": [{"name": "alice", "pending": 2}],
    }
    assert [each[0] for each in client.xclaim(key, "g", "bob", 0, [ids[1]])] == [ids[1]]
    (group,) = client.xinfo_groups(key)
    assert (group["consumers"], group["pending"], group["lag"], group["entries-read"]) == (2, 2, 2, 3)
    assert client.info()["loading"] == 0


def test_a_reader_waits_for_entries_in_the_order_of_the_waiters(raw: Callable[..., RawRedis], key: str) -> None:
    writer, first, second, plain = (raw() for _ in range(4))
    writer.call("XGROUP", "CREATE", key, "g", "$", "MKSTREAM")
    for count, waiter in ((1, first), (2, second)):
        waiter.send("XREADGROUP", "GROUP", "g", f"c{count}", "COUNT", "1", "BLOCK", "0", "STREAMS", key, ">")
        wait_until(partial(_waits, writer, count), "the reader waits")
    plain.send("XREAD", "BLOCK", "0", "STREAMS", key, "$")
    wait_until(partial(_waits, writer, 3), "the reader waits")
    assert writer.pipeline([("XADD", key, "1-1", "n", "1"), ("XADD", key, "1-2", "n", "2")]) == [b"1-1", b"1-2"]
    assert first.reply() == [[key.encode(), [[b"1-1", [b"n", b"1"]]]]]
    assert second.reply() == [[key.encode(), [[b"1-2", [b"n", b"2"]]]]]
    assert plain.reply() == [[key.encode(), [[b"1-1", [b"n", b"1"]]]]]
    second.send("XREADGROUP", "GROUP", "g", "c2", "BLOCK", "0", "STREAMS", key, ">")
    wait_until(partial(_waits, writer, 1), "the reader waits")
    writer.call("XGROUP", "DESTROY", key, "g")
    assert str(second.reply()).startswith("NOGROUP ")
    assert plain.call("XREAD", "BLOCK", "10", "STREAMS", key, "$") is None


def _waits(client: RawRedis, count: int) -> bool:
    return _blocked(client) == count


def _blocked(client: RawRedis) -> int:
    match = re.search(rb"blocked_clients:(\d+)", client.call("INFO", "clients"))
    assert match is not None
    return int(match[1])


def test_a_transaction_is_all_or_nothing_and_is_not_seen_half_done(redis_broker: BrokerProcess, key: str) -> None:
    client = client_of(redis_broker)
    with client.pipeline(transaction=True) as pipe:
        pipe.xadd(key, {"n": "1"}, id="1-1")
        pipe.xadd(f"{key}-2", {"n": "1"}, id="1-1")
        pipe.xlen(key)
        assert pipe.execute() == [b"1-1", b"1-1", 1]
    with client.pipeline(transaction=True) as pipe:
        pipe.watch(key)
        client.xadd(key, {"n": "2"}, id="2-1")
        pipe.multi()
        pipe.xtrim(key, maxlen=0)
        with pytest.raises(WatchError):
            pipe.execute()
    assert client.xlen(key) == 2


@pytest.mark.parametrize(
    ("changes", "is_seen"),
    [
        ([("XADD", "2-0", "n", "v")], True),
        ([("XDEL", "1-0")], True),
        ([("XTRIM", "MAXLEN", "0")], True),
        ([("EXPIRE", "1000")], True),
        ([("DEL",), ("XADD", "1-0", "n", "v")], True),
        ([("XDEL", "9-0")], False),
        ([("XTRIM", "MAXLEN", "9")], False),
        ([("XGROUP", "g", "0"), ("XACK", "g", "1-0"), ("XPENDING", "g")], False),
    ],
    ids=lambda value: "-".join(each[0] for each in value) if isinstance(value, list) else str(value),
)
def test_a_watched_key_is_what_redis_takes_for_changed(
    raw: Callable[..., RawRedis], key: str, changes: list[tuple[str, ...]], is_seen: bool
) -> None:
    client, other = raw(), raw()
    client.call("XADD", key, "1-0", "n", "v")
    client.call("WATCH", key)
    for name, *rest in changes:
        assert not isinstance(other.call(name, *(["CREATE"] if name == "XGROUP" else []), key, *rest), ReplyError)
    client.call("WATCH", key)
    assert client.pipeline([("MULTI",), ("PING",), ("EXEC",)])[-1] == (None if is_seen else ["+PONG"])


def test_a_watched_key_that_was_there_meanwhile_has_changed(raw: Callable[..., RawRedis], key: str) -> None:
    client, other = raw(), raw()
    client.call("WATCH", key)
    other.pipeline([("XADD", key, "1-0", "n", "v"), ("DEL", key)])
    assert client.pipeline([("MULTI",), ("PING",), ("EXEC",)])[-1] is None
    client.call("WATCH", key)
    assert client.pipeline([("MULTI",), ("PING",), ("EXEC",)])[-1] == ["+PONG"]


def test_what_is_refused_within_multi_does_not_end_it(raw: Callable[..., RawRedis], key: str) -> None:
    commands = [("MULTI",), ("XLEN", key), ("MULTI",), ("WATCH", key), ("EXEC",)]
    assert raw().pipeline(commands) == [
        "+OK",
        "+QUEUED",
        "ERR MULTI calls can not be nested",
        "ERR WATCH inside MULTI is not allowed",
        [0],
    ]


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"PING\r\n", b"+PONG\r\n"),
        (b'\r\nECHO "a b"\n', b"$3\r\na b\r\n"),
        (b"*1\r\n:3\r\n", b"-ERR Protocol error: expected '$', got ':'\r\n"),
        (b"*1\r\n$536870913\r\n", b"-ERR Protocol error: invalid bulk length\r\n"),
        (b"*2147483648\r\n", b"-ERR Protocol error: invalid multibulk length\r\n"),
        (b'ECHO "a\r\n', b"-ERR Protocol error: unbalanced quotes in request\r\n"),
        (b"SET a b\r\n", b"-ERR 'set' is not served: Ottla holds streams, and no other data types\r\n"),
        (b"NOSUCH a b\r\n", b"-ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b' \r\n"),
        (b"*0\r\n*-1\r\n" + encoded(("SELECT", "16")), b"-ERR DB index is out of range\r\n"),
    ],
)
def test_bytes_are_answered_as_by_redis(raw: Callable[..., RawRedis], sent: bytes, answer: bytes) -> None:
    client = raw()
    client.socket.sendall(sent)
    found = b""
    while len(found) < len(answer):
        data = client.socket.recv(4096)
        assert data, found
        found += data
    assert found == answer


def test_a_client_that_leaves_while_it_waits_is_forgotten(raw: Callable[..., RawRedis], key: str) -> None:
    witness = raw()
    witness.call("XGROUP", "CREATE", key, "g", "0", "MKSTREAM")
    read = ("XREAD", "BLOCK", "0", "STREAMS", key, "$")
    for words in (read, ("XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", key, ">")):
        identities = []
        for _ in range(3):
            with raw() as client:
                identities.append(str(client.call("CLIENT", "ID")))
                client.send(*words)
                wait_until(partial(_waits, witness, 1), "it waits")
            wait_until(partial(_waits, witness, 0), "it waits no more")
        listed = ("CLIENT", "LIST", "ID", *identities)
        wait_until(lambda listed=listed: witness.call(*listed) == b"", "they are forgotten")  # type: ignore[misc]


def test_a_client_that_sends_nothing_more_is_answered_to_the_end(raw: Callable[..., RawRedis], key: str) -> None:
    client = raw()
    commands = (("XADD", key, "1-1", "n", "v"), ("XLEN", key), ("XREAD", "BLOCK", "0", "STREAMS", key, "$"))
    client.socket.sendall(b"".join(map(encoded, commands)))
    client.socket.shutdown(socket.SHUT_WR)
    assert [client.reply() for _ in commands] == [b"1-1", 1, None]
    assert client.socket.recv(1) == b""


def test_a_command_in_pieces_is_one_and_a_large_one_is_served(raw: Callable[..., RawRedis], key: str) -> None:
    client, value = raw(), bytes(range(256)) * 20_000
    data = encoded(("XADD", key, "1-1", "f", value)) + encoded(("XLEN", key))
    for at in range(0, len(data), 999_983):
        client.socket.sendall(data[at : at + 999_983])
    assert [client.reply(), client.reply()] == [b"1-1", 1]
    assert client.call("XRANGE", key, "-", "+") == [[b"1-1", [b"f", value]]]


def test_keys_are_any_bytes_of_sixteen_databases(raw: Callable[..., RawRedis]) -> None:
    client = raw()
    keys = [b"a.b", b"a_b", b"user:1", b"\xff\x00", b"..", "käse".encode(), b"k" * 300, b""]
    client.call("SELECT", "5")
    for number, each in enumerate(keys):
        assert client.call("XADD", each, f"{number + 1}-0", "f", "v") == b"%d-0" % (number + 1)
    assert sorted(client.call("KEYS", "*")) == sorted(keys)
    assert client.call("RENAME", b"a.b", b"user:1") == "+OK"
    assert client.call("XRANGE", b"user:1", "-", "+") == [[b"1-0", [b"f", b"v"]]]
    client.call("SELECT", "6")
    assert client.call("DBSIZE") == 0
    client.call("SELECT", "5")
    assert client.call("DBSIZE") == len(keys) - 1
    assert client.call("FLUSHDB") == "+OK"
    assert client.call("DBSIZE") == 0


def test_approximate_trimming_removes_whole_nodes(raw: Callable[..., RawRedis], key: str) -> None:
    client = raw()
    client.pipeline([("XADD", key, f"{number}-0", "xitem", "v") for number in range(1, 1001)])
    assert client.call("XTRIM", key, "MAXLEN", "~", "555") == 400
    assert client.call("XLEN", key) == 600
    assert client.call("XTRIM", key, "MAXLEN", "~", "0", "LIMIT", "1") == 0
    assert client.call("XTRIM", key, "MAXLEN", "=", "5") == 595


def test_a_node_of_which_all_is_deleted_is_trimmed_like_the_others(raw: Callable[..., RawRedis], key: str) -> None:
    client = raw()
    client.pipeline([("XADD", key, f"{number}-0", "n", "x" * 3_000) for number in range(1, 5)])
    assert dict(zip(*[iter(client.call("XINFO", "STREAM", key))] * 2, strict=True))[b"radix-tree-keys"] == 4
    client.pipeline([("XADD", key, f"{number}-0", "n", "y") for number in range(5, 8)])
    assert client.call("XDEL", key, "7-0") == 1
    client.call("XADD", key, "8-0", "n", "x" * 4_000)
    assert client.call("XTRIM", key, "MINID", "7") == 6
    assert client.call("XTRIM", key, "MINID", "~", "8") == 0
    assert dict(zip(*[iter(client.call("XINFO", "STREAM", key))] * 2, strict=True))[b"radix-tree-keys"] == 1


def test_an_entry_is_a_record_for_kafka(redis_broker: BrokerProcess, key: str) -> None:
    client_of(redis_broker).xadd(key, {"name": "Ottla", "n": "1"}, id="7-1")
    consumer = Consumer({"bootstrap.servers": redis_broker.bootstrap, "group.id": key})
    consumer.assign([TopicPartition(key, 0, 0)])
    while True:
        record = consumer.poll(60)
        assert record is not None
        assert record.error() is None
        headers = dict(record.headers() or ())
        if headers["redis"] == b"N" + bytes(7) + b"\x07" + bytes(7) + b"\x01":
            break
    consumer.close()
    value = record.value()
    assert value is not None
    assert msgspec.msgpack.decode(value) == [b"name", b"Ottla", b"n", b"1"]


def _state(client: RawRedis, key: str) -> list[Any]:
    return [
        client.call("XINFO", "STREAM", key, "FULL", "COUNT", "0"),
        client.call("XPENDING", key, "g"),
        client.call("PTTL", key) > 0,
        client.call("KEYS", "*"),
    ]


def test_a_crash_keeps_everything(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data", LISTENER)
    with broker:
        client = RawRedis(address(broker))
        client.pipeline([("XADD", "s", f"{number}-0", "a", "x" * 50, "b", "y") for number in range(1, 251)])
        client.call("XDEL", "s", "3-0", "200-0", "250-0")
        client.call("XTRIM", "s", "MAXLEN", "195")
        client.call("XGROUP", "CREATE", "s", "g", "0")
        client.call("XREADGROUP", "GROUP", "g", "alice", "COUNT", "20", "STREAMS", "s", ">")
        client.call("XACK", "s", "g", "60-0", "61-0")
        client.call("XCLAIM", "s", "g", "bob", "0", "63-0", "RETRYCOUNT", "9")
        client.call("XSETID", "s", "999-9")
        client.call("EXPIRE", "s", "10000")
        client.call("XADD", "gone", "1-0", "a", "b")
        client.call("DEL", "gone")
        client.call("XADD", "before", "1-0", "a", "b")
        client.call("RENAME", "before", "after:1")
        before = _state(client, "s")
        assert before[0][1] == 195
        client.close()
        broker.kill()
        broker.start()
        client = RawRedis(address(broker))
        assert sorted(client.call("KEYS", "*")) == [b"after:1", b"s"]
        assert _state(client, "s")[:3] == before[:3]
        assert client.call("XADD", "s", "999-*", "a", "b") == b"999-10"
        assert client.call("XTRIM", "s", "MAXLEN", "~", "120") == 75, "as Redis, whose nodes these are"
        client.close()


def test_nothing_that_was_answered_is_lost_in_a_crash(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data", LISTENER)
    with broker:
        added: list[bytes] = []
        acknowledged: list[bytes] = []
        taken: list[bytes] = []
        client = RawRedis(address(broker))
        client.call("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")

        def write() -> None:
            writer = RawRedis(address(broker))
            try:
                while True:
                    added.extend(writer.pipeline([("XADD", "s", "*", "f", "v")] * 20))
            except (OSError, EOFError):
                return

        def work() -> None:
            worker = RawRedis(address(broker))
            try:
                while True:
                    reply = worker.call("XREADGROUP", "GROUP", "g", "w", "COUNT", "5", "STREAMS", "s", ">")
                    ids = [entry[0] for _, entries in reply or () for entry in entries]
                    taken.extend(ids)
                    if ids[:3]:
                        worker.call("XACK", "s", "g", *ids[:3])
                        acknowledged.extend(ids[:3])
            except (OSError, EOFError):
                return

        threads = [threading.Thread(target=each) for each in (write, write, work)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(added) > 2_000 and len(acknowledged) > 100, "some work is done")
        broker.kill()
        for thread in threads:
            thread.join()
        broker.start()
        client = RawRedis(address(broker))
        kept = {entry[0] for entry in client.call("XRANGE", "s", "-", "+")}
        assert set(added) <= kept
        pending = {row[0] for row in client.call("XPENDING", "s", "g", "-", "+", "1000000")}
        assert not pending & set(acknowledged)
        assert set(taken) - set(acknowledged) - pending <= set(taken[-5:]), "but for the last, whose XACK may be stored"
        last = max(tuple(map(int, each.split(b"-"))) for each in kept)
        following = client.call("XADD", "s", "*", "f", "v")
        assert tuple(map(int, following.split(b"-"))) > last


def test_an_announced_bulk_costs_nothing_and_clients_that_wait_are_many(redis_broker: BrokerProcess, key: str) -> None:
    waiting = []
    for _ in range(200):
        client = RawRedis(address(redis_broker))
        client.send("XREAD", "BLOCK", "0", "STREAMS", key, "$")
        client.socket.sendall(b"*3\r\n$4\r\nXADD\r\n$67108864\r\nabc")
        waiting.append(client)
    other = RawRedis(address(redis_broker))
    wait_until(lambda: _blocked(other) == 200, "all wait")
    other.call("XADD", key, "1-0", "f", "v")
    assert all(each.reply() == [[key.encode(), [[b"1-0", [b"f", b"v"]]]]] for each in waiting)
    for each in (*waiting, other):
        each.close()


def test_errors_of_clients_are_theirs(redis_broker: BrokerProcess, key: str) -> None:
    client = client_of(redis_broker)
    with pytest.raises(ResponseError, match="requires the key to exist"):
        client.xgroup_create(key, "g")
    assert isinstance(RawRedis(address(redis_broker)).call("HELLO", "4"), ReplyError)
    with pytest.raises(AuthenticationError, match="invalid username-password pair"):
        client_of(redis_broker, username="u", password="p").ping()


def test_entries_that_are_only_in_the_log_are_read_as_they_were(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data", {**LISTENER, "redis.cache.max.bytes": "1048576"})
    with broker:
        client = RawRedis(address(broker))
        for at in range(1, 25_001, 500):
            client.pipeline([("XADD", "s", f"{number}-0", "n", f"{number}") for number in range(at, at + 500)])
        expected = [[b"%d-0" % number, [b"n", b"%d" % number]] for number in range(1, 25_001)]
        client.call("XDEL", "s", "5-0", "12345-0")
        expected = [each for each in expected if each[0] not in (b"5-0", b"12345-0")]
        client.close()
        broker.kill()
        broker.start()
        client = RawRedis(address(broker))
        assert client.call("XRANGE", "s", "12000-0", "+", "COUNT", "1000") == expected[11_998:12_998]
        assert client.call("XREVRANGE", "s", "9000-0", "-", "COUNT", "1000") == expected[7_999:8_999][::-1]
        assert client.pipeline(
            [("MULTI",), ("XTRIM", "s", "MAXLEN", "24000"), ("XRANGE", "s", "-", "+", "COUNT", "1")]
        ) == [
            "+OK",
            "+QUEUED",
            "+QUEUED",
        ]
        assert client.call("EXEC") == [998, expected[998:999]]
        assert client.call("XLEN", "s") == 24_000
        client.close()


def test_a_long_reply_may_begin_at_the_end_of_what_is_only_in_the_log(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", {**LISTENER, "redis.cache.max.bytes": "1048576"}) as broker:
        client = RawRedis(address(broker))
        for at in range(1, 12_001, 500):
            client.pipeline([("XADD", "s", f"{at + n}-0", "n", b"%d" % (at + n) + b"x" * 1000) for n in range(500)])
        expected = [[b"%d-0" % n, [b"n", b"%d" % n + b"x" * 1000]] for n in range(12_000, 0, -1)]
        client.pipeline([("MULTI",), ("XREVRANGE", "s", "+", "-")])
        assert client.call("EXEC") == [expected]
        client.close()


def test_the_example_of_the_redis_page(redis_broker: BrokerProcess, capsys: pytest.CaptureFixture[str]) -> None:
    example = block_with("docs/redis.md", "xreadgroup", "python").replace(
        "port=6379", f"port={address(redis_broker)[1]}, socket_timeout=60"
    )
    exec(compile(example, "docs/redis.md", "exec"), {})
    assert capsys.readouterr().out.endswith("{'item': 'tea', 'count': '2'}\n")
    assert client_of(redis_broker).xpending("orders", "billing")["pending"] == 0


def _memory(broker: BrokerProcess) -> int:
    """The bytes of memory that a broker has."""
    assert broker.process is not None
    return int(psutil.Process(broker.process.pid).memory_info().rss)


def test_a_reply_that_nobody_reads_costs_no_memory(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", LISTENER) as broker:
        client = RawRedis(address(broker))
        for at in range(1, 61):
            client.call("XADD", "s", f"{at}-0", "n", b"%08d" % at * 131_072)
        before, slow = _memory(broker), []
        for _ in range(5):
            slow.append(RawRedis(address(broker)))
            slow[-1].send("XRANGE", "s", "-", "+")
            slow[-1].send("XREAD", "STREAMS", "s", "0")
            wait_until(lambda: len(slow[-1].socket.recv(1 << 16, socket.MSG_PEEK)) == 1 << 16, "it has begun")
        assert client.call("XLEN", "s") == 60
        assert _memory(broker) - before < 40 << 20, "of 600 MB that were asked for"
        assert len(slow[0].reply()) == 60
        for each in slow:
            each.close()
        client.close()


def test_a_long_reply_is_what_the_stream_was_when_it_was_asked_for(raw: Callable[..., RawRedis], key: str) -> None:
    slow, other = raw(3), raw()
    for at in range(1, 20_001, 500):
        other.pipeline([("XADD", key, f"{at + n}-0", "n", "x" * 500, "m", f"{at + n}") for n in range(500)])
    other.call("XDEL", key, "7-0", "19999-0")
    expected = [[b"%d-0" % n, [b"n", b"x" * 500, b"m", b"%d" % n]] for n in range(1, 20_001) if n not in (7, 19_999)]
    slow.send("XRANGE", key, "5-0", "+")
    slow.send("XREVRANGE", key, "19000-0", "-", "COUNT", "15000")
    slow.send("XREAD", "STREAMS", key, "100-0")
    slow.send("XLEN", key)
    wait_until(lambda: len(slow.socket.recv(8, socket.MSG_PEEK)) == 8, "the reply has begun")
    other.call("XDEL", key, "20000-0", "15000-0")
    other.call("XADD", key, "20001-0", "n", "new")
    other.call("XTRIM", key, "MAXLEN", "5000")
    assert slow.reply() == expected[4:]
    left = [n for n in range(14_999, 19_999) if n != 15_000]
    assert [each[0] for each in slow.reply()] == [b"%d-0" % n for n in reversed(left) if n <= 19_000]
    ((_, found),) = slow.reply()[1:]
    assert [each[0] for each in found] == [b"%d-0" % n for n in left] + [b"20001-0"]
    assert slow.reply() == 5_000


def test_a_transaction_has_the_size_of_a_command_at_most(
    redis_broker: BrokerProcess, raw: Callable[..., RawRedis]
) -> None:
    client = raw()
    body = bytes(48 << 20)
    assert client.call("MULTI") == "+OK"
    assert [client.call("ECHO", body) for _ in range(2)] == ["+QUEUED"] * 2
    refused = "ERR the transaction is larger than redis.client.query.buffer.limit"
    assert client.call("ECHO", body) == ReplyError(refused)
    assert str(client.call("EXEC")).startswith("EXECABORT")
    assert client.pipeline([("MULTI",), ("ECHO", "small"), ("EXEC",)]) == ["+OK", "+QUEUED", [b"small"]]
