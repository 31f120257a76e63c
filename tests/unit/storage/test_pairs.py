"""What changes the files of logs at the same time: pairs of one log follow each other, others do not wait."""

import asyncio
import errno
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from ottla.model.errors import ApiError
from ottla.model.topic_partition import TopicPartition
from ottla.native import LogIo
from ottla.runtime.disk import OsDisk, StrPath
from ottla.storage.log_config import LogConfig
from ottla.storage.log_segment import LogSegment
from ottla.storage.segment_appender import SegmentAppender
from tests.unit.storage.data_directory import (
    NOW_MS,
    ORDERS,
    TOPIC_ID,
    batch,
    batches_in,
    bytes_of,
    copy_as_after_a_kill,
    names_in,
    opened,
)
from tests.unit.storage.gated_disk import GatedDisk

USERS = TopicPartition("users", 0)
OTHER_ID = UUID("00000000-0000-4000-8000-000000000001")
OLD = [batch(2, value=b"x" * 200, timestamp=NOW_MS - 99_000) for _ in range(3)]
SMALL = LogConfig(segment_bytes=500, retention_ms=1000, file_delete_delay_ms=0)


def old_batches() -> list[bytearray]:
    return [bytearray(each) for each in OLD]


async def stays_waiting(task: asyncio.Task[object]) -> None:
    """Others may run for some turns, and the task does not get on."""
    for _ in range(50):
        await asyncio.sleep(0)
    assert not task.done()


async def test_a_slow_deletion_holds_neither_retention_nor_truncation_nor_creation_of_others(tmp_path: Path):
    disk = GatedDisk()
    async with opened(tmp_path, disk=disk) as directory:
        await directory.append_all(await directory.log(SMALL), old_batches())
        users = await directory.log(SMALL, USERS)
        await directory.append_all(users, old_batches())
        with disk.held("rename", "orders-0") as gate:
            deletion = asyncio.create_task(directory.manager.delete_log(ORDERS))
            await gate.reached()
            await directory.manager.truncate_log(users, 4)
            assert await directory.manager.apply_retention() == 2
            await directory.manager.checkpoint_recovery_points()
            await directory.log(SMALL, TopicPartition("orders", 1))
            assert not deletion.done()
            gate.release()
            await deletion
        await directory.pass_time(0)
        assert names_in(tmp_path, "orders-0*") == []


async def test_a_log_is_made_again_only_when_the_old_one_is_out_of_the_way(tmp_path: Path):
    disk = GatedDisk()
    async with opened(tmp_path, disk=disk) as directory:
        await directory.append_all(await directory.log(SMALL), old_batches())
        with disk.held("rename", "orders-0") as gate:
            deletion = asyncio.create_task(directory.manager.delete_log(ORDERS))
            await gate.reached()
            creation = asyncio.create_task(directory.manager.create_log(ORDERS, OTHER_ID, SMALL))
            await stays_waiting(creation)
            gate.release()
            await deletion
            log = await creation
        assert (log.topic_id, log.log_end_offset, log.size) == (OTHER_ID, 0, 0)


async def test_retention_that_comes_upon_a_truncation_goes_on_after_it(tmp_path: Path):
    disk = GatedDisk()
    async with opened(tmp_path, disk=disk) as directory:
        log = await directory.log(SMALL)
        await directory.append_all(log, [*old_batches(), batch(2, value=b"x" * 60), batch(2, value=b"x" * 60)])
        with disk.held("truncate", "orders-0") as gate:
            truncation = asyncio.create_task(directory.manager.truncate_log(log, 8))
            await gate.reached()
            retention = asyncio.create_task(directory.manager.apply_retention())
            await directory.in_line()
            await stays_waiting(retention)
            gate.release()
            await truncation
            assert await retention == 3
        assert (log.log_start_offset, log.log_end_offset) == (6, 8)
        read = batches_in(bytes_of(log.read(6, 1 << 20, max_offset=8)))
        assert [(first, last) for _, first, last in read] == [(6, 7)]


