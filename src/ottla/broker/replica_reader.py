"""Reading for followers: what is written, also when it is not on disk here yet, so that disks sync side by side.

A follower's fetch says more than where to read: it has everything below that offset. That is noted once for each fetch,
after its epochs were found to be those of this log; what lies above the place where the logs part does not count.
"""

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Final

from ottla.broker.fetch import DivergingEpoch, FetchTarget, PartitionRead
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.replication.isr_manager import followers_key
from ottla.replication.leader import Leader
from ottla.replication.replication_quota import ReplicationQuota
from ottla.replication.truncation import diverging_epoch
from ottla.settings.value import LONG_MAX

if TYPE_CHECKING:
    from ottla.replication.partition import Partition

_NONE: Final = ErrorCode.NONE


class ReplicaReader:
    """A broker that fetches as a follower, in one incarnation: it has proved to be that broker."""

    __slots__ = ("_quota", "broker_epoch", "broker_id")

    def __init__(self, broker_id: int, broker_epoch: int, quota: ReplicationQuota | None = None) -> None:
        """`quota` is what this broker may give of throttled partitions; None for as much as there is."""
        self._quota = quota
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch

    def watched(self, partition: "Partition") -> Hashable:
        """What changes when there is more for a follower."""
        return followers_key(partition)

    def still_readable(self, target: FetchTarget) -> bool:
        """Whether a partition that had records for this target still has them, as far as is known without reading."""
        partition = target.partition
        return (
            partition is not None
            and partition.is_leader
            and target.current_leader_epoch == partition.leader_epoch
            and target.offset >= partition.log.log_start_offset
        )

    def read(self, target: FetchTarget, left: int, *, taken: int, must_progress: bool) -> PartitionRead:
        """Read one target, within `left` bytes; remembers in it that there was nothing.

        `taken` is what other targets of the same answer have, which is charged with the answer.
        """
        partition = target.partition
        target.nothing = None
        if partition is None or target.error is not _NONE:
            return PartitionRead(target.error)
        log = partition.log
        try:
            partition.require_leader_epoch(target.current_leader_epoch)
            offset, written_end = target.offset, log.written_end_offset
            # Who is beyond the end and names an epoch is told where that ends here instead.
            if offset < log.log_start_offset or (offset > log.log_end_offset and target.last_fetched_epoch < 0):
                return self._out_of_range(partition)
            diverging = diverging_epoch(
                log.leader_epochs,
                partition.leader_epoch,
                log.log_end_offset,
                fetch_offset=offset,
                last_fetched_epoch=target.last_fetched_epoch,
            )
            if diverging is not None and diverging.epoch < 0:
                return self._out_of_range(partition)
            if diverging is None and not target.is_noted:
                target.is_noted = True
                error = partition.role.follower_fetched(
                    self.broker_id, self.broker_epoch, offset, target.log_start_offset
                )
                if error is not _NONE:
                    return PartitionRead(error)
            read = PartitionRead(
                _NONE,
                partition.high_watermark,
                partition.last_stable_offset,
                log.log_start_offset,
                diverging_epoch=None if diverging is None else DivergingEpoch(*diverging),
                version=partition.version,
            )
            if diverging is not None:
                return read
            max_bytes = min(left, target.max_bytes)
            allowed = self._allowed_bytes(partition) - taken if partition.throttles_followers else max_bytes
            if offset >= written_end:
                target.nothing = read
            elif allowed <= 0:
                pass  # it is looked at again when the follower asks the next time
            elif max_bytes > 0 or must_progress:
                read.records = log.read(
                    offset, min(max_bytes, allowed), max_offset=written_end, min_one_batch=must_progress
                )
                read.total_bytes = read.records.total_bytes
                read.available_bytes = read.total_bytes + read.records.left_out_bytes
        except ApiError as error:
            return PartitionRead(error.code)
        return read

    def _allowed_bytes(self, partition: "Partition") -> int:
        role = partition.role
        is_in_sync = isinstance(role, Leader) and role.is_in_sync(self.broker_id)
        return LONG_MAX if self._quota is None or is_in_sync else self._quota.left_bytes

    def charge(self, targets: Sequence[FetchTarget], reads: Sequence[PartitionRead]) -> None:
        """The follower is given this."""
        if self._quota is None:
            return
        size = 0
        for target, read in zip(targets, reads, strict=True):
            if read.total_bytes and target.partition is not None and target.partition.throttles_followers:
                size += read.total_bytes
        if size:
            self._quota.record(size)

    def _out_of_range(self, partition: "Partition") -> PartitionRead:
        return PartitionRead(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            partition.high_watermark,
            partition.last_stable_offset,
            partition.log.log_start_offset,
        )
