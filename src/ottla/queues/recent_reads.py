"""Batches that were read for one delivery and have more than it took, kept for the next: of all share partitions.

A reader that takes one record at a time, and each of many readers of one partition, would read the same batches again.
What was committed stays as it is for as long as one leader leads, so what is kept is never wrong; when the log start
moves, nobody asks for what lies below it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.native import BatchInfo

BYTES_MAX: Final = 16 * 1024 * 1024
"""So much is kept in all; the least recently used goes first."""


class ReadKey(NamedTuple):
    """What reads are alike: of a partition under one leader, with the same view of transactions."""

    topic_id: UUID
    partition: int
    leader_epoch: int
    read_committed: bool


class Read(NamedTuple):
    """Whole batches in the order of their offsets, at least one, and the base offsets of those that are of aborted
    transactions.
    """

    data: bytes
    batches: Sequence[BatchInfo]
    undone: frozenset[int]


class RecentReads:
    """Belongs to the event loop."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._reads: OrderedDict[ReadKey, Read] = OrderedDict()
        self._bytes = 0

    @property
    def kept_bytes(self) -> int:
        """Bytes of the batches that are kept."""
        return self._bytes

    def find(self, key: ReadKey, offset: int) -> Read | None:
        """What was read before, if the offset lies in it."""
        read = self._reads.get(key)
        if read is None or not read.batches[0].base_offset <= offset <= read.batches[-1].last_offset:
            return None
        self._reads.move_to_end(key)
        return read

    def keep(self, key: ReadKey, read: Read) -> None:
        """Keep a read instead of the one before; one that is larger than a quarter of all is not kept."""
        before = self._reads.pop(key, None)
        if before is not None:
            self._bytes -= len(before.data)
        if len(read.data) > self._bytes_max // 4:
            return
        self._reads[key] = read
        self._bytes += len(read.data)
        while self._bytes > self._bytes_max:
            _, oldest = self._reads.popitem(last=False)
            self._bytes -= len(oldest.data)
