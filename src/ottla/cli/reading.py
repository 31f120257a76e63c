"""One run of `ottla consume`: where it begins, what it gives, and when it has seen what it was asked for."""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from ottla.cli.start_position import StartKind, StartPosition
from ottla.client.consuming.consumer import Consumer
from ottla.client.consuming.consumer_record import ConsumerRecord
from ottla.client.consuming.offsets import OffsetAt
from ottla.client.errors import TopicNotFoundError
from ottla.model.topic_partition import TopicPartition

WriteOut = Callable[[list[ConsumerRecord]], Awaitable[None]]
"""Returns when the records are out of this process; raises when some may not be."""

_POLL_RECORDS = 2_000
_POLL_MS = 500


class Wanted(Struct, frozen=True):
    """What to read and when to stop."""

    topic: str
    partitions: tuple[int, ...]
    start: StartPosition | None
    until: StartPosition | None
    count: int | None
    exit_at_end: bool
    timeout_ms: int | None


class Reading:
    """Let it `give` records until it is `finished`."""

    def __init__(self, consumer: Consumer, wanted: Wanted) -> None:
        self._consumer = consumer
        self._wanted = wanted
        self._left = wanted.count
        self._idle_ms = 0
        self._ends: dict[TopicPartition, int] = {}
        self._known: set[TopicPartition] = set()
        self.finished = False

    async def begin(self) -> None:
        """Assign and seek, or subscribe. Raises TopicNotFoundError."""
        wanted = self._wanted
        there = await self._consumer.partitions_of(wanted.topic)
        if self._in_group:
            self._consumer.subscribe([wanted.topic])
            return
        partitions = [each for each in there if not wanted.partitions or each.partition in wanted.partitions]
        missing = set(wanted.partitions) - {each.partition for each in partitions}
        if missing:
            raise TopicNotFoundError(wanted.topic, min(missing))
        self._consumer.assign(partitions)
        for topic_partition, offset in (await self._starts(partitions)).items():
            self._consumer.seek(topic_partition, offset)
        await self._find_ends(partitions)

    async def give(self, write_out: WriteOut) -> bool:
        """Poll once, and write out what came; whether anything did.

        Only what was written out counts as read, and is committed for a group: whatever ends this call early, reading
        goes on before these records.
        """
        limit = _POLL_RECORDS if self._left is None else min(self._left, _POLL_RECORDS)
        records = await self._consumer.poll(limit, _POLL_MS)
        try:
            assigned = set(self._consumer.assignment())
            if self._in_group and assigned != self._known:
                self._known = assigned
                await self._find_ends(sorted(assigned))
            kept = [record for record in records if not self._is_past_end(record)]
            if kept:
                await write_out(kept)
        except BaseException:
            self._take_back(records)
            raise
        self._account(kept, came=bool(records))
        return bool(kept)

    def _take_back(self, records: list[ConsumerRecord]) -> None:
        first: dict[TopicPartition, int] = {}
        for record in records:
            first.setdefault(record.topic_partition, record.offset)
        for topic_partition, offset in first.items():
            self._consumer.seek(topic_partition, offset)

    @property
    def _in_group(self) -> bool:
        return self._consumer.group_id is not None

    async def _find_ends(self, partitions: list[TopicPartition]) -> None:
        self._ends = {}
        if self._wanted.until is not None:
            self._ends = await self._offsets(partitions, self._wanted.until)
        if self._wanted.exit_at_end:
            ends = await self._consumer.list_offsets(dict.fromkeys(partitions, OffsetAt.LATEST))
            self._ends = {each: min(self._ends.get(each, end.offset), end.offset) for each, end in ends.items()}

    async def _starts(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Where to begin: an offset that is not there stands for the nearest that is."""
        offsets = await self._offsets(partitions, self._wanted.start)
        starts = await self._consumer.list_offsets(dict.fromkeys(partitions, OffsetAt.EARLIEST))
        ends = await self._consumer.list_offsets(dict.fromkeys(partitions, OffsetAt.LATEST))
        return {each: min(max(offset, starts[each].offset), ends[each].offset) for each, offset in offsets.items()}

    async def _offsets(
        self, partitions: list[TopicPartition], where: StartPosition | None
    ) -> dict[TopicPartition, int]:
        if where is not None and where.kind is StartKind.OFFSET:
            return dict.fromkeys(partitions, where.number)
        if where is None or where.kind is StartKind.BEGINNING:
            return dict.fromkeys(partitions, 0)
        ends = await self._consumer.list_offsets(dict.fromkeys(partitions, OffsetAt.LATEST))
        if where.kind is StartKind.TIMESTAMP:
            found = await self._consumer.list_offsets(dict.fromkeys(partitions, where.number))
            return {each: at.offset if at.offset >= 0 else ends[each].offset for each, at in found.items()}
        before = where.number if where.kind is StartKind.LAST else 0
        return {each: end.offset - before for each, end in ends.items()}

    def _is_past_end(self, record: ConsumerRecord) -> bool:
        if self._in_group:
            # What was given counts as read by the group, so it is written out.
            return False
        end = self._ends.get(record.topic_partition)
        return end is not None and record.offset >= end

    def _account(self, kept: list[ConsumerRecord], *, came: bool) -> None:
        if self._left is not None:
            self._left -= len(kept)
            self.finished = self._left <= 0
        if self._wanted.exit_at_end and not self._consumer.assignment():
            # More members than partitions: there is nothing for this one.
            self.finished = True
        if self._ends and all(self._has_reached(each, end) for each, end in self._ends.items()):
            self.finished = True
        self._idle_ms = 0 if came else self._idle_ms + _POLL_MS
        if self._wanted.timeout_ms is not None and self._idle_ms >= self._wanted.timeout_ms:
            self.finished = True

    def _has_reached(self, topic_partition: TopicPartition, end: int) -> bool:
        position = self._consumer.position(topic_partition)
        return position is not None and position >= end
