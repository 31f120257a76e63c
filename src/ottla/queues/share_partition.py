"""A share partition at the leader of its partition: what is delivered to whom, and what of that is stored.

    acquire    read the log from the next deliverable offset, deliver what is there, start one timer
    settle     the ledger marks it, the state is written, then it holds; a write that fails undoes it
               a lease of which all is settled ends, and its timer with it
    time up    what the lease still holds is released, and that is written

One write of the state is in flight at a time; what gathers meanwhile is the next one.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from ottla.model.error_code import ErrorCode
from ottla.native import DeliveryLedger
from ottla.native.errors import RecordNotHeldError, RecordRangeError
from ottla.queues.acknowledgements import ACKNOWLEDGED, ARCHIVED, RENEW, Run, Settled
from ottla.queues.deliveries import Deliveries
from ottla.queues.delivery_throttle import AcquiredBatches
from ottla.queues.hint_reader import HintReader
from ottla.queues.history import LOCK_OVER, MEMBER_GONE, History
from ottla.queues.lease_timers import LeaseTimers
from ottla.queues.letters import WriteLetters, letters_of
from ottla.queues.log_reader import LogReader
from ottla.queues.owners import NOBODY, NOT_HELD, OnTimedOut, Owners
from ottla.queues.recent_reads import RecentReads
from ottla.queues.record_delivery import FOR_EVER, Acquired, RecordDelivery
from ottla.queues.redelivery import NO_DELAY, Delay, by_deliveries, restore_waits
from ottla.queues.share_limits import ShareLimits
from ottla.queues.share_state import ShareKey
from ottla.queues.share_states import ShareStates
from ottla.queues.state_batches import StateBatch
from ottla.queues.state_writer import PASSING, StateWrite, StateWriter
from ottla.replication.partition import Partition
from ottla.runtime.clock import Clock
from ottla.runtime.rng import Rng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer
from ottla.runtime.turns import next_turn

logger = logging.getLogger(__name__)

RELEASED_MAX: Final = 10_000
"""How many records of a member that goes are released in one turn of the event loop: about 2 ms."""


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
        acquired_batches: AcquiredBatches | None = None,
        history: History | None = None,
    ) -> None:
        """`start_offset`, `state_epoch` and `batches` are the stored state, as it was read for `leader_epoch`. `reads`
        has what was read of the log for others. `acquired_batches` is what is known from before of records that were
        acquired together. `history` is what is remembered of records.

        `on_released` is called when records may be delivered again, or others instead of them; `on_lost` when another
        leader has taken over.
        """
        self.key = key
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.state_epoch = state_epoch
        self.ledger = DeliveryLedger(start_offset)
        self.ledger.load([each[:4] for each in batches])
        self.acquired_batches = acquired_batches or AcquiredBatches(
            (each.first, each.last) for each in batches if each.state not in (ACKNOWLEDGED, ARCHIVED)
        )
        self._history = History() if history is None else history
        self._owners = Owners()
        self._leases = LeaseTimers(self.ledger, timer, self._lease_over)
        self._writer = StateWriter(
            key,
            partition,
            self.ledger,
            states,
            state_epoch,
            leader_epoch,
            timer=timer,
            tasks=tasks,
            write_letters=write_letters,
            on_decided=self._decide,
            on_idle=self._retire_if_idle,
        )
        self._delivery = RecordDelivery(
            partition,
            self.ledger,
            self.acquired_batches,
            LogReader(partition, key, leader_epoch, RecentReads() if reads is None else reads, tasks),
            HintReader(tasks),
            HintReader(tasks),
            self._owners,
            self._leases,
            self._writer,
            timer=timer,
            clock=clock,
            history=self._history,
            is_current=lambda: self.is_current,
            on_released=self._tell_released,
        )
        self._tasks = tasks
        self._on_released = on_released
        self._on_lost = on_lost
        self._clock = clock
        self._rng = rng
        self._retires = False
        self._accepted_count = 0
        self._archived_count = 0
        self.looked_ms = 0
        """When it was seen last, by the monotonic clock, that the state is the one that is stored."""
        self.is_lost = False
        self.is_retired = False
        """Whether it is lost because nobody reads here any more."""
        for wait, delay_ms in restore_waits(self.ledger, batches, NOBODY, clock.now_ms()):
            self._leases.start(wait, delay_ms, NOT_HELD)
        self._leases.cancel_ended()

    @property
    def is_current(self) -> bool:
        """Whether this broker still leads the partition, in the epoch that the state was read for."""
        partition = self.partition
        return not self.is_lost and partition.is_leader and partition.leader_epoch == self.leader_epoch

    def has_news(self, limits: ShareLimits) -> bool:
        """Whether there may be something to deliver."""
        return not self.is_lost and self._delivery.has_news(limits)

    async def acquire(
        self,
        member_id: str,
        limits: ShareLimits,
        *,
        max_bytes: int,
        max_records: int,
        exact: bool,
        batch_size: int = FOR_EVER,
        throttles: bool = False,
    ) -> Acquired:
        """Deliver records to a member: see `RecordDelivery.acquire`. Raises ApiError."""
        return await self._delivery.acquire(
            member_id,
            limits,
            max_bytes=max_bytes,
            max_records=max_records,
            exact=exact,
            batch_size=batch_size,
            throttles=throttles,
        )

    def acquire_at_hand(self, member_id: str, limits: ShareLimits, *, max_bytes: int, max_records: int) -> Acquired:
        """Deliver records that are in memory already: see `RecordDelivery.acquire_at_hand`."""
        return self._delivery.acquire_at_hand(member_id, limits, max_bytes=max_bytes, max_records=max_records)

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
        self._writer.limits = limits
        # Who never held anything here is nobody in particular: what lies below the start is settled for everybody.
        owner = self._owners.known_number(member_id)
        renewed, settled = _renewed_and_settled(runs)
        try:
            if renewed:
                lease = self.ledger.extend(owner, renewed, FOR_EVER)
                if lease:
                    self._leases.start(lease, limits.lock_ms, owner)
                    self._leases.cancel_ended()
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
        if not change and self._writer.is_start_stored:
            return ErrorCode.NONE
        # What lies below the start is done; who is told so may rely on it.
        return self._store(change, becomes, delay, linger_ms, settled)

    def _settle_by_policy(
        self, owner: int, settled: list[Settled], limits: ShareLimits, linger_ms: int
    ) -> "ErrorCode | asyncio.Future[ErrorCode]":
        """Settle records, those that are released with the delay after as many deliveries. Raises as the ledger."""
        # All of them or none: this refuses them before any is settled.
        lease = self.ledger.extend(owner, [(first, last) for first, last, _ in settled], FOR_EVER)
        if lease:
            self._leases.start(lease, limits.lock_ms, owner)
        decided: ErrorCode | asyncio.Future[ErrorCode] = ErrorCode.NONE
        for deliveries, runs in by_deliveries(self.ledger, settled).items():
            delay_ms = limits.backoff.delay_ms(deliveries, self._rng.random()) if deliveries else 0
            delay = Delay(delay_ms, self._clock.now_ms() + delay_ms) if delay_ms else NO_DELAY
            change, becomes = self.ledger.settle(owner, runs, limits.deliveries_max, delay.until_ms)
            if change:
                # What is settled together is written together: the last one says what became of all.
                decided = self._store(change, becomes, delay, linger_ms, runs)
        self._leases.cancel_ended()
        if decided is ErrorCode.NONE and not self._writer.is_start_stored:
            return self._store(0, [], NO_DELAY, linger_ms, [])
        return decided

    @property
    def _deliveries_max(self) -> int:
        """The limit for what is given back without a request."""
        return 0 if self._writer.limits is None else self._writer.limits.deliveries_max

    def store_now(self) -> None:
        """Store what waits for more."""
        self._writer.store_now()

    def skip_to(self, offset: int) -> None:
        """Records below an offset are done, whoever holds them: none of them is delivered any more. Stored soon."""
        if offset > self.ledger.start_offset:
            self.ledger.move_start(offset)
            self._leases.cancel_ended()
            self._writer.write_later([])
            self._on_released(self)

    def watch_timeouts(self, member_id: str, on_timed_out: OnTimedOut) -> None:
        """Tell a reader which of its records were released because their time was up."""
        self._owners.watch_timeouts(member_id, on_timed_out)

    def forget_member(self, member_id: str) -> None:
        """A reader is gone; what it holds is released when its time is up."""
        self._owners.forget(member_id)

    def release_member(self, member_id: str) -> None:
        """Release all that a member holds: its session is over."""
        owner = self._owners.forget(member_id)
        if owner is not None and not self.is_lost and not self._release_some(owner):
            self._tasks.spawn(self._release_rest(owner), "share-release")

    def _release_some(self, owner: int) -> bool:
        """Release a slice of what an owner holds. Returns whether it was the last."""
        released, is_all = self.ledger.release_owner(owner, self._deliveries_max, RELEASED_MAX)
        self._leases.cancel_ended()
        if released:
            self._count(released)
            self._history.note_given_back(self._clock.now_ms(), released, MEMBER_GONE)
            self._writer.write_later(released, letters_of(released, self._writer.limits))
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
        if self._retires and self._writer.is_idle and not self.ledger.lease_count:
            self.is_retired = not self.is_lost
            self.lose()

    def keep(self) -> None:
        """A member reads here again."""
        self._retires = False

    def store_start(self) -> None:
        """Store where the group begins, so that after a restart it does not begin at a later end."""
        self._writer.write_later([])

    def lose(self) -> None:
        """Another leader has taken over, or the group begins anew: nothing is delivered or written any more."""
        if self.is_lost:
            return
        self.is_lost = True
        self._leases.close()
        self._delivery.close()
        self._writer.close()
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
        return None if held is None else self._owners.member(held[0])

    # --- the ledger ---------------------------------------------------------------------------------------------

    def _tell_released(self) -> None:
        self._on_released(self)

    def _lease_over(self, lease: int, owner: int) -> None:
        if self.is_lost:
            return
        released = self.ledger.end_lease(lease, self._deliveries_max)
        self._leases.cancel_ended()
        if released:
            self._count(released)
            self._history.note_given_back(self._clock.now_ms(), released, LOCK_OVER)
            self._writer.write_later(released, letters_of(released, self._writer.limits))
            self._owners.tell_timed_out(owner, released)
        if released or not owner:
            self._on_released(self)
        self._retire_if_idle()

    def _count(self, becomes: Sequence[Run | StateBatch]) -> None:
        for each in becomes:
            if each[2] == ACKNOWLEDGED:
                self._accepted_count += each[1] - each[0] + 1
            elif each[2] == ARCHIVED:
                self._archived_count += each[1] - each[0] + 1

    # --- what is stored -----------------------------------------------------------------------------------------

    def _store(
        self, change: int, becomes: list[Run], delay: Delay, linger_ms: int, settled: Sequence[Settled]
    ) -> "ErrorCode | asyncio.Future[ErrorCode]":
        if self.is_lost:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        decided: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        batches = [StateBatch(*run, 0 if run[2] else delay.until_ms) for run in becomes]
        limits = self._writer.limits
        letters = letters_of(becomes, limits, settled) if limits is not None and limits.letters_topic else ()
        self._writer.write(StateWrite(change, batches, decided, delay.delay_ms, letters, settled), linger_ms)
        return decided

    def _decide(self, writes: Sequence[StateWrite], error: ErrorCode) -> None:
        if error in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH):
            logger.info(
                "%s of share group %s: another leader has its state", self.partition.topic_partition, self.key[0]
            )
        is_changed, remembers = False, self._history.keep_ms > 0
        for write in writes:
            if write.change and not self.is_lost:
                if error is ErrorCode.NONE:
                    if wait := self.ledger.commit(write.change):
                        self._leases.start(wait, write.delay_ms, NOT_HELD)
                    self._count(write.batches)
                    if remembers:
                        self._history.note_settled(self._clock.now_ms(), write.batches, write.settled)
                    is_changed = True
                elif self.ledger.roll_back(write.change, self._deliveries_max):
                    is_changed = True
            write.decide(error)
        self._leases.cancel_ended()
        if is_changed:
            # Records may have been given back, and those that are done make room for others.
            self._on_released(self)
        if error is not ErrorCode.NONE and error not in PASSING:
            self.lose()


def _renewed_and_settled(
    runs: list[tuple[int, int, int]],
) -> tuple[list[tuple[int, int]], list[tuple[int, int, int]]]:
    for _, _, kind in runs:
        if kind == RENEW:
            break
    else:
        return [], runs
    renewed = [(first, last) for first, last, kind in runs if kind == RENEW]
    return renewed, [(first, last, kind) for first, last, kind in runs if kind != RENEW]
