"""One broker over several data directories: where logs lie, whose they are, and what becomes of one that fails."""

import asyncio
import contextlib
import errno
import shutil
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_partition import TopicPartition
from ottla.runtime.disk import OsDisk, StrPath
from ottla.storage.log import Log
from ottla.storage.log_config import LogConfig
from ottla.storage.log_directory import DirectoryError
from tests.unit.storage.data_directory import TOPIC_ID, OpenDirectory, batch, bytes_of, names_in, opened
from tests.unit.storage.test_log_io import file_size_limit

MARKER = ".kafka_cleanshutdown"


class UnreadableDisk(OsDisk):
    """A disk of which one directory answers every list of names with an error."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_broken = True

    def list_dir(self, path: StrPath) -> list[str]:
        if self.is_broken and Path(path) == self.path:
            raise OSError(errno.EIO, "Input/output error", str(path))
        return super().list_dir(path)


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    return [tmp_path / name for name in ("a", "b", "c")]


@contextlib.asynccontextmanager
async def opened_all(paths: list[Path], **options: Any) -> AsyncIterator[OpenDirectory]:
    """All of `paths`, of one broker."""
    async with opened(paths, **options) as directory:
        assert await directory.manager.identify("cluster", 1) in (True, False)
        yield directory


async def logs_of(directory: OpenDirectory, count: int, topic: str = "orders") -> list[Log]:
    names = [TopicPartition(topic, index) for index in range(count)]
    return await directory.manager.create_logs(names, TOPIC_ID, LogConfig())


def next_progress(log: Log) -> asyncio.Event:
    """Set when the disk has more of the log, written here or by the directory's thread."""
    progress = asyncio.Event()
    log.on_progress = lambda _: progress.set()
    return progress


def parents(logs: list[Log]) -> Counter[str]:
    return Counter(Path(log.directory).parent.name for log in logs)


async def test_new_logs_go_where_the_fewest_are(paths: list[Path]):
    async with opened_all(paths) as directory:
        assert parents(await logs_of(directory, 7)) == {"a": 3, "b": 2, "c": 2}
        await directory.manager.delete_logs([TopicPartition("orders", index) for index in (0, 3, 6)])
        assert parents(await logs_of(directory, 3, "users")) == {"a": 3}
        assert parents(await logs_of(directory, 3, "more")) == {"a": 1, "b": 1, "c": 1}


async def test_each_directory_is_whole_by_itself_and_its_logs_are_found_again(paths: list[Path]):
    async with opened_all(paths) as directory:
        logs = await logs_of(directory, 6)
        for number, log in enumerate(logs):
            await directory.append_all(log, [batch(number + 1)])
        before = {log.topic_partition: (log.directory, log.log_end_offset) for log in logs}
    for path in paths:
        assert {MARKER, ".lock", "meta.properties", "recovery-point-offset-checkpoint"} <= set(names_in(path))
        assert (path / "recovery-point-offset-checkpoint").read_text().startswith("0\n2\n")
    properties = [dict(line.split("=") for line in (path / "meta.properties").read_text().split()) for path in paths]
    assert {(each["cluster.id"], each["node.id"]) for each in properties} == {("cluster", "1")}
    assert len({each["directory.id"] for each in properties}) == 3
    async with opened_all(paths) as directory:
        assert directory.report.was_clean
        assert not any((path / MARKER).exists() for path in paths)
        logs = await logs_of(directory, 6)
        assert {log.topic_partition: (log.directory, log.log_end_offset) for log in logs} == before


async def test_one_directory_that_was_not_closed_cleanly_is_checked_and_the_others_are_not(paths: list[Path]):
    async with opened_all(paths) as directory:
        for log in await logs_of(directory, 3):
            await directory.append_all(log, [batch(3)])
    (paths[1] / MARKER).unlink()
    (paths[1] / "recovery-point-offset-checkpoint").unlink()
    async with opened_all(paths) as directory:
        assert not directory.report.was_clean
        size = (paths[1] / "orders-1" / "00000000000000000000.log").stat().st_size
        assert directory.report.scanned_bytes == size


async def test_a_log_is_made_in_the_directory_that_is_named(paths: list[Path]):
    async with opened_all(paths) as directory:
        places = dict.fromkeys(
            (TopicPartition("orders", index) for index in range(4)), directory.manager.directory_ids[2]
        )
        logs = await directory.manager.create_logs(list(places), TOPIC_ID, LogConfig(), places)
        assert parents(logs) == {"c": 4}


@pytest.mark.parametrize("line", ["node.id=2", "cluster.id=other"])
async def test_directories_of_different_owners_are_refused(paths: list[Path], line: str):
    async with opened_all(paths):
        pass
    properties = paths[1] / "meta.properties"
    key = line.split("=")[0]
    properties.write_text(
        "\n".join(line if each.startswith(key) else each for each in properties.read_text().splitlines()) + "\n"
    )
    with pytest.raises(DirectoryError, match=f"{paths[1]} belongs to"):
        async with opened_all(paths):
            pass


