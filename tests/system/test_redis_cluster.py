"""Redis clients of three brokers: each takes every key, and a leader that is killed takes nothing with it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from tests.broker_process import BrokerProcess
from tests.cluster import Cluster, wait_until
from tests.redis_client import RawRedis, ReplyError
from tests.system.redis_address import redis_address as address

NONE = Retry(NoBackoff(), 0)
"""A command whose reply was lost is not sent again by the client: it may be there twice then, as with Redis."""

SETTINGS = {
    "redis.listener": "127.0.0.1:0",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("redis"), settings=SETTINGS) as cluster:
        cluster.wait_until_registered()
        yield cluster


@pytest.fixture
def clients(cluster: Cluster) -> Iterator[list[RawRedis]]:
    """One at each broker; the keys `first`, `second` and `third` of database 0 are led by them in this order."""
    made = [RawRedis(address(broker)) for broker in cluster.brokers.values()]
    assert made[0].call("FLUSHALL") == "+OK"
    for client, key in zip(made, ("first", "second", "third"), strict=True):
        assert client.call("XADD", key, "1-0", "n", "1") == b"1-0"
    yield made
    for client in made:
        client.close()


def test_any_broker_takes_any_key(clients: list[RawRedis]) -> None:
    for at, client in enumerate(clients):
        for key in ("first", "second", "third"):
            assert client.call("XADD", key, f"{at + 2}-0", "n", "v") == f"{at + 2}-0".encode()
    for client in clients:
        assert [client.call("XLEN", key) for key in ("first", "second", "third")] == [4, 4, 4]
        assert sorted(client.call("KEYS", "*")) == [b"first", b"second", b"third"]
        assert client.call("DBSIZE") == 3
        assert client.call("EXISTS", "first", "second", "third", "none") == 3
        assert client.call("TYPE", "second") == "+stream"
        assert isinstance(client.call("XADD", "first", "1-0", "n", "v"), ReplyError)
    assert clients[0].pipeline([("XADD", "third", f"{n}-0", "n", "v") for n in range(10, 400)]) == [
        b"%d-0" % n for n in range(10, 400)
    ]
    assert clients[1].pipeline([("XLEN", "first"), ("PING",), ("XLEN", "third"), ("XLEN", "second")]) == [
        4,
        "+PONG",
        394,
        4,
    ]
    assert clients[2].call("DEL", "first", "second", "third") == 3
    assert [client.call("DBSIZE") for client in clients] == [0, 0, 0]


def test_a_client_is_told_how_many_replicas_have_what_it_wrote(cluster: Cluster, clients: list[RawRedis]) -> None:
    for key in ("first", "third"):
        cluster.wait_until_in_sync(key)
    client = clients[0]
    assert client.pipeline([("XADD", "first", "2-0", "n", "v"), ("WAIT", "2", "0")])[1] == 2
    assert client.pipeline([("XADD", "third", "2-0", "n", "v"), ("WAITAOF", "1", "2", "0")])[1] == [1, 2]


def test_groups_and_clients_that_wait_are_those_of_the_leader(cluster: Cluster, clients: list[RawRedis]) -> None:
    first, second, third = clients
    assert second.call("XGROUP", "CREATE", "first", "g", "0") == "+OK"
    assert third.call("XREADGROUP", "GROUP", "g", "w", "STREAMS", "first", ">") == [
        [b"first", [[b"1-0", [b"n", b"1"]]]]
    ]
    assert first.call("XPENDING", "first", "g") == [1, b"1-0", b"1-0", [[b"w", b"1"]]]
    second.send("XREADGROUP", "GROUP", "g", "v", "BLOCK", "0", "STREAMS", "first", ">")
    third.send("XREAD", "BLOCK", "0", "STREAMS", "third", "second", "first", "$", "$", "$")
    wait_until(lambda: all(_waits(cluster, broker_id) for broker_id in (2, 3)), "both wait")
    first.call("XADD", "first", "2-0", "n", "2")
    assert second.reply() == [[b"first", [[b"2-0", [b"n", b"2"]]]]]
    assert third.reply() == [[b"first", [[b"2-0", [b"n", b"2"]]]]]
    assert second.call("XREAD", "BLOCK", "1", "STREAMS", "first", "$") is None
    third.send("XREAD", "BLOCK", "0", "STREAMS", "not-yet", "0")
    first.call("XADD", "not-yet", "1-0", "n", "1")
    assert third.reply() == [[b"not-yet", [[b"1-0", [b"n", b"1"]]]]]
    assert second.call("XREAD", "STREAMS", "third", "none", "first", "0", "0", "1-0") == [
        [b"third", [[b"1-0", [b"n", b"1"]]]],
        [b"first", [[b"2-0", [b"n", b"2"]]]],
    ]


def _waits(cluster: Cluster, broker_id: int) -> bool:
    with RawRedis(address(cluster.brokers[broker_id])) as client:
        return b"blocked_clients:1\r\n" in client.call("INFO", "clients")


def test_transactions_are_whole_where_one_broker_leads_their_keys(clients: list[RawRedis]) -> None:
    _, second, third = clients
    assert second.pipeline([("MULTI",), ("XADD", "first", "5-0", "n", "5"), ("XLEN", "first"), ("EXEC",)]) == [
        "+OK",
        "+QUEUED",
        "+QUEUED",
        [b"5-0", 2],
    ]
    assert second.call("WATCH", "first", "none") == "+OK"
    third.call("XADD", "first", "6-0", "n", "6")
    assert second.pipeline([("MULTI",), ("XADD", "first", "7-0", "n", "7"), ("EXEC",)])[-1] is None
    assert second.call("WATCH", "first", "none") == "+OK"
    assert second.pipeline([("MULTI",), ("XADD", "first", "7-0", "n", "7"), ("EXEC",)])[-1] == [b"7-0"]
    refused = second.pipeline([("MULTI",), ("XLEN", "first"), ("XLEN", "third"), ("EXEC",)])[-1]
    assert "CROSSSLOT" in refused
    assert second.pipeline([("XLEN", "first"), ("XLEN", "third")]) == [4, 1]


def test_a_key_that_is_renamed_is_found_by_all(clients: list[RawRedis]) -> None:
    _, second, third = clients
    assert third.call("RENAME", "first", "renamed:1") == "+OK"
    for client in clients:
        assert client.call("XRANGE", "renamed:1", "-", "+") == [[b"1-0", [b"n", b"1"]]]
        assert client.call("EXISTS", "first") == 0
    assert second.call("XADD", "first", "1-1", "n", "new") == b"1-1"
    assert second.call("RENAMENX", "renamed:1", "third") == 0
    assert second.call("RENAMENX", "absent", "third") == "ERR no such key"
    assert [client.call("XLEN", "first") for client in clients] == [1, 1, 1]
    assert sorted(second.call("KEYS", "*")) == [b"first", b"renamed:1", b"second", b"third"]


def test_a_key_that_is_renamed_back_and_deleted_in_one_pipeline_is_made_anew(clients: list[RawRedis]) -> None:
    client = clients[0]
    for number in range(1, 30):
        there, back = ("RENAME", "first", "user:1"), ("RENAME", "user:1", "first")
        add = ("XADD", "first", "1-0", "n", "v")
        commands: list[tuple[str | bytes, ...]] = [
            there,
            back,
            ("UNLINK", "first"),
            add,
            there,
            ("DEL", "user:1"),
            add,
            there,
            back,
            add,
        ]
        replies = client.pipeline(commands[: 3 + number % 8])
        assert not [each for each in replies[:9] if isinstance(each, ReplyError)]
        assert client.call("DEL", "user:1", "first") in (0, 1)
        assert client.call("XADD", "user:1", "1-0", "n", "v") == b"1-0"
        assert client.call("XADD", "first", "2-0", "n", "v") == b"2-0"
        assert [each.call("XLEN", "user:1") for each in clients] == [1, 1, 1]
        assert [each.call("XLEN", "first") for each in clients] == [1, 1, 1]
        assert client.call("DEL", "user:1") == 1


def test_keys_that_one_pipeline_renames_one_after_the_other_keep_their_streams(clients: list[RawRedis]) -> None:
    client = clients[0]
    swap = [("RENAME", "b", "e"), ("RENAME", "a", "b"), ("RENAME", "e", "a")]
    shift = [("RENAMENX", "c", "f"), ("RENAME", "d", "c"), ("RENAME", "b", "d")]
    for _ in range(8):
        for number, key in enumerate("abcd"):
            assert client.call("XADD", key, f"{number}-1", "n", "v")
        assert client.pipeline([*swap, *shift]) == ["+OK", "+OK", "+OK", 1, "+OK", "+OK"]
        for each in clients:
            entries = each.pipeline([("XRANGE", key, "-", "+") for key in "acdf"])
            assert [found[0][0] for found in entries] == [b"1-1", b"3-1", b"0-1", b"2-1"]
        assert client.call("DEL", *"abcdef") == 4


def test_a_transaction_makes_a_key_anew_that_was_renamed_in_it_or_right_before(clients: list[RawRedis]) -> None:
    client = clients[0]
    move, add = ("RENAME", "first", "moved"), ("XADD", "first", "5-0", "n", "v")
    for commands in (
        [("MULTI",), move, add, ("EXEC",)],
        [("MULTI",), move, ("EXEC",), ("MULTI",), add, ("EXEC",)],
        [move, ("MULTI",), add, ("EXEC",)],
    ):
        replies = client.pipeline(commands)
        assert replies[-1][-1] == b"5-0"
        for each in clients:
            assert each.call("XRANGE", "moved", "-", "+")[0][0] == b"1-0"
            assert each.call("XRANGE", "first", "-", "+")[0][0] == b"5-0"
        client.call("DEL", "first", "moved")
        client.call("XADD", "first", "1-0", "n", "v")


def test_a_copy_takes_the_place_of_a_stream_that_has_just_come_to_its_key(clients: list[RawRedis]) -> None:
    client = clients[0]
    for _ in range(5):
        client.call("XADD", "a", "1-0", "n", "v")
        client.call("XADD", "b", "2-0", "n", "v")
        assert client.pipeline([("RENAME", "a", "c"), ("COPY", "b", "c", "REPLACE")]) == ["+OK", 1]
        for each in clients:
            assert each.call("XRANGE", "c", "-", "+")[0][0] == b"2-0"
        assert client.call("DEL", "a", "b", "c") == 2


def test_a_key_takes_the_place_of_one_that_another_broker_leads(clients: list[RawRedis]) -> None:
    for round_number, (client, other) in enumerate(zip(clients, [*clients[1:], clients[0]], strict=True)):
        source, target = f"source-{round_number}", f"target-{round_number}"
        client.call("XADD", source, "1-0", "n", "moved")
        client.call("XGROUP", "CREATE", source, "g", "0")
        other.call("XADD", target, "9-0", "n", "replaced")
        for asked in clients[round_number:] + clients[:round_number]:
            assert asked.call("RENAME", source, target) == "+OK"
            for each in clients:
                assert each.call("EXISTS", source) == 0
                assert each.call("XRANGE", target, "-", "+") == [[b"1-0", [b"n", b"moved"]]]
                assert len(each.call("XINFO", "GROUPS", target)) == 1
            added = asked.call("XADD", target, "9-*", "n", "more")
            assert asked.call("XDEL", target, added) == 1
            source, target = target, source
            other.call("XADD", target, "9-0", "n", "replaced")


def test_copies_are_led_where_the_stream_is_and_any_broker_makes_them(
    cluster: Cluster, clients: list[RawRedis]
) -> None:
    first, second, third = clients
    first.call("XGROUP", "CREATE", "first", "g", "0")
    copied = [[b"1-0", [b"n", b"1"]]]
    second.call("XADD", "second", "2-0", "n", "replaced")
    for asked, target in ((first, "copy:1"), (second, "copy:2"), (third, "copy:3")):
        assert asked.call("COPY", "first", target) == 1
        assert [client.call("COPY", "first", target) for client in clients] == [0, 0, 0]
        assert asked.call("COPY", "first", "second") == asked.call("COPY", "absent", "second", "REPLACE") == 0
        assert asked.call("COPY", "first", target, "REPLACE") == 1
        assert asked.call("COPY", "first", "second", "REPLACE") == 1
        for client in clients:
            for key in (target, "second"):
                assert client.call("XRANGE", key, "-", "+") == copied
                assert len(client.call("XINFO", "GROUPS", key)) == 1
        assert asked.call("XADD", "second", "5-*", "n", "more") == b"5-0"
        assert [client.call("XLEN", "second") for client in clients] == [2, 2, 2]
        assert asked.call("DEL", "second") == 1
        assert third.call("XADD", "second", "2-0", "n", "of another broker") == b"2-0"
    assert sorted(second.call("KEYS", "*")) == [b"copy:1", b"copy:2", b"copy:3", b"first", b"second", b"third"]
    assert second.pipeline([("MULTI",), ("COPY", "first", "third", "REPLACE"), ("EXEC",)])[-1].startswith("EXECABORT")
    assert second.pipeline([("MULTI",), ("COPY", "first", "copy:1", "REPLACE"), ("XLEN", "copy:1"), ("EXEC",)])[-1] == [
        1,
        1,
    ]
    assert second.call("COPY", "first", "first", "DB", "3") == 1
    second.call("SELECT", "3")
    assert second.call("XRANGE", "first", "-", "+") == copied


def test_move_does_nothing_where_another_broker_has_the_key(clients: list[RawRedis]) -> None:
    first, second, third = clients
    first.call("XADD", "moving", "1-0", "n", "1")
    second.call("SELECT", "1")
    second.call("XADD", "moving", "2-0", "n", "2")
    second.call("SELECT", "0")
    assert [client.call("MOVE", "moving", "1") for client in clients] == [0, 0, 0]
    assert third.call("MOVE", "absent", "1") == 0
    assert third.call("XLEN", "moving") == 1


Id = tuple[int, int]


def id_of(text: bytes) -> Id:
    """Milliseconds and sequence."""
    milliseconds, _, sequence = text.partition(b"-")
    return int(milliseconds), int(sequence)


def _ids_of(reply: Any) -> list[bytes]:
    """The ids that XREADGROUP of one stream gives, in whatever shape the protocol has it."""
    rows = reply.values() if isinstance(reply, dict) else [entries for _, entries in reply or ()]
    return [entry[0] for entries in rows for entry in (entries[0] if isinstance(entries[0], list) else entries)]


class Load:
    """redis-py at some brokers: writers in pipelines and workers of a group, and what they were told."""

    def __init__(self, cluster: Cluster, key: str, broker_ids: list[int]) -> None:
        self.key = key
        self.added: list[list[Id]] = []
        self.taken: dict[str, set[Id]] = {}
        """By consumer, what it was given and has not tried to acknowledge."""
        self.acknowledged: set[Id] = set()
        self._ends = threading.Event()
        self._failed: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._guarded, args=(work, Redis(*address(cluster.brokers[broker_id]), retry=NONE)))
            for broker_id in broker_ids
            for work in (self._write, self._work)
        ]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Stop, and say what went wrong."""
        self._ends.set()
        for thread in self._threads:
            thread.join()
        assert not self._failed, self._failed

    def _guarded(self, work: Callable[[Redis], None], client: Redis) -> None:
        try:
            work(client)
        except BaseException as error:
            self._failed.append(error)
        finally:
            client.close()

    def _write(self, client: Redis) -> None:
        added: list[Id] = []
        self.added.append(added)
        while not self._ends.is_set():
            pipeline = client.pipeline(transaction=False)
            for _ in range(10):
                pipeline.xadd(self.key, {"f": "v"})
            try:
                added += map(id_of, pipeline.execute())
            except (RedisConnectionError, RedisTimeoutError):
                continue

    def _work(self, client: Redis) -> None:
        consumer = uuid4().hex
        taken = self.taken[consumer] = set()
        while not self._ends.is_set():
            try:
                reply: Any = client.xreadgroup("g", consumer, {self.key: ">"}, count=5, block=50)
                ids = _ids_of(reply)
                taken.update(map(id_of, ids))
                if ids[:3]:
                    taken.difference_update(map(id_of, ids[:3]))
                    client.xack(self.key, "g", *ids[:3])
                    self.acknowledged.update(map(id_of, ids[:3]))
            except (RedisConnectionError, RedisTimeoutError):
                continue

    def has_begun(self) -> bool:
        """Whether all its clients are at work."""
        return len(self.added) == len(self.taken) == len(self._threads) // 2

    @property
    def has_gone_on(self) -> Callable[[], bool]:
        """Whether each client has got further since."""
        before = [len(each) for each in self.added]
        acknowledged = len(self.acknowledged)

        def look() -> bool:
            return (
                all(len(now) > then + 50 for now, then in zip(self.added, before, strict=True))
                and len(self.acknowledged) > acknowledged + 20
            )

        return look


