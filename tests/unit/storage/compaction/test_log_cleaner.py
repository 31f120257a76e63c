"""Compacting real logs: what readers find, what a crash leaves, who comes in between."""

import asyncio
import os
import shutil
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ottla.model.topic_partition import TopicPartition
from ottla.native import build_batch, decode_records, walk_batches
from ottla.runtime.disk import OsDisk
from ottla.storage.compaction.log_cleaner import CleanerConfig
from ottla.storage.compaction.log_compaction import CompactionResult
from ottla.storage.log import Log
from ottla.storage.log_config import LogConfig
from tests.unit.storage.data_directory import (
    NOW_MS,
    ORDERS,
    OpenDirectory,
    batches_in,
    bytes_of,
    copy_as_after_a_kill,
    kafkas_indexes,
    names_in,
    opened,
)

pytestmark = pytest.mark.slow

COMPACTED = LogConfig(segment_bytes=2_000, index_interval_bytes=200, cleanup_policy=frozenset({"compact"}))
LIMIT = 1 << 20

Newest = dict[bytes | None, bytes | None]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
async def directory(path: Path) -> AsyncIterator[OpenDirectory]:
    async with opened(path) as directory:
        yield directory


def keyed(key: int, value: str | None, **producer: Any) -> bytearray:
    records = [(NOW_MS, b"key-%d" % key, None if value is None else value.encode() * 10, [])]
    return build_batch(records, **producer)


async def write(directory: OpenDirectory, log: Log, versions: int = 20, keys: int = 10) -> None:
    """Each key once a version."""
    for version in range(versions):
        await directory.append_all(log, [keyed(key, f"{version:03}-{key:03}") for key in range(keys)])


def read(log: Log, start: int = 0) -> list[tuple[int, bytes | None, bytes | None]]:
    """Every record from an offset on, read as a consumer does."""
    found, offset = [], max(start, log.log_start_offset)
    while offset < log.log_end_offset:
        data = bytes_of(log.read(offset, 500, max_offset=log.log_end_offset))
        assert data, f"a reader at {offset} of {log.log_end_offset} gets on"
        batches = batches_in(data)
        whole = data[: batches[-1][0] + 12 + int.from_bytes(data[batches[-1][0] + 8 : batches[-1][0] + 12], "big")]
        rows = decode_records(whole, max_decompressed_bytes=LIMIT, start_offset=offset)
        found += [(row[0], row[2], row[3]) for row in rows]
        offset = batches[-1][2] + 1
    return found


def newest(log: Log) -> Newest:
    return {key: value for _, key, value in read(log)}


def content(path: str) -> bytes:
    return Path(path).read_bytes()


