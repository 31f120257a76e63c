"""Reading a shard's state back from its partition of the internal topic."""

from typing import Any

from msgspec import Struct

from ottla.coordination.environment import Environment
from ottla.coordination.shard import CoordinatorShard
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.native import decode_newest, walk_batches
from ottla.replication.partition import Partition
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


COMMIT_POLL_MS = 5
"""How long to wait before looking again whether the last records of the log are committed."""


async def load_shard(shard: CoordinatorShard, partition: Partition, environment: Environment) -> LoadReport:
    """Replay a partition into a shard, from its log start to the end it has now.

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
        chunk = await partition.read_bytes(offset, environment.limits.load_chunk_bytes)
        next_offset, records, count = await environment.tasks.in_thread(_decode, shard, chunk, offset)
        if next_offset <= offset:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{partition.topic_partition} has no batch at offset {offset}")
        async for some in in_turns(records):
            for record in some:
                if record is None:
                    unknown_count += 1
                else:
                    shard.replay(record)
        record_count += count
        offset = next_offset
    return LoadReport(offset, record_count, unknown_count)


def _decode(shard: CoordinatorShard, chunk: bytes, start_offset: int) -> tuple[int, list[Any | None], int]:
    """The offset after the whole batches in a chunk, of their records the newest of each key, and how many there were.

    The topic is compacted: what a record says is over when a newer one has its key. So most of a log that was not
    compacted yet, a record for each commit, is passed over in the kernel.
    """
    batches, consumed, error = walk_batches(chunk, check_crc=True)
    if error is not None:
        raise error
    if not batches:
        return start_offset, [], 0
    decoded, count = decode_newest(
        memoryview(chunk)[:consumed], max_decompressed_bytes=DECOMPRESSED_BYTES_MAX, start_offset=start_offset
    )
    return batches[-1].last_offset + 1, [shard.decode(key, value) for _, key, value in decoded], count
