"""Delivers the records of a share partition to its members.

next that can be delivered --> read the batches from there --> pass over what has no record --> acquire the rest
"""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.native import DeliveryHints, DeliveryLedger
from ottla.queues.acknowledgements import ARCHIVED, GAP, Run
from ottla.queues.delivery_rate import DeliveryRate
from ottla.queues.delivery_throttle import WHOLE, AcquiredBatches, Portion, delivered_before, joined, portion
from ottla.queues.hint_reader import NO_HINTS, HintReader, Wanted
from ottla.queues.lease_timers import LeaseTimers
from ottla.queues.letters import Letter
from ottla.queues.log_reader import LogReader
from ottla.queues.owners import NOBODY, Owners
from ottla.queues.recent_reads import Read
from ottla.queues.record_spans import RecordSpans
from ottla.queues.share_limits import ShareLimits
from ottla.queues.state_writer import StateWriter
from ottla.replication.partition import Partition
from ottla.runtime.clock import Clock
from ottla.runtime.timer import Timer
from ottla.runtime.timing_wheel import TimerTask

FOR_EVER: Final = (1 << 63) - 1


class Acquired(NamedTuple):
    """Whole batches, and which of their records were delivered: first and last offset, delivery count."""

    records: bytes
    runs: list[tuple[int, int, int]]


