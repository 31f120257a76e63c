"""What is ZooKeeper's alone: answers that are lost, servers that go and come back, nodes that are somebody else's."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from ottla.metadata.store.interface import FencedError, StoreError
from ottla.metadata.store.location import open_store, parse_zookeeper
from ottla.metadata.store.zookeeper import ZooKeeperStore
from ottla.metadata.store.zookeeper_security import ZooKeeperSecurity
from tests.unit.metadata.store.answer_eater import AnswerEater
from tests.unit.metadata.store.party import Party
from tools.zookeeper import ZooKeeperServers

pytestmark = pytest.mark.slow


LONG_MS = 180_000
"""A session of which a part is longer than servers need to start again."""


@pytest.fixture
def location(zookeeper: ZooKeeperServers, tmp_path: Path) -> str:
    return zookeeper.location(f"tests/{tmp_path.name}")


@pytest.fixture
def eater(zookeeper: ZooKeeperServers) -> Iterator[AnswerEater]:
    proxy = AnswerEater(zookeeper.ports[0])
    yield proxy
    proxy.close()


@pytest.fixture
def eaten_location(eater: AnswerEater, zookeeper: ZooKeeperServers, location: str) -> str:
    """The store, by way of the proxy."""
    return location.replace(str(zookeeper.ports[0]), str(eater.port))


@pytest.fixture
def eaten(eaten_location: str) -> Iterator[Party]:
    """A party whose answers may be eaten."""
    party = Party(eaten_location)
    yield party
    party.kill()


@pytest.fixture
def nodes(zookeeper: ZooKeeperServers, tmp_path: Path) -> Iterator[KazooClient]:
    """The nodes of the test, as anybody sees them."""
    client = KazooClient(zookeeper.hosts)
    client.start()
    client.ensure_path(f"/tests/{tmp_path.name}")
    client.chroot = f"/tests/{tmp_path.name}"
    yield client
    client.stop()
    client.close()


def test_an_append_whose_answer_was_lost_is_made_once(eaten, eater, new_party):
    watching = new_party()
    watching.register(2)
    eaten.register(1)
    epoch = eaten.elect()
    eater.eat()
    eaten.begin("append", epoch, 0, ["a", "b"])
    watching.wait_for("log", 2)
    eater.cut()
    assert eaten.finish() == 2
    assert watching.call("read", 0) == [None, ["a", "b"], 0, 2]
    assert eaten.call("append", epoch, 2, ["c"]) == 3


def test_an_append_that_was_refused_is_not_taken_for_made_when_the_answer_is_lost(eaten, eater, new_party):
    other = new_party()
    other.register(2)
    eaten.register(1)
    epoch = eaten.elect()
    eaten.call("append", epoch, 0, ["a"])
    new = other.elect()
    other.call("append", new, 1, ["theirs"])
    eater.eat()
    eaten.begin("append", epoch, 1, ["ours"])
    eater.wait_until_eating()
    eater.cut()
    with pytest.raises(FencedError):
        eaten.finish()
    assert other.call("read", 0) == [None, ["a", "theirs"], 0, 2]


def test_an_append_that_was_made_counts_although_its_answer_was_lost_and_another_decides(eaten, eater, new_party):
    other = new_party()
    other.register(2)
    eaten.register(1)
    epoch = eaten.elect()
    eater.eat()
    eaten.begin("append", epoch, 0, ["ours"])
    other.wait_for("log", 1)
    new = other.elect()
    other.call("append", new, 1, ["theirs"])
    eater.cut()
    assert eaten.finish() == 1
    assert other.call("read", 0) == [None, ["ours", "theirs"], 0, 2]


def test_an_election_and_a_registration_whose_answers_were_lost_are_made_once(eaten, eater, new_party):
    watching = new_party()
    watching.register(2)
    eater.eat()
    eaten.begin("register", 1, "", "directory")
    watching.wait_for("brokers")
    eater.cut()
    broker_epoch = eaten.finish()
    assert [1, broker_epoch, ""] in watching.call("live_brokers")
    eater.eat()
    eaten.begin("elect", 0)
    watching.wait_for("controller")
    eater.cut()
    assert eaten.finish() == 1
    assert watching.call("controller") == [1, 1, True]
    assert eaten.call("append", 1, 0, ["a"]) == 1


def test_what_happened_while_nobody_answered_is_told_in_the_end(eaten, eater, new_party):
    """Its session lasts, its connection seems to; only answers do not come, to those who set watches as well."""
    other = new_party()
    other.register(2)
    eaten.register(1)
    epoch = other.elect()
    eaten.wait_for("controller")
    eater.eat_all()
    end = other.call("append", epoch, 0, ["a"])
    eater.cut()
    eaten.wait_for("log", end)
    end = other.call("append", epoch, end, ["b"])
    eaten.wait_for("log", end)


def test_a_controller_that_hears_nothing_for_as_long_as_a_session_is_told_to_look(eaten_location, eater):
    """Others may have been elected meanwhile: only it cannot know."""
    party = Party(eaten_location, session_timeout_ms=6_000)
    try:
        party.register(1)
        party.elect()
        party.wait_for("controller")
        eater.close()
        party.wait_for("controller")
        with pytest.raises(StoreError):
            party.call("controller")
    finally:
        party.kill()


def test_nothing_is_lost_when_servers_go_and_come_back(tmp_path):
    """Sessions outlive it, what was appended is there, and watches are told of what happened since."""
    with ZooKeeperServers(tmp_path / "servers", 3) as servers:
        first, second = (Party(servers.location("a/b"), session_timeout_ms=LONG_MS) for _ in range(2))
        try:
            first.register(1)
            second.register(2)
            epoch = first.elect()
            end = 0
            for number in range(3):
                servers.kill(servers.leader())
                end = first.call("append", epoch, end, [f"while a server is away {number}"])
                second.wait_for("log", end)
                servers.start()
                end = first.call("append", epoch, end, [f"back {number}"])
                second.wait_for("log", end)
            for number in range(3):
                servers.kill(number)
            first.begin("append", epoch, end, ["while all were away"])
            servers.start()
            end = first.finish()
            second.wait_for("log", end)
            assert len(second.call("read", 0)[1]) == end == 7
            assert second.call("controller") == [1, epoch, True]
        finally:
            first.kill()
            second.kill()


def test_a_decision_larger_than_a_node_may_be_is_whole(new_party):
    first, second = new_party(), new_party()
    first.register(1)
    second.register(2)
    epoch = first.elect()
    records = [str(number) * 400_000 for number in range(8)]
    assert first.call("append", epoch, 0, records) == 8
    second.wait_for("log", 8)
    assert second.call("read", 0) == [None, records, 0, 8]
    assert second.call("read", 3) == [None, records[3:], 3, 8]
    first.call("write_snapshot", epoch, 8, records)
    assert second.call("read", 0) == [records, [], 8, 8]


def test_what_a_controller_left_of_a_large_decision_is_written_over(new_party, nodes):
    first = new_party()
    first.register(1)
    epoch = first.elect()
    nodes.create(f"/metadata/log/{0:020}-1", b"half")
    records = ["x" * 400_000, "y" * 400_000]
    assert first.call("append", epoch, 0, records) == 2
    assert first.call("read", 0) == [None, records, 0, 2]


def test_what_a_snapshot_replaced_stays_until_the_one_after_it(new_party, nodes):
    first = new_party()
    first.register(1)
    epoch = first.elect()
    for end in range(3):
        first.call("append", epoch, end, [str(end)])
        first.call("write_snapshot", epoch, end + 1, [f"snapshot {end}"])
        first.call("write_snapshot", epoch, end + 1, [f"snapshot {end} again"])
    first.call("append", epoch, 3, ["3"])
    first.call("write_snapshot", epoch, 4, ["snapshot 3"])
    assert nodes.get_children("/metadata/log") == [f"{3:020}"]
    assert len(nodes.get_children("/metadata/snapshots")) == 2
    assert first.call("read", 0) == [["snapshot 3"], [], 4, 4]


async def test_what_a_controller_that_is_over_would_clear_away_may_be_its_successors_and_stays(location, monkeypatch):
    hosts, _, root = location.removeprefix("zookeeper://").partition("/")
    first, second = ZooKeeperStore(hosts, f"/{root}"), ZooKeeperStore(hosts, f"/{root}")
    try:
        for store in (first, second):
            await store.open("cluster")
        sessions = [await store.register_broker(number, b"") for number, store in enumerate((first, second), 1)]
        old = await first.elect(sessions[0], seen_epoch=0)
        await first.append([b"a"], controller_epoch=old, expected_end_offset=0)
        remove_before = first._log.remove_before

        async def stands_still(*args):
            new = await second.elect(sessions[1], seen_epoch=old)
            await second.append([b"b"], controller_epoch=new, expected_end_offset=1)
            await second.write_snapshot([b"a and b"], controller_epoch=new, end_offset=2)
            await remove_before(*args)

        monkeypatch.setattr(first._log, "remove_before", stands_still)
        with pytest.raises(StoreError):
            await first.write_snapshot([b"a"], controller_epoch=old, end_offset=1)
        assert (await second.read(0)).snapshot == (b"a and b",)
    finally:
        await first.close()
        await second.close()


def test_the_nodes_are_those_that_people_know_from_kafka(new_party, nodes):
    party = new_party()
    epoch = party.register(7, "directory", '{"host":"b7","rack":"r"}')
    party.elect()
    assert nodes.get("/cluster/id")[0] == b'{"version": "1", "id": "cluster"}'
    data, status = nodes.get("/brokers/ids/7")
    assert status.ephemeralOwner != 0
    assert b'"epoch": %d' % epoch in data
    assert b"b7" in data
    data, status = nodes.get("/controller")
    assert status.ephemeralOwner != 0
    assert b'"brokerid": 7' in data
    assert nodes.get("/controller_epoch")[0] == b"1"


def test_a_controller_node_that_somebody_removes_ends_the_rule_of_its_broker(new_party, nodes):
    """What operators of Kafka do to have another controller elected."""
    first, second = new_party(), new_party()
    first.register(1)
    second.register(2)
    first.elect()
    second.wait_for("controller")
    nodes.delete("/controller")
    second.wait_for("controller")
    assert second.call("controller") == [1, 1, False]
    assert second.elect() == 2


async def refused(location: str, timeout_ms: int = 60_000) -> str:
    """What is said to somebody who opens a store; where nobody is there, when the time is over."""
    store = open_store(location, Path(), session_timeout_ms=timeout_ms)
    try:
        with pytest.raises(StoreError) as error:
            await store.open("cluster")
    finally:
        await store.close()
    assert "\n" not in str(error.value)
    return str(error.value)


async def test_a_zookeeper_that_is_not_there_is_refused_with_what_to_do():
    assert "start ZooKeeper, or correct where it is" in await refused("zookeeper://127.0.0.1:1/ottla", 1_000)


async def test_a_store_of_a_newer_layout_is_refused(new_party, location, nodes):
    new_party()
    nodes.set("/metadata/layout", b"99")
    nodes.set("/metadata/written_by", b"7.1.0")
    told = await refused(location)
    assert "has layout 99 of Ottla 7.1.0, and this is Ottla " in told
    assert "start Ottla 7.1.0 or newer; nothing was changed" in told
    nodes.delete("/metadata/written_by")
    assert "start a newer release; nothing was changed" in await refused(location)


async def test_the_node_of_a_kafka_cluster_is_refused_and_left_alone(location, nodes):
    nodes.create("/cluster/id", b'{"version":"1","id":"kafkas"}', makepath=True)
    nodes.ensure_path("/brokers/ids")
    assert "a node of its own" in await refused(location)
    assert sorted(nodes.get_children("/")) == ["brokers", "cluster"]


async def test_a_zookeeper_that_may_not_be_written_to_is_refused(location, nodes):
    from kazoo.security import make_acl

    nodes.set_acls("/", [make_acl("world", "anyone", read=True, admin=True)])
    assert "does not let this broker read or write" in await refused(location)
    nodes.set_acls("/", [make_acl("world", "anyone", all=True)])


async def test_servers_without_a_majority_are_refused(tmp_path):
    with ZooKeeperServers(tmp_path / "servers", 3) as servers:
        for number in range(2):
            servers.kill(number)
        assert "start ZooKeeper" in await refused(servers.location(), 1_000)


@pytest.fixture
def closed_location(zookeeper: ZooKeeperServers, tmp_path: Path) -> str:
    """Not below the node of the other tests: who creates a node with credentials owns its parents too."""
    return zookeeper.location(tmp_path.name)


def all_paths(nodes, path=""):
    yield from (below for name in nodes.get_children(path or "/") for below in all_paths(nodes, f"{path}/{name}"))
    yield path


async def test_with_credentials_nobody_else_reads_or_changes_a_node(closed_location):
    store = open_store(closed_location, Path(), zookeeper=ZooKeeperSecurity("ottla:correct horse"))
    try:
        await store.open("cluster")
        await store.cluster_secret(b"secret")
        epoch = await store.elect(await store.register_broker(1, b""), seen_epoch=0)
        await store.append([b"a", b"b"], controller_epoch=epoch, expected_end_offset=0)
        await store.append([b"x" * (2 << 20)], controller_epoch=epoch, expected_end_offset=2)
        await store.write_snapshot([b"A"], controller_epoch=epoch, end_offset=2)
        hosts, root = parse_zookeeper(closed_location)
        stranger = KazooClient(hosts)
        await asyncio.to_thread(stranger.start)
        try:
            with pytest.raises(NoAuthError):
                stranger.get(f"{root}/cluster/secret")
            with pytest.raises(NoAuthError):
                stranger.create(f"{root}/brokers/ids/77", b"")
        finally:
            stranger.stop()
            stranger.close()
        owner = KazooClient(f"{hosts}{root}", auth_data=[("digest", "ottla:correct horse")])
        await asyncio.to_thread(owner.start)
        try:
            paths = [path or "/" for path in all_paths(owner)]
            assert {"/cluster/secret", "/brokers/ids/1", "/metadata/log"} <= set(paths)
            assert {(acl.id.scheme, acl.perms) for path in paths for acl in owner.get_acls(path)[0]} == {("digest", 31)}
        finally:
            owner.stop()
            owner.close()
    finally:
        await store.close()
    other = open_store(closed_location, Path(), zookeeper=ZooKeeperSecurity("ottla:wrong"))
    with pytest.raises(StoreError, match=r"metadata\.zookeeper\.credentials"):
        await other.open("cluster")
    await other.close()


async def test_nodes_that_were_created_without_credentials_are_refused_with_them(closed_location):
    store = open_store(closed_location, Path())
    await store.open("cluster")
    await store.cluster_secret(b"secret")
    await store.close()
    closed = open_store(closed_location, Path(), zookeeper=ZooKeeperSecurity("ottla:correct horse"))
    with pytest.raises(StoreError, match="setAcl -R"):
        await closed.open("cluster")
    await closed.close()
