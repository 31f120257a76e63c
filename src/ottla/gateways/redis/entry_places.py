"""Where the entries of a stream lie in its log, for whoever is given records of the log and not entries.

id      5-0    7-0           9-0
offset   12     13  (14 mark)  15        a batch that was looked at last is remembered

Records of other writers lie where their nodes say. Their ids do not rise with offsets beside those of the stream's own
records, so whoever goes by ids looks at one stretch of nodes of one kind after the other.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.gateways.redis import stream_records as records
from ottla.gateways.redis.adopted_records import Run, own_records, runs_of, sort_batches
from ottla.gateways.redis.node import NOT_WRITTEN
from ottla.gateways.redis.stream_id import ID_MAX
from ottla.runtime.turns import next_turn

if TYPE_CHECKING:
    from ottla.gateways.redis.node import Node
    from ottla.gateways.redis.stream import Stream
    from ottla.native import BatchInfo
    from ottla.queues.log_reader import LogReader
    from ottla.queues.recent_reads import Read
    from ottla.replication.partition import Partition

LOOK_BYTES: Final = 256 * 1024
LOOK_RECORDS: Final = 1_000
NODES_A_TURN: Final = 2_000

STRETCH_NODES: Final = 16

EntryAt = tuple[int, int]
"""Offset and id of an entry."""


class Stretch(NamedTuple):
    """Neighbouring nodes of one kind: the stream's own entries, or adopted records of other writers."""

    is_adopted: bool
    offset: int
    """At or before that of its first entry."""
    last_id: int
    is_written: bool
    runs: tuple[Run, ...]
    """Of adopted records, where they lie."""

    def next_offset(self, offset: int) -> int:
        """Where to look next when nothing below an offset is of interest."""
        for run in self.runs:
            if run.offset + run.record_count > offset:
                return max(run.offset, offset)
        return offset


