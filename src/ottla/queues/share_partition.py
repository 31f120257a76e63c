"""A share partition at the leader of its partition: what is delivered to whom, and what of that is stored.

    acquire    read the log from the next deliverable offset, deliver what is there, start one timer
    settle     the ledger marks it, the state is written, then it holds; a write that fails undoes it
               a lease of which all is settled ends, and its timer with it
    time up    what the lease still holds is released, and that is written

One write of the state is in flight at a time; what gathers meanwhile is the next one.
"""

import asyncio
import logging
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.native import BatchInfo, DeliveryLedger, walk_batches
from ottla.native.errors import RecordNotHeldError, RecordRangeError
from ottla.queues.dead_letter import EXPIRED
from ottla.queues.deliveries import Deliveries
from ottla.queues.delivery_rate import DeliveryRate
from ottla.queues.delivery_throttle import WHOLE, AcquiredBatches, Deliverable, Portion, portion
from ottla.queues.letters import LETTER_RETRY_MS, Letter, WriteLetters, letters_of
from ottla.queues.recent_reads import Read, ReadKey, RecentReads
from ottla.queues.redelivery import NO_DELAY, Delay, by_deliveries, restore_waits
from ottla.queues.share_limits import ShareLimits
from ottla.queues.share_state import ShareKey
from ottla.queues.share_state_shard import WriteState
from ottla.queues.share_states import ShareStates
from ottla.queues.state_batches import StateBatch, together
from ottla.queues.stream_marks import StreamMarks
from ottla.replication.partition import Partition
from ottla.runtime.clock import Clock
from ottla.runtime.rng import Rng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer
from ottla.runtime.timing_wheel import TimerTask
from ottla.runtime.turns import next_turn

logger = logging.getLogger(__name__)

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
"""The acknowledge types of ShareAcknowledge (KIP-932, KIP-1222)."""

_NOT_HELD: Final = 0
_NOBODY: Final = 1
"""The owner that holds records for the moment in which they are found not to be delivered."""
_HOLDS_NOTHING: Final = 2
"""The owner that never holds a record: members that only acknowledge."""
_FIRST_OWNER: Final = 3
_ACKNOWLEDGED: Final = 2
_ARCHIVED: Final = 4
"""The states of records that are never delivered again, as they are stored."""
_FOR_EVER: Final = (1 << 63) - 1
RELEASED_MAX: Final = 10_000
"""How many records of a member that goes are released in one turn of the event loop: about 2 ms."""

LINGERING_MAX: Final = 500
"""When so many settlements wait to be stored together, they are stored at once."""

Run = tuple[int, int, int, int]
"""First and last offset, state and delivery count."""

Settled = tuple[int, int, int]
"""First and last offset, and how the records are settled."""


class Acquired(NamedTuple):
    """Whole batches, and which of their records were delivered: first and last offset, delivery count."""

    records: bytes
    runs: list[tuple[int, int, int]]


class _Write(NamedTuple):
    change: int
    batches: list[StateBatch]
    decided: "asyncio.Future[ErrorCode] | None"
    delay_ms: int = 0
    letters: tuple[Letter, ...] = ()


