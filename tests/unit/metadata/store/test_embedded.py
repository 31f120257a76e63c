import asyncio
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from ottla import __version__
from ottla.metadata.store import embedded, session_files
from ottla.metadata.store.embedded import FILE_NAME, EmbeddedStore
from ottla.metadata.store.interface import (
    NO_BROKER,
    Controllership,
    FencedError,
    LiveBroker,
    SessionExpiredError,
    StaleOffsetError,
    StoreError,
)
from ottla.metadata.store.private_file import create_private
from ottla.metadata.store.session_files import DIRECTORY_NAME


@pytest.fixture
async def open_store(tmp_path):
    stores = []

    async def open_one(cluster_id="first"):
        store = EmbeddedStore(tmp_path)
        stores.append(store)
        assert await store.open(cluster_id) == "first"
        return store

    yield open_one
    for store in stores:
        await store.close()


async def elected(store, session):
    """The epoch of the election that follows all there were."""
    return await store.elect(session, seen_epoch=(await store.controller()).epoch)


async def test_the_cluster_id_of_the_first_start_stays(open_store):
    await open_store("first")
    await open_store("second")


async def test_what_was_appended_is_there_after_a_restart(open_store):
    store = await open_store()
    epoch = await elected(store, await store.register_broker(1, b""))
    assert await store.append([b"a", b"b"], controller_epoch=epoch, expected_end_offset=0) == 2
    assert await store.append([b"c"], controller_epoch=epoch, expected_end_offset=2) == 3
    await store.close()
    stored = await (await open_store()).read(0)
    assert (stored.snapshot, stored.records, stored.start_offset, stored.end_offset) == (None, (b"a", b"b", b"c"), 0, 3)


def in_another_process(directory: Path, then: str) -> str:
    """What a process of its own prints after it opened the store of a directory as `store`."""
    program = f"""
import asyncio, sys
from pathlib import Path
from ottla.metadata.store.embedded import EmbeddedStore

async def main(store):
    await store.open("second")
    {then}
    await store.close()

asyncio.run(main(EmbeddedStore(Path(sys.argv[1]))))
"""
    return subprocess.run(
        [sys.executable, "-c", program, str(directory)], check=True, capture_output=True, text=True, timeout=300
    ).stdout


async def test_what_was_appended_is_seen_by_another_process_without_a_close(open_store, tmp_path):
    store = await open_store()
    epoch = await elected(store, await store.register_broker(1, b""))
    await store.append([b"a"], controller_epoch=epoch, expected_end_offset=0)
    assert in_another_process(tmp_path, "print((await store.read(0)).records)") == "(b'a',)\n"


async def test_a_controller_of_another_process_ends_the_rule_of_ours(open_store, tmp_path):
    store = await open_store()
    epoch = await elected(store, await store.register_broker(1, b""))
    append = "await store.append([b'theirs'], controller_epoch=epoch, expected_end_offset=0)"
    elect = "epoch = await store.elect(await store.register_broker(2, b''), seen_epoch=1)"
    in_another_process(tmp_path, f"{elect}; {append}")
    with pytest.raises(FencedError):
        await store.append([b"ours"], controller_epoch=epoch, expected_end_offset=1)
    assert (await store.read(0)).records == (b"theirs",)


async def test_an_append_waits_for_the_disk(open_store, tmp_path):
    store = await open_store()
    connection = store._file._connection
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert (tmp_path / FILE_NAME).exists()


async def test_an_older_controller_cannot_append(open_store):
    store = await open_store()
    session = await store.register_broker(1, b"")
    old = await elected(store, session)
    new = await elected(store, session)
    assert new > old
    with pytest.raises(FencedError):
        await store.append([b"a"], controller_epoch=old, expected_end_offset=0)
    assert (await store.read(0)).end_offset == 0
    await store.append([b"b"], controller_epoch=new, expected_end_offset=0)


async def test_an_append_at_a_stale_end_changes_nothing(open_store):
    store = await open_store()
    epoch = await elected(store, await store.register_broker(1, b""))
    await store.append([b"a"], controller_epoch=epoch, expected_end_offset=0)
    for stale in (0, 2):
        with pytest.raises(StaleOffsetError):
            await store.append([b"x"], controller_epoch=epoch, expected_end_offset=stale)
    assert (await store.read(0)).records == (b"a",)


async def test_an_append_is_whole_or_nothing(open_store):
    store = await open_store()
    epoch = await elected(store, await store.register_broker(1, b""))
    with pytest.raises(StoreError):
        await store.append([b"a", object()], controller_epoch=epoch, expected_end_offset=0)
    assert (await store.read(0)).end_offset == 0
    assert await store.append([b"a"], controller_epoch=epoch, expected_end_offset=0) == 1


