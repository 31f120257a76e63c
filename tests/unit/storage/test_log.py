"""Appending to a log and reading it: offsets, files, slices, progress. Files are read by an implementation not ours."""

import asyncio
import struct
from itertools import accumulate
from pathlib import Path

import pytest
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.native import decode_records, validate_batches
from ottla.storage.append_origin import AppendOrigin
from ottla.storage.log_config import LogConfig, TimestampType
from tests.unit.storage.data_directory import (
    NOW_MS,
    OpenDirectory,
    batch,
    batches_in,
    bytes_of,
    files_of,
    kafkas_indexes,
    opened,
)
from tests.unit.storage.watched_disk import WatchedDisk

SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=200)


def offsets_in(data: bytes) -> list[int]:
    return [offset for offset, *_ in decode_records(data, max_decompressed_bytes=1 << 20)]


async def test_offsets_follow_each_other_over_batches_and_restarts(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        infos = [directory.append(log, batch(count)) for count in (3, 1, 5)]
        assert [(info.first_offset, info.last_offset) for info in infos] == [(0, 2), (3, 3), (4, 8)]
    async with opened(tmp_path) as directory:
        log = await directory.log()
        assert (log.log_start_offset, log.log_end_offset) == (0, 9)
        assert directory.append(log, batch(2)).first_offset == 9


async def test_an_independent_reader_finds_what_was_appended(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log(SMALL)
        for codec in (0, 1):
            directory.append(log, batch(40, value=b"value %d" % codec, step_ms=7, codec=codec), epoch=codec)
        await log.flush()
        records = []
        for file in files_of(Path(log.directory), ".log"):
            reader = MemoryRecords(file.read_bytes())
            while (parsed := reader.next_batch()) is not None:
                assert parsed.validate_crc()
                records += [(record.offset, record.timestamp, record.key, record.value) for record in parsed]
    assert records == [
        (codec * 40 + index, NOW_MS + 7 * index, b"key", b"value %d" % codec)
        for codec in range(2)
        for index in range(40)
    ]


async def test_written_and_flushed_follow_the_disk_and_are_told_once_a_round(tmp_path: Path):
    seen = []
    async with opened(tmp_path) as directory:
        log = await directory.log()
        log.on_progress = lambda log: seen.append((log.written_end_offset, log.flushed_end_offset))
        for _ in range(10):
            directory.append(log, batch())
        assert (log.log_end_offset, log.written_end_offset, log.flushed_end_offset) == (10, 0, 0)
        await log.flush()
        assert (log.written_end_offset, log.flushed_end_offset) == (10, 10)
        assert directory.stages == [(1, 0)] * 10 + [(2, 0)] * 10
    assert len(seen) <= 3
    assert all(flushed <= written for written, flushed in seen)


async def test_without_sync_only_written_is_reported_and_flush_makes_up_for_it(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        written = asyncio.Event()
        log.on_progress = lambda _: written.set()
        directory.append(log, batch(), sync=False)
        await written.wait()
        assert directory.stages == [(1, 0)]
        assert (log.written_end_offset, log.flushed_end_offset) == (1, 0)
        await log.flush()
        assert log.flushed_end_offset == 1


async def test_what_is_not_written_yet_is_not_read(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        await directory.append_all(log, [batch(2)])
        directory.append(log, batch(3))
        assert offsets_in(bytes_of(log.read(0, 10_000, max_offset=100))) == [0, 1]
        assert log.read(2, 10_000, max_offset=100).slices == ()


async def test_what_is_written_but_not_flushed_stays_behind_the_limit_of_what_is(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        await directory.append_all(log, [batch(2)])
        written = asyncio.Event()
        log.on_progress = lambda _: written.set()
        directory.append(log, batch(3), sync=False)
        await written.wait()
        assert (log.written_end_offset, log.flushed_end_offset) == (5, 2)
        assert offsets_in(bytes_of(log.read(0, 10_000, max_offset=2))) == [0, 1]
        assert offsets_in(bytes_of(log.read(0, 10_000, max_offset=5))) == [0, 1, 2, 3, 4]


async def test_an_index_entry_comes_after_more_than_the_interval(tmp_path: Path):
    size = len(batch())
    for interval, entries in ((size - 1, [1, 2, 3, 4]), (size, [2, 4]), (2 * size, [3])):
        async with opened(tmp_path / str(interval)) as directory:
            log = await directory.log(LogConfig(index_interval_bytes=interval))
            await directory.append_all(log, [batch() for _ in range(5)])
            index = files_of(Path(log.directory), ".index")[0].read_bytes()
            assert index == b"".join(struct.pack(">ii", entry, entry * size) for entry in entries)


@pytest.mark.parametrize("offset", [-1, 6, 100])
async def test_an_offset_outside_the_log_is_out_of_range(tmp_path: Path, offset: int):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        await directory.append_all(log, [batch(5)])
        with pytest.raises(ApiError) as raised:
            log.read(offset, 100, max_offset=5)
        assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


async def test_the_end_of_the_log_reads_as_nothing(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        assert log.read(0, 100, max_offset=0).total_bytes == 0
        await directory.append_all(log, [batch(5)])
        assert log.read(5, 100, max_offset=5).slices == ()


async def test_an_offset_inside_a_batch_gives_the_whole_batch(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        await directory.append_all(log, [batch(5), batch(5), batch(5)])
        assert offsets_in(bytes_of(log.read(7, 10_000, max_offset=15))) == list(range(5, 15))


async def test_the_first_batch_comes_whole_however_little_is_asked_for_or_not_at_all(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        large = batch(1, value=b"x" * 50_000)
        await directory.append_all(log, [large, batch()])
        assert log.read(0, 1, max_offset=2).total_bytes == len(large)
        assert log.read(0, len(large) - 1, max_offset=2, min_one_batch=False).total_bytes == 0
        assert log.read(0, len(large), max_offset=2, min_one_batch=False).total_bytes == len(large)


async def test_batches_beyond_the_limit_are_left_out(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log(SMALL)
        await directory.append_all(log, [batch(3) for _ in range(40)])
        for limit in range(0, 121, 3):
            data = bytes_of(log.read(0, 1 << 20, max_offset=limit))
            assert offsets_in(data) == list(range(limit))


async def test_a_read_goes_on_in_the_next_segment(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log(SMALL)
        await directory.append_all(log, [batch(3) for _ in range(40)])
        assert len(log.segments) == 2
        result = log.read(1, 1 << 20, max_offset=120)
        assert len(result.slices) == len(log.segments)
        assert offsets_in(bytes_of(result)) == list(range(120))
        assert log.read(0, 500, max_offset=120).total_bytes == 500


@pytest.mark.parametrize("is_reopened", [False, True])
async def test_a_piece_of_a_large_batch_is_left_out_where_its_beginning_is_known(tmp_path: Path, is_reopened: bool):
    size = len(batch(1, value=b"x" * 40_000))
    config = LogConfig(segment_bytes=5 * size)
    async with opened(tmp_path) as directory:
        log = await directory.log(config)
        await directory.append_all(log, [batch(1, value=b"x" * 40_000) for _ in range(9)])
    async with opened(tmp_path) as directory:
        log = await directory.log(config)
        if not is_reopened:  # what is appended now is remembered, what is there already is in the index
            await directory.append_all(log, [batch(1, value=b"x" * 40_000) for _ in range(9)])
        end, a_little_more = log.log_end_offset, 2 * size + 9_000
        assert len(log.segments) > 1
        for offset, max_bytes, count in (
            (0, 3 * size - 1, 2),
            (1, 3 * size, 3),
            (5, a_little_more, 2),
            (end - 3, a_little_more, 2),
        ):
            read = log.read(offset, max_bytes, max_offset=end)
            assert offsets_in(bytes_of(read)) == list(range(offset, offset + count))
            assert (read.total_bytes, read.left_out_bytes) == (count * size, max_bytes - count * size)


async def test_small_batches_behind_the_last_index_entry_are_not_left_out(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        await directory.append_all(log, [batch(1, value=b"x" * 100) for _ in range(400)])
    async with opened(tmp_path) as directory:
        log = await directory.log()
        for max_bytes in (5_000, 10_000, 30_000):
            assert log.read(0, max_bytes, max_offset=400).total_bytes == max_bytes


async def test_an_index_that_is_far_between_does_not_make_answers_small(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log(LogConfig(index_interval_bytes=30_000))
        await directory.append_all(log, [batch(1, value=b"x" * 1_000) for _ in range(100)])
    async with opened(tmp_path) as directory:
        log = await directory.log(LogConfig(index_interval_bytes=30_000))
        for max_bytes in range(5_000, 100_000, 5_000):
            read = log.read(0, max_bytes, max_offset=100)
            assert read.total_bytes + read.left_out_bytes == max_bytes
            assert read.total_bytes >= max_bytes // 2


async def test_slices_outlive_the_file_they_came_from(tmp_path: Path):
    async with opened(tmp_path, open_files_max=1) as directory:
        log = await directory.log(SMALL)
        await directory.append_all(log, [batch(3) for _ in range(40)])
        first = log.read(0, 100, max_offset=120)
        expected = bytes_of(first)
        for offset in range(0, 120, 10):
            log.read(offset, 100, max_offset=120)
        await directory.manager.delete_log(log.topic_partition)
        directory.timer.advance(100_000)
        async with asyncio.timeout(60):
            while [*tmp_path.glob("orders-0*")]:  # noqa: ASYNC110, ASYNC240 (few files)
                await asyncio.sleep(0)
        assert bytes_of(first) == expected


@pytest.mark.parametrize(
    ("config", "batches", "segments"),
    [
        (LogConfig(segment_bytes=1000), [batch(1, value=b"x" * 300) for _ in range(6)], 3),
        (LogConfig(segment_ms=1000), [batch(timestamp=NOW_MS + ms) for ms in (0, 999, 1000, 1001, 2001, 2002)], 3),
        (LogConfig(segment_index_bytes=36, index_interval_bytes=1), [batch() for _ in range(11)], 3),
    ],
    ids=["size", "age", "index full"],
)
async def test_a_segment_is_closed_by_size_by_age_and_when_its_index_is_full(
    tmp_path: Path, config: LogConfig, batches: list[bytearray], segments: int
):
    async with opened(tmp_path) as directory:
        log = await directory.log(config)
        await directory.append_all(log, batches)
        assert len(log.segments) == segments
        names = [int(file.stem) for file in files_of(Path(log.directory), ".log")]
        starts = [batches_in(file.read_bytes())[0][1] for file in files_of(Path(log.directory), ".log")]
        assert names == starts


async def test_age_counts_from_the_first_batch_after_a_restart_too(tmp_path: Path):
    config = LogConfig(segment_ms=1000)
    async with opened(tmp_path) as directory:
        log = await directory.log(config)
        directory.append(log, batch(timestamp=NOW_MS))
    async with opened(tmp_path) as directory:
        log = await directory.log(config)
        await directory.append_all(log, [batch(timestamp=NOW_MS + 1000)])
        assert len(log.segments) == 1
        await directory.append_all(log, [batch(timestamp=NOW_MS + 1001)])
        assert len(log.segments) == 2


async def test_without_timestamps_age_counts_by_the_clock_from_when_the_segment_was_begun(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log(LogConfig(segment_ms=1000))
        for segments in (1, 2, 3):
            await directory.append_all(log, [batch(timestamp=-1)])
            directory.clock.advance(1000)
            await directory.append_all(log, [batch(timestamp=-1)])
            assert len(log.segments) == segments
            directory.clock.advance(1)


async def test_how_old_a_segment_may_grow_is_what_the_topic_says_now(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log(LogConfig(segment_ms=1000))
        await directory.append_all(log, [batch(timestamp=NOW_MS), batch(timestamp=NOW_MS + 900)])
        assert len(log.segments) == 1
        log.config = LogConfig(segment_ms=800)
        await directory.append_all(log, [batch(timestamp=NOW_MS + 900), batch(timestamp=NOW_MS + 1700)])
        assert len(log.segments) == 2
        log.config = LogConfig(segment_ms=2000)
        await directory.append_all(log, [batch(timestamp=NOW_MS + 2900)])
        assert len(log.segments) == 2
        await directory.append_all(log, [batch(timestamp=NOW_MS + 2901)])
        assert len(log.segments) == 3


async def test_the_greatest_time_of_a_closed_segment_stays_known(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log(LogConfig(segment_bytes=300))
        times = [NOW_MS, NOW_MS + 5, NOW_MS + 2]
        await directory.append_all(log, [batch(timestamp=time, value=b"v" * 20) for time in times])
        await directory.append_all(log, [batch(value=b"v" * 200)])
        closed, newest = log.segments
        assert (closed.recent, newest.recent is None) == (None, False), "only the newest is kept in memory"
        assert closed.largest_timestamp == (NOW_MS + 5, 1)
        assert newest.largest_timestamp == (NOW_MS, 3)


async def test_no_relative_offset_grows_beyond_31_bits(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        await directory.append_all(log, [batch()])
        log.log_end_offset = (1 << 31) - 1
        assert directory.append(log, batch()).first_offset == (1 << 31) - 1
        assert len(log.segments) == 1
        directory.append(log, batch())
        assert [segment.base_offset for segment in log.segments] == [0, 1 << 31]


async def test_a_preallocated_segment_has_its_room_and_only_its_records(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log(LogConfig(segment_bytes=1 << 20, preallocate=True))
        await directory.append_all(log, [batch(3)])
        file = files_of(Path(log.directory), ".log")[0]
        assert file.stat().st_size == log.size
        assert file.stat().st_blocks * 512 >= 1 << 20
    async with opened(tmp_path) as directory:
        assert (await directory.log()).log_end_offset == 3


async def test_log_append_time_is_the_brokers_and_in_the_batch(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log(LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME))
        directory.clock.advance(5)
        info = directory.append(log, batch(2, timestamp=12))
        assert (info.log_append_time_ms, info.max_timestamp) == (NOW_MS + 5, NOW_MS + 5)
        await log.flush()
        parsed = MemoryRecords(files_of(Path(log.directory), ".log")[0].read_bytes()).next_batch()
        assert parsed is not None
        assert parsed.validate_crc()
        assert (parsed.timestamp_type, [record.timestamp for record in parsed]) == (1, [NOW_MS + 5] * 2)


async def test_what_does_not_fit_a_segment_is_refused_and_leaves_no_trace(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log(LogConfig(segment_bytes=200))
        records = batch(1, value=b"x" * 200)
        before = bytes(records)
        with pytest.raises(ApiError) as raised:
            directory.append(log, records)
        assert raised.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
        assert (log.log_end_offset, log.size, records) == (0, 0, before)


@pytest.mark.parametrize("origin", [AppendOrigin.COORDINATOR, AppendOrigin.REPLICATION])
async def test_what_a_coordinator_or_the_leader_writes_gets_a_segment_to_itself_when_it_fits_none(
    tmp_path: Path, origin: AppendOrigin
):
    async with opened(tmp_path) as directory:
        log = await directory.log(LogConfig(segment_bytes=200))
        for offset, value in enumerate((b"a", b"x" * 500, b"b")):
            records = batch(1, value=value)
            records[:8] = offset.to_bytes(8, "big")
            await directory.append_all(log, [records], origin=origin)
        assert [segment.base_offset for segment in log.segments] == [0, 1, 2]
        assert log.log_end_offset == 3
    async with opened(tmp_path) as directory:
        assert (await directory.log()).log_end_offset == 3


async def test_the_leader_epoch_is_in_the_batch_and_in_the_history(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        for epoch, count in ((0, 3), (0, 2), (4, 6), (5, 1)):
            directory.append(log, batch(count), epoch=epoch)
        await log.flush()
        assert [info.leader_epoch for info in validate_batches(bytes_of(log.read(0, 9999, max_offset=99)))] == [
            0,
            0,
            4,
            5,
        ]
        assert [log.epoch_of_offset(offset) for offset in (0, 4, 5, 10, 11, 99)] == [0, 0, 4, 4, 5, 5]
        assert log.epoch_end_offset(0) == (0, 5)
        assert log.epoch_end_offset(3) == (0, 5)
        assert log.epoch_end_offset(5) == (5, 12)
        assert log.epoch_end_offset(6) == (-1, -1)


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(
    sizes=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 300), st.integers(-50, 100)), min_size=1, max_size=60),
    restarts=st.sets(st.integers(0, 60), max_size=3),
    data=st.data(),
)
def test_any_read_gives_what_a_list_of_batches_would(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[tuple[int, int, int]],
    restarts: set[int],
    data: st.DataObject,
):
    """Appends over rolls and restarts, compared to a list; and the index files to Kafka's algorithm."""
    path = tmp_path_factory.mktemp("model")
    config = LogConfig(segment_bytes=1500, index_interval_bytes=150)

    async def run() -> None:
        model: list[tuple[int, int, bytes]] = []
        directory: OpenDirectory
        number = 0
        while number < len(sizes):
            async with opened(path) as directory:
                log = await directory.log(config)
                assert log.log_end_offset == (model[-1][1] + 1 if model else 0)
                while number < len(sizes):
                    count, value_size, time = sizes[number]
                    records = batch(count, value=b"v" * value_size, timestamp=NOW_MS + time)
                    info = directory.append(log, records)
                    model.append((info.first_offset, info.last_offset, bytes(records)))
                    number += 1
                    if number in restarts:
                        break
                await log.flush()
                end = log.log_end_offset
                for _ in range(8):
                    offset = data.draw(st.integers(0, end - 1))
                    limit = data.draw(st.sampled_from([last + 1 for _, last, _ in model if last >= offset]))
                    max_bytes = data.draw(st.integers(1, 4000))
                    batches = [raw for _, last, raw in model if last >= offset and last < limit]
                    wanted, first = b"".join(batches), batches[0]
                    read = log.read(offset, max_bytes, max_offset=limit)
                    got = bytes_of(read)
                    assert wanted.startswith(got)
                    assert len(got) + read.left_out_bytes == min(len(wanted), max(max_bytes, len(first)))
                    assert not read.left_out_bytes or len(got) in accumulate(map(len, batches))
        for file in files_of(path / "orders-0", ".log"):
            index, times = kafkas_indexes(file.read_bytes(), int(file.stem), config.index_interval_bytes)
            assert file.with_suffix(".index").read_bytes() == index
            if not restarts:
                assert file.with_suffix(".timeindex").read_bytes() == times

    asyncio.run(run())


async def test_a_look_up_is_what_a_read_would_have_waited_for_and_only_that(tmp_path: Path):
    disk = WatchedDisk()
    async with opened(tmp_path) as directory:
        log = await directory.log(SMALL)
        await directory.append_all(log, [batch(10, value=b"x" * 50) for _ in range(20)])
        assert len(log.segments) > 2
        assert log.look_up(log.log_end_offset - 1) is None
    async with opened(tmp_path, disk=disk) as directory:
        log = await directory.log(SMALL)
        look_up = log.look_up(15)
        assert look_up is not None
        disk.bytes_read.clear()
        await asyncio.to_thread(look_up)
        assert disk.bytes_read.total() > 0
        assert log.look_up(15) is None
        index = Path(log.segments[0].path(".index")).name
        read_before = disk.bytes_read[index]
        assert 15 in offsets_in(bytes_of(log.read(15, 1, max_offset=log.log_end_offset)))
        assert disk.bytes_read[index] == read_before > 0


@pytest.mark.parametrize("offset", [-1, 200, 201])
async def test_there_is_nothing_to_look_up_where_nothing_is(tmp_path: Path, offset: int):
    async with opened(tmp_path) as directory:
        log = await directory.log(SMALL)
        await directory.append_all(log, [batch(10, value=b"x" * 50) for _ in range(20)])
        assert log.look_up(offset) is None


async def test_a_look_up_leaves_it_to_the_read_to_say_what_is_wrong(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log(SMALL)
        await directory.append_all(log, [batch(10, value=b"x" * 50) for _ in range(20)])
    async with opened(tmp_path) as directory:
        log = await directory.log(SMALL)
        look_up = log.look_up(15)
        await asyncio.to_thread(Path(log.segments[0].log_path).unlink)
        assert look_up is not None
        look_up()
        with pytest.raises(ApiError, match="No such file"):
            log.read(15, 1, max_offset=log.log_end_offset)
