"""Compaction of a log with transactions: what was aborted goes, what is undecided stays, markers go last."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from ottla.native import walk_batches
from ottla.storage.log import Log
from ottla.storage.log_config import LogConfig
from ottla.storage.transaction_index import AbortedTransaction, TransactionIndex
from tests.unit.storage.compaction.test_log_cleaner import CrashError, MortalDisk, compact, content
from tests.unit.storage.data_directory import (
    ORDERS,
    OpenDirectory,
    copy_as_after_a_kill,
    files_of,
    names_in,
    opened,
)
from tests.unit.storage.transactional_log import (
    ABORT,
    COMMIT,
    append,
    committed,
    committed_rows,
    data,
    marker,
    read_committed,
)

COMPACTED = LogConfig(
    segment_bytes=2_000,
    index_interval_bytes=200,
    cleanup_policy=frozenset({"compact"}),
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=1_000,
)
A, B = 100, 200
FILLING = b"." * 60


@pytest.fixture
async def directory(tmp_path: Path) -> AsyncIterator[OpenDirectory]:
    async with opened(tmp_path / "data") as directory:
        yield directory


def write(directory: OpenDirectory, log: Log, producer_id: int, key: bytes, value: bytes) -> None:
    append(directory, log, data(producer_id, value + FILLING, key=key))


async def fill(directory: OpenDirectory, log: Log) -> None:
    """Begin new segments, of plain records, so that what is before them can be compacted."""
    segments = len(log.segments)
    while len(log.segments) < segments + 2:
        append(directory, log, data(1, FILLING, key=b"plain", transactional=False))
    await committed(log)


def batches_of(log: Log) -> list[tuple[int, int, bool, int]]:
    """Offset, producer, whether it is a marker, and how many records, of every batch of the closed segments."""
    found = []
    for segment in list(log.segments)[:-1]:
        batches, _, error = walk_batches(Path(segment.log_path).read_bytes(), check_crc=True)
        assert error is None
        found += [(each.base_offset, each.producer_id, each.is_control, each.record_count) for each in batches]
    return found


def indexed(path: Path) -> list[AbortedTransaction]:
    return [each for file in files_of(path / str(ORDERS), ".txnindex") for each in TransactionIndex(file.read_bytes())]


async def test_a_value_that_was_aborted_supersedes_nothing(directory: OpenDirectory) -> None:
    log = await directory.log(COMPACTED)
    write(directory, log, A, b"k", b"committed")
    append(directory, log, marker(A, COMMIT))
    write(directory, log, A, b"k", b"aborted")
    append(directory, log, marker(A, ABORT))
    write(directory, log, A, b"other", b"after")
    append(directory, log, marker(A, COMMIT))
    await fill(directory, log)
    expected = [row for row in read_committed(log) if row[1] != FILLING]
    assert [value for _, value in expected] == [b"committed" + FILLING, b"after" + FILLING]
    await compact(directory)
    assert [row for row in read_committed(log) if row[1] != FILLING] == expected
    assert (2, A, False) not in [each[:3] for each in batches_of(log) if each[3]]


async def test_nothing_of_an_open_transaction_is_touched_nor_what_follows_it(directory: OpenDirectory) -> None:
    log = await directory.log(COMPACTED)
    write(directory, log, B, b"k", b"old")
    append(directory, log, marker(B, COMMIT))
    await fill(directory, log)
    write(directory, log, A, b"k", b"open")
    await fill(directory, log)
    first_open = log.producers.unstable.first_offset
    assert first_open is not None
    before = batches_of(log)
    result = await compact(directory)
    assert result.end_offset <= first_open
    assert [each for each in batches_of(log) if each[0] >= first_open] == [
        each for each in before if each[0] >= first_open
    ]
    append(directory, log, marker(A, ABORT))
    await fill(directory, log)
    await compact(directory)
    assert b"old" + FILLING in [value for _, value in read_committed(log)]
    assert b"open" + FILLING not in [value for _, value in read_committed(log)]


async def test_markers_stay_until_a_while_after_their_records_went(directory: OpenDirectory, tmp_path: Path) -> None:
    log = await directory.log(COMPACTED)
    for number in range(5):
        write(directory, log, A, b"k%d" % number, b"x")
        append(directory, log, marker(A, ABORT))
    write(directory, log, B, b"k", b"y")
    append(directory, log, marker(B, COMMIT))
    write(directory, log, A, b"k", b"z")
    append(directory, log, marker(A, COMMIT))
    await fill(directory, log)

    def markers() -> list[int]:
        return [offset for offset, _, is_marker, _ in batches_of(log) if is_marker]

    await compact(directory)
    assert markers() == [1, 3, 5, 7, 9, 11, 13]
    assert len(indexed(tmp_path / "data")) == 5
    await fill(directory, log)
    await compact(directory)
    assert markers() == [1, 3, 5, 7, 9, 11, 13]
    assert indexed(tmp_path / "data") == []
    directory.clock.advance(2_000)
    await fill(directory, log)
    await compact(directory)
    # The record of B is superseded, and B is still remembered by its last batch, which keeps its marker.
    assert markers() == [11, 13]
    assert [value for _, value in read_committed(log) if value != FILLING] == [b"z" + FILLING]


async def test_a_transaction_that_was_aborted_earlier_does_not_count_for_the_next_of_its_producer(
    directory: OpenDirectory,
) -> None:
    log = await directory.log(COMPACTED)
    append(directory, log, data(1, b"old" + FILLING, key=b"k", transactional=False))
    write(directory, log, A, b"other", b"aborted")
    append(directory, log, marker(A, ABORT))
    await fill(directory, log)
    await compact(directory)
    write(directory, log, A, b"k", b"new")
    append(directory, log, marker(A, COMMIT))
    await fill(directory, log)
    await compact(directory)
    assert [value for _, key, value in committed_rows(log) if key == b"k"] == [b"new" + FILLING]


async def test_a_transaction_that_was_aborted_in_a_later_segment_goes_too(directory: OpenDirectory) -> None:
    log = await directory.log(COMPACTED)
    write(directory, log, A, b"k", b"aborted")
    await fill(directory, log)
    append(directory, log, marker(A, ABORT))
    await committed(log)
    assert log.segments.newest.has_aborted
    await compact(directory)
    assert (0, A, False, 1) not in batches_of(log)
    assert {value for _, value in read_committed(log)} == {FILLING}
    write(directory, log, A, b"k", b"next")
    append(directory, log, marker(A, COMMIT))
    await fill(directory, log)
    await compact(directory)
    assert b"next" + FILLING in {value for _, value in read_committed(log)}


@pytest.mark.slow
async def test_a_crash_at_any_moment_of_a_pass_shows_readers_what_was_committed(tmp_path: Path) -> None:
    path = tmp_path / "data"
    async with opened(path) as directory:
        log = await directory.log(COMPACTED)
        for number in range(12):
            write(directory, log, A, b"k%d" % (number % 3), b"%d" % number)
            write(directory, log, B, b"b", b"%d" % number)
            append(directory, log, marker(A, ABORT if number % 2 else COMMIT))
            if number % 4 == 3:
                append(directory, log, marker(B, ABORT if number == 7 else COMMIT))
        append(directory, log, marker(B, COMMIT))
        await fill(directory, log)
        expected = newest_committed(log)
        prepared = copy_as_after_a_kill(path, "prepared")
    count = await crash_of_a_pass(prepared, tmp_path / "whole")
    assert count > 15
    for moment in range(count):
        at = tmp_path / f"at-{moment}"
        await crash_of_a_pass(prepared, at, moment)
        async with opened(at) as directory:
            log = await directory.log(COMPACTED)
            await committed(log)
            assert newest_committed(log) == expected, moment
            for segment, following in zip(list(log.segments), list(log.segments)[1:], strict=False):
                if segment.has_aborted:
                    index = TransactionIndex(content(segment.path(".txnindex")))
                    index.require_sound(segment.base_offset, following.base_offset)
            names = names_in(at / str(ORDERS))
            assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))], moment
            await directory.manager.cleaner.run_once()
            assert newest_committed(log) == expected, moment
        shutil.rmtree(at)


async def crash_of_a_pass(prepared: Path, at: Path, moment: int | None = None) -> int:
    """Compact a copy of a directory, with a crash before the change of a number; how many changes there were."""
    work, disk = at.parent / "work", MortalDisk()
    shutil.copytree(prepared, work)
    async with opened(work, disk=disk, clean=False) as directory:
        await committed(await directory.log(COMPACTED))
        begun = disk.changes
        disk.dies_at = None if moment is None else begun + moment
        if moment is None:
            await compact(directory)
        else:
            with pytest.raises(CrashError):
                await directory.manager.cleaner.run_once()
        made = disk.changes - begun
        shutil.copytree(work, at)
        disk.dies_at = None
    shutil.rmtree(work)
    return made


def newest_committed(log: Log) -> dict[bytes | None, bytes | None]:
    return {key: value for _, key, value in committed_rows(log)}


async def test_what_was_compacted_is_found_again_by_a_start(directory: OpenDirectory, tmp_path: Path) -> None:
    log = await directory.log(replace(COMPACTED, delete_retention_ms=0))
    for number in range(10):
        write(directory, log, A, b"k", b"%d" % number)
        append(directory, log, marker(A, ABORT if number % 2 else COMMIT))
    await fill(directory, log)
    await compact(directory)
    expected = list(read_committed(log))
    killed = copy_as_after_a_kill(tmp_path / "data")
    (killed / "recovery-point-offset-checkpoint").unlink()
    async with opened(killed) as again:
        log = await again.log(COMPACTED)
        await committed(log)
        assert list(read_committed(log)) == expected
        assert log.stable_end_offset == log.log_end_offset
