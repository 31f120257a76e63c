"""Makes records that other protocols write to the topic of a stream entries of it, where the topic is led.

offsets 5..9 committed   -->   read, sorted by writer   -->   mark `Adopted` in the stream's log: these are 7-0, 7-1, ..
                               in a thread                    ids go on from the last one; clients that wait look again

What is committed later comes later, whatever its offset: an open transaction holds up those behind it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.gateways.redis.adopted_reader import READ_BYTES
from ottla.gateways.redis.adopted_records import NODE_BYTES, Foreign, Run, read_fields, sort_batches
from ottla.gateways.redis.stream_id import ID_MAX, id_bytes
from ottla.gateways.redis.stream_log import are_lost
from ottla.gateways.redis.stream_records import Adopted, AdoptedRow
from ottla.model.errors import ApiError
from ottla.native.errors import KernelError
from ottla.queues.aborted_batches import AbortedBatches

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.gateways.redis.keyspace import Keyspace
    from ottla.gateways.redis.stream import Stream
    from ottla.native import BatchInfo
    from ottla.replication.partition import Partition

logger = logging.getLogger(__name__)

NODE_ENTRIES_MAX: Final = 1_000
"""Of a node where streams have no limit."""
NODES_A_TURN: Final = 100
"""So many nodes, or batches, are adopted in one turn of the event loop."""
PIECE_RECORDS: Final = 1_000
KEPT_RECORDS: Final = 100
"""Up to so many records of a read are kept in memory as entries: for clients that wait for them."""
RETRY_MS: Final = 1_000


class Piece(NamedTuple):
    """Neighbouring records of one batch."""

    batch: BatchInfo
    first: int
    record_count: int

    @property
    def record_bytes(self) -> int:
        """Of one of them in the log, about."""
        return max(1, self.batch.size // self.batch.record_count)


class Look(NamedTuple):
    """What a part of the log holds of other writers: committed records, and where the part ends."""

    pieces: list[Piece]
    end_offset: int
    fields: dict[int, list[bytes]]
    """Of all its records, by offset, if they are few."""


class Adoption:
    """Of one stream, as long as its topic is led here. Belongs to the event loop."""

    def __init__(self, stream: Stream, broker: Broker, keyspace: Keyspace) -> None:
        self._stream = stream
        self._broker = broker
        self._keyspace = keyspace
        self._partition: Partition | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_looking = False

    def watch(self) -> None:
        """Adopt what there is, before the stream is served, and what comes."""
        if self._partition is not None:
            return
        partition = self._partition = self._broker.replicas.get(self._stream.log.topic, 0)
        self._stream.log.adopted_by = partition.last_stable_offset
        partition.subscribe(self._changed)
        self._look()

    def end(self) -> None:
        """Adopt no more: the stream is not served from here any more."""
        partition, self._partition = self._partition, None
        self._stream.log.adopted_by = 0
        if partition is not None:
            partition.unsubscribe(self._changed)
        if self._task is not None:
            self._task.cancel()

    def _changed(self, partition: Partition) -> None:
        if not self._stream.log.is_current:
            self.end()
        elif partition.last_stable_offset > self._stream.adopted_to and not self._is_looking and self._task is None:
            self._is_looking = True  # the stream hears of its own records in this turn
            asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        self._is_looking = False
        if self._task is None and self._lags():
            self._task = self._broker.tasks.spawn(self._run(), "redis-adopt")
            self._task.add_done_callback(self._done)

    def _lags(self) -> bool:
        """Whether there is something to decide."""
        partition, stream = self._partition, self._stream
        return (
            partition is not None
            and partition.last_stable_offset > stream.adopted_to
            and not stream.is_dropped
            and not stream.log.is_ending
            and stream.log.is_current
        )

    def _done(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if task.cancelled():
            return
        if task.exception() is None:
            self._look()
        else:
            self._stream.log.adopted_by = 0  # a fault of ours; what is there is served

    async def _run(self) -> None:
        try:
            while self._lags():
                partition = self._partition
                assert partition is not None
                for look in self._cut(await self._read(partition)):
                    await self._keyspace.until_free_of(self._stream)
                    if not self._lags():
                        return
                    self._adopt(look)
                    flush = self._stream.log.latest
                    if flush is not None and await are_lost({flush}):
                        return
        except (ApiError, KernelError, OSError) as error:
            topic = self._stream.log.topic
            logger.error("records of other writers in topic %s are no entries yet: %s", topic, error)
            self._stream.log.adopted_by = 0
            await self._broker.timer.sleep(RETRY_MS)

    async def _read(self, partition: Partition) -> Look:
        """The next part of the log of which nothing is decided. Raises ApiError, KernelError, OSError."""
        end_offset = partition.last_stable_offset
        offset = max(self._stream.adopted_to, partition.log.log_start_offset)
        result = partition.read(offset, READ_BYTES, max_offset=end_offset, min_one_batch=True)
        aborted = AbortedBatches(partition.log.aborted_in(result, offset, end_offset))
        in_thread = self._broker.tasks.in_thread
        data = await in_thread(result.read)
        batches = await in_thread(sort_batches, data, self._stream.log.begin_offset)
        if batches.unreadable:
            topic = self._stream.log.topic
            logger.warning("%d batches of topic %s cannot be read: no entries", len(batches.unreadable), topic)
        undone = {batch.base_offset for batch in batches.all if aborted.has(batch)}
        foreign = [each for each in batches.foreign if each.batch.base_offset not in undone]
        pieces = list(_pieces(foreign, offset))
        fields: dict[int, list[bytes]] = {}
        if pieces and sum(each.record_count for each in pieces) <= KEPT_RECORDS:
            fields = await in_thread(
                read_fields, data, [each.first + at for each in pieces for at in range(each.record_count)]
            )
        return Look(pieces, batches.all[-1].last_offset + 1 if batches.all else end_offset, fields)

    def _cut(self, look: Look) -> Iterator[Look]:
        """Parts of which each is adopted in one turn of the event loop."""
        entries_max = self._keyspace.limits.entries_max or NODE_ENTRIES_MAX
        some: list[Piece] = []
        nodes = 0
        for piece in look.pieces:
            if nodes >= NODES_A_TURN:
                yield Look(some, some[-1].first + some[-1].record_count, {})
                some, nodes = [], 0
            some.append(piece)
            nodes += 1 + piece.record_count // min(entries_max, max(1, NODE_BYTES // piece.record_bytes))
        yield Look(some, look.end_offset, look.fields)

    def _adopt(self, look: Look) -> None:
        """Nothing else runs meanwhile."""
        stream, now_ms = self._stream, self._broker.clock.now_ms()
        pieces = [each for each in look.pieces if each.first >= stream.adopted_to]
        if pieces and stream.key is not None and stream.expires_ms is not None and stream.expires_ms <= now_ms:
            self._keyspace.delete(stream, now_ms)
            return
        rows = self._rows(pieces, now_ms, has_fields=bool(look.fields))
        if pieces and not rows:
            logger.warning("topic %s has records that are no entries: there are no more ids", stream.log.topic)
        if not rows:
            stream.adopted_to = max(stream.adopted_to, look.end_offset)
            return
        if stream.key is None and not self._keyspace.revive(stream, now_ms):
            stream.adopted_to = max(stream.adopted_to, look.end_offset)
            return
        stream.mark(now_ms, Adopted(look.end_offset, rows))
        self._keep(rows, look.fields)
        self._keyspace.changed(stream)
        self._keyspace.serve_waiters()

    def _rows(self, pieces: Sequence[Piece], now_ms: int, *, has_fields: bool) -> list[AdoptedRow]:
        """Which ids the records get, and in which nodes they are; nothing where there are not so many ids."""
        stream, limits = self._stream, self._keyspace.limits
        entries_max = limits.entries_max or NODE_ENTRIES_MAX
        last_id, room, room_bytes = stream.last_id, 0, 0
        if stream.nodes and stream.nodes[-1].is_adopted and (has_fields or stream.nodes[-1].entries is None):
            node = stream.nodes[-1]
            room, room_bytes = entries_max - node.count - node.deleted, NODE_BYTES - node.size
        rows: list[AdoptedRow] = []
        for piece in pieces:
            record_bytes, offset, left = piece.record_bytes, piece.first, piece.record_count
            entry_id = max(last_id + 1, max(0, min(piece.batch.max_timestamp, now_ms)) << 64)
            while left:
                fits = min(room, room_bytes // record_bytes)
                begins = fits <= 0
                if begins:
                    room, room_bytes = entries_max, NODE_BYTES
                    fits = max(1, min(room, room_bytes // record_bytes))
                taken = min(left, fits)
                rows.append((offset, taken, id_bytes(min(entry_id, ID_MAX)), taken * record_bytes, begins))
                room, room_bytes = room - taken, room_bytes - taken * record_bytes
                offset, left, entry_id = offset + taken, left - taken, entry_id + taken
            last_id = entry_id - 1
        return rows if last_id <= ID_MAX else []

    def _keep(self, rows: Sequence[AdoptedRow], fields: dict[int, list[bytes]]) -> None:
        """The entries of rows that have just been adopted are in memory, as far as those before them in a node are."""
        if not fields:
            return
        stream = self._stream
        ids = {
            run.offset + at: run.first_id + at
            for run in (Run(row[0], row[1], int.from_bytes(row[2], "big")) for row in rows)
            for at in range(run.record_count)
        }
        first_id = int.from_bytes(rows[0][2], "big")
        nodes = stream.nodes[-len(rows) - 1 :]
        for node in nodes:
            if node.last_id < first_id:
                continue
            if node.entries is None and node.first_id >= first_id:
                node.entries = {}
            if node.entries is not None:
                found = ((entry_id, fields.get(offset)) for offset, entry_id in ids.items())
                node.entries |= {
                    entry_id: each or [b"value", b""]
                    for entry_id, each in found
                    if node.first_id <= entry_id <= node.last_id
                }
                stream.touch(node)


def _pieces(foreign: Sequence[Foreign], start_offset: int) -> Iterator[Piece]:
    """What these batches have from an offset on."""
    for batch, spans in foreign:
        for first, count in spans:
            begin, end = max(first, start_offset), first + count
            for at in range(begin, end, PIECE_RECORDS):
                yield Piece(batch, at, min(PIECE_RECORDS, end - at))
