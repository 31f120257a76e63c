"""A log is moved to another directory while it is written and read: nothing is lost, doubled or forgotten."""

import asyncio
import errno
import os
import shutil
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ottla.model.topic_partition import TopicPartition
from ottla.runtime.disk import OsDisk, StrPath
from ottla.storage import log_copy
from ottla.storage.log import Log
from ottla.storage.log_config import LogConfig
from tests.unit.storage.compaction.test_log_cleaner import (
    COMPACTED,
    CrashError,
    MortalDisk,
    compact,
    damage,
    read,
    write,
)
from tests.unit.storage.data_directory import NOW_MS, ORDERS, TOPIC_ID, OpenDirectory, batch, names_in, opened
from tests.unit.storage.gated_disk import GatedDisk
from tests.unit.storage.test_log_io import file_size_limit
from tests.unit.storage.transactional_log import ABORT, COMMIT, append, committed, data, marker, read_committed

pytestmark = pytest.mark.slow

SMALL = LogConfig(segment_bytes=2_000, index_interval_bytes=200)


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    return [tmp_path / "a", tmp_path / "b"]


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_copy, "COPIED_BYTES", 500)


@pytest.fixture
async def directory(paths: list[Path]) -> AsyncIterator[OpenDirectory]:
    async with opened(paths) as directory:
        yield directory


def move(directory: OpenDirectory, log: Log, target: int = 1) -> None:
    source = directory.manager.directory_of(log.topic_partition)
    assert source is not None
    directory.manager.moves.start(log, source, directory.manager.directories[target])


async def moved(directory: OpenDirectory, log: Log, target: int = 1) -> None:
    """Move a log and wait for the end of it."""
    move(directory, log, target)
    await ended(directory)


async def ended(directory: OpenDirectory) -> None:
    for each in directory.manager.moves.all():
        assert each.task is not None
        await each.task


async def until(condition: Callable[[], bool]) -> None:
    true = asyncio.get_running_loop().create_future()

    def look() -> None:
        if condition():
            true.set_result(None)
        else:
            asyncio.get_running_loop().call_later(0.001, look)

    look()
    await true


async def paused(directory: OpenDirectory, count: int = 1) -> None:
    """So many moves have copied all they may for now."""
    await until(lambda: len(directory.manager.moves._pace._waiting) == count)


def place(log: Log) -> str:
    return Path(log.directory).parent.name


def facts(log: Log) -> dict[str, Any]:
    """All that is known of a log, as far as it does not depend on where it lies."""
    return {
        "range": (log.log_start_offset, log.log_end_offset, log.flushed_end_offset),
        "records": read(log),
        "epochs": [(epoch, log.epoch_end_offset(epoch)) for epoch in range(6)],
        "producers": log.producers.snapshot(),
        "unstable": log.producers.unstable.first_offset,
        "aborted": log.segments.aborted_between(0, 1 << 40),
        "times": [segment.max_timestamp(log._resources.indexes).timestamp for segment in log.segments][-1:],
    }


