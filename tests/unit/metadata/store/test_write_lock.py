"""One who is stopped in the middle of a write holds up the writes of the others, and nothing else; they say so."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.metadata.store import embedded
from ottla.metadata.store.embedded import FILE_NAME, EmbeddedStore
from ottla.metadata.store.interface import SESSION_TIMEOUT_MS, StoreError
from ottla.metadata.store.write_lock import writer_in
from ottla.runtime.clock import ManualClock

BEGIN_TO_WRITE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
connection.execute("UPDATE cluster SET end_offset = 99")
print("writing", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def begin_to_write(tmp_path: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that were started to write; all are killed at the end."""
    writers: list[subprocess.Popen[str]] = []
    yield writers
    for writer in writers:
        writer.kill()
        writer.communicate()


def stopped_in_a_write(writers: list[subprocess.Popen[str]], directory: Path) -> subprocess.Popen[str]:
    program = [sys.executable, "-c", BEGIN_TO_WRITE, str(directory / FILE_NAME)]
    writer = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    writers.append(writer)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "writing\n"
    writer.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, writer.pid, os.WSTOPPED | os.WNOWAIT)
    return writer


async def test_who_reads_goes_on_while_another_is_stopped_in_a_write_and_one_line_names_it(
    tmp_path: Path, begin_to_write: list[subprocess.Popen[str]], caplog: pytest.LogCaptureFixture
) -> None:
    store = EmbeddedStore(tmp_path)
    await store.open("c")
    epoch = await store.elect(await store.register_broker(1, b""), seen_epoch=0)
    writer = stopped_in_a_write(begin_to_write, tmp_path)

    async def append() -> int:
        while True:
            try:
                return await store.append([b"a"], controller_epoch=epoch, expected_end_offset=0)
            except StoreError:  # it may be asked again
                continue

    appended = asyncio.create_task(append())
    while "the metadata cannot change" not in caplog.text:
        assert (await store.read(0)).records == ()
        assert (await store.controller()).alive
    assert not appended.done()
    [line] = [each.getMessage() for each in caplog.records if "the metadata cannot change" in each.getMessage()]
    assert (
        f"process {writer.pid}, which is stopped (`kill -CONT {writer.pid}` lets it go on), has held the write lock"
        in line
    )
    writer.kill()
    assert await appended == 1
    assert (await store.read(0)).records == (b"a",)
    assert len([each for each in caplog.records if "is writable again" in each.getMessage()]) == 1
    await store.close()


async def test_who_waits_in_vain_is_told_who_writes_and_nothing_was_done(
    tmp_path: Path, begin_to_write: list[subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = EmbeddedStore(tmp_path)
    await store.open("c")
    epoch = await store.elect(await store.register_broker(1, b""), seen_epoch=0)
    writer = stopped_in_a_write(begin_to_write, tmp_path)
    monkeypatch.setattr(embedded, "LOCK_TIMEOUT_MS", 0)
    with pytest.raises(StoreError, match=f"cannot be written while process {writer.pid}, which is stopped"):
        await store.append([b"a"], controller_epoch=epoch, expected_end_offset=0)
    assert (await store.read(0)).end_offset == 0
    await store.close()  # its session ends with its pipe: nobody waits for the end of it to be written


async def test_who_starts_waits_longer_and_its_session_begins_when_it_could_write(
    tmp_path: Path, begin_to_write: list[subprocess.Popen[str]], caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    first, second = (EmbeddedStore(tmp_path, clock=clock) for _ in range(2))
    await first.open("c")
    writer = stopped_in_a_write(begin_to_write, tmp_path)
    starting = [asyncio.create_task(each) for each in (first.register_broker(1, b""), second.open("another"))]

    async def look_and_wait() -> None:
        while not all(each._timer or task.done() for each, task in zip((first, second), starting, strict=True)):  # noqa: ASYNC110
            await asyncio.sleep(0)

    await look_and_wait()
    clock.advance(max(embedded.LOCK_TIMEOUT_MS, SESSION_TIMEOUT_MS) + 1)
    while caplog.text.count("the metadata cannot change") < 2 and not any(each.done() for each in starting):  # noqa: ASYNC110
        await asyncio.sleep(0)
    await look_and_wait()
    writer.kill()
    writer.wait()
    clock.advance(embedded.LOCK_RETRY_MS)
    await asyncio.gather(*starting)
    await second.register_broker(2, b"")
    assert [each.broker_id for each in await second.live_brokers()] == [1, 2]
    for each in (first, second):
        await each.close()


async def test_a_session_that_cannot_be_ended_yet_keeps_nobody_from_seeing_what_is_there(
    tmp_path: Path, begin_to_write: list[subprocess.Popen[str]]
) -> None:
    store, other = EmbeddedStore(tmp_path), EmbeddedStore(tmp_path)
    for each in (store, other):
        await each.open("c")
    told = asyncio.Event()
    store.watch_brokers(told.set)
    await store.register_broker(1, b"")
    await other.register_broker(2, b"")
    await told.wait()
    told.clear()
    writer = stopped_in_a_write(begin_to_write, tmp_path)
    await other.close()
    while await store._call(lambda: store._lock._waits_since_ms) is None:
        await store.read(0)
    assert [each.broker_id for each in await store.live_brokers()] == [1, 2]
    writer.kill()
    await told.wait()
    assert [each.broker_id for each in await store.live_brokers()] == [1]
    await store.close()


def test_the_writer_is_found_among_all_locks_of_the_system() -> None:
    locks = """\
1: POSIX  ADVISORY  READ  10 00:2f:99 123 123
2: FLOCK  ADVISORY  WRITE 11 00:2f:99 0 EOF
3: POSIX  ADVISORY  WRITE 12 00:2f:98 120 120
4: POSIX  ADVISORY  WRITE 13 00:2f:99 121 121
4: -> POSIX  ADVISORY  WRITE 15 00:2f:99 120 120
5: POSIX  ADVISORY  WRITE 14 00:2f:99 120 120
"""
    assert writer_in(locks, 99) == 14
    assert writer_in(locks, 97) is None


def test_the_library_locks_the_byte_that_is_looked_for(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    inode = (tmp_path / "a.db-shm").stat().st_ino
    assert writer_in(Path("/proc/locks").read_text(), inode) == os.getpid()
    connection.close()