async def test_a_log_that_is_deleted_while_retention_waits_for_it_is_passed_over(tmp_path: Path):
    disk = GatedDisk()
    async with opened(tmp_path, disk=disk) as directory:
        log = await directory.log(SMALL)
        await directory.append_all(log, old_batches())
        with disk.held("truncate", "orders-0") as gate:
            truncation = asyncio.create_task(directory.manager.truncate_log(log, 5))
            await gate.reached()
            deletion = asyncio.create_task(directory.manager.delete_log(ORDERS))
            await directory.in_line()
            retention = asyncio.create_task(directory.manager.apply_retention())
            await directory.in_line(2)
            await stays_waiting(retention)
            gate.release()
            await asyncio.gather(truncation, deletion)
            assert await retention == 0
        assert directory.manager.logs() == ()


async def test_what_a_checkpoint_writes_of_a_deleted_log_never_reaches_the_next_of_its_name(tmp_path: Path):
    disk = GatedDisk()
    async with opened(tmp_path / "data", disk=disk) as directory:
        log = await directory.log(SMALL)
        for epoch in range(3):
            directory.append(log, bytearray(OLD[0]), epoch=epoch)
        await log.flush()
        with disk.held("write_atomic", "orders-0/leader-epoch-checkpoint") as gate:
            checkpoint = asyncio.create_task(directory.manager.checkpoint_recovery_points())
            await gate.reached()
            deletion = asyncio.create_task(directory.manager.delete_log(ORDERS))
            creation = asyncio.create_task(directory.manager.create_log(ORDERS, OTHER_ID, SMALL))
            await stays_waiting(deletion)
            gate.release()
            await asyncio.gather(checkpoint, deletion)
            new = await creation
        assert new.leader_epochs.entries == ()
        killed = copy_as_after_a_kill(tmp_path / "data")
        assert names_in(killed / "orders-0", "leader-epoch*") == []
        assert "orders 0 6" not in (killed / "recovery-point-offset-checkpoint").read_text()


async def test_a_recovery_point_that_was_being_written_is_forgotten_with_its_log(tmp_path: Path):
    disk = GatedDisk()
    async with opened(tmp_path / "data", disk=disk) as directory:
        log = await directory.log(SMALL)
        await directory.append_all(log, old_batches())
        await directory.manager.checkpoint_recovery_points()
        with disk.held("write_atomic", "recovery-point") as gate:
            checkpoint = asyncio.create_task(directory.manager.checkpoint_recovery_points())
            await gate.reached()
            await directory.manager.delete_log(ORDERS)
            creation = asyncio.create_task(directory.manager.create_log(ORDERS, OTHER_ID, SMALL))
            await stays_waiting(creation)
            gate.release()
            await asyncio.gather(checkpoint, creation)
        killed = copy_as_after_a_kill(tmp_path / "data")
        assert (killed / "recovery-point-offset-checkpoint").read_text() == "0\n0\n"


async def test_the_recovery_point_of_a_log_that_is_being_truncated_is_not_raised(tmp_path: Path):
    disk = GatedDisk()
    async with opened(tmp_path / "data", disk=disk) as directory:
        log = await directory.log(LogConfig())
        await directory.append_all(log, old_batches())
        await directory.manager.checkpoint_recovery_points()
        with disk.held("truncate", "orders-0") as gate:
            truncation = asyncio.create_task(directory.manager.truncate_log(log, 2))
            await gate.reached()
            await directory.manager.checkpoint_recovery_points()
            killed = copy_as_after_a_kill(tmp_path / "data")
            gate.release()
            await truncation
        assert (killed / "recovery-point-offset-checkpoint").read_text() == "0\n1\norders 0 2\n"


async def test_closing_waits_for_what_was_begun_and_nothing_is_begun_after_it(tmp_path: Path):
    disk = GatedDisk()
    async with opened(tmp_path, disk=disk) as directory:
        log = await directory.log(SMALL)
        await directory.append_all(log, old_batches())
        users = await directory.log(SMALL, USERS)
        await directory.append_all(users, old_batches())
        with disk.held("rename", "orders-0") as gate:
            deletion = asyncio.create_task(directory.manager.delete_log(ORDERS))
            await gate.reached()
            closing = asyncio.create_task(directory.manager.close())
            await stays_waiting(closing)
            with pytest.raises(ApiError, match="being closed"):
                await directory.manager.create_log(TopicPartition("new", 0), TOPIC_ID, SMALL)
            assert await directory.manager.apply_retention() == 0
            await directory.manager.truncate_log(users, 0)
            gate.release()
            await asyncio.gather(deletion, closing)
        assert users.log_end_offset == 6
    async with opened(tmp_path) as directory:
        assert directory.report.was_clean
        assert [log.topic_partition for log in directory.manager.logs()] == [USERS]


