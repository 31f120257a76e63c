"""A data directory over its life: made, locked, loaded, deleted from, closed; its files as Kafka has them."""

import asyncio
import json
import re
from base64 import urlsafe_b64encode
from pathlib import Path
from uuid import UUID

import pytest

from ottla import __version__
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_partition import TopicPartition
from ottla.runtime.disk import OsDisk
from ottla.runtime.rng import SeededRng
from ottla.storage.log import Log
from ottla.storage.log_config import LogConfig
from ottla.storage.log_directory import DirectoryError, LogDirectory
from ottla.storage.partition_metadata import UNKNOWN_TOPIC_ID
from tests.unit.storage.data_directory import (
    NOW_MS,
    ORDERS,
    TOPIC_ID,
    batch,
    bytes_of,
    copy_as_after_a_kill,
    files_of,
    names_in,
    opened,
)

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=200, file_delete_delay_ms=5000)


async def test_the_files_of_a_log_are_the_ones_kafka_has(tmp_path: Path):
    async with opened(tmp_path) as directory:
        await directory.manager.identify("4L6g3nShT-eMCtK--X86sw", 1)
        log = await directory.log(SMALL)
        await directory.append_all(log, [batch(2, value=b"x" * 300) for _ in range(3)])
    assert names_in(tmp_path / "orders-0") == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000002.index",
        "00000000000000000002.log",
        "00000000000000000002.snapshot",
        "00000000000000000002.timeindex",
        "00000000000000000004.index",
        "00000000000000000004.log",
        "00000000000000000004.snapshot",
        "00000000000000000004.timeindex",
        "00000000000000000006.snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]
    topic_id = urlsafe_b64encode(TOPIC_ID.bytes).decode().rstrip("=")
    assert (tmp_path / "orders-0" / "partition.metadata").read_text() == f"version: 0\ntopic_id: {topic_id}\n"
    assert (tmp_path / "orders-0" / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\norders 0 6\n"
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n1\norders 0 6\n"
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n0\n"
    assert json.loads((tmp_path / ".kafka_cleanshutdown").read_text()) == {
        "version": 0,
        "brokerEpoch": -1,
        "cleanSince": -1,
    }
    properties = dict(line.split("=") for line in (tmp_path / "meta.properties").read_text().splitlines())
    assert re.fullmatch(r"[\w-]{22}", properties.pop("directory.id"))
    assert properties.pop("ottla.release") == __version__  # the one that Kafka has not, and ignores
    assert properties == {"version": "1", "cluster.id": "4L6g3nShT-eMCtK--X86sw", "node.id": "1"}


async def test_the_clean_marker_is_gone_while_the_directory_is_open_and_after_an_unclean_close(tmp_path: Path):
    marker = tmp_path / ".kafka_cleanshutdown"
    async with opened(tmp_path):
        assert not marker.exists()
    assert marker.exists()
    async with opened(tmp_path, clean=False) as directory:
        assert directory.report.was_clean
        assert not marker.exists()
    assert not marker.exists()


async def test_two_brokers_cannot_use_one_directory(tmp_path: Path):
    async with opened(tmp_path):
        with pytest.raises(DirectoryError, match="used by another broker"):
            LogDirectory(str(tmp_path), OsDisk(), SeededRng(1)).open()
    async with opened(tmp_path):
        pass


@pytest.mark.parametrize(("cluster_id", "node_id"), [("other", 1), ("mine", 2)])
async def test_somebody_elses_directory_is_refused(tmp_path: Path, cluster_id: str, node_id: int):
    async with opened(tmp_path) as directory:
        await directory.manager.identify("mine", 1)
    async with opened(tmp_path) as directory:
        await directory.manager.identify("mine", 1)
        with pytest.raises(DirectoryError, match="belongs to node 1 of cluster mine"):
            await directory.manager.identify(cluster_id, node_id)


async def test_a_directory_kafka_made_is_understood(tmp_path: Path):
    (tmp_path / "meta.properties").write_text(
        "#\n#Mon Jan 01 00:00:00 UTC 2024\nversion=1\ncluster.id=mine\nnode.id=3\ndirectory.id=oS3kqpEUQjSIdl9u8qZ_sg\n"
    )
    async with opened(tmp_path) as directory:
        await directory.manager.identify("mine", 3)
        assert directory.manager.directory_ids == (UUID("a12de4aa-9114-4234-8876-5f6ef2a67fb2"),)


async def test_topic_ids_survive_and_an_unknown_one_is_filled_in(tmp_path: Path):
    async with opened(tmp_path) as directory:
        await directory.log()
    async with opened(tmp_path) as directory:
        log = directory.manager.log(ORDERS)
        assert log is not None
        assert log.topic_id == TOPIC_ID
    (tmp_path / "orders-0" / "partition.metadata").unlink()
    async with opened(tmp_path) as directory:
        log = directory.manager.log(ORDERS)
        assert log is not None
        assert log.topic_id == UNKNOWN_TOPIC_ID
        await directory.log()
    async with opened(tmp_path) as directory:
        log = directory.manager.log(ORDERS)
        assert log is not None
        assert log.topic_id == TOPIC_ID


async def test_another_topics_log_is_not_taken_for_ours(tmp_path: Path):
    async with opened(tmp_path) as directory:
        await directory.log()
        with pytest.raises(ApiError) as raised:
            await directory.manager.create_log(ORDERS, UUID(int=1), LogConfig())
        assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR


async def test_many_logs_are_loaded_by_name_and_other_directories_are_left_alone(tmp_path: Path):
    names = [TopicPartition(topic, index) for topic in ("a", "page-views", "x.y_z-1") for index in range(3)]
    async with opened(tmp_path) as directory:
        for number, name in enumerate(names):
            await directory.append_all(await directory.log(topic_partition=name), [batch(number + 1)])
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "metadata.db").write_bytes(b"")
    async with opened(tmp_path) as directory:
        assert {log.topic_partition: log.log_end_offset for log in directory.manager.logs()} == {
            name: number + 1 for number, name in enumerate(names)
        }
    assert (tmp_path / "lost+found").exists()


