"""Batches that have to be opened: refused record by record, or kept in the topic's codec, each in its place."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from ottla.model.error_code import ErrorCode
from ottla.native import build_batch, decode_records, walk_batches
from ottla.records.compression import CompressionType
from ottla.replication.batch_decompressor import BatchDecompressor
from ottla.replication.partition import ACKS_ALL, ACKS_LEADER, ACKS_NONE, Partition
from ottla.runtime.clock import SystemClock
from ottla.runtime.tasks import Tasks
from ottla.storage.log_config import LogConfig, TimestampType
from tests.unit.native.independent_codec import with_header
from tests.unit.replication.conftest import Appended

NewPartition = Callable[..., Any]
HOUR_MS = 3_600_000
CODECS = list(CompressionType)
COMPRESSED = CODECS[1:]
COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}))
GZIPPED = LogConfig(compression_type=CompressionType.GZIP)
EACH_CODEC = pytest.mark.parametrize("codec", CODECS)


class HeldTasks(Tasks):
    """Threads that begin when the test says so: `begun` has a gate for each in turn, `ended` says that one is done."""

    def __init__(self) -> None:
        super().__init__("held")
        self.begun: asyncio.Queue[asyncio.Future[None]] = asyncio.Queue()
        self.ended: asyncio.Queue[None] = asyncio.Queue()

    async def in_thread(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.begun.put_nowait(gate)
        await gate
        try:
            return await super().in_thread(function, *args, **kwargs)
        finally:
            self.ended.put_nowait(None)


@pytest.fixture
async def held() -> AsyncIterator[tuple[BatchDecompressor, HeldTasks]]:
    """An opener whose threads wait for the test."""
    tasks = HeldTasks()
    opener = BatchDecompressor(tasks)
    yield opener, tasks
    await opener.close()


def now_ms() -> int:
    return SystemClock().now_ms()


def batch(*values: bytes, codec: int = 0, key: bytes | None = b"k", **options: Any) -> bytearray:
    """A batch of records with these values, from now."""
    return build_batch([(now_ms(), key, value, []) for value in values], codec=codec, **options)


def append(partition: Partition, records: bytearray, acks: int = ACKS_ALL) -> Appended:
    appended = Appended()
    partition.append(records, acks=acks, on_ack=appended.on_ack, on_buffer_free=appended.on_buffer_free)
    return appended


async def content(partition: Partition) -> bytes:
    await partition.log.flush()
    slices = partition.log.read(0, 1 << 24, max_offset=partition.log.log_end_offset).slices
    return b"".join(os.pread(piece.fd, piece.size, piece.position) for piece in slices)


async def values(partition: Partition) -> list[bytes | None]:
    return [record[3] for record in decode_records(await content(partition), max_decompressed_bytes=1 << 24)]


async def offsets(appends: Sequence[Appended]) -> list[int]:
    acks = [await each.ack for each in appends]
    assert {ack.error for ack in acks} == {ErrorCode.NONE}
    assert [each.freed for each in appends] == [1] * len(appends)
    return [ack.base_offset for ack in acks]


@EACH_CODEC
async def test_a_compacted_topic_refuses_a_record_without_a_key_and_names_it(
    new_partition: NewPartition, codec: int
) -> None:
    partition = await new_partition(config=COMPACTED)
    records = build_batch([(now_ms(), key, b"v", []) for key in (b"a", None, b"c")], codec=codec)
    appended = append(partition, records)
    ack = await appended.ack
    assert ack.error is ErrorCode.INVALID_RECORD
    assert [index for index, _ in ack.record_errors] == [1]
    assert "key" in ack.record_errors[0][1]
    assert "t-0" in (ack.message or "")
    assert appended.freed == 1
    assert partition.log.log_end_offset == 0
    assert await offsets([append(partition, batch(b"v", codec=codec))]) == [0]


@EACH_CODEC
async def test_every_record_of_a_batch_is_within_the_topics_limits_of_time(
    new_partition: NewPartition, codec: int
) -> None:
    partition = await new_partition(config=LogConfig(message_timestamp_before_max_ms=HOUR_MS))
    now = now_ms()
    times = (now, now - 2 * HOUR_MS, now, now + 3 * HOUR_MS, now)
    ack = await append(partition, build_batch([(time, None, b"", []) for time in times], codec=codec)).ack
    assert ack.error is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in ack.record_errors] == [1, 3]
    assert partition.log.log_end_offset == 0


@pytest.mark.parametrize("codec", COMPRESSED)
async def test_where_the_broker_sets_the_time_no_batch_is_opened_for_it(
    new_partition: NewPartition, held: tuple[BatchDecompressor, HeldTasks], codec: int
) -> None:
    config = LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME, message_timestamp_before_max_ms=1)
    partition = await new_partition(config=config, opener=held[0])
    assert await offsets([append(partition, build_batch([(1, None, b"", [])], codec=codec))]) == [0]


@EACH_CODEC
async def test_a_largest_timestamp_that_no_record_has_is_not_written(new_partition: NewPartition, codec: int) -> None:
    partition = await new_partition(config=COMPACTED)
    await append(partition, with_header(bytes(batch(b"v", codec=codec)), max_timestamp=now_ms() + 1000 * HOUR_MS)).ack
    (written,), _, _ = walk_batches(await content(partition), check_crc=True)
    assert written.max_timestamp == written.base_timestamp


@pytest.mark.parametrize("target", CODECS)
@EACH_CODEC
async def test_batches_are_kept_in_the_topics_codec(new_partition: NewPartition, codec: int, target: int) -> None:
    partition = await new_partition(config=LogConfig(compression_type=CompressionType(target)))
    sent = [batch(b"a" * 100, b"b", codec=codec, producer_id=7, producer_epoch=0, base_sequence=0), batch(b"c")]
    appends = [append(partition, each, acks) for each, acks in zip(sent, (ACKS_LEADER, ACKS_ALL), strict=True)]
    assert await offsets(appends) == [0, 2]
    batches, _, error = walk_batches(await content(partition), check_crc=True)
    assert error is None
    assert [each.codec for each in batches] == [target, target]
    assert [each.producer_id for each in batches] == [7, -1]
    assert await values(partition) == [b"a" * 100, b"b", b"c"]


@pytest.mark.parametrize("acks", [ACKS_NONE, ACKS_LEADER, ACKS_ALL])
async def test_what_comes_while_a_batch_is_opened_waits_behind_it(
    new_partition: NewPartition, held: tuple[BatchDecompressor, HeldTasks], acks: int
) -> None:
    opener, tasks = held
    partition = await new_partition(config=COMPACTED, opener=opener)
    first = append(partition, batch(b"1", codec=4, producer_id=7, producer_epoch=0, base_sequence=0), acks)
    second = append(partition, batch(b"2", producer_id=7, producer_epoch=0, base_sequence=1), acks)
    third = append(partition, batch(b"3", codec=2, producer_id=7, producer_epoch=0, base_sequence=2), acks)
    gates = [await tasks.begun.get() for _ in range(2)]
    assert opener.waiting_count == 3
    gates[1].set_result(None)
    await tasks.ended.get()
    assert partition.log.log_end_offset == 0, "the third was opened before the first, and still waits"
    gates[0].set_result(None)
    acked = [await each.ack for each in (first, second, third)]
    assert [ack.base_offset for ack in acked] == [0, 1, 2]
    assert await values(partition) == [b"1", b"2", b"3"]
    assert [each.freed for each in (first, second, third)] == [1, 1, 1]
    assert opener.waiting_count == 0


async def test_nothing_waits_where_nothing_is_open(
    new_partition: NewPartition, held: tuple[BatchDecompressor, HeldTasks]
) -> None:
    partition = await new_partition(config=COMPACTED, opener=held[0])
    other = await new_partition(1, config=COMPACTED, opener=held[0])
    waiting = append(partition, batch(b"1", codec=4))
    assert await offsets([append(other, batch(b"2"))]) == [0]
    assert not waiting.ack.done()
    (await held[1].begun.get()).set_result(None)
    assert await offsets([waiting]) == [0]


async def test_a_batch_that_is_refused_once_it_is_opened_stops_nobody_behind_it(new_partition: NewPartition) -> None:
    partition = await new_partition(config=COMPACTED)
    appends = [append(partition, batch(b"%d" % n, codec=1, key=None if n == 1 else b"k")) for n in range(4)]
    errors = [(await each.ack).error for each in appends]
    assert errors == [ErrorCode.NONE, ErrorCode.INVALID_RECORD, ErrorCode.NONE, ErrorCode.NONE]
    assert await values(partition) == [b"0", b"2", b"3"]


async def test_a_bomb_is_refused_with_the_setting_that_says_how_much(new_partition: NewPartition) -> None:
    partition = await new_partition(config=LogConfig(max_message_bytes=50_000, compression_type=CompressionType.LZ4))
    ack = await append(partition, batch(bytes(4 << 20), codec=4)).ack
    assert ack.error is ErrorCode.MESSAGE_TOO_LARGE
    assert "1600000 bytes" in (ack.message or "")
    assert "max.message.bytes" in (ack.message or "")


async def test_a_batch_that_is_too_large_once_it_is_written_anew_is_refused(new_partition: NewPartition) -> None:
    partition = await new_partition(config=LogConfig(max_message_bytes=5_000, compression_type=CompressionType.NONE))
    ack = await append(partition, batch(bytes(10_000), codec=4)).ack
    assert ack.error is ErrorCode.MESSAGE_TOO_LARGE
    assert "5000" in (ack.message or "")
    assert partition.log.log_end_offset == 0


@pytest.mark.parametrize("end", [Partition.stop, lambda partition: partition.fail("the disk is gone")])
async def test_a_partition_that_ends_answers_who_waits_once_and_writes_nothing_of_theirs(
    new_partition: NewPartition, held: tuple[BatchDecompressor, HeldTasks], end: Callable[[Partition], None]
) -> None:
    opener, tasks = held
    partition = await new_partition(config=GZIPPED, opener=opener)
    appends = [append(partition, batch(b"%d" % n, codec=n % 2)) for n in range(4)]
    gates = [await tasks.begun.get() for _ in range(2)]
    end(partition)
    errors = {(await each.ack).error for each in appends}
    assert errors <= {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR}
    assert appends[0].freed == 0, "a thread has these bytes"
    for gate in gates:
        gate.set_result(None)
    await opener.close()
    assert [each.freed for each in appends] == [1] * 4
    assert partition.log.log_end_offset == 0
    assert (opener.open_bytes, opener.waiting_count) == (0, 0)


async def test_a_partition_that_begins_anew_after_a_failure_of_the_disk_appends_in_order(
    new_partition: NewPartition, held: tuple[BatchDecompressor, HeldTasks]
) -> None:
    opener, tasks = held
    partition = await new_partition(config=GZIPPED, opener=opener)
    lost = append(partition, batch(b"lost"))
    partition.fail("the disk is gone")
    kept = [append(partition, batch(b"%d" % n, codec=n % 2)) for n in range(2)]
    for _ in range(2):
        (await tasks.begun.get()).set_result(None)
    assert (await lost.ack).error is ErrorCode.KAFKA_STORAGE_ERROR
    assert await offsets(kept) == [0, 1]
    assert await values(partition) == [b"0", b"1"]


async def test_a_callback_that_raises_stops_nobody_behind_it(new_partition: NewPartition) -> None:
    partition = await new_partition(config=GZIPPED)

    def raising(ack: object) -> None:
        raise RuntimeError("a connection that is gone")

    partition.append(batch(b"1"), acks=ACKS_NONE, on_ack=raising)
    assert await offsets([append(partition, batch(b"2"))]) == [1]


async def test_so_much_memory_is_used_for_what_is_open_at_a_time(new_partition: NewPartition) -> None:
    tasks = HeldTasks()
    opener = BatchDecompressor(tasks, bytes_max=1 << 20)
    partition = await new_partition(config=GZIPPED, opener=opener)
    appends = [append(partition, batch(bytes(200_000))) for _ in range(3)]
    for appended in appends:
        gate = await tasks.begun.get()
        assert tasks.begun.empty(), "one at a time: each may take three times 200,000 bytes"
        assert opener.open_bytes <= 1 << 20
        gate.set_result(None)
        await appended.ack
    await partition.log.flush()
    assert opener.open_bytes == 0
    await opener.close()


async def test_a_batch_larger_than_the_bound_is_opened_alone(new_partition: NewPartition) -> None:
    opener = BatchDecompressor(Tasks("open"), bytes_max=1_000)
    partition = await new_partition(config=GZIPPED, opener=opener)
    assert await offsets([append(partition, batch(bytes(50_000))) for _ in range(3)]) == [0, 1, 2]
    await opener.close()


async def test_so_many_wait_and_no_more(new_partition: NewPartition) -> None:
    tasks = HeldTasks()
    opener = BatchDecompressor(tasks, waiting_max=2)
    partition = await new_partition(config=GZIPPED, opener=opener)
    waiting = [append(partition, batch(b"%d" % n)) for n in range(2)]
    refused = append(partition, batch(b"2"))
    ack = await refused.ack
    assert ack.error is ErrorCode.REQUEST_TIMED_OUT
    assert refused.freed == 1
    for _ in range(2):
        (await tasks.begun.get()).set_result(None)
    assert await offsets(waiting) == [0, 1]
    await opener.close()


async def test_an_opener_that_closes_ends_what_it_began_and_answers_who_waits(new_partition: NewPartition) -> None:
    tasks = HeldTasks()
    opener = BatchDecompressor(tasks)
    partition = await new_partition(config=GZIPPED, opener=opener)
    appends = [append(partition, batch(b"%d" % n)) for n in range(5)]
    closing = asyncio.create_task(opener.close())
    for _ in range(2):
        (await tasks.begun.get()).set_result(None)
    await closing
    assert await offsets(appends[:2]) == [0, 1]
    assert {(await each.ack).error for each in appends[2:]} == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert [each.freed for each in appends] == [1] * 5
    assert (opener.open_bytes, opener.waiting_count) == (0, 0)


async def test_a_duplicate_of_a_batch_that_is_being_opened_is_known_when_its_turn_comes(
    new_partition: NewPartition,
) -> None:
    partition = await new_partition(config=GZIPPED)
    sent = batch(b"1", producer_id=7, producer_epoch=0, base_sequence=0)
    appends = [append(partition, bytearray(sent)) for _ in range(2)]
    assert await offsets(appends) == [0, 0]
    assert await values(partition) == [b"1"]
