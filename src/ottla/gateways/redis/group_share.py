"""The group of a stream as members of the share group of its name and clients of the NSQ channel see it: one group.

    acquire    what nobody has and whose time has come, then what lies behind last-delivered-id; the worker is a
               consumer of the group; the marks are on disk before the records are given out, as with XREADGROUP
    settle     accept is XACK, release is XNACK, for later if need be; a reject is done, and a dead letter
    time up    what the worker still has nobody has any more

It takes the place of `ottla.queues.share_partition.SharePartition` for topics that are streams. The state is the
stream's, in its log; only times and offsets are in memory here. So another leader gives out anew what workers had.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.gateways.redis.entry_places import EntryAt, EntryPlaces, Stretch
from ottla.gateways.redis.error import RedisError
from ottla.gateways.redis.fetched import Fetched
from ottla.gateways.redis.group_commands import entries_read_behind
from ottla.gateways.redis.group_counts import deliveries_of
from ottla.gateways.redis.stream import NodeMissingError
from ottla.gateways.redis.stream_id import id_bytes
from ottla.gateways.redis.stream_records import GroupSet
from ottla.gateways.redis.worker_holds import Hold, Lease, WorkerHolds
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.native.errors import KernelError
from ottla.queues.acknowledgements import ACCEPT, GAP, REJECT, RELEASE, RENEW
from ottla.queues.dead_letter import REJECTED, TOO_OFTEN
from ottla.queues.delivery_rate import DeliveryRate
from ottla.queues.delivery_throttle import AcquiredBatches, joined
from ottla.queues.history import ACCEPTED, DELIVERED, LOCK_OVER, MEMBER_GONE, RELEASED
from ottla.queues.history import REJECTED as WAS_REJECTED
from ottla.queues.letters import LETTER_RETRY_MS, Letter
from ottla.queues.log_reader import LogReader
from ottla.queues.record_delivery import FOR_EVER, NOTHING, Acquired
from ottla.queues.redelivery import NO_DELAY, Delay
from ottla.runtime.turns import next_turn

if TYPE_CHECKING:
    from ottla.gateways.redis.gateway import RedisGateway
    from ottla.gateways.redis.group import Group
    from ottla.gateways.redis.stream import Stream
    from ottla.native import BatchInfo
    from ottla.queues.deliveries import Deliveries
    from ottla.queues.owners import OnTimedOut
    from ottla.queues.recent_reads import Read
    from ottla.queues.share_limits import ShareLimits
    from ottla.queues.share_state import ShareKey
    from ottla.queues.surroundings import Surroundings
    from ottla.replication.partition import Partition
    from ottla.runtime.timing_wheel import TimerTask

logger = logging.getLogger(__name__)

COUNT_MAX: Final = (1 << 15) - 1
"""How often a record was delivered, as far as Kafka's protocol can say."""
LEARNED_MAX: Final = 10_000
"""Pending entries that are looked at in one turn of the event loop when the group is opened."""


class _Found(NamedTuple):
    """Entries that may be given out, in one read of the log, and the batches they lie in."""

    read: Read
    places: list[EntryAt]
    batches: list[BatchInfo]
    is_fresh: bool


class _Given(NamedTuple):
    """Entries that go to members again, with the time before which they do not."""

    holds: list[Hold]
    until_ms: int


