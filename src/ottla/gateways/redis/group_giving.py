"""What members of a group of a stream are given: first what nobody has and whose time has come, then what is new.

    free       5-0, 7-0         given to members before, and given back
    behind     9-0 ..           behind last-delivered-id

The marks are on disk before the records are given out, as with XREADGROUP.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.gateways.redis.entry_places import EntryAt, EntryPlaces, Stretch
from ottla.gateways.redis.error import RedisError
from ottla.gateways.redis.fetched import Fetched
from ottla.gateways.redis.group_commands import entries_read_behind
from ottla.gateways.redis.open_group import COUNT_MAX, OpenGroup
from ottla.gateways.redis.stream import NodeMissingError
from ottla.gateways.redis.stream_id import id_bytes
from ottla.gateways.redis.stream_records import GroupSet
from ottla.gateways.redis.worker_holds import Lease
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.native.errors import KernelError
from ottla.queues.delivery_rate import DeliveryRate
from ottla.queues.delivery_throttle import joined
from ottla.queues.history import DELIVERED
from ottla.queues.log_reader import LogReader
from ottla.queues.record_delivery import Acquired

if TYPE_CHECKING:
    from ottla.native import BatchInfo
    from ottla.queues.recent_reads import Read
    from ottla.queues.share_limits import ShareLimits
    from ottla.runtime.timing_wheel import TimerTask

logger = logging.getLogger(__name__)


class _Found(NamedTuple):
    """Entries that may be given out, in one read of the log, and the batches they lie in."""

    read: Read
    places: list[EntryAt]
    batches: list[BatchInfo]
    is_fresh: bool


class GroupGiving:
    """Belongs to the event loop. What it does for one caller may interleave with others between awaits."""

    def __init__(self, opened: OpenGroup, on_given: Callable[[str], None]) -> None:
        """`on_given` is told of members that have something from now on."""
        self._open = opened
        self._on_given = on_given
        partition = opened.partition
        self._reader = LogReader(partition, opened.key, partition.leader_epoch, opened.around.reads, opened.tasks)
        self.places = EntryPlaces(opened.stream, partition, self._reader)
        self._rate = DeliveryRate()
        self._passed_over: tuple[str, ...] = ()
        """Settings of the group that have no effect here, as the log says."""
        self._looked = (-1, 0)
        """A last-delivered-id, and an offset: what lies before it was looked at in vain for entries behind the id."""
        self._own_from = (-1, 0)
        """An id, and an offset at or before that of the stream's own entries behind it that are there."""
        self._look_again: TimerTask | None = None
        self._acquiring = asyncio.Lock()

    def lose(self) -> None:
        """Nothing is given out any more."""
        if self._look_again is not None:
            self._look_again.cancel()

    def has_news(self, limits: ShareLimits) -> bool:
        """Whether there may be something to give out."""
        if limits.is_ordered or limits.weights or self._passed_over:
            self._tell_passed_over(limits)
        if not self._open.is_current or not self._allowed(limits) or self._open.holds.count >= limits.locks_max:
            return False
        return self._open.holds.has_free(self._open.clock.now_ms()) or self._has_fresh(limits)

    def _tell_passed_over(self, limits: ShareLimits) -> None:
        """Say which settings have no effect, once for each change."""
        order = ("ottla.delivery.order=key",) if limits.is_ordered else ()
        weights = ("ottla.delivery.priority.weights",) if limits.weights else ()
        before, self._passed_over = self._passed_over, (*order, *weights)
        if self._passed_over and self._passed_over != before:
            logger.warning(
                "group %s: no effect on the stream of topic %s, whose entries are given out in their order, has %s",
                self._open.key.group_id,
                self._open.partition.topic_partition.topic,
                " and ".join(self._passed_over),
            )

    def _has_fresh(self, limits: ShareLimits) -> bool:
        stream, group = self._open.stream, self._open.group
        is_behind = stream.length > 0 and stream.last_id > group.last_id
        after, offset = self._looked
        return is_behind and (after != group.last_id or offset < self._reader.end(limits.read_committed))

    async def acquire(
        self, member_id: str, limits: ShareLimits, *, max_bytes: int, max_records: int, batch_size: int
    ) -> Acquired:
        """Give entries to a member, up to `max_records`, once that is on disk. Raises ApiError."""
        async with self._acquiring:
            acquired = await self._acquire(member_id, limits, max_bytes, max_records, batch_size)
            written = self._open.written() if acquired.runs else None
        if written is not None:
            error = written if isinstance(written, ErrorCode) else await written
            if error is not ErrorCode.NONE:
                raise ApiError(error, f"{self._open.partition.topic_partition}: what is pending was not written")
        return acquired

    async def _acquire(
        self, member_id: str, limits: ShareLimits, max_bytes: int, max_records: int, batch_size: int
    ) -> Acquired:
        fetched = Fetched()
        while True:
            await self._open.until_free()
            if not self._open.is_current:
                return Acquired(b"", [])
            count = min(max_records, self._allowed(limits), limits.locks_max - self._open.holds.count)
            if count <= 0:
                return Acquired(b"", [])
            try:
                found = await self._returned(count, max_bytes) or await self._fresh(limits, count, max_bytes)
            except KernelError as error:
                place = self._open.partition.topic_partition
                raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{place} cannot be read: {error}") from error
            if found is None:
                return Acquired(b"", [])
            await self._open.until_free()
            try:
                acquired = self._give(member_id, limits, found, fetched, batch_size)
            except NodeMissingError as missing:
                if not await self._fetch(missing, fetched):
                    return Acquired(b"", [])
                continue
            if acquired.runs:
                self._rate.take(sum(last - first + 1 for first, last, _ in acquired.runs))
                self._open.around.history.keep_ms = limits.history_ms
                self._open.around.history.note(self._open.clock.now_ms(), DELIVERED, acquired.runs, member_id)
                return acquired

    async def _returned(self, count: int, max_bytes: int) -> _Found | None:
        """Entries that were given out before and nobody has."""
        now_ms = self._open.clock.now_ms()
        ids = self._open.holds.pop_free(count, now_ms)
        gone = [entry_id for entry_id in ids if not self._open.stream.has(entry_id)]
        if gone:  # deleted, as XAUTOCLAIM finds out too
            with self._open.changing():
                self._open.holds.forget(gone, now_ms)
        wanted = [entry_id for entry_id in ids if self._open.stream.has(entry_id)]
        if not wanted:
            return None
        left = set(wanted)
        try:
            stretch = self.places.stretch_behind(wanted[0] - 1)
            if stretch is None:
                return None
            last_id = max(each for each in wanted if each <= stretch.last_id)
            found, _, _ = await self._look(stretch, stretch.offset, last_id, left.__contains__, count, max_bytes, False)
            if found is not None:
                left.difference_update(entry_id for _, entry_id in found.places)
            return None if found is None else found._replace(is_fresh=False)  # it may not be on all replicas yet
        finally:
            self._open.holds.push_back(left)

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
            for batch, (at, entry_id) in self.places.entries_of(stretch, read, offset):
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
            after = at = self._open.group.last_id
            end = self._reader.end(limits.read_committed)
            while self._open.group.last_id == after:
                stretch = self.places.stretch_behind(at)
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
                    lambda each: each > after and self._open.stream.has(each),  # noqa: B023
                    count,
                    max_bytes,
                    limits.read_committed,
                )
                if found is not None:
                    return found
                if not stretch.is_adopted and self._open.group.last_id == after:
                    self._own_from = after, offset
                is_cut = self._reader.end(limits.read_committed) < self._open.partition.high_watermark
                if not is_over and (not stretch.is_written or is_cut):
                    self._looked = after, end
                    break  # what comes next is not readable yet
                at = stretch.last_id
        return None

    def _give(self, member_id: str, limits: ShareLimits, found: _Found, fetched: Fetched, batch_size: int) -> Acquired:
        """Give a member what of this may still be given out, maybe nothing. Raises NodeMissingError."""
        if not self._open.is_current:
            return Acquired(b"", [])
        now_ms = self._open.clock.now_ms()
        group = self._open.group
        kept = [index for index, (_, entry_id) in enumerate(found.places) if self._may_give(entry_id, found, now_ms)]
        if not kept:
            return Acquired(b"", [])
        places = [found.places[index] for index in kept]
        with self._open.changing():
            if found.is_fresh:
                fetched.hold()
                ids = [entry_id for _, entry_id in places]
                entries_read = entries_read_behind(self._open.stream, group, ids)
                self._open.stream.mark(now_ms, GroupSet(group.name, id_bytes(ids[-1]), entries_read))
                if not self._open.stream.is_adopted(ids[-1]):
                    self._own_from = ids[-1], places[-1][0] + 1
            lease = Lease(member_id, now_ms + limits.lock_ms, limits.deliveries_max)
            counts = self._open.holds.take(lease, places, now_ms)
        self._on_given(member_id)
        self._open.start(lease, limits.lock_ms)
        runs = [(at, at, min(count, COUNT_MAX)) for (at, _), count in zip(places, counts, strict=True)]
        return Acquired(_cut(found.read.data, [found.batches[index] for index in kept]), joined(runs, batch_size))

    def _may_give(self, entry_id: int, found: _Found, now_ms: int) -> bool:
        if not self._open.stream.has(entry_id):
            return False
        if found.is_fresh:
            return entry_id > self._open.group.last_id
        pending = self._open.group.pending.get(entry_id)
        return pending is not None and pending.consumer is None and pending.until_ms <= now_ms

    async def _fetch(self, missing: NodeMissingError, fetched: Fetched) -> bool:
        try:
            await self._open.gateway.fetch(missing, fetched, self._open.gateway.peer_commands.own)
        except (ApiError, RedisError) as error:
            logger.warning("%s: a node is not read: %s", self._open.partition.topic_partition, error)
            return False
        return True

    def _allowed(self, limits: ShareLimits) -> int:
        """How many entries may be given out now; when none, readers are told when to look again."""
        allowed = self._rate.allowed(limits, self._open.clock.monotonic_ms())
        if not allowed and self._look_again is None and not self._open.is_lost:
            self._look_again = self._open.timer.schedule(self._rate.wait_ms(limits), self._looked_again)
        return allowed

    def _looked_again(self) -> None:
        self._look_again = None
        self._open.look_again()


def _cut(data: bytes, batches: Sequence[BatchInfo]) -> bytes:
    """The bytes of batches, each once."""
    found = {batch.position: batch.size for batch in batches}
    return b"".join([data[position : position + size] for position, size in sorted(found.items())])
