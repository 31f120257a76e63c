"""Writes all that a stream holds to the log of another one, which has no key before the last record is there.

    log of the source    N 1-0  E 2-0  Deleted 1-0  ..
    log of the copy      N 2-0 .. | Snapshot  NodeRows  Kept  Held  Began        the key comes with the last part

A snapshot counts only when all its parts are there. So a crash leaves a log without a key, or the whole copy. The nodes
are those of the source, so that approximate trimming finds the same ones.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from msgspec.structs import replace

from ottla.gateways.redis import stream_records as records
from ottla.gateways.redis.adopted_reader import read_runs
from ottla.gateways.redis.adopted_records import Run, own_records, runs_of, sort_batches
from ottla.gateways.redis.error import RedisError
from ottla.gateways.redis.stream_id import ID_MAX, id_bytes
from ottla.gateways.redis.stream_rows import Row, row_of
from ottla.gateways.redis.stream_snapshot import ROW_BYTES_MAX
from ottla.model.stream_record import HEADER
from ottla.runtime.turns import next_turn

if TYPE_CHECKING:
    from ottla.gateways.redis.group import Group, Pending
    from ottla.gateways.redis.node import Node
    from ottla.gateways.redis.placement import Place
    from ottla.gateways.redis.stream import Stream
    from ottla.replication.partition import Partition
    from ottla.runtime.tasks import Tasks

BATCH_BYTES: Final = 512 * 1024
"""A batch of the copy has about so much, or one record that is larger."""
BATCH_RECORDS: Final = 1_000
READ_BYTES: Final = 128 * 1024
STRETCH_NODES: Final = 200
"""So many nodes are looked for in the log at a time."""
ROWS: Final = 400
"""Nodes of one record of the snapshot."""
CONSUMERS: Final = 1_000
"""Consumers of one record of it."""
_REMOVED_BYTES: Final = 18
"""Of an id in a row."""

_Found = tuple[int, int, bytes]
"""The index of a node, the id of an entry of it, and its fields as records have them."""

T = TypeVar("T")


class StreamCopy:
    """Of one stream, which nobody changes meanwhile. Belongs to the event loop."""

    def __init__(self, source: Stream, target: Stream, place: Place, partition: Partition, tasks: Tasks) -> None:
        """`target` is empty, and has no key; it gets that of `place`. `partition` is that of the source."""
        self._source = source
        self._target = target
        self._place = place
        self._partition = partition
        self._tasks = tasks
        self._offsets = array("q", [-1]) * len(source.nodes)
        """Of the first entry of each node in the log of the copy."""
        self._batch: list[records.Record] = []
        self._batch_bytes = 0
        self._begun: list[tuple[int, int]] = []
        """Nodes that begin in the batch: their indexes, and where."""

    async def write(self, now_ms: int, replaced: str) -> None:
        """Make of the target what the source is; `replaced` is the topic that had the key. Raises ApiError,
        KernelError, RedisError.
        """
        await self._write_entries(now_ms)
        source, groups = self._source, self._source.groups.values()
        marks = [self._kept(), *_consumers(source), *records.recalled(source, now_ms)]
        held = sum(-(-len(group.pending) // records.HELD_MAX) for group in groups)
        names = source.nodes[-1].names if source.nodes and not source.nodes[-1].is_adopted else []
        count = -(-len(source.nodes) // ROWS) + len(marks) + held + 1
        self._target.clear_nodes()
        await self._say(records.Snapshot(count, names, cleans=False), now_ms)
        for rows in self._rows():
            await self._say(rows, now_ms)
        if self._target.nodes:
            self._target.nodes[-1].names = names
        for mark in marks:
            await self._say(mark, now_ms)
        for group in groups:
            for pending in _some(group.pending_from(0, ID_MAX), records.HELD_MAX):
                await self._say(_held(group, pending), now_ms)
        await self._say(records.Began(*self._place, replaced), now_ms)
        await self._flush()

    # --- entries ------------------------------------------------------------------------------------------------------

    async def _write_entries(self, now_ms: int) -> None:
        count, latest = 0, -1
        async for some in self._entries():
            for index, entry_id, value in some:
                await self._make_room(len(value))
                kind = records.ENTRY
                if index != latest:
                    kind, latest = records.NODE, index
                    self._begun.append((index, len(self._batch)))
                self._put((now_ms, None, value, ((HEADER, kind + id_bytes(entry_id)),)))
            count += len(some)
        await self._flush()
        if count != self._source.length:
            lacking = self._source.length - count
            raise RedisError(f"ERR the stream cannot be copied: its log lacks {lacking} of its entries")

    async def _entries(self) -> AsyncIterator[list[_Found]]:
        """All entries in the order of ids, some at a time."""
        nodes, index = self._source.nodes, 0
        while index < len(nodes):
            node = nodes[index]
            if node.entries is not None:
                for some in _some(node.entries.items(), BATCH_RECORDS):
                    yield [(index, entry_id, records.encode_fields(fields)) for entry_id, fields in some]
                index += 1
            elif node.is_adopted:
                async for found in self._adopted(index, node):
                    yield found
                index += 1
            else:
                end = index + 1
                while end < min(len(nodes), index + STRETCH_NODES) and _is_logged(nodes[end]):
                    end += 1
                async for found in self._logged(index, nodes[index:end]):
                    yield found
                index = end

    async def _adopted(self, index: int, node: Node) -> AsyncIterator[list[_Found]]:
        """The entries of a node that are records of other writers: the stream's own in the copy."""
        for runs in _some(_pieces(node.runs), BATCH_RECORDS):
            found = await read_runs(self._partition, self._tasks, runs)
            yield [
                (index, entry_id, records.encode_fields(fields))
                for entry_id, fields in found.items()
                if not node.has_removed(entry_id)
            ]

    async def _logged(self, first_index: int, nodes: list[Node]) -> AsyncIterator[list[_Found]]:
        """The entries of nodes of the stream's own that are only in the log."""
        wanted = _Wanted(
            first_index,
            [max(node.first_id, node.floor) for node in nodes],
            [node.last_id for node in nodes],
            frozenset(entry_id for node in nodes for entry_id in node.removed or ()),
        )
        offset, is_over = nodes[0].offset, False
        while not is_over and offset < self._partition.high_watermark:
            data = await self._partition.read_bytes(offset, READ_BYTES)
            found, end_offset, is_over = await self._tasks.in_thread(_pick, data, offset, wanted)
            for some in _some(found, BATCH_RECORDS):
                yield some
            if end_offset <= offset:
                return
            offset = end_offset

    # --- the snapshot -------------------------------------------------------------------------------------------------

    def _rows(self) -> Iterator[records.NodeRows]:
        nodes = self._source.nodes
        for at in range(0, len(nodes), ROWS):
            rows: list[Row] = []
            for index in range(at, min(at + ROWS, len(nodes))):
                row = row_of(nodes[index])
                if len(row[7]) * _REMOVED_BYTES > ROW_BYTES_MAX:
                    raise RedisError("ERR the stream cannot be copied: too many entries of one node were deleted")
                size = 0 if nodes[index].is_adopted else row[4]
                rows.append((*row[:4], size, self._offsets[index], *row[6:8], b""))
            yield records.NodeRows(rows)

    def _kept(self) -> records.Kept:
        """Counters, and groups without their consumers."""
        kept = records.kept(self._source, {})
        database, key = self._place
        groups = [records.KeptGroup(each.name, each.last_id, each.entries_read, []) for each in kept.groups]
        return replace(kept, database=database, key=key, groups=groups, adopted_to=self._target.adopted_to)

    async def _say(self, mark: records.Mark, now_ms: int) -> None:
        mark.apply(self._target)
        self._target.key = None  # until all of it is on disk
        record = records.mark(mark, now_ms)
        await self._make_room(len(record[2]))
        self._put(record)
        await next_turn()

    # --- writing ------------------------------------------------------------------------------------------------------

    async def _make_room(self, size: int) -> None:
        bytes_max = min(BATCH_BYTES, self._target.log.batch_bytes_max)
        if self._batch_bytes + size > bytes_max or len(self._batch) >= BATCH_RECORDS:
            await self._flush()

    def _put(self, record: records.Record) -> None:
        self._batch.append(record)
        self._batch_bytes += len(record[2])

    async def _flush(self) -> None:
        if not self._batch:
            return
        batch, begun = self._batch, self._begun
        self._batch, self._batch_bytes, self._begun = [], 0, []
        offset = await self._target.log.append(batch)
        for index, at in begun:
            self._offsets[index] = offset + at


