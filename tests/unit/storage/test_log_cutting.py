"""Logs that are cut, or begin anew, while they are open: what followers do whose leader has something else."""

import errno
from pathlib import Path
from typing import Any

import pytest

from ottla.runtime.disk import OsDisk, StrPath
from ottla.storage import log_recovery, segment_recovery
from ottla.storage.log_config import LogConfig
from tests.unit.storage.data_directory import batch, bytes_of, copy_as_after_a_kill, opened

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=200, file_delete_delay_ms=5000)


async def test_a_cut_reads_again_only_what_was_not_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with opened(tmp_path) as directory:
        log = await directory.log(LogConfig(index_interval_bytes=100))
        for number in range(20):
            directory.append(log, batch(2, value=b"x" * 300, producer_id=7, epoch=0, sequence=number * 2), epoch=number)
        await log.flush()
        walked: list[int] = []
        walk = segment_recovery.walk_segment

        def walk_segment(file: Any, size: int, base_offset: int, position: int, *rest: Any, **options: Any) -> Any:
            found = walk(file, size, base_offset, position, *rest, **options)
            walked.append(found.position - position)
            return found

        monkeypatch.setattr(log_recovery, "walk_segment", walk_segment)
        await directory.manager.truncate_log(log, 36)
        assert (log.log_end_offset, log.flushed_end_offset, log.leader_epochs.latest_epoch) == (36, 36, 17)
        assert sum(walked) < 3 * 400
        directory.append(log, batch(2, producer_id=7, epoch=0, sequence=36), epoch=99)
        await log.flush()
        assert len(bytes_of(log.read(0, 1 << 20, max_offset=38))) == log.size


@pytest.mark.parametrize("offset", [0, 3, 9, 12, 40])
async def test_a_log_that_begins_anew_holds_nothing_and_goes_on_where_it_was_told(tmp_path: Path, offset: int):
    async with opened(tmp_path) as directory:
        log = await directory.log(SMALL)
        for number in range(6):
            directory.append(log, batch(2, value=b"x" * 300, producer_id=7, epoch=0, sequence=number * 2), epoch=number)
        await log.flush()
        log.delete_records_before(5)
        await directory.manager.checkpoint_recovery_points()
        await directory.manager.checkpoint_log_starts()
        directory.append(log, batch(2, value=b"x" * 300))
        await directory.manager.restart_log(log, offset)
        assert (log.log_start_offset, log.log_end_offset, log.flushed_end_offset) == (offset, offset, offset)
        assert (log.size, len(log.producers), log.leader_epochs.entries) == (0, 0, ())
        killed = copy_as_after_a_kill(tmp_path, f"{tmp_path.name}-killed")
        assert directory.append(log, batch(2), epoch=50).first_offset == offset
    for path, end_offset in ((killed, offset), (tmp_path, offset + 2)):
        async with opened(path) as directory:
            log = await directory.log(SMALL)
            assert (log.log_start_offset, log.log_end_offset) == (offset, end_offset)


@pytest.mark.parametrize("offset", [0, 9, 40])
@pytest.mark.parametrize("removed", [0, 3, 8, 14])
async def test_a_crash_while_a_log_begins_anew_leaves_a_log(tmp_path: Path, offset: int, removed: int):
    class Crashing(OsDisk):
        left = 1 << 30

        def remove(self, path: StrPath) -> None:
            if self.left == 0:
                raise OSError(errno.ENOSPC, "the disk stops here")
            self.left -= 1
            super().remove(path)

    disk = Crashing()
    async with opened(tmp_path, disk=disk) as directory:
        log = await directory.log(SMALL)
        for number in range(6):
            directory.append(log, batch(2, value=b"x" * 300), epoch=number)
        await log.flush()
        disk.left = removed
        with pytest.raises(OSError, match="stops here"):
            await directory.manager.restart_log(log, offset)
        killed = copy_as_after_a_kill(tmp_path, f"{tmp_path.name}-killed")
        disk.left = 1 << 30
    async with opened(killed) as directory:
        log = await directory.log(SMALL)
        assert offset <= log.log_start_offset <= log.log_end_offset
        assert log.log_end_offset <= max(12, offset)
        assert len(bytes_of(log.read(log.log_start_offset, 1 << 20, max_offset=99))) <= log.size
        await directory.manager.restart_log(log, offset)
        assert directory.append(log, batch(2)).first_offset == offset
