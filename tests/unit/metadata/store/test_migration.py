import asyncio
import json
from pathlib import Path

import pytest

from ottla.cli.main import run
from ottla.metadata.store.interface import Controllership, StoreError
from ottla.metadata.store.location import open_store, parse_zookeeper
from ottla.metadata.store.migration import move_metadata
from ottla.metadata.store.zookeeper_client import ZooKeeperClient
from ottla.metadata.store.zookeeper_filling import _begin
from ottla.runtime.disk import OsDisk
from ottla.runtime.tasks import Tasks

pytestmark = pytest.mark.slow


async def stopped_broker(directory: Path, cluster_id: str = "cluster") -> Path:
    """The data directory of a broker that decided something and stopped."""
    store = open_store("embedded", directory)
    await store.open(cluster_id)
    await store.cluster_secret(b"secret")
    for _ in range(2):
        session = await store.register_broker(7, b"", takes_over=b"directory")
        epoch = await store.elect(session, seen_epoch=(await store.controller()).epoch)
    await store.append([b"a", b"b", b"c"], controller_epoch=epoch, expected_end_offset=0)
    await store.write_snapshot([b"A"], controller_epoch=epoch, end_offset=2)
    await store.close()
    return directory


async def test_ids_and_epochs_and_records_are_as_they_were(tmp_path, location):
    moved = await move_metadata(await stopped_broker(tmp_path / "data"), location)
    assert (moved.cluster_id, moved.end_offset) == ("cluster", 3)
    store = open_store(location, tmp_path)
    assert await store.open("another") == "cluster"
    assert await store.cluster_secret(b"another") == b"secret"
    assert await store.controller() == Controllership(7, 2, alive=False)
    stored = await store.read(-1)
    assert (*(stored.snapshot or ()), *stored.records) == (b"A", b"c")
    assert stored.end_offset == 3
    session = await store.register_broker(7, b"", takes_over=b"directory")
    assert session.broker_epoch == 3
    assert await store.elect(session, seen_epoch=2) == 3
    assert await store.append([b"d"], controller_epoch=3, expected_end_offset=3) == 4
    await store.close()


def test_a_program_is_told_of_the_move(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = asyncio.run(stopped_broker(tmp_path / "data"))
    location = f"embedded:{tmp_path / 'shared'}"
    assert run(["cluster", "move", "--data", str(directory), location, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"cluster_id": "cluster", "metadata": location}


async def test_what_was_moved_is_not_gone_on_with(tmp_path, location):
    directory = await stopped_broker(tmp_path / "data")
    await move_metadata(directory, location)
    assert not (directory / "metadata.db").exists()
    assert (directory / "metadata.db.moved").exists()
    with pytest.raises(StoreError, match="is not there"):
        await move_metadata(directory, location)


async def test_a_store_with_a_cluster_is_refused_and_nothing_changes(tmp_path, location):
    await move_metadata(await stopped_broker(tmp_path / "one"), location)
    other = await stopped_broker(tmp_path / "two", "another")
    with pytest.raises(StoreError, match="cluster"):
        await move_metadata(other, location)
    assert (other / "metadata.db").exists()
    store = open_store(location, tmp_path)
    assert await store.open("third") == "cluster"
    await store.close()


async def test_a_broker_that_runs_is_not_moved(tmp_path, location):
    directory = await stopped_broker(tmp_path / "data")
    disk = OsDisk()
    lock = disk.lock(directory / ".lock")
    with pytest.raises(StoreError, match="stop it first"):
        await move_metadata(directory, location)
    disk.close(lock)


async def test_a_move_into_zookeeper_that_was_cut_short_is_told_to_brokers_and_made_again(tmp_path, zookeeper):
    location = zookeeper.location(f"tests/{tmp_path.name}")
    directory = await stopped_broker(tmp_path / "data")
    tasks = Tasks()
    hosts, root = parse_zookeeper(location)
    client = ZooKeeperClient(hosts, root, 5_000, tasks)
    await client.connect(5)
    await client.ensure_root()
    store = open_store("embedded", directory)
    await store.open("x")
    moved = store._file.export()  # type: ignore[attr-defined]
    await store.close()
    await _begin(client, location, moved)
    await client.create("/metadata/snapshots/00000000000000000003-moved", b"")
    await client.close()
    await tasks.close()
    broker = open_store(location, tmp_path)
    with pytest.raises(StoreError, match="is being moved"):
        await broker.open("another")
    await broker.close()
    await move_metadata(directory, location)
    again = open_store(location, tmp_path)
    assert await again.open("another") == "cluster"
    await again.close()
