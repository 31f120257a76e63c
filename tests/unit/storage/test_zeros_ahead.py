"""Zeros ahead of the end of a log: not counted, not read, cut by a clean close, and the end of the log for a start."""

import shutil
from pathlib import Path

import pytest

from ottla.model.errors import ApiError
from ottla.storage import segment_appender
from ottla.storage.log import Log
from ottla.storage.log_config import LogConfig
from tests.unit.storage.data_directory import (
    OpenDirectory,
    batch,
    batches_in,
    bytes_of,
    copy_as_after_a_kill,
    files_of,
    opened,
)
from tests.unit.storage.test_log_io import file_size_limit

SMALL = 500


@pytest.fixture(autouse=True)
def _are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_appender, "ZEROS_AHEAD_MAX", 256 << 10)


async def write(directory: OpenDirectory, log: Log, count: int = 200) -> None:
    """Small appends, each synced by itself."""
    for _ in range(count):
        await directory.append_all(log, [batch(value=b"v" * SMALL)])


def sizes(log: Log) -> list[int]:
    return [path.stat().st_size for path in files_of(Path(log.directory), ".log")]


async def test_the_file_is_longer_than_the_log_and_nobody_sees_it(tmp_path: Path) -> None:
    async with opened(tmp_path / "data") as directory:
        log = await directory.log()
        await write(directory, log)
        (size,) = sizes(log)
        assert log.size < size <= 2 * log.size
        data = bytes_of(log.read(0, 1 << 30, max_offset=log.log_end_offset))
        assert len(data) == log.size
        assert len(batches_in(data)) == 200
        assert (await directory.log()).written_end_offset == 200


async def test_a_clean_close_leaves_none(tmp_path: Path) -> None:
    path = tmp_path / "data"
    async with opened(path) as directory:
        log = await directory.log()
        await write(directory, log)
    assert sizes(log) == [log.size]
    async with opened(path) as directory:
        log = await directory.log()
        assert (directory.report.scanned_bytes, log.log_end_offset) == (0, 200)
        await write(directory, log, 10)
        assert log.log_end_offset == 210


async def test_a_kill_leaves_them_and_a_start_takes_them_for_the_end(tmp_path: Path) -> None:
    path = tmp_path / "data"
    async with opened(path) as directory:
        log = await directory.log()
        await write(directory, log)
        size = log.size
        killed = copy_as_after_a_kill(path)
    async with opened(killed) as directory:
        assert directory.report.cuts == ()
        log = await directory.log()
        assert (log.log_end_offset, log.size, sizes(log)) == (200, size, [size])
        await write(directory, log, 10)
        assert len(batches_in(bytes_of(log.read(0, 1 << 30, max_offset=210)))) == 210


async def test_what_is_torn_before_them_is_cut_and_said(tmp_path: Path) -> None:
    path = tmp_path / "data"
    async with opened(path) as directory:
        log = await directory.log()
        await write(directory, log)
        size = log.size
        killed = copy_as_after_a_kill(path)
    (file,) = files_of(killed / "orders-0", ".log")
    with file.open("r+b") as opened_file:
        opened_file.seek(size)
        opened_file.write(file.read_bytes()[:100])
    async with opened(killed) as directory:
        (cut,) = directory.report.cuts
        assert cut.offset == 200
        assert (await directory.log()).size == size


async def test_a_closed_segment_has_none(tmp_path: Path) -> None:
    async with opened(tmp_path / "data") as directory:
        log = await directory.log(LogConfig(segment_bytes=40_000))
        await write(directory, log)
        segments = list(log.segments)
        assert len(segments) > 2
        assert sizes(log)[:-1] == [segment.size for segment in segments[:-1]]
        assert directory.report.cuts == ()


async def test_one_that_was_not_cut_in_time_is_no_reason_to_cut_what_follows(tmp_path: Path) -> None:
    path = tmp_path / "data"
    async with opened(path) as directory:
        log = await directory.log(LogConfig(segment_bytes=40_000))
        await write(directory, log)
        killed = copy_as_after_a_kill(path)
    first = files_of(killed / "orders-0", ".log")[0]
    size = first.stat().st_size
    with first.open("ab") as file:
        file.write(bytes(10_000))
    shutil.copy(killed / "recovery-point-offset-checkpoint", tmp_path)
    async with opened(killed) as directory:
        assert directory.report.cuts == ()
        log = await directory.log()
        assert (log.log_end_offset, sizes(log)[0]) == (200, size)


async def test_a_disk_that_was_full_for_the_next_segment_leaves_none_in_the_one_before(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=200_000)
    async with opened(tmp_path / "data") as directory:
        log = await directory.log(config)
        await write(directory, log)
        size = log.size
        assert sizes(log)[0] > size
        with file_size_limit(1000):
            directory.append(log, batch(value=b"v" * 100_000))
            with pytest.raises(ApiError):
                await log.flush()
        await directory.manager.directories[0].resume()
        assert sizes(log)[0] == size
        await directory.append_all(log, [batch(value=b"v" * 100_000)])
        assert [segment.size for segment in log.segments][:-1] == [size]
        assert len(batches_in(bytes_of(log.read(0, 1 << 30, max_offset=201)))) == 201


async def test_a_kill_between_two_segments_that_were_on_disk_leaves_none_in_the_first(tmp_path: Path) -> None:
    path = tmp_path / "data"
    async with opened(path) as directory:
        log = await directory.log(LogConfig(segment_bytes=100_000))
        await write(directory, log)
        first, second = list(log.segments)[:2]
        killed = copy_as_after_a_kill(path)
    with (killed / "orders-0" / Path(first.log_path).name).open("ab") as file:
        file.write(bytes(10_000))
    (killed / "recovery-point-offset-checkpoint").write_text(f"0\n1\norders 0 {second.base_offset}\n")
    async with opened(killed) as directory:
        assert directory.report.cuts == ()
        log = await directory.log()
        assert sizes(log)[0] == first.size
        assert len(batches_in(bytes_of(log.read(0, 1 << 30, max_offset=200)))) == 200


@pytest.mark.parametrize("config", [LogConfig(flush_before_ack=False), LogConfig(preallocate=True)])
async def test_a_log_that_gains_nothing_by_them_has_none(tmp_path: Path, config: LogConfig) -> None:
    async with opened(tmp_path / "data") as directory:
        log = await directory.log(config)
        await write(directory, log, 100)
        assert sizes(log) == [log.size]
