"""Runs that a leader leaves alone: their batches are appended one by one, which refuses them or has them wait."""

import asyncio
from collections.abc import Callable
from typing import Any

from ottla.model.error_code import ErrorCode
from ottla.native import build_batch
from ottla.records.compression import CompressionType
from ottla.replication.acknowledgement import AppendAck
from ottla.replication.batch_decompressor import BatchDecompressor
from ottla.replication.partition import ACKS_ALL, ACKS_LEADER, Partition
from ottla.runtime.tasks import Tasks
from ottla.storage.log_config import LogConfig
from tests.unit.replication.conftest import Appended
from tests.unit.storage.test_log_run import run_of

NewPartition = Callable[..., Any]


def batch(codec: int = CompressionType.NONE) -> bytearray:
    return build_batch([(1_000, b"k", b"v", ())], codec=codec)


def append(partition: Partition, records: bytearray) -> Appended:
    appended = Appended()
    partition.append(records, acks=ACKS_LEADER, on_ack=appended.on_ack, on_buffer_free=appended.on_buffer_free)
    return appended


def append_run(partition: Partition, acks: int) -> Appended | None:
    """Two batches as a run; None when it is left alone, and then nothing was called and nothing has happened."""
    appended = Appended()
    end_offset = partition.log.log_end_offset
    run = run_of([batch(), batch()], acks)
    if partition.role.append_run(run, on_ack=appended.on_ack, on_buffer_free=appended.on_buffer_free):
        return appended
    assert (partition.log.log_end_offset, appended.ack.done(), appended.freed) == (end_offset, False, 0)
    return None


async def test_with_too_few_replicas_in_sync_no_run_is_appended_that_asks_for_all(new_partition: NewPartition) -> None:
    partition = await new_partition()
    await append(partition, batch()).ack
    partition.min_insync_replicas, partition.replica_count = 2, 3
    assert append_run(partition, ACKS_ALL) is None
    appended = append_run(partition, ACKS_LEADER)
    assert appended is not None
    assert ((await appended.ack).error, (await appended.ack).base_offset) == (ErrorCode.NONE, 1)
    partition.min_insync_replicas = 1
    appended = append_run(partition, ACKS_ALL)
    assert appended is not None
    assert (await appended.ack).base_offset == 3


class HeldTasks(Tasks):
    """Threads that begin when the test says so."""

    def __init__(self) -> None:
        super().__init__("held")
        self.gate = asyncio.Event()

    async def in_thread(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        await self.gate.wait()
        return await super().in_thread(function, *args, **kwargs)


async def test_no_run_overtakes_a_batch_that_is_being_opened(new_partition: NewPartition) -> None:
    tasks = HeldTasks()
    opener = BatchDecompressor(tasks)
    config = LogConfig(cleanup_policy=frozenset({"compact"}))
    partition = await new_partition(config=config, opener=opener)
    await append(partition, batch()).ack
    opened = append(partition, batch(CompressionType.GZIP))
    assert append_run(partition, ACKS_LEADER) is None
    behind = append(partition, batch())
    tasks.gate.set()
    acks: list[AppendAck] = [await opened.ack, await behind.ack]
    assert [(ack.error, ack.base_offset) for ack in acks] == [(ErrorCode.NONE, 1), (ErrorCode.NONE, 2)]
    appended = append_run(partition, ACKS_LEADER)
    assert appended is not None
    assert (await appended.ack).base_offset == 3
    await opener.close()


def write_run(partition: Partition, acks: int, *batches: bytearray) -> int | None:
    """The first offset of batches that are written at once; None when they are left alone, and nothing has happened."""
    end_offset, high_watermark = partition.log.log_end_offset, partition.high_watermark
    info = partition.role.write_run(run_of(batches, acks))
    if info is None:
        assert (partition.log.log_end_offset, partition.high_watermark) == (end_offset, high_watermark)
        return None
    assert info.first_offset == end_offset
    assert partition.high_watermark == partition.log.log_end_offset == end_offset + len(batches)
    return info.first_offset


async def written_at_once(partition: Partition, acks: int, *batches: bytearray) -> int:
    """`write_run`, when the thread has nothing to do."""
    while (offset := write_run(partition, acks, *batches)) is None:
        await partition.log.flush()
    return offset


async def test_what_is_written_at_once_is_committed_and_readers_hear_of_it(new_partition: NewPartition) -> None:
    partition = await new_partition(flush_before_ack=False)
    await append(partition, batch()).ack
    heard: list[int] = []
    partition.subscribe(lambda each: heard.append(each.high_watermark))
    assert await written_at_once(partition, ACKS_ALL, batch()) == 1
    assert await written_at_once(partition, ACKS_LEADER, batch(), batch()) == 2
    assert heard == [2, 4]
    assert partition.unacknowledged_count == 0


async def test_nothing_is_written_at_once_that_has_to_wait_or_is_refused(new_partition: NewPartition) -> None:
    partition = await new_partition(flush_before_ack=False)
    await append(partition, batch()).ack
    await written_at_once(partition, ACKS_ALL, batch())
    broken = batch()
    broken[-1] ^= 1
    assert write_run(partition, ACKS_ALL, broken) is None
    assert write_run(partition, ACKS_ALL, batch(), broken) is None
    partition.flush_before_ack = True
    assert write_run(partition, ACKS_ALL, batch()) is None
    partition.flush_before_ack = False
    partition.min_insync_replicas, partition.replica_count = 2, 3
    assert write_run(partition, ACKS_ALL, batch()) is None
    partition.min_insync_replicas = partition.replica_count = 1
    release = partition.hold_appends()
    assert write_run(partition, ACKS_ALL, batch()) is None
    release()
    partition.high_watermark -= 1
    assert write_run(partition, ACKS_ALL, batch()) is None
    partition.high_watermark += 1
    earlier = append(partition, batch())
    assert write_run(partition, ACKS_ALL, batch()) is None
    await earlier.ack
    assert await written_at_once(partition, ACKS_ALL, batch()) == 3
    partition.become_follower(5)
    assert write_run(partition, ACKS_ALL, batch()) is None