class SharePartition:
    """Belongs to the event loop. What it does for one caller may interleave with others between awaits."""

    def __init__(
        self,
        key: ShareKey,
        partition: Partition,
        states: ShareStates,
        leader_epoch: int,
        start_offset: int,
        state_epoch: int,
        batches: Sequence[StateBatch],
        *,
        timer: Timer,
        tasks: Tasks,
        on_released: Callable[["SharePartition"], None],
        on_lost: Callable[["SharePartition"], None],
        clock: Clock,
        rng: Rng,
        reads: RecentReads | None = None,
        write_letters: WriteLetters | None = None,
    ) -> None:
        """`start_offset`, `state_epoch` and `batches` are the stored state, as it was read for `leader_epoch`. `reads`
        has what was read of the log for others.

        `on_released` is called when records may be delivered again, or others instead of them; `on_lost` when another
        leader has taken over.
        """
        self.key = key
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.state_epoch = state_epoch
        self.ledger = DeliveryLedger(start_offset)
        self.ledger.load([each[:4] for each in batches])
        self._acquired_batches = AcquiredBatches(
            (each.first, each.last) for each in batches if each.state not in (_ACKNOWLEDGED, _ARCHIVED)
        )
        self._states = states
        self._reads = RecentReads() if reads is None else reads
        self._timer = timer
        self._tasks = tasks
        self._on_released = on_released
        self._on_lost = on_lost
        self._owners: dict[str, int] = {}
        self._on_timed_out: dict[int, Callable[[Sequence[Run]], None]] = {}
        self._next_owner = _FIRST_OWNER
        self._timers: dict[int, TimerTask] = {}
        self._waiting: list[_Write] = []
        self._lingering: TimerTask | None = None
        self._is_writing = False
        self._acquiring = asyncio.Lock()
        self._clock = clock
        self._rng = rng
        self._write_letters = write_letters
        self._rate = DeliveryRate()
        self._marks = StreamMarks()
        self._look_again: TimerTask | None = None
        self._deliveries_max = 0
        self._limits: ShareLimits | None = None
        self._retires = False
        self._accepted_count = 0
        self._archived_count = 0
        self.is_lost = False
        for wait, delay_ms in restore_waits(self.ledger, batches, _NOBODY, clock.now_ms()):
            self._timers[wait] = timer.schedule(delay_ms, partial(self._lease_over, wait, _NOT_HELD))
        self._cancel_ended()

    @property
    def is_current(self) -> bool:
        """Whether this broker still leads the partition, in the epoch that the state was read for."""
        partition = self.partition
        return not self.is_lost and partition.is_leader and partition.leader_epoch == self.leader_epoch

    def has_news(self, limits: ShareLimits) -> bool:
        """Whether there may be something to deliver."""
        if not self._allowed(limits):
            return False
        self._follow_log_start()
        ledger = self.ledger
        offset = ledger.next_deliverable(ledger.start_offset)
        if offset < ledger.end_offset:
            return True
        return ledger.unfinished_count < limits.locks_max and offset < self._end(limits)

    async def acquire(
        self,
        member_id: str,
        limits: ShareLimits,
        *,
        max_bytes: int,
        max_records: int,
        exact: bool,
        batch_size: int = _FOR_EVER,
        throttles: bool = False,
    ) -> Acquired:
        """Deliver records to a member: whole batches, up to about `max_records`, exactly so many at most if `exact`.

        A run is ended by a batch that begins `batch_size` records behind the first of the run, unless `exact`. With
        `throttles`, records near the limit of deliveries are delivered in parts, the last time alone. Raises ApiError,
        KAFKA_STORAGE_ERROR when the log cannot be read.
        """
        async with self._acquiring:
            while self.is_current:
                allowed = self._allowed(limits)
                if allowed < max_records:
                    max_records, exact = allowed, True
                if not max_records:
                    break
                self._follow_log_start()
                ledger = self.ledger
                offset = ledger.next_deliverable(ledger.start_offset)
                is_new = offset >= ledger.end_offset
                if offset >= self._end(limits) or (is_new and ledger.unfinished_count >= limits.locks_max):
                    break
                data, batches, aborted = await self._read(offset, max_bytes, limits, keeps=exact)
                if not batches or not self.is_current:  # another may lead since it was read
                    break
                part = WHOLE
                if throttles:
                    given_back = self._given_back(offset, batches[-1].last_offset)
                    part = portion(given_back, self._acquired_batches, limits.deliveries_max)
                size = _FOR_EVER if exact else batch_size
                end_before = ledger.end_offset
                acquired = self._deliver(
                    member_id, limits, offset, data, batches, aborted, max_records, part, exact=exact, batch_size=size
                )
                if throttles:
                    self._remember_together(batches, end_before, size)
                if acquired.runs:
                    self._rate.take(sum(last - first + 1 for first, last, _ in acquired.runs))
                    return acquired
                # Nothing but markers, gaps and aborted records lay there: read on behind them.
        return Acquired(b"", [])

    def _allowed(self, limits: ShareLimits) -> int:
        """How many records may be delivered now; when none, readers are told when to look again."""
        allowed = self._rate.allowed(limits, self._clock.monotonic_ms())
        if not allowed and self._look_again is None and not self.is_lost:
            self._look_again = self._timer.schedule(self._rate.wait_ms(limits), self._looked_again)
        return allowed

    def _looked_again(self) -> None:
        self._look_again = None
        if not self.is_lost:
            self._on_released(self)

    async def _read(self, offset: int, max_bytes: int, limits: ShareLimits, *, keeps: bool) -> Read:
        """The batches from an offset on; none where the log has nothing there yet. What was read before is used if
        `keeps`. Raises ApiError.
        """
        partition = self.partition
        key = ReadKey(self.key.topic_id, self.key.partition, self.leader_epoch, limits.read_committed)
        read = self._reads.find(key, offset) if keeps else None
        if read is None:
            end = self._end(limits)
            result = partition.read(offset, max_bytes, max_offset=end, min_one_batch=True)
            aborted = partition.log.aborted_in(result, offset, end) if limits.read_committed else []
            try:
                data = await self._tasks.in_thread(result.read)
            except OSError as error:
                logger.error("%s cannot be read: %s", partition.topic_partition, error)
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition.topic_partition} cannot be read") from error
            batches, _, malformed = walk_batches(data, check_crc=False)
            if malformed is not None:
                raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{partition.topic_partition}: {malformed}")
            read = Read(data, batches, aborted)
            if batches and keeps:
                self._reads.keep(key, read)
        first = bisect_left(read.batches, offset, key=_last_offset)
        return read._replace(batches=read.batches[first:])

    def _deliver(
        self,
        member_id: str,
        limits: ShareLimits,
        offset: int,
        data: bytes,
        batches: Sequence[BatchInfo],
        aborted: list[tuple[int, int]],
        max_records: int,
        part: Portion,
        *,
        exact: bool,
        batch_size: int,
    ) -> Acquired:
        ledger = self.ledger
        owner = self._owner(member_id)
        self._follow(limits)
        room = max(0, limits.locks_max - ledger.unfinished_count)
        max_records, exact = part.limits(max_records, exact=exact)
        runs: list[tuple[int, int, int]] = []
        leases: list[int] = []
        taken = 0
        last_position = 0
        for batch, first, last, reason in self._parts(data, batches, offset, AbortedBatches(aborted), part):
            if taken >= max_records or ledger.end_offset < first:
                break  # the limit leaves the rest for later; what follows would pass over it
            if reason is not None:
                self._pass_over(first, last, reason)
                continue
            new = max(0, last - max(first, ledger.end_offset) + 1)
            most = max_records - taken if exact else last - first + 1
            if new > room:
                # Records that were given back need no room; new ones have to fit.
                most = min(most, max(0, ledger.end_offset - first) + room)
            lease, delivered = ledger.acquire(owner, first, last, max(0, most), _FOR_EVER)
            if lease:
                leases.append(lease)
                last_position = batch.position + batch.size
                before = taken
                for run_first, run_last, _, count in delivered:
                    taken += run_last - run_first + 1
                    runs.append((run_first, run_last, count))
                room -= min(room, new, taken - before)
        for lease in leases:
            self._timers[lease] = self._timer.schedule(limits.lock_ms, partial(self._lease_over, lease, owner))
        self._cancel_ended()
        start = next((batch.position for batch in batches if runs and batch.last_offset >= runs[0][0]), 0)
        return Acquired(data[start:last_position] if runs else b"", _joined(runs, batch_size))

    async def settle(
        self, member_id: str, runs: list[tuple[int, int, int]], limits: ShareLimits, delay: Delay | None = NO_DELAY
    ) -> ErrorCode:
        """Settle records that a member holds, all of them or none; decided when it is stored.

        Records that are released are delivered again after the delay; None: after that of the group's retry policy.
        """
        begun = self.begin_settle(member_id, runs, limits, delay)
        return begun if isinstance(begun, ErrorCode) else await begun

    def begin_settle(
        self,
        member_id: str,
        runs: list[tuple[int, int, int]],
        limits: ShareLimits,
        delay: Delay | None = NO_DELAY,
        *,
        linger_ms: int = 0,
    ) -> "ErrorCode | asyncio.Future[ErrorCode]":
        """As `settle`: what is decided at once, or a future. The members hold the records no longer when it returns.

        What is to be stored may wait for so long for more, or for `store_now`.
        """
        self._follow(limits)
        # Who never held anything here is nobody in particular: what lies below the start is settled for everybody.
        owner = self._owners.get(member_id, _HOLDS_NOTHING)
        renewed = [(first, last) for first, last, kind in runs if kind == RENEW]
        settled = [(first, last, kind) for first, last, kind in runs if kind != RENEW]
        try:
            if renewed:
                lease = self.ledger.extend(owner, renewed, _FOR_EVER)
                if lease:
                    self._timers[lease] = self._timer.schedule(limits.lock_ms, partial(self._lease_over, lease, owner))
                    self._cancel_ended()
            if not settled:
                return ErrorCode.NONE
            if delay is None and limits.backoff.first_ms:
                return self._settle_by_policy(owner, settled, limits, linger_ms)
            delay = delay or NO_DELAY
            change, becomes = self.ledger.settle(owner, settled, limits.deliveries_max, delay.until_ms)
        except RecordNotHeldError:
            return ErrorCode.INVALID_RECORD_STATE
        except RecordRangeError:
            has_delivered = self.ledger.start_offset < self.ledger.end_offset
            return ErrorCode.INVALID_REQUEST if has_delivered else ErrorCode.INVALID_RECORD_STATE
        if not change:
            return ErrorCode.NONE
        return self._store(change, becomes, delay, linger_ms, settled)

    def _settle_by_policy(
        self, owner: int, settled: list[Settled], limits: ShareLimits, linger_ms: int
    ) -> "ErrorCode | asyncio.Future[ErrorCode]":
        """Settle records, those that are released with the delay after as many deliveries. Raises as the ledger."""
        # All of them or none: this refuses them before any is settled.
        lease = self.ledger.extend(owner, [(first, last) for first, last, _ in settled], _FOR_EVER)
        if lease:
            self._timers[lease] = self._timer.schedule(limits.lock_ms, partial(self._lease_over, lease, owner))
        decided: ErrorCode | asyncio.Future[ErrorCode] = ErrorCode.NONE
        for deliveries, runs in by_deliveries(self.ledger, settled).items():
            delay_ms = limits.backoff.delay_ms(deliveries, self._rng.random()) if deliveries else 0
            delay = Delay(delay_ms, self._clock.now_ms() + delay_ms) if delay_ms else NO_DELAY
            change, becomes = self.ledger.settle(owner, runs, limits.deliveries_max, delay.until_ms)
            if change:
                # What is settled together is written together: the last one says what became of all.
                decided = self._store(change, becomes, delay, linger_ms, runs)
        self._cancel_ended()
        return decided

    def _follow(self, limits: ShareLimits) -> None:
        """What holds for what is given back without a request."""
        self._deliveries_max = limits.deliveries_max
        self._limits = limits

    def store_now(self) -> None:
        """Store what waits for more."""
        if self._lingering is not None:
            self._write_soon()

    def skip_to(self, offset: int) -> None:
        """Records below an offset are done, whoever holds them: none of them is delivered any more. Stored soon."""
        if offset > self.ledger.start_offset:
            self.ledger.move_start(offset)
            self._cancel_ended()
            self._store_later([])
            self._on_released(self)

    def watch_timeouts(self, member_id: str, on_timed_out: Callable[[Sequence[Run]], None]) -> None:
        """Tell a reader which of its records were released because their time was up."""
        self._on_timed_out[self._owner(member_id)] = on_timed_out

    def forget_member(self, member_id: str) -> None:
        """A reader is gone; what it holds is released when its time is up."""
        owner = self._owners.pop(member_id, None)
        if owner is not None:
            self._on_timed_out.pop(owner, None)

    def release_member(self, member_id: str) -> None:
        """Release all that a member holds: its session is over."""
        owner = self._owners.pop(member_id, None)
        if owner is not None and not self.is_lost and not self._release_some(owner):
            self._tasks.spawn(self._release_rest(owner), "share-release")

    def _release_some(self, owner: int) -> bool:
        """Release a slice of what an owner holds. Returns whether it was the last."""
        released, is_all = self.ledger.release_owner(owner, self._deliveries_max, RELEASED_MAX)
        self._cancel_ended()
        if released:
            self._count(released)
            self._store_later(released, has_letters=True)
            self._on_released(self)
        return is_all

    async def _release_rest(self, owner: int) -> None:
        while not self.is_lost:
            await next_turn()
            if self._release_some(owner):
                return

    def retire(self) -> None:
        """Nobody of the group reads here any more: have what is stored be all there is, and be gone.

        The next member reads the state anew, which may have been altered by then. Records that are held or wait for
        their time hold that up: they would be delivered too early.
        """
        self._retires = True
        self._retire_if_idle()

    def _retire_if_idle(self) -> None:
        if self._retires and not self._is_writing and not self._waiting and not self.ledger.lease_count:
            self.lose()

    def keep(self) -> None:
        """A member reads here again."""
        self._retires = False

    def store_start(self) -> None:
        """Store where the group begins, so that after a restart it does not begin at a later end."""
        self._store_later([])

    def lose(self) -> None:
        """Another leader has taken over, or the group begins anew: nothing is delivered or written any more."""
        if self.is_lost:
            return
        self.is_lost = True
        for timer in self._timers.values():
            timer.cancel()
        if self._look_again is not None:
            self._look_again.cancel()
        self._timers.clear()
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None
        waiting, self._waiting = self._waiting, []
        for write in waiting:
            if write.decided is not None and not write.decided.done():
                write.decided.set_result(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._on_lost(self)

    def deliveries(self) -> Deliveries:
        """How the group stands here."""
        ledger = self.ledger
        returned, redelivered, most, oldest, oldest_deliveries = ledger.summary()
        return Deliveries(
            start_offset=ledger.start_offset,
            end_offset=ledger.end_offset,
            high_watermark=self.partition.high_watermark,
            unfinished=ledger.unfinished_count,
            in_flight=ledger.acquired_count,
            waiting=ledger.waiting_count,
            returned=returned,
            redelivered=redelivered,
            deliveries_most=most,
            accepted=self._accepted_count,
            archived=self._archived_count,
            oldest_offset=oldest,
            oldest_deliveries=oldest_deliveries,
            oldest_holder=None if oldest < 0 else self.holder(oldest),
        )

    def holder(self, offset: int) -> str | None:
        """The member that holds a record; None of one that nobody holds, or whose holder is gone."""
        held = self.ledger.holder(offset)
        return None if held is None else next((name for name, owner in self._owners.items() if owner == held[0]), None)

    # --- the ledger ---------------------------------------------------------------------------------------------

    def _end(self, limits: ShareLimits) -> int:
        partition = self.partition
        return partition.last_stable_offset if limits.read_committed else partition.high_watermark

    def _owner(self, member_id: str) -> int:
        owner = self._owners.get(member_id)
        if owner is None:
            owner = self._owners[member_id] = self._next_owner
            self._next_owner += 1
        return owner

    def _given_back(self, offset: int, last: int) -> Iterator[Deliverable]:
        """Runs of records up to `last` that were delivered before and can be again."""
        ledger = self.ledger
        while (offset := ledger.next_deliverable(offset)) < ledger.end_offset and offset <= last:
            ((first, run_last, _, deliveries),) = ledger.runs(offset, 1)
            yield first, min(run_last, last), deliveries
            offset = run_last + 1

    def _remember_together(self, batches: Sequence[BatchInfo], end_before: int, batch_size: int) -> None:
        """What was acquired for the first time of these batches of the log."""
        self._acquired_batches.forget_below(self.ledger.start_offset)
        new = [
            (max(batch.base_offset, end_before), batch.last_offset, 1)
            for batch in batches
            if batch.last_offset >= end_before and batch.base_offset < self.ledger.end_offset
        ]
        for first, last, _ in _joined(new, batch_size):
            self._acquired_batches.add(first, last)

    def _follow_log_start(self) -> None:
        log_start = self.partition.log.log_start_offset
        if log_start > self.ledger.start_offset:
            self.ledger.move_start(log_start)
            self._cancel_ended()

    def _parts(
        self, data: bytes, batches: Sequence[BatchInfo], offset: int, undone: "AbortedBatches", part: Portion
    ) -> Iterator[tuple[BatchInfo, int, int, str | None]]:
        """First and last offsets of what lies from an offset on, each with its batch, and why nobody is given it: a
        reason for dead letters, or "" where there is no record for members; None for what is to be delivered.
        """
        expected = offset
        for batch in batches:
            if batch.base_offset > expected:
                yield batch, expected, batch.base_offset - 1, ""
            if batch.base_offset > part.last_offset:
                return
            first, last = max(batch.base_offset, offset), min(batch.last_offset, part.last_offset)
            if undone.has(batch) or batch.is_control:
                yield batch, first, batch.last_offset, ""
            elif self._is_expired(batch):
                yield batch, first, last, EXPIRED
            elif self.partition.log.config.is_stream:
                for begin, end, is_mark in self._marks.spans(data, batch, first, last):
                    yield batch, begin, end, "" if is_mark else None
            else:
                yield batch, first, last, None
            expected = batch.last_offset + 1

    def _is_expired(self, batch: BatchInfo) -> bool:
        """Whether the time to live of all records of a batch is over (`ottla.ttl.ms`)."""
        ttl_ms = self.partition.log.config.ttl_ms
        return ttl_ms >= 0 and batch.max_timestamp + ttl_ms <= self._clock.now_ms()

    def _pass_over(self, first: int, last: int, reason: str = "") -> None:
        """There is no record to deliver at these offsets, or for a reason none that is to be delivered any more."""
        ledger = self.ledger
        if last >= ledger.end_offset:
            # At once, however many there are.
            beyond = max(first, ledger.end_offset)
            has_open = ledger.start_offset < ledger.end_offset
            ledger.acquire(_NOBODY, last + 1, last, 0, _FOR_EVER)
            self._store_passed_over([(beyond, last, _ARCHIVED, 0)], reason, is_state=has_open)
            last = beyond - 1
            if first > last:
                return
        lease, runs = self.ledger.acquire(_NOBODY, first, last, last - first + 1, _FOR_EVER)
        if lease:
            change, becomes = self.ledger.settle(_NOBODY, [(run[0], run[1], GAP) for run in runs], 0, 0)
            self.ledger.commit(change)
            self._store_passed_over(becomes, reason)

    def _store_passed_over(self, becomes: list[Run], reason: str, *, is_state: bool = True) -> None:
        letters: tuple[Letter, ...] = ()
        if reason and self._limits is not None and self._limits.letters_topic:
            # That they were found counted as one delivery more.
            letters = tuple(Letter(first, last, max(0, count - 1), reason) for first, last, _, count in becomes)
        batches = [StateBatch(*run) for run in becomes] if is_state else []
        self._waiting.append(_Write(0, batches, None, letters=letters))
        self._write_soon()

    def _lease_over(self, lease: int, owner: int) -> None:
        self._timers.pop(lease, None)
        if self.is_lost:
            return
        released = self.ledger.end_lease(lease, self._deliveries_max)
        self._cancel_ended()
        if released:
            self._count(released)
            self._store_later(released, has_letters=True)
            if (on_timed_out := self._on_timed_out.get(owner)) is not None:
                on_timed_out(released)
        if released or not owner:
            self._on_released(self)
        self._retire_if_idle()

    def _count(self, becomes: Sequence[Run | StateBatch]) -> None:
        for first, last, state, *_ in becomes:
            self._accepted_count += (last - first + 1) * (state == _ACKNOWLEDGED)
            self._archived_count += (last - first + 1) * (state == _ARCHIVED)

    def _cancel_ended(self) -> None:
        """Leases with nothing left need no timer: one for each would else last until the lock time."""
        for lease in self.ledger.take_ended_leases():
            timer = self._timers.pop(lease, None)
            if timer is not None:
                timer.cancel()

    # --- what is stored -----------------------------------------------------------------------------------------

    def _store(
        self, change: int, becomes: list[Run], delay: Delay, linger_ms: int, settled: list[Settled]
    ) -> "ErrorCode | asyncio.Future[ErrorCode]":
        if self.is_lost:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        decided: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        batches = [StateBatch(*run, 0 if run[2] else delay.until_ms) for run in becomes]
        letters = letters_of(becomes, self._limits, settled)
        self._waiting.append(_Write(change, batches, decided, delay.delay_ms, letters))
        if not linger_ms or len(self._waiting) >= LINGERING_MAX:
            self._write_soon()
        elif self._lingering is None and not self._is_writing:
            self._lingering = self._timer.schedule(linger_ms, self._write_soon)
        return decided

    def _store_later(self, becomes: list[Run], *, has_letters: bool = False) -> None:
        letters = letters_of(becomes, self._limits) if has_letters else ()
        self._waiting.append(_Write(0, [StateBatch(*run) for run in becomes], None, letters=letters))
        self._write_soon()

    def _write_soon(self) -> None:
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None
        if not self._is_writing and not self.is_lost:
            self._is_writing = True
            self._tasks.spawn(self._write_all(), "share-state")

    async def _write_all(self) -> None:
        try:
            while self._waiting and not self.is_lost:
                writes, self._waiting = self._waiting, []
                await self._write(writes)
        finally:
            self._is_writing = False
            self._retire_if_idle()

    async def _write(self, writes: list[_Write]) -> None:
        writes = await self._with_letters(writes)
        if not writes:
            return
        if self.is_lost:
            self._decide(writes, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        start_after = self.ledger.start_after([write.change for write in writes if write.change])
        request = WriteState(
            self.key,
            self.state_epoch,
            self.leader_epoch,
            start_after,
            self._complete_after(writes, start_after),
            together([batch for write in writes for batch in write.batches]),
        )
        error = ErrorCode.UNKNOWN_SERVER_ERROR
        try:
            error = (await self._states.write(request)).error
        finally:
            self._decide(writes, error)

    async def _with_letters(self, writes: list[_Write]) -> list[_Write]:
        """Write the letters that belong to writes. Returns the writes whose letters are written: the others are undone,
        or, when they cannot be, tried again later.
        """
        limits, write_letters = self._limits, self._write_letters
        if write_letters is None or limits is None or not any(write.letters for write in writes):
            return writes
        letters = [letter for write in writes for letter in write.letters]
        try:
            await write_letters(self.key, self.partition, letters, limits)
        except ApiError as error:
            failed = [write for write in writes if write.letters]
            logger.warning(
                "%d dead letters of share group %s could not be written to %s yet: %s",
                len(letters),
                self.key[0],
                limits.letters_topic,
                error,
            )
            self._decide([write for write in failed if write.change], ErrorCode.REQUEST_TIMED_OUT)
            later = [write for write in failed if not write.change]
            if later:
                self._timer.schedule(LETTER_RETRY_MS, partial(self._write_again, later))
            return [write for write in writes if not write.letters]
        return writes

    def _write_again(self, writes: list[_Write]) -> None:
        self._waiting += writes
        self._write_soon()

    def _complete_after(self, writes: list[_Write], start_after: int) -> int:
        """How many records from the start on are done when these writes are."""
        ledger = self.ledger
        done = sum(
            max(0, batch.last - max(batch.first, ledger.start_offset) + 1)
            for write in writes
            if write.change
            for batch in write.batches
            if batch.state in (_ACKNOWLEDGED, _ARCHIVED)
        )
        return ledger.end_offset - start_after - (ledger.unfinished_count - done)

    def _decide(self, writes: list[_Write], error: ErrorCode) -> None:
        if error in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH):
            logger.info(
                "%s of share group %s: another leader has its state", self.partition.topic_partition, self.key[0]
            )
        is_changed = False
        for write in writes:
            if write.change and not self.is_lost:
                if error is ErrorCode.NONE:
                    if wait := self.ledger.commit(write.change):
                        over = partial(self._lease_over, wait, _NOT_HELD)
                        self._timers[wait] = self._timer.schedule(write.delay_ms, over)
                    self._count(write.batches)
                    is_changed = True
                elif self.ledger.roll_back(write.change, self._deliveries_max):
                    is_changed = True
            if write.decided is not None and not write.decided.done():
                write.decided.set_result(_TOLD.get(error, error))
        self._cancel_ended()
        if is_changed:
            # Records may have been given back, and those that are done make room for others.
            self._on_released(self)
        if error is not ErrorCode.NONE and error not in _PASSING:
            self.lose()


_TOLD: Final = {
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.INVALID_REQUEST: ErrorCode.UNKNOWN_SERVER_ERROR,  # it has no state any more
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""What a member is told when its settlement could not be stored."""

_PASSING: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
"""The state can be written later; what was to be stored was undone."""


class AbortedBatches:
    """Tells which batches of a run are of aborted transactions, one after the other."""

    def __init__(self, transactions: Sequence[tuple[int, int]]) -> None:
        """`transactions` are the producer ids and first offsets of the aborted transactions of the run."""
        self._begin = sorted((first, producer_id) for producer_id, first in transactions)
        self._open: set[int] = set()

    def has(self, batch: BatchInfo) -> bool:
        """Whether a batch is of one; its marker ends it."""
        while self._begin and self._begin[0][0] <= batch.last_offset:
            self._open.add(self._begin.pop(0)[1])
        if batch.is_control:
            self._open.discard(batch.producer_id)
            return False
        return batch.is_transactional and batch.producer_id in self._open


def _last_offset(batch: BatchInfo) -> int:
    return batch.last_offset


def _joined(runs: list[tuple[int, int, int]], size: int) -> list[tuple[int, int, int]]:
    """Neighbours that were delivered as often are one, as long as it has fewer than `size` records."""
    found: list[tuple[int, int, int]] = []
    for first, last, count in runs:
        if found and found[-1][1] + 1 == first and found[-1][2] == count and first - found[-1][0] < size:
            found[-1] = found[-1][0], last, count
        else:
            found.append((first, last, count))
    return found