async def test_a_copy_of_a_directory_beside_it_is_refused(paths: list[Path]):
    async with opened_all(paths[:1]):
        pass
    shutil.copytree(paths[0], paths[1])
    with pytest.raises(DirectoryError, match=r"same directory\.id"):
        async with opened_all(paths):
            pass


async def test_a_directory_that_cannot_be_read_is_left_out_and_loaded_when_it_can(paths: list[Path]):
    async with opened_all(paths) as directory:
        for log in await logs_of(directory, 3):
            await directory.append_all(log, [batch(3)])
    disk = UnreadableDisk(paths[1])
    async with opened_all(paths, disk=disk) as directory:
        (line,) = directory.report.left_out
        assert str(paths[1]) in line
        assert "Input/output error" in line
        manager, late = directory.manager, directory.manager.directories[1]
        assert manager.log(TopicPartition("orders", 1)) is None
        assert late.directory_id is None
        assert len(manager.directory_ids) == 2
        assert parents(await logs_of(directory, 4, "users")) == {"a": 2, "c": 2}
        with pytest.raises(OSError, match="Input/output error"):
            await late.resume()
        assert late.failure_can_pass
        disk.is_broken = False
        await late.resume()
        assert late.failure is None
        found = manager.log(TopicPartition("orders", 1))
        assert found is not None
        assert found.log_end_offset == 3
        await directory.append_all(found, [batch(2)])
    async with opened_all(paths) as directory:
        assert directory.report.was_clean
        assert not directory.report.left_out
        found = directory.manager.log(TopicPartition("orders", 1))
        assert found is not None
        assert found.log_end_offset == 5


async def test_without_the_first_directory_there_is_no_start(paths: list[Path]):
    with pytest.raises(OSError, match="Input/output error"):
        async with opened_all(paths, disk=UnreadableDisk(paths[0])):
            pass


async def test_a_directory_that_fails_leaves_the_others_serving(paths: list[Path]):
    async with opened_all(paths) as directory:
        manager = directory.manager
        failed: list[str] = []
        for each in manager.directories:
            each.on_failure = lambda error, path=each.path: failed.append(path)
        logs = await logs_of(directory, 3)
        for log in logs:
            await directory.append_all(log, [batch(1)])
        with file_size_limit(1000):
            directory.append(logs[1], batch(1, value=b"x" * 2000))
            with pytest.raises(ApiError):
                await logs[1].flush()
        assert failed == [str(paths[1])]
        for log in (logs[0], logs[2]):
            await directory.append_all(log, [batch(1)])
        with pytest.raises(ApiError) as refused:
            directory.append(logs[1], batch(1))
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert bytes_of(logs[1].read(0, 1 << 20, max_offset=1 << 60))
        manager.require_online()
        assert parents(await logs_of(directory, 4, "users")) == {"a": 2, "c": 2}
        await manager.directories[1].resume()
        await directory.append_all(logs[1], [batch(1)])
        assert parents(await logs_of(directory, 3, "more")) == {"b": 2, "a": 1}


async def test_a_cork_holds_back_what_goes_to_any_directory(paths: list[Path]):
    async with opened_all(paths) as directory:
        logs = await logs_of(directory, 3)
        for log in logs:
            await directory.append_all(log, [batch(1)])
        directory.manager.cork.cork()
        for log in logs:
            directory.append(log, batch(1), sync=False)
        await asyncio.sleep(0)
        assert [log.written_end_offset for log in logs] == [1, 1, 1]
        progress = [next_progress(log) for log in logs]
        directory.manager.cork.uncork()
        async with asyncio.timeout(60):
            for each in progress:
                await each.wait()
        assert [log.written_end_offset for log in logs] == [2, 2, 2]


async def test_it_is_worth_a_try_to_write_at_once_while_one_of_the_directories_says_so(paths: list[Path]):
    async with opened(paths) as directory:
        writers = [each.writer for each in directory.manager.directories]
        said = []
        for writer in writers:
            said.append(directory.manager.writes_here())
            assert not writer.write_here(0, 0, b"no such file")
        assert said == [True] * len(writers)
        assert not directory.manager.writes_here()


async def test_the_cleaner_compacts_the_logs_of_all_directories(paths: list[Path]):
    compacted = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=200, min_cleanable_dirty_ratio=0.01)
    async with opened_all(paths) as directory:
        names = [TopicPartition("orders", index) for index in range(3)]
        for log in await directory.manager.create_logs(names, TOPIC_ID, compacted):
            await directory.append_all(log, [batch(1) for _ in range(20)])
        for _ in names:
            assert await directory.manager.cleaner.run_once() is not None
        assert await directory.manager.cleaner.run_once() is None
    for index, path in enumerate(paths):
        assert (path / "cleaner-offset-checkpoint").read_text().startswith(f"0\n1\norders {index} ")
