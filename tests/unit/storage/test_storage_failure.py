"""A disk that fails: the directory goes offline at once, for good, and says so once."""

import errno
from pathlib import Path

import pytest

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_partition import TopicPartition
from ottla.runtime.disk import OsDisk, StrPath
from ottla.storage.log_resumption import WRITE_PROBE, WRITE_PROBE_BYTES
from ottla.storage.log_writer import LogWriter
from ottla.storage.pending_append import Signal
from tests.unit.network.peers import until
from tests.unit.storage.data_directory import batch, batches_in, bytes_of, opened
from tests.unit.storage.held_log_io import HeldLogIo
from tests.unit.storage.test_log_io import file_size_limit


async def test_a_failed_write_takes_the_directory_offline_but_reads_go_on(tmp_path: Path):
    failures: list[OSError] = []
    async with opened(tmp_path) as directory:
        directory.manager.directories[0].on_failure = failures.append
        log, other = await directory.log(), await directory.log(topic_partition=TopicPartition("other", 0))
        await directory.append_all(log, [batch(2)])
        directory.stages.clear()
        with file_size_limit(1000):
            directory.append(log, batch(1, value=b"x" * 2000))
            directory.append(log, batch(1))
            with pytest.raises(ApiError) as raised:
                await log.flush()
        assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert directory.stages == [(1, errno.EFBIG)] * 2 + [(2, errno.EFBIG)] * 2
        assert (log.written_end_offset, log.flushed_end_offset) == (2, 2)
        for refused in (log, other):
            with pytest.raises(ApiError) as raised:
                directory.append(refused, batch())
            assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
            assert "offline" in raised.value.message
        with pytest.raises(ApiError):
            await directory.log(topic_partition=TopicPartition("third", 0))
        assert len(bytes_of(log.read(0, 1000, max_offset=10))) == len(batch(2))
        assert directory.manager.failure is failures[0]
    assert len(failures) == 1
    assert failures[0].errno == errno.EFBIG
    assert "write failed" in str(failures[0])
    assert "orders-0/00000000000000000000.log" in str(failures[0])


