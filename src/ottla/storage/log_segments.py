"""The segments of a log, oldest first, and reading across them.

base offsets   0        368769      737337
               [ closed ][ closed ][ newest .......... ]
                                      ^        ^       ^ accepted, queued for the log I/O thread
                                      flushed  written
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import Final

from msgspec import Struct

from ottla.runtime.file_slice import FileSlice
from ottla.storage.index_cache import IndexCache
from ottla.storage.log_read_result import NOTHING_READ, LogReadResult
from ottla.storage.log_resources import LogResources
from ottla.storage.log_segment import LogSegment, LookUp
from ottla.storage.retention import SegmentFacts

_base_offset: Final = attrgetter("base_offset")


class LogEnd(Struct, frozen=True):
    """How far something got: the next offset, and the position at which it lies in its segment."""

    offset: int
    position: int


class LogSegments:
    """The segments of one log, at least one. Belongs to the event loop."""

    __slots__ = ("_base_offsets", "_resources", "_segments", "_with_aborted", "flushed", "written")

    def __init__(self, segments: Sequence[LogSegment], end_offset: int, resources: LogResources) -> None:
        """`segments` end at `end_offset` and are on disk."""
        self._segments = list(segments)
        self._base_offsets = [segment.base_offset for segment in segments]
        self._resources = resources
        self._with_aborted = [segment for segment in segments if segment.has_aborted]
        self.written = self.flushed = LogEnd(end_offset, segments[-1].size)

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(tuple(self._segments))

    def __getitem__(self, index: int) -> LogSegment:
        return self._segments[index]

    @property
    def newest(self) -> LogSegment:
        """The segment that grows."""
        return self._segments[-1]

    def append(self, segment: LogSegment) -> None:
        """A new newest segment."""
        self._segments.append(segment)
        self._base_offsets.append(segment.base_offset)

    def remove_oldest(self, count: int) -> list[LogSegment]:
        """Take `count` segments away, not the newest; returns them."""
        assert count < len(self._segments), "a log always has a segment to append to"
        removed = self._segments[:count]
        del self._segments[:count]
        del self._base_offsets[:count]
        self._find_aborted()
        return removed

    def find_ages(self) -> None:
        """See how old the segments are, for `facts`. BLOCKING, in any thread. Raises OSError."""
        for segment in self:
            try:
                segment.find_age(self._resources.disk, self._resources.indexes)
            except OSError:
                if not segment.is_gone:
                    raise

    def replace(self, old: Sequence[LogSegment], new: LogSegment) -> None:
        """Put one segment in the place of neighbours, whose first has its base offset; the newest is not among them."""
        start = self._segments.index(old[0])
        end = start + len(old)
        assert self._segments[start:end] == list(old), "neighbours are replaced"
        assert end < len(self._segments), "the newest segment is written to"
        self._segments[start:end] = [new]
        self._base_offsets[start:end] = [new.base_offset]
        self._find_aborted()

    def _find_aborted(self) -> None:
        self._with_aborted = [segment for segment in self._segments if segment.has_aborted]

    def newest_has_aborted(self) -> None:
        """The newest segment has its first aborted transaction."""
        self._with_aborted.append(self._segments[-1])

    def facts(self, log_end_offset: int) -> list[SegmentFacts]:
        """What retention needs to know of each segment, its age as it was found last."""
        ends = [*self._base_offsets[1:], log_end_offset]
        return [
            SegmentFacts(segment.size, end_offset, segment.newest_time)
            for segment, end_offset in zip(self._segments, ends, strict=True)
        ]

    def written_sizes(self) -> list[int]:
        """How many bytes of each segment are in its file."""
        return [self._end_position(index, self.written.offset) for index in range(len(self._segments))]

    def look_up(self, offset: int) -> LookUp | None:
        """What `read` would have to wait for the disk for, to be called in a thread; None when it need not."""
        segment = self._segments[max(0, bisect_right(self._base_offsets, offset) - 1)]
        end = self.written.position if segment is self._segments[-1] else segment.size
        return segment.look_up(offset, end, self._resources.files, self._resources.indexes)

    def aborted_between(self, start_offset: int, end_offset: int) -> list[tuple[int, int]]:
        """Producer id and first offset of the aborted transactions that may have records in a range.

        Raises OSError.
        """
        found: list[tuple[int, int]] = []
        for segment in self._aborted_from(start_offset):
            some, is_all = segment.transaction_index(self._resources.indexes).between(start_offset, end_offset)
            found += some
            if is_all:
                break
        return found

    def aborted_in(self, read: LogReadResult, start_offset: int, end_offset: int) -> list[tuple[int, int]]:
        """`aborted_between` for what a read from `start_offset` up to `end_offset` gave. Raises OSError."""
        segment = read.last_segment
        if segment is None or not self._with_aborted:
            return []
        piece = read.slices[-1]
        end = segment.offset_from(piece.position + piece.size, self._resources.indexes)
        if end is None:
            index = bisect_right(self._base_offsets, segment.base_offset)
            end = self._base_offsets[index] if index < len(self._base_offsets) else end_offset
        return self.aborted_between(start_offset, min(end, end_offset))

    def look_up_aborted(self, offset: int, max_bytes: int) -> LookUp | None:
        """What `aborted_in` would have to read after a read of so many bytes, to be called in a thread; None when
        nothing.

        That is every index up to the one that has all that matter: where an old transaction was open for longer than a
        segment is, it takes as many as there are segments.
        """
        if not self._with_aborted:
            return None
        indexes = self._resources.indexes
        end_offset = self._end_of_read(offset, max_bytes)
        segments = self._aborted_from(offset)
        for number, segment in enumerate(segments):
            index = segment.transaction_index_at_hand(indexes)
            if index is None:
                # One that is ahead of its file would be read as it was.
                unread = [each for each in segments[number:] if each.transaction_index_in_memory is None]
                return partial(_read_aborted, unread, end_offset, indexes)
            if index.is_last_before(end_offset):
                return None
        return None

    def _end_of_read(self, offset: int, max_bytes: int) -> int:
        """Where a read of so many bytes ends at the latest, by the sizes of the segments."""
        index = max(0, bisect_right(self._base_offsets, offset) - 1) + 1
        left = max_bytes
        while left > 0 and index < len(self._segments):
            left -= self._segments[index].size
            index += 1
        return self._base_offsets[index] if index < len(self._segments) else self.written.offset

    def _aborted_from(self, offset: int) -> list[LogSegment]:
        """The segments with aborted transactions from the one on that contains an offset."""
        first = self._base_offsets[max(0, bisect_right(self._base_offsets, offset) - 1)]
        return self._with_aborted[bisect_left(self._with_aborted, first, key=_base_offset) :]

    def read(self, offset: int, max_bytes: int, end_offset: int, *, min_one_batch: bool) -> LogReadResult:
        """File slices from the batch that contains `offset` up to `end_offset`, which is not above the written end.

        The first batch comes whole or, when it does not fit and `min_one_batch` does not ask for it, nothing does. The
        last may be cut off, as in Kafka, but for a large one, which is left out.

        Raises OSError, CorruptSegmentError.
        """
        files, indexes = self._resources.files, self._resources.indexes
        slices: list[FileSlice] = []
        last: LogSegment | None = None
        total = left_out = 0
        for index in range(max(0, bisect_right(self._base_offsets, offset) - 1), len(self._segments)):
            segment = self._segments[index]
            if segment.base_offset >= end_offset or (slices and total >= max_bytes):
                break
            end = self._end_position(index, end_offset)
            start, first_size = 0, 0
            if not slices:
                found = segment.find_batch(offset, end, files, indexes)
                if found is None:
                    continue
                start, first_size = found
            size = min(end - start, max_bytes - total)
            is_cut = size < end - start
            if size < first_size:
                if not min_one_batch:
                    break  # a piece of a batch is of no use to its reader
                size = first_size
            elif is_cut:
                whole = segment.end_of_whole_batches(start, start + size, indexes) - start
                if whole >= first_size:
                    left_out = size - whole
                    size = whole
            if size > 0:
                file = files.get(segment)
                slices.append(FileSlice(file.fd, start, size, file))
                total += size
                last = segment
            if is_cut:
                break
        return LogReadResult(tuple(slices), total, last, left_out) if slices else NOTHING_READ

    def _end_position(self, index: int, end_offset: int) -> int:
        """Where, in a segment, the batches below `end_offset` end; `end_offset` is not above the written end."""
        segment = self._segments[index]
        if segment.base_offset >= end_offset:
            return 0
        next_base = self._base_offsets[index + 1] if index + 1 < len(self._segments) else None
        if next_base is not None and next_base <= end_offset:
            return segment.size
        if end_offset == self.flushed.offset:
            return self.flushed.position
        if end_offset == self.written.offset:
            return self.written.position
        is_whole = next_base is not None and next_base <= self.written.offset
        end = segment.size if is_whole else self.written.position
        return segment.position_from(end_offset, end, self._resources.files, self._resources.indexes)


def _read_aborted(segments: Sequence[LogSegment], end_offset: int, indexes: IndexCache) -> None:
    """Have the transaction indexes in memory up to the one that has all below `end_offset`. BLOCKING."""
    for segment in segments:
        with suppress(OSError):  # what is wrong, the read itself says
            if indexes.transaction_index(segment).is_last_before(end_offset):
                return
