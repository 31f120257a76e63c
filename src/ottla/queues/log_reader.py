"""Reads the batches of a partition that records are delivered from: about as much as is delivered at once, or a little
more, which is kept for the next delivery.
"""

import logging
from bisect import bisect_left, bisect_right
from typing import Final

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.native import BatchInfo, walk_batches
from ottla.queues.aborted_batches import AbortedBatches
from ottla.queues.recent_reads import Read, ReadKey, RecentReads
from ottla.queues.share_state import ShareKey
from ottla.replication.partition import Partition
from ottla.runtime.tasks import Tasks

logger = logging.getLogger(__name__)

NOTHING: Final[frozenset[int]] = frozenset()

READ_BYTES_MIN: Final = 256 * 1024
"""So much is read at least, so that small deliveries in a row share a read."""

WINDOW_BYTES_MAX: Final = 2 * 1024 * 1024
"""So much is looked at for one delivery of single records out of many batches."""


class LogReader:
    """Of one partition, as it is led in one epoch. Belongs to the event loop."""

    def __init__(
        self, partition: Partition, key: ShareKey, leader_epoch: int, reads: RecentReads, tasks: Tasks
    ) -> None:
        """`reads` has what was read of logs for others."""
        self._partition = partition
        self._keys = tuple(ReadKey(key.topic_id, key.partition, leader_epoch, committed) for committed in (False, True))
        self._reads = reads
        self._tasks = tasks
        self._record_bytes = 0.0
        """Of a record in the log, as in what was read last."""

    def end(self, read_committed: bool) -> int:
        """Where what may be delivered ends."""
        partition = self._partition
        return partition.last_stable_offset if read_committed else partition.high_watermark

    async def read(self, offset: int, max_bytes: int, max_records: int, read_committed: bool) -> Read:
        """The batches from an offset on: up to `max_bytes`, but for the first, and about `max_records`; none where the
        log has nothing there yet.

        What was read before is used. Raises ApiError, KAFKA_STORAGE_ERROR when the log cannot be read.
        """
        read = self._reads.find(self._keys[read_committed], offset)
        if read is None:
            wanted = max(READ_BYTES_MIN, min(max_bytes, int(max_records * self._record_bytes)))
            read = await self._read_anew(offset, wanted, read_committed)
        return _part(read, offset, max_bytes)

    async def read_window(self, offset: int, records: int, read_committed: bool) -> Read:
        """As `read`, of batches that single records are picked out of: so many records from the offset on, as far as
        they are in the log and `WINDOW_BYTES_MAX` allows.
        """
        read = self._reads.find(self._keys[read_committed], offset)
        until = min(offset + records, self.end(read_committed))
        if read is not None and read.batches[-1].last_offset + 1 < until:
            part = _part(read, offset, WINDOW_BYTES_MAX)
            if len(read.data) - part.batches[0].position < WINDOW_BYTES_MAX:
                read = None
        if read is None:
            # Half as much more, as the next deliveries begin a little behind this one.
            wanted = int(records * self._record_bytes * 1.5)
            wanted = max(READ_BYTES_MIN, min(WINDOW_BYTES_MAX * 3 // 2, wanted))
            read = await self._read_anew(offset, wanted, read_committed)
        return _part(read, offset, WINDOW_BYTES_MAX)

    async def _read_anew(self, offset: int, wanted: int, read_committed: bool) -> Read:
        read = await self._read_log(offset, wanted, read_committed)
        if read.batches:
            self._reads.keep(self._keys[read_committed], read)
            self._record_bytes = len(read.data) / (read.batches[-1].last_offset - read.batches[0].base_offset + 1)
        return read

    def kept(self, offset: int, max_bytes: int, read_committed: bool) -> Read | None:
        """As `read`, of what was read before; None where the offset does not lie in it."""
        read = self._reads.find(self._keys[read_committed], offset)
        return None if read is None else _part(read, offset, max_bytes)

    async def _read_log(self, offset: int, max_bytes: int, read_committed: bool) -> Read:
        partition = self._partition
        end = self.end(read_committed)
        result = partition.read(offset, max_bytes, max_offset=end, min_one_batch=True)
        aborted = partition.log.aborted_in(result, offset, end) if read_committed else []
        try:
            data = await self._tasks.in_thread(result.read)
        except OSError as error:
            logger.error("%s cannot be read: %s", partition.topic_partition, error)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition.topic_partition} cannot be read") from error
        batches, _, malformed = walk_batches(data, check_crc=False)
        if malformed is not None:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{partition.topic_partition}: {malformed}")
        transactions = AbortedBatches(aborted)
        undone = frozenset(batch.base_offset for batch in batches if transactions.has(batch)) if aborted else NOTHING
        return Read(data, batches, undone)


def _part(read: Read, offset: int, max_bytes: int) -> Read:
    """The batches of a read from an offset on: up to `max_bytes`, but for the first."""
    first = bisect_left(read.batches, offset, key=_last_offset)
    if first == len(read.batches):
        return read._replace(batches=[])
    end = read.batches[first].position + max_bytes
    last = bisect_right(read.batches, end, lo=first, key=_end_position)
    return read._replace(batches=read.batches[first : max(last, first + 1)])


def _last_offset(batch: BatchInfo) -> int:
    return batch.last_offset


def _end_position(batch: BatchInfo) -> int:
    return batch.position + batch.size
