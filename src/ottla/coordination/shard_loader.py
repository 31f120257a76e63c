"""Reading a shard's state back from its partition of the internal topic."""

from typing import Any, cast

from msgspec import Struct

from ottla.coordination.limits import CoordinatorLimits
from ottla.coordination.shard import CoordinatorShard, TransactionalShard
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.native import BatchInfo, decode_newest, decode_records, walk_batches
from ottla.records.control import ControlRecordType, decode_control_key
from ottla.replication.partition import Partition
from ottla.runtime.environment import Environment
from ottla.runtime.turns import in_turns

DECOMPRESSED_BYTES_MAX = 256 * 1024 * 1024
"""How much one chunk may grow to when it is decompressed: batches of an internal topic were written by a broker, but
the file may have been brought from elsewhere.
"""


class LoadReport(Struct, frozen=True):
    """What a load found: the offset it ended at, how many records there were, and how many of those that still hold it
    did not know.
    """

    end_offset: int
    record_count: int
    unknown_count: int


class _Run(Struct, frozen=True):
    """Records that follow each other and are of no transaction or of one producer's, or the end of its transaction."""

    records: list[Any | None]
    producer_id: int | None = None
    committed: bool | None = None


COMMIT_POLL_MS = 5
"""How long to wait before looking again whether the last records of the log are committed."""


async def load_shard(
    shard: CoordinatorShard,
    partition: Partition,
    environment: Environment,
    limits: CoordinatorLimits,
    *,
    every_record: bool = False,
) -> LoadReport:
    """Replay a partition into a shard, from its log start to the end it has now.

    Of a compacted topic only the newest record of each key is replayed; with `every_record` all of them are.

    Records that are in the log but not committed yet are waited for: they were decided by an earlier leader, or by this
    shard before it had to load again, and nothing may be decided without them. When the disk lost some, the log ends
    where it ends then. Reading and decoding happen in a thread, a chunk at a time; only `replay` runs on the loop,
    some records in a turn. Raises what reading raises (ApiError, OSError), InvalidInputError for a broken record, and
    ApiError NOT_LEADER_OR_FOLLOWER.
    """
    offset = partition.log.log_start_offset
    end_offset = partition.log.log_end_offset
    record_count = unknown_count = 0
    while offset < min(end_offset, partition.log.log_end_offset):
        if not partition.is_leader:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker stopped leading {partition.topic_partition}")
        if partition.high_watermark <= offset:
            await environment.timer.sleep(COMMIT_POLL_MS)
            continue
        chunk = await partition.read_bytes(offset, limits.load_chunk_bytes)
        next_offset, runs, count = await environment.tasks.in_thread(_decode, shard, chunk, offset, every_record)
        if next_offset <= offset:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{partition.topic_partition} has no batch at offset {offset}")
        for run in runs:
            unknown_count += await _replay(shard, run)
        record_count += count
        offset = next_offset
    return LoadReport(offset, record_count, unknown_count)


async def _replay(shard: CoordinatorShard, run: _Run) -> int:
    """Apply a run, some records in a turn; returns how many of them the shard did not know."""
    if run.committed is not None and run.producer_id is not None:
        cast("TransactionalShard", shard).replay_transaction_end(run.producer_id, committed=run.committed)
        return 0
    unknown_count = 0
    async for some in in_turns(run.records):
        for record in some:
            if record is None:
                unknown_count += 1
            elif run.producer_id is None:
                shard.replay(record)
            else:
                cast("TransactionalShard", shard).replay_transactional(record, run.producer_id)
    return unknown_count


def _decode(
    shard: CoordinatorShard, chunk: bytes, start_offset: int, every_record: bool
) -> tuple[int, list[_Run], int]:
    """The offset after the whole batches in a chunk, of their records the newest of each key, and how many there were.

    The topic is compacted: what a record says is over when a newer one has its key. So most of a log that was not
    compacted yet, a record for each commit, is passed over in the kernel. What is part of a transaction keeps its place
    among the others: it holds from where the transaction was committed, or not at all.
    """
    batches, _, error = walk_batches(chunk, check_crc=True)
    if error is not None:
        raise error
    if not batches:
        return start_offset, [], 0
    runs: list[_Run] = []
    record_count = first = 0
    for index in range(1, len(batches) + 1):
        if index < len(batches) and _belong_together(batches[first], batches[index]):
            continue
        start, last = batches[first].position, batches[index - 1]
        data = memoryview(chunk)[start : last.position + last.size]
        run, count = _decode_run(shard, data, last, start_offset, every_record)
        runs += run
        record_count += count
        first = index
    return batches[-1].last_offset + 1, runs, record_count


def _belong_together(first: BatchInfo, other: BatchInfo) -> bool:
    """Whether a batch is of the run that another one began."""
    if first.is_control or other.is_control or first.is_transactional != other.is_transactional:
        return False
    return not first.is_transactional or first.producer_id == other.producer_id


def _decode_run(
    shard: CoordinatorShard, data: memoryview, batch: BatchInfo, start_offset: int, every_record: bool
) -> tuple[list[_Run], int]:
    """The records of batches that belong together, `batch` being the last of them."""
    if batch.is_control:
        decoded = decode_records(data, max_decompressed_bytes=DECOMPRESSED_BYTES_MAX, include_control=True)
        ends = [decode_control_key(key) for _, _, key, _, _ in decoded]
        return [
            _Run([], batch.producer_id, end is ControlRecordType.COMMIT)
            for end in ends
            if end in (ControlRecordType.COMMIT, ControlRecordType.ABORT)
        ], 0
    if every_record:
        decoded = decode_records(data, max_decompressed_bytes=DECOMPRESSED_BYTES_MAX, start_offset=start_offset)
        found = [shard.decode(key, value) for _, _, key, value, _ in decoded if key is not None]
        return [_Run(found)], len(decoded)
    newest, count = decode_newest(data, max_decompressed_bytes=DECOMPRESSED_BYTES_MAX, start_offset=start_offset)
    records = [shard.decode(key, value) for _, key, value in newest]
    return [_Run(records, batch.producer_id if batch.is_transactional else None)], count