async def fill(directory: OpenDirectory, log: Log, count: int = 40) -> None:
    for number in range(count):
        records = batch(
            2, value=b"%d" % number * 20, timestamp=NOW_MS + number, producer_id=7, epoch=0, sequence=2 * number
        )
        directory.append(log, records, epoch=number // 10)
    await log.flush()


async def test_a_moved_log_is_the_same_one_elsewhere_and_goes_on_there(directory: OpenDirectory, paths: list[Path]):
    log = await directory.log(SMALL)
    await fill(directory, log)
    log.delete_records_before(5)
    before, changes = facts(log), []
    log.on_range_change = lambda: changes.append(log.log_end_offset)
    told: list[Log] = []
    directory.manager.moves.on_moved = told.append
    await moved(directory, log)
    assert (place(log), told) == ("b", [log])
    assert facts(log) == before
    assert changes == [80]
    assert directory.manager.log(ORDERS) is log
    assert directory.manager.directory_of(ORDERS) is directory.manager.directories[1]
    assert names_in(paths[1]) == [
        ".lock",
        "log-start-offset-checkpoint",
        "orders-0",
        "recovery-point-offset-checkpoint",
    ]
    assert [name.rpartition("-")[2] for name in names_in(paths[0], "orders*")] == ["delete"]
    await directory.pass_time(log.config.file_delete_delay_ms)
    assert names_in(paths[0], "orders*") == []
    again = directory.append(log, batch(2, producer_id=7, epoch=0, sequence=78))
    assert again.duplicate
    await directory.append_all(log, [batch(2, producer_id=7, epoch=0, sequence=80)])
    await moved(directory, log, 0)
    assert (place(log), log.log_end_offset) == ("a", 82)


@pytest.mark.parametrize("clean", [True, False])
async def test_a_moved_log_is_found_again_after_a_restart(paths: list[Path], clean: bool):
    async with opened(paths, clean=clean) as directory:
        log = await directory.log(SMALL)
        await fill(directory, log)
        log.delete_records_before(5)
        before = facts(log)
        await moved(directory, log)
    async with opened(paths) as directory:
        assert not directory.report.cuts
        log = await directory.log(SMALL)
        assert place(log) == "b"
        assert facts(log) == before


async def test_what_is_written_and_read_meanwhile_is_neither_lost_nor_refused(paths: list[Path]):
    disk = GatedDisk()
    async with opened(paths, disk=disk) as directory:
        log = await directory.log(SMALL)
        await fill(directory, log)
        held: list[bytearray] = []
        holding = False

        def hold(held_log: Log) -> Any:
            nonlocal holding
            holding = True
            assert held_log is log

            def release() -> None:
                nonlocal holding
                holding = False
                for records in held:
                    directory.append(log, records)

            return release

        directory.manager.moves.hold_appends = hold
        move(directory, log)
        for _ in range(20):
            directory.append(log, batch(3))
            await asyncio.sleep(0)
        for gate in ("future", "a/orders-0"):
            with disk.held("rename", gate) as stopped:
                await stopped.reached()
                assert holding
                held.append(batch(1))
                assert len(read(log)) == log.log_end_offset - log.log_start_offset
                stopped.release()
        await ended(directory)
        assert place(log) == "b"
        assert not holding
        await log.flush()
        assert log.log_end_offset == 80 + 60 + 2
        assert [offset for offset, _, _ in read(log)] == list(range(142))


async def test_transactions_look_the_same_after_a_move(directory: OpenDirectory):
    log = await directory.log(LogConfig(segment_bytes=400, index_interval_bytes=100))
    for number in range(6):
        for producer in (1, 2):
            append(directory, log, data(producer, b"%d" % number, epoch=0))
        append(directory, log, marker(1, ABORT if number % 2 else COMMIT))
    await committed(log)
    before, visible = facts(log), list(read_committed(log))
    assert before["unstable"] is not None
    assert before["aborted"]
    await moved(directory, log)
    assert facts(log) == before
    append(directory, log, marker(2, COMMIT))
    await committed(log)
    assert log.producers.unstable.first_offset is None
    assert len(list(read_committed(log))) > len(visible)


async def test_producers_whose_records_are_gone_are_known_after_a_move_and_a_restart(paths: list[Path]):
    async with opened(paths) as directory:
        log = await directory.log(replace(SMALL, retention_bytes=1))
        await directory.append_all(log, [batch(1, producer_id=3, epoch=1, sequence=4)])
        await fill(directory, log)
        log.delete_records_before(60)
        await directory.manager.apply_retention()
        before = facts(log)
        assert len(log.producers) == 2
        await moved(directory, log)
        assert facts(log) == before
    async with opened(paths) as directory:
        assert facts(await directory.log(SMALL)) == before


async def test_a_compacted_log_keeps_its_gaps(directory: OpenDirectory):
    log = await directory.log(COMPACTED)
    await write(directory, log)
    await compact(directory)
    before = facts(log)
    await moved(directory, log)
    assert facts(log) == before
    await write(directory, log, versions=5)
    await compact(directory)
    assert {row[1]: row[2] for row in read(log)} == {b"key-%d" % key: b"004-%03d" % key * 10 for key in range(10)}


@pytest.mark.parametrize("start", [0, 80, 79])
async def test_an_empty_log_and_the_rest_of_one_are_moved(directory: OpenDirectory, start: int):
    log = await directory.log(SMALL)
    if start:
        await fill(directory, log)
        log.delete_records_before(start)
    await moved(directory, log)
    assert place(log) == "b"
    assert log.log_start_offset == start
    await directory.append_all(log, [batch(1)])
    assert len(read(log)) == log.log_end_offset - start


async def test_records_that_are_deleted_meanwhile_are_not_copied(directory: OpenDirectory):
    log = await directory.log(replace(SMALL, retention_bytes=1))
    await fill(directory, log)
    await waiting(directory, log)
    log.delete_records_before(61)
    await directory.manager.apply_retention()
    directory.manager.moves.configure(float("inf"))
    await ended(directory)
    assert place(log) == "b"
    assert log.log_start_offset > 60
    assert [offset for offset, _, _ in read(log)] == list(range(log.log_start_offset, 80))


async def waiting(directory: OpenDirectory, log: Log) -> None:
    """Begin a move that has to wait after its first step."""
    directory.manager.moves.configure(1.0)
    move(directory, log)
    await paused(directory)


async def test_a_move_is_no_faster_than_it_may_be(directory: OpenDirectory):
    log = await directory.log(SMALL)
    await fill(directory, log)
    await waiting(directory, log)
    (under_way,) = directory.manager.moves.all()
    copied = under_way.copied_bytes
    assert 0 < copied <= 600
    assert under_way.lag == 80 - len(read(under_way.future or log))
    directory.timer.advance(copied * 1000 - 1)
    await asyncio.sleep(0)
    assert under_way.copied_bytes == copied
    directory.timer.advance(1)
    await until(lambda: under_way.copied_bytes > copied)
    await directory.manager.moves.cancel([ORDERS])


async def test_a_cancelled_move_leaves_nothing(directory: OpenDirectory, paths: list[Path]):
    log = await directory.log(SMALL)
    await fill(directory, log)
    before = facts(log)
    await waiting(directory, log)
    assert len(names_in(paths[1], "orders-0.*-future")) == 1
    await directory.manager.moves.cancel([ORDERS])
    await directory.pass_time(0)
    assert names_in(paths[1], "orders*") == []
    assert (place(log), directory.manager.moves.all()) == ("a", ())
    assert facts(log) == before
    directory.manager.moves.configure(float("inf"))
    await moved(directory, log)
    assert facts(log) == before


async def test_a_log_that_is_deleted_takes_its_copy_with_it(directory: OpenDirectory, paths: list[Path]):
    log = await directory.log(SMALL)
    await fill(directory, log)
    await waiting(directory, log)
    await directory.manager.delete_log(ORDERS)
    await directory.pass_time(SMALL.file_delete_delay_ms)
    assert [*names_in(paths[0], "orders*"), *names_in(paths[1], "orders*")] == []
    assert directory.manager.moves.all() == ()
    again = await directory.log(SMALL)
    assert (again.log_start_offset, again.log_end_offset) == (0, 0)


async def test_a_log_that_is_cut_meanwhile_is_copied_anew(directory: OpenDirectory):
    log = await directory.log(SMALL)
    await fill(directory, log)
    await waiting(directory, log)
    await directory.manager.truncate_log(log, 50)
    await directory.append_all(log, [batch(1) for _ in range(3)], epoch=5)
    before = facts(log)
    directory.manager.moves.configure(float("inf"))
    await ended(directory)
    assert place(log) == "b"
    assert facts(log) == before


async def test_a_damaged_log_is_not_moved(directory: OpenDirectory, caplog: pytest.LogCaptureFixture):
    log = await directory.log(SMALL)
    await fill(directory, log)
    damage(Path(log.segments[2].log_path))
    await moved(directory, log)
    assert place(log) == "a"
    assert "could not move orders-0" in caplog.text
    await directory.append_all(log, [batch(1)])


async def test_a_full_target_leaves_the_log_where_it_is(
    directory: OpenDirectory, paths: list[Path], caplog: pytest.LogCaptureFixture
):
    log = await directory.log(replace(SMALL, segment_bytes=1 << 20))
    await fill(directory, log)
    before = facts(log)
    with file_size_limit(3000):
        await moved(directory, log)
    assert place(log) == "a"
    assert "could not move orders-0" in caplog.text
    assert directory.manager.directories[0].failure is None
    await directory.pass_time(0)
    assert names_in(paths[1], "orders*") == []
    assert facts(log) == before
    await directory.append_all(log, [batch(1)])
    await directory.manager.directories[1].resume()
    await moved(directory, log)
    assert place(log) == "b"


class FailingDisk(OsDisk):
    """A disk on which an operation on a path fails a number of times, before it is done or after."""

    def __init__(self) -> None:
        self._operation = self._path_part = ""
        self._after = False
        self._times = 0

    def fail_at(self, operation: str, path_part: str, *, after: bool = False, times: int = 1) -> None:
        self._operation, self._path_part, self._after, self._times = operation, path_part, after, times

    def _fail(self, operation: str, path: StrPath, *, after: bool) -> None:
        if self._times and (operation, after) == (self._operation, self._after) and self._path_part in str(path):
            self._times -= 1
            raise OSError(errno.EIO, "Input/output error", str(path))

    def rename(self, old: StrPath, new: StrPath, *, durable: bool = True) -> None:
        self._fail("rename", old, after=False)
        super().rename(old, new, durable=durable)
        self._fail("rename", old, after=True)

    def write_atomic(self, path: StrPath, data: bytes) -> None:
        self._fail("write_atomic", path, after=False)
        super().write_atomic(path, data)

    def sync_file(self, path: StrPath) -> None:
        self._fail("sync_file", path, after=False)
        super().sync_file(path)

    def file_sizes(self, path: StrPath) -> dict[str, int]:
        self._fail("file_sizes", path, after=False)
        return super().file_sizes(path)


@pytest.mark.parametrize(
    ("operation", "path_part", "after"),
    [
        ("rename", "-future", False),
        ("rename", "-future", True),
        ("rename", "a/orders-0", False),
        ("rename", "a/orders-0", True),
        ("write_atomic", "leader-epoch", False),
        ("write_atomic", "log-start", False),
        ("sync_file", "b/orders-0", False),
        ("file_sizes", "b/orders-0", False),
    ],
)
async def test_a_swap_that_fails_is_undone(
    paths: list[Path], operation: str, path_part: str, after: bool, caplog: pytest.LogCaptureFixture
):
    disk = FailingDisk()
    async with opened(paths, disk=disk) as directory:
        log = await directory.log(SMALL)
        await fill(directory, log)
        before = facts(log)
        await waiting(directory, log)
        disk.fail_at(operation, path_part, after=after)
        directory.manager.moves.configure(float("inf"))
        await ended(directory)
        assert place(log) == "a"
        assert "could not move orders-0" in caplog.text
        assert facts(log) == before
        await directory.append_all(log, [batch(1)], epoch=5)
        await directory.pass_time(0)
        assert names_in(paths[1], "orders*") == []
        await moved(directory, log)
        assert place(log) == "b"
        assert len(read(log)) == 81
    async with opened(paths) as directory:
        log = await directory.log(SMALL)
        assert (place(log), len(read(log))) == ("b", 81)


@pytest.mark.parametrize("after", [True, False])
async def test_a_log_that_cannot_go_back_goes_on_in_its_new_place(paths: list[Path], after: bool):
    disk = FailingDisk()
    async with opened(paths, disk=disk) as directory:
        log = await directory.log(SMALL)
        await fill(directory, log)
        disk.fail_at("rename", "a/orders-0", after=after, times=2)
        if not after:
            disk.fail_at("rename", "a/orders-0")
            broken, disk.file_sizes = disk.file_sizes, partial(refuse, disk.file_sizes, paths[0])  # type: ignore[method-assign]
        await moved(directory, log)
        assert place(log) == "b"
        await directory.append_all(log, [batch(1)], epoch=5)
        if not after:
            disk.file_sizes = broken  # type: ignore[method-assign]
        await directory.manager.apply_retention()
        await directory.pass_time(SMALL.file_delete_delay_ms)
        assert [name for name in names_in(paths[0], "orders*") if not name.endswith("-delete")] == []
    async with opened(paths) as directory:
        log = await directory.log(SMALL)
        assert (place(log), len(read(log))) == ("b", 81)


def refuse(file_sizes: Callable[[StrPath], dict[str, int]], path: Path, asked: StrPath) -> dict[str, int]:
    """A directory that cannot be read."""
    if str(asked).startswith(str(path)):
        raise OSError(errno.EIO, "Input/output error", str(asked))
    return file_sizes(asked)


async def crash_of_a_move(prepared: list[Path], work: list[Path], moment: int | None) -> int:
    """Move a log with a crash before the change of a number; how many changes there were. The directories as left."""
    for source, copy in zip(prepared, work, strict=True):
        shutil.copytree(source, copy)
    disk = MortalDisk()
    lost = [path.with_name(path.name + "-running") for path in work]
    for path, running in zip(work, lost, strict=True):
        path.rename(running)
    async with opened(lost, disk=disk, clean=False) as directory:
        log = await directory.log(SMALL)
        begun = disk.changes
        disk.dies_at = None if moment is None else begun + moment
        move(directory, log)
        (task,) = [each.task for each in directory.manager.moves.all()]
        assert task is not None
        results = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(results[0], CrashError) == (moment is not None)
        made = disk.changes - begun
        for path, running in zip(work, lost, strict=True):
            shutil.copytree(running, path)
        disk.dies_at = None
    return made


@pytest.mark.slow
async def test_a_crash_at_any_moment_of_a_move_leaves_one_good_log(tmp_path: Path, paths: list[Path]):
    async with opened(paths) as directory:
        log = await directory.log(SMALL)
        await fill(directory, log, 20)
        log.delete_records_before(5)
        before = facts(log)
    count = await crash_of_a_move(paths, [tmp_path / "whole-a", tmp_path / "whole-b"], None)
    assert count > 5
    for moment in range(count):
        work = [tmp_path / f"{moment}-a", tmp_path / f"{moment}-b"]
        await crash_of_a_move(paths, work, moment)
        async with opened(work) as directory:
            assert not directory.report.cuts, moment
            await directory.manager.settle_duplicates(lambda _name: TOPIC_ID, lambda _log: False)
            log = await directory.log(SMALL)
            assert facts(log) == before, moment
            assert len([path for path in work if (path / "orders-0").exists()]) == 1, moment
            directory.manager.resume_moves()
            await ended(directory)
            assert facts(log) == before, moment
            await directory.append_all(log, [batch(1)], epoch=5)
            await directory.pass_time(SMALL.file_delete_delay_ms)
        async with opened(work) as directory:
            log = await directory.log(SMALL)
            assert len(read(log)) == 36, moment
            left = [name for path in work for name in names_in(path, "orders*") if "-stray" not in name]
            assert left == ["orders-0"], moment
        for path in work:
            shutil.rmtree(path)


@pytest.mark.parametrize("target", [0, 1])
async def test_of_two_equal_logs_that_a_crash_left_the_one_that_was_moved_to_stays(paths: list[Path], target: int):
    source = 1 - target
    async with opened(paths) as directory:
        log = await directory.log(SMALL)
        await fill(directory, log)
        before, first = facts(log), place(log)
    made = next(path for path in paths if path.name == first)
    copy = next(path for path in paths if path.name != first)
    shutil.copytree(made / "orders-0", copy / "orders-0")
    for index, begun_s in ((source, 1_000_000_000), (target, 1_000_000_001)):
        os.utime(paths[index] / "orders-0" / "partition.metadata", (begun_s, begun_s))
    async with opened(paths, clean=False) as directory:
        (aside,) = await directory.manager.settle_duplicates(lambda _name: TOPIC_ID, lambda _log: False)
        assert Path(aside).parent == paths[source]
        log = await directory.log(SMALL)
        assert (place(log), facts(log)) == (paths[target].name, before)


async def test_a_move_that_a_stop_cut_short_is_begun_anew(paths: list[Path]):
    async with opened(paths) as directory:
        log = await directory.log(SMALL)
        await fill(directory, log)
        before = facts(log)
        await waiting(directory, log)
    assert len(names_in(paths[1], "orders-0.*-future")) == 1
    async with opened(paths) as directory:
        log = await directory.log(SMALL)
        assert place(log) == "a"
        directory.manager.resume_moves()
        await ended(directory)
        assert place(log) == "b"
        assert facts(log) == before
        await directory.pass_time(0)
        assert names_in(paths[1], "orders*") == ["orders-0"]


async def test_as_many_logs_are_moved_at_a_time_as_there_are_directories(directory: OpenDirectory):
    directory.manager.moves.configure(1.0)
    names = [TopicPartition("orders", index) for index in range(5)]
    places = dict.fromkeys(names, directory.manager.directory_ids[0])
    logs = await directory.manager.create_logs(names, TOPIC_ID, SMALL, places)
    for log in logs:
        await fill(directory, log)
        move(directory, log)
    await paused(directory, 2)
    await until(lambda: all(each.future is not None for each in directory.manager.moves.all()))
    assert len(names_in(Path(directory.manager.directories[1].path), "*-future")) == 5, "a restart knows of all"
    assert sum(each.copied_bytes > 0 for each in directory.manager.moves.all()) == 2
    assert sum(each.lag == 80 for each in directory.manager.moves.all()) == 3
    moves = directory.manager.moves.all()
    waiting_for_their_turn = [each.log.topic_partition for each in moves if not each.copied_bytes]
    await directory.manager.moves.cancel(waiting_for_their_turn[1:])
    assert len(directory.manager.moves.all()) == 3
    directory.manager.moves.configure(float("inf"))
    await ended(directory)
    assert [place(log) for log in logs].count("b") == 3
    assert {place(log) for log in logs if log.topic_partition in waiting_for_their_turn[1:]} == {"a"}
    for log in logs:
        if place(log) == "a":
            move(directory, log)
    await ended(directory)
    assert {place(log) for log in logs} == {"b"}