class RecordDelivery:
    """Of one partition. Belongs to the event loop."""

    def __init__(
        self,
        partition: Partition,
        ledger: DeliveryLedger,
        acquired_batches: AcquiredBatches,
        reader: LogReader,
        hints: HintReader,
        times: HintReader,
        owners: Owners,
        leases: LeaseTimers,
        writer: StateWriter,
        *,
        timer: Timer,
        clock: Clock,
        is_current: Callable[[], bool],
        on_released: Callable[[], None],
    ) -> None:
        """`hints` reads what orders records, `times` until when they live. `is_current` says whether this broker still
        leads the partition; `on_released` is called when members are to look again.
        """
        self._partition = partition
        self._ledger = ledger
        self._acquired_batches = acquired_batches
        self._reader = reader
        self._hints = hints
        self._times = times
        self._spans = RecordSpans(partition, clock)
        self._owners = owners
        self._leases = leases
        self._writer = writer
        self._timer = timer
        self._clock = clock
        self._is_current = is_current
        self._on_released = on_released
        self._rate = DeliveryRate()
        self._look_again: TimerTask | None = None
        self._acquiring = asyncio.Lock()
        self._is_closed = False

    def has_news(self, limits: ShareLimits) -> bool:
        """Whether there may be something to deliver."""
        if not self._allowed(limits):
            return False
        self._follow_log_start()
        ledger = self._ledger
        ledger.set_order(limits.is_ordered, 0)
        offset = ledger.next_deliverable(ledger.start_offset)
        if offset < ledger.end_offset:
            return True
        return self._takes_new(limits) and offset < self._reader.end(limits.read_committed)

    def _takes_new(self, limits: ShareLimits) -> bool:
        """Whether records may be looked at that were never delivered."""
        ahead = self._ledger.ahead_count
        return self._ledger.unfinished_count - ahead < limits.locks_max and ahead < limits.ahead_max

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
        """Deliver records to a member: whole batches, up to about `max_records`, exactly so many at most if `exact`.

        A run is ended by a batch that begins `batch_size` records behind the first of the run, unless `exact`. With
        `throttles`, records near the limit of deliveries are delivered in parts, the last time alone. Raises ApiError,
        KAFKA_STORAGE_ERROR when the log cannot be read.
        """
        async with self._acquiring:
            while self._is_current():
                allowed = self._allowed(limits)
                if allowed < max_records:
                    max_records, exact = allowed, True
                if not max_records:
                    break
                self._follow_log_start()
                ledger = self._ledger
                ledger.set_order(limits.is_ordered, 0)
                offset = ledger.known_to_offset
                if offset == ledger.end_offset:
                    offset = ledger.next_deliverable(ledger.start_offset)
                is_new = offset >= ledger.end_offset
                end = self._reader.end(limits.read_committed)
                if offset >= end or (is_new and not self._takes_new(limits)):
                    break
                read = await self._reader.read(offset, max_bytes, max_records, limits.read_committed)
                hints = await self._hints_in(read) if limits.is_ordered else None
                times = await self._times_in(read, offset)
                if not read.batches or not self._is_current():  # another may lead since it was read
                    break
                if hints is not None and self._catches_up(hints):
                    continue
                part = WHOLE
                if throttles:
                    given_back = delivered_before(ledger, offset, read.batches[-1].last_offset)
                    part = portion(given_back, self._acquired_batches, limits.deliveries_max)
                size = FOR_EVER if exact else batch_size
                end_before = ledger.end_offset
                acquired = self._deliver(
                    member_id, limits, offset, read, hints, times, max_records, part, exact=exact, batch_size=size
                )
                if throttles:
                    self._acquired_batches.forget_below(ledger.start_offset)
                    self._acquired_batches.add_new(read.batches, end_before, ledger.end_offset, size)
                if acquired.runs:
                    self._rate.take(sum(last - first + 1 for first, last, _ in acquired.runs))
                    return acquired
                # Nothing but markers, gaps and aborted records lay there: read on behind them.
        return Acquired(b"", [])

    async def _hints_in(self, read: Read) -> DeliveryHints:
        """What the records ask for that were not looked at yet."""
        known_to = self._ledger.known_to_offset
        has_unknown = read.batches and read.batches[-1].last_offset >= known_to
        return await self._hints.read(read.data, known_to, Wanted(keys=True)) if has_unknown else NO_HINTS

    async def _times_in(self, read: Read, offset: int) -> DeliveryHints | None:
        """Until when records from an offset on live; None where they do not say so."""
        if not read.batches or not self._partition.log.config.has_ttl_header:
            return None
        return await self._times.read(read.data, offset, Wanted(ttl=True))

    def _catches_up(self, hints: DeliveryHints) -> bool:
        """Learn the keys of records that were looked at before there was an order, or by another leader. Whether there
        were any: nothing is delivered until all are known.
        """
        ledger = self._ledger
        known_to = ledger.known_to_offset
        if known_to == ledger.end_offset:
            return False
        ledger.learn(hints)
        if ledger.known_to_offset == known_to:
            place = self._partition.topic_partition
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{place}: the batch at offset {known_to} cannot be read")
        return True

    def _allowed(self, limits: ShareLimits) -> int:
        """How many records may be delivered now; when none, readers are told when to look again."""
        allowed = self._rate.allowed(limits, self._clock.monotonic_ms())
        if not allowed and self._look_again is None and not self._is_closed:
            self._look_again = self._timer.schedule(self._rate.wait_ms(limits), self._looked_again)
        return allowed

    def _looked_again(self) -> None:
        self._look_again = None
        if not self._is_closed:
            self._on_released()

    def _deliver(
        self,
        member_id: str,
        limits: ShareLimits,
        offset: int,
        read: Read,
        hints: DeliveryHints | None,
        times: DeliveryHints | None,
        max_records: int,
        part: Portion,
        *,
        exact: bool,
        batch_size: int,
    ) -> Acquired:
        ledger = self._ledger
        data, batches, undone = read
        owner = self._owners.number(member_id)
        self._writer.limits = limits
        room = max(0, limits.locks_max - (ledger.unfinished_count - ledger.ahead_count))
        max_records, exact = part.limits(max_records, exact=exact)
        runs: list[tuple[int, int, int]] = []
        leases: list[int] = []
        taken = 0
        last_position = 0
        for batch, first, last, reason in self._spans.of(data, batches, undone, offset, part.last_offset, times):
            if taken >= max_records or ledger.end_offset < first:
                break  # the limit leaves the rest for later; what follows would pass over it
            if reason is not None:
                self._pass_over(first, last, reason)
                continue
            new = max(0, last - max(first, ledger.end_offset) + 1)
            most = max_records - taken if exact else last - first + 1
            if hints is not None:
                lease, delivered = ledger.acquire_in_order(
                    owner,
                    hints,
                    first,
                    last,
                    records_max=max(0, most),
                    new_max=room,
                    ahead_max=limits.ahead_max,
                    deadline_ms=FOR_EVER,
                )
            else:
                if new > room:
                    # Records that were given back need no room; new ones have to fit.
                    most = min(most, max(0, ledger.end_offset - first) + room)
                lease, delivered = ledger.acquire(owner, first, last, max(0, most), FOR_EVER)
            if lease:
                leases.append(lease)
                last_position = batch.position + batch.size
                before = taken
                for run_first, run_last, _, count in delivered:
                    taken += run_last - run_first + 1
                    runs.append((run_first, run_last, count))
                room -= min(room, new, taken - before)
        for lease in leases:
            self._leases.start(lease, limits.lock_ms, owner)
        self._leases.cancel_ended()
        start = next((batch.position for batch in batches if runs and batch.last_offset >= runs[0][0]), 0)
        return Acquired(data[start:last_position] if runs else b"", joined(runs, batch_size))

    def close(self) -> None:
        """Nobody is told to look again."""
        self._is_closed = True
        if self._look_again is not None:
            self._look_again.cancel()

    def _follow_log_start(self) -> None:
        log_start = self._partition.log.log_start_offset
        if log_start > self._ledger.start_offset:
            self._ledger.move_start(log_start)
            self._leases.cancel_ended()

    def _pass_over(self, first: int, last: int, reason: str = "") -> None:
        """There is no record to deliver at these offsets, or for a reason none that is to be delivered any more."""
        ledger = self._ledger
        if last >= ledger.end_offset:
            # At once, however many there are.
            beyond = max(first, ledger.end_offset)
            has_open = ledger.start_offset < ledger.end_offset
            ledger.acquire(NOBODY, last + 1, last, 0, FOR_EVER)
            self._store_passed_over([(beyond, last, ARCHIVED, 0)], reason, is_state=has_open)
            last = beyond - 1
            if first > last:
                return
        ledger.give_up(first, last)
        lease, runs = ledger.acquire(NOBODY, first, last, last - first + 1, FOR_EVER)
        if lease:
            change, becomes = self._ledger.settle(NOBODY, [(run[0], run[1], GAP) for run in runs], 0, 0)
            self._ledger.commit(change)
            self._store_passed_over(becomes, reason)

    def _store_passed_over(self, becomes: list[Run], reason: str, *, is_state: bool = True) -> None:
        letters: tuple[Letter, ...] = ()
        if reason and self._writer.limits is not None and self._writer.limits.letters_topic:
            # That they were found counted as one delivery more.
            letters = tuple(Letter(first, last, max(0, count - 1), reason) for first, last, _, count in becomes)
        self._writer.write_later(becomes if is_state else [], letters)
