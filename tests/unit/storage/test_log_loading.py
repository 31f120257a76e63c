"""What a start reads of the logs: next to nothing, whatever they hold."""

import asyncio
import threading
from pathlib import Path

import pytest

from ottla.model.topic_partition import TopicPartition
from ottla.runtime.disk import StrPath
from ottla.storage import log_catalogue
from ottla.storage.log_config import LogConfig
from ottla.storage.offset_checkpoint import format_checkpoint
from tests.unit.storage.data_directory import ORDERS, batch, copy_as_after_a_kill, files_of, names_in, opened
from tests.unit.storage.watched_disk import SyncedFiles, WatchedDisk

CONFIG = LogConfig(segment_bytes=20_000, index_interval_bytes=300)
BATCHES = 400


async def written(path: Path, *, is_killed: bool = False) -> Path:
    """A directory with a log of several segments, whose indexes have many entries."""
    async with opened(path / "data") as directory:
        log = await directory.log(CONFIG)
        await directory.append_all(log, [batch(1, value=b"x" * 100) for _ in range(BATCHES)])
        assert len(log.segments) > 3
        if is_killed:
            await directory.manager.checkpoint_recovery_points()
            return copy_as_after_a_kill(path / "data")
    return path / "data"


def read_of_closed_segments(path: Path, disk: WatchedDisk, suffix: str) -> list[int]:
    return [disk.bytes_read[file.name] for file in files_of(path / str(ORDERS), suffix)[:-1]]


async def test_a_start_after_a_clean_stop_reads_nothing_of_closed_segments(tmp_path: Path):
    path = await written(tmp_path)
    disk = WatchedDisk()
    async with opened(path, disk=disk) as directory:
        for suffix in (".log", ".index", ".timeindex"):
            assert set(read_of_closed_segments(path, disk, suffix)) == {0}
        assert (await directory.log(CONFIG)).log_end_offset == BATCHES


async def test_a_start_after_a_kill_reads_below_the_recovery_point_only_the_ends_of_indexes(tmp_path: Path):
    path = await written(tmp_path, is_killed=True)
    disk = WatchedDisk()
    async with opened(path, disk=disk) as directory:
        assert set(read_of_closed_segments(path, disk, ".log")) == {0}
        assert set(read_of_closed_segments(path, disk, ".index")) == {2 * 8}
        assert max(read_of_closed_segments(path, disk, ".timeindex")) <= 2 * 12
        assert (await directory.log(CONFIG)).log_end_offset == BATCHES


async def test_a_start_after_a_kill_checks_what_lies_beyond_the_recovery_point(tmp_path: Path):
    path = await written(tmp_path, is_killed=True)
    first, second, *_ = files_of(path / str(ORDERS), ".log")
    (path / "recovery-point-offset-checkpoint").write_bytes(format_checkpoint([(*ORDERS, 0)]))
    disk = WatchedDisk()
    async with opened(path, disk=disk):
        assert disk.bytes_read[first.name] >= first.stat().st_size
        assert disk.bytes_read[second.name] >= second.stat().st_size


async def test_a_start_after_a_kill_reads_what_is_in_one_segment_once(tmp_path: Path):
    """Batches, producers and indexes alike: ten thousand such logs are what a start waits for."""
    async with opened(tmp_path / "data") as directory:
        log = await directory.log()
        await directory.append_all(log, [batch(2, producer_id=7, epoch=0, sequence=2 * each) for each in range(9)])
        path = copy_as_after_a_kill(tmp_path / "data")
    disk = WatchedDisk()
    async with opened(path, disk=disk) as directory:
        [file] = files_of(path / str(ORDERS), ".log")
        assert disk.bytes_read[file.name] == file.stat().st_size
        log = await directory.log()
        assert log.log_end_offset == 18
        [producer] = log.producers
        assert (producer.producer_id, producer.last_sequence) == (7, 17)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
async def test_a_newest_segment_without_an_index_can_be_loaded(tmp_path: Path, suffix: str):
    path = await written(tmp_path)
    directory_of_log = path / str(ORDERS)
    files_of(directory_of_log, suffix)[-1].unlink()
    for snapshot in files_of(directory_of_log, ".snapshot"):
        snapshot.unlink()
    async with opened(path) as directory:
        log = await directory.log(CONFIG)
        assert log.log_end_offset == BATCHES
        assert log.read(BATCHES - 1, 1, max_offset=BATCHES).total_bytes > 0


