"""Batches that are appended as a run: the log, its indexes and its producers are as if they had come one by one."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ottla.model.errors import ApiError
from ottla.model.topic_partition import TopicPartition
from ottla.native import ProduceRun
from ottla.protocol.frame import encode_request
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.storage.log import Log
from ottla.storage.log_append_info import LogAppendInfo
from ottla.storage.log_config import LogConfig, TimestampType
from tests.unit.storage.data_directory import NOW_MS, OpenDirectory, batch, files_of, opened

EPOCH = 3
CONFIGS = {
    "as it comes": LogConfig(),
    "dense index, small segments": LogConfig(segment_bytes=3_000, index_interval_bytes=200),
    "an index that fills": LogConfig(segment_index_bytes=400, index_interval_bytes=100),
    "the broker's time": LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME),
    "synced every so often": LogConfig(flush_messages=60),
}


def run_of(batches: Sequence[bytearray], acks: int = 1) -> ProduceRun:
    """The run of requests that bring these."""
    received, data = [], b""
    for number, records in enumerate(batches):
        topic = TopicProduceData(name="orders", partition_data=(PartitionProduceData(index=0, records=bytes(records)),))
        begin = len(data)
        data += encode_request(number, "me", ProduceRequest(acks=acks, timeout_ms=1, topic_data=(topic,)), 9)
        received.append((number, begin, len(data)))
    run = ProduceRun.whole(memoryview(bytearray(data)), 0, len(data), 1 << 20, len(batches))
    assert run is not None
    if len(batches) > 1:
        [run], left = ProduceRun.gather(memoryview(bytearray(data)), received, 1 << 20)
        assert left == []
    return run


def append_run(directory: OpenDirectory, log: Log, batches: Sequence[bytearray], **told: Any) -> bool:
    run = run_of(batches)
    run.check(log.config.topic_rules, directory.clock.now_ms())
    assert len(run) == len(batches)
    options: dict[str, Any] = {"sync": False, "report_written": True, "on_free": lambda: None, "on_stage": None, **told}
    try:
        info = log.append(run, leader_epoch=EPOCH, now_ms=directory.clock.now_ms(), is_plain=True, **options)
    except ApiError:
        return False
    return info is not None


def written_at_once(log: Log, run: ProduceRun, now_ms: int) -> LogAppendInfo | None:
    try:
        return log.append(run, leader_epoch=EPOCH, now_ms=now_ms, sync=False, is_plain=True, at_once=True)
    except ApiError:
        return None


def append_each(directory: OpenDirectory, log: Log, batches: Sequence[bytearray]) -> None:
    for records in batches:
        with suppress(ApiError):  # of a producer that has skipped a number
            directory.append(log, records, epoch=EPOCH, sync=False)


def state_of(log: Log) -> Any:
    producers = [
        (each.producer_id, each.producer_epoch, each.last_sequence, each.last_heard_ms, list(each.batches))
        for each in log.producers
    ]
    files = [
        (file.name, file.read_bytes())
        for kind in (".log", ".index", ".timeindex")
        for file in files_of(Path(log.directory), kind)
    ]
    reads = [
        [(piece.position, piece.size) for piece in log.read(offset, 400, max_offset=1 << 62).slices]
        for offset in range(log.log_end_offset)
    ]
    ends = (log.log_end_offset, log.written_end_offset, log.flushed_end_offset, log.leader_epochs.latest_epoch)
    return ends, sorted(producers), files, reads, log.segments.newest.largest_timestamp, log.snapshots.bytes_since


def described(random: Random) -> tuple[int, int, int, int]:
    """Records of a batch, bytes of each, its time, and its producer."""
    return random.randint(1, 4), random.choice((1, 30, 300)), random.randint(-50, 50), random.choice((-1, -1, -1, 7, 8))


def batches_of(random: Random, descriptions: Sequence[tuple[int, int, int, int]]) -> list[bytearray]:
    """Batches; those of a producer mostly follow each other."""
    sequences = {7: 0, 8: 0}
    batches = []
    for count, size, time, producer in descriptions:
        sequence, epoch = -1, -1
        if producer >= 0:
            epoch, sequence = 0, sequences[producer] + (random.random() < 0.05)
            sequences[producer] += count
        batches.append(
            batch(
                count,
                value=b"v" * size,
                timestamp=NOW_MS + time,
                producer_id=producer,
                epoch=epoch,
                sequence=sequence,
            )
        )
    return batches


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
async def test_what_is_written_at_once_is_in_the_file_and_leaves_everything_as_one_by_one(
    tmp_path: Path, config: LogConfig
):
    taken = []
    for seed in range(5):
        random = Random(seed)
        groups = [[described(random) for _ in range(random.choice((1, 1, 1, 5, 12)))] for _ in range(20)]
        everything = batches_of(random, [each for group in groups for each in group])
        copies = [bytearray(each) for each in everything]
        async with opened(tmp_path / str(seed)) as directory:
            one, other = [await directory.log(config, TopicPartition(name, 0)) for name in ("at-once", "one-by-one")]
            for group in groups:
                batches, everything = everything[: len(group)], everything[len(group) :]
                run = run_of(batches)
                run.check(config.topic_rules, directory.clock.now_ms())
                end_offset, now_ms = one.log_end_offset, directory.clock.now_ms()
                info = written_at_once(one, run, now_ms)
                if info is not None:
                    assert (info.first_offset, one.written_end_offset) == (end_offset, info.last_offset + 1)
                    assert sum(len(file.read_bytes()) for file in files_of(Path(one.directory), ".log")) == one.size
                else:
                    assert one.log_end_offset == end_offset
                    append_each(directory, one, batches)
                taken.append(info is not None)
                append_each(directory, other, copies[: len(group)])
                del copies[: len(group)]
                directory.clock.advance(3)
                if random.random() < 0.7:
                    await one.flush()  # and the thread has nothing to do
            await one.flush()
            await other.flush()
            assert state_of(one) == state_of(other)
    assert any(taken)


async def test_nothing_is_written_at_once_before_what_was_appended_earlier(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        await directory.append_all(log, [batch()], epoch=EPOCH)
        await log.flush()
        directory.append(log, batch(), epoch=EPOCH, sync=False)
        run = run_of([batch()])
        run.check(log.config.topic_rules, NOW_MS)
        assert written_at_once(log, run, NOW_MS) is None
        assert log.log_end_offset == 2


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
async def test_a_run_leaves_everything_as_its_batches_one_by_one_would(tmp_path: Path, config: LogConfig):
    taken = []
    for seed in range(5):
        random = Random(seed)
        groups = [[described(random) for _ in range(random.choice((1, 2, 5, 12)))] for _ in range(8)]
        everything = batches_of(random, [each for group in groups for each in group])
        copies = [bytearray(each) for each in everything]
        async with opened(tmp_path / str(seed)) as directory:
            one, other = [await directory.log(config, TopicPartition(name, 0)) for name in ("together", "one-by-one")]
            for group in groups:
                batches, everything = everything[: len(group)], everything[len(group) :]
                is_taken = len(batches) > 1 and append_run(directory, one, batches)
                taken.append(is_taken)
                if not is_taken:
                    append_each(directory, one, batches)
                append_each(directory, other, copies[: len(group)])
                del copies[: len(group)]
                directory.clock.advance(3)
            await one.flush()
            await other.flush()
            assert state_of(one) == state_of(other)
    assert any(taken)


async def test_a_run_is_told_of_once_and_its_records_are_let_go_of(tmp_path: Path):
    told: list[Any] = []
    async with opened(tmp_path) as directory:
        log = await directory.log()
        await directory.append_all(log, [batch()], epoch=EPOCH)
        assert append_run(
            directory,
            log,
            [batch(2), batch(3)],
            sync=True,
            on_free=lambda: told.append("free"),
            on_stage=lambda *stage: told.append(stage),
        )
        assert told == []
        await log.flush()
        assert told == ["free", (1, 0), (2, 0)]
        assert (log.written_end_offset, log.flushed_end_offset) == (6, 6)


async def test_what_is_more_than_an_append_leaves_the_log_as_it_was(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log(LogConfig(segment_bytes=700, flush_messages=20))
        pair = [batch(), batch()]
        assert not append_run(directory, log, pair), "the first of a segment"
        await directory.append_all(log, [batch()], epoch=EPOCH - 1)
        assert not append_run(directory, log, pair), "the first of an epoch"
        await directory.append_all(log, [batch()], epoch=EPOCH)
        assert not append_run(directory, log, [batch(value=b"v" * 300) for _ in range(2)]), "more than a segment has"
        assert not append_run(directory, log, [batch(10), batch(10)]), "a sync is due"
        sequence: dict[str, Any] = {"producer_id": 7, "epoch": 0}
        await directory.append_all(log, [batch(sequence=0, **sequence)], epoch=EPOCH)
        assert not append_run(directory, log, [batch(sequence=1, **sequence), batch(sequence=0, **sequence)])
        assert not append_run(directory, log, [batch(sequence=1, **sequence), batch(sequence=5, **sequence)])
        assert (log.log_end_offset, len(log.segments)) == (3, 1)
        assert append_run(directory, log, [batch(sequence=1, **sequence), batch(sequence=2, **sequence)])
        assert log.log_end_offset == 5