def _kill_leaders(cluster: Cluster, key: str, rounds: int) -> None:
    with RawRedis(address(cluster.brokers[1])) as client:
        client.call("XGROUP", "CREATE", key, "g", "0", "MKSTREAM")
    cluster.wait_until_in_sync(key)
    loads: list[Load] = []
    for _ in range(rounds):
        leader = cluster.leader(key)
        others = [broker_id for broker_id, broker in cluster.brokers.items() if broker is not leader]
        load = Load(cluster, key, others)
        loads.append(load)
        try:
            wait_until(load.has_begun, "all have begun")
            wait_until(load.has_gone_on, "work is done")
            leader.kill()
            wait_until(load.has_gone_on, "work goes on")
        finally:
            load.end()
        leader.start()
        cluster.wait_until_in_sync(key)
    for broker_id in cluster.brokers:
        check(cluster, broker_id, key, loads)


class Told(Protocol):
    """What clients were told."""

    @property
    def added(self) -> list[list[Id]]:
        """Ids, by who added them, in order."""

    @property
    def taken(self) -> dict[str, set[Id]]:
        """By consumer, what it was given and has not tried to acknowledge."""

    @property
    def acknowledged(self) -> set[Id]:
        """What was acknowledged, by whomever."""


def check(cluster: Cluster, broker_id: int, key: str, loads: Sequence[Told]) -> None:
    """All that clients were told is so at a broker."""
    with RawRedis(address(cluster.brokers[broker_id])) as client:
        kept = [id_of(entry[0]) for entry in client.call("XRANGE", key, "-", "+")]
        pending = {id_of(row[0]): row[1].decode() for row in client.call("XPENDING", key, "g", "-", "+", "10000000")}
    assert kept == sorted(set(kept)), "ids never go back"
    for load in loads:
        for added in load.added:
            assert added == sorted(set(added)), "ids never go back"
            assert set(added) <= set(kept), "nothing that was answered is lost"
        assert not load.acknowledged & pending.keys()
        for consumer, taken in load.taken.items():
            assert {each: pending.get(each) for each in taken} == dict.fromkeys(taken, consumer), "owners survive"


