"""Readers in threads while the files they read are deleted, replaced, or given to another log of the same name."""

import asyncio
import errno
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.runtime.disk import OsDisk, StrPath
from ottla.storage.log import Log
from ottla.storage.log_config import LogConfig
from tests.unit.storage.data_directory import NOW_MS, ORDERS, OpenDirectory, batch, bytes_of, opened
from tests.unit.storage.gated_disk import GatedDisk

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=100, message_timestamp_after_max_ms=1 << 50)
FIRST = "orders-0/00000000000000000000"
TWO_SEGMENTS = [(NOW_MS, b"o" * 300)] * 3


async def filled(directory: OpenDirectory, shapes: list[tuple[int, bytes]], config: LogConfig = SMALL) -> Log:
    """A log of batches of two records, each batch with a time and a value; three or so fill a segment."""
    log = await directory.log(config)
    await directory.append_all(log, [batch(2, timestamp=time, value=value) for time, value in shapes])
    return log


async def read_all(log: Log) -> bytes:
    return bytes_of(log.read(0, 1 << 20, max_offset=1 << 40))


@pytest.mark.parametrize("kind", [".log", ".timeindex", ".index"])
async def test_what_a_look_up_of_a_deleted_log_opens_late_is_never_the_new_logs(tmp_path: Path, kind: str):
    disk = GatedDisk()
    async with opened(tmp_path, disk=disk) as directory:
        old = await filled(directory, TWO_SEGMENTS)
        operation = "open_read" if kind == ".log" else "read_bytes"
        if kind == ".timeindex":
            old.segments[0].largest_timestamp = None
        with disk.held(operation, FIRST + kind) as gate:
            asked = asyncio.create_task(old.offset_for_timestamp(NOW_MS))
            await gate.reached()
            with disk.held("rename", "orders-0") as renaming:
                deleted = asyncio.create_task(directory.manager.delete_log(ORDERS))
                await renaming.reached()
                gate.release()
                with pytest.raises(ApiError) as caught:
                    await asked
                assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                renaming.release()
                await deleted
        new = await filled(directory, [(NOW_MS + 1, b"n" * 10)] * 20)
        assert b"o" * 10 not in await read_all(new)
        assert await new.offset_for_timestamp(NOW_MS) == (NOW_MS + 1, 0, 0)
        sizes = [len(bytes_of(new.read(offset, 1, max_offset=40))) for offset in range(40)]
        assert len(set(sizes)) == 1


async def test_a_look_up_of_a_deleted_log_does_not_read_the_new_logs_files(tmp_path: Path):
    disk = GatedDisk()
    async with opened(tmp_path, disk=disk) as directory:
        old = await filled(directory, TWO_SEGMENTS)
        with disk.held("open_read", FIRST) as gate:
            asked = asyncio.create_task(old.offset_for_timestamp(NOW_MS))
            await gate.reached()
            await directory.manager.delete_log(ORDERS)
            new = await filled(directory, [(NOW_MS + 1, b"n" * 300)] * 3)
            gate.release()
            with pytest.raises(ApiError) as caught:
                await asked
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert b"o" * 10 not in await read_all(new)


async def test_a_deleted_log_cannot_be_read(tmp_path: Path):
    async with opened(tmp_path) as directory:
        old = await filled(directory, TWO_SEGMENTS)
        await read_all(old)
        await directory.manager.delete_log(ORDERS)
        await filled(directory, [(NOW_MS + 1, b"n" * 300)] * 3)
        with pytest.raises(ApiError) as caught:
            await read_all(old)
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("is_greatest", [True, False])
async def test_a_look_up_goes_on_with_what_retention_left(tmp_path: Path, is_greatest: bool):
    disk = GatedDisk()
    config = LogConfig(segment_bytes=1000, retention_bytes=900)
    async with opened(tmp_path, disk=disk) as directory:
        log = await filled(directory, [(NOW_MS + 5, b"x" * 400), (NOW_MS + 3, b"x" * 400), (NOW_MS, b"")], config)
        with disk.held("open_read", FIRST) as gate:
            task = asyncio.create_task(log.max_timestamp_offset() if is_greatest else log.offset_for_timestamp(0))
            await gate.reached()
            assert await directory.manager.apply_retention() == 1
            gate.release()
            assert await task == (NOW_MS + 3, 2, 0)