async def test_a_deleted_log_is_renamed_at_once_and_removed_later(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log(SMALL)
        directory.append(log, batch())
        await directory.manager.delete_log(ORDERS)
        (renamed,) = names_in(tmp_path, "orders*")
        assert re.fullmatch(r"orders-0\.[0-9a-f]{32}-delete", renamed)
        assert directory.manager.log(ORDERS) is None
        assert directory.stages == [(1, 0), (2, 0)]
        await directory.pass_time(4999)
        assert (tmp_path / renamed).exists()
        await directory.pass_time(1)
        assert not (tmp_path / renamed).exists()
        again = await directory.log(SMALL)
        assert again.log_end_offset == 0
        await directory.append_all(again, [batch()])


async def test_what_waits_to_be_removed_at_a_stop_goes_at_the_next_start(tmp_path: Path):
    async with opened(tmp_path) as directory:
        await directory.log(SMALL)
        await directory.manager.delete_log(ORDERS)
    (tmp_path / "orders-1").mkdir()
    (tmp_path / "orders-1" / "00000000000000000000.log.deleted").write_bytes(b"x")
    async with opened(tmp_path) as directory:
        assert [log.topic_partition for log in directory.manager.logs()] == [TopicPartition("orders", 1)]
        assert names_in(tmp_path / "orders-1") == []
        assert not (tmp_path / "orders-0").exists()
        await directory.pass_time(0)
        assert names_in(tmp_path, "*-delete") == []


async def test_the_longest_topic_name_can_be_deleted(tmp_path: Path):
    async with opened(tmp_path) as directory:
        name = TopicPartition("t" * 249, 12345)
        await directory.log(topic_partition=name)
        await directory.manager.delete_log(name)
        assert len(names_in(tmp_path, "t*")[0]) == 255


async def test_deleting_an_unknown_log_is_no_error(tmp_path: Path):
    async with opened(tmp_path) as directory:
        await directory.manager.delete_log(TopicPartition("nobody", 7))


async def test_many_logs_of_a_topic_are_made_and_deleted_in_one_go(tmp_path: Path):
    names = [TopicPartition("orders", index) for index in range(50)]
    async with opened(tmp_path) as directory:
        first = await directory.log(topic_partition=names[7])
        logs = await directory.manager.create_logs(names, TOPIC_ID, SMALL)
        assert [log.topic_partition for log in logs] == names
        assert logs[7] is first
        assert {log.config for log in logs} == {SMALL}
        for log in logs[:3]:
            directory.append(log, batch())
        await directory.manager.delete_logs([*names, TopicPartition("nobody", 1)])
        assert directory.manager.logs() == ()
        assert directory.stages == [(1, 0)] * 3 + [(2, 0)] * 3
        assert len(names_in(tmp_path, "orders-*-delete")) == len(names_in(tmp_path, "orders*")) == 50
        await directory.pass_time(SMALL.file_delete_delay_ms)
        assert names_in(tmp_path, "orders*") == []


async def test_new_logs_are_not_held_to_what_was_remembered_of_earlier_ones(tmp_path: Path):
    names = [TopicPartition("orders", index) for index in range(3)]
    async with opened(tmp_path) as directory:
        for log in await directory.manager.create_logs(names, TOPIC_ID, SMALL):
            await directory.append_all(log, [batch(5)])
        await directory.manager.checkpoint_recovery_points()
        await directory.manager.checkpoint_high_watermarks()
        assert "orders 2 5\n" in (tmp_path / "replication-offset-checkpoint").read_text()
        await directory.manager.delete_logs(names)
        await directory.manager.create_logs(names, TOPIC_ID, SMALL)
        assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n0\n"
        assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n0\n"
        assert directory.manager.high_watermark(names[2]) == 0


async def test_recovery_points_move_with_what_is_flushed(tmp_path: Path):
    checkpoint = tmp_path / "recovery-point-offset-checkpoint"
    async with opened(tmp_path) as directory:
        log = await directory.log()
        await directory.append_all(log, [batch(5)])
        directory.append(log, batch(5))
        await directory.manager.checkpoint_recovery_points()
        assert checkpoint.read_text() in ("0\n1\norders 0 5\n", "0\n1\norders 0 10\n")
        assert (tmp_path / "orders-0" / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"


async def test_a_rolled_segment_is_flushed_although_nobody_asked_for_a_sync(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log(SMALL)
        moved = asyncio.Event()

        def follow(log: Log) -> None:
            if log.flushed_end_offset:
                moved.set()

        log.on_progress = follow
        for _ in range(4):
            directory.append(log, batch(2, value=b"x" * 300), sync=False)
        await moved.wait()
        assert log.flushed_end_offset % 2 == 0
        assert 0 < log.flushed_end_offset < 8


async def test_much_traffic_leaves_a_snapshot_and_old_ones_go(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        taken = []
        for _ in range(4):
            await directory.append_all(log, [batch(1)])
            log.snapshots.bytes_since = 16 << 20
            await directory.manager.checkpoint_recovery_points()
            taken.append(log.log_end_offset)
            await log.flush()
        offsets = [int(file.stem) for file in files_of(tmp_path / "orders-0", ".snapshot")]
        assert offsets == taken[-2:]


async def test_an_empty_log_leaves_no_snapshot_unless_it_remembers_a_producer(tmp_path: Path):
    empty, emptied = TopicPartition("empty", 0), TopicPartition("emptied", 0)
    async with opened(tmp_path) as directory:
        await directory.log(SMALL, empty)
        log = await directory.log(SMALL, emptied)
        await directory.append_all(log, [batch(2, producer_id=7, epoch=0, sequence=0)])
        log.delete_records_before(2)
    assert files_of(tmp_path / str(empty), ".snapshot") == []
    async with opened(tmp_path) as directory:
        log = await directory.log(SMALL, emptied)
        assert log.log_start_offset == log.log_end_offset == 2
        assert directory.append(log, batch(2, producer_id=7, epoch=0, sequence=0)).duplicate
        assert (await directory.log(SMALL, empty)).log_end_offset == 0


async def test_a_closed_log_takes_nothing_and_promises_nothing(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        directory.append(log, batch(3), sync=False)
        await log.abandon()
        assert (log.written_end_offset, log.flushed_end_offset) == (3, 0)
        for refused in (log.flush(), directory.append_all(log, [batch()])):
            with pytest.raises(ApiError) as raised:
                await refused
            assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert log.flushed_end_offset == 0
        assert log.read(0, 1000, max_offset=3).total_bytes > 0


async def test_the_log_start_inside_a_segment_survives(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log(SMALL)
        await directory.append_all(log, [batch(2, value=b"x" * 300) for _ in range(6)])
        assert log.delete_records_before(5) == 5
        assert log.delete_records_before(3) == 5
        await directory.manager.checkpoint_log_starts()
        assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n1\norders 0 5\n"
        with pytest.raises(ApiError) as raised:
            log.read(4, 100, max_offset=12)
        assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
        with pytest.raises(ApiError):
            log.delete_records_before(13)
        path = copy_as_after_a_kill(tmp_path, f"{tmp_path.name}-killed")
    async with opened(path) as directory:
        log = await directory.log(SMALL)
        assert (log.log_start_offset, log.log_end_offset) == (5, 12)
        await directory.manager.apply_retention()
        assert [segment.base_offset for segment in log.segments] == [4, 6, 8, 10]
        assert log.delete_records_before(-1) == 12


async def test_truncating_cuts_at_the_batch_and_the_log_goes_on(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log(SMALL)
        for number in range(6):
            directory.append(log, batch(2, value=b"x" * 300, producer_id=7, epoch=0, sequence=number * 2), epoch=number)
        kept = 5
        await directory.manager.truncate_log(log, kept)
        assert (log.log_end_offset, log.flushed_end_offset) == (4, 4)
        assert log.leader_epochs.entries == ((0, 0), (1, 2))
        info = directory.append(log, batch(2, value=b"y" * 300, producer_id=7, epoch=0, sequence=4), epoch=9)
        assert (info.first_offset, info.duplicate) == (4, False)
        await log.flush()
        assert len(bytes_of(log.read(0, 1 << 20, max_offset=6))) == log.size
    async with opened(tmp_path) as directory:
        log = await directory.log(SMALL)
        assert log.log_end_offset == 6
        assert log.leader_epochs.entries == ((0, 0), (1, 2), (9, 4))
        await directory.manager.truncate_log(log, 0)
        assert (log.log_end_offset, log.size) == (0, 0)


async def test_truncating_at_the_end_takes_nothing(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log(SMALL)
        directory.append(log, batch(2))
        for offset in (2, 100):
            await directory.manager.truncate_log(log, offset)
            assert log.log_end_offset == 2
        assert directory.append(log, batch(1)).first_offset == 2


async def test_timestamps_are_found_over_segments_and_only_among_what_is_written(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log(SMALL)
        assert await log.offset_for_timestamp(0) is None
        assert await log.max_timestamp_offset() is None
        times = [100, 300, 200, 250, 400, 50, 390, 500, 500, 60, 499]
        for number, time in enumerate(times):
            directory.append(log, batch(3, value=b"x" * 60, timestamp=time, step_ms=1), epoch=number // 4)
        await log.flush()
        records = [
            (time + step, number * 3 + step, number // 4) for number, time in enumerate(times) for step in range(3)
        ]
        for wanted in [0, 99, 100, 101, 102, 103, 250, 302, 303, 400, 402, 403, 499, 500, 501, 502, 503, 10_000]:
            expected = next((record for record in records if record[0] >= wanted), None)
            assert await log.offset_for_timestamp(wanted) == expected, wanted
        assert await log.max_timestamp_offset() == (502, 23, 1)
        directory.append(log, batch(1, timestamp=9999))
        assert await log.offset_for_timestamp(9999) in (None, (9999, 33, 2))
        assert await log.max_timestamp_offset() is not None
        log.delete_records_before(24)
        assert await log.offset_for_timestamp(0) == (500, 24, 2)


async def test_thousands_of_reads_keep_few_files_open(tmp_path: Path):
    async with opened(tmp_path, open_files_max=4) as directory:
        logs = []
        for index in range(12):
            log = await directory.log(SMALL, TopicPartition("many", index))
            await directory.append_all(log, [batch(1, value=b"%d" % index)])
            logs.append(log)
        for _ in range(3):
            for log in logs:
                assert bytes_of(log.read(0, 100, max_offset=1))
        assert len(open_for_reading(tmp_path)) <= 4


def open_for_reading(directory: Path) -> list[Path]:
    return [entry for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink() and _reads(entry, directory)]


def _reads(entry: Path, directory: Path) -> bool:
    try:
        path, flags = entry.readlink(), Path(f"/proc/self/fdinfo/{entry.name}").read_text()
    except FileNotFoundError:
        return False
    access = int(re.search(r"flags:\s+(\d+)", flags)[1], 8) & 3
    return path.is_relative_to(directory) and path.suffix == ".log" and access == 0


async def test_the_time_of_loading_is_told(tmp_path: Path):
    async with opened(tmp_path) as directory:
        assert (directory.report.log_count, directory.report.took_ms) == (0, 0)
        assert directory.clock.now_ms() == NOW_MS


async def test_the_marker_of_a_clean_end_says_by_which_sessions_a_directory_was_used_and_a_crash_leaves_none(
    tmp_path: Path,
):
    async def use(*sessions: int, clean: bool = True) -> tuple[int, int]:
        async with opened(tmp_path, clean=clean) as directory:
            found = directory.manager.use
            for broker_epoch in sessions:
                directory.manager.used_by(broker_epoch)
            return found.clean_since, found.broker_epoch

    assert await use(7, 8) == (-1, -1)
    assert await use() == (7, 8)
    assert await use(9) == (7, 8)
    assert await use(10, clean=False) == (7, 9)
    assert await use(11) == (-1, -1)
    assert await use() == (11, 11)
    (tmp_path / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":5}')
    assert await use() == (5, 5)
    for strange in ("", "[]", '{"brokerEpoch":null}'):
        (tmp_path / ".kafka_cleanshutdown").write_text(strange)
        assert await use() == (-1, -1)