def test_a_leader_that_is_killed_takes_nothing_with_it(cluster: Cluster) -> None:
    _kill_leaders(cluster, "jobs", 1)


@pytest.mark.long
def test_leaders_are_killed_again_and_again(tmp_path: Path) -> None:
    with Cluster(tmp_path, settings=SETTINGS) as cluster:
        cluster.wait_until_registered()
        _kill_leaders(cluster, "jobs", 6)


@pytest.mark.long
def test_a_leader_that_stands_still_and_goes_on_changes_nothing(tmp_path: Path) -> None:
    with Cluster(tmp_path, settings=SETTINGS) as cluster:
        cluster.wait_until_registered()
        with RawRedis(address(cluster.brokers[1])) as client:
            client.call("XGROUP", "CREATE", "jobs", "g", "0", "MKSTREAM")
        loads: list[Load] = []
        for _ in range(3):
            cluster.wait_until_in_sync("jobs")
            leader = cluster.leader("jobs")
            number = _number(cluster, leader)
            others = Load(cluster, "jobs", [broker_id for broker_id in cluster.brokers if broker_id != number])
            stuck = Load(cluster, "jobs", [number])
            loads += [others, stuck]
            try:
                wait_until(others.has_begun, "the others have begun")
                wait_until(stuck.has_begun, "so have those at the leader")
                wait_until(others.has_gone_on, "work is done")
                leader.pause()
                wait_until(others.has_gone_on, "work goes on")
                leader.resume()
                wait_until(stuck.has_gone_on, "where it stood still work goes on too")
            finally:
                others.end()
                stuck.end()
        cluster.wait_until_in_sync("jobs")
        for broker_id in cluster.brokers:
            check(cluster, broker_id, "jobs", loads)