def damage(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[300] ^= 1
    file.write_bytes(data)


async def compact(directory: OpenDirectory) -> CompactionResult:
    result = await directory.manager.cleaner.run_once()
    assert result is not None
    return result


async def test_readers_find_the_newest_value_of_each_key_at_its_offset(directory: OpenDirectory) -> None:
    log = await directory.log(COMPACTED)
    await write(directory, log)
    before, segments, size = read(log), len(log.segments), log.size

    result = await compact(directory)

    after = read(log)
    active = log.segments.newest.base_offset
    assert result.end_offset == active
    kept = [row for row in before if row[0] >= active] + []
    superseded_by = {key: offset for offset, key, _ in before if offset < active}
    assert after == [row for row in before if row[0] < active and superseded_by[row[1]] == row[0]] + kept
    assert len(log.segments) < segments
    assert log.size < size / 3
    assert (result.records_read, result.records_kept) == (active, 10)
    assert result.bytes_kept < result.bytes_read
    assert await directory.manager.cleaner.run_once() is None, "nothing is dirty now"


async def test_every_offset_can_be_asked_for(directory: OpenDirectory) -> None:
    log = await directory.log(COMPACTED)
    await write(directory, log)
    await compact(directory)
    rows = read(log)
    for offset in range(log.log_end_offset):
        assert read(log, offset) == [row for row in rows if row[0] >= offset]


async def test_the_files_are_those_of_a_log_that_was_written_so(directory: OpenDirectory, path: Path) -> None:
    log = await directory.log(COMPACTED)
    await write(directory, log)
    await compact(directory)
    await directory.pass_time(COMPACTED.file_delete_delay_ms)
    files = path / str(ORDERS)
    for segment in list(log.segments)[:-1]:
        data = content(segment.log_path)
        assert len(data) == segment.size
        assert walk_batches(data, check_crc=True)[2] is None
        index, times = kafkas_indexes(data, segment.base_offset, COMPACTED.index_interval_bytes)
        assert content(segment.path(".index")) == index
        assert content(segment.path(".timeindex")) == times
    snapshots = [int(name[:20]) for name in names_in(files, "*.snapshot")]
    assert set(snapshots[:-2]) <= {segment.base_offset for segment in log.segments}
    assert len(snapshots) == 2
    assert not names_in(files, "*.cleaned") + names_in(files, "*.swap") + names_in(files, "*.deleted")
    assert (path / "cleaner-offset-checkpoint").read_text() == f"0\n1\norders 0 {log.segments.newest.base_offset}\n"


async def test_a_compacted_segment_is_as_old_as_the_youngest_it_was_made_of(directory: OpenDirectory) -> None:
    log = await directory.log(COMPACTED)
    await write(directory, log)
    for number, segment in enumerate(list(log.segments)[:-1]):
        os.utime(segment.log_path, (1_000 + number, 1_000 + number))
    youngest = 1_000 + len(log.segments) - 2
    await compact(directory)
    closed = list(log.segments)[:-1]
    assert OsDisk().modified_ms(closed[-1].log_path) == youngest * 1000


async def test_what_stays_of_small_segments_fills_large_ones(directory: OpenDirectory) -> None:
    log = await directory.log(COMPACTED)
    await write(directory, log, keys=100, versions=3)
    await compact(directory)
    closed = list(log.segments)[:-1]
    assert len(closed) > 3
    assert all(segment.size <= COMPACTED.segment_bytes for segment in closed)
    full = [segment for segment in closed if segment.size > COMPACTED.segment_bytes / 2]
    assert len(full) >= len(closed) / 2


async def test_a_table_that_is_too_small_takes_several_passes(path: Path) -> None:
    async with opened(path, cleaner=CleanerConfig(dedupe_buffer_bytes=24 * 8)) as directory:
        log = await directory.log(replace(COMPACTED, min_cleanable_dirty_ratio=0.0))
        await write(directory, log)
        expected, ends = newest(log), []
        while (result := await directory.manager.cleaner.run_once()) is not None:
            ends.append(result.end_offset)
        assert ends == sorted(set(ends))
        assert len(ends) > 5
        assert newest(log) == expected


async def test_a_clean_start_and_one_after_a_kill_find_what_was_compacted(path: Path) -> None:
    async with opened(path) as directory:
        log = await directory.log(COMPACTED)
        await write(directory, log)
        await compact(directory)
        expected = read(log)
        killed = copy_as_after_a_kill(path)
    for each in (killed, path):
        async with opened(each) as directory:
            assert not directory.report.cuts
            log = await directory.log(COMPACTED)
            assert read(log) == expected
            assert await directory.manager.cleaner.run_once() is None, "it is remembered how far"


class CrashError(Exception):
    """The machine stopped here."""


class MortalDisk(OsDisk):
    """Counts what changes files, and stops for good before the change of a number."""

    def __init__(self) -> None:
        self.changes = 0
        self.dies_at: int | None = None

    def _change(self) -> None:
        if self.dies_at is not None and self.changes >= self.dies_at:
            raise CrashError
        self.changes += 1

    def append(self, path: object, data: bytes) -> None:
        self._change()
        super().append(path, data)  # type: ignore[arg-type]

    def write(self, path: object, data: bytes) -> None:
        self._change()
        super().write(path, data)  # type: ignore[arg-type]

    def rename(self, old: object, new: object, *, durable: bool = True) -> None:
        self._change()
        super().rename(old, new, durable=durable)  # type: ignore[arg-type]

    def remove(self, path: object) -> None:
        self._change()
        super().remove(path)  # type: ignore[arg-type]

    def write_atomic(self, path: object, data: bytes) -> None:
        self._change()
        super().write_atomic(path, data)  # type: ignore[arg-type]


@pytest.mark.slow
async def test_a_crash_at_any_moment_of_a_pass_loses_nothing_and_brings_nothing_back(
    path: Path, tmp_path: Path
) -> None:
    async with opened(path) as directory:
        log = await directory.log(COMPACTED)
        await write(directory, log, versions=12)
        before = read(log)
        expected = newest(log)
        prepared = copy_as_after_a_kill(path, "prepared")
    disk = MortalDisk()
    count = await crash_of_a_pass(prepared, tmp_path / "whole", disk)
    assert count > 15
    for moment in range(count):
        disk = MortalDisk()
        at = tmp_path / f"at-{moment}"
        await crash_of_a_pass(prepared, at, disk, moment)
        async with opened(at) as directory:
            assert not directory.report.cuts, moment
            log = await directory.log(COMPACTED)
            rows = read(log)
            assert {key: value for _, key, value in rows} == expected, moment
            assert set(rows) <= set(before), moment
            names = names_in(at / str(ORDERS))
            assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))], moment
            assert [offset for offset, _, _ in rows] == sorted({offset for offset, _, _ in rows}), moment
            await directory.manager.cleaner.run_once()
            assert newest(log) == expected, moment
        shutil.rmtree(at)


