"""A directory that is full comes back when there is room, and everybody is told; one that failed for good does not."""

import errno
import logging
from pathlib import Path

import pytest

from ottla.model.errors import ApiError
from ottla.server.disk_watch import RETRY_MS, DiskWatch
from tests.unit.storage.data_directory import OpenDirectory, batch, opened
from tests.unit.storage.test_log_io import file_size_limit
from tests.unit.storage.test_several_directories import UnreadableDisk
from tests.unit.storage.test_storage_failure import FailedIo


def watch_over(directory: OpenDirectory, resumed: list[bool]) -> list[str]:
    """Have a watch bring `directory` back; what it says to those who are affected."""
    said: list[str] = []

    async def on_resumed() -> None:
        resumed.append(directory.manager.failure is None)

    watch = DiskWatch(directory.manager.directories[0], directory.clock, directory.timer, directory.tasks, on_resumed)
    directory.manager.directories[0].on_failure = lambda error: said.append(watch.failed(error))
    return said


async def test_a_directory_comes_back_when_there_is_room_again(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.WARNING)
    resumed: list[bool] = []
    async with opened(tmp_path) as directory:
        said = watch_over(directory, resumed)
        log = await directory.log()
        with file_size_limit(1000):
            directory.append(log, batch(1, value=b"x" * 2000))
            with pytest.raises(ApiError):
                await log.flush()
            for _ in range(3):
                await directory.pass_time(RETRY_MS)
            assert resumed == []
        assert directory.manager.failure is not None
        await directory.pass_time(RETRY_MS)
        assert resumed == [True]
        await directory.append_all(log, [batch(1)])
        await directory.pass_time(10 * RETRY_MS)
        assert resumed == [True]
    assert len(said) == 1
    assert "is read-only" in said[0]
    lines = [record.getMessage() for record in caplog.records if record.name == "ottla.server.disk_watch"]
    assert lines == [said[0], "the data directory is writable again, after 4.0 s"]


async def test_a_failure_for_good_is_said_once_and_not_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    resumed: list[bool] = []
    async with opened(tmp_path) as directory:
        said = watch_over(directory, resumed)
        writer = directory.manager.directories[0].writer
        sound, writer._io = writer._io, FailedIo("sync", errno.EIO)
        writer.poll()
        writer._io = sound
        await directory.pass_time(10 * RETRY_MS)
        assert directory.manager.failure is not None
    assert resumed == []
    (message,) = said
    assert "is offline" in message
    assert [record.getMessage() for record in caplog.records] == [message]


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (errno.ENOSPC, "until there is space"),
        (errno.EROFS, "until the file system is mounted read-write again"),
        (errno.EMFILE, "until fewer files are open"),
    ],
)
async def test_a_failure_that_can_pass_says_what_writes_wait_for(tmp_path: Path, error: int, remedy: str):
    async with opened(tmp_path) as directory:
        said = watch_over(directory, [])
        writer = directory.manager.directories[0].writer
        writer.fail("open", OSError(error, "no"))
    (message,) = said
    assert remedy in message


async def test_why_a_directory_does_not_come_back_is_said_once_for_each_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    good, bad = tmp_path / "good", tmp_path / "bad"
    disk = UnreadableDisk(bad)
    async with opened([good, bad], disk=disk) as directory:
        await directory.manager.identify("cluster", 1)
        left_out = directory.manager.directories[1]
        resumed: list[bool] = []

        async def on_resumed() -> None:
            resumed.append(True)

        watch = DiskWatch(left_out, directory.clock, directory.timer, directory.tasks, on_resumed, name=f"{bad}")
        watch.start()
        for _ in range(3):
            await directory.pass_time(RETRY_MS)
        assert caplog.messages == []  # the start named that reason
        (bad / "meta.properties").write_text("version=1\ncluster.id=another\nnode.id=7\n")
        for _ in range(3):
            await directory.pass_time(RETRY_MS)
        (line,) = caplog.messages
        assert "is still offline" in line
        assert "belongs to node 7 of cluster another" in line
        assert "belongs to node 7 of cluster another" in str(left_out.failure)
        (bad / "meta.properties").unlink()
        disk.is_broken = False
        await directory.pass_time(RETRY_MS)
    assert resumed == [True]
