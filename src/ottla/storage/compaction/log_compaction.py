"""One pass of compaction over one log.

    dirty part      read, the newest offset of each key noted        until the table is full
    all closed      read, written to new segments without what is superseded, neighbours together as far as they fit
    each new one    swapped in as soon as it is on disk

Every step is a few megabytes in a thread, and in the kernel without the GIL. Between two steps the pass looks whether
the log is still there: when a segment it works on was deleted or replaced, it ends (`CompactionInterruptedError`).
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, NamedTuple, ParamSpec, TypeVar

from msgspec import Struct

from ottla.native import Compaction, DirtyKeys, StreamSnapshots
from ottla.storage.compaction.dirty_range import DirtyRange
from ottla.storage.compaction.segment_reader import BUFFER_BYTES, SegmentReader
from ottla.storage.compaction.segment_swap import choose, cleaned_path, discard, swap, swap_path
from ottla.storage.file_names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
from ottla.storage.log import Log
from ottla.storage.log_config import DECOMPRESSED_BYTES_MAX, LogConfig
from ottla.storage.log_resources import LogResources
from ottla.storage.log_segment import LogSegment
from ottla.storage.offset_index import RELATIVE_OFFSET_MAX, OffsetIndex
from ottla.storage.open_file import OpenFile
from ottla.storage.time_index import TimeIndex, TimestampOffset
from ottla.storage.transaction_index import AbortedTransaction, TransactionIndex

P = ParamSpec("P")
T = TypeVar("T")

PASS_BYTES_MAX: Final = 3 * DECOMPRESSED_BYTES_MAX + 2 * BUFFER_BYTES
"""What a pass takes beside its table of keys: a batch opened, written anew and compressed again, and two buffers. A log
with a batch that expands further is not compacted; nobody can write one to a compacted topic.
"""


class CompactionInterruptedError(Exception):
    """The log was deleted, cut or closed during the pass: what was not swapped in is thrown away."""


class CompactionResult(Struct, frozen=True):
    """What a pass did: where it ended, in offsets; what was read and what stayed, in bytes and records."""

    end_offset: int
    bytes_read: int
    bytes_kept: int
    records_read: int
    records_kept: int


class LogCompaction:
    """A pass; belongs to the event loop."""

    __slots__ = (
        "_aborted",
        "_bytes_kept",
        "_bytes_read",
        "_compaction",
        "_hold",
        "_is_wanted",
        "_keys",
        "_log",
        "_memory_bytes",
        "_now_ms",
        "_pace",
        "_range",
        "_remove_later",
        "_resources",
        "_secret",
        "_snapshots",
    )

    def __init__(
        self,
        log: Log,
        dirty: DirtyRange,
        resources: LogResources,
        *,
        memory_bytes: int,
        secret: bytes,
        now_ms: int,
        pace: Callable[[int], Awaitable[None]],
        remove_later: Callable[[list[str]], None],
        hold: Callable[[], AbstractAsyncContextManager[None]],
        is_wanted: Callable[[], bool],
        snapshots: StreamSnapshots | None = None,
    ) -> None:
        """The table of keys takes `memory_bytes` at most. `pace` is awaited with the bytes that were read or written,
        `remove_later` gets the files that were replaced. `hold` keeps others from changing the files of the log,
        `is_wanted` says whether it is still there to be compacted. With
        `snapshots` it is the log of a stream, and not keys but the newest of them decides what stays.
        """
        self._log = log
        self._range = dirty
        self._resources = resources
        self._now_ms = now_ms
        self._pace = pace
        self._hold = hold
        self._is_wanted = is_wanted
        self._remove_later = remove_later
        self._bytes_read = self._bytes_kept = 0
        self._memory_bytes = memory_bytes
        self._secret = secret
        self._keys: DirtyKeys
        self._snapshots = snapshots
        self._aborted: list[AbortedTransaction] = []
        self._compaction: Compaction | None = None

    async def run(self) -> CompactionResult:
        """Compact. Raises CompactionInterruptedError, KernelError and CorruptSegmentError for damage, OSError."""
        closed = [segment for segment in self._log.segments if segment.base_offset < self._range.uncleanable]
        self._aborted = await self._resources.in_thread(self._find_aborted, tuple(self._log.segments))
        dirty = [segment for segment, end in self._with_ends(closed) if end > self._range.first_dirty]
        if self._snapshots is not None:
            return await self._clean_by(self._snapshots, dirty, self._range.uncleanable, self._range.uncleanable)
        self._keys = self._new_keys(dirty)
        is_whole = await self._note_keys(dirty)
        seen_up_to = min(self._keys.latest_offset + 1, self._range.uncleanable)
        # An earlier pass may have left no batch right below the end: what was looked at reaches up to it nevertheless.
        end_offset = self._range.uncleanable if is_whole else seen_up_to
        if seen_up_to <= self._range.first_dirty:
            return self._result(end_offset)
        return await self._clean_by(self._keys, closed, seen_up_to, end_offset)

    async def _clean_by(
        self, rule: DirtyKeys | StreamSnapshots, closed: Sequence[LogSegment], seen_up_to: int, end_offset: int
    ) -> CompactionResult:
        self._compaction = Compaction(
            rule,
            now_ms=self._now_ms,
            delete_retention_ms=self._log.config.delete_retention_ms,
            end_offset=seen_up_to,
            last_batches={
                each.producer_id: (each.last_offset if each.last_offset >= 0 else None, each.producer_epoch)
                for each in self._log.producers
            },
            aborted=[(each.producer_id, each.first_offset) for each in self._aborted],
            max_decompressed_bytes=DECOMPRESSED_BYTES_MAX,
        )
        await self._clean(
            self._compaction, [each for each in self._with_ends(closed) if each[0].base_offset < end_offset]
        )
        return self._result(end_offset)

    def _find_aborted(self, segments: Sequence[LogSegment]) -> list[AbortedTransaction]:
        """The aborted transactions that may have records in what is compacted; markers may be in later segments."""
        found = (segment.transaction_index(self._resources.indexes) for segment in segments if segment.has_aborted)
        return [each for index in found for each in index if each.first_offset < self._range.uncleanable]

    def _new_keys(self, dirty: Sequence[LogSegment]) -> DirtyKeys:
        start_offset = dirty[0].base_offset if dirty else self._range.uncleanable
        return DirtyKeys(
            start_offset=self._range.first_dirty,
            keys_max=self._range.uncleanable - self._range.first_dirty,
            memory_bytes=self._memory_bytes,
            secret=self._secret,
            # Of those that ended before, a later transaction of the same producer would count as aborted.
            aborted=[
                (each.producer_id, each.first_offset) for each in self._aborted if each.last_offset >= start_offset
            ],
            max_decompressed_bytes=DECOMPRESSED_BYTES_MAX,
        )

    def _with_ends(self, closed: Sequence[LogSegment]) -> list[tuple[LogSegment, int]]:
        ends = [*(segment.base_offset for segment in closed[1:]), self._range.uncleanable]
        return list(zip(closed, ends, strict=True))

    def _result(self, end_offset: int) -> CompactionResult:
        compaction = self._compaction
        records = (0, 0) if compaction is None else (compaction.records_read, compaction.records_kept)
        return CompactionResult(end_offset, self._bytes_read, self._bytes_kept, *records)

    async def _note_keys(self, dirty: Sequence[LogSegment]) -> bool:
        """Whether there was room for the keys of all of them."""
        for segment in dirty:
            reader = await self._step([segment], SegmentReader, self._resources.disk, segment)
            while not reader.is_at_end:
                consumed, is_full = await self._step([segment], self._note_some, reader)
                if is_full:
                    return False
                await self._pace(consumed)
        return True

    def _note_some(self, reader: SegmentReader) -> tuple[int, bool]:
        consumed, is_full = self._keys.add(reader.read())
        if not is_full:
            reader.consumed(consumed)
        return consumed, is_full

    async def _clean(self, compaction: Compaction, closed: Sequence[tuple[LogSegment, int]]) -> None:
        """Make new segments of closed ones, each of as many as fit, and have them take their places."""
        group: list[LogSegment] = []
        new = LogSegment("", 0)
        aborted_count = 0
        try:
            for segment, end_offset in closed:
                if not _fits(new, group, segment, end_offset, self._log.config):
                    await self._finish(compaction, group, new, aborted_count)
                    aborted_count = len(compaction.aborted_kept)
                    new, group = LogSegment(segment.directory, segment.base_offset), []
                    compaction.begin_segment(new.base_offset, self._log.config.index_interval_bytes)
                    await self._step([segment], self._begin, new)
                group.append(segment)
                await self._add(compaction, group, new)
            await self._finish(compaction, group, new, aborted_count)
        except BaseException:
            async with self._hold():
                # Once it is in the log its files are the log's; in the directory of a deleted log there may be another.
                if group and not self._log.is_deleted and new not in self._log.segments:
                    await self._resources.in_thread(discard, self._resources.disk, new)
            raise

    async def _add(self, compaction: Compaction, group: Sequence[LogSegment], new: LogSegment) -> None:
        """Write what stays of the last segment of a group to the new one."""
        reader = await self._step(group, SegmentReader, self._resources.disk, group[-1])
        while not reader.is_at_end:
            read, kept = await self._step(group, self._clean_some, compaction, reader, new)
            new.size += kept
            self._bytes_read += read
            self._bytes_kept += kept
            await self._pace(read + kept)

    async def _finish(
        self, compaction: Compaction, group: Sequence[LogSegment], new: LogSegment, aborted_before: int
    ) -> None:
        if group:
            aborted = [self._aborted[place] for place in compaction.aborted_kept[aborted_before:]]
            await self._step(group, self._complete, compaction, group, new, aborted)
            await self._swap(group, new)

    def _begin(self, new: LogSegment) -> None:
        discard(self._resources.disk, new)
        self._resources.disk.write(cleaned_path(new, LOG_SUFFIX), b"")

    def _clean_some(self, compaction: Compaction, reader: SegmentReader, new: LogSegment) -> tuple[int, int]:
        consumed, kept = compaction.clean(reader.read())
        reader.consumed(consumed)
        if kept:
            self._resources.disk.append(cleaned_path(new, LOG_SUFFIX), kept)
        return consumed, len(kept)

    def _complete(
        self,
        compaction: Compaction,
        group: Sequence[LogSegment],
        new: LogSegment,
        aborted: Sequence[AbortedTransaction],
    ) -> None:
        """Write the indexes; the file is as old as the youngest it is made of, as records without a time are."""
        offset_index, time_index, largest = compaction.end_segment()
        disk = self._resources.disk
        disk.write(cleaned_path(new, INDEX_SUFFIX), offset_index)
        disk.write(cleaned_path(new, TIME_INDEX_SUFFIX), time_index)
        if any(segment.has_aborted for segment in group):
            # Also without any: whoever completes the swap after a crash goes by it that the old one is to go.
            index = TransactionIndex(b"".join(each.encode() for each in aborted))
            disk.write(cleaned_path(new, TRANSACTION_INDEX_SUFFIX), index.to_bytes())
            if aborted:
                new.keep_aborted(index)
        disk.set_modified_ms(cleaned_path(new, LOG_SUFFIX), max(disk.modified_ms(each.log_path) for each in group))
        new.largest_timestamp = TimestampOffset(*largest)

    async def _swap(self, group: Sequence[LogSegment], new: LogSegment) -> None:
        """Have readers find the new segment instead of the old ones, then give it their names.

        Until it has them, its file is held open and its indexes are in memory, so nobody looks for it by name.
        """
        log, resources = self._log, self._resources
        async with self._hold():
            self._require(group)
            pinned = await resources.in_thread(self._choose, new)
            if self._is_changed(group):
                await resources.in_thread(discard, resources.disk, new)
                raise CompactionInterruptedError
            resources.files.pin(new, pinned.file)
            new.keep_indexes(pinned.offset_index, pinned.time_index)
            log.replace_segments(group, new)
            merged = [segment for segment in group[1:] if not log.snapshots.is_kept(segment.base_offset)]
            snapshots = [segment.path(SNAPSHOT_SUFFIX) for segment in merged]
            obsolete = await resources.in_thread(swap, resources.disk, group, new, snapshots)
            new.release_memory()
            resources.files.unpin(new)
        self._remove_later(obsolete)

    def _choose(self, new: LogSegment) -> "_Pinned":
        disk = self._resources.disk
        choose(disk, new)
        return _Pinned(
            OpenFile(disk, swap_path(new, LOG_SUFFIX)),
            OffsetIndex(new.base_offset, disk.read_bytes(swap_path(new, INDEX_SUFFIX))),
            TimeIndex(new.base_offset, disk.read_bytes(swap_path(new, TIME_INDEX_SUFFIX))),
        )

    async def _step(self, segments: Sequence[LogSegment], work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do some of the work in a thread, while nobody else changes which files the log has."""
        async with self._hold():
            self._require(segments)
            return await self._resources.in_thread(work, *args, **kwargs)

    def _require(self, segments: Sequence[LogSegment]) -> None:
        if not self._is_wanted() or self._is_changed(segments):
            raise CompactionInterruptedError

    def _is_changed(self, segments: Sequence[LogSegment]) -> bool:
        """Whether any is deleted, or is written to again: the log was truncated to it."""
        return any(segment.is_gone or segment is self._log.segments.newest for segment in segments)


def _fits(
    new: LogSegment, group: Sequence[LogSegment], segment: LogSegment, end_offset: int, config: LogConfig
) -> bool:
    """Whether one more segment, which ends at `end_offset`, fits a new one of a group, whatever stays of it."""
    return (
        bool(group)
        and new.size + segment.size <= config.segment_bytes
        and end_offset - 1 - new.base_offset <= RELATIVE_OFFSET_MAX
    )


class _Pinned(NamedTuple):
    """A segment as it is read until its files have their names."""

    file: OpenFile
    offset_index: OffsetIndex
    time_index: TimeIndex
