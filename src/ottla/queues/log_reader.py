"""Reads the batches of a partition that records are delivered from."""

import logging
from bisect import bisect_left

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.native import BatchInfo, walk_batches
from ottla.queues.recent_reads import Read, ReadKey, RecentReads
from ottla.queues.share_state import ShareKey
from ottla.replication.partition import Partition
from ottla.runtime.tasks import Tasks

logger = logging.getLogger(__name__)


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

    def end(self, read_committed: bool) -> int:
        """Where what may be delivered ends."""
        partition = self._partition
        return partition.last_stable_offset if read_committed else partition.high_watermark

    async def read(self, offset: int, max_bytes: int, read_committed: bool, *, keeps: bool) -> Read:
        """The batches from an offset on; none where the log has nothing there yet.

        What was read before is used if `keeps`, and what is read is kept. Raises ApiError, KAFKA_STORAGE_ERROR when the
        log cannot be read.
        """
        key = self._keys[read_committed]
        read = self._reads.find(key, offset) if keeps else None
        if read is None:
            read = await self._read_log(offset, max_bytes, read_committed)
            if read.batches and keeps:
                self._reads.keep(key, read)
        first = bisect_left(read.batches, offset, key=_last_offset)
        return read._replace(batches=read.batches[first:])

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
        return Read(data, batches, aborted)


def _last_offset(batch: BatchInfo) -> int:
    return batch.last_offset
