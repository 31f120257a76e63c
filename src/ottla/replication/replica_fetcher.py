"""Copies what a leader has into the followers of this broker, over one connection.

            +--------------------------------------------------------------------------------+
            v                                                                                |
    fetch of all partitions --> answer --> appended --> as safe as it has to be: on disk ----+
                                   |
                                   +--> the logs part: cut, beside the others, then fetched again
                                   +--> an error: fetched again after a while

The next fetch goes out when everything of the last one is safe, since its offsets tell the leader just that. While this
broker's disk works, records gather at the leader: the next answer is as much larger.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from msgspec import Struct

from ottla.client.errors import ClientError
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.native import walk_batches
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, PartitionData, ReplicaState
from ottla.replication.follower import Follower
from ottla.replication.partition import Partition
from ottla.replication.replica_fetch_session import PartitionId, ReplicaFetchSession
from ottla.replication.replication_quota import ReplicationQuota
from ottla.replication.truncation import EpochEnd, truncation_offset
from ottla.runtime.log_throttle import LogThrottle
from ottla.runtime.outage_log import OutageLog
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer
from ottla.storage.log import Log

logger: Final = logging.getLogger(__name__)

FIRST_BACKOFF_MS: Final = 20
"""The first wait after an error: a leader that has not heard yet that it leads will have in a moment."""


PARTITIONS_PER_MS: Final = 4
"""For so many partitions of a session a leader without news waits a millisecond longer: a thousand of them, looked at
four times a second, take a hundredth of a core."""

WAIT_MS_MAX: Final = 500
"""How much longer it waits for them at most, Kafka's default of `replica.fetch.wait.max.ms`."""

MOMENTS_MAX: Final = 6
"""So often in a row that is nothing to speak of: a second and more."""


THROTTLED_MS_MAX: Final = 200
"""A partition that keeps to a rate is looked at again so soon: the rate may have been raised, or it is in sync."""


BASE_OFFSET_BYTES: Final = 8
"""The base offset of a batch comes first in it."""


class ReplicaFetchLimits(Struct, frozen=True):
    """`replica.fetch.wait.max.ms`, `replica.fetch.min.bytes`, `replica.fetch.max.bytes` (of a partition),
    `replica.fetch.response.max.bytes`, `replica.fetch.backoff.ms`, `replica.socket.timeout.ms`.
    """

    max_wait_ms: int = 500
    min_bytes: int = 1
    partition_max_bytes: int = 1 << 20
    response_max_bytes: int = 10 << 20
    backoff_ms: int = 1_000
    timeout_ms: int = 30_000


class Truncation(Struct, frozen=True):
    """How logs are cut: `LogManager.truncate_log` and `LogManager.restart_log`."""

    truncate: Callable[[Log, int], Awaitable[None]]
    restart: Callable[[Log, int], Awaitable[None]]


FetchFrom = Callable[[int, int, FetchRequest, int], Awaitable[FetchResponse]]
"""Sends a fetch: broker, number of the fetcher, request, time-out in ms. Raises ClientError."""


class _Followed:
    """A partition that is fetched, or will be."""

    __slots__ = ("being_cut", "failures", "key", "leader_epoch", "partition", "role")

    def __init__(self, partition: Partition, role: Follower) -> None:
        self.partition = partition
        self.role = role
        self.leader_epoch = partition.leader_epoch
        self.key: PartitionId = (partition.topic_id, partition.index)
        self.failures = 0
        self.being_cut: asyncio.Task[None] | None = None