@pytest.mark.long
@pytest.mark.parametrize("moment", ["sent", "told", "deleted"])
def test_a_leader_that_dies_while_it_renames_has_renamed_all_or_nothing(tmp_path: Path, moment: str) -> None:
    with Cluster(tmp_path, settings=SETTINGS) as cluster:
        cluster.wait_until_registered()
        with RawRedis(address(cluster.brokers[1])) as client:
            client.call("XADD", "source", "1-0", "n", "moved")
        with RawRedis(address(cluster.brokers[2])) as client:
            client.call("XADD", "target", "1-0", "n", "replaced")
        for topic in ("source", "target"):
            cluster.wait_until_in_sync(topic)
        with RawRedis(address(cluster.brokers[3])) as client, RawRedis(address(cluster.brokers[2])) as witness:
            client.send("RENAME", "source", "target")
            if moment == "told":
                wait_until(lambda: witness.call("EXISTS", "source") == 0, "the setting says it")
            elif moment == "deleted":
                wait_until(lambda: not list((cluster.brokers[2].data_dir).glob("target-0")), "the other topic goes")
            cluster.brokers[1].kill()
            moved, replaced = [[b"1-0", [b"n", b"moved"]]], [[b"1-0", [b"n", b"replaced"]]]
            outcomes = ([moved, replaced], [[], moved])

            def state(client: RawRedis) -> list[Any]:
                return [client.call("XRANGE", key, "-", "+") for key in ("source", "target")]

            wait_until(lambda: state(witness) in outcomes, "one key or the other")
            settled = state(witness)
            assert moment == "sent" or settled == outcomes[1]
        cluster.brokers[1].start()
        for broker in cluster.brokers.values():
            with RawRedis(address(broker)) as client:
                assert state(client) == settled