async def test_reading_starts_where_it_is_asked_to(open_store):
    store = await open_store()
    epoch = await elected(store, await store.register_broker(1, b""))
    await store.append([b"a", b"b", b"c"], controller_epoch=epoch, expected_end_offset=0)
    assert (await store.read(1)).records == (b"b", b"c")
    assert (await store.read(3)).records == ()


async def test_a_snapshot_stands_for_what_it_replaced(open_store):
    store = await open_store()
    epoch = await elected(store, await store.register_broker(1, b""))
    await store.append([b"a", b"b", b"c"], controller_epoch=epoch, expected_end_offset=0)
    await store.write_snapshot([b"A", b"B"], controller_epoch=epoch, end_offset=2)
    await store.close()
    store = await open_store()
    from_the_start = await store.read(0)
    assert (from_the_start.snapshot, from_the_start.records, from_the_start.start_offset) == ((b"A", b"B"), (b"c",), 2)
    assert (await store.read(2)).snapshot is None
    epoch = await elected(store, await store.register_broker(1, b""))
    assert await store.append([b"d"], controller_epoch=epoch, expected_end_offset=3) == 4


async def test_an_older_controller_cannot_write_a_snapshot(open_store):
    store = await open_store()
    session = await store.register_broker(1, b"")
    old = await elected(store, session)
    await elected(store, session)
    with pytest.raises(FencedError):
        await store.write_snapshot([], controller_epoch=old, end_offset=0)


async def test_a_second_session_of_a_broker_ends_the_first(open_store):
    store = await open_store()
    first = await store.register_broker(1, b"old")
    second = await store.register_broker(1, b"new")
    assert second.broker_epoch > first.broker_epoch
    assert await store.live_brokers() == [LiveBroker(1, second.broker_epoch, b"new")]
    with pytest.raises(SessionExpiredError):
        await elected(store, first)
    await elected(store, second)


async def test_closing_ends_the_session_but_not_a_newer_one(open_store):
    first, second = await open_store(), await open_store()
    await first.register_broker(1, b"old", takes_over=b"directory")
    session = await second.register_broker(1, b"new", takes_over=b"directory")
    await first.close()
    assert await second.live_brokers() == [LiveBroker(1, session.broker_epoch, b"new")]
    await second.close()
    assert await (await open_store()).live_brokers() == []


async def test_nothing_is_left_of_the_sessions_of_those_that_died(open_store, tmp_path):
    """Whatever a process was doing when it died, and before it could say that it registers."""
    store = await open_store()
    session = await store.register_broker(1, b"")
    sessions = tmp_path / DIRECTORY_NAME
    for leftover in ("0", "0.alive", "0.wake"):
        (sessions / leftover).touch()
    in_another_process(tmp_path, "await store.register_broker(2, b''); import os; os._exit(0)")
    other = await open_store()
    session = await other.register_broker(3, b"")
    epochs = {1, session.broker_epoch}
    assert {path.name for path in sessions.iterdir()} == {
        f"{epoch}{name}" for epoch in epochs for name in ("", ".alive", ".wake")
    }


async def test_who_registers_beside_another_takes_nothing_of_its_session_away(open_store, tmp_path, monkeypatch):
    one, other = await open_store(), await open_store()
    await one.register_broker(1, b"")
    loop, clean_up = asyncio.get_running_loop(), session_files.remove_all_but

    def after_the_other(*arguments, **keywords):
        monkeypatch.setattr(embedded, "remove_all_but", clean_up)
        asyncio.run_coroutine_threadsafe(other.register_broker(2, b""), loop).result(60)
        clean_up(*arguments, **keywords)

    monkeypatch.setattr(embedded, "remove_all_but", after_the_other)
    third = await open_store()
    session = await third.register_broker(3, b"")
    assert [each.broker_id for each in await third.live_brokers()] == [1, 2, 3]
    assert (tmp_path / DIRECTORY_NAME / f"{session.broker_epoch + 1}.alive").exists()


async def test_those_who_watch_are_told_of_growth(open_store):
    store = await open_store()
    seen = []
    store.watch(seen.append)
    epoch = await elected(store, await store.register_broker(1, b""))
    await store.append([b"a", b"b"], controller_epoch=epoch, expected_end_offset=0)
    assert seen == [2]