class EntryPlaces:
    """Of one stream. Belongs to the event loop."""

    def __init__(self, stream: Stream, partition: Partition, reader: LogReader) -> None:
        self._stream = stream
        self._partition = partition
        self._reader = reader
        self._base_offset = -1
        self._of_batch: list[EntryAt] = []

    def stretch_behind(self, entry_id: int) -> Stretch | None:
        """What lies next behind an id; None for nothing."""
        nodes = self._stream.nodes
        index = max(0, nodes.end_of(entry_id) - 1)
        if index < len(nodes) and nodes[index].last_id <= entry_id:
            index += 1
        if index >= len(nodes):
            return None
        first = nodes[index]
        some = list(takewhile(lambda node: node.is_adopted == first.is_adopted, nodes[index : index + STRETCH_NODES]))
        runs = [run for node in some for run in runs_of(node.runs) if run.last_id > entry_id]
        return Stretch(
            first.is_adopted,
            runs[0].offset + max(0, entry_id + 1 - runs[0].first_id) if runs else self.near(first.first_id),
            some[-1].last_id,
            all(node.is_written for node in some),
            tuple(runs),
        )

    def entries_of(self, stretch: Stretch, read: Read, offset: int) -> Iterator[tuple[BatchInfo, EntryAt]]:
        """The entries of a stretch from an offset on, be they deleted or not. Raises KernelError."""
        if stretch.is_adopted:
            yield from _adopted(stretch.runs, read, offset)
            return
        for found in self.entries_in(read, offset):
            if found[1][1] > stretch.last_id:
                return
            yield found
            if found[1][1] == stretch.last_id:
                return

    def near(self, entry_id: int) -> int:
        """An offset at or before that of an entry of the stream itself; of an adopted one, about where it is."""
        nodes = self._stream.nodes
        index = nodes.end_of(entry_id) - 1
        while index >= 0 and nodes[index].offset < 0:
            index -= 1
        # Before the first node may lie entries of a key that was deleted, with any ids.
        begin = nodes[max(0, index)].offset if nodes else NOT_WRITTEN
        return self._partition.high_watermark if begin < 0 else max(self._partition.log.log_start_offset, begin)

    def entries_in(self, read: Read, offset: int) -> Iterator[tuple[BatchInfo, EntryAt]]:
        """The stream's own entries from an offset on, be they deleted or not. Raises KernelError."""
        for batch in read.batches:
            if batch.base_offset in read.undone or batch.is_control or batch.last_offset < offset:
                continue
            if batch.base_offset != self._base_offset:
                self._of_batch = _entries(read.data[batch.position : batch.position + batch.size])
                self._base_offset = batch.base_offset
            for each in self._of_batch:
                if each[0] >= offset:
                    yield batch, each

    async def offset_of(self, entry_id: int) -> int | None:
        """The offset of the first entry at an id or behind it; None for none. Raises ApiError, KernelError."""
        while True:
            stretch = self.stretch_behind(entry_id - 1)
            if stretch is None or stretch.is_adopted:
                return None if stretch is None else stretch.offset
            offset = stretch.offset
            while True:
                read = await self._reader.read(offset, LOOK_BYTES, LOOK_RECORDS, read_committed=False)
                if not read.batches:
                    break
                for _, (at, found) in self.entries_of(stretch, read, offset):
                    if found >= entry_id:
                        return at
                offset = read.batches[-1].last_offset + 1
            entry_id = stretch.last_id + 1

    async def id_before(self, offset: int) -> int:
        """The id behind which all entries at an offset or behind it are, and as few others as can be; 0 for all
        entries. Raises ApiError, KernelError.
        """
        stream = self._stream
        if offset >= self._partition.high_watermark:
            return stream.last_id
        own = await self._own_id_before(offset)
        adopted = sorted((node for node in stream.nodes.live if node.is_adopted), key=lambda node: node.offset)
        index = max(0, bisect_left(adopted, offset, key=lambda node: node.offset) - 1)
        runs = [run for node in adopted[index : index + 2] for run in runs_of(node.runs)]
        before = max((_id_at(run, offset) for run in runs if run.offset < offset), default=0)
        behind = min(
            (_id_at(run, offset) + 1 for run in runs if run.offset + run.record_count > offset), default=ID_MAX
        )
        if before > own:
            rest = (stream.nodes[at] for at in range(max(0, stream.nodes.end_of(own) - 1), len(stream.nodes)))
            next_own = next((max(own + 1, each.first_id) for each in rest if _is_own_behind(each, own)), ID_MAX)
            own = before if before < next_own else own
        return min(own, behind - 1)

    async def _own_id_before(self, offset: int) -> int:
        """The id of the last entry of the stream itself before an offset; 0 for none."""
        last_offset = -1
        for number, node in enumerate(self._stream.nodes, 1):
            if not node.is_adopted and 0 <= node.offset < offset:
                last_offset = max(last_offset, node.offset)
            if not number % NODES_A_TURN:
                await next_turn()
        if last_offset < 0:
            return 0
        found, at = 0, max(last_offset, self._partition.log.log_start_offset)
        while at < offset:
            read = await self._reader.read(at, LOOK_BYTES, LOOK_RECORDS, read_committed=False)
            if not read.batches:
                break
            for _, (place, entry_id) in self.entries_in(read, at):
                if place >= offset:
                    return found
                found = entry_id
            at = read.batches[-1].last_offset + 1
        return found


def _id_at(run: Run, offset: int) -> int:
    """The id of the last record of a run before an offset, or the one before its first."""
    return run.first_id + min(max(0, offset - run.offset), run.record_count) - 1


def _is_own_behind(node: Node, entry_id: int) -> bool:
    return not node.is_adopted and node.last_id > entry_id


def _adopted(runs: Sequence[Run], read: Read, offset: int) -> Iterator[tuple[BatchInfo, EntryAt]]:
    batches = iter(read.batches)
    batch = next(batches, None)
    for run in runs:
        for at in range(max(0, offset - run.offset), run.record_count):
            place = run.offset + at
            while batch is not None and batch.last_offset < place:
                batch = next(batches, None)
            if batch is None:
                return
            if batch.base_offset <= place:
                yield batch, (place, run.first_id + at)


def _entries(batch: bytes) -> list[EntryAt]:
    found = []
    for offset, _, _, value, headers in own_records(batch, sort_batches(batch), 0):
        kind = records.kind_of(headers)
        entry_id = None if kind is None or value is None else records.entry_id_of(kind)
        if entry_id is not None:
            found.append((offset, entry_id))
    return found
