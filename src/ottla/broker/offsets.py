"""Looking offsets up for consumers: the ends of a partition, and the first record of a time.

What is written and not yet synced may be gone after a power cut, so nobody is told of it. But its sync is on its way,
and a producer with acks=0 or acks=1 has its answer already: who asks for the end next expects its records below it, as
on Apache Kafka, which does not sync. So a look-up waits for that sync, a few milliseconds, and for nothing else:
followers may be as slow as they like.
"""

from typing import Final

from ottla.broker.access import ALLOW_ALL, Authorizer, Operation, ResourceType, require
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import Principal
from ottla.replication.partition import NO_EPOCH, Partition
from ottla.replication.replica_manager import ReplicaManager
from ottla.runtime.clock import Clock
from ottla.runtime.timer import Timer
from ottla.storage.timestamp_lookup import FoundTimestamp

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

SYNC_WAIT_MS_MAX: Final = 1_000
"""How long all look-ups of one request wait for disks together: many times what a sync takes on a slow one. A consumer
that is told an end from before the last records reads them a moment later."""

NOTHING: Final[FoundTimestamp] = (-1, -1, -1)
"""No record is that late."""


class OffsetService:
    """Belongs to the event loop."""

    __slots__ = ("_authorizer", "_clock", "_replicas", "_timer")

    def __init__(
        self, replicas: ReplicaManager, clock: Clock, timer: Timer, authorizer: Authorizer = ALLOW_ALL
    ) -> None:
        self._replicas = replicas
        self._clock = clock
        self._timer = timer
        self._authorizer = authorizer

    def lookup(self, principal: Principal, *, read_committed: bool) -> "OffsetLookup":
        """For the look-ups of one request."""
        return OffsetLookup(self, principal, self._clock, self._timer, read_committed=read_committed)

    def epoch_end_offset(
        self, principal: Principal, topic: str, index: int, current_leader_epoch: int, epoch: int
    ) -> tuple[int, int]:
        """`Partition.epoch_end_offset` (KIP-320). Raises ApiError as `find` does."""
        return self.find(principal, topic, index, current_leader_epoch).epoch_end_offset(epoch)

    def log_end(self, topic: str, index: int) -> tuple[int, int]:
        """The leader epoch of the last record in the log of a replica, and the offset behind it, whoever leads.

        For other brokers. Raises ApiError as `ReplicaManager.get`.
        """
        log = self._replicas.get(topic, index).log
        return log.leader_epochs.latest_epoch, log.log_end_offset

    def find(self, principal: Principal, topic: str, index: int, current_leader_epoch: int) -> Partition:
        """A partition whose offsets the principal may know.

        Raises ApiError TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER,
        FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH.
        """
        require(self._authorizer, principal, Operation.DESCRIBE, ResourceType.TOPIC, topic)
        partition = self._replicas.get(topic, index)
        partition.require_leader_epoch(current_leader_epoch)
        return partition


class OffsetLookup:
    """The look-ups of one request, which wait for disks no longer than one. Belongs to the event loop."""

    __slots__ = ("_clock", "_deadline_ms", "_principal", "_read_committed", "_service", "_timer")

    def __init__(
        self, service: OffsetService, principal: Principal, clock: Clock, timer: Timer, *, read_committed: bool
    ) -> None:
        self._service = service
        self._principal = principal
        self._clock = clock
        self._timer = timer
        self._read_committed = read_committed
        self._deadline_ms: int | None = None

    async def find(self, topic: str, index: int, current_leader_epoch: int, timestamp: int) -> FoundTimestamp:
        """Timestamp, offset and leader epoch of an end of a partition, or of the first record at or after a time.

        Raises ApiError UNSUPPORTED_VERSION for a special timestamp that nobody knows, NOT_LEADER_OR_FOLLOWER when the
        partition goes meanwhile, OFFSET_NOT_AVAILABLE when a new leader has not heard yet what is committed (KIP-207),
        and what `OffsetService.find` and the log raise.
        """
        partition = self._service.find(self._principal, topic, index, current_leader_epoch)
        log = partition.log
        if timestamp in (EARLIEST, EARLIEST_LOCAL):
            return -1, log.log_start_offset, partition.epoch_of_offset(log.log_start_offset)
        if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
            return NOTHING
        if timestamp < MAX_TIMESTAMP:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"there is no special timestamp {timestamp}")

        def end_offset() -> int:
            return partition.last_stable_offset if self._read_committed else partition.high_watermark

        await self._synced(partition, log.log_end_offset)
        if timestamp == LATEST:
            _require_up_to_date(partition)
            return -1, end_offset(), partition.leader_epoch
        if timestamp == MAX_TIMESTAMP:
            found = await log.max_timestamp_offset(end_offset)
        else:
            found = await log.offset_for_timestamp(timestamp, end_offset)
        if found is None:
            _require_up_to_date(partition)
        return found or NOTHING

    async def _synced(self, partition: Partition, offset: int) -> None:
        """Return when this replica has everything below `offset` as safe as it has to be, or will not have it soon."""
        if partition.local_end_offset >= offset:
            return
        now_ms = self._clock.monotonic_ms()
        if self._deadline_ms is None:
            self._deadline_ms = now_ms + SYNC_WAIT_MS_MAX
        if now_ms >= self._deadline_ms:
            return
        reached = partition.local_end_reached(offset)

        def on_time_up() -> None:
            if not reached.done():
                reached.set_result(None)

        task = self._timer.schedule(self._deadline_ms - now_ms, on_time_up)
        try:
            await reached
        finally:
            task.cancel()
        partition.require_leader_epoch(NO_EPOCH)


def _require_up_to_date(partition: Partition) -> None:
    if partition.is_behind_election:
        raise ApiError(
            ErrorCode.OFFSET_NOT_AVAILABLE, f"it is not known yet how much of {partition.topic_partition} is committed"
        )