@pytest.mark.parametrize(("left", "is_said"), [(b"", False), (b"\x00\x01torn", True)])
async def test_a_snapshot_that_a_kill_left_empty_is_removed_in_silence_and_a_broken_one_with_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, left: bytes, *, is_said: bool
):
    path = await written(tmp_path, is_killed=True)
    snapshot = path / str(ORDERS) / f"{BATCHES:020}.snapshot"
    snapshot.write_bytes(left)
    async with opened(path) as directory:
        await directory.log(CONFIG)
        assert ("ignoring " in caplog.text) == is_said


async def test_what_a_deletion_that_was_cut_short_left_of_a_segment_goes_at_the_next_start(tmp_path: Path):
    path = await written(tmp_path, is_killed=True)
    segments = files_of(path / "orders-0", ".log")
    await asyncio.to_thread(segments[0].rename, f"{segments[0]}.deleted")
    async with opened(path) as directory:
        log = await directory.log()
        assert log.log_start_offset == int(segments[1].stem)
        assert names_in(path / "orders-0", f"{segments[0].stem}.*") == []
        assert len(names_in(path / "orders-0", f"{segments[1].stem}.*index")) == 2


async def test_indexes_made_again_are_durable_before_the_directory_counts_as_clean(tmp_path: Path):
    path = await written(tmp_path, is_killed=True)
    for suffix in (".index", ".timeindex"):
        files_of(path / str(ORDERS), suffix)[-1].unlink()
    newest = files_of(path / str(ORDERS), ".log")[-1]
    disk = SyncedFiles()
    async with opened(path, disk=disk):
        begun_with = len(disk.synced)
    closing = disk.synced[begun_with:]
    marker = closing.index(path / ".kafka_cleanshutdown")
    assert {newest.with_suffix(".index"), newest.with_suffix(".timeindex")} <= set(closing[:marker])


LARGE_LOGS = [TopicPartition("large", number) for number in range(2)]
SMALL_LOGS = [TopicPartition("small", number) for number in range(40)]


class LoadingThreads(WatchedDisk):
    """Remembers which thread listed which directory; those that read a large log wait for each other once."""

    def __init__(self, large: int) -> None:
        super().__init__()
        self.by_directory: dict[str, int] = {}
        self._meeting = threading.Barrier(large, timeout=60)
        self._met: set[str] = set()

    def read_bytes(self, path: StrPath) -> bytes:
        name = Path(path).parent.name
        self.by_directory[name] = threading.get_ident()
        if name.startswith("large") and name not in self._met:
            self._met.add(name)
            self._meeting.wait()  # breaks after its time-out when they are read one after the other
        return super().read_bytes(path)


async def many_logs(path: Path) -> Path:
    """A directory as it is when its broker is killed before a checkpoint."""
    async with opened(path / "data") as directory:
        for name in (*SMALL_LOGS, *LARGE_LOGS):
            log = await directory.log(CONFIG if name in SMALL_LOGS else LogConfig(), name)
            value = b"x" * (100 if name in SMALL_LOGS else log_catalogue.LARGE_TO_CHECK_BYTES // 2)
            await directory.append_all(log, [batch(1, value=value) for _ in range(2)])
        return copy_as_after_a_kill(path / "data")


async def test_logs_with_much_to_check_are_read_side_by_side_and_others_one_after_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(log_catalogue, "processor_count", lambda: len(LARGE_LOGS))
    path = await many_logs(tmp_path)
    disk = LoadingThreads(len(LARGE_LOGS))
    async with opened(path, disk=disk) as directory:
        assert {disk.by_directory[str(name)] for name in SMALL_LOGS} == {threading.get_ident()}
        assert len({disk.by_directory[str(name)] for name in LARGE_LOGS}) == len(LARGE_LOGS)
        assert {directory.manager.log(name).log_end_offset for name in (*LARGE_LOGS, *SMALL_LOGS)} == {2}


async def test_after_a_clean_stop_all_logs_are_loaded_by_the_thread_that_asks(tmp_path: Path):
    await many_logs(tmp_path)
    disk = LoadingThreads(1)
    async with opened(tmp_path / "data", disk=disk):
        assert set(disk.by_directory.values()) == {threading.get_ident()}
        assert {str(name) for name in (*LARGE_LOGS, *SMALL_LOGS)} <= set(disk.by_directory)
