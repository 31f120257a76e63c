"""Moves what is due of one partition of a delay topic, while it is led here.

take over  become the producer of the partition's transactional id, so that an earlier leader can write no more;
           read the progress; read the log from the first record that may wait
move       what is due, in transactions that carry the progress (`ottla.queues.delay`)
fail       begin anew: what was not committed is due as before

Records that can never be delivered go to the topic `dlq.NAME` in the same transactions, as far as it takes them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from ottla.client.consuming.group_offsets import CommittedOffset
from ottla.client.errors import ClientError
from ottla.client.producing.producer import Producer
from ottla.model.delivery_group import delivery_group
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_partition import TopicPartition
from ottla.native import build_batch, walk_batches
from ottla.native.errors import KernelError
from ottla.queues.aborted_batches import AbortedBatches
from ottla.queues.dead_letter import letters_topic_of
from ottla.queues.delay import Progress, progress_of
from ottla.replication.partition import Partition
from ottla.runtime.disk import Disk
from ottla.runtime.environment import Environment
from ottla.runtime.log_throttle import LogThrottle
from ottla.server.delay_buckets import APART_MAX, CANCELS_MAX, DelayBuckets, LostRunError, kept_end
from ottla.server.delay_outbox import DelayOutbox, Target
from ottla.server.delay_producer import BecomeProducer
from ottla.server.waiting_records import WaitingRecord
from ottla.storage.log_config import DECOMPRESSED_BYTES_MAX

logger = logging.getLogger(__name__)

GATHERED_BYTES: Final = 16 << 20
"""What waits is kept in memory up to this size, for a partition; more is written to bucket files."""

FLUSH_LOG_BYTES: Final = 256 << 20
"""It is also written after so much of the log was read, so that a start does not read the log from there again."""

FULL_MS: Final = 5_000
"""How long nothing more is read when bucket files cannot be written."""

SCAN_BYTES: Final = 1 << 20
TRANSACTION_RECORDS: Final = 4_096
TRANSACTION_BYTES: Final = 16 << 20
"""A transaction has so many records and bytes at most, by a record."""

LOOK_MS: Final = 1_000
"""How often the clock is looked at while something waits: it may have been set."""

UNREAD_MS: Final = 100
"""What was committed so long before is read before anything is moved, and so is what was when the last move ended."""

OLDEST_MS: Final = 5_000
"""How often the first record that waits is looked for, to move the log start behind it."""

COMMIT_MS: Final = 3_600_000
"""How often the progress is committed while nothing is due."""

COMPLAIN_MS: Final = 60_000
"""How often it is said that something waits, and why."""

NOT_KNOWN: Final = 1 << 63
"""Above every offset."""

RETRY_MS_MIN: Final = 100
RETRY_MS_MAX: Final = 1_000
"""What is due is late by no more than this once what it needs is there again: a coordinator, or the target's leader."""