class GroupShare:
    """Belongs to the event loop. What it does for one caller may interleave with others between awaits."""

    state_epoch = 0

    def __init__(
        self,
        key: ShareKey,
        partition: Partition,
        stream: Stream,
        group: Group,
        gateway: RedisGateway,
        around: Surroundings,
    ) -> None:
        broker = gateway.broker
        self.key = key
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.acquired_batches = AcquiredBatches(())
        self.looked_ms = 0
        self.is_lost = False
        self.is_retired = False
        self._stream = stream
        self._group = group
        self._gateway = gateway
        self._around = around
        self._clock, self._timer, self._tasks, self._rng = broker.clock, broker.timer, broker.tasks, broker.rng
        self._reader = LogReader(partition, key, self.leader_epoch, around.reads, broker.tasks)
        self._places = EntryPlaces(stream, partition, self._reader)
        self._holds = WorkerHolds(stream, group, self._freed, self._taken, self._lease_ended)
        self._rate = DeliveryRate()
        self._looked = (-1, 0)
        """A last-delivered-id, and an offset: what lies before it was looked at in vain for entries behind the id."""
        self._own_from = (-1, 0)
        """An id, and an offset at or before that of the stream's own entries behind it that are there."""
        self._leases: dict[Lease, TimerTask] = {}
        self._timed_out: dict[str, OnTimedOut] = {}
        self._gone: set[str] = set()
        """Members that are gone and have something until its time is up."""
        self._due: TimerTask | None = None
        self._due_ms = 0
        self._look_again: TimerTask | None = None
        self._acquiring = asyncio.Lock()
        self._retires = False
        self._is_telling = False
        self._accepted = self._archived = 0
        self._aside = 0
        """Entries whose letters are being written."""

    async def learn(self) -> None:
        """Look at all that is pending. What workers had whom another leader knew, nobody has any more."""
        ids = list(self._group.pending)
        for at in range(0, len(ids), LEARNED_MAX):
            await self._gateway.until_free()
            if not self.is_current:
                return
            now_ms = self._clock.now_ms()
            orphans = self._holds.learn(ids[at : at + LEARNED_MAX], now_ms)
            with self._changing():
                self._holds.free(orphans, now_ms)
            await next_turn()
        await self._gateway.until_free()
        if self.is_current:
            with self._changing():
                for name in [each.name for each in self._group.consumers.values() if each.is_worker]:
                    self._holds.drop_worker(name.decode(), self._clock.now_ms())
        self._wait_for_due()

    @property
    def is_current(self) -> bool:
        """Whether the stream is served here as it was read, and has the group."""
        stream = self._stream
        return (
            not self.is_lost
            and stream.log.is_current
            and stream.groups.get(self._group.name) is self._group
            and self._gateway.keyspace.serves(stream)
        )

    # --- giving out -------------------------------------------------------------------------------------------------

    def has_news(self, limits: ShareLimits) -> bool:
        """Whether there may be something to give out."""
        if not self.is_current or not self._allowed(limits) or self._holds.count >= limits.locks_max:
            return False
        return self._holds.has_free(self._clock.now_ms()) or self._has_fresh(limits)

    def _has_fresh(self, limits: ShareLimits) -> bool:
        stream, group = self._stream, self._group
        is_behind = stream.length > 0 and stream.last_id > group.last_id
        after, offset = self._looked
        return is_behind and (after != group.last_id or offset < self._reader.end(limits.read_committed))

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
        """Give entries to a member, up to `max_records`, once that is on disk. Raises ApiError."""
        del exact, throttles
        async with self._acquiring:
            acquired = await self._acquire(member_id, limits, max_bytes, max_records, batch_size)
            written = self._written() if acquired.runs else None
        if written is not None:
            error = written if isinstance(written, ErrorCode) else await written
            if error is not ErrorCode.NONE:
                raise ApiError(error, f"{self.partition.topic_partition}: what is pending was not written")
        return acquired

    def acquire_at_hand(self, member_id: str, limits: ShareLimits, *, max_bytes: int, max_records: int) -> Acquired:
        """Nothing: what is given to a member has to be on disk first."""
        return NOTHING

    async def _acquire(
        self, member_id: str, limits: ShareLimits, max_bytes: int, max_records: int, batch_size: int
    ) -> Acquired:
        fetched = Fetched()
        while True:
            await self._gateway.until_free()
            if not self.is_current:
                return Acquired(b"", [])
            count = min(max_records, self._allowed(limits), limits.locks_max - self._holds.count)
            if count <= 0:
                return Acquired(b"", [])
            try:
                found = await self._returned(count, max_bytes) or await self._fresh(limits, count, max_bytes)
            except KernelError as error:
                place = self.partition.topic_partition
                raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{place} cannot be read: {error}") from error
            if found is None:
                return Acquired(b"", [])
            await self._gateway.until_free()
            try:
                acquired = self._give(member_id, limits, found, fetched, batch_size)
            except NodeMissingError as missing:
                if not await self._fetch(missing, fetched):
                    return Acquired(b"", [])
                continue
            if acquired.runs:
                self._rate.take(sum(last - first + 1 for first, last, _ in acquired.runs))
                self._around.history.keep_ms = limits.history_ms
                self._around.history.note(self._clock.now_ms(), DELIVERED, acquired.runs, member_id)
                return acquired

    async def _returned(self, count: int, max_bytes: int) -> _Found | None:
        """Entries that were given out before and nobody has."""
        now_ms = self._clock.now_ms()
        ids = self._holds.pop_free(count, now_ms)
        gone = [entry_id for entry_id in ids if not self._stream.has(entry_id)]
        if gone:  # deleted, as XAUTOCLAIM finds out too
            with self._changing():
                self._holds.forget(gone, now_ms)
        wanted = [entry_id for entry_id in ids if self._stream.has(entry_id)]
        if not wanted:
            return None
        left = set(wanted)
        try:
            stretch = self._places.stretch_behind(wanted[0] - 1)
            if stretch is None:
                return None
            last_id = max(each for each in wanted if each <= stretch.last_id)
            found, _, _ = await self._look(stretch, stretch.offset, last_id, left.__contains__, count, max_bytes, False)
            if found is not None:
                left.difference_update(entry_id for _, entry_id in found.places)
            return None if found is None else found._replace(is_fresh=False)  # it may not be on all replicas yet
        finally:
            self._holds.push_back(left)

    async def _look(
        self,
        stretch: Stretch,
        offset: int,
        last_id: int,
        is_wanted: Callable[[int], bool],
        count: int,
        max_bytes: int,
        read_committed: bool,
    ) -> tuple[_Found | None, int, bool]:
        """Entries of a stretch that are wanted, of the first read that has some. Where none has, the offset up to which
        that is so, and whether what lies behind it is behind `last_id`.
        """
        while True:
            read = await self._reader.read(offset, max_bytes, count, read_committed)
            if not read.batches:
                return None, offset, False
            places, batches = [], []
            entry_id = -1
            for batch, (at, entry_id) in self._places.entries_of(stretch, read, offset):
                if is_wanted(entry_id):
                    places.append((at, entry_id))
                    batches.append(batch)
                if len(places) >= count or entry_id >= last_id:
                    break
            if places:
                return _Found(read, places, batches, is_fresh=True), offset, False
            if entry_id >= last_id:
                return None, offset, True
            offset = stretch.next_offset(read.batches[-1].last_offset + 1)

    async def _fresh(self, limits: ShareLimits, count: int, max_bytes: int) -> _Found | None:
        """Entries behind last-delivered-id."""
        while self._has_fresh(limits):
            after = at = self._group.last_id
            end = self._reader.end(limits.read_committed)
            while self._group.last_id == after:
                stretch = self._places.stretch_behind(at)
                if stretch is None:
                    self._looked = after, end
                    break
                offset = stretch.offset
                if not stretch.is_adopted and self._own_from[0] <= after:
                    offset = max(offset, self._own_from[1])
                found, offset, is_over = await self._look(
                    stretch,
                    offset,
                    stretch.last_id,
                    lambda each: each > after and self._stream.has(each),  # noqa: B023
                    count,
                    max_bytes,
                    limits.read_committed,
                )
                if found is not None:
                    return found
                if not stretch.is_adopted and self._group.last_id == after:
                    self._own_from = after, offset
                is_cut = self._reader.end(limits.read_committed) < self.partition.high_watermark
                if not is_over and (not stretch.is_written or is_cut):
                    self._looked = after, end
                    break  # what comes next is not readable yet
                at = stretch.last_id
        return None

    def _give(self, member_id: str, limits: ShareLimits, found: _Found, fetched: Fetched, batch_size: int) -> Acquired:
        """Give a member what of this may still be given out, maybe nothing. Raises NodeMissingError."""
        if not self.is_current:
            return Acquired(b"", [])
        now_ms = self._clock.now_ms()
        group = self._group
        kept = [index for index, (_, entry_id) in enumerate(found.places) if self._may_give(entry_id, found, now_ms)]
        if not kept:
            return Acquired(b"", [])
        places = [found.places[index] for index in kept]
        with self._changing():
            if found.is_fresh:
                fetched.hold()
                ids = [entry_id for _, entry_id in places]
                entries_read = entries_read_behind(self._stream, group, ids)
                self._stream.mark(now_ms, GroupSet(group.name, id_bytes(ids[-1]), entries_read))
                if not self._stream.is_adopted(ids[-1]):
                    self._own_from = ids[-1], places[-1][0] + 1
            lease = Lease(member_id, now_ms + limits.lock_ms, limits.deliveries_max)
            counts = self._holds.take(lease, places, now_ms)
        self._gone.discard(member_id)
        self._start(lease, limits.lock_ms)
        runs = [(at, at, min(count, COUNT_MAX)) for (at, _), count in zip(places, counts, strict=True)]
        return Acquired(_cut(found.read.data, [found.batches[index] for index in kept]), joined(runs, batch_size))

    def _may_give(self, entry_id: int, found: _Found, now_ms: int) -> bool:
        if not self._stream.has(entry_id):
            return False
        if found.is_fresh:
            return entry_id > self._group.last_id
        pending = self._group.pending.get(entry_id)
        return pending is not None and pending.consumer is None and pending.until_ms <= now_ms

    async def _fetch(self, missing: NodeMissingError, fetched: Fetched) -> bool:
        try:
            await self._gateway.fetch(missing, fetched, self._gateway.peer_commands.own)
        except (ApiError, RedisError) as error:
            logger.warning("%s: a node is not read: %s", self.partition.topic_partition, error)
            return False
        return True

    def _allowed(self, limits: ShareLimits) -> int:
        """How many entries may be given out now; when none, readers are told when to look again."""
        allowed = self._rate.allowed(limits, self._clock.monotonic_ms())
        if not allowed and self._look_again is None and not self.is_lost:
            self._look_again = self._timer.schedule(self._rate.wait_ms(limits), self._looked_again)
        return allowed

    def _looked_again(self) -> None:
        self._look_again = None
        self._around.on_released(self)

    # --- settling ---------------------------------------------------------------------------------------------------

    async def settle(
        self, member_id: str, runs: list[tuple[int, int, int]], limits: ShareLimits, delay: Delay | None = NO_DELAY
    ) -> ErrorCode:
        """Settle entries that a member has, all of them or none; decided when it is on disk.

        Those that are released are given out again after the delay; None: after that of the group's retry policy.
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
    ) -> ErrorCode | asyncio.Future[ErrorCode]:
        """As `settle`: what is decided at once, or a future. The member has the entries no longer when it returns."""
        del linger_ms
        if self._gateway.keyspace.is_holding:
            return self._tasks.spawn(self._settle_when_free(member_id, runs, limits, delay), "redis-group-settle")
        return self._settle(member_id, runs, limits, delay)

    async def _settle_when_free(
        self, member_id: str, runs: list[tuple[int, int, int]], limits: ShareLimits, delay: Delay | None
    ) -> ErrorCode:
        await self._gateway.until_free()
        begun = self._settle(member_id, runs, limits, delay)
        return begun if isinstance(begun, ErrorCode) else await begun

    def _settle(
        self, member_id: str, runs: list[tuple[int, int, int]], limits: ShareLimits, delay: Delay | None
    ) -> ErrorCode | asyncio.Future[ErrorCode]:
        if not self.is_current:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        found = self._held(member_id, runs)
        if found is None:
            return ErrorCode.INVALID_RECORD_STATE
        now_ms = self._clock.now_ms()
        done = found.get(ACCEPT, []) + found.get(GAP, [])
        archived = dict.fromkeys(found.get(REJECT, []), REJECTED)
        given: list[Hold] = []
        for hold in found.get(RELEASE, []):
            if 0 < limits.deliveries_max <= self._group.pending[hold.entry_id].count:
                archived[hold] = TOO_OFTEN
            else:
                given.append(hold)
        with self._changing():
            if RENEW in found:
                lease = Lease(member_id, now_ms + limits.lock_ms, limits.deliveries_max)
                self._holds.renew(lease, found[RENEW], now_ms)
                self._start(lease, limits.lock_ms)
            self._accepted += len(found.get(ACCEPT, []))
            self._note(ACCEPTED, found.get(ACCEPT, []))
            self._holds.finish(done, now_ms)
            self._note(RELEASED, given)
            for each in self._delayed(given, limits, delay, now_ms):
                self._holds.give_back(each.holds, now_ms, each.until_ms)
            if not self._has_letters(limits):
                self._archive(archived, now_ms)
                archived = {}
        self._wait_for_due()
        self._retire_if_idle()
        if archived:
            return self._archive_later(archived, limits)
        return self._written()

    def _held(self, member_id: str, runs: list[tuple[int, int, int]]) -> dict[int, list[Hold]] | None:
        """What a member has of some runs, by how it is settled; None where it does not have all of it."""
        found: dict[int, list[Hold]] = {}
        if sum(last - first + 1 for first, last, _ in runs) > self._holds.count:
            return None
        for first, last, kind in runs:
            for offset in range(first, last + 1):
                hold = self._holds.hold(offset)
                if hold is None or hold.lease.member_id != member_id:
                    return None
                found.setdefault(kind, []).append(hold)
        return found

    def _delayed(self, holds: list[Hold], limits: ShareLimits, delay: Delay | None, now_ms: int) -> Iterator[_Given]:
        """What is released, by when it is given out again."""
        if not holds:
            return
        if delay is not None:
            yield _Given(holds, delay.until_ms)
            return
        by_count: dict[int, list[Hold]] = {}
        for hold in holds:
            by_count.setdefault(self._group.pending[hold.entry_id].count, []).append(hold)
        for count, some in by_count.items():
            delay_ms = limits.backoff.delay_ms(count, self._rng.random())
            yield _Given(some, now_ms + delay_ms if delay_ms else 0)

    def _archive(self, archived: dict[Hold, str], now_ms: int) -> None:
        self._archived += len(archived)
        self._note(WAS_REJECTED, [hold for hold, why in archived.items() if why == REJECTED])
        self._holds.finish(list(archived), now_ms)

    def _has_letters(self, limits: ShareLimits) -> bool:
        return bool(limits.letters_topic) and self._around.write_letters is not None

    def _archive_later(self, archived: dict[Hold, str], limits: ShareLimits) -> asyncio.Task[ErrorCode]:
        """Entries are done once their letters are written."""
        self._aside += len(archived)
        self._holds.set_aside(list(archived))
        return self._tasks.spawn(self._write_and_archive(archived, limits), "redis-group-letters")

    async def _write_and_archive(self, archived: dict[Hold, str], limits: ShareLimits) -> ErrorCode:
        """Write letters, then say that their entries are done; where that fails, these are given back."""
        write = self._around.write_letters
        assert write is not None
        pending = self._group.pending
        letters = [
            Letter(hold.offset, hold.offset, min(pending[hold.entry_id].count, COUNT_MAX), why)
            for hold, why in archived.items()
            if hold.entry_id in pending
        ]
        error = ErrorCode.NONE
        try:
            await write(self.key, self.partition, letters, limits)
        except ApiError as refusal:
            error = refusal.code
        finally:
            self._aside -= len(archived)
        await self._gateway.until_free()
        if not self.is_current:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        now_ms = self._clock.now_ms()
        ids = [hold.entry_id for hold in archived if self._holds.is_aside(hold)]
        with self._changing():
            if error is not ErrorCode.NONE:
                self._holds.free(ids, now_ms, now_ms + LETTER_RETRY_MS)
            else:
                self._archived += len(ids)
                self._holds.forget(ids, now_ms)
        self._wait_for_due()
        self._retire_if_idle()
        written = self._written()
        stored = written if isinstance(written, ErrorCode) else await written
        return error if error is not ErrorCode.NONE else stored

    def _written(self) -> ErrorCode | asyncio.Future[ErrorCode]:
        """When all that was changed so far is on disk, or is not to be."""
        flush = self._stream.log.latest
        if flush is None:
            return ErrorCode.NONE
        done: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

        def decided() -> None:
            if not done.done():
                done.set_result(ErrorCode.NONE if flush.error is None else ErrorCode.NOT_LEADER_OR_FOLLOWER)

        flush.waiters.append(decided)
        return done

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Nobody's command is under way: replies of Redis clients do not wait for what is changed meanwhile."""
        keyspace = self._gateway.keyspace
        outside, keyspace.awaited = keyspace.awaited, set()
        try:
            yield
        finally:
            keyspace.awaited = outside

    def store_now(self) -> None:
        """What is changed is written in the next turn of the event loop."""

    def skip_to(self, offset: int) -> None:
        """Entries below an offset are done, whoever has them: none of them is given out any more. Stored soon."""
        self._tasks.spawn(self._gateway.groups.begin_at(self.key, offset), "redis-group-skip")

    # --- members ----------------------------------------------------------------------------------------------------

    def watch_timeouts(self, member_id: str, on_timed_out: OnTimedOut) -> None:
        """Tell a reader which of its entries it has no more because their time was up, or somebody else took them."""
        self._timed_out[member_id] = on_timed_out

    def forget_member(self, member_id: str) -> None:
        """A reader is gone; what it has it has until its time is up."""
        self._timed_out.pop(member_id, None)
        self._gone.add(member_id)
        self._when_free(self._drop_gone)

    def release_member(self, member_id: str) -> None:
        """Nobody has any more what a member has: its session is over."""
        self._timed_out.pop(member_id, None)

        def release() -> None:
            self._gone.add(member_id)
            self._end(self._holds.held_by(member_id), MEMBER_GONE, tell=False)
            self._drop_gone()

        self._when_free(release)

    def _drop_gone(self) -> None:
        for member_id in [each for each in self._gone if not self._holds.held_by(each)]:
            self._gone.discard(member_id)
            with self._changing():
                self._holds.drop_worker(member_id, self._clock.now_ms())

    def _end(self, holds: Sequence[Hold], why: str, *, tell: bool) -> None:
        """Entries are taken from members: they are given out again, or were given out too often."""
        now_ms = self._clock.now_ms()
        archived: dict[Hold, str] = {}
        given: list[Hold] = []
        for hold in holds:
            if 0 < hold.lease.deliveries_max <= self._group.pending[hold.entry_id].count:
                archived[hold] = TOO_OFTEN
            else:
                given.append(hold)
        self._note(why, holds)
        limits = self._gateway.broker.share_fetches.partitions.limits(self.key.group_id)
        with self._changing():
            if given:
                self._holds.give_back(given, now_ms)
            if archived and self._has_letters(limits):
                self._archive_later(archived, limits)
            elif archived:
                self._archive(archived, now_ms)
        if tell:
            for hold in holds:
                self._tell_reader(hold.lease.member_id, hold.offset)
        self._retire_if_idle()

    def _tell_reader(self, member_id: str, offset: int) -> None:
        on_timed_out = self._timed_out.get(member_id)
        if on_timed_out is not None:
            on_timed_out([(offset, offset, 0, 0)])

    def _taken(self, member_id: str, offset: int) -> None:
        """A client of Redis took an entry from a worker."""
        self._tell_reader(member_id, offset)
        if self._gone:
            asyncio.get_running_loop().call_soon(self._when_free, self._drop_gone)

    # --- time -------------------------------------------------------------------------------------------------------

    def _start(self, lease: Lease, lock_ms: int) -> None:
        self._leases[lease] = self._timer.schedule(lock_ms, partial(self._when_free, partial(self._lease_over, lease)))

    def _lease_ended(self, lease: Lease) -> None:
        timer = self._leases.pop(lease, None)
        if timer is not None:
            timer.cancel()

    def _lease_over(self, lease: Lease) -> None:
        holds = [each for each in self._holds.held_by(lease.member_id) if each.lease is lease]
        self._end(holds, LOCK_OVER, tell=True)
        self._drop_gone()

    def _when_free(self, change: Callable[[], None]) -> None:
        """Make a change when no transaction of a Redis client is under way."""
        if self._gateway.keyspace.is_holding:
            self._tasks.spawn(self._later(change), "redis-group")
        elif self.is_current:
            change()

    async def _later(self, change: Callable[[], None]) -> None:
        await self._gateway.until_free()
        if self.is_current:
            change()

    def _wait_for_due(self) -> None:
        """Have readers look again when the next entry's time has come."""
        now_ms = self._clock.now_ms()
        due_ms = self._holds.come_due(now_ms)
        if due_ms is None or self.is_lost or (self._due is not None and self._due_ms <= due_ms):
            return
        if self._due is not None:
            self._due.cancel()
        self._due_ms = due_ms
        self._due = self._timer.schedule(due_ms - now_ms, self._came_due)

    def _came_due(self) -> None:
        self._due = None
        self._wait_for_due()
        self._freed()

    def _freed(self) -> None:
        if not self._is_telling and not self.is_lost:
            self._is_telling = True
            asyncio.get_running_loop().call_soon(self._tell_freed)

    def _tell_freed(self) -> None:
        self._is_telling = False
        if self.is_lost:
            return
        self._around.on_released(self)
        if self._gateway.keyspace.serves(self._stream):  # XREADGROUP with CLAIM may wait for it
            self._gateway.keyspace.changed(self._stream)
            self._gateway.serve_waiters()

    # --- its end ----------------------------------------------------------------------------------------------------

    def retire(self) -> None:
        """Nobody reads here any more: be gone once nobody has anything, and nothing waits."""
        self._retires = True
        self._retire_if_idle()

    def _retire_if_idle(self) -> None:
        is_idle = not self._holds.count and not self._aside
        if self._retires and (is_idle or not self.is_current):
            self.is_retired = not self.is_lost
            self.lose()

    def keep(self) -> None:
        """A member reads here again."""
        self._retires = False

    def lose(self) -> None:
        """Another leader has taken over, or the group is gone: nothing is given out or changed any more."""
        if self.is_lost:
            return
        self.is_lost = True
        self._holds.close()
        for timer in (*self._leases.values(), self._due, self._look_again):
            if timer is not None:
                timer.cancel()
        self._leases.clear()
        self._around.on_lost(self)

    # --- how it stands ----------------------------------------------------------------------------------------------

    def deliveries(self) -> Deliveries:
        """How the group stands here."""
        return deliveries_of(
            self._stream,
            self._group,
            self.partition,
            self._clock.now_ms(),
            place=self._places.near,
            accepted=self._accepted,
            archived=self._archived,
        )

    def holder(self, offset: int) -> str | None:
        """The worker that has an entry; None where none has it."""
        hold = self._holds.hold(offset)
        return None if hold is None else hold.lease.member_id

    def _note(self, what: str, holds: Sequence[Hold]) -> None:
        history = self._around.history
        if history.keep_ms and holds:
            pending = self._group.pending
            runs = [(each.offset, each.offset, min(pending[each.entry_id].count, COUNT_MAX)) for each in holds]
            history.note(self._clock.now_ms(), what, joined(runs, FOR_EVER))


def _cut(data: bytes, batches: Sequence[BatchInfo]) -> bytes:
    """The bytes of batches, each once."""
    found = {batch.position: batch.size for batch in batches}
    return b"".join([data[position : position + size] for position, size in sorted(found.items())])