async def test_an_offline_directory_is_not_marked_clean_and_recovers_what_was_acknowledged(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        await directory.append_all(log, [batch(3)])
        with file_size_limit(500):
            directory.append(log, batch(1, value=b"x" * 2000))
            with pytest.raises(ApiError):
                await log.flush()
    async with opened(tmp_path) as directory:
        assert not directory.report.was_clean
        log = await directory.log()
        assert log.log_end_offset == 3
        assert len(directory.report.cuts) == 1
        await directory.append_all(log, [batch(1)])


async def test_what_can_pass_passes_and_everything_that_was_flushed_is_there(tmp_path: Path):
    small = TopicPartition("small", 0)
    async with opened(tmp_path) as directory:
        log, other = await directory.log(), await directory.log(topic_partition=small)
        await directory.append_all(log, [batch(2, producer_id=7, epoch=0, sequence=0)])
        await directory.append_all(other, [batch(1)])
        lost = batch(1, value=b"x" * 2000, producer_id=7, epoch=0, sequence=2)
        with file_size_limit(1000):
            directory.append(log, bytearray(lost))
            with pytest.raises(ApiError):
                await log.flush()
            assert directory.manager.directories[0].failure_can_pass
            with pytest.raises(OSError, match="too large"):
                await directory.manager.directories[0].resume()
            assert directory.manager.failure is not None
            assert len(bytes_of(log.read(0, 1000, max_offset=10))) == len(batch(2))
        await directory.manager.directories[0].resume()
        assert directory.manager.failure is None
        assert (log.log_end_offset, log.flushed_end_offset) == (2, 2)
        assert directory.append(log, bytearray(lost)).first_offset == 2
        assert directory.append(other, batch(1)).first_offset == 1
        await log.flush()
        await other.flush()
        duplicate = directory.append(log, bytearray(lost))
        assert (duplicate.duplicate, duplicate.first_offset) == (True, 2)
    async with opened(tmp_path) as directory:
        assert directory.report.was_clean
        assert (await directory.log()).log_end_offset == 3
        assert (await directory.log(topic_partition=small)).log_end_offset == 2


async def test_what_was_written_whole_before_the_failure_is_kept_and_reported_once_resumed(tmp_path: Path):
    reported: list[int] = []
    async with opened(tmp_path) as directory:
        log = await directory.log()
        log.on_progress = lambda progressed: reported.append(progressed.flushed_end_offset)
        with file_size_limit(1000):
            directory.append(log, batch(1))
            directory.append(log, batch(1, value=b"x" * 2000))
            with pytest.raises(ApiError):
                await log.flush()
        assert log.flushed_end_offset == 0
        await directory.manager.directories[0].resume()
        await until(lambda: reported[-1:] == [1])  # who follows the log hears of it, though nothing else is written
        directory.append(log, batch(1))
        await log.flush()
        kept = log.read(0, 10_000, max_offset=10)
        found = batches_in(bytes_of(kept))
        assert [first for _, first, _ in found] == list(range(len(found)))
        assert log.log_end_offset == len(found) == reported[-1]


async def test_a_directory_stays_offline_while_the_file_that_failed_may_not_grow(tmp_path: Path):
    """There is room for another file below the limit: it was taken for room, and the next write failed again."""
    limit = 3 * WRITE_PROBE_BYTES // 2
    async with opened(tmp_path) as directory:
        log = await directory.log()
        await directory.append_all(log, [batch(1, value=b"x" * WRITE_PROBE_BYTES)])
        only = directory.manager.directories[0]
        with file_size_limit(limit):
            directory.append(log, batch(1, value=b"x" * WRITE_PROBE_BYTES))
            with pytest.raises(ApiError):
                await log.flush()
            for _ in range(2):
                with pytest.raises(OSError, match="too large"):
                    await only.resume()
            assert not (tmp_path / WRITE_PROBE).exists()
        await only.resume()
        assert directory.append(log, batch(1)).first_offset == 1
        await log.flush()


class FailedIo(HeldLogIo):
    """A log I/O thread that failed."""

    def __init__(self, operation: str, number: int) -> None:
        super().__init__()
        self._failure = (operation, "/data/orders-0/0.log", number)
        self._number = number

    def completions(self) -> list[tuple[object | None, int, int]]:
        return [(None, 0, self._number)]


@pytest.mark.parametrize(
    ("operation", "number", "can_pass"),
    [
        ("write", errno.ENOSPC, True),
        ("write", errno.EROFS, True),
        ("open", errno.ENOSPC, True),
        ("open", errno.EMFILE, True),
        ("write", errno.EIO, False),
        ("sync", errno.EIO, False),
        ("sync", errno.ENOSPC, False),
        ("sync directory", errno.EROFS, False),
        ("write back", errno.ENOSPC, False),
        ("panic", errno.EIO, False),
    ],
)
def test_only_what_left_the_files_as_they_were_can_pass(operation: str, number: int, can_pass: bool):
    failures: list[OSError] = []
    writer = LogWriter(FailedIo(operation, number), failures.append)
    writer.poll()
    assert writer.failure is failures[0]
    assert failures[0].errno == number
    assert writer.failure_can_pass is can_pass


def test_a_failure_while_a_directory_is_resumed_is_not_forgotten():
    failures: list[OSError] = []

    class Io(FailedIo):
        def resume(self, token: object | None = None) -> None:
            del token

    writer = LogWriter(Io("write", errno.ENOSPC), failures.append)
    writer.poll()
    writer.resume(Signal(lambda errno: None))
    writer.poll()
    writer.resumed()
    assert writer.failure is failures[1]
    writer.resume(Signal(lambda errno: None))
    writer.resumed()
    assert writer.failure is None


class ForgetfulDisk(OsDisk):
    """A disk that took less than the page cache says: what a failed sync lost goes when the cache does."""

    def __init__(self, on_disk_bytes: int) -> None:
        self.on_disk_bytes = on_disk_bytes

    def drop_cache(self, path: StrPath) -> None:
        super().drop_cache(path)
        if self.size(path) > self.on_disk_bytes:
            self.truncate(path, self.on_disk_bytes)


async def test_after_a_failed_sync_the_next_broker_believes_the_disk_and_not_the_page_cache(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        await directory.append_all(log, [batch(2)])
        durable_bytes = log.size
        directory.append(log, batch(3))
        await log.flush()
        writer = directory.manager.directories[0].writer
        sound, writer._io = writer._io, FailedIo("sync", errno.EIO)
        writer.poll()
        writer._io = sound
        await directory.pass_time(0)
    async with opened(tmp_path, disk=ForgetfulDisk(durable_bytes)) as directory:
        assert (await directory.log()).log_end_offset == 2
    async with opened(tmp_path, clean=False) as directory:
        await directory.append_all(await directory.log(), [batch(1)])
    async with opened(tmp_path, disk=ForgetfulDisk(durable_bytes)) as directory:
        assert (await directory.log()).log_end_offset == 3
