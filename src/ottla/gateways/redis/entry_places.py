"""Where the entries of a stream lie in its log, for whoever is given records of the log and not entries.

id      5-0    7-0    9-0
offset   12     13  (14 mark)  15        a batch that was looked at last is remembered
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ottla.gateways.redis import stream_records as records
from ottla.gateways.redis.node import NOT_WRITTEN
from ottla.gateways.redis.stream_log import DECOMPRESSED_BYTES_MAX
from ottla.native import decode_records

if TYPE_CHECKING:
    from ottla.gateways.redis.stream import Stream
    from ottla.native import BatchInfo
    from ottla.queues.log_reader import LogReader
    from ottla.queues.recent_reads import Read
    from ottla.replication.partition import Partition

LOOK_BYTES: Final = 256 * 1024
LOOK_RECORDS: Final = 1_000

EntryAt = tuple[int, int]
"""Offset and id of an entry."""


class EntryPlaces:
    """Of one stream. Belongs to the event loop."""

    def __init__(self, stream: Stream, partition: Partition, reader: LogReader) -> None:
        self._stream = stream
        self._partition = partition
        self._reader = reader
        self._base_offset = -1
        self._of_batch: list[EntryAt] = []

    def near(self, entry_id: int) -> int:
        """An offset at or before that of an entry."""
        nodes = self._stream.nodes
        index = bisect_right(nodes, entry_id, key=lambda node: node.first_id) - 1
        while index >= 0 and nodes[index].offset < 0:
            index -= 1
        # Before the first node may lie entries of a key that was deleted, with any ids.
        begin = nodes[max(0, index)].offset if nodes else NOT_WRITTEN
        return self._partition.high_watermark if begin < 0 else max(self._partition.log.log_start_offset, begin)

    def entries_in(self, read: Read, offset: int) -> Iterator[tuple[BatchInfo, EntryAt]]:
        """The entries from an offset on, be they deleted or not. Raises KernelError."""
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
        offset = self.near(entry_id)
        while True:
            read = await self._reader.read(offset, LOOK_BYTES, LOOK_RECORDS, read_committed=False)
            if not read.batches:
                return None
            for _, (at, found) in self.entries_in(read, offset):
                if found >= entry_id:
                    return at
            offset = read.batches[-1].last_offset + 1

    async def id_before(self, offset: int) -> int:
        """The id of the last entry before an offset; 0 for none. Raises ApiError, KernelError."""
        stream = self._stream
        if offset >= self._partition.high_watermark:
            return stream.last_id
        written = [node for node in stream.nodes if 0 <= node.offset < offset]
        if not written:
            return 0
        found, at = 0, max(written[-1].offset, self._partition.log.log_start_offset)
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


def _entries(batch: bytes) -> list[EntryAt]:
    found = []
    for offset, _, _, value, headers in decode_records(batch, max_decompressed_bytes=DECOMPRESSED_BYTES_MAX):
        kind = records.kind_of(headers)
        entry_id = None if kind is None or value is None else records.entry_id_of(kind)
        if entry_id is not None:
            found.append((offset, entry_id))
    return found