async def crash_of_a_pass(prepared: Path, at: Path, disk: MortalDisk, moment: int | None = None) -> int:
    """Compact a copy of a directory, with a crash before the change of a number; how many changes there were."""
    work = at.parent / "work"
    shutil.copytree(prepared, work)
    async with opened(work, disk=disk, clean=False) as directory:
        await directory.log(COMPACTED)
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


async def test_the_last_batch_of_a_producer_is_still_known_after_its_records_went(path: Path) -> None:
    async with opened(path) as directory:
        log = await directory.log(COMPACTED)
        await directory.append_all(
            log, [keyed(1, "first", producer_id=7, producer_epoch=0, base_sequence=number) for number in range(3)]
        )
        await write(directory, log)
        await compact(directory)
        log.snapshots.take_obsolete(set())
        killed = copy_as_after_a_kill(path)
    for snapshot in (killed / str(ORDERS)).glob("*.snapshot"):
        snapshot.unlink()
    (killed / "recovery-point-offset-checkpoint").unlink()
    async with opened(killed) as directory:
        log = await directory.log(COMPACTED)
        (producer,) = log.producers
        assert (producer.producer_id, producer.last_sequence, producer.last_offset) == (7, 2, 2)


async def test_tombstones_go_a_while_after_they_were_compacted(directory: OpenDirectory) -> None:
    log = await directory.log(replace(COMPACTED, delete_retention_ms=1_000, min_cleanable_dirty_ratio=0.0))
    await directory.append_all(log, [keyed(999, "v"), keyed(999, None)])
    await write(directory, log)
    await compact(directory)
    assert newest(log)[b"key-999"] is None
    await directory.pass_time(1_000)
    await write(directory, log, versions=3)
    await compact(directory)
    assert b"key-999" not in newest(log)