def test_a_client_waits_on_when_the_leader_is_killed(cluster: Cluster) -> None:
    with RawRedis(address(cluster.brokers[2])) as client:
        client.call("XADD", "moves", "1-0", "n", "1")
    cluster.wait_until_in_sync("moves")
    leader = cluster.leader("moves")
    one, other = [broker for broker in cluster.brokers.values() if broker is not leader]
    with RawRedis(address(one)) as waiting:
        waiting.send("XREAD", "BLOCK", "0", "STREAMS", "moves", "$")
        wait_until(lambda: _waits(cluster, _number(cluster, one)), "the client waits")
        leader.kill()
        wait_until(lambda: _is_added(other, "moves"), "an entry is added")
        assert waiting.reply() == [[b"moves", [[b"2-0", [b"n", b"2"]]]]]
    leader.start()


def _is_added(broker: BrokerProcess, key: str) -> bool:
    """A client whose command was on its way when the leader died is told that it is not known; it asks again."""
    with RawRedis(address(broker)) as client:
        try:
            reply = client.call("XADD", key, "2-0", "n", "2")
        except (EOFError, ConnectionError):
            return False
    return reply == b"2-0" or "equal or smaller" in reply


def _number(cluster: Cluster, wanted: BrokerProcess) -> int:
    return next(broker_id for broker_id, broker in cluster.brokers.items() if broker is wanted)


