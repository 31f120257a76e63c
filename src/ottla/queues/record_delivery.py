"""Delivers the records of a share partition to its members.

next that can be delivered --> read the batches from there --> pass over what has no record --> acquire the rest
"""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.native import DeliveryHints, DeliveryLedger
from ottla.queues.acknowledgements import ARCHIVED, GAP, Run
from ottla.queues.delivered_batches import fitting, picked_batches, sent_bytes, whole_batches
from ottla.queues.delivery_rate import DeliveryRate
from ottla.queues.delivery_throttle import WHOLE, AcquiredBatches, Portion, delivered_before, joined, portion
from ottla.queues.hint_reader import HintReader, Wanted
from ottla.queues.history import DELIVERED, EXPIRED, History
from ottla.queues.lanes import Lanes
from ottla.queues.lease_timers import LeaseTimers
from ottla.queues.letters import Letter
from ottla.queues.log_reader import LogReader
from ottla.queues.look_ahead import LookAhead
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
    """Batches, and which of their records were delivered: first and last offset, delivery count."""

    records: bytes
    runs: list[tuple[int, int, int]]


NOTHING: Final = Acquired(b"", [])


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
        history: History,
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
        self._times = times
        self._spans = RecordSpans(partition, clock)
        self._ahead = LookAhead(partition, ledger, reader, hints, is_current, self._spans, self._pass_over_now)
        self._owners = owners
        self._leases = leases
        self._writer = writer
        self._timer = timer
        self._clock = clock
        self._history = history
        self._is_current = is_current
        self._on_released = on_released
        self._rate = DeliveryRate()
        self._lanes = Lanes()
        self._look_again: TimerTask | None = None
        self._passed: list[tuple[list[Run], str, bool]] = []
        """What was passed over and is to be stored: what it becomes, why, and whether that is to be in the state."""
        self._acquiring = asyncio.Lock()
        self._is_closed = False

    def has_news(self, limits: ShareLimits) -> bool:
        """Whether there may be something to deliver."""
        if not self._allowed(limits):
            return False
        self._follow_log_start()
        ledger = self._ledger
        ledger.set_order(limits.is_ordered, len(limits.weights))
        end = self._reader.end(limits.read_committed)
        if limits.weights:
            is_known = ledger.known_to_offset == ledger.end_offset
            return not is_known or ledger.end_offset < end or any(head >= 0 for head in ledger.lane_heads())
        offset = ledger.next_deliverable(ledger.start_offset)
        return offset < ledger.end_offset or (offset < end and self._ahead.takes_new(limits))

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
                self._writer.limits = limits
                self._history.keep_ms = limits.history_ms
                ledger = self._ledger
                ledger.set_order(limits.is_ordered, len(limits.weights))
                if limits.weights:
                    await self._ahead.fill_lanes(limits, max_bytes)
                lane, offset = self._next(limits)
                if offset < 0:
                    break
                read = await self._read(limits, offset, max_bytes, max_records)
                hints = await self._ahead.hints_in(read, limits) if limits.is_ordered and lane < 0 else None
                times = await self._times_in(read, offset)
                if not read.batches or not self._is_current():  # another may lead since it was read
                    break
                if hints is not None and self._ahead.catches_up(hints):
                    continue
                part = WHOLE
                if throttles:
                    given_back = delivered_before(ledger, offset, read.batches[-1].last_offset)
                    part = portion(given_back, self._acquired_batches, limits.deliveries_max)
                size = FOR_EVER if exact else batch_size
                end_before = ledger.end_offset
                acquired = self._deliver(
                    member_id,
                    limits,
                    offset,
                    read,
                    hints,
                    times,
                    lane,
                    max_records,
                    part,
                    exact=exact,
                    batch_size=size,
                    max_bytes=max_bytes,
                )
                if throttles:
                    self._acquired_batches.forget_below(ledger.start_offset)
                    self._acquired_batches.add_new(read.batches, end_before, ledger.end_offset, size)
                if acquired.runs:
                    count = sum(last - first + 1 for first, last, _ in acquired.runs)
                    self._rate.take(count)
                    if lane >= 0:
                        self._lanes.took(lane, count)
                    self._history.note(self._clock.now_ms(), DELIVERED, acquired.runs, member_id)
                    return acquired
                # Nothing but markers, gaps and aborted records lay there: read on behind them.
        return NOTHING

    def acquire_at_hand(self, member_id: str, limits: ShareLimits, *, max_bytes: int, max_records: int) -> Acquired:
        """As `acquire` with `exact`, of records that are in memory already: none where something has to be awaited."""
        if self._acquiring.locked() or limits.weights or limits.is_ordered or self._partition.log.config.has_ttl_header:
            return NOTHING
        max_records = min(max_records, self._allowed(limits))
        if not max_records or not self._is_current():
            return NOTHING
        self._follow_log_start()
        self._writer.limits = limits
        self._history.keep_ms = limits.history_ms
        self._ledger.set_order(False, 0)
        _, offset = self._next(limits)
        read = None if offset < 0 else self._reader.kept(offset, max_bytes, limits.read_committed)
        if read is None or not read.batches:
            return NOTHING
        acquired = self._deliver(
            member_id,
            limits,
            offset,
            read,
            None,
            None,
            -1,
            max_records,
            WHOLE,
            exact=True,
            batch_size=FOR_EVER,
            max_bytes=max_bytes,
        )
        if acquired.runs:
            self._rate.take(sum(last - first + 1 for first, last, _ in acquired.runs))
            self._history.note(self._clock.now_ms(), DELIVERED, acquired.runs, member_id)
        return acquired

    async def _read(self, limits: ShareLimits, offset: int, max_bytes: int, max_records: int) -> Read:
        """The batches from an offset on: those of a delivery, or a window that its records are picked out of."""
        if not limits.is_ordered and not limits.weights:
            return await self._reader.read(offset, max_bytes, max_records, limits.read_committed)
        records = max(0, self._ledger.end_offset - offset) + max_records
        return await self._reader.read_window(offset, records, limits.read_committed)

    def _next(self, limits: ShareLimits) -> tuple[int, int]:
        """The lane that is served next, -1 without priorities, and the offset to read from; -1 for nothing."""
        ledger = self._ledger
        if limits.weights:
            has_room = self._room(limits) > 0
            heads = ledger.lane_heads()
            lanes = [
                lane for lane, head in enumerate(heads) if head >= 0 and (has_room or ledger.runs(head, 1)[0][3] > 0)
            ]
            if not lanes or ledger.known_to_offset < ledger.end_offset:
                return -1, -1
            lane = self._lanes.next(limits.weights, lanes)
            return lane, heads[lane]
        offset = ledger.known_to_offset
        if offset == ledger.end_offset:
            offset = ledger.next_deliverable(ledger.start_offset)
        is_new = offset >= ledger.end_offset
        is_refused = offset >= self._reader.end(limits.read_committed) or (is_new and not self._ahead.takes_new(limits))
        return -1, -1 if is_refused else offset

    def _room(self, limits: ShareLimits) -> int:
        """How many records may be delivered that never were."""
        ledger = self._ledger
        room = limits.locks_max - (ledger.unfinished_count - ledger.ahead_count)
        # With priorities, what was given back may be behind what is new: while nothing is held, one always goes.
        has_held = ledger.acquired_count + ledger.waiting_count > 0
        return max(room, 0 if has_held or not limits.weights else 1)

    async def _times_in(self, read: Read, offset: int) -> DeliveryHints | None:
        """Until when records from an offset on live; None where they do not say so."""
        if not read.batches or not self._partition.log.config.has_ttl_header:
            return None
        return await self._times.read(read.data, offset, Wanted(ttl=True))

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
        lane: int,
        max_records: int,
        part: Portion,
        *,
        exact: bool,
        batch_size: int,
        max_bytes: int,
    ) -> Acquired:
        ledger = self._ledger
        data, batches, undone = read
        picks = hints is not None or lane >= 0
        owner = self._owners.number(member_id)
        room = self._room(limits)
        max_records, exact = part.limits(max_records, exact=exact)
        runs: list[tuple[int, int, int]] = []
        leases: list[int] = []
        parts: list[tuple[int, int]] = []
        taken = sent = 0
        for batch, first, last, reason in self._spans.of(data, batches, undone, offset, part.last_offset, times):
            fits = fitting(batch, max_bytes - sent) if picks and taken else last - first + 1
            if taken >= max_records or not fits or ledger.end_offset < first + (lane >= 0):
                break  # the limit leaves the rest for later; what follows would pass over it
            if lane >= 0:
                last = min(last, ledger.end_offset - 1)  # noqa: PLW2901 - what lies behind is not in a lane yet
            if reason is not None:
                self._pass_over(first, last, reason)
                continue
            new = max(0, last - max(first, ledger.end_offset) + 1)
            most = min(fits, max_records - taken if exact else last - first + 1)
            if lane >= 0:
                lease, delivered = ledger.acquire_lane(
                    owner, lane, first, last, records_max=most, new_max=room, deadline_ms=FOR_EVER
                )
                new = sum(run[1] - run[0] + 1 for run in delivered if run[3] == 1)
            elif hints is not None:
                lease, delivered = ledger.acquire_in_order(
                    owner,
                    hints,
                    first,
                    last,
                    records_max=most,
                    new_max=room,
                    ahead_max=limits.ahead_max,
                    deadline_ms=FOR_EVER,
                )
            else:
                if new > room:
                    # Records that were given back need no room; new ones have to fit.
                    most = min(most, max(0, ledger.end_offset - first) + room)
                lease, delivered = ledger.acquire(owner, first, last, most, FOR_EVER)
            if lease:
                leases.append(lease)
                parts.append((batch.position, batch.position + batch.size))
                before = taken
                for run_first, run_last, _, count in delivered:
                    taken += run_last - run_first + 1
                    runs.append((run_first, run_last, count))
                room -= min(room, new, taken - before)
                sent += sent_bytes(batch, taken - before)
        self._store_passed_over()
        for lease in leases:
            self._leases.start(lease, limits.lock_ms, owner)
        self._leases.cancel_ended()
        records = picked_batches(data, parts, runs) if picks else whole_batches(data, parts)
        return Acquired(records, joined(runs, batch_size))

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

    def _pass_over_now(self, first: int, last: int, reason: str) -> None:
        """Pass over, and have it stored."""
        self._pass_over(first, last, reason)
        self._store_passed_over()

    def _pass_over(self, first: int, last: int, reason: str) -> None:
        """There is no record to deliver at these offsets, or for a reason none that is to be delivered any more.

        What is passed over in a row is stored together.
        """
        ledger = self._ledger
        if last >= ledger.end_offset:
            # At once, however many there are.
            beyond = max(first, ledger.end_offset)
            has_open = ledger.start_offset < ledger.end_offset
            ledger.acquire(NOBODY, last + 1, last, 0, FOR_EVER)
            self._passed.append(([(beyond, last, ARCHIVED, 0)], reason, has_open))
            last = beyond - 1
            if first > last:
                return
        ledger.give_up(first, last)
        lease, runs = ledger.acquire(NOBODY, first, last, last - first + 1, FOR_EVER)
        if lease:
            change, becomes = self._ledger.settle(NOBODY, [(run[0], run[1], GAP) for run in runs], 0, 0)
            self._ledger.commit(change)
            self._passed.append((becomes, reason, True))

    def _store_passed_over(self) -> None:
        passed, self._passed = self._passed, []
        if not passed:
            return
        limits = self._writer.limits
        has_letters = limits is not None and bool(limits.letters_topic)
        state: list[Run] = []
        gone: list[tuple[int, int, int]] = []
        letters: list[Letter] = []
        for becomes, reason, is_state in passed:
            if is_state:
                state += becomes
            if reason:
                # That they were found counted as one delivery more.
                found = [(first, last, max(0, count - 1)) for first, last, _, count in becomes]
                gone += found
                if has_letters:
                    letters += [Letter(*each, reason) for each in found]
        if gone:
            self._history.note(self._clock.now_ms(), EXPIRED, gone)
        self._writer.write_later(state, tuple(letters))