async def test_one_who_watches_and_fails_makes_no_append_fail(open_store, caplog):
    store = await open_store()
    seen = []
    store.watch(lambda end_offset: 1 // 0)
    store.watch(seen.append)
    epoch = await elected(store, await store.register_broker(1, b""))
    assert await store.append([b"a"], controller_epoch=epoch, expected_end_offset=0) == 1
    assert seen == [1]
    assert "ZeroDivisionError" in caplog.text


async def test_a_file_that_is_no_database_is_refused_with_its_path(tmp_path):
    (tmp_path / FILE_NAME).write_bytes(b"not a database, but long enough to be looked at" * 100)
    store = EmbeddedStore(tmp_path)
    with pytest.raises(StoreError, match=FILE_NAME):
        await store.open("x")
    await store.close()


async def test_a_file_of_a_newer_layout_says_which_release_it_needs(tmp_path):
    store = EmbeddedStore(tmp_path)
    await store.open("x")
    await store.close()
    path = tmp_path / FILE_NAME
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        assert connection.execute("SELECT * FROM written_by").fetchall() == [(2, __version__)]
        connection.execute("PRAGMA user_version = 99")
        connection.execute("INSERT INTO written_by VALUES (99, '7.1.0')")
        connection.execute("INSERT INTO log VALUES (17, x'00')")
        before = list(connection.iterdump())
    store = EmbeddedStore(tmp_path)
    with pytest.raises(StoreError) as refused:
        await store.open("x")
    await store.close()
    assert str(refused.value) == (
        f"{path} has layout 99 of Ottla 7.1.0, and this is Ottla {__version__}, which reads layout 2: "
        "start Ottla 7.1.0 or newer; nothing was changed"
    )
    with closing(sqlite3.connect(path)) as connection:
        assert list(connection.iterdump()) == before


async def test_a_file_of_a_newer_layout_that_nobody_noted_needs_a_newer_release(tmp_path):
    create_private(tmp_path / FILE_NAME)
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        connection.execute("PRAGMA user_version = 99")
    store = EmbeddedStore(tmp_path)
    with pytest.raises(StoreError, match=r"layout 99, and .* start a newer release"):
        await store.open("x")
    await store.close()


async def test_a_first_start_that_was_cut_short_can_be_made_again(tmp_path):
    """The tables and the cluster id come in one transaction: there is no half of it."""
    create_private(tmp_path / FILE_NAME)
    with sqlite3.connect(tmp_path / FILE_NAME) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    store = EmbeddedStore(tmp_path)
    assert await store.open("x") == "x"
    await store.close()


async def test_a_store_that_is_not_open_says_so(tmp_path):
    store = EmbeddedStore(tmp_path)
    with pytest.raises(StoreError, match="not open"):
        await store.read(0)
    await store.close()


async def test_of_two_candidates_that_saw_the_same_election_one_wins(open_store):
    store, other = await open_store(), await open_store()
    first, second = await store.register_broker(1, b""), await other.register_broker(2, b"")
    assert await store.controller() == Controllership(NO_BROKER, 0, alive=False)
    assert await store.elect(first, seen_epoch=0) == 1
    with pytest.raises(FencedError):
        await other.elect(second, seen_epoch=0)
    assert await other.controller() == Controllership(1, 1, alive=True)


async def test_the_secret_of_the_first_start_stays(open_store):
    store = await open_store()
    assert await store.cluster_secret(b"first") == b"first"
    await store.close()
    assert await (await open_store()).cluster_secret(b"second") == b"first"


async def test_a_file_of_the_layout_of_one_broker_is_moved_up(tmp_path):
    create_private(tmp_path / FILE_NAME)
    with sqlite3.connect(tmp_path / FILE_NAME) as connection:
        connection.executescript(
            """
            CREATE TABLE cluster (id INTEGER PRIMARY KEY CHECK (id = 1), cluster_id TEXT NOT NULL,
                controller_epoch INTEGER NOT NULL DEFAULT 0, controller_id INTEGER NOT NULL DEFAULT -1,
                broker_epoch INTEGER NOT NULL DEFAULT 0, start_offset INTEGER NOT NULL DEFAULT 0,
                end_offset INTEGER NOT NULL DEFAULT 0) STRICT;
            CREATE TABLE session (broker_id INTEGER PRIMARY KEY, broker_epoch INTEGER NOT NULL,
                registration BLOB NOT NULL) STRICT;
            CREATE TABLE snapshot (position INTEGER PRIMARY KEY, record BLOB NOT NULL) STRICT;
            CREATE TABLE log (offset INTEGER PRIMARY KEY, record BLOB NOT NULL) STRICT;
            INSERT INTO cluster VALUES (1, 'old', 7, 1, 9, 2, 3);
            INSERT INTO session VALUES (1, 9, x'7b7d');
            INSERT INTO snapshot VALUES (0, x'53');
            INSERT INTO log VALUES (2, x'63');
            PRAGMA user_version = 1;
            """
        )
    connection.close()
    store = EmbeddedStore(tmp_path)
    assert await store.open("new") == "old"
    assert await store.live_brokers() == []
    assert await store.controller() == Controllership(1, 7, alive=False)
    stored = await store.read(0)
    assert (stored.snapshot, stored.records, stored.end_offset) == ((b"S",), (b"c",), 3)
    assert (await store.register_broker(1, b"")).broker_epoch == 10
    await store.close()