class HeldLogIo:
    """The real thread with room for one open file, which hears of nothing while it is held."""

    def __init__(self) -> None:
        self._io = LogIo(open_files_max=1)
        self.is_held = False

    def submit(self, inline_bytes_max: int = 0) -> bool:
        return False if self.is_held else self._io.submit(inline_bytes_max)

    def __getattr__(self, name: str) -> object:
        return getattr(self._io, name)


async def test_a_segment_is_not_deleted_before_the_thread_has_let_go_of_its_files(tmp_path: Path):
    io = HeldLogIo()
    async with opened(tmp_path, log_io=lambda: io) as directory:
        log = await directory.log(SMALL)
        await directory.append_all(log, [batch(2, value=b"x" * 200, timestamp=NOW_MS - 99_000)])
        io.is_held = True
        directory.append(log, batch(2, value=b"x" * 200))
        retention = asyncio.create_task(directory.manager.apply_retention())
        for _ in range(50):
            await directory.tasks.in_thread(bool)  # a rename that did not wait would be through by now
        io.is_held = False
        await log.flush()
        assert await retention == 1
        await log.flush()
        assert names_in(tmp_path / "orders-0", "00000000000000000000.*") == [
            f"00000000000000000000.{kind}.deleted" for kind in ("index", "log", "timeindex")
        ]


class StubbornDisk(OsDisk):
    """Renames nothing while it is stubborn."""

    def __init__(self) -> None:
        self.is_stubborn = False

    def rename(self, old: StrPath, new: StrPath, *, durable: bool = True) -> None:
        if self.is_stubborn:
            raise OSError(errno.EIO, "stubborn", str(old))
        super().rename(old, new, durable=durable)


async def test_a_directory_that_cannot_be_renamed_goes_later_and_the_others_at_once(tmp_path: Path):
    disk = StubbornDisk()
    async with opened(tmp_path, disk=disk) as directory:
        await directory.append_all(await directory.log(SMALL), old_batches())
        disk.is_stubborn = True
        await directory.manager.delete_log(ORDERS)
        assert directory.manager.logs() == ()
        assert names_in(tmp_path, "orders-0*") == ["orders-0"]
        assert await directory.manager.apply_retention() == 0
        disk.is_stubborn = False
        assert await directory.manager.apply_retention() == 0
        await directory.pass_time(0)
        assert names_in(tmp_path, "orders-0*") == []


async def test_a_new_log_takes_nothing_from_a_directory_that_could_not_be_renamed(tmp_path: Path):
    disk = StubbornDisk()
    async with opened(tmp_path, disk=disk) as directory:
        await directory.append_all(await directory.log(SMALL), old_batches())
        disk.is_stubborn = True
        await directory.manager.delete_log(ORDERS)
        with pytest.raises(ApiError, match="could not make"):
            await directory.manager.create_log(ORDERS, OTHER_ID, SMALL)
        disk.is_stubborn = False
        log = await directory.manager.create_log(ORDERS, OTHER_ID, SMALL)
        assert (log.log_end_offset, log.size) == (0, 0)
        await directory.append_all(log, [batch()])
        await directory.manager.apply_retention()
        await directory.pass_time(0)
        assert names_in(tmp_path, "orders-0*") == ["orders-0"]
    async with opened(tmp_path) as directory:
        found = directory.manager.log(ORDERS)
        assert found is not None
        assert (found.topic_id, found.log_end_offset) == (OTHER_ID, 1)


async def test_retention_in_its_thread_never_sees_a_segment_before_it_can_be_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    looks: list[int] = []
    async with opened(tmp_path) as directory:
        log = await directory.log(SMALL)

        def made_while_a_thread_looks(segment: LogSegment, *more: Any, **named: Any) -> SegmentAppender:
            log.prepare_expiry()
            looks.append(segment.base_offset)
            return SegmentAppender(segment, *more, **named)

        monkeypatch.setattr("ottla.storage.log.SegmentAppender", made_while_a_thread_looks)
        await directory.append_all(log, old_batches())
    assert looks == [2, 4]