@pytest.mark.parametrize("what", ["delete", "close", "delete and make again"])
async def test_a_log_that_goes_during_a_pass_ends_it(path: Path, what: str) -> None:
    disk = GateDisk()
    async with opened(path, disk=disk) as directory:
        log = await directory.log(COMPACTED)
        await write(directory, log)
        disk.close_gate()
        running = asyncio.create_task(directory.manager.cleaner.run_once())
        await disk.arrived()
        if what == "close":
            ending = asyncio.create_task(directory.manager.close())
        else:
            ending = asyncio.create_task(directory.manager.delete_log(ORDERS))
        await asyncio.sleep(0)
        disk.open_gate()
        await ending
        assert await running is None
        if what == "delete and make again":
            again = await directory.log(COMPACTED)
            assert read(again) == []
            assert names_in(path / str(ORDERS)) == ["partition.metadata"]
    async with opened(path) as directory:
        log = await directory.log(COMPACTED)
        assert len(newest(log)) == (10 if what == "close" else 0)
        assert not directory.report.cuts


async def test_a_pass_whose_segment_expires_leaves_no_files_behind(path: Path) -> None:
    disk = GateDisk()
    async with opened(path, disk=disk) as directory:
        log = await directory.log(replace(COMPACTED, cleanup_policy=frozenset({"compact", "delete"})))
        await write(directory, log)
        disk.close_gate()
        running = asyncio.create_task(directory.manager.cleaner.run_once())
        await disk.arrived()
        log.delete_records_before(log.segments.newest.base_offset)
        retention = asyncio.create_task(directory.manager.apply_retention())
        await directory.in_line()
        disk.open_gate()
        assert await retention > 0
        assert await running is None
        assert not names_in(path / str(ORDERS), "*.cleaned")


async def test_a_pass_that_waits_for_its_pace_goes_on_with_another_and_ends_with_the_broker(path: Path) -> None:
    slowly = CleanerConfig(io_max_bytes_per_second=1.0)
    async with opened(path, cleaner=slowly) as directory:
        log, cleaner = await directory.log(COMPACTED), directory.manager.cleaner
        await write(directory, log)
        timers = len(directory.timer)
        running = asyncio.create_task(cleaner.run_once())
        while len(directory.timer) == timers:
            directory.timer.advance(1)
            await asyncio.sleep(0.001)
        cleaner.configure(CleanerConfig())
        assert await running is not None
        assert len(newest(log)) == 10

        await write(directory, log)
        cleaner.configure(slowly)
        timers = len(directory.timer)
        running = asyncio.create_task(cleaner.run_once())
        while len(directory.timer) == timers:
            directory.timer.advance(1)
            await asyncio.sleep(0.001)
        await cleaner.stop()
        assert await running is None


class GateDisk(OsDisk):
    """Holds the first piece of a compacted segment up until the gate is opened."""

    def __init__(self) -> None:
        self._arrived = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._release: Callable[[], None] = lambda: None

    def close_gate(self) -> None:
        gate = threading.Event()
        self._wait, self._release = gate.wait, gate.set

    def open_gate(self) -> None:
        self._release()

    async def arrived(self) -> None:
        await self._arrived.wait()

    def append(self, path: object, data: bytes) -> None:
        self._loop.call_soon_threadsafe(self._arrived.set)
        self._wait()
        super().append(path, data)  # type: ignore[arg-type]


async def test_readers_of_the_old_segments_finish(directory: OpenDirectory) -> None:
    log = await directory.log(COMPACTED)
    await write(directory, log)
    held = log.read(0, 100_000, max_offset=log.log_end_offset)
    expected = bytes_of(held)
    await compact(directory)
    await directory.pass_time(COMPACTED.file_delete_delay_ms)
    assert bytes_of(held) == expected


