"""A broker that is given no number gets one that nobody has, and keeps it."""

from pathlib import Path

import pytest

from ottla.metadata.store.embedded import EmbeddedStore
from ottla.metadata.store.interface import BrokerIdTakenError
from ottla.metadata.store.location import open_store
from ottla.runtime.clock import SystemClock
from ottla.runtime.disk import OsDisk
from ottla.runtime.rng import SeededRng
from ottla.runtime.tasks import Tasks
from ottla.server import local_broker
from ottla.server.local_broker import LocalBroker
from ottla.server.node_id import free_node_id, kept_node_id
from ottla.server.open_files import OpenFileShares

SHARES = OpenFileShares.of(1024)


async def start(directory: Path, location: str | None = None, **settings: str) -> LocalBroker:
    given = {"log.dirs": str(directory), "listeners": "PLAINTEXT://127.0.0.1:0"}
    given |= {name.replace("_", "."): text for name, text in settings.items()}
    return await LocalBroker.start(given, SHARES, SystemClock(), metadata=location)


def test_a_new_directory_is_nobodys_and_one_that_cannot_be_read_is_not_taken_for_new(tmp_path: Path):
    assert kept_node_id(tmp_path, OsDisk()) is None
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=7\n")
    assert kept_node_id(tmp_path, OsDisk()) == 7
    (tmp_path / "meta.properties").write_text("?")
    assert kept_node_id(tmp_path, OsDisk()) is None


async def test_a_number_is_above_those_of_all_brokers_that_live(tmp_path: Path):
    tasks = Tasks()
    assert await free_node_id(open_store(f"embedded:{tmp_path}", tmp_path), tasks, SeededRng(0)) == 1
    store = EmbeddedStore(tmp_path)
    await store.open("c")
    await store.register_broker(4, b"{}")
    assert await free_node_id(EmbeddedStore(tmp_path), tasks, SeededRng(0)) == 5
    await store.close()
    await tasks.close()


async def test_the_second_broker_of_a_store_is_another_one_and_each_keeps_its_number(tmp_path: Path):
    location = f"embedded:{tmp_path / 'a'}"
    first = await start(tmp_path / "a", location)
    second = await start(tmp_path / "b", location)
    assert (first.node_id, second.node_id) == (1, 2)
    await second.stop()
    second = await start(tmp_path / "b", location)
    assert second.node_id == 2
    assert f"data {tmp_path / 'b'}" in second.ready_line
    await second.stop()
    await first.stop()


async def test_a_number_that_is_given_stands(tmp_path: Path):
    broker = await start(tmp_path / "a", f"embedded:{tmp_path / 'm'}", node_id="9")
    assert broker.node_id == 9
    assert "node.id=9" in (tmp_path / "a" / "meta.properties").read_text()
    await broker.stop()


async def test_a_number_that_is_taken_is_refused_and_not_kept(tmp_path: Path):
    location = f"embedded:{tmp_path / 'm'}"
    first = await start(tmp_path / "a", location, node_id="1")
    with pytest.raises(BrokerIdTakenError, match="give this one another"):
        await start(tmp_path / "b", location, node_id="1")
    assert kept_node_id(tmp_path / "b", OsDisk()) is None
    second = await start(tmp_path / "b", location)
    assert second.node_id == 2
    await second.stop()
    await first.stop()


async def test_of_two_that_choose_the_same_number_one_chooses_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    location = f"embedded:{tmp_path / 'm'}"
    first = await start(tmp_path / "a", location)
    chosen = iter((1, 2))

    async def choose(*_: object) -> int:
        return next(chosen)

    monkeypatch.setattr(local_broker, "free_node_id", choose)
    second = await start(tmp_path / "b", location)
    assert (second.node_id, list(chosen)) == (2, [])
    await second.stop()
    await first.stop()