class ReplicaFetcher:
    """Fetches partitions from one leader. Belongs to the event loop; `run` is its task."""

    def __init__(
        self,
        leader_id: int,
        number: int,
        fetch_from: FetchFrom,
        replica: Callable[[], ReplicaState],
        limits: ReplicaFetchLimits,
        truncation: Truncation,
        quota: ReplicationQuota,
        *,
        timer: Timer,
        tasks: Tasks,
        throttled: LogThrottle,
        outage: OutageLog,
    ) -> None:
        """`replica` is this broker in its present incarnation, `quota` what it may fetch of throttled partitions,
        `outage` tells of a leader that does not answer.
        """
        self.leader_id = leader_id
        self.number = number
        self._fetch_from = fetch_from
        self._replica = replica
        self._limits = limits
        self._truncation = truncation
        self._quota = quota
        self._timer = timer
        self._tasks = tasks
        self._throttled = throttled
        self._outage = outage
        self._session = ReplicaFetchSession()
        self._told_replica = ReplicaState()
        self._followed: dict[PartitionId, _Followed] = {}
        self._has_work = asyncio.Event()
        self._failures = 0

    def __len__(self) -> int:
        """How many partitions are followed."""
        return len(self._followed)

    def add(self, partition: Partition) -> None:
        """Fetch a partition, whose role is that of a follower, from now on."""
        assert isinstance(partition.role, Follower)
        followed = _Followed(partition, partition.role)
        self._followed[followed.key] = followed
        partition.role.on_failure = partial(self._has_failed, followed)
        self._begin(followed)

    def remove(self, partition: Partition) -> Awaitable[None] | None:
        """Fetch it no more; what is returned is done when its log is not being cut any more, None if it is not."""
        key = (partition.topic_id, partition.index)
        self._session.forget(key)
        followed = self._followed.pop(key, None)
        return None if followed is None or followed.being_cut is None else _ended(followed.being_cut)

    async def run(self) -> None:
        """Fetch, again and again, until it is cancelled."""
        while True:
            if not len(self._session):
                self._has_work.clear()
                await self._has_work.wait()
            try:
                answer = await self._fetch()
                if answer is not None:
                    await self._take(answer)
            except Exception:
                # Whatever it was: nobody else would fetch these partitions again.
                logger.exception("fetching from broker %d failed, retrying", self.leader_id)
                self._session.lost()
                self._failures += 1
                await self._timer.sleep(self._backoff_ms(self._failures))

    def _has_failed(self, followed: _Followed) -> None:
        """The disk failed: fetch the partition no more until it can be written again."""
        if self._is_current(followed):
            self._delay(followed)

    def _begin(self, followed: _Followed) -> None:
        """Fetch a partition as soon as what it has is safe: what it had as leader may be on its way to the disk."""
        partition = followed.partition
        if not partition.log.is_writable:
            self._delay(followed)
        elif partition.local_end_offset >= partition.log.log_end_offset:
            self._fetch_on(followed)
        else:
            self._tasks.spawn(self._when_safe(followed), f"following {partition.topic_partition}")

    async def _when_safe(self, followed: _Followed) -> None:
        partition = followed.partition
        reached = partition.local_end_reached(partition.log.log_end_offset)

        def on_time_up() -> None:
            if not reached.done():
                reached.set_result(None)

        time_up = self._timer.schedule(self._limits.backoff_ms, on_time_up)
        try:
            await reached
        finally:
            time_up.cancel()
        if not self._is_current(followed):
            return
        if partition.local_end_offset >= partition.log.log_end_offset:
            self._fetch_on(followed)
        else:
            self._delay(followed)  # the disk failed, or is slow

    def _fetch_on(self, followed: _Followed) -> None:
        """Fetch from where the log ends, all of which is safe; later, when it is to keep to a rate."""
        partition = followed.partition
        if partition.is_throttled and not partition.is_in_sync and (wait_ms := self._quota.wait_ms):
            self._session.forget(followed.key)
            self._again_in(followed, min(wait_ms, THROTTLED_MS_MAX))
            return
        log = partition.log
        self._session.fetch(
            followed.key,
            FetchPartition(
                partition=followed.partition.index,
                current_leader_epoch=followed.leader_epoch,
                fetch_offset=log.log_end_offset,
                last_fetched_epoch=log.leader_epochs.latest_epoch,
                log_start_offset=log.log_start_offset,
                partition_max_bytes=self._limits.partition_max_bytes,
            ),
        )
        self._has_work.set()

    async def _fetch(self) -> FetchResponse | None:
        """One request and its answer; None when there was none, after a while."""
        limits, replica = self._limits, self._replica()
        if replica != self._told_replica:
            # The leader takes what each partition is fetched from as said by the incarnation that said it.
            self._session.lost()
            self._told_replica = replica
        session_id, session_epoch, topics, forgotten = self._session.next_request()
        request = FetchRequest(
            replica_state=replica,
            max_wait_ms=self._wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.response_max_bytes,
            session_id=session_id,
            session_epoch=session_epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
        )
        try:
            answer = await self._fetch_from(self.leader_id, self.number, request, limits.timeout_ms)
        except ClientError as error:
            self._outage.failed("cannot fetch from broker %d, retrying: %s", self.leader_id, error)
            answer = None
        if answer is not None and not answer.error_code:
            self._failures = 0
            self._outage.over("fetching from broker %d again", self.leader_id)
            self._session.answered(answer.session_id)
            return answer
        self._session.lost()
        if answer is None or answer.error_code not in _SESSION_ERRORS:
            if answer is not None:
                self._outage.failed("broker %d refuses fetches: error %d", self.leader_id, answer.error_code)
            self._failures += 1
            await self._timer.sleep(self._backoff_ms(self._failures))
        return None

    @property
    def _wait_ms(self) -> int:
        """How long the leader may wait for news. It looks at every partition of the session each time."""
        most_ms = max(self._limits.max_wait_ms, WAIT_MS_MAX)
        return min(max(self._limits.max_wait_ms, len(self._session) // PARTITIONS_PER_MS), most_ms)

    async def _take(self, answer: FetchResponse) -> None:
        """Append what came, and return when it is safe."""
        reached: list[tuple[_Followed, asyncio.Future[None]]] = []
        for topic in answer.responses:
            for data in topic.partitions:
                followed = self._followed.get((topic.topic_id, data.partition_index))
                if followed is None or not self._is_current(followed):
                    continue
                if not self._session.is_asked(followed.key):
                    continue  # what this answers was asked for another log, or by a follower of another epoch
                try:
                    done = self._take_partition(followed, data)
                except ApiError as error:
                    self._failed(followed, error.message or error.code.name)
                except Exception:
                    logger.exception("%s could not append records of its leader", followed.partition.topic_partition)
                    self._delay(followed)
                else:
                    if done is not None:
                        reached.append((followed, done))
        for followed, done in reached:
            await done
            if not self._is_current(followed):
                continue
            if followed.partition.local_end_offset >= followed.partition.log.log_end_offset:
                self._fetch_on(followed)
            else:
                self._delay(followed)

    def _take_partition(self, followed: _Followed, data: PartitionData) -> asyncio.Future[None] | None:
        """Act on what the leader says of one partition; what is returned is done when what was appended is safe."""
        partition, log = followed.partition, followed.partition.log
        if self._session.offset(followed.key) != log.log_end_offset:
            self._delay(followed)  # it was loaded again since
            return None
        error = ErrorCode(data.error_code)
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._restart(followed, data.log_start_offset)
            return None
        if error is not ErrorCode.NONE:
            if error in _IN_A_MOMENT and followed.failures < MOMENTS_MAX:
                self._delay(followed)
            else:
                self._failed(followed, error.name)
            return None
        if data.diverging_epoch.epoch >= 0:
            self._cut(followed, EpochEnd(data.diverging_epoch.epoch, data.diverging_epoch.end_offset))
            return None
        start_offset, end_offset = log.log_start_offset, log.log_end_offset
        records = data.records
        assert records is None or isinstance(records, memoryview)
        if records is not None and start_offset == end_offset and _begins_within_batch(end_offset, records):
            self._change(followed, self._begin_within_batch(followed, data, bytes(records)))
            return None
        followed.role.append_from_leader(records if records is not None else _NOTHING, data.high_watermark)
        followed.role.follow_log_start(data.log_start_offset)
        followed.failures = 0
        if log.log_end_offset == end_offset:
            if log.log_start_offset != start_offset:
                self._fetch_on(followed)  # who deletes records waits for the leader to hear of it
            return None
        if partition.is_throttled and records is not None:
            self._quota.record(records.nbytes)
        return partition.local_end_reached(log.log_end_offset)

    def _cut(self, followed: _Followed, diverging: EpochEnd) -> None:
        log = followed.partition.log
        offset = truncation_offset(log.leader_epochs, log.log_end_offset, diverging)
        logger.info(
            "truncating %s from offset %d to %d: on its leader, broker %d, epoch %d ends at %d; high watermark %d",
            log.topic_partition,
            log.log_end_offset,
            offset,
            self.leader_id,
            diverging.epoch,
            diverging.end_offset,
            followed.partition.high_watermark,
        )
        if offset < followed.partition.high_watermark:
            logger.warning(
                "%s: committed records are lost: its leader was elected without them (unclean election)",
                log.topic_partition,
            )
        keeps_some = offset > log.log_start_offset
        change = self._truncation.truncate if keeps_some else self._truncation.restart
        self._change(followed, change(log, offset))

    def _restart(self, followed: _Followed, leader_start_offset: int) -> None:
        """What comes next is not in the leader's log any more, or never was."""
        log = followed.partition.log
        if leader_start_offset < 0 or (log.log_end_offset >= leader_start_offset and log.size):
            self._failed(followed, f"its leader has nothing at offset {log.log_end_offset}, and does not say why")
            return
        logger.info(
            "%s ends at offset %d; restarting it at %d, the log start offset of its leader, broker %d",
            log.topic_partition,
            log.log_end_offset,
            leader_start_offset,
            self.leader_id,
        )
        self._change(followed, self._truncation.restart(log, leader_start_offset))

    async def _begin_within_batch(self, followed: _Followed, data: PartitionData, records: bytes) -> None:
        """Take the whole batch in which the leader's log begins, then begin where that does.

        `records` are appended at once: from the offset where that batch begins the leader gives nothing.
        """
        partition, log = followed.partition, followed.partition.log
        await self._truncation.restart(log, int.from_bytes(records[:BASE_OFFSET_BYTES]))
        if not self._is_current(followed):
            return
        followed.role.append_from_leader(memoryview(records), data.high_watermark)
        if partition.is_throttled:
            self._quota.record(len(records))
        await partition.local_end_reached(log.log_end_offset)
        if self._is_current(followed) and partition.local_end_offset >= data.log_start_offset:
            log.delete_records_before(max(data.log_start_offset, log.log_start_offset))

    def _change(self, followed: _Followed, change: Awaitable[None]) -> None:
        """Fetch on when the log has been cut."""
        self._session.forget(followed.key)
        followed.being_cut = self._tasks.spawn(
            self._until_cut(followed, change), f"cutting {followed.partition.topic_partition}"
        )

    async def _until_cut(self, followed: _Followed, change: Awaitable[None]) -> None:
        try:
            await change
        except (ApiError, OSError) as error:
            self._failed(followed, f"its log could not be cut: {error}")
        except Exception:
            logger.exception("could not truncate %s", followed.partition.topic_partition)
            self._delay(followed)
        else:
            if self._is_current(followed):
                self._begin(followed)
        finally:
            followed.being_cut = None

    def _failed(self, followed: _Followed, why: str) -> None:
        name = followed.partition.topic_partition
        self._throttled.warning("%s cannot follow broker %d, retrying: %s", name, self.leader_id, why)
        self._delay(followed)

    def _delay(self, followed: _Followed) -> None:
        """Fetch a partition again after a while."""
        self._session.forget(followed.key)
        followed.failures += 1
        self._again_in(followed, self._backoff_ms(followed.failures))

    def _again_in(self, followed: _Followed, delay_ms: int) -> None:
        def again() -> None:
            if self._is_current(followed):
                self._begin(followed)

        self._timer.schedule(delay_ms, again)

    def _backoff_ms(self, failures: int) -> int:
        return int(min(FIRST_BACKOFF_MS << min(failures - 1, 16), self._limits.backoff_ms))

    def _is_current(self, followed: _Followed) -> bool:
        """Whether the partition still follows the leader in the same epoch."""
        return self._followed.get(followed.key) is followed and followed.partition.role is followed.role


_IN_A_MOMENT: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""One of the two has not heard yet what the other knows."""

_NOTHING: Final = memoryview(b"")
_SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
"""The leader does not remember: it is told anew at once."""


def _begins_within_batch(offset: int, records: memoryview) -> bool:
    """Whether the first batch of `records` begins before `offset` and ends behind it."""
    if int.from_bytes(records[:BASE_OFFSET_BYTES]) >= offset:
        return False
    batches, _, _ = walk_batches(records, check_crc=True)
    return bool(batches) and batches[0].base_offset < offset <= batches[0].last_offset


async def _ended(task: asyncio.Task[None]) -> None:
    """Return when a task has ended, whatever became of it."""
    await asyncio.wait([task])