async def test_damage_is_said_once_and_the_log_is_left_alone(
    directory: OpenDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    log = await directory.log(COMPACTED)
    await write(directory, log)
    file = Path(log.segments[1].log_path)
    damage(file)
    assert await directory.manager.cleaner.run_once() is None
    assert await directory.manager.cleaner.run_once() is None
    assert [record.message for record in caplog.records if "not compacted" in record.message] == [
        next(record.message for record in caplog.records if record.message.startswith("orders-0 is not compacted"))
    ]
    assert not names_in(file.parent, "*.cleaned")


async def test_logs_that_are_not_to_be_compacted_are_left_alone(directory: OpenDirectory) -> None:
    log = await directory.log(replace(COMPACTED, cleanup_policy=frozenset({"delete"})))
    await write(directory, log)
    assert await directory.manager.cleaner.run_once() is None


async def test_it_works_by_itself_after_the_back_off_and_stops(directory: OpenDirectory) -> None:
    log = await directory.log(COMPACTED)
    await write(directory, log)
    size = log.size
    directory.manager.cleaner.start()
    while log.size == size:
        directory.timer.advance(15_000)
        await asyncio.sleep(0.001)
    await directory.manager.cleaner.stop()


async def test_retention_goes_on_behind_a_segment_of_which_nothing_is_left(directory: OpenDirectory) -> None:
    both = replace(COMPACTED, cleanup_policy=frozenset({"compact", "delete"}), retention_ms=1_000)
    log = await directory.log(both)
    await write(directory, log)
    # Less than any segment has: none is put together with another.
    log.config = replace(both, segment_bytes=500)
    await compact(directory)
    assert log.segments[0].size == 0
    for segment in log.segments:
        os.utime(segment.log_path, (NOW_MS / 1_000, NOW_MS / 1_000))
    await directory.manager.apply_retention()
    assert log.log_start_offset == 0, "its time, that of its file, is not over"
    await directory.pass_time(1_001)
    await directory.manager.apply_retention()
    assert log.log_start_offset == log.log_end_offset


async def test_a_pass_ends_where_what_it_may_compact_ends_though_no_batch_lies_right_below(path: Path) -> None:
    # Of the first segment the batch at offset 0 stays, and nothing up to the next segment, which is too young later.
    early, late = NOW_MS - 10_000, NOW_MS
    async with opened(path) as directory:
        log = await directory.log(COMPACTED)
        await directory.append_all(log, [stamped(999, "stays", early)])
        while len(log.segments) == 1:
            await directory.append_all(log, [stamped(0, "superseded", early)])
        await directory.append_all(log, [stamped(998, "stays", late)])
        await write(directory, log)
        log.config = replace(COMPACTED, segment_bytes=500)  # none is put together with another
        await compact(directory)
        assert read(log)[0][0] == 0
        second = log.segments[1].base_offset
        assert batches_in(content(log.segments[0].log_path))[-1][2] < second - 1
    (path / "cleaner-offset-checkpoint").unlink()
    async with opened(path) as directory:
        log = await directory.log(replace(COMPACTED, min_compaction_lag_ms=5_000))
        assert (await compact(directory)).end_offset == second
        assert await directory.manager.cleaner.run_once() is None, "nothing is left to do"


async def test_a_log_that_begins_within_a_young_segment_does_not_keep_the_cleaner_from_others(path: Path) -> None:
    async with opened(path) as directory:
        cut = await directory.log(replace(COMPACTED, min_compaction_lag_ms=3_600_000))
        await directory.append_all(cut, [stamped(key, "young", NOW_MS) for key in range(20)])
        await write(directory, cut)
        assert cut.segments[1].base_offset > 1
        cut.delete_records_before(1)
        assert await directory.manager.cleaner.run_once() is None


def stamped(key: int, value: str, timestamp: int) -> bytearray:
    return build_batch([(timestamp, b"key-%d" % key, value.encode() * 10, [])])


async def test_two_passes_that_begin_together_compact_two_logs(path: Path) -> None:
    async with opened(path, cleaner=CleanerConfig(threads=2)) as directory:
        logs = [await directory.log(COMPACTED, TopicPartition("orders", index)) for index in range(2)]
        for log in logs:
            await write(directory, log)
        cleaner = directory.manager.cleaner
        results = await asyncio.gather(*(cleaner.run_once() for _ in range(3)))
        assert [result is not None for result in results] == [True, True, False]
        assert all(len(log.segments) < 5 for log in logs)