class _Wanted(NamedTuple):
    """Which entries of the log are copied: those of nodes, the first of which has an index."""

    first_index: int
    first_ids: list[int]
    last_ids: list[int]
    removed: frozenset[int]


def _pick(data: bytes, start_offset: int, wanted: _Wanted) -> tuple[list[_Found], int, bool]:
    """For a thread: what a part of the log has of it, where the part ends, and whether there is no more."""
    found: list[_Found] = []
    batches = sort_batches(data)
    end_offset = batches.all[-1].last_offset + 1 if batches.all else start_offset
    for _, _, _, value, headers in own_records(data, batches, start_offset):
        header = records.kind_of(headers)
        entry_id = None if header is None else records.entry_id_of(header)
        if entry_id is None or value is None:
            continue
        at = bisect_right(wanted.first_ids, entry_id) - 1
        if at >= 0 and entry_id <= wanted.last_ids[at] and entry_id not in wanted.removed:
            found.append((wanted.first_index + at, entry_id, value))
        if entry_id >= wanted.last_ids[-1]:
            return found, end_offset, True
    return found, end_offset, False


def _is_logged(node: Node) -> bool:
    return node.entries is None and not node.is_adopted


def _pieces(runs: bytes) -> Iterator[Run]:
    """The records of runs, one by one."""
    for run in runs_of(runs):
        for at in range(run.record_count):
            yield Run(run.offset + at, 1, run.first_id + at)


def _consumers(stream: Stream) -> Iterator[records.KeptConsumers]:
    """The consumers of all groups but workers, which have nothing of the copy."""
    for group in stream.groups.values():
        rows = ((each.name, each.seen_ms, each.active_ms) for each in group.consumers.values() if not each.is_worker)
        for some in _some(rows, CONSUMERS):
            yield records.KeptConsumers(group.name, some)


def _held(group: Group, pending: list[tuple[int, Pending]]) -> records.Held:
    """Some of what is pending in a group. What a worker has, nobody has in the copy."""
    rows: list[tuple[bytes, bytes | None, int, int]] = []
    until_ms: dict[bytes, int] = {}
    for entry_id, each in pending:
        at, consumer = id_bytes(entry_id), each.consumer
        if consumer is None and each.until_ms:
            until_ms[at] = each.until_ms
        if consumer is not None and consumer.is_worker:
            rows.append((at, None, 0, each.count))
        else:
            rows.append((at, None if consumer is None else consumer.name, each.delivered_ms, each.count))
    return records.Held(group.name, rows, until_ms)


def _some(items: Iterable[T], count: int) -> Iterator[list[T]]:
    """What an iterable gives, so many at a time."""
    iterator = iter(items)
    while some := list(islice(iterator, count)):
        yield some
