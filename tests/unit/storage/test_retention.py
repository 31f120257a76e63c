"""Which segments go, and what happens to their files."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.runtime.disk import OsDisk, StrPath
from ottla.runtime.rng import SeededRng
from ottla.storage.log import Log
from ottla.storage.log_config import LogConfig
from ottla.storage.retention import SegmentFacts, count_expired
from tests.unit.storage.data_directory import NOW_MS, OpenDirectory, batch, bytes_of, files_of, names_in, opened

DAY = 86_400_000
FOREVER = {"retention_ms": -1, "retention_bytes": -1}


def facts(*segments: tuple[int, int, int]) -> list[SegmentFacts]:
    return [SegmentFacts(*segment) for segment in segments]


def test_segments_older_than_retention_ms_go_and_the_first_younger_one_keeps_the_rest():
    config = LogConfig(retention_ms=100)
    segments = facts((10, 5, 850), (10, 9, 899), (10, 15, 900), (10, 20, 0))
    assert count_expired(segments, 0, 1000, config) == 2


def test_segments_go_while_more_than_retention_bytes_would_stay():
    segments = facts((30, 5, 0), (30, 9, 0), (30, 15, 0), (30, 20, 0))
    counts = [
        count_expired(segments, 0, 0, LogConfig(retention_ms=-1, retention_bytes=limit))
        for limit in (-1, 0, 30, 59, 60, 61, 120)
    ]
    assert counts == [0, 4, 3, 2, 2, 1, 0]


def test_segments_wholly_before_the_log_start_go_whatever_the_policy():
    segments = facts((30, 5, 0), (30, 9, 0), (30, 15, 0))
    config = LogConfig(cleanup_policy=frozenset({"compact"}), retention_ms=1, retention_bytes=1)
    assert [count_expired(segments, start, 10**9, config) for start in (0, 4, 5, 8, 9, 14)] == [0, 0, 1, 1, 2, 2]


def test_segments_whose_time_is_not_known_have_no_age():
    assert count_expired(facts((10, 5, -1)), 0, NOW_MS, LogConfig(retention_ms=0)) == 0


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(-1, 100)), max_size=8),
    st.integers(-1, 150),
    st.integers(-1, 100),
    st.integers(0, 40),
)
def test_what_goes_is_what_a_naive_loop_would_delete(
    shapes: list[tuple[int, int]], retention_bytes: int, retention_ms: int, log_start: int
):
    segments = [SegmentFacts(size, (index + 1) * 5, time) for index, (size, time) in enumerate(shapes)]
    left = list(segments)
    while left:
        oldest = left[0]
        rest = sum(segment.size for segment in left[1:])
        old = retention_ms >= 0 and oldest.largest_timestamp >= 0 and 100 - oldest.largest_timestamp > retention_ms
        much = retention_bytes >= 0 and rest >= retention_bytes
        if not (old or much or oldest.end_offset <= log_start):
            break
        left.pop(0)
    config = LogConfig(retention_ms=retention_ms, retention_bytes=retention_bytes)
    assert count_expired(segments, log_start, 100, config) == len(segments) - len(left)


async def test_expired_segments_are_renamed_then_removed_and_the_log_start_moves(tmp_path: Path):
    config = LogConfig(segment_bytes=500, retention_ms=DAY, file_delete_delay_ms=60_000)
    async with opened(tmp_path) as directory:
        log = await directory.log(config)
        times = [NOW_MS - 2 * DAY] * 3 + [NOW_MS] * 2
        await directory.append_all(log, [batch(2, value=b"x" * 200, timestamp=time) for time in times])
        old_slice = log.read(0, 100, max_offset=10)
        expected = bytes_of(old_slice)
        assert await directory.manager.apply_retention() == 3
        assert log.log_start_offset == 6
        assert [int(file.stem) for file in files_of(tmp_path / "orders-0", ".log")] == [6, 8]
        deleted = names_in(tmp_path / "orders-0", "*.deleted")
        assert "00000000000000000002.snapshot.deleted" in deleted
        assert len(deleted) == 3 * 3 + 2
        await directory.pass_time(59_999)
        assert names_in(tmp_path / "orders-0", "*.deleted") == deleted
        await directory.pass_time(1)
        assert names_in(tmp_path / "orders-0", "*.deleted") == []
        assert bytes_of(old_slice) == expected
    async with opened(tmp_path) as directory:
        log = await directory.log(config)
        assert (log.log_start_offset, log.log_end_offset) == (6, 10)


class StubbornDisk(OsDisk):
    """Does not remove time indexes."""

    def remove(self, path: StrPath) -> None:
        if ".timeindex" in str(path):
            raise OSError(errno.EIO, "Input/output error", str(path))
        super().remove(path)


async def test_a_file_that_cannot_be_removed_keeps_no_other_and_goes_at_the_next_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    config = LogConfig(segment_bytes=500, retention_ms=DAY, file_delete_delay_ms=60_000)
    async with opened(tmp_path, disk=StubbornDisk()) as directory:
        log = await directory.log(config)
        times = [NOW_MS - 2 * DAY] * 3 + [NOW_MS] * 2
        await directory.append_all(log, [batch(2, value=b"x" * 200, timestamp=time) for time in times])
        await directory.manager.apply_retention()
        await directory.pass_time(60_000)
        left = names_in(tmp_path / "orders-0", "*.deleted")
        assert left
        assert all(".timeindex" in name for name in left), left
        assert [record.levelname for record in caplog.records if "could not delete" in record.message] == [
            "WARNING" for _ in left
        ]
    async with opened(tmp_path):
        assert names_in(tmp_path / "orders-0", "*.deleted") == []


async def test_a_log_whose_every_record_is_too_old_goes_on_at_its_end(tmp_path: Path):
    config = LogConfig(retention_ms=DAY)
    async with opened(tmp_path) as directory:
        log = await directory.log(config)
        await directory.append_all(log, [batch(5, timestamp=NOW_MS - 2 * DAY)])
        assert await directory.manager.apply_retention() == 1
        assert (log.log_start_offset, log.log_end_offset, log.size) == (5, 5, 0)
        assert await directory.manager.apply_retention() == 0
        assert names_in(tmp_path / "orders-0", "*.log") == ["00000000000000000005.log"]
    async with opened(tmp_path) as directory:
        log = await directory.log(config)
        assert (log.log_start_offset, log.log_end_offset) == (5, 5)
        assert directory.append(log, batch()).first_offset == 5


@pytest.mark.parametrize("restarted", [False, True])
async def test_records_without_a_time_are_as_old_as_their_file(tmp_path: Path, restarted: bool):
    config = LogConfig(segment_bytes=500, retention_ms=DAY)
    async with opened(tmp_path) as directory:
        log = await directory.log(config)
        times = [-1, -1, NOW_MS, -1]
        await directory.append_all(log, [batch(2, value=b"x" * 200, timestamp=time) for time in times])
        if not restarted:
            await expire_by_file(directory, log, config)
    if restarted:
        async with opened(tmp_path) as directory:
            await expire_by_file(directory, await directory.log(config), config)


async def expire_by_file(directory: OpenDirectory, log: Log, config: LogConfig) -> None:
    segments = list(log.segments)
    for segment, age_ms in zip(segments, (DAY + 1, DAY, 9 * DAY, 9 * DAY), strict=True):
        os.utime(segment.log_path, ns=(0, (NOW_MS - age_ms) * 1_000_000))
    assert await directory.manager.apply_retention() == 1
    os.utime(segments[1].log_path, ns=(0, (NOW_MS - DAY - 1) * 1_000_000))
    assert await directory.manager.apply_retention() == 1
    assert [segment.base_offset for segment in log.segments] == [4, 6]
    directory.clock.advance(DAY + 1)
    assert await directory.manager.apply_retention() == 2
    assert (log.log_start_offset, log.size) == (8, 0)


async def test_what_is_not_on_disk_yet_is_not_deleted(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log(LogConfig(retention_ms=DAY))
        directory.append(log, batch(timestamp=NOW_MS - 2 * DAY))
        assert await log.expire_segments(NOW_MS) == []


async def test_a_compacted_topic_keeps_everything(tmp_path: Path):
    config = LogConfig(segment_bytes=500, retention_ms=1, cleanup_policy=frozenset({"compact"}))
    async with opened(tmp_path) as directory:
        log = await directory.log(config)
        await directory.append_all(log, [batch(2, value=b"x" * 200, timestamp=5) for _ in range(4)])
        assert await directory.manager.apply_retention() == 0


async def test_epochs_before_the_log_start_are_forgotten(tmp_path: Path):
    config = LogConfig(segment_bytes=500, retention_ms=DAY)
    async with opened(tmp_path) as directory:
        log = await directory.log(config)
        for epoch, time in enumerate([NOW_MS - 2 * DAY, NOW_MS - 2 * DAY, NOW_MS]):
            directory.append(log, batch(2, value=b"x" * 200, timestamp=time), epoch=epoch)
        await log.flush()
        await directory.manager.apply_retention()
        assert log.leader_epochs.entries == ((2, 4),)


class Looking(SeededRng):
    """Has retention look at a log whenever lots are drawn, as its thread may at any moment."""

    def __init__(self) -> None:
        super().__init__(1)
        self.log: Log | None = None
        self.looked = 0

    def random(self) -> float:
        if self.log is not None:
            self.log.prepare_expiry()
            self.looked += 1
        return super().random()


async def test_a_segment_that_is_just_being_begun_can_be_looked_at(tmp_path: Path):
    rng = Looking()
    async with opened(tmp_path, rng=rng) as directory:
        rng.log = log = await directory.log(LogConfig(segment_bytes=500))
        await directory.append_all(log, [batch(2, value=b"x" * 200) for _ in range(3)])
        assert rng.looked == 2
        rng.log = None
