"""DeleteRecords, and what readers see of it."""

import asyncio
import errno
from collections.abc import Iterable
from pathlib import Path

import pytest

from ottla.broker.fetch import FetchLimits, FetchTarget, read_partitions
from ottla.broker.record_deletion import RecordDeletion, RecordsBefore
from ottla.gateways.kafka.api_02_list_offsets import API as LIST_OFFSETS
from ottla.gateways.kafka.api_21_delete_records import API
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import ANONYMOUS
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.storage.log_config import LogConfig

ALL = -1


async def delete(gateway, *wanted, version=API.max_version):
    """The error and the low watermark of each partition."""
    topics = tuple(
        DeleteRecordsTopic(name, (DeleteRecordsPartition(partition_index=index, offset=offset),))
        for name, index, offset in wanted
    )
    answer = await gateway.ask(API, DeleteRecordsRequest(topics=topics, timeout_ms=1_000), version)
    results = {(topic.name, each.partition_index): each for topic in answer.topics for each in topic.partitions}
    assert len(results) == len(wanted)
    return [(results[name, index].error_code, results[name, index].low_watermark) for name, index, _ in wanted]


async def offset_of(gateway, timestamp, index=0):
    request = ListOffsetsRequest(
        replica_id=-1, topics=(ListOffsetsTopic("t", (ListOffsetsPartition(index, timestamp=timestamp),)),)
    )
    (topic,) = (await gateway.ask(LIST_OFFSETS, request)).topics
    return topic.partitions[0].offset


def read(partition, offset):
    (result,) = read_partitions([FetchTarget(partition, offset, 1 << 20)], FetchLimits(1 << 20, 1, 0))
    return result


@pytest.mark.parametrize("version", range(API.min_version, API.max_version + 1))
async def test_records_before_an_offset_are_gone_for_every_reader(log_gateway, version):
    partition = await log_gateway.partition()
    for _ in range(3):
        await log_gateway.append(partition, 4)
    assert await delete(log_gateway, ("t", 0, 6), version=version) == [(ErrorCode.NONE, 6)]
    gone = read(partition, 5)
    assert (gone.error, gone.log_start_offset, gone.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, 6, 12)
    there = read(partition, 6)
    assert (there.error, there.log_start_offset) == (ErrorCode.NONE, 6)
    assert there.total_bytes > 0
    assert [await offset_of(log_gateway, each) for each in (-2, -4, 0, -1)] == [6, 6, 6, 12]


async def test_everything_that_is_committed_can_be_deleted(log_gateway):
    partition = await log_gateway.partition()
    await log_gateway.append(partition, 5)
    assert await delete(log_gateway, ("t", 0, ALL)) == [(ErrorCode.NONE, 5)]
    assert read(partition, 5).error is ErrorCode.NONE
    assert read(partition, 4).error is ErrorCode.OFFSET_OUT_OF_RANGE
    assert await offset_of(log_gateway, -3) == -1
    await log_gateway.append(partition, 2)
    assert await offset_of(log_gateway, -3) == 6


async def test_the_greatest_time_is_that_of_a_record_that_is_left(log_gateway):
    partition = await log_gateway.partition()
    await log_gateway.append(partition, 9)
    await log_gateway.append(partition, 5)
    await log_gateway.append(partition, 4)
    assert await offset_of(log_gateway, -3) == 8
    await delete(log_gateway, ("t", 0, 12))
    assert await offset_of(log_gateway, -3) == 13
    await delete(log_gateway, ("t", 0, 14))
    assert await offset_of(log_gateway, -3) == 17


async def test_of_a_partition_that_is_named_twice_the_last_one_counts(log_gateway):
    await log_gateway.append(await log_gateway.partition(), 5)
    wanted = tuple(DeleteRecordsPartition(partition_index=0, offset=offset) for offset in (4, 2))
    topics = (DeleteRecordsTopic("t", wanted), DeleteRecordsTopic("t", wanted[1:]))
    answer = await log_gateway.ask(API, DeleteRecordsRequest(topics=topics, timeout_ms=1_000))
    assert [[each.low_watermark for each in topic.partitions] for topic in answer.topics] == [[2]]