def test_records_of_kafka_are_entries_with_the_same_ids_under_the_next_leader(cluster: Cluster) -> None:
    with RawRedis(address(cluster.brokers[1])) as client:
        client.call("XADD", "mixed", "1-0", "n", "x")
        client.call("XGROUP", "CREATE", "mixed", "g", "0")
    cluster.wait_until_in_sync("mixed")
    leader = cluster.leader("mixed")
    one = next(broker for broker in cluster.brokers.values() if broker is not leader)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    values = [b"%d" % at for at in range(200)]
    for value in values:
        producer.produce("mixed", value, partition=0)
    with RawRedis(address(one)) as client:
        added = [client.call("XADD", "mixed", "*", "n", "x") for _ in range(5)]
        assert producer.flush(60) == 0
        wait_until(lambda: client.call("XLEN", "mixed") == 206, "all are there")
        entries = client.call("XRANGE", "mixed", "-", "+")
        assert set(added) <= {entry_id for entry_id, _ in entries}
        assert [fields[1] for _, fields in entries if fields[1] != b"x"] == values
        ids = [id_of(entry_id) for entry_id, _ in entries]
        assert ids == sorted(set(ids))
        client.call("XREADGROUP", "GROUP", "g", "w", "COUNT", "150", "STREAMS", "mixed", ">")
        pending = client.call("XPENDING", "mixed", "g")
        leader.kill()
        wait_until(lambda: _found(one, "XRANGE", "mixed", "-", "+") == entries, "the next leader has the same entries")
        assert _found(one, "XPENDING", "mixed", "g") == pending
    leader.start()


def _found(broker: BrokerProcess, *words: str) -> Any:
    with RawRedis(address(broker)) as client:
        return client.call(*words)