class DelayMover:
    """Belongs to the event loop."""

    def __init__(
        self,
        partition: Partition,
        target: str,
        default_delay_ms: int,
        become_producer: BecomeProducer,
        environment: Environment,
        disk: Disk,
        *,
        look_up: Callable[[str], Target | None],
        partition_count: Callable[[], int],
        ensure_topic: Callable[[str, int], Awaitable[None]],
        keep_log_start: Callable[[Partition], Awaitable[None]],
        found_first: dict[TopicPartition, tuple[int, CommittedOffset | None]],
    ) -> None:
        """`look_up` finds a topic, `partition_count` is that of the delay topic, `ensure_topic` makes one that is not
        there, `keep_log_start` makes durable where the log begins. Bucket files are on `disk`. `found_first` has, of
        each partition, the leader epoch that this process led it in last, and the progress that it found then.
        """
        self._partition = partition
        self._epoch = partition.leader_epoch
        self._place = partition.topic_partition
        self._target = target
        self._default_delay_ms = default_delay_ms
        self._become_producer = become_producer
        self._environment = environment
        self._disk = disk
        self._clock = environment.clock
        self._look_up = look_up
        self._partition_count = partition_count
        self._ensure_topic = ensure_topic
        self._keep_log_start = keep_log_start
        self._found_first = found_first
        self._is_of_others = False
        """Whether the progress was committed by an earlier leader, or by this broker before it was started again."""
        self._throttled = LogThrottle(logger, environment.clock, lines_max=1, window_ms=COMPLAIN_MS)
        self._lost = LogThrottle(logger, environment.clock)
        self._news = asyncio.Event()
        self._producer: Producer | None = None
        self._progress = Progress()
        self._committed_ms = self._looked_ms = 0
        self._retry_ms = RETRY_MS_MIN
        self._position = self._known_before_move = self._safe = self._own_end = 0
        self._read_bytes = self._full_until_ms = 0
        self.waiting_count = 0
        """How many records wait, about; threads have the index meanwhile."""

    async def run(self) -> None:
        """Move until the partition is led elsewhere."""
        self._partition.subscribe(self._changed)
        try:
            while self._is_current:
                try:
                    await self._serve()
                except (ClientError, ApiError, KernelError, LostRunError, OSError) as error:
                    self._throttled.warning("%s: what is due waits, and is tried again: %s", self._place, error)
                except Exception:  # a fault of ours stops this partition for a while, and no other
                    logger.exception("%s: what is due waits, and is tried again", self._place)
                finally:
                    await self._end_producer()
                await self._environment.timer.sleep(self._retry_ms)
                self._retry_ms = min(2 * self._retry_ms, RETRY_MS_MAX)
        finally:
            self._partition.unsubscribe(self._changed)

    @property
    def _is_current(self) -> bool:
        return self._partition.is_leader and self._partition.leader_epoch == self._epoch

    def _changed(self, partition: Partition) -> None:
        del partition
        self._news.set()

    async def _serve(self) -> None:
        await self._take_over()
        self._buckets = DelayBuckets(self._partition.log, self._environment, self._disk, self._news.set)
        try:
            low = max(self._progress.low, self._partition.log.log_start_offset)
            self._index, self._position = await self._buckets.load(self._progress, low, self._kept_end)
            end, end_ms = self._position, self._clock.monotonic_ms()
            while self._is_current:
                self._news.clear()
                self._know_end()
                # What is late is moved before more is read: it is moved all at once.
                has_read = self._index.late_bytes < TRANSACTION_BYTES and await self._scan()
                if has_read and self._position >= end and self._clock.monotonic_ms() - end_ms > UNREAD_MS:
                    end, end_ms = self._partition.last_stable_offset, self._clock.monotonic_ms()
                if has_read and self._position < end:
                    await self._settle_buckets()
                    continue  # what was written before the last move ended may cancel what is due by now
                has_moved = self._may_move and await self._move()
                end, end_ms = self._partition.last_stable_offset, self._clock.monotonic_ms()
                await self._settle_buckets()
                self.waiting_count = len(self._index)
                if not has_read and not has_moved:
                    await self._wait()
        finally:
            await self._buckets.close()

    async def _settle_buckets(self) -> None:
        if self._clock.monotonic_ms() < self._full_until_ms:
            return
        try:
            await self._buckets.settle(self._index, self._progress, self._safe_offset)
        except OSError as error:
            self._complain_of_disk(error)

    def _complain_of_disk(self, error: OSError) -> None:
        self._throttled.warning("%s: bucket files cannot be written, so little is read: %s", self._place, error)
        self._full_until_ms = self._clock.monotonic_ms() + FULL_MS

    def _know_end(self) -> None:
        """What was acknowledged before this broker led may lie above the high watermark at first, also what cancels."""
        if self._known_before_move == NOT_KNOWN and not self._partition.is_behind_election:
            self._known_before_move = self._partition.last_stable_offset

    @property
    def _may_move(self) -> bool:
        if self._index.late_bytes >= TRANSACTION_BYTES:
            return self._position >= self._progress.end
        return self._position >= max(self._progress.end, self._known_before_move)

    @property
    def _is_due(self) -> bool:
        """Whether anything is. What comes before the point that is moved is due by a clock that was ahead of this one:
        it waits for this one, as long as more can be read.
        """
        next_due = self._index.next_due()
        is_full = self._index.late_bytes >= TRANSACTION_BYTES
        return next_due is not None and (is_full or next_due <= self._clock.now_ms())

    @property
    def _safe_offset(self) -> int:
        """Cancellations before it concern nothing that has not been read."""
        if self._position >= max(self._known_before_move, self._own_end):
            return self._position
        return max(self._safe, self._position - APART_MAX)

    async def _take_over(self) -> None:
        self._producer, committed = await self._become_producer(self._place)
        if committed is not None and committed.leader_epoch > self._epoch:
            # This broker has not been told that another one leads: its log may end before what that one has moved.
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"epoch {committed.leader_epoch} is led by now")
        progress = Progress() if committed is None else progress_of(committed.offset, committed.metadata)
        if self._found_first.get(self._place, (-1, None))[0] != self._epoch:
            self._found_first[self._place] = (self._epoch, committed)
        self._is_of_others = committed == self._found_first[self._place][1]
        kept_end = self._kept_end(-1 if committed is None else committed.leader_epoch)
        if max(progress.low, progress.end) > kept_end:
            logger.warning("%s was cut at %d; it had been delivered from up to %d", self._place, kept_end, progress.end)
            progress = progress.cut_at(kept_end)
        self._progress = progress.with_default_delay(self._default_delay_ms)
        if self._progress.delay_at(self._progress.end) != self._default_delay_ms:
            self._throttled.warning("%s: too many changes of its delay concern records that wait", self._place)
        self._known_before_move = NOT_KNOWN
        # What an earlier leader wrote of schedules may lie behind an open transaction, and behind what cancels it.
        self._safe, self._own_end = self._progress.low, self._partition.log.log_end_offset
        self._committed_ms = self._looked_ms = self._clock.monotonic_ms()

    def _kept_end(self, leader_epoch: int) -> int:
        return kept_end(self._partition.log, leader_epoch, self._epoch if self._is_of_others else None)

    async def _scan(self) -> bool:
        """Look at the next committed records; False when there are none."""
        partition, end = self._partition, self._partition.last_stable_offset
        if self._position >= end or not await self._has_room():
            return False
        result = partition.read(self._position, SCAN_BYTES, max_offset=end, min_one_batch=True)
        aborted = AbortedBatches(partition.log.aborted_in(result, self._position, end))
        data = await self._environment.tasks.in_thread(result.read)
        batches, _, error = walk_batches(data, check_crc=False)
        if error is not None:
            raise error
        if not batches:
            return False
        passed_over = [batch.base_offset for batch in batches if aborted.has(batch)]
        await self._environment.tasks.in_thread(
            self._index.add, data, self._position, passed_over, DECOMPRESSED_BYTES_MAX
        )
        self._position = max(self._position, batches[-1].last_offset + 1)
        self._read_bytes += len(data)
        return True

    async def _has_room(self) -> bool:
        """Whether more may be kept in memory; what is there is written to bucket files, if it is much."""
        index = self._index
        if index.cancel_count > 2 * CANCELS_MAX and self._buckets.is_merging:
            return False
        is_much = self._read_bytes >= FLUSH_LOG_BYTES
        may_forget = index.cancel_count > CANCELS_MAX
        if not is_much and not may_forget and index.gathered_bytes < GATHERED_BYTES:
            return True
        await self._environment.tasks.in_thread(index.settle, self._safe_offset)
        if may_forget:
            is_much |= await self._buckets.has_many_unwritten(index)
        if not is_much and index.live_bytes < GATHERED_BYTES // 2:
            return True
        if self._clock.monotonic_ms() < self._full_until_ms:
            return False
        if not self._is_current:  # the log may have been cut, and what was read is of before
            return False
        try:
            await self._buckets.flush(index, self._progress, self._position)
        except OSError as error:
            self._complain_of_disk(error)
            return False
        self._read_bytes = 0
        return True

    async def _move(self) -> bool:
        """Move what is due, about a transaction's worth; False when nothing is."""
        if not self._is_due:
            return False
        target = self._look_up(self._target)
        if target is None:
            what = "%s: what is due waits, as there is no topic %s (ottla.deliver.to) at the moment"
            self._throttled.warning(what, self._place, self._target)
            return False
        own = self._look_up(self._place.topic)
        if own is None:  # it has just been deleted
            return False
        records = await self._due_records()
        if not records:  # what is due was cancelled
            return True
        last = max((self._progress.due_ms, self._progress.offset), records[-1][:2])
        producer = self._producer
        assert producer is not None, "it was taken over"
        count = self._partition_count()
        outbox = DelayOutbox(self._place, own, target, self._default_delay_ms, self._clock.now_ms())
        await self._environment.tasks.in_thread(outbox.sort, records)
        if outbox.letters:
            await self._make_room_for_letters(outbox, count)
        producer.begin_transaction()
        await outbox.send(producer)
        end = None if outbox.appended is None else (await outbox.appended[0]).offset + outbox.appended[1]
        if end is not None and end > self._position + APART_MAX:
            await self._abort_until_read(producer, end)
        await self._commit(producer, last)
        if end is not None:
            await self._know_own(outbox, end)
        self._retry_ms = RETRY_MS_MIN
        return True

    async def _know_own(self, outbox: DelayOutbox, end: int) -> None:
        """What was written of schedules, up to `end`, may lie behind an open transaction. What it cancels is known at
        once: a time of the old schedule may be due in this moment.
        """
        if self._position >= self._own_end:
            self._safe = self._position
        self._own_end = end
        if cancels := outbox.schedule_cancels:
            batch, start = build_batch(cancels, base_offset=end - len(cancels)), end - len(cancels)
            await self._environment.tasks.in_thread(self._index.add, batch, start, [], DECOMPRESSED_BYTES_MAX)

    async def _abort_until_read(self, producer: Producer, end: int) -> None:
        """What was written of schedules, up to `end`, lies too far behind what was read. Raises ApiError, once more can
        be read.
        """
        await producer.abort_transaction()
        what = "what is due waits, as much lies behind an open transaction, and schedules may be cancelled there"
        self._throttled.warning("%s: %s", self._place, what)
        while self._is_current and self._partition.last_stable_offset + APART_MAX < end:
            await self._environment.timer.sleep(LOOK_MS)
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS, what)

    async def _make_room_for_letters(self, outbox: DelayOutbox, count: int) -> None:
        """Letters that cannot be kept are dropped, and the log says so: nothing else must wait for them."""
        name, found = letters_topic_of(self._place.topic), None
        try:
            await self._ensure_topic(name, count)
        except ApiError as error:
            if error.code is not ErrorCode.INVALID_TOPIC_EXCEPTION:
                raise
        else:
            found = self._look_up(name)
            if found is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name} at the moment")
        for lost in await self._environment.tasks.in_thread(outbox.fit_letters, found):
            self._lost.warning(
                "%s: a record that cannot be delivered is dropped, as %s does not take it: %s", self._place, name, lost
            )

    async def _due_records(self) -> list[WaitingRecord]:
        """What is due next, in this order."""
        now_ms, moved = self._clock.now_ms(), (self._progress.due_ms, self._progress.offset)
        log_start = self._partition.log.log_start_offset

        def pop() -> list[WaitingRecord]:
            found = self._index.pop(
                now_ms, *moved, records_max=TRANSACTION_RECORDS, bytes_max=TRANSACTION_BYTES, log_start=log_start
            )
            return [WaitingRecord(*each) for each in found]

        try:
            return await self._environment.tasks.in_thread(pop)
        except OSError:
            failed = self._index.failed_run
            if failed is not None:
                await self._buckets.drop_from(failed, self._progress)
            raise

    async def _commit(self, producer: Producer, last: tuple[int, int]) -> None:
        now_ms = self._clock.monotonic_ms()
        low = self._progress.low
        has_looked = now_ms - self._looked_ms >= OLDEST_MS
        if has_looked:
            await self._environment.tasks.in_thread(self._index.settle, self._safe_offset)
            oldest = await self._environment.tasks.in_thread(self._index.oldest)
            low = self._index.read_from(min(self._safe_offset, self._position if oldest is None else oldest))
            self._looked_ms = now_ms
        progress = Progress(low, *last, max(self._progress.end, self._position), self._progress.delays)
        if not self._is_current:  # the log may have been cut, and would tell the epoch of what was written anew
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another broker leads by now")
        leader_epoch = self._partition.log.epoch_of_offset(progress.end - 1)
        committed = CommittedOffset(progress.low, leader_epoch, progress.metadata)
        await producer.send_offsets_to_transaction({self._place: committed}, delivery_group(self._place.topic))
        await producer.commit_transaction()
        self._progress = progress
        self._found_first[self._place] = (self._epoch, None)  # what is found from now on is of ours
        self._committed_ms = now_ms
        if has_looked and self._is_current and low > self._partition.log.log_start_offset:
            self._partition.delete_records_before(low)
            await self._keep_log_start(self._partition)
        if has_looked and self._safe_offset == self._position:
            try:
                await self._buckets.remove_spent(self._index, progress)
            except OSError as error:
                self._complain_of_disk(error)

    async def _wait(self) -> None:
        """Until the next record is due, or there is another one."""
        now_ms = self._clock.monotonic_ms()
        is_behind = self._position > self._progress.low and now_ms - self._looked_ms >= OLDEST_MS
        if now_ms - self._committed_ms >= (COMMIT_MS if len(self._index) else 2 * OLDEST_MS) and is_behind:
            producer = self._producer
            assert producer is not None, "it was taken over"
            producer.begin_transaction()
            await self._commit(producer, (self._progress.due_ms, self._progress.offset))
            return
        next_due = self._index.next_due()
        wait_ms = LOOK_MS if is_behind or next_due is not None else 60 * LOOK_MS
        if next_due is not None:
            wait_ms = min(LOOK_MS, max(1, next_due - self._clock.now_ms())) if next_due > self._clock.now_ms() else 250
        timer = self._environment.timer.schedule(wait_ms, self._news.set)
        try:
            await self._news.wait()
        finally:
            timer.cancel()

    async def _end_producer(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.close(deliver=False)