async def test_the_log_start_never_moves_back(log_gateway):
    await log_gateway.append(await log_gateway.partition(), 5)
    answers = [await delete(log_gateway, ("t", 0, offset)) for offset in (3, 1, 0, 3)]
    assert answers == [[(ErrorCode.NONE, 3)]] * 4


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (("t", 0, 6), ErrorCode.OFFSET_OUT_OF_RANGE),
        (("t", 0, -2), ErrorCode.OFFSET_OUT_OF_RANGE),
        (("t", 9, 0), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (("nope", 0, 0), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (("bad name", 0, 0), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (("compacted", 0, 0), ErrorCode.POLICY_VIOLATION),
        (("__consumer_offsets", 0, 0), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (("led-elsewhere", 0, 0), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
async def test_what_cannot_be_deleted_is_refused_beside_what_can(log_gateway, wanted, code):
    await log_gateway.append(await log_gateway.partition(), 5)
    await log_gateway.partition("compacted", config=LogConfig(cleanup_policy=frozenset({"compact"})))
    await log_gateway.partition("__consumer_offsets")
    (await log_gateway.partition("led-elsewhere")).is_leader = False
    other = await log_gateway.partition("t", 1)
    await log_gateway.append(other, 2)
    assert await delete(log_gateway, wanted, ("t", 1, 1)) == [(code, -1), (ErrorCode.NONE, 1)]


@pytest.mark.parametrize("policy", [{"compact", "delete"}, {"delete"}, set()])
async def test_every_policy_that_lets_records_go_allows_it(log_gateway, policy):
    partition = await log_gateway.partition(config=LogConfig(cleanup_policy=frozenset(policy)))
    await log_gateway.append(partition, 5)
    assert await delete(log_gateway, ("t", 0, 4)) == [(ErrorCode.NONE, 4)]


async def test_what_is_not_committed_cannot_be_deleted(log_gateway):
    partition = await log_gateway.partition()
    await log_gateway.append(partition, 5)
    partition.high_watermark = 3
    assert await delete(log_gateway, ("t", 0, 4)) == [(ErrorCode.OFFSET_OUT_OF_RANGE, -1)]
    assert await delete(log_gateway, ("t", 0, ALL)) == [(ErrorCode.NONE, 3)]


async def test_readers_that_wait_are_looked_at_again(log_gateway):
    partition = await log_gateway.partition()
    await log_gateway.append(partition, 5)
    log_gateway.moved.clear()
    await delete(log_gateway, ("t", 0, 5))
    await delete(log_gateway, ("t", 0, 5))
    assert log_gateway.moved == [partition]


async def test_the_log_start_is_on_disk_when_the_answer_is_there(log_gateway):
    await log_gateway.append(await log_gateway.partition(), 5)
    await log_gateway.append(await log_gateway.partition("t", 1), 5)
    await delete(log_gateway, ("t", 0, 3), ("t", 1, 5))
    checkpoint = (log_gateway.directory / "log-start-offset-checkpoint").read_text()
    assert checkpoint == "0\n2\nt 0 3\nt 1 5\n"


async def test_a_segment_that_returns_after_a_crash_brings_no_records_back(log_gateway):
    """The log start is kept even when it is the beginning of a segment: the one before it may not be removed yet."""
    small = LogConfig(segment_bytes=150, retention_ms=-1)
    partition = await log_gateway.partition(config=small)
    for _ in range(3):
        await log_gateway.append(partition, 2)
    second = partition.log.segments[1].base_offset
    await delete(log_gateway, ("t", 0, second))
    removed = Path(partition.log.segments[0].log_path)
    content = _content(removed)
    await log_gateway.logs.apply_retention()
    assert partition.log.segments[0].base_offset == second
    await log_gateway.logs.checkpoint_log_starts()
    await log_gateway.close()
    _leave_as_after_a_crash(log_gateway.directory, removed, content)
    await log_gateway.open()
    again = await log_gateway.partition(config=small)
    assert (again.log.log_start_offset, again.log.log_end_offset) == (second, 6)


def _content(file: Path) -> bytes:
    return file.read_bytes()


def _leave_as_after_a_crash(directory: Path, file: Path, content: bytes) -> None:
    file.write_bytes(content)
    (directory / ".kafka_cleanshutdown").unlink()


async def test_those_who_ask_together_share_a_write(log_gateway):
    partitions = [await log_gateway.partition("t", index) for index in range(20)]
    for partition in partitions:
        await log_gateway.append(partition, 5)
    writes = 0
    write = log_gateway.logs.directories[0].directory.log_starts.write

    def counted(offsets):
        nonlocal writes
        writes += 1
        write(offsets)

    log_gateway.logs.directories[0].directory.log_starts = type("Counting", (), {"write": staticmethod(counted)})()
    answers = await asyncio.gather(*(delete(log_gateway, ("t", index, 3)) for index in range(20)))
    assert answers == [[(ErrorCode.NONE, 3)]] * 20
    assert writes <= 2


async def test_a_log_start_that_cannot_be_written_is_not_acknowledged(log_gateway):
    await log_gateway.append(await log_gateway.partition(), 5)

    async def full(names: Iterable[TopicPartition]) -> None:
        assert list(names) == [TopicPartition("t", 0), TopicPartition("x", 0)]
        raise OSError(errno.ENOSPC, "no space left on device")

    deletion = RecordDeletion(log_gateway.replicas, full, log_gateway.timer)
    refused, unknown = await deletion.delete(ANONYMOUS, [RecordsBefore("t", 0, 3), RecordsBefore("x", 0, 3)], 0)
    assert isinstance(refused, ApiError)
    assert isinstance(unknown, ApiError)
    assert (refused.code, unknown.code) == (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


async def test_a_topic_made_again_under_the_name_begins_at_zero(log_gateway):
    partition = await log_gateway.partition()
    await log_gateway.append(partition, 5)
    await delete(log_gateway, ("t", 0, ALL))
    log_gateway.replicas.remove([partition.topic_partition])
    await log_gateway.logs.delete_log(partition.topic_partition)
    again = await log_gateway.partition()
    assert again.log.log_start_offset == 0
    assert (log_gateway.directory / "log-start-offset-checkpoint").read_text() == "0\n0\n"