async def test_the_greatest_time_is_found_although_everything_expired_meanwhile_and_more_came(tmp_path: Path):
    disk = GatedDisk()
    config = LogConfig(segment_bytes=1000, retention_ms=1000)
    async with opened(tmp_path, disk=disk) as directory:
        log = await filled(directory, [(NOW_MS - 5000, b"x")], config)
        with disk.held("open_read", ".log") as gate:
            task = asyncio.create_task(log.max_timestamp_offset(lambda: log.flushed_end_offset))
            await gate.reached()
            await directory.manager.apply_retention()
            await directory.append_all(log, [batch(timestamp=NOW_MS)])
            gate.release()
            assert await task == (NOW_MS, 2, 0)


async def test_a_look_up_beside_a_truncation_sees_the_log_after_it(tmp_path: Path):
    disk = GatedDisk()
    async with opened(tmp_path, disk=disk) as directory:
        log = await filled(directory, [(NOW_MS + index, b"x" * 50) for index in range(9)])
        with disk.held("open_read", FIRST) as gate:
            task = asyncio.create_task(log.offset_for_timestamp(NOW_MS + 2))
            await gate.reached()
            await directory.manager.truncate_log(log, 4)
            await directory.append_all(log, [batch(2, timestamp=NOW_MS + 7, value=b"y" * 60)])
            gate.release()
            assert await task == (NOW_MS + 7, 4, 0)


async def test_a_log_that_could_not_be_truncated_says_so_until_it_is_loaded_again(tmp_path: Path):
    disk = FullDisk()
    async with opened(tmp_path, disk=disk) as directory:
        log = await filled(directory, [(NOW_MS + index, b"x" * 50) for index in range(9)])
        disk.is_full = True
        with pytest.raises(OSError, match="full"):
            await directory.manager.truncate_log(log, 4)
        for attempt in (log.offset_for_timestamp(NOW_MS), log.max_timestamp_offset(), read_all(log)):
            with pytest.raises(ApiError) as caught:
                await attempt
            assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        disk.is_full = False
        await directory.manager.directories[0].resume()
        await directory.manager.truncate_log(log, 4)
        assert await log.max_timestamp_offset() == (NOW_MS + 1, 2, 0)


class FullDisk(OsDisk):
    """Has no room for anything while it is full."""

    def __init__(self) -> None:
        self.is_full = False

    def truncate(self, path: StrPath, size: int) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "full", str(path))
        super().truncate(path, size)


async def test_a_damaged_batch_is_said_to_whoever_looks_it_up(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await filled(directory, TWO_SEGMENTS)
        path = Path(log.segments[0].log_path)
        content = bytearray(await asyncio.to_thread(path.read_bytes))
        content[100] ^= 1
        await asyncio.to_thread(path.write_bytes, content)
        with pytest.raises(ApiError) as caught:
            await log.offset_for_timestamp(NOW_MS)
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.slow
@given(
    shapes=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 4), st.sampled_from([1, 60, 400])), min_size=1),
    start=st.integers(0, 60),
    end=st.integers(0, 30),
    wanted=st.integers(0, 40),
)
@settings(deadline=None, max_examples=40)
def test_what_is_found_among_some_offsets_is_what_a_naive_search_finds(
    tmp_path_factory: pytest.TempPathFactory, shapes: list[tuple[int, int, int]], start: int, end: int, wanted: int
):
    async def check() -> None:
        async with opened(tmp_path_factory.mktemp("log")) as directory:
            log = await directory.log(SMALL)
            records, ends = [], [0]
            for time, step, size in shapes:
                await directory.append_all(log, [batch(2, timestamp=time, step_ms=step, value=b"x" * size)])
                records += [(time, ends[-1]), (time + step, ends[-1] + 1)]
                ends.append(ends[-1] + 2)
            end_offset = ends[min(end, len(ends) - 1)]
            log.delete_records_before(min(start, end_offset))
            there = [each for each in records if log.log_start_offset <= each[1] < end_offset]
            late = [(time, offset, 0) for time, offset in there if time >= wanted]
            greatest = max((time for time, _ in there), default=-1)
            latest = [(time, offset, 0) for time, offset in there if time == greatest]
            assert await log.offset_for_timestamp(wanted, lambda: end_offset) == (late[0] if late else None)
            assert await log.max_timestamp_offset(lambda: end_offset) == (latest[0] if latest else None)

    asyncio.run(check())
