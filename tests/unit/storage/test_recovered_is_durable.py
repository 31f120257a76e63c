"""What recovery found in the page cache is on disk before anybody hears of it."""

import errno
from pathlib import Path

import pytest

from ottla.model.errors import ApiError
from ottla.model.topic_partition import TopicPartition
from ottla.runtime.disk import StrPath
from ottla.storage.file_names import PARTITION_METADATA
from ottla.storage.log_config import LogConfig
from ottla.storage.offset_checkpoint import format_checkpoint
from tests.unit.storage.data_directory import ORDERS, batch, copy_as_after_a_kill, files_of, opened
from tests.unit.storage.test_log_io import file_size_limit
from tests.unit.storage.watched_disk import SyncedFiles

pytestmark = pytest.mark.slow

CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=300)
LOGS = [TopicPartition("orders", number) for number in range(40)]
LARGE = TopicPartition("large", 0)
"""More to check than is read beside others."""


async def killed(path: Path) -> Path:
    """A directory with many logs of two or more segments, and a large one, none of which has a recovery point."""
    async with opened(path / "data") as directory:
        for name in LOGS:
            log = await directory.log(CONFIG, name)
            await directory.append_all(log, [batch(1, value=b"x" * 700) for _ in range(4)])
        large = await directory.log(LogConfig(), LARGE)
        await directory.append_all(large, [batch(1, value=b"x" * 700_000) for _ in range(2)])
        copy = copy_as_after_a_kill(path / "data")
    (copy / "recovery-point-offset-checkpoint").write_bytes(format_checkpoint([]))
    return copy


async def test_the_records_and_topic_ids_of_every_log_are_synced_before_the_start_goes_on(tmp_path: Path):
    path = await killed(tmp_path)
    disk = SyncedFiles()
    async with opened(path, disk=disk):
        synced = set(disk.synced)
        for name in (*LOGS, LARGE):
            segments = files_of(path / str(name), ".log")
            assert len(segments) > 1 or name is LARGE
            assert {*segments, path / str(name) / PARTITION_METADATA} <= synced


async def test_below_the_recovery_point_nothing_is_synced(tmp_path: Path):
    path = await killed(tmp_path)
    (path / "recovery-point-offset-checkpoint").write_bytes(
        format_checkpoint([*((*name, 4) for name in LOGS), (*LARGE, 2)])
    )
    disk = SyncedFiles()
    async with opened(path, disk=disk):
        assert not [file for file in disk.synced if file.suffix == ".log"]


async def test_a_cut_is_synced_before_the_start_goes_on(tmp_path: Path):
    path = await killed(tmp_path)
    newest = files_of(path / str(ORDERS), ".log")[-1]
    with newest.open("ab") as file:
        file.write(b"torn")
    (path / "recovery-point-offset-checkpoint").write_bytes(format_checkpoint([(*ORDERS, 4)]))
    disk = SyncedFiles()
    async with opened(path, disk=disk) as directory:
        assert [cut.cut_bytes for cut in directory.report.cuts] == [4]
        assert newest in disk.synced


class FailingSync(SyncedFiles):
    """A disk that cannot sync one file."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def sync_file(self, path: StrPath) -> None:
        if Path(path) == self.path:
            raise OSError(errno.EIO, "bad disk", str(path))
        super().sync_file(path)


@pytest.mark.parametrize("suffix", [".log", PARTITION_METADATA])
async def test_a_start_fails_when_what_it_found_cannot_be_synced(tmp_path: Path, suffix: str):
    path = await killed(tmp_path)
    disk = FailingSync(files_of(path / str(LOGS[30]), suffix)[-1])
    with pytest.raises(OSError, match="bad disk"):
        async with opened(path, disk=disk):
            pass


async def test_what_a_truncated_log_keeps_is_synced_before_it_counts_as_flushed(tmp_path: Path):
    disk = SyncedFiles()
    async with opened(tmp_path, disk=disk) as directory:
        log = await directory.log(CONFIG)
        for _ in range(4):
            directory.append(log, batch(1, value=b"x" * 700), sync=False)
        first, second = log.segments
        await directory.manager.truncate_log(log, second.base_offset)
        assert log.flushed_end_offset == log.log_end_offset == second.base_offset
        assert Path(first.log_path) in disk.synced


async def test_what_a_resumed_log_keeps_is_synced_before_it_counts_as_flushed(tmp_path: Path):
    disk = SyncedFiles()
    async with opened(tmp_path, disk=disk) as directory:
        log = await directory.log()
        directory.append(log, batch(1), sync=False)
        with file_size_limit(1000):
            directory.append(log, batch(1, value=b"x" * 2000))
            with pytest.raises(ApiError):
                await log.flush()
        await directory.manager.directories[0].resume()
        assert log.flushed_end_offset == log.log_end_offset == 1
        assert files_of(tmp_path / str(ORDERS), ".log")[0] in disk.synced
